//! The builder: one test per rule, each with the path of the fault.

use relayout_layouts::{ConfigSpec, OpId, ProblemBuilder, TensorSpec};

use crate::support::{X, builder, operator, tensor};

/// A source and a consumer; each test breaks one thing.
fn valid() -> ProblemBuilder {
    let mut b = builder();
    b.tensor(tensor("a", &[&[0, 3], &[4, 0]]));
    b.tensor(tensor("b", &[&[0]]));
    b.operator(operator("source", &[], 0, &[(&[], 0, 1), (&[], 1, 2)]));
    b.operator(operator("sink", &[0], 1, &[(&[1], 0, 0)]));
    b
}

fn fault(change: impl FnOnce(&mut ProblemBuilder)) -> String {
    let mut b = valid();
    change(&mut b);
    b.build().expect_err("the change makes it invalid").to_string()
}

#[test]
fn the_unbroken_problem_is_valid() {
    let p = valid().build().unwrap();
    assert_eq!(p.topological_order(), [OpId(0), OpId(1)]);
    assert_eq!(p.sum_of_minimum_costs(), 1);
}

#[test]
fn every_rule_is_checked_and_named_with_its_path() {
    let cases: Vec<(String, &str)> = vec![
        (
            fault(|b| b.tensors[0] = tensor("a", &[])),
            "tensors[0].layouts: a tensor needs at least one layout",
        ),
        (
            fault(|b| b.tensors[0].layouts[1] = "l0".into()),
            "tensors[0].layouts[1]: layout \"l0\" is listed twice in this tensor",
        ),
        (
            fault(|b| b.tensors[0].transpose.truncate(1)),
            "tensors[0].transpose: the transpose matrix has 1 rows or columns here, expected 2 (one per layout)",
        ),
        (
            fault(|b| b.tensors[0].transpose[1].push(None)),
            "tensors[0].transpose[1]: the transpose matrix has 3 rows or columns here, expected 2 (one per layout)",
        ),
        (
            fault(|b| b.tensors[0].transpose[1][1] = None),
            "tensors[0].transpose[1][1]: the diagonal of a transpose matrix must be 0, found null",
        ),
        (
            fault(|b| b.operators[1].inputs[0] = 7),
            "operators[1].inputs[0]: no tensor has index 7; there are 2",
        ),
        (
            fault(|b| b.operators[1].output = 2),
            "operators[1].output: no tensor has index 2; there are 2",
        ),
        (
            fault(|b| b.operators[1].output = 0),
            "operators[1].output: tensor 0 has two producers, operators 0 and 1",
        ),
        (
            fault(|b| _ = b.tensor(tensor("c", &[&[0]]))),
            "tensors[2]: no operator produces this tensor",
        ),
        (
            fault(|b| b.operators[1].configs[0].inputs.clear()),
            "operators[1].configs[0].in: found 0 input layouts, expected 1 (one per input)",
        ),
        (
            fault(|b| b.operators[1].configs[0].inputs[0] = 2),
            "operators[1].configs[0].in[0]: no layout has index 2 in tensor 0; it has 2",
        ),
        (
            fault(|b| b.operators[0].configs[1].output = 9),
            "operators[0].configs[1].out: no layout has index 9 in tensor 0; it has 2",
        ),
        (
            fault(|b| {
                b.operators[0].configs.push(ConfigSpec {
                    output: 1,
                    cost: 5,
                    ..ConfigSpec::default()
                })
            }),
            "operators[0].configs[2]: the same layouts are already listed in configuration 1",
        ),
        (
            fault(|b| b.tensors[0].constant = true),
            "tensors[0].transpose[0][1]: the transpose matrix of a constant must be all zero, found 3",
        ),
        (
            fault(|b| b.tensors[1].constant = true),
            "tensors[1].constant: a constant must come from an operator without inputs; operator 1 has 1",
        ),
        (
            fault(|b| b.tensors[0].bundle = true),
            "tensors[0].transpose[0][1]: a bundle cannot be converted: expected null, found 3",
        ),
        (
            fault(|b| b.operators[0].configs[0].cost = X),
            "operators[0].configs: the dearest choices sum to more",
        ),
        (
            fault(|b| b.tensors[0].transpose[0][1] = Some(X)),
            "tensors[0].transpose: the dearest choices sum to more",
        ),
    ];
    for (found, expected) in cases {
        assert!(
            found.starts_with(expected),
            "found {found:?}, expected {expected:?}"
        );
    }
}

#[test]
fn projections_are_checked() {
    let bundle = || TensorSpec {
        bundle: true,
        ..tensor("a", &[&[0, X], &[X, 0]])
    };
    let costly = fault(|b| {
        b.tensors[0] = bundle();
        b.operators[1].configs[0].cost = 2;
    });
    assert_eq!(
        costly,
        "operators[1].configs[0].cost: a projection costs nothing, found 2"
    );
    let choice = fault(|b| {
        b.tensors[0] = bundle();
        b.tensors[1] = tensor("b", &[&[0, 1], &[1, 0]]);
        b.operators[1].configs.push(ConfigSpec {
            inputs: vec![1],
            output: 1,
            ..ConfigSpec::default()
        });
    });
    assert!(
        choice.starts_with("operators[1].configs[1]: a projection has one configuration per layout"),
        "{choice}"
    );
    let inputs = fault(|b| {
        b.tensors[0] = bundle();
        b.operators[1] = operator("sink", &[0, 0], 1, &[(&[0, 0], 0, 0)]);
    });
    assert!(
        inputs.starts_with("operators[1].inputs: an operator that reads bundle 0 is a projection"),
        "{inputs}"
    );
}

#[test]
fn a_cycle_is_named_by_an_operator_on_it() {
    let mut b = builder();
    for name in ["a", "b", "c"] {
        b.tensor(tensor(name, &[&[0]]));
    }
    // Operators 0 and 1 feed each other; 2 hangs below them and is not on the cycle.
    b.operator(operator("hanging", &[1], 0, &[(&[0], 0, 0)]));
    b.operator(operator("x", &[2], 1, &[(&[0], 0, 0)]));
    b.operator(operator("y", &[1], 2, &[(&[0], 0, 0)]));
    let message = b.build().unwrap_err().to_string();
    assert!(
        message.contains("operator 1 ") || message.contains("operator 2 "),
        "{message}"
    );
}

#[test]
fn topological_order_is_kahn_with_the_smallest_index_first() {
    // 0 reads the output of 3; 1, 2, 3 are sources; 4 reads 1.
    let mut b = builder();
    for t in 0..5 {
        b.tensor(tensor(&format!("t{t}"), &[&[0]]));
    }
    b.operator(operator("o0", &[3], 0, &[(&[0], 0, 0)]));
    b.operator(operator("o1", &[], 1, &[(&[], 0, 0)]));
    b.operator(operator("o2", &[], 2, &[(&[], 0, 0)]));
    b.operator(operator("o3", &[], 3, &[(&[], 0, 0)]));
    b.operator(operator("o4", &[1], 4, &[(&[0], 0, 0)]));
    assert_eq!(b.build().unwrap().topological_order(), [1, 2, 3, 0, 4].map(OpId));
}

#[test]
fn uses_list_every_argument_position() {
    let mut b = valid();
    b.operators[1] = operator("sink", &[0, 0], 1, &[(&[1, 0], 0, 0)]);
    let p = b.build().unwrap();
    assert_eq!(
        p.uses(relayout_layouts::TensorId(0)),
        [(OpId(1), 0), (OpId(1), 1)]
    );
}

#[test]
fn the_hash_sees_what_strategies_see_and_nothing_else() {
    let hash = |change: &dyn Fn(&mut ProblemBuilder)| {
        let mut b = valid();
        change(&mut b);
        b.build().unwrap().hash()
    };
    let base = hash(&|_| {});
    assert_eq!(base.len(), 32);
    assert_eq!(base, hash(&|b| b.name = "other".into()));
    assert_eq!(base, hash(&|b| b.tensors[0].name = "other".into()));
    let changes: [&dyn Fn(&mut ProblemBuilder); 6] = [
        &|b| b.unit = "ns".into(),
        &|b| b.tensors[0].transpose[0][1] = Some(9),
        &|b| b.tensors[0].transpose[0][1] = None,
        &|b| b.operators[0].configs[0].cost = 9,
        &|b| b.operators[0].configs.swap(0, 1),
        &|b| b.hints = Some(crate::support::bare_hints(b)),
    ];
    for (i, change) in changes.into_iter().enumerate() {
        assert_ne!(base, hash(change), "change {i} was not seen");
    }
}
