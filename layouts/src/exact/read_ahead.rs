//! Reading memory before it is needed. What a problem of a million operators in no particular order costs is waiting for memory: loads
//! that do not depend on each other wait side by side.

use crate::id::{ConfigId, OpId};
use crate::problem::{Operator, Problem};

/// Problems of more operators than this are not in the cache.
const OUT_OF_CACHE: usize = 20_000;

/// How many operators are read ahead at a time.
pub(super) const STRIDE: usize = 64;

/// Reads a little of all that building the tables of the next operators from `at` on will read.
pub(super) fn read_ahead(problem: &Problem, order: &[OpId], at: usize) {
    if order.len() <= OUT_OF_CACHE {
        return;
    }
    let operators = &order[at..order.len().min(at + STRIDE)];
    let written = || operators.iter().map(|&o| problem.operator(o).output);
    let readers = || written().flat_map(|t| problem.uses(t)).map(|&(o, _)| o);
    let met = || {
        operators
            .iter()
            .copied()
            .chain(readers())
            .map(|o| problem.operator(o))
    };
    let records: usize = met().map(|op| op.num_configs()).sum();
    let ends = |op: &Operator<'_>| [0, op.num_configs().saturating_sub(1)].map(|c| ConfigId(c as u32));
    let configs: u64 = met()
        .filter(|op| op.num_configs() > 0)
        .flat_map(|op| ends(&op).map(|c| op.config(c)))
        .fold(0, |sum, c| sum ^ c.cost ^ u64::from(c.output.0));
    let tensors = || written().map(|t| problem.tensor(t));
    let layouts: usize = tensors().map(|t| t.layouts.len()).sum();
    let costs = tensors().filter(|t| t.transpose.last() == Some(&None)).count();
    std::hint::black_box((records, configs, layouts, costs));
}
