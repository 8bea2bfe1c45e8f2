//! Independent components on several threads.
//!
//! Operators that no chain of tensors connects have nothing to do with each other. Components are dealt to a fixed number
//! of parts, largest first to the emptiest, and threads take parts in turn: what is computed does not depend on how many
//! threads there are, nor on which of them is faster.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Exact;
use super::counters::Counters;
use super::network::Network;
use super::order::by_depth;
use super::solve::{Elimination, Outcome};
use crate::id::{ConfigId, OpId};
use crate::meter::{DEFAULT_LIMIT, Meter};
use crate::problem::Problem;
use crate::strategy::Budget;

/// Parts that components are dealt to, at most.
const PARTS: usize = 64;

/// What all parts came to.
pub(super) enum Answer {
    Solved {
        assignment: Vec<ConfigId>,
        cost: u64,
        variables: u64,
        peak: u64,
        counters: Counters,
    },
    Infeasible,
}

/// Solves the components apart; `None` when there is but one or when a part met a limit. Every thread has its share of the
/// memory limit.
pub(super) fn solve(exact: &Exact, problem: &Problem, budget: &Budget) -> Option<Answer> {
    let parts = parts(problem, budget)?;
    if parts.len() < 2 {
        return None;
    }
    let threads = budget.threads.min(parts.len());
    let share = budget.memory_limit.unwrap_or(DEFAULT_LIMIT) / threads as u64;
    let next = AtomicUsize::new(0);
    let solved: Vec<Mutex<Option<Part>>> = parts.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(part) = parts.get(i) else { return };
                    let outcome = solve_part(exact, problem, part, budget, share);
                    if let Ok(mut slot) = solved[i].lock() {
                        *slot = outcome;
                    }
                }
            });
        }
    });
    let mut assignment = vec![ConfigId(0); problem.operators().len()];
    let (mut cost, mut variables, mut peak, mut counters) = (0u64, 0, 0u64, Counters::default());
    let mut limited = false;
    for (part, slot) in parts.iter().zip(solved) {
        match slot.into_inner().ok().flatten() {
            Some(Part::Infeasible) => return Some(Answer::Infeasible),
            None => limited = true,
            Some(Part::Solved {
                configs,
                cost: own,
                variables: count,
                peak: most,
                counters: counted,
            }) => {
                for (&o, c) in part.iter().zip(configs) {
                    assignment[o.index()] = c;
                }
                cost += own;
                variables += count;
                peak = peak.max(most);
                counters.add(&counted);
            }
        }
    }
    (!limited).then_some(Answer::Solved {
        assignment,
        cost,
        variables,
        // At most this: every thread at the greatest peak.
        peak: peak * threads as u64,
        counters,
    })
}

enum Part {
    Solved {
        configs: Vec<ConfigId>,
        cost: u64,
        variables: u64,
        peak: u64,
        counters: Counters,
    },
    Infeasible,
}

fn solve_part(exact: &Exact, problem: &Problem, part: &[OpId], budget: &Budget, memory: u64) -> Option<Part> {
    let net = Network::new(Meter::new(Some(memory)));
    let mut elimination = Elimination::new(net, budget, exact.rules());
    let repeats = exact.repeats(problem, part);
    let streamed = elimination.stream(problem, part, exact.modelling(), repeats, usize::MAX);
    match streamed.outcome {
        Outcome::Solved(values) => {
            let config = |o: &OpId| ConfigId(values[streamed.variables[o.index()] as usize]);
            Some(Part::Solved {
                configs: part.iter().map(config).collect(),
                cost: elimination.net.constant,
                variables: elimination.net.len() as u64,
                peak: elimination.net.meter.peak(),
                counters: elimination.counters,
            })
        }
        Outcome::Infeasible => Some(Part::Infeasible),
        Outcome::OutOfMemory { .. } | Outcome::Timeout => None,
    }
}

/// The operators of each part, every one in the order by depth. `None` when the budget runs out.
fn parts(problem: &Problem, budget: &Budget) -> Option<Vec<Vec<OpId>>> {
    let n = problem.operators().len();
    // Union-find with path halving: an operator belongs to its root's component.
    let mut parent: Vec<u32> = (0..n as u32).collect();
    fn root(parent: &mut [u32], mut o: u32) -> u32 {
        while parent[o as usize] != o {
            let up = parent[parent[o as usize] as usize];
            parent[o as usize] = up;
            o = up;
        }
        o
    }
    for o in problem.op_ids() {
        for &t in problem.operator(o).inputs {
            let (a, b) = (root(&mut parent, o.0), root(&mut parent, problem.producer(t).0));
            parent[a.max(b) as usize] = a.min(b);
        }
    }
    let mut sizes = vec![0u32; n];
    for o in 0..n as u32 {
        sizes[root(&mut parent, o) as usize] += 1;
    }
    let mut components: Vec<u32> = (0..n as u32).filter(|&o| sizes[o as usize] > 0).collect();
    components.sort_by_key(|&c| (std::cmp::Reverse(sizes[c as usize]), c));
    let count = components.len().min(PARTS);
    let mut loads: std::collections::BinaryHeap<_> =
        (0..count).map(|p| std::cmp::Reverse((0u64, p))).collect();
    let mut part_of = vec![0usize; n];
    for c in components {
        if let Some(mut least) = loads.peek_mut() {
            let (load, part) = least.0;
            part_of[c as usize] = part;
            *least = std::cmp::Reverse((load + u64::from(sizes[c as usize]), part));
        }
    }
    let mut parts = vec![Vec::new(); count];
    for o in by_depth(problem, budget)? {
        parts[part_of[root(&mut parent, o.0) as usize]].push(o);
    }
    Some(parts)
}
