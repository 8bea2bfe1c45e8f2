//! A model of repeated blocks: N identical layers in a row, with skip connections.

use super::random::Random;
use super::{GenerateError, numbered, random, tensor, within};
use crate::problem::{ConfigSpec, OperatorSpec, Problem, ProblemBuilder, TensorSpec};
use crate::rng::SplitMix64;

/// Parameters of [`blocks`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Number of layers.
    pub layers: usize,
    /// One layer's inside.
    pub layer: Random,
    /// Every layer's last operator adds the layer's input to its result (a residual connection).
    pub skip: bool,
    /// Costs are scaled by random factors within this many percent, so that layers differ slightly.
    pub perturb: u64,
    /// How many percent of the costs, drawn at random, are scaled.
    pub share: u64,
    /// Operators and tensors are renumbered at random, names are dropped.
    pub shuffle: bool,
}

impl Default for Blocks {
    fn default() -> Self {
        let layer = Random {
            operators: 20,
            ..Random::default()
        };
        Self {
            layers: 10,
            layer,
            skip: true,
            perturb: 0,
            share: 100,
            shuffle: false,
        }
    }
}

/// N copies of one random layer. The layer's first operator is its entry (a source, which the copies after the first turn
/// into a reader of the previous layer's result), its last tensor is its result.
///
/// # Errors
/// When a parameter is out of range.
pub fn blocks(p: &Blocks) -> Result<Problem, GenerateError> {
    within("layers", p.layers as u64, 1..=10_000_000, "1 to 10000000")?;
    within("perturb", p.perturb, 0..=50, "0 to 50 percent")?;
    within("share", p.share, 0..=100, "0 to 100 percent")?;
    let layer = random(&p.layer)?;
    let mut rng = SplitMix64::new(p.layer.seed ^ 0x6c61_7965_7273);
    let mut b = ProblemBuilder::new(
        format!("blocks-{}x{}-{}", p.layers, p.layer.operators, p.layer.seed),
        layer.unit(),
    );
    let mut scale = {
        let mut rng = rng.clone();
        move |cost: u64| {
            let scaled = p.perturb > 0 && (p.share == 100 || rng.below(100) < p.share);
            if !scaled {
                cost
            } else {
                cost * (100 + rng.between(0, 2 * p.perturb) - p.perturb) / 100
            }
        }
    };
    // What joins two layers has two layouts, converts at a price, and is as happy in one as in the other.
    let joint = |name: String| tensor(name, numbered("l", 2), |_, _| Some(7));
    let mut previous = b.tensor(joint("input".into()));
    let free = |inputs: Vec<usize>, output: usize, cost: u64| ConfigSpec {
        inputs,
        output,
        cost,
        terms: None,
    };
    b.operator(OperatorSpec {
        name: "input".into(),
        output: previous,
        configs: vec![free(vec![], 0, 0), free(vec![], 1, 0)],
        ..OperatorSpec::default()
    });
    let sink_layouts = layer.tensors().last().map_or(1, |t| t.layouts.len());
    for n in 0..p.layers {
        let base = b.tensors.len();
        for t in layer.tensors() {
            let rows = t.transpose.chunks(t.layouts.len());
            b.tensor(TensorSpec {
                name: format!("{n}.{}", t.name()),
                layouts: t.layouts.to_vec(),
                transpose: rows
                    .map(|r| r.iter().map(|c| c.map(&mut scale)).collect())
                    .collect(),
                constant: false,
                bundle: t.bundle,
                transpose_terms: Vec::new(),
            });
        }
        for (i, op) in layer.operators().enumerate() {
            let entry = i == 0;
            let mut configs = Vec::new();
            for (_, c) in op.configs() {
                let inputs: Vec<usize> = c.inputs.iter().map(|l| l.index()).collect();
                if entry {
                    // The entry prefers the layout of its own parity.
                    for l in 0..2 {
                        let cost = scale(c.cost + u64::from((c.output.index() + l) % 2 == 1));
                        configs.push(free(vec![l], c.output.index(), cost));
                    }
                } else {
                    configs.push(free(inputs, c.output.index(), scale(c.cost)));
                }
            }
            let inputs = if entry {
                vec![previous]
            } else {
                op.inputs.iter().map(|t| base + t.index()).collect()
            };
            let output = base + op.output.index();
            b.operator(OperatorSpec {
                name: format!("{n}.{}", op.name()),
                inputs,
                output,
                configs,
            });
        }
        let result = b.tensors.len() - 1;
        let next = b.tensor(joint(format!("{n}.out")));
        let (inputs, configs) = if p.skip {
            let all = (0..sink_layouts).flat_map(|l| (0..2).map(move |m| (l, m)));
            (
                vec![result, previous],
                all.map(|(l, m)| free(vec![l, m], m, ((l + m) % 2) as u64 * 3))
                    .collect(),
            )
        } else {
            let all = (0..sink_layouts).flat_map(|l| (0..2).map(move |m| (l, m)));
            (
                vec![result],
                all.map(|(l, m)| free(vec![l], m, ((l + m) % 2) as u64 * 3))
                    .collect(),
            )
        };
        b.operator(OperatorSpec {
            name: format!("{n}.add"),
            inputs,
            output: next,
            configs,
        });
        previous = next;
    }
    if p.shuffle {
        shuffle(&mut b, &mut rng);
    }
    Ok(b.build()?)
}

fn shuffle(b: &mut ProblemBuilder, rng: &mut SplitMix64) {
    let mut permutation = |n: usize| {
        let mut p: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            p.swap(i, rng.below(i as u64 + 1) as usize);
        }
        p
    };
    // `to[old]` is the new index.
    let to = permutation(b.tensors.len());
    let mut tensors: Vec<TensorSpec> = vec![TensorSpec::default(); to.len()];
    for (old, t) in std::mem::take(&mut b.tensors).into_iter().enumerate() {
        tensors[to[old]] = TensorSpec {
            name: String::new(),
            ..t
        };
    }
    b.tensors = tensors;
    let order = permutation(b.operators.len());
    let mut operators = vec![OperatorSpec::default(); order.len()];
    for (old, op) in std::mem::take(&mut b.operators).into_iter().enumerate() {
        let inputs = op.inputs.iter().map(|&t| to[t]).collect();
        operators[order[old]] = OperatorSpec {
            name: String::new(),
            inputs,
            output: to[op.output],
            configs: op.configs,
        };
    }
    b.operators = operators;
}
