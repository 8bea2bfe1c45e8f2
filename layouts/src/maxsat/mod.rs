//! `maxsat`: the seed's encoding (section 3.2.2) under a core-guided search of ours on a SAT solver.
//!
//! `objective` turns the soft clauses into weighted literals, `oll` searches, `backend` is the SAT solver. With the `z3` feature,
//! `z3` has z3's optimiser solve the same encoding instead.
//! Anytime: incumbents and bounds are streamed, and running into a limit returns the best pair.

mod assumptions;
pub mod backend;
pub(crate) mod objective;
pub(crate) mod oll;
#[cfg(feature = "z3")]
pub mod z3;

use objective::{Objective, lit};
use rustsat::types::Lit;

use crate::encoding::{Encoding, Literal};
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
    let mut place = vec![0; problem.operators().len()];
    for (o, at) in problem.topological_order().iter().zip(0u32..) {
        place[o.index()] = at;
    }
    let mut sat = backend::open(solver, budget);
    for clause in &encoding.hard {
        sat.add(clause.iter().copied().map(lit).collect())?;
    }
    for pair in encoding.pairs() {
        sat.add(pair.into_iter().map(lit).collect())?;
    }
    let mut objective = Objective::new(&encoding, &place);
    for clause in objective.clauses.drain(..) {
        sat.add(clause)?;
    }
    let models = Assignments {
        problem,
        encoding: &encoding,
    };
    let known = known.map(|s| (s.cost, s));
    let found = oll::Search::new(models, objective, sat, budget, meter, known).run(effort, trace)?;
    let mut solutions = Solutions::none(found.status, found.lower);
    solutions.ranked.extend(found.best.map(|(_, solution)| solution));
    solutions.proof = match found.status {
        Status::Optimal => "cores cover the cost of the best model",
        Status::Infeasible => "the hard clauses are unsatisfiable",
        _ => "",
    }
    .into();
    solutions.peak_bytes = found.peak_bytes;
    solutions.counters.extend(found.counters);
    solutions.counters.extend([
        ("variables", encoding.meanings.len() as u64),
        (
            "hard_clauses",
            encoding.hard.len() as u64 + encoding.pairs().count() as u64,
        ),
        ("soft_clauses", encoding.soft.len() as u64),
    ]);
    Ok(solutions)
}

/// Models of the encoding are assignments, priced by the checker.
struct Assignments<'a> {
    problem: &'a Problem,
    encoding: &'a Encoding,
}

impl oll::Models for Assignments<'_> {
    type Assignment = Solution;

    fn read(&self, holds: &dyn Fn(Lit) -> bool) -> Result<(u64, Solution), SolveError> {
        let wrong = |message: String| SolveError::Backend {
            library: "rustsat",
            message,
        };
        let assignment = self
            .encoding
            .decode(|v| holds(lit(Literal::positive(v))))
            .ok_or_else(|| {
                wrong("a model of the hard clauses leaves an operator without configuration".into())
            })?;
        let solution = Solution::new(self.problem, assignment)
            .map_err(|e| wrong(format!("a model of the hard clauses is no assignment: {e}")))?;
        Ok((solution.cost, solution))
    }
}
