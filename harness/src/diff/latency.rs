//! Comparison of two latencies that does not mistake noise for a change.

use super::{Both, Policy, Verdict};
use crate::record::{CellRecord, CellStatus, Latency};
use crate::stats;
use serde::Serialize;

/// The verdict on one cell's latency.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencyDiff {
    /// The verdict.
    pub verdict: Verdict,
    /// Why.
    pub reason: String,
    /// Medians, milliseconds.
    pub median_ms: Both<Option<f64>>,
    /// Two-sided p-value, where the test was made.
    pub p: Option<f64>,
    /// Both sides ran the same plan: a difference is then noise or a change below the plan.
    pub same_plan: bool,
}

/// Compares latencies of cells that ended well; `None` when neither side has one.
pub fn compare(
    base: &CellRecord,
    head: &CellRecord,
    machine_differences: &[String],
    policy: Policy,
) -> Option<LatencyDiff> {
    let of = |record: &CellRecord| match record.status {
        CellStatus::Ok => record.latency.clone(),
        _ => None,
    };
    let (before, after) = (of(base), of(head));
    if before.is_none() && after.is_none() {
        return None;
    }
    let median = |latency: &Option<Latency>| latency.as_ref().map(|latency| latency.summary.median);
    let plan = |record: &CellRecord| record.plan.as_ref().map(|plan| plan.hash.clone());
    let mut result = LatencyDiff {
        verdict: Verdict::Incomparable,
        reason: String::new(),
        median_ms: Both {
            base: median(&before),
            head: median(&after),
        },
        p: None,
        same_plan: plan(base).is_some() && plan(base) == plan(head),
    };
    let (Some(before), Some(after)) = (before, after) else {
        result.reason = "only one side has a latency".to_owned();
        return Some(result);
    };
    if let Some(reason) = incomparable(base, head, &before, &after, machine_differences) {
        result.reason = reason;
        return Some(result);
    }
    let throttled = |record: &CellRecord| record.clock.and_then(|clock| clock.throttled) == Some(true);
    let (old, new) = (before.process_medians(), after.process_medians());
    let change = after.summary.median / before.summary.median - 1.0;
    let noise = before.noise.unwrap_or(0.0).max(after.noise.unwrap_or(0.0));
    let floor = policy.floor.max(noise);
    (result.verdict, result.reason) = if throttled(base) || throttled(head) {
        (Verdict::Inconclusive, "the clock was throttled".to_owned())
    } else if old.len().min(new.len()) < policy.min_processes {
        let reason = format!(
            "{} and {} processes; {} a side are needed",
            old.len(),
            new.len(),
            policy.min_processes
        );
        (Verdict::Inconclusive, reason)
    } else {
        result.p = stats::mann_whitney(&old, &new);
        let significant = result.p.is_some_and(|p| p < policy.alpha);
        let shown = format!("{:+.2}%", 100.0 * change);
        match (change.abs() >= floor, significant) {
            (false, _) => (Verdict::Same, format!("{shown}, below {:.2}%", 100.0 * floor)),
            (true, false) => (Verdict::Inconclusive, format!("{shown}, not significant")),
            (true, true) if change > 0.0 => (Verdict::Regressed, shown),
            (true, true) => (Verdict::Improved, shown),
        }
    };
    Some(result)
}

/// Why two latencies are not about the same thing.
fn incomparable(
    base: &CellRecord,
    head: &CellRecord,
    before: &Latency,
    after: &Latency,
    machine_differences: &[String],
) -> Option<String> {
    if base.simulated != head.simulated {
        return Some("one side is simulated".to_owned());
    }
    // A simulator's time does not depend on the machine that it runs on.
    if !base.simulated && !machine_differences.is_empty() {
        return Some(format!("machines differ: {}", machine_differences.join(", ")));
    }
    (before.mode != after.mode)
        .then(|| format!("modes differ: {} to {}", before.mode.name(), after.mode.name()))
}
