//! Records grouped into comparable cases, and the columns over which they are compared.

use crate::record::{CellKey, CellRecord, SolverStatus};
use std::collections::{BTreeMap, BTreeSet};

/// The strategies that never prove anything, in the order of the tables.
pub const HEURISTICS: [&str; 3] = ["local", "greedy", "rule-based"];

/// Exact strategies in the order in which one is chosen for the `solver-based` column when none is named.
const EXACT: [&str; 3] = ["exact", "maxsat", "treewidth"];

/// What the measures may be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Strategy (or `strategy/solver`) that plays the `solver-based` column; `None` chooses the first present of
    /// exact, maxsat, treewidth.
    pub solver_based: Option<String>,
    /// Column against which conversions are counted when `rule-based` has no cells.
    pub fallback_reference: Option<String>,
    /// Relative difference below which two values are equal.
    pub tolerance: f64,
    /// Results within this factor above the best are bold in the table.
    pub bold_within: f64,
}

impl Default for Settings {
    /// 0.5% for equality, 1% for bold, as in the study.
    fn default() -> Self {
        Settings {
            solver_based: None,
            fallback_reference: None,
            tolerance: 0.005,
            bold_within: 0.01,
        }
    }
}

/// One column: a role in the tables and the strategy that plays it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Column {
    /// Name in tables and legends: a heuristic's own, or `solver-based`.
    pub label: String,
    /// Name of the series (strategy, or `strategy/solver`) that plays it.
    pub series: String,
}

/// One model under one binding, target, cost model, thread count and seed.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// Model with overrides and bindings; threads and seed are added where they tell cases apart.
    pub label: String,
    /// Family of the model.
    pub family: String,
    /// Target.
    pub target: String,
    /// Cost model.
    pub cost_model: String,
    /// Threads.
    pub threads: u32,
    /// The cells by series: the strategy, or `strategy/solver` where the run has several solvers for it.
    pub cells: BTreeMap<String, &'a CellRecord>,
}

/// All cases of a run, and what could not be used.
#[derive(Clone, Debug, Default)]
pub struct Cases<'a> {
    /// Comparable cases, in order of family, then label.
    pub cases: Vec<Case<'a>>,
    /// Labels of cases whose cells have different instances: left out of everything.
    pub mixed_instances: Vec<String>,
    /// Ids of cells with the coordinates of an earlier one: left out.
    pub duplicates: Vec<String>,
}

/// The cases of one target, cost model and thread count: what one figure shows.
#[derive(Clone, Debug)]
pub struct Facet<'a> {
    /// Target.
    pub target: String,
    /// Cost model.
    pub cost_model: String,
    /// Threads.
    pub threads: u32,
    /// Its cases.
    pub cases: Vec<Case<'a>>,
    /// Its columns.
    pub columns: Vec<Column>,
}

impl Facet<'_> {
    /// Text for captions: `cpu, profiled costs, 2 threads`.
    pub fn title(&self) -> String {
        let plural = if self.threads == 1 { "" } else { "s" };
        format!(
            "{}, {} costs, {} thread{plural}",
            self.target, self.cost_model, self.threads
        )
    }

    /// Text for file names: `cpu-profiled-2t`.
    pub fn slug(&self) -> String {
        let raw = format!("{}-{}-{}t", self.target, self.cost_model, self.threads);
        raw.chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() {
                    c.to_ascii_lowercase()
                } else {
                    '-'
                }
            })
            .collect()
    }

    /// The strategy behind the `solver-based` column, if there is one.
    pub fn solver_based(&self) -> Option<&str> {
        self.columns
            .iter()
            .find(|column| column.label == "solver-based")
            .map(|column| column.series.as_str())
    }
}

impl<'a> Case<'a> {
    /// The cell of a column.
    pub fn cell(&self, column: &Column) -> Option<&'a CellRecord> {
        self.cells.get(&column.series).copied()
    }

    /// Predicted cost of a column.
    pub fn predicted(&self, column: &Column) -> Option<u64> {
        self.cell(column)?.predicted_cost()
    }

    /// Measured median of a column, milliseconds.
    pub fn measured(&self, column: &Column) -> Option<f64> {
        self.cell(column)?.median_ms()
    }

    /// Whether two columns have the same plan; `false` where either plan is unknown.
    pub fn same_plan(&self, a: &Column, b: &Column) -> bool {
        let hash = |column| self.cell(column)?.plan.as_ref().map(|plan| plan.hash.as_str());
        matches!((hash(a), hash(b)), (Some(a), Some(b)) if a == b)
    }

    /// The optimum of the case as proven by any of its cells: the cost, or else the highest lower bound.
    pub fn reference_cost(&self) -> Option<ReferenceCost> {
        let solves = || {
            self.cells
                .values()
                .filter_map(|cell| cell.solve.as_ref().map(|solve| (cell, solve)))
        };
        let optimum = solves()
            .filter(|(_, solve)| solve.status == SolverStatus::Optimal)
            .filter_map(|(cell, _)| cell.predicted_cost())
            .min();
        match optimum {
            Some(cost) => Some(ReferenceCost { cost, proven: true }),
            None => {
                let bound = solves().filter_map(|(_, solve)| solve.lower_bound).max()?;
                Some(ReferenceCost {
                    cost: bound,
                    proven: false,
                })
            }
        }
    }

    /// The worst A/A noise that the case's cells report, as a fraction.
    pub fn noise(&self) -> Option<f64> {
        let noises = self
            .cells
            .values()
            .filter_map(|cell| cell.latency.as_ref()?.noise);
        noises.filter(|noise| noise.is_finite()).max_by(f64::total_cmp)
    }
}

/// What optimality gaps are relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReferenceCost {
    /// The optimum, or a lower bound on it.
    pub cost: u64,
    /// Whether it is the optimum.
    pub proven: bool,
}

/// Everything of a key but the strategy and its solver.
type CaseKey = (
    String,
    BTreeMap<String, String>,
    Option<u64>,
    BTreeMap<String, u64>,
    String,
    String,
    u32,
    u64,
);

fn case_key(key: &CellKey) -> CaseKey {
    (
        key.model.clone(),
        key.overrides.clone(),
        key.batch,
        key.dims.clone(),
        key.target.clone(),
        key.cost_model.clone(),
        key.threads,
        key.seed,
    )
}

/// Groups records into cases. O(n log n).
pub fn group(records: &[CellRecord]) -> Cases<'_> {
    let mut solvers: BTreeMap<&str, BTreeSet<Option<&str>>> = BTreeMap::new();
    for record in records {
        solvers
            .entry(&record.key.strategy)
            .or_default()
            .insert(record.key.solver.as_deref());
    }
    let series_of = |key: &CellKey| match &key.solver {
        Some(solver)
            if solvers
                .get(key.strategy.as_str())
                .is_some_and(|set| set.len() > 1) =>
        {
            format!("{}/{solver}", key.strategy)
        }
        _ => key.strategy.clone(),
    };

    let mut result = Cases::default();
    let mut groups: BTreeMap<CaseKey, BTreeMap<String, &CellRecord>> = BTreeMap::new();
    let mut ordered: Vec<&CellRecord> = records.iter().collect();
    ordered.sort_by(|a, b| a.id.cmp(&b.id));
    for record in ordered {
        let cells = groups.entry(case_key(&record.key)).or_default();
        match cells.entry(series_of(&record.key)) {
            std::collections::btree_map::Entry::Vacant(slot) => {
                slot.insert(record);
            }
            std::collections::btree_map::Entry::Occupied(_) => result.duplicates.push(record.id.clone()),
        }
    }

    let seeds: BTreeSet<u64> = records.iter().map(|record| record.key.seed).collect();
    for cells in groups.into_values() {
        let Some(first) = cells.values().next() else {
            continue;
        };
        let mut label = first.key.model_label();
        if seeds.len() > 1 {
            label.push_str(&format!(" seed={}", first.key.seed));
        }
        let hashes: BTreeSet<&str> = cells
            .values()
            .filter_map(|cell| Some(cell.instance.as_ref()?.hash.as_str()))
            .collect();
        if hashes.len() > 1 {
            result.mixed_instances.push(label);
            continue;
        }
        result.cases.push(Case {
            label,
            family: first.key.family.clone(),
            target: first.key.target.clone(),
            cost_model: first.key.cost_model.clone(),
            threads: first.key.threads,
            cells,
        });
    }
    result
        .cases
        .sort_by(|a, b| (&a.family, &a.label).cmp(&(&b.family, &b.label)));
    result
}

/// Splits cases by target, cost model and threads, in that order, and finds the columns of each part.
pub fn facets<'a>(cases: &[Case<'a>], settings: &Settings) -> Vec<Facet<'a>> {
    let mut parts: BTreeMap<(String, String, u32), Vec<Case<'a>>> = BTreeMap::new();
    for case in cases {
        let key = (case.target.clone(), case.cost_model.clone(), case.threads);
        parts.entry(key).or_default().push(case.clone());
    }
    parts
        .into_iter()
        .map(|((target, cost_model, threads), cases)| {
            let columns = columns(&cases, settings);
            Facet {
                target,
                cost_model,
                threads,
                cases,
                columns,
            }
        })
        .collect()
}

/// The columns that at least one case has a cell for, in the order of the tables.
fn columns(cases: &[Case<'_>], settings: &Settings) -> Vec<Column> {
    let present: BTreeSet<&str> = cases
        .iter()
        .flat_map(|case| case.cells.keys().map(String::as_str))
        .collect();
    let mut columns: Vec<Column> = HEURISTICS
        .into_iter()
        .filter(|name| present.contains(name))
        .map(|name| Column {
            label: name.to_owned(),
            series: name.to_owned(),
        })
        .collect();
    let matching = |wanted: &str| {
        present.iter().find(|series| {
            **series == wanted
                || series
                    .strip_prefix(wanted)
                    .is_some_and(|rest| rest.starts_with('/'))
        })
    };
    let solver = match &settings.solver_based {
        Some(wanted) => matching(wanted),
        None => EXACT.into_iter().find_map(matching),
    };
    if let Some(series) = solver
        && !HEURISTICS.contains(series)
    {
        columns.push(Column {
            label: "solver-based".to_owned(),
            series: (*series).to_owned(),
        });
    }
    columns
}
