//! What changed between two runs: decisions exactly, latencies with respect to noise.
//!
//! Cells are matched by their coordinates. *Decisions* (status, predicted cost, proof) are deterministic, so any difference counts
//! and they decide the exit code. Latencies are compared by a Mann-Whitney test over processes, the only independent observations,
//! and are reported beside; a policy can let them decide too. Cells whose instances differ solved different problems: they are
//! *incomparable*, which is neither better nor worse.

mod latency;
mod render;

pub use latency::LatencyDiff;

use crate::record::{CellRecord, CellStatus, MachineFingerprint, RunManifest, SolverStatus};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Version tag of the JSON form.
pub const FORMAT: &str = "relayout-diff/1";

/// Exit code: the head is the same or better.
pub const EXIT_OK: u8 = 0;
/// Exit code: the head is worse.
pub const EXIT_WORSE: u8 = 1;
/// Exit code: nothing could be compared.
pub const EXIT_ERROR: u8 = 2;

/// Outcome of one comparison, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The head is worse.
    Regressed,
    /// The two are not about the same thing.
    Incomparable,
    /// The evidence does not suffice.
    Inconclusive,
    /// The head is better.
    Improved,
    /// No difference.
    Same,
}

impl Verdict {
    /// All verdicts, worst first.
    pub const ALL: [Verdict; 5] = [
        Verdict::Regressed,
        Verdict::Incomparable,
        Verdict::Inconclusive,
        Verdict::Improved,
        Verdict::Same,
    ];

    /// The name in all formats.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Regressed => "regressed",
            Verdict::Incomparable => "incomparable",
            Verdict::Inconclusive => "inconclusive",
            Verdict::Improved => "improved",
            Verdict::Same => "same",
        }
    }
}

/// What decides, and from where on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Whether a latency regression makes the exit code 1 too.
    pub latency_decides: bool,
    /// Significance level of the latency test.
    pub alpha: f64,
    /// Relative change of the median below which a latency is the same whatever the test says.
    pub floor: f64,
    /// Processes that each side needs before its latency is tested.
    pub min_processes: usize,
    /// Rows of the Markdown form; the worst come first.
    pub max_rows: usize,
}

impl Default for Policy {
    /// Decisions decide; p < 0.01, 2%, five processes a side (the exact test's smallest p is then 0.0079), 50 rows.
    fn default() -> Self {
        Policy {
            latency_decides: false,
            alpha: 0.01,
            floor: 0.02,
            min_processes: 5,
            max_rows: 50,
        }
    }
}

/// One side of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The records.
    pub records: &'a [CellRecord],
    /// The run's provenance, where it could be read. Without it, machines are not compared and latencies are incomparable.
    pub manifest: Option<&'a RunManifest>,
}

impl<'a> Side<'a> {
    fn machine(&self) -> Option<&'a MachineFingerprint> {
        self.manifest.map(|manifest| &manifest.machine)
    }
}

/// A value on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Both<T> {
    /// The base's.
    pub base: T,
    /// The head's.
    pub head: T,
}

/// A tensor whose layout changed; `None` where a side does not have the tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayoutChange {
    /// The tensor.
    pub tensor: String,
    /// Layout in the base.
    pub base: Option<String>,
    /// Layout in the head.
    pub head: Option<String>,
}

/// One cell that both runs have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellDiff {
    /// Identity of the coordinates.
    pub id: String,
    /// Model with overrides and bindings.
    pub model: String,
    /// Strategy, with its solver if it has a choice.
    pub strategy: String,
    /// Target and cost model.
    pub setting: String,
    /// The verdict on the decisions.
    pub verdict: Verdict,
    /// Why, one reason a line.
    pub reasons: Vec<String>,
    /// Statuses.
    pub status: Both<String>,
    /// Predicted costs.
    pub cost: Both<Option<u64>>,
    /// Conversions executed.
    pub conversions: Both<Option<u64>>,
    /// Tensors whose layout changed, in the base's order.
    pub layouts: Vec<LayoutChange>,
    /// The verdict on the latency; `None` where neither side has one.
    pub latency: Option<LatencyDiff>,
}

/// The comparison of two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunDiff {
    /// [`FORMAT`].
    pub format: &'static str,
    /// The policy applied.
    pub policy: Policy,
    /// Cells of both runs, worst first.
    pub cells: Vec<CellDiff>,
    /// Cells that only the base has.
    pub only_base: Vec<String>,
    /// Cells that only the head has.
    pub only_head: Vec<String>,
}

/// Compares two runs cell by cell. Pure.
pub fn diff(base: Side<'_>, head: Side<'_>, policy: Policy) -> RunDiff {
    let by_key = |side: Side<'_>| -> BTreeMap<String, CellRecord> {
        side.records
            .iter()
            .map(|record| (record.key.id(), record.clone()))
            .collect()
    };
    let (bases, mut heads) = (by_key(base), by_key(head));
    let machines = match (base.machine(), head.machine()) {
        (Some(base), Some(head)) => base.differences(head).into_iter().map(str::to_owned).collect(),
        _ => vec!["unknown machine".to_owned()],
    };
    let mut result = RunDiff {
        format: FORMAT,
        policy,
        cells: Vec::new(),
        only_base: Vec::new(),
        only_head: Vec::new(),
    };
    for (id, base) in &bases {
        match heads.remove(id) {
            Some(head) => result.cells.push(compare(id, base, &head, &machines, policy)),
            None => result.only_base.push(name(base)),
        }
    }
    result.only_head = heads.values().map(name).collect();
    result.cells.sort_by(|a, b| {
        let rank = |cell: &CellDiff| {
            (
                cell.verdict,
                cell.latency.as_ref().map_or(Verdict::Same, |l| l.verdict),
            )
        };
        rank(a)
            .cmp(&rank(b))
            .then_with(|| (&a.model, &a.strategy, &a.id).cmp(&(&b.model, &b.strategy, &b.id)))
    });
    result
}

fn strategy(record: &CellRecord) -> String {
    match &record.key.solver {
        Some(solver) => format!("{}/{solver}", record.key.strategy),
        None => record.key.strategy.clone(),
    }
}

fn name(record: &CellRecord) -> String {
    format!(
        "{} {} ({}, {})",
        record.key.model_label(),
        strategy(record),
        record.key.target,
        record.key.cost_model
    )
}

fn compare(id: &str, base: &CellRecord, head: &CellRecord, machines: &[String], policy: Policy) -> CellDiff {
    let (verdict, reasons) = decide(base, head);
    let conversions = |record: &CellRecord| record.plan.as_ref().map(|plan| plan.conversions);
    // Tensors of different instances may share names without being the same.
    let layouts = if verdict == Verdict::Incomparable {
        Vec::new()
    } else {
        changed_layouts(base, head)
    };
    CellDiff {
        id: id.to_owned(),
        model: base.key.model_label(),
        strategy: strategy(base),
        setting: format!("{}, {}", base.key.target, base.key.cost_model),
        verdict,
        reasons,
        status: Both {
            base: base.status.to_string(),
            head: head.status.to_string(),
        },
        cost: Both {
            base: base.predicted_cost(),
            head: head.predicted_cost(),
        },
        conversions: Both {
            base: conversions(base),
            head: conversions(head),
        },
        layouts,
        latency: latency::compare(base, head, machines, policy),
    }
}

/// The verdict on a cell's decisions, with its reasons.
fn decide(base: &CellRecord, head: &CellRecord) -> (Verdict, Vec<String>) {
    for (side, status) in [("base", &base.status), ("head", &head.status)] {
        let over = !matches!(
            status,
            CellStatus::Pending | CellStatus::Skipped { .. } | CellStatus::Unrecognised
        );
        if !over {
            return (Verdict::Incomparable, vec![format!("{side}: {status}")]);
        }
    }
    if let (Some(before), Some(after)) = (&base.instance, &head.instance)
        && before.hash != after.hash
    {
        let reason = format!(
            "instance changed: {} to {}, {} to {} operators, {} to {} tensors",
            before.hash,
            after.hash,
            before.graph.operators,
            after.graph.operators,
            before.graph.tensors,
            after.graph.tensors
        );
        return (Verdict::Incomparable, vec![reason]);
    }
    let unit = |record: &CellRecord| record.solve.as_ref().map(|solve| solve.unit.clone());
    if let (Some(before), Some(after)) = (unit(base), unit(head))
        && before != after
    {
        return (
            Verdict::Incomparable,
            vec![format!("unit of costs changed: {before} to {after}")],
        );
    }
    let mut parts: Vec<(Verdict, String)> = Vec::new();
    match (base.status == CellStatus::Ok, head.status == CellStatus::Ok) {
        (true, false) => parts.push((Verdict::Regressed, format!("status: ok to {}", head.status))),
        (false, true) => parts.push((Verdict::Improved, format!("status: {} to ok", base.status))),
        (false, false) if base.status != head.status => {
            parts.push((
                Verdict::Inconclusive,
                format!("status: {} to {}", base.status, head.status),
            ));
        }
        _ => {}
    }
    match (base.predicted_cost(), head.predicted_cost()) {
        (Some(before), Some(after)) => match after.cmp(&before) {
            Ordering::Greater => parts.push((Verdict::Regressed, format!("cost: {before} to {after}"))),
            Ordering::Less => parts.push((Verdict::Improved, format!("cost: {before} to {after}"))),
            Ordering::Equal => {}
        },
        (Some(before), None) => parts.push((Verdict::Regressed, format!("cost: {before} to no plan"))),
        (None, Some(after)) => parts.push((Verdict::Improved, format!("cost: no plan to {after}"))),
        (None, None) => {}
    }
    let proof = |record: &CellRecord| {
        record
            .solve
            .as_ref()
            .is_some_and(|s| s.status == SolverStatus::Optimal)
    };
    let answer = |record: &CellRecord| {
        record
            .solve
            .as_ref()
            .map_or("no answer", |solve| solve.status.name())
    };
    match (proof(base), proof(head)) {
        (true, false) => parts.push((
            Verdict::Regressed,
            format!("proof lost: optimal to {}", answer(head)),
        )),
        (false, true) => parts.push((
            Verdict::Improved,
            format!("proof gained: {} to optimal", answer(base)),
        )),
        _ => {}
    }
    let any = |verdict| parts.iter().any(|part| part.0 == verdict);
    // Worse in one respect is worse, whatever else got better: the reasons list both.
    let verdict = [Verdict::Regressed, Verdict::Inconclusive, Verdict::Improved]
        .into_iter()
        .find(|&v| any(v));
    (
        verdict.unwrap_or(Verdict::Same),
        parts.into_iter().map(|part| part.1).collect(),
    )
}

fn changed_layouts(base: &CellRecord, head: &CellRecord) -> Vec<LayoutChange> {
    let (Some(before), Some(after)) = (&base.plan, &head.plan) else {
        return Vec::new();
    };
    let mut remaining: BTreeMap<&str, &str> = after
        .layouts
        .iter()
        .map(|entry| (entry.tensor.as_str(), entry.layout.as_str()))
        .collect();
    let mut changes = Vec::new();
    for entry in &before.layouts {
        let now = remaining.remove(entry.tensor.as_str());
        if now != Some(entry.layout.as_str()) {
            changes.push(LayoutChange {
                tensor: entry.tensor.clone(),
                base: Some(entry.layout.clone()),
                head: now.map(str::to_owned),
            });
        }
    }
    changes.extend(remaining.into_iter().map(|(tensor, layout)| LayoutChange {
        tensor: tensor.to_owned(),
        base: None,
        head: Some(layout.to_owned()),
    }));
    changes
}

impl RunDiff {
    /// Cells whose decisions have a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.cells.iter().filter(|cell| cell.verdict == verdict).count()
    }

    /// Whether a cell counts against the head under the policy.
    pub fn is_worse(&self, cell: &CellDiff) -> bool {
        cell.verdict == Verdict::Regressed
            || self.policy.latency_decides
                && cell
                    .latency
                    .as_ref()
                    .is_some_and(|latency| latency.verdict == Verdict::Regressed)
    }

    /// [`EXIT_OK`], [`EXIT_WORSE`], or [`EXIT_ERROR`] when the runs have no cell in common.
    pub fn exit_code(&self) -> u8 {
        if self.cells.is_empty() {
            EXIT_ERROR
        } else if self.cells.iter().any(|cell| self.is_worse(cell)) {
            EXIT_WORSE
        } else {
            EXIT_OK
        }
    }
}
