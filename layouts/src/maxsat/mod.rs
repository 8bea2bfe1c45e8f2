//! `maxsat`: the seed's encoding (section 3.2.2) under a core-guided search of ours on a SAT solver.
//!
//! `objective` turns the soft clauses into weighted literals, `oll` searches, `backend` is the SAT solver. With the `z3` feature,
//! `z3` has z3's optimiser solve the same encoding instead.
//! Anytime: incumbents and bounds are streamed, and running into a limit returns the best pair.

mod assumptions;
pub mod backend;
mod objective;
mod oll;
#[cfg(feature = "z3")]
pub mod z3;

use crate::encoding::Encoding;
use crate::greedy::Greedy;
use crate::meter::Meter;
use crate::problem::Problem;
use crate::strategy::{Budget, Solution, Solutions, SolveError, Status, Strategy, Trace};

/// Which SAT solver the search runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SatSolver {
    /// BatSat: pure Rust, always there.
    #[cfg_attr(not(feature = "cadical"), default)]
    Batsat,
    /// CaDiCaL: faster, C++. The default of a build that has it.
    #[cfg(feature = "cadical")]
    #[default]
    Cadical,
}

/// The strategy.
#[derive(Clone, Copy, Debug, Default)]
pub struct MaxSat {
    /// The SAT solver.
    pub solver: SatSolver,
}

impl Strategy for MaxSat {
    fn name(&self) -> &str {
        "maxsat"
    }

    fn solve(
        &self,
        problem: &Problem,
        budget: &Budget,
        trace: &mut Trace<'_>,
    ) -> Result<Solutions, SolveError> {
        let bound = problem.sum_of_minimum_costs();
        trace.bound(bound);
        if let Some(o) = problem.operator_without_configs() {
            return Ok(Solutions::operator_without_configs(problem, o));
        }
        let greedy = Greedy.solve(problem, budget, trace)?.ranked.into_iter().next();
        core_guided(problem, self.solver, budget, None, greedy, trace)
    }
}

/// The search, from a known assignment if there is one. `effort` limits the SAT solver's decisions, so that a caller with
/// other means can give up deterministically; the status is `timeout` then.
pub(crate) fn core_guided(
    problem: &Problem,
    solver: SatSolver,
    budget: &Budget,
    effort: Option<u64>,
    known: Option<Solution>,
    trace: &mut Trace<'_>,
) -> Result<Solutions, SolveError> {
    let bound = problem.sum_of_minimum_costs();
    let encoding = Encoding::new(problem);
    let mut meter = Meter::new(budget.memory_limit);
    let stopped = |status, known: Option<Solution>| match known {
        Some(solution) => Solutions::one(status, solution, bound),
        None => Solutions::none(status, bound),
    };
    if let Err(e) = meter.take(backend::estimated_bytes(&encoding)) {
        let mut solutions = stopped(Status::OutOfMemory, known);
        solutions.counters.insert("wanted_bytes", e.wanted);
        return Ok(solutions);
    }
    if budget.exhausted() {
        return Ok(stopped(Status::Timeout, known));
    }
    let sat = backend::open(solver, budget);
    let mut search = oll::Search::new(problem, &encoding, sat, budget, meter, known)?;
    let status = search.run(effort, trace)?;
    Ok(search.into_solutions(status))
}
