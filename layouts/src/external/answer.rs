//! Turns what a program says into an answer that the checker confirms.

use super::error::Fault;
use super::evaluation::Evaluation;
use super::format::Format;
use super::toulbar2::Toulbar2;
use crate::id::ConfigId;
use crate::problem::Problem;
use crate::strategy::{Solution, Solutions, SolveError, Status, Trace};

/// What one line says.
pub(super) enum Said {
    Nothing,
    /// An assignment of this cost was found.
    Cost(u64),
    /// Nothing is cheaper.
    Bound(u64),
    /// How the search ended.
    Claim(Claim),
    /// The assignment whose cost was just said, if one was.
    Assignment(Vec<ConfigId>),
}

/// How a program says that its search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// The last cost is the optimum.
    Optimal,
    /// This is the optimum.
    OptimalAt(u64),
    Feasible,
    Infeasible,
    /// It gave up.
    Unknown,
}

/// A line or a model that can't be right.
pub(super) enum Wrong {
    /// The line; what was expected.
    Line(String),
    /// The model that the lines make.
    Model(String),
}

impl Wrong {
    pub fn line(expected: impl Into<String>) -> Self {
        Self::Line(expected.into())
    }
}

/// A way to print answers.
pub(super) trait Dialect {
    fn line(&mut self, line: &str) -> Result<Said, Wrong>;

    /// The assignment that the lines together make, where it is not known line by line.
    fn finish(&mut self) -> Result<Option<Vec<ConfigId>>, Wrong>;

    /// How many variables the instance has in this form.
    fn variables(&self) -> usize;

    /// How the program would have printed an assignment.
    fn how_to_print(&self) -> &'static str;
}

/// How the program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// By itself; how, in words.
    Itself(String),
    /// Of a signal or with an error of its own; how, in words.
    Died(String),
    /// The budget was over, and it was stopped.
    Stopped,
    /// It was refused memory.
    OutOfMemory,
}

/// Why there is no answer: the program's fault, or a claim that the checker refutes.
#[derive(Debug)]
pub(super) enum Refused {
    Fault(Fault),
    Checker(SolveError),
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<SolveError> for Refused {
    fn from(error: SolveError) -> Self {
        Self::Checker(error)
    }
}

/// The answer so far.
pub(super) struct Answer<'p> {
    problem: &'p Problem,
    dialect: Box<dyn Dialect>,
    lines: u64,
    /// How many costs were said.
    costs: u64,
    /// The last of them, until its assignment comes.
    cost: Option<u64>,
    claim: Option<Claim>,
    best: Option<Solution>,
    bound: u64,
    /// The highest bound that the program claims.
    claimed_bound: Option<u64>,
}

impl<'p> Answer<'p> {
    pub fn new(problem: &'p Problem, format: Format) -> Self {
        Self {
            problem,
            dialect: match format {
                Format::Wcnf => Box::new(Evaluation::new(problem)),
                Format::Cfn => Box::new(Toulbar2::new(problem)),
            },
            lines: 0,
            costs: 0,
            cost: None,
            claim: None,
            best: None,
            bound: problem.sum_of_minimum_costs(),
            claimed_bound: None,
        }
    }

    /// How many variables the instance has in its form.
    pub fn variables(&self) -> usize {
        self.dialect.variables()
    }

    /// Takes one line of the program's standard output.
    pub fn line(&mut self, line: &str, trace: &mut Trace<'_>) -> Result<(), Refused> {
        self.lines += 1;
        let said = self.dialect.line(line).map_err(|wrong| self.fault(wrong, line))?;
        match said {
            Said::Nothing => {}
            Said::Cost(cost) => {
                self.costs += 1;
                self.cost = Some(cost);
                // The program's word: the assignment may come later, or never.
                trace.incumbent(cost);
            }
            Said::Bound(bound) => {
                self.claimed_bound = self.claimed_bound.max(Some(bound));
                trace.bound(bound);
            }
            Said::Claim(claim) => self.claim = Some(claim),
            Said::Assignment(assignment) => {
                let claimed = self.cost.take();
                self.keep(assignment, claimed, trace)?;
            }
        }
        Ok(())
    }

    /// The answer, given how the program ended.
    pub fn finish(mut self, ending: &Ending, trace: &mut Trace<'_>) -> Result<Solutions, Refused> {
        let interrupted = matches!(ending, Ending::Stopped | Ending::OutOfMemory);
        match self.dialect.finish() {
            Ok(Some(assignment)) => {
                // Of a stopped program, the last cost may be of a model that it had no time to print.
                let claimed = self.cost.filter(|_| !interrupted || self.claim.is_some());
                self.keep(assignment, claimed, trace)?;
            }
            Ok(None) => {}
            // Cut short, a model is none.
            Err(_) if interrupted => {}
            Err(wrong) => return Err(self.fault(wrong, "").into()),
        }
        self.consistent()?;
        let bound = self.bound.max(self.claimed_bound.unwrap_or(0));
        let mut solutions = match (self.claim, self.best.take()) {
            (Some(Claim::Infeasible), _) => Solutions {
                proof: "the program's word".into(),
                ..Solutions::none(Status::Infeasible, bound)
            },
            (Some(Claim::Optimal | Claim::OptimalAt(_)), Some(best)) => {
                let said = match self.claim {
                    Some(Claim::OptimalAt(cost)) => Some(cost),
                    _ => self.cost,
                };
                let claimed = said.ok_or(Fault::NoCost)?;
                let solution = Solution::claimed(self.problem, best.assignment, claimed)?;
                trace.incumbent(claimed);
                trace.bound(claimed);
                Solutions {
                    proof: "the program's word; the checker confirms the cost".into(),
                    ..Solutions::one(Status::Optimal, solution, claimed)
                }
            }
            (claim, best) => {
                let status = match (ending, claim) {
                    (Ending::Stopped, _) => Status::Timeout,
                    (Ending::OutOfMemory, _) => Status::OutOfMemory,
                    (_, Some(Claim::Unknown)) => Status::Timeout,
                    (_, Some(Claim::Optimal | Claim::OptimalAt(_))) => {
                        return Err(self.unprinted("the optimum"));
                    }
                    (Ending::Died(how), None) => return Err(Fault::Died { how: how.clone() }.into()),
                    (Ending::Itself(how), None) if best.is_none() && self.costs == 0 => {
                        return Err(Fault::NoAnswer { how: how.clone() }.into());
                    }
                    _ if best.is_none() => return Err(self.unprinted("an assignment")),
                    _ => Status::Feasible,
                };
                match best {
                    Some(best) => Solutions::one(status, best, bound),
                    None => Solutions::none(status, bound),
                }
            }
        };
        solutions
            .counters
            .extend([("output_lines", self.lines), ("costs_said", self.costs)]);
        Ok(solutions)
    }

    fn unprinted(&self, what: &'static str) -> Refused {
        let hint = self.dialect.how_to_print();
        Fault::NoAssignment { what, hint }.into()
    }

    /// Has the checker compute an assignment's cost and keeps the cheapest. The cost said may be higher (a model may ask for
    /// layouts that nobody reads), never lower.
    fn keep(
        &mut self,
        assignment: Vec<ConfigId>,
        claimed: Option<u64>,
        trace: &mut Trace<'_>,
    ) -> Result<(), Refused> {
        let refuse = |source| match claimed {
            Some(claimed) => Refused::Checker(SolveError::Invalid { claimed, source }),
            None => Refused::Fault(Fault::Model(source.to_string())),
        };
        let solution = Solution::new(self.problem, assignment).map_err(refuse)?;
        if let Some(claimed) = claimed.filter(|&c| c < solution.cost) {
            let recomputed = solution.cost;
            return Err(SolveError::Mismatch { claimed, recomputed }.into());
        }
        trace.incumbent(solution.cost);
        if self.best.as_ref().is_none_or(|best| solution.cost < best.cost) {
            self.best = Some(solution);
        }
        Ok(())
    }

    /// A program that contradicts itself has no answer.
    fn consistent(&self) -> Result<(), Fault> {
        let Some(cost) = self.best.as_ref().map(|s| s.cost) else {
            return Ok(());
        };
        if self.claim == Some(Claim::Infeasible) {
            return Err(Fault::NotInfeasible(cost));
        }
        match self.claimed_bound {
            Some(bound) if bound > cost => Err(Fault::WrongBound { bound, cost }),
            _ => Ok(()),
        }
    }

    fn fault(&self, wrong: Wrong, line: &str) -> Fault {
        match wrong {
            Wrong::Line(expected) => Fault::Malformed {
                line: self.lines,
                found: line.chars().take(80).collect(),
                expected,
            },
            Wrong::Model(message) => Fault::Model(message),
        }
    }
}
