//! `local`: each operator takes its cheapest configuration, blind to conversions (seed, section 4.1).
//!
//! Ties go to the lowest index (extraction lists the imported layout first). Since ties are most of this baseline, the
//! counters report how many operators had one and what the plan costs when ties go to the highest index instead.
//! A projection has no choice: it follows its operator.

use crate::id::ConfigId;
use crate::problem::Problem;
use crate::projection;
use crate::strategy::{Budget, Solution, Solutions, SolveError, Status, Strategy, Trace};

/// The strategy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Local;

impl Strategy for Local {
    fn name(&self) -> &str {
        "local"
    }

    fn solve(
        &self,
        problem: &Problem,
        _budget: &Budget,
        trace: &mut Trace<'_>,
    ) -> Result<Solutions, SolveError> {
        let bound = problem.sum_of_minimum_costs();
        trace.bound(bound);
        if let Some(o) = problem.operator_without_configs() {
            return Ok(Solutions::operator_without_configs(problem, o));
        }
        let unset = || vec![UNSET; problem.operators().len()];
        let plan = |ties: Ties| cheapest(problem, unset(), ties).and_then(|a| Solution::new(problem, a).ok());
        let mut solutions = match plan(Ties::Lowest) {
            Some(solution) => {
                trace.incumbent(solution.cost);
                Solutions::one(Status::Feasible, solution, bound)
            }
            None => Solutions::none(Status::NoPlan, bound),
        };
        solutions
            .counters
            .insert("tied_operators", tied_operators(problem));
        match plan(Ties::Highest) {
            Some(reversed) => solutions
                .counters
                .insert("cost_under_reversed_ties", reversed.cost),
            None => solutions.counters.insert("no_plan_under_reversed_ties", 1),
        };
        Ok(solutions)
    }
}

/// Which of several cheapest configurations.
#[derive(Clone, Copy)]
pub(crate) enum Ties {
    Lowest,
    Highest,
}

/// No configuration yet.
pub(crate) const UNSET: ConfigId = ConfigId(u32::MAX);

/// Gives each operator that has no configuration yet its cheapest one, in file order, which is that of the memory; projections
/// follow. `None` when a projection has no configuration for what its bundle became.
pub(crate) fn cheapest(
    problem: &Problem,
    mut assignment: Vec<ConfigId>,
    ties: Ties,
) -> Option<Vec<ConfigId>> {
    for (op, chosen) in problem.operators().zip(&mut assignment) {
        if *chosen == UNSET {
            let configs = op.configs();
            let cheapest = match ties {
                Ties::Lowest => configs.min_by_key(|(c, k)| (k.cost, c.0)),
                Ties::Highest => configs.min_by_key(|(c, k)| (k.cost, u32::MAX - c.0)),
            };
            *chosen = cheapest?.0;
        }
    }
    for &o in problem.projections() {
        assignment[o.index()] = projection::follow(problem, o, &assignment)?;
    }
    Some(assignment)
}

/// Operators with a choice whose lowest cost is that of more than one configuration.
fn tied_operators(problem: &Problem) -> u64 {
    let tied = |&o: &crate::id::OpId| {
        let op = problem.operator(o);
        op.configs()
            .filter(|(_, k)| Some(k.cost) == op.min_cost())
            .count()
            > 1
    };
    problem
        .op_ids()
        .filter(|&o| !problem.is_projection(o))
        .filter(tied)
        .count() as u64
}
