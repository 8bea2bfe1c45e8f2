//! `exact`: proven optima by variable elimination in a cost function network.
//!
//! [`model`] states the problem as a network, [`solve`] eliminates its variables in order of message size, removing
//! dominated values around each (dead-end elimination) before its neighbours' tables grow. Every reduction is a switch.
//! Single-threaded and deterministic. Tables are counted against the memory limit before they are allocated; when they
//! would not fit, the answer is greedy's assignment and the bound of a relaxation (mini-buckets).
//!
//! Time and memory are linear in the number of operators at bounded width.

mod dominance;
mod eliminate;
mod model;
mod network;
mod solve;

pub use model::Hubs;

use crate::greedy::Greedy;
use crate::id::ConfigId;
use crate::nearest::nearest;
use crate::problem::Problem;
use crate::strategy::{Budget, Solution, Solutions, SolveError, Status, Strategy, Trace};

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
}

impl Default for Exact {
    fn default() -> Self {
        Self {
            dominance: true,
            produced: true,
            requests: true,
            hubs: Hubs::Subsets(3),
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

/// Operators with fewer configurations get no request variables: they would only add tables.
const MANY_CONFIGS: usize = 16;

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
            produced: self.produced,
            requests_from: if self.requests { MANY_CONFIGS } else { usize::MAX },
        };
        let infeasible = || Solutions {
            proof: "variable elimination leaves a domain empty".into(),
            ..Solutions::none(Status::Infeasible, bound)
        };
        let Ok(network) = model::build(problem, modelling) else {
            return Ok(infeasible());
        };
        let variables = network.values.len() as u64;
        let mut elimination = solve::Elimination::new(network, budget, self.dominance);
        let outcome = elimination.run();
        let constant = elimination.net.constant;
        let mut solutions = match outcome {
            solve::Outcome::Solved(values) => {
                let assignment = values[..problem.operators().len()]
                    .iter()
                    .map(|&v| ConfigId(v))
                    .collect();
                let solution = Solution::claimed(problem, assignment, constant)?;
                trace.incumbent(solution.cost);
                trace.bound(solution.cost);
                let proof = "variable elimination".into();
                Solutions {
                    proof,
                    ..Solutions::one(Status::Optimal, solution, constant)
                }
            }
            solve::Outcome::Infeasible => infeasible(),
            solve::Outcome::OutOfMemory { wanted } => {
                let mut solutions = self.stopped(Status::OutOfMemory, problem, budget, constant, trace)?;
                solutions.counters.insert("wanted_bytes", wanted);
                solutions
            }
            solve::Outcome::Timeout => self.stopped(Status::Timeout, problem, budget, constant, trace)?,
        };
        let c = elimination.counters;
        solutions.peak_bytes = elimination.meter.peak();
        solutions.counters.extend([
            ("variables", variables),
            ("dominated_values", c.dominated),
            ("fixed_variables", c.fixed),
            ("eliminated_variables", c.eliminated),
            ("table_entries", c.entries),
            ("largest_table", c.largest_table),
            ("split_variables", c.split),
        ]);
        Ok(solutions)
    }
}

impl Exact {
    /// Greedy's assignment under a bound; optimal after all when they meet.
    fn stopped(
        &self,
        status: Status,
        problem: &Problem,
        budget: &Budget,
        bound: u64,
        trace: &mut Trace<'_>,
    ) -> Result<Solutions, SolveError> {
        let greedy = Greedy.solve(problem, budget, trace)?.ranked.into_iter().next();
        trace.bound(bound);
        Ok(match greedy {
            Some(solution) if solution.cost == bound => {
                let proof = "the relaxation's bound meets the assignment".into();
                Solutions {
                    proof,
                    ..Solutions::one(Status::Optimal, solution, bound)
                }
            }
            Some(solution) => Solutions::one(status, solution, bound),
            None => Solutions::none(status, bound),
        })
    }
}
