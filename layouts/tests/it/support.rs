//! Shared by the tests: brute force straight from the definition, and small ways to write problems.

use relayout_layouts::generate::{Random, random};
use relayout_layouts::hints::{Hints, LayoutHints, OperatorHints, TensorHints};
use relayout_layouts::{ConfigId, ConfigSpec, OperatorSpec, Problem, ProblemBuilder, TensorSpec, check};

/// Layouts `l0, l1, …` and this matrix; `X` stands for an impossible conversion.
pub fn tensor(name: &str, matrix: &[&[u64]]) -> TensorSpec {
    TensorSpec {
        name: name.into(),
        layouts: (0..matrix.len()).map(|i| format!("l{i}")).collect(),
        transpose: matrix
            .iter()
            .map(|row| row.iter().map(|&c| (c != X).then_some(c)).collect())
            .collect(),
        ..TensorSpec::default()
    }
}

pub const X: u64 = u64::MAX;

/// An operator; each configuration is (input layouts, output layout, cost).
pub fn operator(
    name: &str,
    inputs: &[usize],
    output: usize,
    configs: &[(&[usize], usize, u64)],
) -> OperatorSpec {
    let config = |&(i, o, cost): &(&[usize], usize, u64)| ConfigSpec {
        inputs: i.into(),
        output: o,
        cost,
        terms: None,
    };
    OperatorSpec {
        name: name.into(),
        inputs: inputs.into(),
        output,
        configs: configs.iter().map(config).collect(),
    }
}

pub fn builder() -> ProblemBuilder {
    ProblemBuilder::new("test", "1")
}

/// The cheapest cost over all assignments, by trying each; `None` when none is possible.
pub fn brute_force(problem: &Problem) -> Option<u64> {
    all_assignments(problem)
        .into_iter()
        .filter_map(|a| check(problem, &a).ok())
        .map(|c| c.cost)
        .min()
}

/// Hints of the right shape that say nothing.
pub fn bare_hints(b: &ProblemBuilder) -> Hints {
    let tensor = |t: &TensorSpec| TensorHints {
        rank: 0,
        size: 1,
        layouts: vec![LayoutHints::default(); t.layouts.len()],
    };
    Hints {
        tensors: b.tensors.iter().map(tensor).collect(),
        operators: vec![OperatorHints::default(); b.operators.len()],
        rules: Vec::new(),
    }
}

/// Every assignment, possible or not.
pub fn all_assignments(problem: &Problem) -> Vec<Vec<ConfigId>> {
    let mut all = vec![Vec::new()];
    for op in problem.operators() {
        let extend = |a: Vec<ConfigId>| {
            (0..op.num_configs() as u32).map(move |c| [a.clone(), vec![ConfigId(c)]].concat())
        };
        all = all.into_iter().flat_map(extend).collect();
    }
    all
}

/// Number of assignments, saturating.
pub fn assignments(problem: &Problem) -> u64 {
    problem
        .operators()
        .fold(1, |n: u64, op| n.saturating_mul(op.num_configs() as u64))
}

/// A small random problem with all oddities, few enough assignments for brute force; `None` when it came out larger.
pub fn small(seed: u64) -> Option<Problem> {
    let p = Random {
        operators: 2 + (seed % 6) as usize,
        window: 2 + (seed % 3) as usize,
        arity: 2 + (seed % 2) as usize,
        layouts: (1, 2 + (seed / 3 % 2) as usize),
        feasible: (15, 50),
        costs: (0, 12),
        transposes: (0, 9),
        odd: true,
        seed,
    };
    let problem = random(&p).expect("parameters are in range");
    (assignments(&problem) <= 20_000).then_some(problem)
}

/// The first `count` seeds' small problems.
pub fn small_problems(count: usize) -> impl Iterator<Item = (u64, Problem)> {
    (0..)
        .filter_map(|seed| small(seed).map(|p| (seed, p)))
        .take(count)
}

/// Several problems as one that falls into pieces.
pub fn side_by_side(problems: &[Problem]) -> Problem {
    let mut b = builder();
    for p in problems {
        let base = b.tensors.len();
        for t in p.tensors() {
            b.tensor(TensorSpec {
                name: t.name().to_owned(),
                layouts: t.layouts.to_vec(),
                transpose: t.transpose.chunks(t.layouts.len()).map(<[_]>::to_vec).collect(),
                constant: t.constant,
                bundle: t.bundle,
                ..TensorSpec::default()
            });
        }
        for o in p.operators() {
            let config = |c: relayout_layouts::problem::Config<'_>| ConfigSpec {
                inputs: c.inputs.iter().map(|l| l.index()).collect(),
                output: c.output.index(),
                cost: c.cost,
                terms: None,
            };
            b.operator(OperatorSpec {
                name: o.name().to_owned(),
                inputs: o.inputs.iter().map(|t| base + t.index()).collect(),
                output: base + o.output.index(),
                configs: o.configs().map(|(_, c)| config(c)).collect(),
            });
        }
    }
    b.build().expect("pieces are valid")
}

/// Whether the slow tests were asked for; says so when they were not.
pub fn slow(what: &str) -> bool {
    let asked = std::env::var_os("RELAYOUT_SLOW").is_some_and(|v| v == "1");
    if !asked {
        println!("skipped: {what} (slow; set RELAYOUT_SLOW=1)");
    }
    asked
}

/// The shared folder next to the repository; says so when it is not there.
pub fn shared(folder: &str) -> Option<std::path::PathBuf> {
    let path = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared")).join(folder);
    if path.is_dir() {
        Some(path)
    } else {
        println!("skipped: {folder} is not in the shared folder next to the repository");
        None
    }
}
