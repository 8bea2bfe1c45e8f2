//! How hard the instances are: treewidth (figure 6a of the study) and the exact strategies' runtime (6b).

use super::cases::{Case, HEURISTICS};
use crate::record::{CellStatus, SolverStatus};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Distribution of treewidth over a run's graphs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TreewidthHistogram {
    /// Graphs by width, as (width, graphs whose width is exact, graphs of which it is an upper bound only).
    pub bars: Vec<(u32, usize, usize)>,
    /// Graphs counted.
    pub graphs: usize,
    /// Cases without a width.
    pub left_out: Vec<String>,
    /// What a vertex is, as the records say; more than one when they disagree.
    pub granularity: Vec<String>,
}

/// Counts the treewidths of the cases' graphs, constants included, one graph per case.
pub fn treewidth_histogram(cases: &[Case<'_>]) -> TreewidthHistogram {
    let mut bars: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    let mut granularity = BTreeSet::new();
    let mut result = TreewidthHistogram::default();
    for case in cases {
        let instances = || case.cells.values().filter_map(|cell| cell.instance.as_ref());
        let upper = instances()
            .filter_map(|instance| instance.graph.treewidth_upper)
            .min();
        let lower = instances()
            .filter_map(|instance| instance.graph.treewidth_lower)
            .max();
        let Some(upper) = upper else {
            result.left_out.push(case.label.clone());
            continue;
        };
        granularity.extend(instances().filter_map(|instance| instance.granularity.clone()));
        let bar = bars.entry(upper).or_default();
        if lower == Some(upper) {
            bar.0 += 1
        } else {
            bar.1 += 1
        }
        result.graphs += 1;
    }
    result.bars = bars
        .into_iter()
        .map(|(width, (exact, bounded))| (width, exact, bounded))
        .collect();
    result.granularity = granularity.into_iter().collect();
    result
}

/// One exact strategy's runtime over the cases.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuntimeCurve {
    /// The series: strategy, or `strategy/solver`.
    pub series: String,
    /// Case and seconds of each proven optimum, in ascending order of seconds.
    pub solved: Vec<(String, f64)>,
    /// Cases tried without a proof, with the reason (`timeout`, `out-of-memory`, a cell status, …).
    pub unsolved: Vec<(String, String)>,
}

impl RuntimeCurve {
    /// Cases tried.
    pub fn tried(&self) -> usize {
        self.solved.len() + self.unsolved.len()
    }
}

/// Runtimes of all strategies but the heuristics. Skipped and unfinished cells were not tried.
pub fn solver_runtimes(cases: &[Case<'_>]) -> Vec<RuntimeCurve> {
    let mut curves: BTreeMap<&str, RuntimeCurve> = BTreeMap::new();
    for case in cases {
        for (series, cell) in &case.cells {
            if HEURISTICS.contains(&cell.key.strategy.as_str())
                || matches!(cell.status, CellStatus::Skipped { .. } | CellStatus::Pending)
            {
                continue;
            }
            let curve = curves.entry(series).or_insert_with(|| RuntimeCurve {
                series: series.clone(),
                solved: Vec::new(),
                unsolved: Vec::new(),
            });
            match &cell.solve {
                Some(solve) if solve.status == SolverStatus::Optimal => {
                    curve.solved.push((case.label.clone(), solve.seconds));
                }
                Some(solve) => curve
                    .unsolved
                    .push((case.label.clone(), solve.status.name().to_owned())),
                None => curve
                    .unsolved
                    .push((case.label.clone(), cell.status.name().to_owned())),
            }
        }
    }
    let mut curves: Vec<RuntimeCurve> = curves.into_values().collect();
    for curve in &mut curves {
        curve
            .solved
            .sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
    }
    curves
}
