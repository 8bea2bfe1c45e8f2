//! Test data: small synthetic records, made by formulas. Nothing here was measured.

use relayout::record::{
    CellKey, CellRecord, CellStatus, Correctness, CostSplit, GraphFacts, InstanceFacts, Latency, LatencyMode,
    PlanFacts, ProcessSamples, SolveFacts, SolverStatus, TensorLayout,
};
use std::collections::BTreeMap;

/// Coordinates of a cell of `model` under `strategy`.
pub fn key(model: &str, strategy: &str) -> CellKey {
    CellKey {
        model: model.to_owned(),
        family: "test family".to_owned(),
        batch: Some(1),
        target: "cpu".to_owned(),
        cost_model: "analytic".to_owned(),
        strategy: strategy.to_owned(),
        threads: 1,
        seed: 7,
        ..CellKey::default()
    }
}

/// A strategy's answer of the given cost, nine tenths of it operators'.
pub fn solve(status: SolverStatus, cost: Option<u64>) -> SolveFacts {
    SolveFacts {
        status,
        unit: "cycles".to_owned(),
        cost: cost.map(|cost| CostSplit {
            operator_cost: cost - cost / 10,
            transpose_cost: cost / 10,
        }),
        per_binding: Vec::new(),
        lower_bound: None,
        seconds: 0.25,
        peak_bytes: Some(4096),
        trace: Vec::new(),
        ties: None,
        terms: BTreeMap::new(),
        counters: BTreeMap::new(),
    }
}

/// Samples of five processes around a median: `median` in the middle of each, one percent up and down.
pub fn latency(median: f64) -> Latency {
    let process = ProcessSamples {
        warm_up: 2,
        samples_ms: vec![median * 0.99, median, median * 1.01],
    };
    Latency::from_processes(LatencyMode::Isolated, vec![process; 5]).expect("positive samples")
}

/// A cell that ended well: predicted `cost`, measured `ms`, with `plan` as the hash of its program.
pub fn cell(model: &str, strategy: &str, cost: u64, ms: f64, plan: &str) -> CellRecord {
    let mut record = CellRecord::new(key(model, strategy));
    record.status = CellStatus::Ok;
    record.instance = Some(InstanceFacts {
        hash: format!("instance-of-{model}"),
        graph: GraphFacts {
            operators: 12,
            tensors: 11,
            treewidth_lower: Some(2),
            treewidth_upper: Some(2),
        },
        ..InstanceFacts::default()
    });
    record.solve = Some(solve(SolverStatus::Feasible, Some(cost)));
    record.plan = Some(PlanFacts {
        hash: plan.to_owned(),
        conversions: 2,
        conversion_bytes: Some(1024),
        layouts: vec![TensorLayout {
            tensor: "t0".to_owned(),
            layout: plan.to_owned(),
        }],
        ..PlanFacts::default()
    });
    record.correctness = Some(Correctness {
        max_relative_error: Some(1e-6),
        tolerance: 1e-3,
    });
    record.latency = Some(latency(ms));
    record
}

/// The same with a proof of optimality.
pub fn optimal(model: &str, strategy: &str, cost: u64, ms: f64, plan: &str) -> CellRecord {
    let mut record = cell(model, strategy, cost, ms, plan);
    record.solve = Some(SolveFacts {
        lower_bound: Some(cost),
        ..solve(SolverStatus::Optimal, Some(cost))
    });
    record
}

/// A cell that ended with `status` before anything was measured.
pub fn failed(model: &str, strategy: &str, status: CellStatus) -> CellRecord {
    let mut record = CellRecord::new(key(model, strategy));
    record.status = status;
    record
}
