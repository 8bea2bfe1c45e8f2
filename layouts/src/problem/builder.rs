//! Collecting a problem, and the checks that make it valid.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::fault::{Fault, ProblemError, error};
use super::operator::Operators;
use super::tensor::Tensors;
use super::{CostTerms, MAX_TOTAL, Problem};
use crate::hints::Hints;
use crate::id::{OpId, TensorId};

/// A tensor to be added to a [`ProblemBuilder`].
#[derive(Clone, Debug, Default)]
pub struct TensorSpec {
    /// See [`super::Tensor::name`].
    pub name: String,
    /// See [`super::Tensor::layouts`].
    pub layouts: Vec<String>,
    /// One row per producer's layout, one column per requested layout.
    pub transpose: Vec<Vec<Option<u64>>>,
    /// See [`super::Tensor::constant`].
    pub constant: bool,
    /// See [`super::Tensor::bundle`].
    pub bundle: bool,
    /// Empty, or a matrix of the same shape as `transpose`.
    pub transpose_terms: Vec<Vec<Option<CostTerms>>>,
}

/// A configuration to be added to a [`ProblemBuilder`]; indices are checked by [`ProblemBuilder::build`].
#[derive(Clone, Debug, Default)]
pub struct ConfigSpec {
    /// Layout index per input.
    pub inputs: Vec<usize>,
    /// Layout index of the output.
    pub output: usize,
    /// Cost in the problem's unit.
    pub cost: u64,
    /// What the cost was computed from, if recorded.
    pub terms: Option<CostTerms>,
}

/// An operator to be added to a [`ProblemBuilder`].
#[derive(Clone, Debug, Default)]
pub struct OperatorSpec {
    /// See [`super::Operator::name`].
    pub name: String,
    /// Tensor index per argument; a tensor may be added after the operator that reads it.
    pub inputs: Vec<usize>,
    /// Tensor index of the output.
    pub output: usize,
    /// The feasible configurations.
    pub configs: Vec<ConfigSpec>,
}

/// Collects tensors and operators in any order and turns them into a [`Problem`].
#[derive(Clone, Debug, Default)]
pub struct ProblemBuilder {
    /// Instance name.
    pub name: String,
    /// Unit of all costs.
    pub unit: String,
    /// Model family.
    pub family: Option<String>,
    /// Hints for the rule-based strategies.
    pub hints: Option<Hints>,
    /// The tensors so far.
    pub tensors: Vec<TensorSpec>,
    /// The operators so far.
    pub operators: Vec<OperatorSpec>,
}

impl ProblemBuilder {
    /// An empty problem.
    pub fn new(name: impl Into<String>, unit: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            unit: unit.into(),
            ..Self::default()
        }
    }

    /// Adds a tensor and returns its index.
    pub fn tensor(&mut self, tensor: TensorSpec) -> usize {
        self.tensors.push(tensor);
        self.tensors.len() - 1
    }

    /// Adds an operator and returns its index.
    pub fn operator(&mut self, operator: OperatorSpec) -> usize {
        self.operators.push(operator);
        self.operators.len() - 1
    }

    /// Validates everything.
    ///
    /// # Errors
    /// The first fault in the order of the module's documentation, with its path.
    pub fn build(self) -> Result<Problem, ProblemError> {
        if self.tensors.len() >= u32::MAX as usize || self.operators.len() >= u32::MAX as usize {
            return Err(error(
                String::new(),
                Fault::TooMany {
                    what: "tensors or operators",
                },
            ));
        }
        let tensors = Tensors::new(self.tensors)?;
        let producers = producers(&tensors, &self.operators)?;
        let operators = Operators::new(self.operators, &tensors)?;
        check_constants(&tensors, &producers, &operators)?;
        check_projections(&tensors, &operators)?;
        let (uses, use_starts) = uses(tensors.len(), &operators);
        let order = topological_order(&operators, &producers, &uses, &use_starts)?;
        check_total(&tensors, &operators)?;
        if let Some(hints) = &self.hints {
            hints.validate(&tensors, &operators)?;
        }
        let reads_bundle = |&o: &OpId| {
            let mut inputs = operators.get(o).inputs.iter();
            inputs.any(|&t| tensors.get(t).bundle)
        };
        let projections = order.iter().copied().filter(reads_bundle).collect();
        let without_configs = operators.iter().position(|op| op.num_configs() == 0);
        Ok(Problem {
            projections,
            sum_of_minimum_costs: operators.iter().filter_map(|op| op.min_cost()).sum(),
            operator_without_configs: without_configs.map(OpId::new),
            name: self.name,
            unit: self.unit,
            family: self.family,
            hints: self.hints,
            tensors,
            operators,
            producers,
            uses,
            use_starts,
            order,
        })
    }
}

fn producers(tensors: &Tensors, operators: &[OperatorSpec]) -> Result<Vec<OpId>, ProblemError> {
    let no_such = |path, found| {
        error(
            path,
            Fault::NoSuchTensor {
                found,
                tensors: tensors.len(),
            },
        )
    };
    let mut producers: Vec<Option<OpId>> = vec![None; tensors.len()];
    for (i, op) in operators.iter().enumerate() {
        for (k, &t) in op.inputs.iter().enumerate() {
            if t >= tensors.len() {
                return Err(no_such(format!("operators[{i}].inputs[{k}]"), t));
            }
        }
        let path = || format!("operators[{i}].output");
        let t = op.output;
        if t >= tensors.len() {
            return Err(no_such(path(), t));
        }
        if let Some(first) = producers[t].replace(OpId::new(i)) {
            return Err(error(
                path(),
                Fault::TwoProducers {
                    tensor: t,
                    first: first.index(),
                    second: i,
                },
            ));
        }
    }
    producers
        .into_iter()
        .enumerate()
        .map(|(t, p)| p.ok_or_else(|| error(format!("tensors[{t}]"), Fault::NoProducer)))
        .collect()
}

fn check_constants(tensors: &Tensors, producers: &[OpId], operators: &Operators) -> Result<(), ProblemError> {
    for (t, &p) in producers.iter().enumerate() {
        let inputs = operators.get(p).inputs.len();
        if tensors.get(TensorId::new(t)).constant && inputs > 0 {
            let fault = Fault::ConstantWithInputs {
                operator: p.index(),
                inputs,
            };
            return Err(error(format!("tensors[{t}].constant"), fault));
        }
    }
    Ok(())
}

fn check_projections(tensors: &Tensors, operators: &Operators) -> Result<(), ProblemError> {
    for (i, op) in operators.iter().enumerate() {
        let Some(t) = op.inputs.iter().find(|&&t| tensors.get(t).bundle) else {
            continue;
        };
        if op.inputs.len() != 1 {
            let fault = Fault::ProjectionInputs {
                tensor: t.index(),
                inputs: op.inputs.len(),
            };
            return Err(error(format!("operators[{i}].inputs"), fault));
        }
        let mut by_layout = vec![None; tensors.get(*t).layouts.len()];
        for (c, config) in op.configs() {
            let path = || format!("operators[{i}].configs[{c}]");
            if config.cost != 0 {
                return Err(error(
                    format!("{}.cost", path()),
                    Fault::ProjectionCost { found: config.cost },
                ));
            }
            if let Some(first) = by_layout[config.inputs[0].index()].replace(c.index()) {
                return Err(error(path(), Fault::ProjectionChoice { first }));
            }
        }
    }
    Ok(())
}

fn uses(tensors: usize, operators: &Operators) -> (Vec<(OpId, u32)>, Vec<u32>) {
    let mut starts = vec![0u32; tensors + 1];
    for t in operators.iter().flat_map(|op| op.inputs) {
        starts[t.index() + 1] += 1;
    }
    for t in 0..tensors {
        starts[t + 1] += starts[t];
    }
    let mut next = starts.clone();
    let mut uses = vec![(OpId(0), 0); starts[tensors] as usize];
    for (i, op) in operators.iter().enumerate() {
        for (position, t) in op.inputs.iter().enumerate() {
            uses[next[t.index()] as usize] = (OpId::new(i), position as u32);
            next[t.index()] += 1;
        }
    }
    (uses, starts)
}

fn topological_order(
    operators: &Operators,
    producers: &[OpId],
    uses: &[(OpId, u32)],
    starts: &[u32],
) -> Result<Vec<OpId>, ProblemError> {
    let mut missing: Vec<usize> = operators.iter().map(|op| op.inputs.len()).collect();
    let mut ready: BinaryHeap<_> = (0..operators.len())
        .filter(|&i| missing[i] == 0)
        .map(Reverse)
        .collect();
    let mut order = Vec::with_capacity(operators.len());
    while let Some(Reverse(i)) = ready.pop() {
        order.push(OpId::new(i));
        let t = operators.get(OpId::new(i)).output.index();
        for &(consumer, _) in &uses[starts[t] as usize..starts[t + 1] as usize] {
            let c = consumer.index();
            missing[c] -= 1;
            if missing[c] == 0 {
                ready.push(Reverse(c));
            }
        }
    }
    if order.len() == operators.len() {
        return Ok(order);
    }
    // An operator left over need not lie on a cycle; walking to a left-over producer again and again reaches one.
    let mut at = missing.iter().position(|&m| m > 0).unwrap_or(0);
    let mut visited = vec![false; operators.len()];
    while !std::mem::replace(&mut visited[at], true) {
        let back = operators
            .get(OpId::new(at))
            .inputs
            .iter()
            .map(|t| producers[t.index()].index())
            .find(|&p| missing[p] > 0);
        at = back.unwrap_or(at);
    }
    Err(error(format!("operators[{at}]"), Fault::Cycle { operator: at }))
}

fn check_total(tensors: &Tensors, operators: &Operators) -> Result<(), ProblemError> {
    let mut total = 0u64;
    let mut add = |cost: u64, path: &dyn Fn() -> String| {
        total = total
            .checked_add(cost)
            .filter(|&t| t <= MAX_TOTAL)
            .ok_or_else(|| error(path(), Fault::CostOverflow))?;
        Ok(())
    };
    for (i, op) in operators.iter().enumerate() {
        add(op.costs().iter().copied().max().unwrap_or(0), &|| {
            format!("operators[{i}].configs")
        })?;
    }
    for (i, t) in tensors.iter().enumerate() {
        let path = || format!("tensors[{i}].transpose");
        let mut dearest = 0u64;
        for row in t.transpose.chunks(t.layouts.len()) {
            let sum = row.iter().flatten().try_fold(0u64, |a, &c| a.checked_add(c));
            dearest = dearest.max(sum.ok_or_else(|| error(path(), Fault::CostOverflow))?);
        }
        add(dearest, &path)?;
    }
    Ok(())
}
