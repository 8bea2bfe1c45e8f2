//! What every strategy takes and gives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::check::{CheckError, check};
use crate::external::ExternalError;
use crate::id::{ConfigId, OpId};
use crate::problem::Problem;

/// A way to choose layouts.
pub trait Strategy {
    /// The name that configurations and the registry use.
    fn name(&self) -> &str;

    /// Chooses a configuration for every operator.
    ///
    /// Deterministic in the problem, the seed and the options, as long as no limit is hit. Running into a limit is not an
    /// error: the answer then has status `timeout` or `out-of-memory`, the best assignment so far and a valid bound.
    ///
    /// # Errors
    /// See [`SolveError`].
    fn solve(
        &self,
        problem: &Problem,
        budget: &Budget,
        trace: &mut Trace<'_>,
    ) -> Result<Solutions, SolveError>;
}

/// What a strategy may use.
#[derive(Clone, Debug)]
pub struct Budget {
    /// When to stop.
    pub deadline: Option<Instant>,
    /// Bytes that its tables may take together; 8 GiB when not given.
    pub memory_limit: Option<u64>,
    /// Seed of whatever it draws.
    pub seed: u64,
    /// Set from another thread to stop early; reported as `timeout`.
    pub cancel: Arc<AtomicBool>,
    /// How many solutions are wanted; strategies that cannot enumerate give one.
    pub k: usize,
    /// In how many tensors' parts (produced layout and conversions) the programs of any two solutions must differ, at
    /// least. A solution is left out when it is nearer to a cheaper one that is given.
    pub min_distance: usize,
    /// Threads that may work side by side; most strategies use one whatever this says.
    pub threads: usize,
}

impl Default for Budget {
    /// No limits, seed 0, one solution, one thread.
    fn default() -> Self {
        Self {
            deadline: None,
            memory_limit: None,
            seed: 0,
            cancel: Arc::default(),
            k: 1,
            min_distance: 1,
            threads: 1,
        }
    }
}

impl Budget {
    /// The same with a deadline `limit` from now.
    pub fn with_time_limit(mut self, limit: Duration) -> Self {
        self.deadline = Instant::now().checked_add(limit);
        self
    }

    /// The same with a memory limit in bytes.
    pub fn with_memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = Some(bytes);
        self
    }

    /// Whether the deadline has passed or the cancel flag is set. Costs a clock reading: call it every few thousand steps.
    pub fn exhausted(&self) -> bool {
        self.cancel.load(Ordering::Relaxed) || self.deadline.is_some_and(|d| Instant::now() >= d)
    }
}

/// One point of a strategy's progress.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct TracePoint {
    /// Since the trace was made.
    pub seconds: f64,
    /// Cost of the best assignment so far.
    pub incumbent: Option<u64>,
    /// Best lower bound so far.
    pub bound: Option<u64>,
}

/// Streams progress into a sink of the caller's; repeats and steps backwards are swallowed.
pub struct Trace<'a> {
    start: Instant,
    incumbent: Option<u64>,
    bound: Option<u64>,
    sink: Option<Box<dyn FnMut(TracePoint) + 'a>>,
}

impl<'a> Trace<'a> {
    /// A trace that goes nowhere.
    pub fn silent() -> Self {
        Self {
            start: Instant::now(),
            incumbent: None,
            bound: None,
            sink: None,
        }
    }

    /// A trace that calls `sink` with every improvement.
    pub fn new(sink: impl FnMut(TracePoint) + 'a) -> Self {
        Self {
            sink: Some(Box::new(sink)),
            ..Self::silent()
        }
    }

    /// An assignment of this cost was found.
    pub fn incumbent(&mut self, cost: u64) {
        if self.incumbent.is_none_or(|best| cost < best) {
            self.incumbent = Some(cost);
            self.emit();
        }
    }

    /// No assignment is cheaper than this.
    pub fn bound(&mut self, bound: u64) {
        if self.bound.is_none_or(|best| bound > best) {
            self.bound = Some(bound);
            self.emit();
        }
    }

    /// Since the trace was made.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn emit(&mut self) {
        let (seconds, incumbent, bound) = (self.start.elapsed().as_secs_f64(), self.incumbent, self.bound);
        if let Some(sink) = &mut self.sink {
            sink(TracePoint {
                seconds,
                incumbent,
                bound,
            });
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The first solution is proven cheapest.
    Optimal,
    /// There is an assignment; nothing is proven.
    Feasible,
    /// Proven: there is no assignment.
    Infeasible,
    /// A heuristic ended in an impossible conversion, which says nothing about feasibility.
    NoPlan,
    /// The deadline passed or the run was cancelled.
    Timeout,
    /// The tables would not fit.
    OutOfMemory,
    /// Rules need hints that the problem does not carry.
    MissingHints,
}

impl Status {
    /// The name used in files and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Optimal => "optimal",
            Self::Feasible => "feasible",
            Self::Infeasible => "infeasible",
            Self::NoPlan => "no-plan",
            Self::Timeout => "timeout",
            Self::OutOfMemory => "out-of-memory",
            Self::MissingHints => "missing-hints",
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An assignment with its cost, recomputed by the checker.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Solution {
    /// One configuration per operator, in file order.
    pub assignment: Vec<ConfigId>,
    /// The objective.
    pub cost: u64,
    /// Its operators' part.
    pub operator_cost: u64,
    /// Its conversions' part.
    pub transpose_cost: u64,
    /// Number of conversions (tensor and distinct requested layout other than the produced one).
    pub transposes: u64,
}

impl Solution {
    /// Has the checker compute the cost of `assignment`.
    ///
    /// # Errors
    /// The checker's.
    pub fn new(problem: &Problem, assignment: Vec<ConfigId>) -> Result<Self, CheckError> {
        let c = check(problem, &assignment)?;
        Ok(Self {
            assignment,
            cost: c.cost,
            operator_cost: c.operator_cost,
            transpose_cost: c.transpose_cost,
            transposes: c.conversions.len() as u64,
        })
    }

    /// The same for a solver that already knows a cost.
    ///
    /// # Errors
    /// [`SolveError::Mismatch`] when the checker disagrees: a bug in that solver.
    pub fn claimed(problem: &Problem, assignment: Vec<ConfigId>, claimed: u64) -> Result<Self, SolveError> {
        let solution =
            Self::new(problem, assignment).map_err(|source| SolveError::Invalid { claimed, source })?;
        if solution.cost == claimed {
            Ok(solution)
        } else {
            Err(SolveError::Mismatch {
                claimed,
                recomputed: solution.cost,
            })
        }
    }
}

/// The answer of a strategy.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Solutions {
    /// How the run ended.
    pub status: Status,
    /// Cheapest first; empty when there is no assignment.
    pub ranked: Vec<Solution>,
    /// No assignment is cheaper than this, whatever the status. (Of an infeasible problem, nothing is.)
    pub lower_bound: u64,
    /// What was counted on the way, by name.
    pub counters: BTreeMap<&'static str, u64>,
    /// The most bytes its tables took at once.
    pub peak_bytes: u64,
    /// How optimality or infeasibility was shown; empty when it was not.
    pub proof: String,
}

impl Solutions {
    /// An answer without assignment.
    pub fn none(status: Status, lower_bound: u64) -> Self {
        Self {
            status,
            ranked: Vec::new(),
            lower_bound,
            counters: BTreeMap::new(),
            peak_bytes: 0,
            proof: String::new(),
        }
    }

    /// An answer with one assignment.
    pub fn one(status: Status, solution: Solution, lower_bound: u64) -> Self {
        Self {
            ranked: vec![solution],
            ..Self::none(status, lower_bound)
        }
    }

    /// The answer for a problem in which operator `o` has no configuration.
    pub fn operator_without_configs(problem: &Problem, o: OpId) -> Self {
        let proof = format!("operator {o} has no configuration");
        Self {
            proof,
            ..Self::none(Status::Infeasible, problem.sum_of_minimum_costs())
        }
    }

    /// The cheapest solution.
    pub fn best(&self) -> Option<&Solution> {
        self.ranked.first()
    }
}

/// Why a strategy could not answer at all.
#[derive(Debug, thiserror::Error)]
pub enum SolveError {
    /// The checker computed another cost than the solver: a bug, to be reported as one.
    #[error("bug: the solver claims cost {claimed}, the checker computes {recomputed}")]
    Mismatch {
        /// The solver's.
        claimed: u64,
        /// The checker's.
        recomputed: u64,
    },
    /// The checker refuses the assignment: a bug, to be reported as one.
    #[error("bug: the solver claims cost {claimed} for an assignment that the checker refuses: {source}")]
    Invalid {
        /// The solver's cost.
        claimed: u64,
        /// The refusal.
        source: CheckError,
    },
    /// A library that the strategy is built on failed.
    #[error("{library}: {message}")]
    Backend {
        /// The library.
        library: &'static str,
        /// What it said.
        message: String,
    },
    /// An outside program gave no answer.
    #[error(transparent)]
    External(#[from] ExternalError),
    /// The strategy does not do what was asked.
    #[error("{strategy} does not support {what}")]
    Unsupported {
        /// The strategy.
        strategy: &'static str,
        /// What was asked.
        what: String,
    },
}
