//! Stacks of layers: what `exact` leaves out since it repeats changes no answer.

use proptest::prelude::*;
use proptest::strategy::Strategy as Generator;
use relayout_layouts::exact::Exact;
use relayout_layouts::rng::SplitMix64;
use relayout_layouts::{
    Budget, ConfigSpec, OperatorSpec, Problem, ProblemBuilder, Solutions, Status, Strategy, TensorSpec, Trace,
};

/// What a stack is like.
#[derive(Clone, Debug)]
struct Stack {
    layers: usize,
    /// Operators of a layer.
    operators: usize,
    /// Operators before the first layer, whose results all layers may read.
    prefix: usize,
    /// Operators after the last layer, which may read anything.
    tail: usize,
    layouts: u64,
    /// Chance of a conversion to be impossible, and of a configuration to exist, in percent.
    impossible: u64,
    feasible: u64,
    /// How many layers back a layer reads.
    back: usize,
    /// Operators and tensors are numbered at random.
    shuffle: bool,
    seed: u64,
}

/// Where an operand comes from, the same in every layer.
#[derive(Clone, Copy)]
enum From {
    Prefix(usize),
    /// Layers back, and which result.
    Layer(usize, usize),
}

/// An operator of every layer.
struct Template {
    tensor: TensorSpec,
    inputs: Vec<From>,
    configs: Vec<ConfigSpec>,
}

impl Stack {
    fn problem(&self) -> Problem {
        let mut rng = SplitMix64::new(self.seed);
        let mut b = ProblemBuilder::new("stack", "1");
        // A prefix always has a first operator, which stands in where a layer reads from before the first.
        let mut prefix = Vec::new();
        for _ in 0..self.prefix.max(1) {
            let inputs = self.operands(&mut rng, &prefix);
            prefix.push(self.operator(&mut rng, &mut b, inputs));
        }
        let mut template: Vec<Template> = Vec::new();
        for i in 0..self.operators {
            let tensor = self.tensor(&mut rng);
            let inputs: Vec<From> = (0..1 + rng.below(3))
                .map(|_| match rng.below(16) {
                    0 => From::Prefix(rng.below(prefix.len() as u64) as usize),
                    1 => From::Layer(
                        1 + rng.below(self.back as u64) as usize,
                        rng.below(self.operators as u64) as usize,
                    ),
                    _ if i == 0 => From::Layer(1, self.operators - 1),
                    _ => From::Layer(0, i - 1 - rng.below(i.min(4) as u64) as usize),
                })
                .collect();
            template.push(Template {
                tensor,
                inputs,
                configs: Vec::new(),
            });
        }
        // All tensors have as many layouts, so that operands from anywhere fit.
        for t in &mut template {
            t.configs = self.configs(&mut rng, t.inputs.len());
        }
        let mut layers: Vec<Vec<usize>> = Vec::new();
        for l in 0..self.layers {
            let mut results: Vec<usize> = Vec::new();
            for t in &template {
                let tensor = b.tensor(t.tensor.clone());
                let operand = |from: &From| match *from {
                    From::Prefix(i) => prefix[i],
                    From::Layer(0, i) => results[i],
                    From::Layer(back, i) => l.checked_sub(back).map_or(prefix[0], |l| layers[l][i]),
                };
                let inputs = t.inputs.iter().map(operand).collect();
                b.operator(OperatorSpec {
                    inputs,
                    output: tensor,
                    configs: t.configs.clone(),
                    ..OperatorSpec::default()
                });
                results.push(tensor);
            }
            layers.push(results);
        }
        let mut all: Vec<usize> = (0..b.tensors.len()).collect();
        for _ in 0..self.tail {
            let inputs = self.operands(&mut rng, &all);
            all.push(self.operator(&mut rng, &mut b, inputs));
        }
        if self.shuffle {
            shuffle(&mut b, &mut rng);
        }
        b.build().expect("a valid problem")
    }

    fn operands(&self, rng: &mut SplitMix64, from: &[usize]) -> Vec<usize> {
        let operands = 0..rng.below(4).min(from.len() as u64);
        operands
            .map(|_| from[rng.below(from.len() as u64) as usize])
            .collect()
    }

    fn operator(&self, rng: &mut SplitMix64, b: &mut ProblemBuilder, inputs: Vec<usize>) -> usize {
        let output = b.tensor(self.tensor(rng));
        let configs = self.configs(rng, inputs.len());
        b.operator(OperatorSpec {
            inputs,
            output,
            configs,
            ..OperatorSpec::default()
        });
        output
    }

    fn tensor(&self, rng: &mut SplitMix64) -> TensorSpec {
        let n = self.layouts as usize;
        let mut entry = |i: usize| match i {
            _ if i.is_multiple_of(n + 1) => Some(0),
            _ if rng.percent(self.impossible) => None,
            _ => Some(rng.below(12)),
        };
        let costs: Vec<Option<u64>> = (0..n * n).map(&mut entry).collect();
        TensorSpec {
            layouts: (0..n).map(|l| format!("l{l}")).collect(),
            transpose: costs.chunks(n).map(<[_]>::to_vec).collect(),
            ..TensorSpec::default()
        }
    }

    fn configs(&self, rng: &mut SplitMix64, inputs: usize) -> Vec<ConfigSpec> {
        let n = self.layouts as usize;
        let combinations = n.pow(inputs as u32 + 1);
        let mut some: Vec<usize> = (0..combinations).filter(|_| rng.percent(self.feasible)).collect();
        if some.is_empty() {
            some.push(rng.below(combinations as u64) as usize);
        }
        some.into_iter()
            .map(|mut c| {
                let mut next = || {
                    let layout = c % n;
                    c /= n;
                    layout
                };
                ConfigSpec {
                    inputs: (0..inputs).map(|_| next()).collect(),
                    output: next(),
                    cost: rng.below(10),
                    terms: None,
                }
            })
            .collect()
    }
}

fn shuffle(b: &mut ProblemBuilder, rng: &mut SplitMix64) {
    let mut permutation = |n: usize| {
        let mut to: Vec<usize> = (0..n).collect();
        (1..n)
            .rev()
            .for_each(|i| to.swap(i, rng.below(i as u64 + 1) as usize));
        to
    };
    let (tensors, operators) = (permutation(b.tensors.len()), permutation(b.operators.len()));
    let mut order: Vec<usize> = (0..tensors.len()).collect();
    order.sort_unstable_by_key(|&i| tensors[i]);
    b.tensors = order.iter().map(|&i| b.tensors[i].clone()).collect();
    let mut order: Vec<usize> = (0..operators.len()).collect();
    order.sort_unstable_by_key(|&i| operators[i]);
    b.operators = order
        .iter()
        .map(|&i| {
            let op = b.operators[i].clone();
            OperatorSpec {
                inputs: op.inputs.iter().map(|&t| tensors[t]).collect(),
                output: tensors[op.output],
                ..op
            }
        })
        .collect();
}

fn stack() -> impl Generator<Value = Stack> {
    let sizes = (5..14usize, 10..30usize, 0..4usize, 0..4usize);
    let costs = (1..4u64, 0..30u64, 20..90u64);
    let all = (sizes, costs, 1..3usize, any::<bool>(), any::<u64>());
    Generator::prop_map(all, |(sizes, costs, back, shuffle, seed)| Stack {
        layers: sizes.0,
        operators: sizes.1,
        prefix: sizes.2,
        tail: sizes.3,
        layouts: costs.0,
        impossible: costs.1,
        feasible: costs.2,
        back,
        shuffle,
        seed,
    })
}

fn solve(blocks: bool, problem: &Problem, bytes: u64) -> Solutions {
    let exact = Exact {
        blocks,
        search: false,
        ..Exact::default()
    };
    let budget = Budget::default().with_memory_limit(bytes);
    exact
        .solve(problem, &budget, &mut Trace::silent())
        .expect("the checker agrees")
}

/// The same status and cost with and without; how many operators were left out.
fn check_stack(stack: &Stack) -> Result<u64, TestCaseError> {
    let problem = stack.problem();
    let [with, without] = [true, false].map(|blocks| solve(blocks, &problem, 64 << 20));
    if [&with, &without].iter().any(|s| s.status == Status::OutOfMemory) {
        return Ok(0); // a wide one, of which only the bound says something
    }
    prop_assert_eq!(with.status, without.status);
    prop_assert_eq!(with.best().map(|s| s.cost), without.best().map(|s| s.cost));
    if with.status == Status::Infeasible {
        return Ok(0);
    }
    prop_assert_eq!(with.lower_bound, without.lower_bound);
    // Wherever the tables stop fitting, the bound holds.
    for part in 1..8 {
        let limited = solve(true, &problem, with.peak_bytes * part / 8);
        match limited.status {
            Status::OutOfMemory => prop_assert!(limited.lower_bound <= with.lower_bound),
            status => prop_assert_eq!(status, with.status),
        }
    }
    Ok(with.counters.get("repeated_operators").copied().unwrap_or(0))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn stacks_of_layers_have_the_same_optimum_without_their_copies(stack in stack()) {
        check_stack(&stack)?;
    }
}

#[test]
fn what_repeats_is_left_out() {
    let mut left_out = 0;
    for seed in 0..40 {
        let stack = Stack {
            layers: 8,
            operators: 30,
            prefix: (seed % 3) as usize,
            tail: (seed % 2) as usize,
            layouts: 2 + seed % 2,
            impossible: seed % 20,
            feasible: 60,
            back: 1 + (seed % 2) as usize,
            shuffle: seed % 4 == 3,
            seed,
        };
        left_out += u64::from(check_stack(&stack).expect("the same optimum") > 0);
    }
    assert!(left_out >= 10, "{left_out} of 40");
}

/// Costs that do not grow from layer to layer were once counted per layer: those taken out of tables that the last layers keep, and
/// those of operators behind the stack.
#[test]
fn what_is_paid_once_is_counted_once() {
    let stack = |layers, operators, tail, impossible, feasible, back, seed| Stack {
        layers,
        operators,
        prefix: 2,
        tail,
        layouts: 3,
        impossible,
        feasible,
        back,
        shuffle: false,
        seed,
    };
    for stack in [
        stack(13, 20, 2, 18, 24, 2, 18328776735263279813),
        stack(12, 15, 0, 1, 58, 1, 1117272030487947472),
    ] {
        check_stack(&stack).expect("the same optimum");
    }
}
