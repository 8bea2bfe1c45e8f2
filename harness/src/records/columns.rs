//! The columns of `cells`, each with how it is read off a record. Adding one is adding a line; renaming one is a new schema.

use crate::record::{
    CellRecord, CompileFacts, InstanceFacts, Latency, LatencySummary, PlanFacts, SolveFacts,
};
use std::collections::BTreeMap;
use std::fmt::Display;

/// How a column's value is read off a record.
pub enum Extract {
    /// Text.
    Text(fn(&CellRecord) -> Option<String>),
    /// A whole number.
    Count(fn(&CellRecord) -> Option<u64>),
    /// A real number.
    Real(fn(&CellRecord) -> Option<f64>),
    /// A truth value.
    Flag(fn(&CellRecord) -> Option<bool>),
}

use Extract::{Count, Flag, Real, Text};

fn instance(record: &CellRecord) -> Option<&InstanceFacts> {
    record.instance.as_ref()
}

fn solve(record: &CellRecord) -> Option<&SolveFacts> {
    record.solve.as_ref()
}

fn plan(record: &CellRecord) -> Option<&PlanFacts> {
    record.plan.as_ref()
}

fn compile(record: &CellRecord) -> Option<&CompileFacts> {
    record.compile.as_ref()
}

fn latency(record: &CellRecord) -> Option<&Latency> {
    record.latency.as_ref()
}

fn summary(record: &CellRecord) -> Option<&LatencySummary> {
    Some(&record.latency.as_ref()?.summary)
}

/// `a=1 b=2`, empty for an empty map.
fn pairs<V: Display>(map: &BTreeMap<String, V>) -> String {
    map.iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// All columns in order.
pub const CELLS: &[(&str, Extract)] = &[
    ("schema", Count(|r| Some(u64::from(r.schema)))),
    ("cell", Text(|r| Some(r.id.clone()))),
    ("model", Text(|r| Some(r.key.model.clone()))),
    ("overrides", Text(|r| Some(pairs(&r.key.overrides)))),
    ("family", Text(|r| Some(r.key.family.clone()))),
    ("batch", Count(|r| r.key.batch)),
    ("dims", Text(|r| Some(pairs(&r.key.dims)))),
    ("target", Text(|r| Some(r.key.target.clone()))),
    ("cost_model", Text(|r| Some(r.key.cost_model.clone()))),
    ("strategy", Text(|r| Some(r.key.strategy.clone()))),
    ("solver", Text(|r| r.key.solver.clone())),
    ("threads", Count(|r| Some(u64::from(r.key.threads)))),
    ("seed", Count(|r| Some(r.key.seed))),
    ("status", Text(|r| Some(r.status.name().to_owned()))),
    ("status_detail", Text(|r| r.status.detail())),
    (
        "failure_phase",
        Text(|r| Some(r.failure.as_ref()?.phase.name().to_owned())),
    ),
    (
        "failure_message",
        Text(|r| Some(r.failure.as_ref()?.message.clone())),
    ),
    (
        "stderr_tail",
        Text(|r| Some(r.failure.as_ref()?.stderr_tail.clone())),
    ),
    ("instance_hash", Text(|r| Some(instance(r)?.hash.clone()))),
    ("operators", Count(|r| Some(instance(r)?.graph.operators))),
    ("tensors", Count(|r| Some(instance(r)?.graph.tensors))),
    (
        "treewidth_lower",
        Count(|r| instance(r)?.graph.treewidth_lower.map(u64::from)),
    ),
    (
        "treewidth_upper",
        Count(|r| instance(r)?.graph.treewidth_upper.map(u64::from)),
    ),
    (
        "operators_without_constants",
        Count(|r| Some(instance(r)?.without_constants.as_ref()?.operators)),
    ),
    (
        "solver_status",
        Text(|r| Some(solve(r)?.status.name().to_owned())),
    ),
    ("cost_unit", Text(|r| Some(solve(r)?.unit.clone()))),
    ("predicted_cost", Count(|r| r.predicted_cost())),
    ("operator_cost", Count(|r| Some(solve(r)?.cost?.operator_cost))),
    ("transpose_cost", Count(|r| Some(solve(r)?.cost?.transpose_cost))),
    ("lower_bound", Count(|r| solve(r)?.lower_bound)),
    ("solve_seconds", Real(|r| Some(solve(r)?.seconds))),
    ("solver_peak_bytes", Count(|r| solve(r)?.peak_bytes)),
    ("tied_operators", Count(|r| Some(solve(r)?.ties?.tied_operators))),
    ("reversed_ties_cost", Count(|r| solve(r)?.ties?.reversed_cost)),
    ("cost_terms", Text(|r| Some(pairs(&solve(r)?.terms)))),
    ("plan_hash", Text(|r| Some(plan(r)?.hash.clone()))),
    ("conversions", Count(|r| Some(plan(r)?.conversions))),
    ("conversion_bytes", Count(|r| plan(r)?.conversion_bytes)),
    (
        "repacked_constant_bytes",
        Count(|r| plan(r)?.repacked_constant_bytes),
    ),
    ("compile_seconds", Real(|r| Some(compile(r)?.seconds))),
    ("profiled_sum_ms", Real(|r| r.profiled_sum_ms)),
    ("max_relative_error", Real(|r| r.correctness?.max_relative_error)),
    ("tolerance", Real(|r| Some(r.correctness?.tolerance))),
    ("latency_mode", Text(|r| Some(latency(r)?.mode.name().to_owned()))),
    ("latency_median_ms", Real(|r| Some(summary(r)?.median))),
    ("latency_min_ms", Real(|r| Some(summary(r)?.min))),
    ("latency_p90_ms", Real(|r| Some(summary(r)?.p90))),
    ("latency_mean_ms", Real(|r| Some(summary(r)?.mean))),
    ("latency_stddev_ms", Real(|r| Some(summary(r)?.stddev))),
    ("samples", Count(|r| Some(summary(r)?.samples))),
    ("processes", Count(|r| Some(latency(r)?.processes.len() as u64))),
    ("outliers", Count(|r| Some(summary(r)?.outliers))),
    ("non_steady", Flag(|r| Some(latency(r)?.non_steady))),
    ("noise", Real(|r| latency(r)?.noise)),
    ("mhz_before", Real(|r| r.clock?.mhz_before)),
    ("mhz_after", Real(|r| r.clock?.mhz_after)),
    ("throttled", Flag(|r| r.clock?.throttled)),
    ("simulated", Flag(|r| Some(r.simulated))),
    ("started_unix_ms", Count(|r| r.started_unix_ms)),
    ("finished_unix_ms", Count(|r| r.finished_unix_ms)),
];
