//! Random directed acyclic graphs.

use super::{GenerateError, numbered, tensor, tuples, within};
use crate::problem::{ConfigSpec, OperatorSpec, Problem, ProblemBuilder, TensorSpec};
use crate::rng::SplitMix64;

/// Parameters of [`random`]. The default is the family of the shared `random-*` instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    /// Number of operators, before projections.
    pub operators: usize,
    /// An operator reads among this many tensors before it. Bounds the width from above.
    pub window: usize,
    /// Most inputs of an operator.
    pub arity: usize,
    /// Fewest and most layouts of a tensor.
    pub layouts: (usize, usize),
    /// Least and greatest share of configurations that are feasible, in percent, drawn per operator.
    pub feasible: (u64, u64),
    /// Least and greatest cost of a configuration.
    pub costs: (u64, u64),
    /// Least and greatest cost of a conversion.
    pub transposes: (u64, u64),
    /// Everything that trips an encoding: operators that read a tensor twice, impossible conversions, free ones,
    /// constants, bundles with projections, tensors of one layout, operators that feed nothing.
    pub odd: bool,
    /// The seed.
    pub seed: u64,
}

impl Default for Random {
    fn default() -> Self {
        Self {
            operators: 100,
            window: 3,
            arity: 3,
            layouts: (2, 3),
            feasible: (30, 90),
            costs: (0, 40),
            transposes: (1, 20),
            odd: false,
            seed: 0,
        }
    }
}

/// A random instance. Feasible unless `odd` (impossible conversions may then leave no assignment).
///
/// # Errors
/// When a parameter is out of range.
pub fn random(p: &Random) -> Result<Problem, GenerateError> {
    within("operators", p.operators as u64, 1..=10_000_000, "1 to 10000000")?;
    within("window", p.window as u64, 1..=1000, "1 to 1000")?;
    within("arity", p.arity as u64, 0..=6, "0 to 6")?;
    within(
        "layouts",
        p.layouts.0 as u64,
        1..=p.layouts.1 as u64,
        "at least 1 and no more than the maximum",
    )?;
    within("layouts", p.layouts.1 as u64, 1..=8, "at most 8")?;
    within(
        "feasible",
        p.feasible.0,
        1..=p.feasible.1,
        "at least 1 and no more than the maximum",
    )?;
    within("feasible", p.feasible.1, 1..=100, "at most 100")?;
    within(
        "costs",
        p.costs.1,
        p.costs.0..=1 << 40,
        "no less than the minimum, at most 2^40",
    )?;
    within(
        "transposes",
        p.transposes.1,
        p.transposes.0..=1 << 40,
        "no less than the minimum, at most 2^40",
    )?;
    let mut rng = SplitMix64::new(p.seed);
    let mut b = ProblemBuilder::new(
        format!("random-{}-w{}-l{}-{}", p.operators, p.window, p.layouts.1, p.seed),
        "cycles",
    );
    // Tensors that an operator may read; bundles are not among them.
    let mut readable: Vec<usize> = Vec::new();
    for o in 0..p.operators {
        let start = readable.len().saturating_sub(p.window);
        let mut window = readable[start..].to_vec();
        let wanted = rng.below(p.arity.min(window.len()) as u64 + 1) as usize;
        // Sources are rare but for the first: a graph of many pieces is no test.
        let wanted = if wanted == 0 && !window.is_empty() && p.arity > 0 && rng.percent(85) {
            1
        } else {
            wanted
        };
        let mut inputs = Vec::new();
        for _ in 0..wanted {
            let at = rng.below(window.len() as u64) as usize;
            inputs.push(if p.odd && rng.percent(20) {
                window[at]
            } else {
                window.swap_remove(at)
            });
            if window.is_empty() {
                break;
            }
        }
        let radices: Vec<usize> = inputs.iter().map(|&t| b.tensors[t].layouts.len()).collect();
        let layouts = if p.odd && rng.percent(15) {
            1
        } else {
            draw_layouts(p, &mut rng)
        };
        if p.odd && rng.percent(10) {
            bundle(p, &mut rng, &mut b, &mut readable, o, inputs, &radices);
            continue;
        }
        let constant = p.odd && inputs.is_empty() && rng.percent(40);
        let mut spec = matrix(p, &mut rng, format!("t{o}"), layouts);
        if constant {
            spec.constant = true;
            spec.transpose.iter_mut().flatten().for_each(|c| *c = Some(0));
        }
        let output = b.tensor(spec);
        readable.push(output);
        let configs = configs(p, &mut rng, &radices, layouts);
        b.operator(OperatorSpec {
            name: format!("o{o}"),
            inputs,
            output,
            configs,
        });
    }
    Ok(b.build()?)
}

fn draw_layouts(p: &Random, rng: &mut SplitMix64) -> usize {
    rng.between(p.layouts.0 as u64, p.layouts.1 as u64) as usize
}

fn matrix(p: &Random, rng: &mut SplitMix64, name: String, layouts: usize) -> TensorSpec {
    tensor(name, numbered("l", layouts), |_, _| match rng.below(10) {
        0 if p.odd => None,
        1 if p.odd => Some(0),
        _ => Some(rng.between(p.transposes.0, p.transposes.1)),
    })
}

fn configs(p: &Random, rng: &mut SplitMix64, radices: &[usize], outputs: usize) -> Vec<ConfigSpec> {
    let share = rng.between(p.feasible.0, p.feasible.1);
    let mut all = tuples(&[radices, &[outputs]].concat());
    let kept = all.len().saturating_mul(share as usize).div_ceil(100).max(1);
    // A partial shuffle: the first `kept` are a uniform draw in random order.
    for i in 0..kept.min(all.len()) {
        let j = i + rng.below((all.len() - i) as u64) as usize;
        all.swap(i, j);
    }
    all.truncate(kept);
    let config = |mut layouts: Vec<usize>| {
        let output = layouts.pop().unwrap_or(0);
        ConfigSpec {
            inputs: layouts,
            output,
            cost: rng.between(p.costs.0, p.costs.1),
            terms: None,
        }
    };
    all.into_iter().map(config).collect()
}

/// An operator with two results: it writes a bundle, two projections read it.
fn bundle(
    p: &Random,
    rng: &mut SplitMix64,
    b: &mut ProblemBuilder,
    readable: &mut Vec<usize>,
    o: usize,
    inputs: Vec<usize>,
    radices: &[usize],
) {
    let parts = [draw_layouts(p, rng), draw_layouts(p, rng)];
    let mut feasible = tuples(&parts);
    while feasible.len() > 1 && rng.percent(50) {
        feasible.swap_remove(rng.below(feasible.len() as u64) as usize);
    }
    let names = feasible.iter().map(|t| format!("{}-{}", t[0], t[1])).collect();
    let spec = tensor(format!("b{o}"), names, |_, _| None);
    let bundle = b.tensor(TensorSpec { bundle: true, ..spec });
    let configs = configs(p, rng, radices, feasible.len());
    b.operator(OperatorSpec {
        name: format!("o{o}"),
        inputs,
        output: bundle,
        configs,
    });
    for (i, &layouts) in parts.iter().enumerate() {
        let output = b.tensor(matrix(p, rng, format!("t{o}.{i}"), layouts));
        readable.push(output);
        let config = |(l, t): (usize, &Vec<usize>)| ConfigSpec {
            inputs: vec![l],
            output: t[i],
            ..ConfigSpec::default()
        };
        let configs = feasible.iter().enumerate().map(config).collect();
        b.operator(OperatorSpec {
            name: format!("o{o}.{i}"),
            inputs: vec![bundle],
            output,
            configs,
        });
    }
}
