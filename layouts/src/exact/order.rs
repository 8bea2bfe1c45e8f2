//! The order in which operators are met.

use crate::id::{ConfigId, OpId};
use crate::problem::{Operator, Problem};

/// A topological order in which what belongs together stands together: each operator right after what it reads and
/// nobody met before. (Kahn's order, the one that strategies are defined by, may put all sources first.)
pub(super) fn by_depth(problem: &Problem) -> Vec<OpId> {
    let n = problem.operators().len();
    // Whom each operator reads from, copied: the search below jumps about, and this fits into a cache where the problem does not.
    let mut starts = Vec::with_capacity(n + 1);
    let mut read = Vec::with_capacity(n * 2);
    for op in problem.operators() {
        starts.push(read.len() as u32);
        read.extend(op.inputs.iter().map(|&t| problem.producer(t)));
    }
    starts.push(read.len() as u32);
    let mut is_read = vec![false; n];
    read.iter().for_each(|p| is_read[p.index()] = true);
    let mut order = Vec::with_capacity(n);
    let mut met = vec![false; n];
    // An operator, and where in `read` it goes on.
    let mut path: Vec<(OpId, u32)> = Vec::new();
    for &root in problem.topological_order().iter().filter(|o| !is_read[o.index()]) {
        met[root.index()] = true;
        path.push((root, starts[root.index()]));
        while let Some((o, next)) = path.last_mut() {
            if *next == starts[o.index() + 1] {
                order.push(*o);
                path.pop();
                continue;
            }
            let p = read[*next as usize];
            *next += 1;
            if !std::mem::replace(&mut met[p.index()], true) {
                path.push((p, starts[p.index()]));
            }
        }
    }
    order
}

/// Reads a little of all that building the tables of these operators will read. What an instance of a million operators in no
/// particular order costs is waiting for memory: loads that do not depend on each other wait side by side.
pub(super) fn touch(problem: &Problem, operators: &[OpId]) {
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
    let ends = |op: &Operator| [0, op.num_configs().saturating_sub(1)].map(|c| ConfigId(c as u32));
    let configs: u64 = met()
        .filter(|op| op.num_configs() > 0)
        .flat_map(|op| ends(op).map(|c| op.config(c)))
        .fold(0, |sum, c| sum ^ c.cost ^ u64::from(c.output.0));
    let tensors = || written().map(|t| problem.tensor(t));
    let layouts: usize = tensors().map(|t| t.layouts.len()).sum();
    let costs = tensors().filter(|t| t.transpose.last() == Some(&None)).count();
    std::hint::black_box((records, configs, layouts, costs));
}
