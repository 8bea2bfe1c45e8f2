//! The independent checker: recomputes the cost of an assignment straight from the definition.
//!
//! Written apart from every solver, on purpose in the plainest way, so that a mistake in the solvers' shared machinery
//! cannot hide here.

use crate::id::{ConfigId, LayoutId, OpId, TensorId};
use crate::problem::Problem;

/// One conversion that an assignment induces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Conversion {
    /// The tensor that is converted.
    pub tensor: TensorId,
    /// The layout its producer writes.
    pub from: LayoutId,
    /// The layout some consumer requests.
    pub to: LayoutId,
    /// What the conversion costs.
    pub cost: u64,
}

/// The cost of an assignment, split.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Checked {
    /// `operator_cost + transpose_cost`.
    pub cost: u64,
    /// Sum of the chosen configurations' costs.
    pub operator_cost: u64,
    /// Sum of the conversions' costs.
    pub transpose_cost: u64,
    /// Every conversion, by tensor and requested layout. Those of constants are here too, at cost zero.
    pub conversions: Vec<Conversion>,
    /// How many of the conversions are of constants, done ahead of time.
    pub constant_conversions: u64,
}

/// Why an assignment has no cost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// Not one configuration per operator.
    #[error("the assignment has {found} entries, expected {expected} (one per operator)")]
    Length {
        /// Entries found.
        found: usize,
        /// Operators of the problem.
        expected: usize,
    },
    /// A configuration that does not exist.
    #[error("assignment[{op}]: configuration {found} does not exist; operator {name:?} has {configs}")]
    NoSuchConfig {
        /// The operator.
        op: OpId,
        /// Its name.
        name: String,
        /// The index found.
        found: ConfigId,
        /// How many configurations it has.
        configs: usize,
    },
    /// A conversion that cannot be done.
    #[error(
        "tensor {tensor} ({name:?}): no conversion from layout {from} (operator {producer}) to {to} (operator {consumer})"
    )]
    ImpossibleConversion {
        /// The tensor.
        tensor: TensorId,
        /// Its name.
        name: String,
        /// The layout produced.
        from: LayoutId,
        /// The layout requested.
        to: LayoutId,
        /// The producer.
        producer: OpId,
        /// The first consumer that requests `to`.
        consumer: OpId,
    },
    /// The sum exceeds 64 bits.
    #[error("the cost exceeds 64 bits")]
    Overflow,
}

/// Recomputes the cost of `assignment` (one configuration per operator, in file order).
///
/// # Errors
/// See [`CheckError`].
pub fn check(problem: &Problem, assignment: &[ConfigId]) -> Result<Checked, CheckError> {
    let operators = problem.operators();
    if assignment.len() != operators.len() {
        return Err(CheckError::Length {
            found: assignment.len(),
            expected: operators.len(),
        });
    }
    let mut operator_cost = 0u64;
    for (o, (op, &found)) in operators.clone().zip(assignment).enumerate() {
        if found.index() >= op.num_configs() {
            let (op, name, configs) = (OpId(o as u32), op.name().to_owned(), op.num_configs());
            return Err(CheckError::NoSuchConfig {
                op,
                name,
                found,
                configs,
            });
        }
        operator_cost = operator_cost
            .checked_add(op.config(found).cost)
            .ok_or(CheckError::Overflow)?;
    }
    // What is requested of each tensor, grouped by tensor: requested layout and consumer.
    let mut ends = vec![0usize; problem.tensors().len()];
    operators
        .clone()
        .flat_map(|op| op.inputs)
        .for_each(|t| ends[t.index()] += 1);
    let mut end = 0;
    for of_tensor in &mut ends {
        end += std::mem::replace(of_tensor, end);
    }
    let mut requests = vec![(LayoutId(0), OpId(0)); end];
    let mut produced = vec![(LayoutId(0), OpId(0)); problem.tensors().len()];
    for (o, (op, &c)) in operators.zip(assignment).enumerate() {
        let (o, config) = (OpId(o as u32), op.config(c));
        produced[op.output.index()] = (config.output, o);
        for (t, &layout) in op.inputs.iter().zip(config.inputs) {
            let at = &mut ends[t.index()];
            requests[*at] = (layout, o);
            *at += 1;
        }
    }
    let (mut conversions, mut transpose_cost, mut constant_conversions) = (Vec::new(), 0u64, 0);
    let mut start = 0;
    for (tensor, (&end, &(from, producer))) in problem.tensor_ids().zip(ends.iter().zip(&produced)) {
        let own = &mut requests[start..end];
        start = end;
        // The first consumer of each request is the one that errors name.
        own.sort_unstable();
        for same in own.chunk_by(|a, b| a.0 == b.0) {
            let (to, consumer) = same[0];
            if from == to {
                continue;
            }
            let t = problem.tensor(tensor);
            let Some(cost) = t.transpose(from, to) else {
                let name = t.name().to_owned();
                return Err(CheckError::ImpossibleConversion {
                    tensor,
                    name,
                    from,
                    to,
                    producer,
                    consumer,
                });
            };
            transpose_cost = transpose_cost.checked_add(cost).ok_or(CheckError::Overflow)?;
            constant_conversions += u64::from(t.constant);
            conversions.push(Conversion {
                tensor,
                from,
                to,
                cost,
            });
        }
    }
    let cost = operator_cost
        .checked_add(transpose_cost)
        .ok_or(CheckError::Overflow)?;
    Ok(Checked {
        cost,
        operator_cost,
        transpose_cost,
        conversions,
        constant_conversions,
    })
}
