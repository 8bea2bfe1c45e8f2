//! How a cell ended, in a closed vocabulary.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A phase of a cell's life, in order. Each leaves one record in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The layout problem was extracted.
    Instance,
    /// The strategy answered.
    Solve,
    /// The module was built.
    Compile,
    /// The module was executed, checked and timed.
    Run,
    /// The cell is over; its record is final.
    Done,
}

impl Phase {
    /// All phases in order.
    pub const ALL: [Phase; 5] = [
        Phase::Instance,
        Phase::Solve,
        Phase::Compile,
        Phase::Run,
        Phase::Done,
    ];

    /// The name used in file names and records.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Instance => "instance",
            Phase::Solve => "solve",
            Phase::Compile => "compile",
            Phase::Run => "run",
            Phase::Done => "done",
        }
    }

    /// The phase of that name.
    pub fn from_name(name: &str) -> Option<Phase> {
        Phase::ALL.into_iter().find(|phase| phase.name() == name)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whose memory ran out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    /// Memory of the host process.
    #[default]
    Host,
    /// Memory of the device.
    Device,
}

/// How a cell ended. Only [`CellStatus::Ok`] carries a latency that may be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum CellStatus {
    /// Not over: planned or running.
    Pending,
    /// Compiled, executed, outputs agree with the reference. The solver may still have run out of its budget, see
    /// [`SolverStatus`].
    Ok,
    /// The outputs differ from the reference beyond the tolerance.
    Mismatch,
    /// The layout problem could not be extracted.
    InstanceFailed,
    /// The strategy failed for a reason of its own.
    SolveFailed,
    /// The instance is proven to have no assignment.
    Infeasible,
    /// A heuristic ended in an impossible conversion.
    NoPlan,
    /// The strategy needs hints that the instance lacks.
    MissingHints,
    /// The strategy's time was over before it had any assignment.
    SolverTimeout,
    /// The strategy's memory limit was reached before it had any assignment.
    SolverOutOfMemory,
    /// The independent checker disagrees with the strategy's cost: a bug of ours.
    CheckFailed,
    /// Compilation failed.
    CompileError,
    /// Execution returned an error.
    RunError,
    /// The worker process was killed by a signal.
    Crashed {
        /// Signal number.
        signal: i32,
    },
    /// The worker process ended with an unexpected exit code.
    Exited {
        /// Exit code.
        code: i32,
    },
    /// A phase went over its time limit and the worker was stopped.
    Timeout {
        /// The phase that was running.
        phase: Phase,
    },
    /// Memory ran out outside the solver.
    OutOfMemory {
        /// Whose memory.
        #[serde(default)]
        memory: MemoryKind,
    },
    /// The cell was planned and deliberately not run.
    Skipped {
        /// Why, in words for the user.
        reason: String,
    },
    /// A status that a later version wrote.
    #[serde(other)]
    Unrecognised,
}

impl CellStatus {
    /// The kebab-case name, without details: what tables show and `--rerun` selects by.
    pub fn name(&self) -> &'static str {
        match self {
            CellStatus::Pending => "pending",
            CellStatus::Ok => "ok",
            CellStatus::Mismatch => "mismatch",
            CellStatus::InstanceFailed => "instance-failed",
            CellStatus::SolveFailed => "solve-failed",
            CellStatus::Infeasible => "infeasible",
            CellStatus::NoPlan => "no-plan",
            CellStatus::MissingHints => "missing-hints",
            CellStatus::SolverTimeout => "solver-timeout",
            CellStatus::SolverOutOfMemory => "solver-out-of-memory",
            CellStatus::CheckFailed => "check-failed",
            CellStatus::CompileError => "compile-error",
            CellStatus::RunError => "run-error",
            CellStatus::Crashed { .. } => "crashed",
            CellStatus::Exited { .. } => "exited",
            CellStatus::Timeout { .. } => "timeout",
            CellStatus::OutOfMemory { .. } => "out-of-memory",
            CellStatus::Skipped { .. } => "skipped",
            CellStatus::Unrecognised => "unrecognised",
        }
    }

    /// The detail that a status carries, as text: signal, exit code, phase, memory or reason.
    pub fn detail(&self) -> Option<String> {
        match self {
            CellStatus::Crashed { signal } => Some(format!("signal {signal}")),
            CellStatus::Exited { code } => Some(format!("exit code {code}")),
            CellStatus::Timeout { phase } => Some(phase.to_string()),
            CellStatus::OutOfMemory {
                memory: MemoryKind::Host,
            } => Some("host".to_owned()),
            CellStatus::OutOfMemory {
                memory: MemoryKind::Device,
            } => Some("device".to_owned()),
            CellStatus::Skipped { reason } => Some(reason.clone()),
            _ => None,
        }
    }

    /// Whether the cell ended badly: neither well, nor skipped, nor still under way.
    pub fn is_failure(&self) -> bool {
        !matches!(
            self,
            CellStatus::Ok | CellStatus::Pending | CellStatus::Skipped { .. }
        )
    }
}

impl fmt::Display for CellStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.detail() {
            Some(detail) => write!(f, "{} ({detail})", self.name()),
            None => f.write_str(self.name()),
        }
    }
}

/// A strategy's own word about its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SolverStatus {
    /// The assignment is proven optimal.
    Optimal,
    /// An assignment without a proof.
    Feasible,
    /// Proven to have none.
    Infeasible,
    /// A heuristic ended in an impossible conversion; says nothing about feasibility.
    NoPlan,
    /// Out of time, with the best assignment known, if any.
    Timeout,
    /// Out of memory, with the best assignment known, if any.
    OutOfMemory,
    /// The strategy needs hints that the instance lacks.
    MissingHints,
    /// A status that a later version wrote.
    #[serde(other)]
    Unrecognised,
}

impl SolverStatus {
    /// The name in the vocabulary of the `solve` command.
    pub fn name(self) -> &'static str {
        match self {
            SolverStatus::Optimal => "optimal",
            SolverStatus::Feasible => "feasible",
            SolverStatus::Infeasible => "infeasible",
            SolverStatus::NoPlan => "no-plan",
            SolverStatus::Timeout => "timeout",
            SolverStatus::OutOfMemory => "out-of-memory",
            SolverStatus::MissingHints => "missing-hints",
            SolverStatus::Unrecognised => "unrecognised",
        }
    }
}

impl fmt::Display for SolverStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where and why a cell failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The phase that was running.
    pub phase: Phase,
    /// The error's message.
    pub message: String,
    /// Last lines of the worker's standard error.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr_tail: String,
}
