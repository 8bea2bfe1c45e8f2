//! One solve, from the cheapest means to the last.
//!
//! Eliminate while messages are small; try a search by cores in what is left ([`super::cores`]); eliminate on, the search by cores in the
//! whole problem being given a little time whenever messages pass another size; where tables would not fit, leave the rest of the
//! budget to the search, and at last bound what is left by a relaxation (mini-buckets).

use super::model;
use super::network::{Network, Var};
use super::solve::{Elimination, Outcome};
use super::stream::Streamed;
use super::{Exact, Stop, count, infeasible, k_best, optimal, order};
use crate::greedy::Greedy;
use crate::id::ConfigId;
use crate::maxsat::{SatSolver, core_guided};
use crate::meter::{DEFAULT_LIMIT, Meter};
use crate::problem::Problem;
use crate::strategy::{Budget, Solution, Solutions, SolveError, Status, Strategy, Trace};

/// Tables up to this size are filled before a search by cores in what is left is thought of.
const CORE_ENTRIES: usize = 1 << 8;

/// Tables up to this size are filled before a search by cores in the whole problem is: some milliseconds altogether.
const QUICK_ENTRIES: usize = 1 << 15;

/// Tables up to this size are filled before the search is given longer: some ten milliseconds each.
const EASY_ENTRIES: usize = 1 << 20;

/// Decisions of the SAT solver at the first and the second try: some ten milliseconds, and some seconds. What has few
/// distinct costs (a satisfiability problem, say) it solves within the first; what has many, hardly ever.
const SEARCH_EFFORT: [u64; 2] = [20_000, 3_000_000];

/// Problems of more operators than this are not searched as long as tables fit: stating them alone takes longer.
const SEARCH_OPERATORS: usize = 2_000;

/// Solves `problem`, none of whose operators is without configurations; `bound` is its trivial lower bound.
pub(super) fn solve(
    exact: &Exact,
    problem: &Problem,
    budget: &Budget,
    bound: u64,
    trace: &mut Trace<'_>,
) -> Result<Solutions, SolveError> {
    let search = exact.search && problem.operators().len() <= SEARCH_OPERATORS;
    let most = if search { QUICK_ENTRIES } else { usize::MAX };
    let first = if exact.search { CORE_ENTRIES } else { most };
    let mut attempt = match Attempt::begin(exact, problem, budget, first) {
        Ok(attempt) => attempt,
        Err(Stop::Contradiction) => return Ok(infeasible(bound)),
        Err(Stop::Time) => return stopped(Status::Timeout, problem, budget, bound, None, trace),
        Err(Stop::Memory(wanted)) => {
            let mut s = stopped(Status::OutOfMemory, problem, budget, bound, None, trace)?;
            s.counters.insert("wanted_bytes", wanted);
            return Ok(s);
        }
    };
    if exact.search {
        attempt.search_what_is_left(most)?;
    }
    if search {
        for (effort, most) in SEARCH_EFFORT.into_iter().zip([EASY_ENTRIES, usize::MAX]) {
            if attempt.is_open() && attempt.missing.is_none() {
                attempt.search(Some(effort), trace)?;
                attempt.eliminate(most);
            }
        }
    }
    let fits = least_search_bytes(problem) <= budget.memory_limit.unwrap_or(DEFAULT_LIMIT);
    if exact.search && fits && attempt.is_open() {
        attempt.search(None, trace)?;
    }
    attempt.relax();
    attempt.conclude(trace)
}

/// An elimination, what it came to, and what else was found.
struct Attempt<'a> {
    exact: Exact,
    problem: &'a Problem,
    budget: &'a Budget,
    elimination: Elimination<'a>,
    outcome: Outcome,
    /// The variable of each operator.
    variables: Vec<Var>,
    /// Set when a limit was met before all tensors were there: the elimination cannot go on, and the bound lacks this.
    missing: Option<u64>,
    /// The whole network as it was built, for an enumeration.
    base: Option<Network>,
    by_search: Option<Solutions>,
    /// What the search in what was left counted, if it was that which ended the elimination.
    in_cores: Option<Vec<(&'static str, u64)>>,
}

impl<'a> Attempt<'a> {
    /// Eliminates as long as no table has more than `most` entries.
    fn begin(exact: &Exact, problem: &'a Problem, budget: &'a Budget, most: usize) -> Result<Self, Stop> {
        let meter = Meter::new(budget.memory_limit);
        let (elimination, streamed, base) = if budget.k > 1 || !exact.stream {
            // The pieces of an enumeration constrain the whole network.
            let network = model::build(problem, exact.modelling(), Network::new(meter))?;
            let base = (budget.k > 1).then(|| network.clone());
            let mut elimination = Elimination::new(network, budget, exact.rules());
            let streamed = Streamed {
                variables: (0..problem.operators().len() as Var).collect(),
                missing: None,
                outcome: elimination.run(most),
            };
            (elimination, streamed, base)
        } else {
            let order = order::by_depth(problem, budget).ok_or(Stop::Time)?;
            let mut elimination = Elimination::new(Network::new(meter), budget, exact.rules());
            let repeats = exact.repeats(problem, &order);
            let streamed = elimination.stream(problem, &order, exact.modelling(), repeats, most);
            (elimination, streamed, None)
        };
        Ok(Self {
            exact: *exact,
            problem,
            budget,
            elimination,
            outcome: streamed.outcome,
            variables: streamed.variables,
            missing: streamed.missing,
            base,
            by_search: None,
            in_cores: None,
        })
    }

    /// Whether tables were too large, no search has an answer, and there is time.
    fn is_open(&self) -> bool {
        matches!(self.outcome, Outcome::OutOfMemory { .. })
            && !self.by_search.as_ref().is_some_and(is_answer)
            && !self.budget.exhausted()
    }

    /// A lower bound on the optimum; the optimum once it is solved.
    fn bound(&self) -> u64 {
        self.elimination.net.constant + self.missing.unwrap_or(0)
    }

    /// Searches by cores in what elimination left, if that is likely to be quick, and goes on eliminating if not.
    fn search_what_is_left(&mut self, most: usize) -> Result<(), SolveError> {
        if !self.is_open() || self.missing.is_some() {
            return Ok(());
        }
        match self.elimination.search()? {
            None => self.outcome = self.elimination.run(most),
            Some((outcome, counters)) => {
                self.outcome = outcome;
                self.in_cores = Some(counters);
            }
        }
        Ok(())
    }

    /// A core-guided search (see [`crate::maxsat`]) from the best assignment known, greedy's if none.
    fn search(&mut self, effort: Option<u64>, trace: &mut Trace<'_>) -> Result<(), SolveError> {
        trace.bound(self.bound());
        let (problem, budget) = (self.problem, self.budget);
        let known = match self.by_search.take().and_then(|s| s.ranked.into_iter().next()) {
            Some(solution) => Some(solution),
            None => Greedy.solve(problem, budget, trace)?.ranked.into_iter().next(),
        };
        let found = core_guided(problem, SatSolver::default(), budget, effort, known, trace)?;
        self.by_search = Some(found);
        Ok(())
    }

    /// Goes on with tables of up to `most` entries.
    fn eliminate(&mut self, most: usize) {
        if self.is_open() {
            self.outcome = self.elimination.run(most);
        }
    }

    /// Bounds what is left.
    fn relax(&mut self) {
        if let Outcome::OutOfMemory { wanted } = self.outcome
            && self.missing.is_none()
            && !self.by_search.as_ref().is_some_and(is_answer)
        {
            self.outcome = match self.elimination.relax() {
                Outcome::Infeasible => Outcome::Infeasible,
                _ => Outcome::OutOfMemory { wanted },
            };
        }
    }

    fn conclude(mut self, trace: &mut Trace<'_>) -> Result<Solutions, SolveError> {
        let (problem, budget, bound) = (self.problem, self.budget, self.bound());
        let by_search = self.by_search.take();
        let mut solutions = match self.outcome {
            Outcome::Solved(values) => {
                let chosen = |&v: &Var| ConfigId(values[v as usize]);
                let assignment: Vec<_> = self.variables.iter().map(chosen).collect();
                let mut solutions = optimal(problem, assignment.clone(), bound, trace)?;
                if let Some(base) = &self.base {
                    let first = (assignment, bound);
                    let found = k_best::k_best(problem, base, first, self.exact.rules(), budget);
                    for (assignment, cost) in found.solutions.into_iter().skip(1) {
                        let next = Solution::claimed(problem, assignment, cost)?;
                        solutions.ranked.push(next);
                    }
                    let counted = [
                        ("k_complete", u64::from(found.complete)),
                        ("k_eliminations", found.solved),
                    ];
                    solutions.counters.extend(counted);
                }
                solutions
            }
            Outcome::Infeasible => infeasible(problem.sum_of_minimum_costs()),
            Outcome::OutOfMemory { wanted } => {
                let mut solutions = stopped(Status::OutOfMemory, problem, budget, bound, by_search, trace)?;
                solutions.counters.insert("wanted_bytes", wanted);
                solutions
            }
            Outcome::Timeout => stopped(Status::Timeout, problem, budget, bound, by_search, trace)?,
        };
        solutions.peak_bytes = self.elimination.net.meter.peak();
        count(
            &mut solutions,
            self.elimination.net.len() as u64,
            self.elimination.counters,
        );
        if let Some(counters) = self.in_cores {
            solutions.proof.push_str(", then cores in what it left");
            solutions.counters.extend(counters);
        }
        Ok(solutions)
    }
}

/// Whether nothing is left to prove.
fn is_answer(solutions: &Solutions) -> bool {
    matches!(solutions.status, Status::Optimal | Status::Infeasible)
}

/// A variable of the search per configuration, some hundred bytes each: where these alone do not fit, the encoding must
/// not be written out to find that.
fn least_search_bytes(problem: &Problem) -> u64 {
    let configs = problem.operators().map(|o| o.num_configs() as u64);
    configs.sum::<u64>() * 96
}

/// The best of what the search found (greedy's assignment if it did not run) under the better bound; optimal when an
/// assignment meets it.
fn stopped(
    status: Status,
    problem: &Problem,
    budget: &Budget,
    bound: u64,
    by_search: Option<Solutions>,
    trace: &mut Trace<'_>,
) -> Result<Solutions, SolveError> {
    let mut solutions = match by_search {
        Some(s) if is_answer(&s) => return Ok(s),
        Some(s) => Solutions {
            status: if budget.exhausted() {
                Status::Timeout
            } else {
                status
            },
            ..s
        },
        None => Solutions {
            counters: Default::default(),
            ..Greedy.solve(problem, budget, trace)?
        },
    };
    trace.bound(bound);
    solutions.lower_bound = solutions.lower_bound.max(bound);
    solutions.status = match solutions.best() {
        Some(best) if best.cost == solutions.lower_bound => {
            solutions.proof = "the relaxation's bound meets the assignment".into();
            Status::Optimal
        }
        _ if budget.exhausted() => Status::Timeout,
        _ => status,
    };
    Ok(solutions)
}
