//! The checker against hand-computed costs and a second, naive evaluation of the definition.

use std::collections::BTreeSet;

use relayout_layouts::{CheckError, ConfigId, LayoutId, Problem, TensorId, check};

use crate::support::{X, all_assignments, builder, operator, small_problems, tensor};

#[test]
fn each_distinct_request_is_paid_once() {
    // One operator reads `a` twice in layouts 1 and 2, another reads it in layout 1.
    let mut b = builder();
    b.tensor(tensor("a", &[&[0, 5, 7], &[1, 0, 1], &[1, 1, 0]]));
    b.tensor(tensor("b", &[&[0]]));
    b.tensor(tensor("c", &[&[0]]));
    b.operator(operator("source", &[], 0, &[(&[], 0, 10)]));
    b.operator(operator(
        "twice",
        &[0, 0],
        1,
        &[(&[1, 2], 0, 20), (&[1, 1], 0, 30)],
    ));
    b.operator(operator("once", &[0], 2, &[(&[1], 0, 40)]));
    let p = b.build().unwrap();
    let two = check(&p, &[0, 0, 0].map(ConfigId)).unwrap();
    assert_eq!((two.operator_cost, two.transpose_cost, two.cost), (70, 12, 82));
    let requested: Vec<_> = two.conversions.iter().map(|c| (c.from, c.to, c.cost)).collect();
    assert_eq!(
        requested,
        [(LayoutId(0), LayoutId(1), 5), (LayoutId(0), LayoutId(2), 7)]
    );
    let one = check(&p, &[0, 1, 0].map(ConfigId)).unwrap();
    assert_eq!(
        (one.operator_cost, one.transpose_cost, one.conversions.len()),
        (80, 5, 1)
    );
}

#[test]
fn wrong_assignments_are_refused() {
    let mut b = builder();
    b.tensor(tensor("a", &[&[0, X], &[2, 0]]));
    b.tensor(tensor("b", &[&[0]]));
    b.operator(operator("source", &[], 0, &[(&[], 0, 1), (&[], 1, 1)]));
    b.operator(operator("sink", &[0], 1, &[(&[1], 0, 0)]));
    let p = b.build().unwrap();
    assert_eq!(
        check(&p, &[ConfigId(0)]),
        Err(CheckError::Length {
            found: 1,
            expected: 2
        })
    );
    let unknown = check(&p, &[2, 0].map(ConfigId)).unwrap_err().to_string();
    assert_eq!(
        unknown,
        "assignment[0]: configuration 2 does not exist; operator \"source\" has 2"
    );
    let impossible = check(&p, &[0, 0].map(ConfigId)).unwrap_err().to_string();
    assert_eq!(
        impossible,
        "tensor 0 (\"a\"): no conversion from layout 0 (operator 0) to 1 (operator 1)"
    );
    assert_eq!(check(&p, &[1, 0].map(ConfigId)).unwrap().cost, 1);
}

/// The objective, tensor by tensor, with none of the checker's structure.
fn by_definition(p: &Problem, assignment: &[ConfigId]) -> Option<u64> {
    let mut total = 0;
    for (o, op) in p.operators().enumerate() {
        total += op.config(assignment[o]).cost;
    }
    for t in 0..p.tensors().len() as u32 {
        let (mut produced, mut requested) = (None, BTreeSet::new());
        for (o, op) in p.operators().enumerate() {
            let config = op.config(assignment[o]);
            if op.output == TensorId(t) {
                produced = Some(config.output);
            }
            for (i, &input) in op.inputs.iter().enumerate() {
                if input == TensorId(t) {
                    requested.insert(config.inputs[i]);
                }
            }
        }
        for layout in requested {
            total += p.tensor(TensorId(t)).transpose(produced?, layout)?;
        }
    }
    Some(total)
}

#[test]
fn the_checker_equals_the_definition() {
    for (seed, problem) in small_problems(60) {
        for assignment in all_assignments(&problem).into_iter().take(300) {
            let checked = check(&problem, &assignment).ok();
            let expected = by_definition(&problem, &assignment);
            assert_eq!(
                checked.as_ref().map(|c| c.cost),
                expected,
                "seed {seed}, assignment {assignment:?}"
            );
            if let Some(c) = checked {
                assert_eq!(c.cost, c.operator_cost + c.transpose_cost);
                assert_eq!(
                    c.transpose_cost,
                    c.conversions.iter().map(|k| k.cost).sum::<u64>()
                );
            }
        }
    }
}
