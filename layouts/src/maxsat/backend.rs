//! The SAT solver under the search: any that rustsat wraps, interruptible by the budget.

use std::cell::Cell;
use std::rc::Rc;

use rustsat::solvers::{SolveIncremental, SolverResult};
use rustsat::types::{Clause, Lit, TernaryVal};

use super::SatSolver;
use crate::encoding::Encoding;
use crate::strategy::{Budget, SolveError};

/// The answer to one query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Sat,
    /// Assumptions that cannot hold together.
    Unsat(Vec<Lit>),
    Interrupted,
}

/// An incremental SAT solver.
pub(crate) trait Sat {
    fn add(&mut self, clause: Clause) -> Result<(), SolveError>;

    /// Solves under assumptions. `effort` limits the decisions (roughly); without it only the budget does.
    fn solve(&mut self, assumptions: &[Lit], effort: Option<u64>) -> Result<Answer, SolveError>;

    /// The value in the last model; a variable without one is false.
    fn holds(&self, literal: Lit) -> bool;

    /// Decisions of all queries so far, roughly.
    fn spent(&self) -> u64;
}

struct Wrapped<S> {
    solver: S,
    effort: Rc<Cell<u64>>,
    spent: u64,
}

/// Bytes that clauses and variables of the encoding take in a MiniSat-like solver: a clause header with its literals
/// and two watches, and a dozen words per variable.
pub(crate) fn estimated_bytes(encoding: &Encoding) -> u64 {
    let clause = |literals: u64| 44 + 4 * literals;
    let hard: u64 = encoding.hard.iter().map(|c| clause(c.len() as u64)).sum();
    let soft: u64 = encoding
        .soft
        .iter()
        .map(|(c, _)| clause(c.len() as u64 + 1) + 96)
        .sum();
    let pairs: u64 = encoding
        .groups
        .iter()
        .map(|&(_, n)| u64::from(n) * u64::from(n.saturating_sub(1)) / 2)
        .sum();
    hard + soft + pairs * clause(2) + encoding.meanings.len() as u64 * 96
}

pub(crate) fn open(solver: SatSolver, budget: &Budget) -> Box<dyn Sat> {
    let effort = Rc::new(Cell::new(u64::MAX));
    match solver {
        SatSolver::Batsat => {
            let mut solver = rustsat_batsat::BasicSolver::default();
            let (budget, left, calls, expired) =
                (budget.clone(), effort.clone(), Cell::new(0u32), Cell::new(false));
            // BatSat asks again after a stopped search and restarts when the answer changed: it must not change back.
            solver.batsat_mut().cb_mut().set_stop(move || {
                left.set(left.get().saturating_sub(1));
                calls.set(calls.get().wrapping_add(1));
                // The clock is read on every 64th decision.
                if calls.get() % 64 == 0 && budget.exhausted() {
                    expired.set(true);
                }
                left.get() == 0 || expired.get()
            });
            Box::new(Wrapped {
                solver,
                effort,
                spent: 0,
            })
        }
        #[cfg(feature = "cadical")]
        SatSolver::Cadical => {
            use rustsat::solvers::{ControlSignal, Terminate};
            let mut solver = rustsat_cadical::CaDiCaL::default();
            let (budget, left) = (budget.clone(), effort.clone());
            solver.attach_terminator(move || {
                left.set(left.get().saturating_sub(1));
                if left.get() == 0 || budget.exhausted() {
                    ControlSignal::Terminate
                } else {
                    ControlSignal::Continue
                }
            });
            Box::new(Wrapped {
                solver,
                effort,
                spent: 0,
            })
        }
    }
}

fn failed(e: impl std::fmt::Display) -> SolveError {
    SolveError::Backend {
        library: "rustsat",
        message: e.to_string(),
    }
}

impl<S: SolveIncremental> Sat for Wrapped<S> {
    fn add(&mut self, clause: Clause) -> Result<(), SolveError> {
        self.solver.add_clause(clause).map_err(failed)
    }

    fn solve(&mut self, assumptions: &[Lit], effort: Option<u64>) -> Result<Answer, SolveError> {
        let effort = effort.unwrap_or(u64::MAX);
        self.effort.set(effort);
        let result = self.solver.solve_assumps(assumptions).map_err(failed)?;
        self.spent += 1 + (effort - self.effort.get());
        match result {
            SolverResult::Sat => Ok(Answer::Sat),
            SolverResult::Interrupted => Ok(Answer::Interrupted),
            // rustsat's core is a clause over negated assumptions.
            SolverResult::Unsat => {
                let core = self.solver.core().map_err(failed)?;
                Ok(Answer::Unsat(core.into_iter().map(|l| !l).collect()))
            }
        }
    }

    fn holds(&self, literal: Lit) -> bool {
        matches!(self.solver.lit_val(literal), Ok(TernaryVal::True))
    }

    fn spent(&self) -> u64 {
        self.spent
    }
}
