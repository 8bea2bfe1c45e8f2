//! The order in which operators are met.

use crate::id::OpId;
use crate::problem::Problem;

/// A topological order in which what belongs together stands together: each operator right after what it reads and
/// nobody met before. (Kahn's order, the one that strategies are defined by, may put all sources first.)
pub(super) fn by_depth(problem: &Problem) -> Vec<OpId> {
    let n = problem.operators().len();
    let mut order = Vec::with_capacity(n);
    let mut met = vec![false; n];
    // An operator, and how many of its inputs have been followed.
    let mut path: Vec<(OpId, usize)> = Vec::new();
    for &root in problem.topological_order() {
        if !problem.uses(problem.operator(root).output).is_empty() {
            continue;
        }
        met[root.index()] = true;
        path.push((root, 0));
        while let Some((o, followed)) = path.last_mut() {
            match problem.operator(*o).inputs.get(*followed) {
                None => {
                    order.push(*o);
                    path.pop();
                }
                Some(&t) => {
                    *followed += 1;
                    let p = problem.producer(t);
                    if !std::mem::replace(&mut met[p.index()], true) {
                        path.push((p, 0));
                    }
                }
            }
        }
    }
    order
}
