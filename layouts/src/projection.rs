//! Projections have no choice of their own: an operator and the projections of its bundle move as one unit.

use crate::id::{ConfigId, OpId};
use crate::problem::Problem;

/// The configuration of projection `o` that reads its bundle as the bundle's producer writes it under `assignment`;
/// `None` when there is none.
pub(crate) fn follow(problem: &Problem, o: OpId, assignment: &[ConfigId]) -> Option<ConfigId> {
    let op = problem.operator(o);
    let producer = problem.producer(*op.inputs.first()?);
    let layout = problem
        .operator(producer)
        .config(assignment[producer.index()])
        .output;
    op.configs()
        .find(|(_, k)| k.inputs.first() == Some(&layout))
        .map(|(c, _)| c)
}

/// Operators that move together.
pub(crate) struct Units {
    members: Vec<OpId>,
    /// Where each unit starts, and the end.
    starts: Vec<u32>,
}

impl Units {
    /// For each operator that is no projection, itself; the projections that move with it follow in topological order.
    /// Units are ordered as their first members are, topologically.
    pub fn new(problem: &Problem) -> Self {
        let mut unit_of = vec![0u32; problem.operators().len()];
        // Sizes first, each where the next unit's start will be.
        let mut starts = vec![0];
        for &o in problem.topological_order() {
            let unit = if problem.is_projection(o) {
                unit_of[problem.producer(problem.operator(o).inputs[0]).index()]
            } else {
                starts.push(0);
                starts.len() as u32 - 2
            };
            unit_of[o.index()] = unit;
            starts[unit as usize + 1] += 1;
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut next = starts.clone();
        let mut members = vec![OpId(0); unit_of.len()];
        for &o in problem.topological_order() {
            let at = &mut next[unit_of[o.index()] as usize];
            members[*at as usize] = o;
            *at += 1;
        }
        Self { members, starts }
    }

    pub fn iter(&self) -> impl Iterator<Item = &[OpId]> {
        let range = |w: &[u32]| &self.members[w[0] as usize..w[1] as usize];
        self.starts.windows(2).map(range)
    }
}
