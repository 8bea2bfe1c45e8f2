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

/// For each operator that is no projection, itself; the projections that move with it follow in topological order.
/// Units are ordered as their first members are, topologically.
pub(crate) fn units(problem: &Problem) -> Vec<Vec<OpId>> {
    let mut unit_of = vec![usize::MAX; problem.operators().len()];
    let mut units: Vec<Vec<OpId>> = Vec::new();
    for &o in problem.topological_order() {
        let unit = if problem.is_projection(o) {
            unit_of[problem.producer(problem.operator(o).inputs[0]).index()]
        } else {
            units.push(Vec::new());
            units.len() - 1
        };
        unit_of[o.index()] = unit;
        units[unit].push(o);
    }
    units
}
