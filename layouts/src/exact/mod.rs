//! `exact`: proven optima by variable elimination in a cost function network.
//!
//! `model` states the problem as a network, `solve` eliminates its variables in order of message size, removing
//! dominated values around each (dead-end elimination) before its neighbours' tables grow, and splitting messages that fall apart
//! (`decompose`). `stream` does that while the network is built, and `replay` leaves out the copies of blocks that `repeats` finds. Every
//! reduction is a switch.
//! Single-threaded and deterministic; with [`Budget::threads`], independent components are solved side by side. Tables are
//! counted against the memory limit before they are allocated. `attempt` says what is tried in which order where they grow large.
//!
//! With `k` above 1, `k_best` goes on to the next cheapest assignments whose programs differ; that costs an elimination
//! per tensor and solution. The counter `k_complete` is 0 when a limit cut it short.
//!
//! Time and memory (for one solution) are linear in the number of operators at bounded width.

mod attempt;
mod boxes;
mod cores;
mod counters;
mod decompose;
mod dominance;
mod eliminate;
mod k_best;
mod model;
mod network;
mod order;
mod parallel;
mod queue;
mod read_ahead;
mod records;
mod relax;
mod repeats;
mod replay;
mod snapshot;
mod solve;
mod stream;

pub use model::Hubs;

use crate::id::{ConfigId, OpId};
use crate::meter::Exceeded;
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
    /// Split messages into parts that have nothing to do with each other.
    pub decompose: bool,
    /// Give produced layouts variables of their own.
    pub produced: bool,
    /// Give the requests of operators with many configurations variables of their own.
    pub requests: bool,
    /// How shared conversions are modelled.
    pub hubs: Hubs,
    /// Build the network and eliminate in one pass (with [`Budget::k`] above 1 the whole network is built in any case).
    pub stream: bool,
    /// Eliminate the copies of a block once (with [`Self::stream`], and one solution).
    pub blocks: bool,
    /// Where tables grow large, try a search by cores before and after them.
    pub search: bool,
}

impl Default for Exact {
    fn default() -> Self {
        Self {
            dominance: true,
            decompose: true,
            produced: true,
            requests: true,
            hubs: Hubs::Subsets(3),
            stream: true,
            blocks: true,
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
        "decompose",
        "splitting messages into parts that have nothing to do with each other",
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
    (
        "blocks",
        "eliminating one copy of a block that repeats, in place of all",
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
            "decompose" => self.decompose = false,
            "produced" => self.produced = false,
            "requests" => self.requests = false,
            "stream" => self.stream = false,
            "blocks" => self.blocks = false,
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

impl Exact {
    fn repeats(&self, problem: &Problem, order: &[OpId]) -> repeats::Repeats {
        if self.blocks {
            repeats::find(problem, order)
        } else {
            repeats::Repeats::default()
        }
    }

    fn rules(&self) -> solve::Rules {
        solve::Rules {
            dominance: self.dominance,
            decompose: self.decompose,
        }
    }

    fn modelling(&self) -> model::Modelling {
        model::Modelling {
            hubs: self.hubs,
            produced_from: if self.produced { MANY_CONFIGS } else { usize::MAX },
            requests_from: if self.requests { MANY_CONFIGS } else { usize::MAX },
        }
    }
}

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
        if budget.threads > 1 && budget.k == 1 && self.stream {
            match parallel::solve(self, problem, budget) {
                None => {}
                Some(parallel::Answer::Infeasible) => return Ok(infeasible(bound)),
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
        attempt::solve(self, problem, budget, bound, trace)
    }
}

fn infeasible(bound: u64) -> Solutions {
    Solutions {
        proof: "variable elimination leaves a domain empty".into(),
        ..Solutions::none(Status::Infeasible, bound)
    }
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

fn count(solutions: &mut Solutions, variables: u64, c: counters::Counters) {
    solutions.counters.extend([
        ("variables", variables),
        ("dominated_values", c.dominated),
        ("fixed_variables", c.fixed),
        ("eliminated_variables", c.eliminated),
        ("table_entries", c.entries),
        ("largest_table", c.largest_table),
        ("width", c.width),
        ("split_variables", c.split),
        ("decomposed_variables", c.decomposed),
        ("repeated_operators", c.repeated),
    ]);
}
