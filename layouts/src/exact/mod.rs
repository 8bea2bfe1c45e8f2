//! `exact`: proven optima by variable elimination in a cost function network.
//!
//! `model` states the problem as a network, `solve` eliminates its variables in order of message size, removing
//! dominated values around each (dead-end elimination) before its neighbours' tables grow. Every reduction is a switch.
//! Single-threaded and deterministic; with [`Budget::threads`], independent components are solved side by side. Tables are counted against the memory limit before they are allocated. Where they
//! grow large, a core-guided search is given a chance first; where they would not fit, it has the rest of the budget, and
//! a relaxation (mini-buckets) may improve its bound.
//!
//! With `k` above 1, `k_best` goes on to the next cheapest assignments whose programs differ; that costs an elimination
//! per tensor and solution. The counter `k_complete` is 0 when a limit cut it short.
//!
//! Time and memory (for one solution) are linear in the number of operators at bounded width.

mod boxes;
mod cores;
mod dominance;
mod eliminate;
mod k_best;
mod model;
mod network;
mod order;
mod parallel;
mod queue;
mod records;
mod solve;

pub use model::Hubs;
use network::Network;

use crate::greedy::Greedy;
use crate::id::ConfigId;
use crate::maxsat::SatSolver;
use crate::meter::{DEFAULT_LIMIT, Exceeded, Meter};
use crate::nearest::nearest;
use crate::problem::Problem;
use crate::strategy::{Budget, Solution, Solutions, SolveError, Status, Strategy, Trace};

/// Why a step of the solver stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// Some variable has no value left, or every tuple of a table is forbidden.
    Contradiction,
    /// So many bytes would have been in use.
    Memory(u64),
    Time,
}

impl From<Exceeded> for Stop {
    fn from(e: Exceeded) -> Self {
        Self::Memory(e.wanted)
    }
}

/// The strategy, with its switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exact {
    /// Remove dominated values.
    pub dominance: bool,
    /// Give produced layouts variables of their own.
    pub produced: bool,
    /// Give the requests of operators with many configurations variables of their own.
    pub requests: bool,
    /// How shared conversions are modelled.
    pub hubs: Hubs,
    /// Build the network and eliminate in one pass (with [`Budget::k`] above 1 the whole network is built in any case).
    pub stream: bool,
    /// Where tables grow large, try a search by cores before and after them.
    pub search: bool,
}

impl Default for Exact {
    fn default() -> Self {
        Self {
            dominance: true,
            produced: true,
            requests: true,
            hubs: Hubs::Subsets(3),
            stream: true,
            search: true,
        }
    }
}

/// The names of the switches, for [`Exact::without`].
pub const SWITCHES: &[(&str, &str)] = &[
    (
        "dominance",
        "dead-end elimination of values that another can replace",
    ),
    (
        "produced",
        "variables for the layouts that operators with many configurations produce",
    ),
    (
        "requests",
        "variables for the layouts that operators with many configurations request",
    ),
    (
        "subsets",
        "one subset-valued hub per tensor of few shared layouts, in place of Boolean ones",
    ),
    (
        "stream",
        "eliminating while the network is built, in place of afterwards",
    ),
    ("search", "a search by cores where tables grow large"),
];

/// No switch has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`exact` has no switch {name:?}; did you mean {nearest:?}?")]
pub struct UnknownSwitch {
    /// The name asked for.
    pub name: String,
    /// The nearest name there is.
    pub nearest: &'static str,
}

impl Exact {
    /// The same with a reduction switched off.
    ///
    /// # Errors
    /// [`UnknownSwitch`], with the nearest name.
    pub fn without(mut self, switch: &str) -> Result<Self, UnknownSwitch> {
        match switch {
            "dominance" => self.dominance = false,
            "produced" => self.produced = false,
            "requests" => self.requests = false,
            "stream" => self.stream = false,
            "search" => self.search = false,
            "subsets" => self.hubs = Hubs::Boolean,
            _ => {
                let names: Vec<&str> = SWITCHES.iter().map(|s| s.0).collect();
                return Err(UnknownSwitch {
                    name: switch.into(),
                    nearest: nearest(switch, &names),
                });
            }
        }
        Ok(self)
    }
}

/// Operators with fewer configurations get no variables for what they produce and request: they would only add tables.
const MANY_CONFIGS: usize = 16;

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

impl Strategy for Exact {
    fn name(&self) -> &str {
        "exact"
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
        let modelling = model::Modelling {
            hubs: self.hubs,
            produced_from: if self.produced { MANY_CONFIGS } else { usize::MAX },
            requests_from: if self.requests { MANY_CONFIGS } else { usize::MAX },
        };
        let infeasible = || Solutions {
            proof: "variable elimination leaves a domain empty".into(),
            ..Solutions::none(Status::Infeasible, bound)
        };
        if budget.threads > 1 && budget.k == 1 && self.stream {
            match parallel::solve(problem, modelling, budget, self.dominance) {
                None => {}
                Some(parallel::Answer::Infeasible) => return Ok(infeasible()),
                Some(parallel::Answer::Solved {
                    assignment,
                    cost,
                    variables,
                    peak,
                    counters,
                }) => {
                    let mut solutions = optimal(problem, assignment, cost, trace)?;
                    solutions.peak_bytes = peak;
                    count(&mut solutions, variables, counters);
                    return Ok(solutions);
                }
            }
        }
        let meter = Meter::new(budget.memory_limit);
        let search = self.search && problem.operators().len() <= SEARCH_OPERATORS;
        let most = if search { QUICK_ENTRIES } else { usize::MAX };
        let first = if self.search { CORE_ENTRIES } else { most };
        let mut base = None;
        let (mut elimination, streamed) = if budget.k > 1 || !self.stream {
            // The pieces of an enumeration constrain the whole network.
            let network = match model::build(problem, modelling, Network::new(meter)) {
                Ok(network) => network,
                Err(Stop::Contradiction) => return Ok(infeasible()),
                Err(Stop::Time) => return stopped(Status::Timeout, problem, budget, bound, None, trace),
                Err(Stop::Memory(wanted)) => {
                    let mut s = stopped(Status::OutOfMemory, problem, budget, bound, None, trace)?;
                    s.counters.insert("wanted_bytes", wanted);
                    return Ok(s);
                }
            };
            base = (budget.k > 1).then(|| network.clone());
            let mut elimination = solve::Elimination::new(network, budget, self.dominance);
            let outcome = elimination.run(first);
            let variables = (0..problem.operators().len() as u32).collect();
            let streamed = solve::Streamed {
                variables,
                missing: None,
                outcome,
            };
            (elimination, streamed)
        } else {
            let mut elimination = solve::Elimination::new(Network::new(meter), budget, self.dominance);
            let streamed = elimination.stream(problem, &order::by_depth(problem), modelling, first);
            (elimination, streamed)
        };
        let (mut outcome, missing) = (streamed.outcome, streamed.missing);
        let mut in_cores = None;
        if let (solve::Outcome::OutOfMemory { .. }, true, None) = (&outcome, self.search, missing) {
            outcome = match elimination.search()? {
                None => elimination.run(most),
                Some((found, counters)) => {
                    in_cores = Some(counters);
                    found
                }
            };
        }
        // Wide, but perhaps easy for a search by cores; if not, larger tables, and at last whatever is left of the budget.
        let mut by_search: Option<Solutions> = None;
        let tries = SEARCH_EFFORT.into_iter().zip([EASY_ENTRIES, usize::MAX]);
        for (effort, most) in tries.filter(|_| search) {
            let solve::Outcome::OutOfMemory { .. } = outcome else {
                break;
            };
            if missing.is_some() {
                break;
            }
            trace.bound(elimination.net.constant);
            let known = by_search.take().and_then(|s| s.ranked.into_iter().next());
            let found = self.search(problem, budget, Some(effort), known, trace)?;
            let done = matches!(found.status, Status::Optimal | Status::Infeasible) || budget.exhausted();
            by_search = Some(found);
            if done {
                break;
            }
            outcome = elimination.run(most);
        }
        if let (true, solve::Outcome::OutOfMemory { .. }) = (self.search, &outcome)
            && by_search
                .as_ref()
                .is_none_or(|s| !matches!(s.status, Status::Optimal | Status::Infeasible))
            && !budget.exhausted()
            && least_search_bytes(problem) <= budget.memory_limit.unwrap_or(DEFAULT_LIMIT)
        {
            trace.bound(elimination.net.constant + missing.unwrap_or(0));
            let known = by_search.take().and_then(|s| s.ranked.into_iter().next());
            by_search = Some(self.search(problem, budget, None, known, trace)?);
        }
        if let solve::Outcome::OutOfMemory { wanted } = outcome
            && missing.is_none()
            && by_search
                .as_ref()
                .is_none_or(|s| !matches!(s.status, Status::Optimal | Status::Infeasible))
        {
            outcome = match elimination.relax() {
                solve::Outcome::Infeasible => solve::Outcome::Infeasible,
                _ => solve::Outcome::OutOfMemory { wanted },
            };
        }
        let constant = elimination.net.constant + missing.unwrap_or(0);
        let variables = elimination.net.len() as u64;
        let mut solutions = match outcome {
            solve::Outcome::Solved(values) => {
                let chosen = |&v: &u32| ConfigId(values[v as usize]);
                let assignment: Vec<_> = streamed.variables.iter().map(chosen).collect();
                let mut solutions = optimal(problem, assignment.clone(), constant, trace)?;
                if let Some(base) = base {
                    let first = (assignment, constant);
                    let found = k_best::k_best(problem, &base, first, self.dominance, budget);
                    for (assignment, cost) in found.solutions.into_iter().skip(1) {
                        solutions
                            .ranked
                            .push(Solution::claimed(problem, assignment, cost)?);
                    }
                    let counted = [
                        ("k_complete", u64::from(found.complete)),
                        ("k_eliminations", found.solved),
                    ];
                    solutions.counters.extend(counted);
                }
                solutions
            }
            solve::Outcome::Infeasible => infeasible(),
            solve::Outcome::OutOfMemory { wanted } => {
                let mut solutions =
                    stopped(Status::OutOfMemory, problem, budget, constant, by_search, trace)?;
                solutions.counters.insert("wanted_bytes", wanted);
                solutions
            }
            solve::Outcome::Timeout => stopped(Status::Timeout, problem, budget, constant, by_search, trace)?,
        };
        solutions.peak_bytes = elimination.net.meter.peak();
        count(&mut solutions, variables, elimination.counters);
        if let Some(counters) = in_cores {
            solutions.proof.push_str(", then cores in what it left");
            solutions.counters.extend(counters);
        }
        Ok(solutions)
    }
}

/// A variable of the search per configuration, some hundred bytes each: where these alone do not fit, the encoding must
/// not be written out to find that.
fn least_search_bytes(problem: &Problem) -> u64 {
    let configs = problem.operators().iter().map(|o| o.num_configs() as u64);
    configs.sum::<u64>() * 96
}

/// The answer that an elimination came to.
fn optimal(
    problem: &Problem,
    assignment: Vec<ConfigId>,
    cost: u64,
    trace: &mut Trace<'_>,
) -> Result<Solutions, SolveError> {
    let solution = Solution::claimed(problem, assignment, cost)?;
    trace.incumbent(cost);
    trace.bound(cost);
    Ok(Solutions {
        proof: "variable elimination".into(),
        ..Solutions::one(Status::Optimal, solution, cost)
    })
}

fn count(solutions: &mut Solutions, variables: u64, c: solve::Counters) {
    solutions.counters.extend([
        ("variables", variables),
        ("dominated_values", c.dominated),
        ("fixed_variables", c.fixed),
        ("eliminated_variables", c.eliminated),
        ("table_entries", c.entries),
        ("largest_table", c.largest_table),
        ("width", c.width),
        ("split_variables", c.split),
    ]);
}

impl Exact {
    /// A core-guided search (see [`crate::maxsat`]) from the best assignment known, greedy's if none.
    fn search(
        &self,
        problem: &Problem,
        budget: &Budget,
        effort: Option<u64>,
        known: Option<Solution>,
        trace: &mut Trace<'_>,
    ) -> Result<Solutions, SolveError> {
        let known = match known {
            Some(solution) => Some(solution),
            None => Greedy.solve(problem, budget, trace)?.ranked.into_iter().next(),
        };
        crate::maxsat::core_guided(problem, SatSolver::default(), budget, effort, known, trace)
    }
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
        Some(s) if matches!(s.status, Status::Optimal | Status::Infeasible) => return Ok(s),
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
