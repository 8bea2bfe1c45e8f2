//! What is exported, parsed back and evaluated.

use std::collections::{BTreeMap, HashMap};

use relayout_layouts::decomposition::{TreeDecomposition, treewidth};
use relayout_layouts::encoding::{Encoding, Meaning};
use relayout_layouts::graph::Graph;
use relayout_layouts::{Budget, ConfigId, Problem, check, export};

use crate::support::{all_assignments, small_problems};

fn text(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut bytes = Vec::new();
    write(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// The least violated weight over the request variables, given an assignment; `None` when a hard clause fails.
/// Request variables occur positively in hard clauses only, so the least true set is what those force.
fn wcnf_cost(problem: &Problem, wcnf: &str, assignment: &[ConfigId]) -> Option<u64> {
    let clauses: Vec<(Option<u64>, Vec<i64>)> = wcnf
        .lines()
        .filter(|l| !l.starts_with('c'))
        .map(|line| {
            let mut words = line.split_whitespace();
            let weight = words.next().unwrap().parse().ok();
            let literals: Vec<i64> = words.map(|w| w.parse().unwrap()).collect();
            assert_eq!(literals.last(), Some(&0));
            (weight, literals[..literals.len() - 1].to_vec())
        })
        .collect();
    let mut model = HashMap::new();
    let mut variable = 0i64;
    for (op, c) in problem.operators().zip(assignment) {
        for k in 0..op.num_configs() {
            variable += 1;
            model.insert(variable, k == c.index());
        }
    }
    let operators = variable;
    for (_, clause) in clauses
        .iter()
        .filter(|(w, c)| w.is_none() && c.len() == 2 && c[0] < 0 && c[1] > operators)
    {
        let forced = model[&-clause[0]] || model.get(&clause[1]).copied().unwrap_or(false);
        model.insert(clause[1], forced);
    }
    let holds = |l: i64| model.get(&l.abs()).copied().unwrap_or(false) == (l > 0);
    let mut cost = 0;
    for (weight, clause) in &clauses {
        if !clause.iter().any(|&l| holds(l)) {
            cost += (*weight)?;
        }
    }
    Some(cost)
}

#[test]
fn the_weight_a_wcnf_model_violates_is_the_objective() {
    for (seed, problem) in small_problems(40) {
        let wcnf = text(|out| export::wcnf(&problem, out));
        assert!(
            !wcnf.lines().any(|l| l.starts_with("0 ")),
            "a soft clause of weight zero"
        );
        for assignment in all_assignments(&problem).into_iter().take(60) {
            let expected = check(&problem, &assignment).ok().map(|c| c.cost);
            assert_eq!(
                wcnf_cost(&problem, &wcnf, &assignment),
                expected,
                "seed {seed}, {assignment:?}"
            );
        }
    }
}

/// Evaluates a cost function network with integer costs: unary and binary functions as full tables.
fn cfn_cost(cfn: &serde_json::Value, values: &BTreeMap<&str, usize>) -> Option<u64> {
    let top: u64 = cfn["problem"]["mustbe"]
        .as_str()?
        .strip_prefix('<')?
        .parse()
        .ok()?;
    let size = |v: &str| cfn["variables"][v].as_u64().unwrap() as usize;
    let mut total = 0u64;
    for function in cfn["functions"].as_object()?.values() {
        let scope: Vec<&str> = function["scope"]
            .as_array()?
            .iter()
            .map(|v| v.as_str().unwrap())
            .collect();
        let costs = function["costs"].as_array()?;
        assert_eq!(costs.len(), scope.iter().map(|v| size(v)).product::<usize>());
        let index = scope.iter().fold(0, |i, v| i * size(v) + values[v]);
        total += costs[index].as_u64()?;
    }
    (total < top).then_some(total)
}

#[test]
fn the_least_cost_of_the_cfn_is_the_objective() {
    for (seed, problem) in small_problems(40) {
        let cfn: serde_json::Value = serde_json::from_str(&text(|out| export::cfn(&problem, out))).unwrap();
        let names: Vec<String> = cfn["variables"].as_object().unwrap().keys().cloned().collect();
        for assignment in all_assignments(&problem).into_iter().take(60) {
            // A hub is 1 exactly when requested: then every function takes its least value.
            let requested = |name: &str| {
                let (t, l) = name[1..].split_once('_').unwrap();
                let wanted = (t.parse().unwrap(), l.parse().unwrap());
                problem.operators().zip(&assignment).any(|(op, &c)| {
                    op.inputs
                        .iter()
                        .zip(op.config(c).inputs)
                        .any(|(t, l)| (t.0, l.0) == wanted)
                })
            };
            let value = |name: &str| match name.strip_prefix('x') {
                Some(o) => assignment[o.parse::<usize>().unwrap()].index(),
                None => usize::from(requested(name)),
            };
            let values = names.iter().map(|n| (n.as_str(), value(n))).collect();
            let expected = check(&problem, &assignment).ok().map(|c| c.cost);
            assert_eq!(cfn_cost(&cfn, &values), expected, "seed {seed}, {assignment:?}");
        }
    }
}

#[test]
fn transposes_are_encoded_per_producer_configuration_and_other_layout() {
    use crate::support::{X, builder, operator, tensor};
    let mut b = builder();
    b.tensor(tensor("a", &[&[0, 5, 0], &[6, 0, X], &[1, 1, 0]]));
    b.tensor(tensor("b", &[&[0]]));
    b.operator(operator("p", &[], 0, &[(&[], 0, 0), (&[], 1, 4)]));
    b.operator(operator(
        "c",
        &[0],
        1,
        &[(&[0], 0, 0), (&[1], 0, 0), (&[2], 0, 0)],
    ));
    let e = Encoding::new(&b.build().unwrap());
    assert_eq!(
        e.meanings
            .iter()
            .filter(|m| matches!(m, Meaning::Requested(..)))
            .count(),
        3
    );
    let soft: Vec<(Vec<i64>, u64)> = e
        .soft
        .iter()
        .map(|(c, w)| (c.iter().map(|l| l.dimacs()).collect(), *w))
        .collect();
    // Zero weights are dropped: p's first configuration, the free conversion 0 to 2.
    assert_eq!(soft, [(vec![-1, -7], 5), (vec![-2], 4), (vec![-2, -6], 6)]);
    // The impossible conversion 1 to 2 is hard.
    assert!(e.hard.iter().any(|c| c.iter().map(|l| l.dimacs()).eq([-2, -8])));
}

#[test]
fn graphs_and_decompositions_are_in_pace_form() {
    for (_, problem) in small_problems(20) {
        let gr = text(|out| export::gr(&problem, out));
        let graph = Graph::of(&problem);
        let header = gr.lines().find(|l| l.starts_with('p')).unwrap();
        assert_eq!(header, format!("p tw {} {}", graph.len(), graph.edges().count()));
        let edges = gr.lines().filter(|l| !l.starts_with(['c', 'p'])).map(|l| {
            let (u, v) = l.split_once(' ').unwrap();
            (u.parse::<u32>().unwrap() - 1, v.parse::<u32>().unwrap() - 1)
        });
        assert_eq!(Graph::new(graph.len(), edges), graph);

        let width = treewidth(&graph, &Budget::default());
        let tree = TreeDecomposition::from_order(&graph, &width.order);
        let td = text(|out| export::td(&graph, &tree, out));
        let mut lines = td.lines();
        let n = graph.len();
        assert_eq!(lines.next().unwrap(), format!("s td {n} {} {n}", width.upper + 1));
        let bags: Vec<Vec<u32>> = lines
            .by_ref()
            .take(n)
            .map(|l| {
                l.split(' ')
                    .skip(2)
                    .map(|v| v.parse::<u32>().unwrap() - 1)
                    .collect()
            })
            .collect();
        let links: Vec<(u32, u32)> = lines
            .map(|l| l.split_once(' ').unwrap())
            .map(|(u, v)| (u.parse::<u32>().unwrap() - 1, v.parse::<u32>().unwrap() - 1))
            .collect();
        assert_eq!(links.len(), n - 1, "a tree has one edge less than nodes");
        for (u, v) in graph.edges() {
            assert!(bags.iter().any(|b| b.contains(&u) && b.contains(&v)));
        }
        for v in 0..n as u32 {
            let holders: Vec<u32> = (0..n as u32).filter(|&b| bags[b as usize].contains(&v)).collect();
            let inside = links
                .iter()
                .filter(|(a, b)| holders.contains(a) && holders.contains(b))
                .count();
            assert_eq!(inside, holders.len() - 1, "the bags of a vertex are one subtree");
        }
    }
}

#[test]
fn dot_escapes_names() {
    use crate::support::{builder, operator, tensor};
    let mut b = builder();
    b.tensor(tensor("a \"quoted\" \\ name", &[&[0]]));
    b.tensor(tensor("b", &[&[0]]));
    b.operator(operator("p", &[], 0, &[(&[], 0, 0)]));
    b.operator(operator("c", &[0], 1, &[(&[0], 0, 0)]));
    let dot = text(|out| export::dot(&b.build().unwrap(), out));
    expect_test::expect![[r#"
        digraph "test" {
          node [shape=box];
          o0 [label="p\n1 configurations"];
          o1 [label="c\n1 configurations"];
          o0 -> o1 [label="a \"quoted\" \\ name\nl0"];
        }
    "#]]
    .assert_eq(&dot);
}
