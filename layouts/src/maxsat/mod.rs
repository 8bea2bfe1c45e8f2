//! `maxsat`: the seed's encoding (section 3.2.2) under a core-guided search of ours on a SAT solver.
//!
//! [`objective`] turns the soft clauses into weighted literals, [`oll`] searches, [`backend`] is the SAT solver.
//! Anytime: incumbents and bounds are streamed, and running into a limit returns the best pair.

pub mod backend;
mod objective;
mod oll;

use crate::encoding::Encoding;
use crate::greedy::Greedy;
use crate::meter::Meter;
use crate::problem::Problem;
use crate::strategy::{Budget, Solution, Solutions, SolveError, Status, Strategy, Trace};

/// Which SAT solver the search runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SatSolver {
    /// BatSat: pure Rust, always there.
    #[default]
    Batsat,
    /// CaDiCaL: faster, C++.
    #[cfg(feature = "cadical")]
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
        let encoding = Encoding::new(problem);
        let mut meter = Meter::new(budget.memory_limit);
        let stopped = |status, greedy: Option<Solution>| match greedy {
            Some(solution) => Solutions::one(status, solution, bound),
            None => Solutions::none(status, bound),
        };
        if let Err(e) = meter.take(backend::estimated_bytes(&encoding)) {
            let mut solutions = stopped(Status::OutOfMemory, greedy);
            solutions.counters.insert("wanted_bytes", e.wanted);
            return Ok(solutions);
        }
        if budget.exhausted() {
            return Ok(stopped(Status::Timeout, greedy));
        }
        let sat = backend::open(self.solver, budget);
        let mut search = oll::Search::new(problem, &encoding, sat, budget, meter, greedy)?;
        let status = search.run(trace)?;
        Ok(search.into_solutions(status))
    }
}
