//! The seed's hardness reductions (section 3.1), as instances.

use super::{GenerateError, tensor, tuples, within};
use crate::problem::{ConfigSpec, OperatorSpec, Problem, ProblemBuilder};
use crate::rng::SplitMix64;

/// A literal of a 3-SAT clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Literal3 {
    /// The variable, counted from 0.
    pub variable: usize,
    /// Whether it is negated.
    pub negated: bool,
}

/// Theorem 1: the instance's optimum is 0 exactly when the formula is satisfiable. A variable is a source's tensor with
/// layouts T and F; a clause is an operator on its three variables that costs 1 where it is false.
///
/// # Errors
/// When a clause names a variable that does not exist.
pub fn sat(name: &str, variables: usize, clauses: &[[Literal3; 3]]) -> Result<Problem, GenerateError> {
    let mut b = ProblemBuilder::new(name, "1");
    for v in 0..variables {
        source(&mut b, v, ["T", "F"]);
    }
    for (i, clause) in clauses.iter().enumerate() {
        for l in clause {
            let last = (variables as u64).saturating_sub(1);
            within(
                "variable of a clause",
                l.variable as u64,
                0..=last,
                "below the number of variables",
            )?;
        }
        let output = b.tensor(tensor(format!("c{i}"), vec!["-".into()], |_, _| None));
        let configs = tuples(&[2, 2, 2]).into_iter().map(|inputs| {
            let satisfied = clause
                .iter()
                .zip(&inputs)
                .any(|(l, &layout)| l.negated == (layout == 1));
            ConfigSpec {
                inputs,
                output: 0,
                cost: u64::from(!satisfied),
                terms: None,
            }
        });
        let configs = configs.collect();
        let inputs = clause.iter().map(|l| l.variable).collect();
        b.operator(OperatorSpec {
            name: format!("clause{i}"),
            inputs,
            output,
            configs,
        });
    }
    Ok(b.build()?)
}

/// Theorem 3: the instance's optimum is the least number of vertices whose removal makes the graph bipartite. A vertex is
/// a source's tensor with layouts A and B, an edge an operator that needs its ends in different layouts.
///
/// # Errors
/// When an edge names a vertex that does not exist.
pub fn oct(name: &str, vertices: usize, edges: &[(usize, usize)]) -> Result<Problem, GenerateError> {
    let mut b = ProblemBuilder::new(name, "1");
    for v in 0..vertices {
        source(&mut b, v, ["A", "B"]);
    }
    for &(u, v) in edges {
        for end in [u, v] {
            within(
                "end of an edge",
                end as u64,
                0..=(vertices as u64).saturating_sub(1),
                "below the number of vertices",
            )?;
        }
        let output = b.tensor(tensor(format!("e{u}-{v}"), vec!["-".into()], |_, _| None));
        let config = |inputs: [usize; 2]| ConfigSpec {
            inputs: inputs.into(),
            output: 0,
            cost: 0,
            terms: None,
        };
        let configs = vec![config([0, 1]), config([1, 0])];
        b.operator(OperatorSpec {
            name: format!("matmul{u}-{v}"),
            inputs: vec![u, v],
            output,
            configs,
        });
    }
    Ok(b.build()?)
}

fn source(b: &mut ProblemBuilder, v: usize, layouts: [&str; 2]) {
    let output = b.tensor(tensor(
        format!("t{v}"),
        layouts.map(String::from).into(),
        |_, _| Some(1),
    ));
    let configs = (0..2)
        .map(|output| ConfigSpec {
            output,
            ..ConfigSpec::default()
        })
        .collect();
    b.operator(OperatorSpec {
        name: format!("s{v}"),
        inputs: Vec::new(),
        output,
        configs,
    });
}

/// A uniform random 3-SAT formula: three different variables per clause, each negated with probability one half.
///
/// # Errors
/// When there are fewer than three variables.
pub fn random_3sat(variables: usize, clauses: usize, seed: u64) -> Result<Vec<[Literal3; 3]>, GenerateError> {
    within(
        "variables",
        variables as u64,
        3..=u64::from(u32::MAX),
        "at least 3",
    )?;
    let mut rng = SplitMix64::new(seed);
    let mut clause = || {
        let mut chosen: Vec<usize> = Vec::with_capacity(3);
        while chosen.len() < 3 {
            let v = rng.below(variables as u64) as usize;
            if !chosen.contains(&v) {
                chosen.push(v);
            }
        }
        [0, 1, 2].map(|i| Literal3 {
            variable: chosen[i],
            negated: rng.percent(50),
        })
    };
    Ok((0..clauses).map(|_| clause()).collect())
}

/// A random simple graph in which each pair is an edge with probability `percent` / 100.
pub fn random_graph(vertices: usize, percent: u64, seed: u64) -> Vec<(usize, usize)> {
    let mut rng = SplitMix64::new(seed);
    let pairs = (0..vertices).flat_map(|u| (u + 1..vertices).map(move |v| (u, v)));
    pairs.filter(|_| rng.percent(percent)).collect()
}
