//! What is known about one cell of a sweep, and about the run it belongs to.
//!
//! A *cell* is one point of a sweep: a model under a binding, a target, a cost model and a layout strategy. Every planned
//! cell ends in exactly one [`CellRecord`], failed and skipped ones too. Two invariants hold throughout:
//!
//! * a failure is never a number: whatever was not measured is `None`, and [`CellStatus`] says why;
//! * records are read by later versions: unknown fields are ignored, missing ones have a default, an unknown status reads
//!   as [`CellStatus::Unrecognised`], and [`CellRecord::schema`] tells which version wrote the record.

mod key;
mod latency;
mod manifest;
mod status;

pub use key::CellKey;
pub use latency::{ClockEvidence, Latency, LatencyError, LatencyMode, LatencySummary, ProcessSamples};
pub use manifest::{MachineFingerprint, RunManifest};
pub use status::{CellStatus, Failure, MemoryKind, Phase, SolverStatus};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the record schema that this build writes. It goes up when a field changes its meaning, not when one is added.
pub const SCHEMA: u32 = 1;

/// Everything known about one cell. Written to the journal after each phase, each time with all that is known so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellRecord {
    /// Schema version of the writer ([`SCHEMA`]).
    pub schema: u32,
    /// Identity of the cell: a hash over everything that decides its result ([`CellKey::id`]).
    pub id: String,
    /// The coordinates of the cell.
    pub key: CellKey,
    /// How the cell ended, or how far it is while it runs.
    pub status: CellStatus,
    /// Where and why it failed; absent when it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The layout problem that was extracted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<InstanceFacts>,
    /// The strategy's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solve: Option<SolveFacts>,
    /// The program that the answer induces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanFacts>,
    /// Compilation times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compile: Option<CompileFacts>,
    /// Sum over the plan of the separately profiled kernels and conversions, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiled_sum_ms: Option<f64>,
    /// Comparison with the reference outputs. A latency is only recorded behind a passed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correctness: Option<Correctness>,
    /// Measured execution time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// What is known about the clocks during the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockEvidence>,
    /// The latency comes from a simulator, not from hardware.
    #[serde(default)]
    pub simulated: bool,
    /// Start of the cell, milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_unix_ms: Option<u64>,
    /// End of the cell, milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_unix_ms: Option<u64>,
}

/// The layout problem of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InstanceFacts {
    /// Content hash of the instance. Cells with different hashes solved different problems and are never compared as strategies.
    pub hash: String,
    /// The graph as the strategies see it, constants included.
    pub graph: GraphFacts,
    /// The same graph without constant sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_constants: Option<GraphFacts>,
    /// What a vertex of the graph is, for instance `operators of the imported graph, before fusion`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granularity: Option<String>,
    /// How candidate layouts were chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain_policy: Option<String>,
}

/// Size and width of a dataflow graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphFacts {
    /// Operators, sources and sinks included.
    pub operators: u64,
    /// Tensors.
    pub tensors: u64,
    /// Lower bound of the treewidth of the simple undirected operator graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub treewidth_lower: Option<u32>,
    /// Upper bound of the same: the width of the best decomposition found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub treewidth_upper: Option<u32>,
}

/// An objective value in its two parts, in the instance's unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostSplit {
    /// Sum of the chosen configurations' costs.
    pub operator_cost: u64,
    /// Sum of the conversions' costs.
    pub transpose_cost: u64,
}

impl CostSplit {
    /// The objective value; `None` when the sum leaves 64 bits.
    pub fn total(self) -> Option<u64> {
        self.operator_cost.checked_add(self.transpose_cost)
    }
}

/// Predicted cost under one of the weighted shape bindings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BindingCost {
    /// The binding: symbolic variable to size.
    pub dims: BTreeMap<String, u64>,
    /// The cost under it.
    pub cost: CostSplit,
}

/// One event of an anytime search: at `seconds`, the best known cost and the best known lower bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TracePoint {
    /// Seconds since the search began.
    pub seconds: f64,
    /// Best cost so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incumbent: Option<u64>,
    /// Best lower bound so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<u64>,
}

/// How much of an answer was decided by tie-breaking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TieFacts {
    /// Operators with more than one cheapest configuration.
    pub tied_operators: u64,
    /// Total cost when every tie goes to the highest index instead; `None` when that ends in an impossible conversion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reversed_cost: Option<u64>,
}

/// A strategy's answer to the instance, as the independent checker priced it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SolveFacts {
    /// The strategy's own status.
    pub status: SolverStatus,
    /// Unit of all costs of the instance.
    pub unit: String,
    /// Predicted cost of the assignment; `None` when there is no assignment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostSplit>,
    /// The cost under each binding, where the instance weighs several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_binding: Vec<BindingCost>,
    /// Proven lower bound on the optimum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_bound: Option<u64>,
    /// Wall-clock time of the strategy.
    pub seconds: f64,
    /// Bytes of tables or of the process at its peak, as the strategy counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// Incumbent and bound over time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<TracePoint>,
    /// Tie statistics, where the strategy reports them (`local` does).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ties: Option<TieFacts>,
    /// Totals of the cost model's named terms over the plan.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub terms: BTreeMap<String, f64>,
    /// Counters of the strategy (nodes, clauses, sweeps, …).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
}

/// The layout that a plan gives one tensor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TensorLayout {
    /// Name of the tensor, unique in its instance.
    pub tensor: String,
    /// Text form of the layout its producer gives it.
    pub layout: String,
}

/// One conversion that a plan executes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Conversion {
    /// The tensor converted.
    pub tensor: String,
    /// Layout it has.
    pub from: String,
    /// Layout requested.
    pub to: String,
    /// Bytes of the tensor's physical form after the conversion, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// The program a layout assignment induces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanFacts {
    /// Hash of the induced program (producer layouts and conversions): equal hashes are the same plan.
    pub hash: String,
    /// Conversions executed at run time; constants repacked ahead of time don't count.
    pub conversions: u64,
    /// Bytes those conversions move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversion_bytes: Option<u64>,
    /// Bytes of constants repacked ahead of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repacked_constant_bytes: Option<u64>,
    /// Layout of every tensor, in the instance's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layouts: Vec<TensorLayout>,
    /// The conversions one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conversion_list: Vec<Conversion>,
}

/// Compilation time of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CompileFacts {
    /// Wall-clock seconds from IR to module, layout selection included.
    pub seconds: f64,
    /// The same by phase of the pipeline, in pipeline order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseSeconds>,
}

/// Time of one compilation phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseSeconds {
    /// Name of the phase.
    pub phase: String,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// Comparison of a cell's outputs with the reference outputs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Correctness {
    /// Largest absolute difference over the largest absolute reference value, the worst output; `None` when it is not finite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_relative_error: Option<f64>,
    /// The error allowed.
    pub tolerance: f64,
}

impl Correctness {
    /// Whether the outputs agree. An error that is not finite never does.
    pub fn passed(self) -> bool {
        self.max_relative_error
            .is_some_and(|error| error <= self.tolerance)
    }
}

impl CellRecord {
    /// A record of a cell about which nothing is known yet but its coordinates; status [`CellStatus::Pending`].
    pub fn new(key: CellKey) -> Self {
        CellRecord {
            schema: SCHEMA,
            id: key.id(),
            key,
            status: CellStatus::Pending,
            failure: None,
            instance: None,
            solve: None,
            plan: None,
            compile: None,
            profiled_sum_ms: None,
            correctness: None,
            latency: None,
            clock: None,
            simulated: false,
            started_unix_ms: None,
            finished_unix_ms: None,
        }
    }

    /// The predicted cost of the cell's plan in the instance's unit; `None` without an assignment.
    pub fn predicted_cost(&self) -> Option<u64> {
        self.solve.as_ref()?.cost?.total()
    }

    /// Median latency in milliseconds of a cell that ended well; `None` for every other, whatever was measured.
    pub fn median_ms(&self) -> Option<f64> {
        match self.status {
            CellStatus::Ok => Some(self.latency.as_ref()?.summary.median),
            _ => None,
        }
    }
}
