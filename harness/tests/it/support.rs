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

/// Samples of one process that are all the same.
pub fn uniform(ms: f64) -> Latency {
    let process = ProcessSamples {
        warm_up: 2,
        samples_ms: vec![ms; 4],
    };
    Latency::from_processes(LatencyMode::Isolated, vec![process]).expect("positive samples")
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

/// A run of four strategies over `models` synthetic models: costs and times from a fixed linear congruence, so that strategies
/// differ, some tie, a few exact answers lack a proof and widths spread. The times have nothing to do with any machine.
pub fn study(models: usize) -> Vec<CellRecord> {
    let mut state = 12345u64;
    let mut draw = move |bound: u64| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) % bound
    };
    let mut records = Vec::new();
    for index in 0..models {
        let model = format!("model-{index:02}");
        let base = 1000 + draw(9000);
        let easy = draw(3) == 0;
        for (strategy, slack) in [
            ("local", 400),
            ("greedy", 60),
            ("rule-based", 150),
            ("maxsat", 0),
            ("treewidth", 0),
        ] {
            let extra = if easy || slack == 0 { 0 } else { draw(slack) };
            let cost = base + base * extra / 1000;
            let ms = cost as f64 / 500.0 * (1.0 + draw(if easy { 3 } else { 250 }) as f64 / 1000.0);
            let plan = format!("plan-{extra}");
            let unsolved = slack == 0 && index % 9 == 8;
            let mut record = if slack == 0 && !unsolved {
                optimal(&model, strategy, cost, ms, &plan)
            } else {
                cell(&model, strategy, cost, ms, &plan)
            };
            let family = ["dense transformers", "vision", "mixture of experts"][index % 3];
            record.key.family = family.to_owned();
            let width = 1 + (draw(4) * draw(3)) as u32;
            if let Some(instance) = &mut record.instance {
                let wide = index % 10 == 9;
                instance.graph.treewidth_lower = Some(if wide { width - 1 } else { index as u32 % 3 + 1 });
                instance.graph.treewidth_upper = Some(if wide { width + 2 } else { index as u32 % 3 + 1 });
                instance.granularity = Some("operators of the graph before fusion".to_owned());
            }
            if let Some(solve) = &mut record.solve {
                solve.seconds =
                    10f64.powf(draw(4000) as f64 / 1000.0 - if strategy == "treewidth" { 3.5 } else { 2.0 });
                if unsolved {
                    solve.status = SolverStatus::Timeout;
                    solve.lower_bound = Some(base - base / 50);
                }
            }
            records.push(record);
        }
    }
    records
}
