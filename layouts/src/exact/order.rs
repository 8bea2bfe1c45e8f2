//! The order in which operators are met.

use crate::id::OpId;
use crate::problem::Problem;
use crate::strategy::Budget;

/// Operators between two looks at the clock.
const CLOCK: usize = 4096;

/// A topological order in which what belongs together stands together: each operator right after what it reads and
/// nobody met before. (Kahn's order, the one that strategies are defined by, may put all sources first.) `None` when the budget
/// runs out: a million operators take some tenths of a second.
pub(super) fn by_depth(problem: &Problem, budget: &Budget) -> Option<Vec<OpId>> {
    let n = problem.operators().len();
    // Whom each operator reads from, copied: the search below jumps about, and this fits into a cache where the problem does not.
    let mut starts = Vec::with_capacity(n + 1);
    let mut read = Vec::with_capacity(n * 2);
    for (i, op) in problem.operators().enumerate() {
        if i % CLOCK == 0 && budget.exhausted() {
            return None;
        }
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
                if order.len() % CLOCK == 0 && budget.exhausted() {
                    return None;
                }
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
    Some(order)
}
