//! All measures of a run in one value, and as Markdown.

use super::cases::{Facet, Settings, facets, group};
use super::{
    Accuracy, BASELINE, ConversionRatios, Distribution, HeatMap, OptimalityGaps, PairwiseAccuracy, PlanCount,
    ProfiledRatio, RelativePerformance, RuntimeCurve, TreewidthHistogram, Verdict, conversion_cost_share,
    conversion_ratios, distinct_plans, heat_map, optimality_gaps, pairwise_accuracy, profiled_over_measured,
    relative_performance, solver_runtimes, solver_time_share, treewidth_histogram, verdicts,
};
use crate::analysis::Column;
use crate::record::CellRecord;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// All measures of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Cells by status.
    pub cells: BTreeMap<String, usize>,
    /// Cases left out because their cells have different instances.
    pub mixed_instances: Vec<String>,
    /// Cells left out because another has the same coordinates.
    pub duplicates: Vec<String>,
    /// The measures per target, cost model and thread count.
    pub facets: Vec<FacetSummary>,
}

/// The measures of one facet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FacetSummary {
    /// Target, cost model and threads in words.
    pub title: String,
    /// The columns compared.
    pub columns: Vec<Column>,
    /// Latencies come from a simulator.
    pub simulated: bool,
    /// Figure 5.
    pub relative: RelativePerformance,
    /// Figure 7a.
    pub gaps: OptimalityGaps,
    /// Pairwise accuracy.
    pub pairwise: PairwiseAccuracy,
    /// Figure 7b.
    pub heat_map: HeatMap,
    /// Conversions relative to a reference, or why there are none.
    pub conversions: Result<ConversionRatios, String>,
    /// Share of conversions in the predicted cost.
    pub conversion_share: Vec<(Column, Option<Distribution>)>,
    /// Share of the strategy in the compile time.
    pub solver_share: Vec<(Column, Option<Distribution>)>,
    /// Distinct plans per case.
    pub plans: Vec<PlanCount>,
    /// Profiled sum over measured total per case.
    pub profiled: Vec<ProfiledRatio>,
    /// Section 4.3's verdicts.
    pub verdicts: Vec<Verdict>,
    /// Figure 6a.
    pub treewidth: TreewidthHistogram,
    /// Figure 6b.
    pub runtimes: Vec<RuntimeCurve>,
}

/// Computes every measure over a run's records.
pub fn summarise(records: &[CellRecord], settings: &Settings) -> Summary {
    let mut cells = BTreeMap::new();
    for record in records {
        *cells.entry(record.status.name().to_owned()).or_default() += 1;
    }
    let grouped = group(records);
    let facets = facets(&grouped.cases, settings)
        .iter()
        .map(|facet| summarise_facet(facet, settings))
        .collect();
    Summary {
        cells,
        mixed_instances: grouped.mixed_instances,
        duplicates: grouped.duplicates,
        facets,
    }
}

fn summarise_facet(facet: &Facet<'_>, settings: &Settings) -> FacetSummary {
    let (cases, columns) = (&facet.cases, &facet.columns);
    FacetSummary {
        title: facet.title(),
        columns: columns.clone(),
        simulated: cases
            .iter()
            .flat_map(|case| case.cells.values())
            .any(|cell| cell.simulated),
        relative: relative_performance(cases, columns),
        gaps: optimality_gaps(cases, columns),
        pairwise: pairwise_accuracy(cases, columns, settings),
        heat_map: heat_map(cases, columns),
        conversions: conversion_ratios(cases, columns, settings),
        conversion_share: conversion_cost_share(cases, columns),
        solver_share: solver_time_share(cases, columns),
        plans: distinct_plans(cases),
        profiled: profiled_over_measured(cases, columns),
        verdicts: verdicts(cases, columns, settings),
        treewidth: treewidth_histogram(cases),
        runtimes: solver_runtimes(cases),
    }
}

impl Summary {
    /// The summary as Markdown: one section per facet, each measure with its definition in a few words.
    pub fn markdown(&self) -> String {
        let mut text = String::from("# Measures\n\n");
        let cells: Vec<String> = self
            .cells
            .iter()
            .map(|(status, count)| format!("{count} {status}"))
            .collect();
        line(
            &mut text,
            &format!(
                "Cells: {}.",
                if cells.is_empty() {
                    "none".to_owned()
                } else {
                    cells.join(", ")
                }
            ),
        );
        if !self.mixed_instances.is_empty() {
            let names = self.mixed_instances.join("; ");
            line(
                &mut text,
                &format!("Left out, because their cells solved different instances: {names}."),
            );
        }
        if !self.duplicates.is_empty() {
            let ids = self.duplicates.join(", ");
            line(
                &mut text,
                &format!("Left out, because another cell has the same coordinates: {ids}."),
            );
        }
        for facet in &self.facets {
            facet.markdown(&mut text);
        }
        text
    }
}

impl FacetSummary {
    fn markdown(&self, text: &mut String) {
        let simulated = if self.simulated { " (simulated)" } else { "" };
        let _ = write!(text, "\n## {}{simulated}\n\n", self.title);
        self.strategies(text);
        self.accuracy(text);
        self.programs(text);
        self.verdict_table(text);
    }

    fn strategies(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "| strategy | played by | relative performance, mean | worst decile | gap, mean | gap, p90 | \
             conversions, mean | conversions, p90 | conversions' cost share | share of compile time |\n\
             |---|---|--:|--:|--:|--:|--:|--:|--:|--:|"
        );
        for (index, column) in self.columns.iter().enumerate() {
            let relative = self.relative.curves.get(index);
            let gap = self.gaps.curves.get(index);
            let ratio = self
                .conversions
                .as_ref()
                .ok()
                .and_then(|ratios| ratios.columns.get(index)?.1);
            let share = |shares: &[(Column, Option<Distribution>)]| {
                number(
                    shares
                        .get(index)
                        .and_then(|share| share.1)
                        .map(|d| 100.0 * d.mean),
                    "%",
                )
            };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                column.label,
                column.series,
                number(relative.and_then(|curve| curve.mean), "%"),
                number(relative.and_then(|curve| curve.p10), "%"),
                number(gap.and_then(|curve| curve.mean), "%"),
                number(gap.and_then(|curve| curve.p90), "%"),
                number(ratio.map(|ratio| ratio.mean), "×"),
                number(ratio.map(|ratio| ratio.p90), "×"),
                share(&self.conversion_share),
                share(&self.solver_share),
            );
        }
        text.push('\n');
        line(
            text,
            &format!(
                "Relative performance is over {} models, gaps over {} ({} of them relative to a lower bound, for want of \
                 a proof). A dash means that nothing was measured.",
                self.relative.cases, self.gaps.cases, self.gaps.unproven
            ),
        );
        match &self.conversions {
            Ok(ratios) => {
                let note = ratios
                    .note
                    .as_deref()
                    .map(|note| format!(" ({note})"))
                    .unwrap_or_default();
                let undefined = match ratios.undefined {
                    0 => String::new(),
                    n => format!(" {n} ratios are undefined because the reference converts nothing."),
                };
                let label = &ratios.reference.label;
                line(
                    text,
                    &format!("Conversions are relative to {label}{note}.{undefined}"),
                );
            }
            Err(reason) => line(text, &format!("No conversion ratios: {reason}.")),
        }
        if !self.gaps.contradictions.is_empty() {
            let names = self.gaps.contradictions.join("; ");
            line(
                text,
                &format!(
                    "**Bug:** a claimed optimum or bound lies above another strategy's cost in: {names}."
                ),
            );
        }
    }

    fn accuracy(&self, text: &mut String) {
        let show = |accuracy: Accuracy| match accuracy.fraction() {
            Some(fraction) => format!("{:.1}% of {} pairs", 100.0 * fraction, accuracy.pairs),
            None => "no pairs".to_owned(),
        };
        let pairwise = &self.pairwise;
        let noise = match pairwise.cases_without_noise {
            0 => String::new(),
            n => format!(" ({n} models have no A/A control)"),
        };
        line(
            text,
            &format!(
                "Pairwise accuracy of the cost model: {}; without identical plans {}; with the measured noise as \
                 tolerance {}{noise}; guessing gets {:.0}%.",
                show(pairwise.all),
                show(pairwise.distinct_plans),
                show(pairwise.noise_aware),
                100.0 * BASELINE
            ),
        );
        for (family, accuracy) in &pairwise.by_family {
            let _ = writeln!(text, "- {}: {}", named(family), show(*accuracy));
        }
        if !pairwise.by_family.is_empty() {
            text.push('\n');
        }
        let degenerate = self.heat_map.degenerate.len();
        if degenerate > 0 {
            line(
                text,
                &format!(
                    "The heat map leaves out {degenerate} models on which all strategies have the same predicted cost or \
                     the same time."
                ),
            );
        }
    }

    fn programs(&self, text: &mut String) {
        if self.plans.is_empty() {
            return;
        }
        let labels: Vec<&str> = self.columns.iter().map(|column| column.label.as_str()).collect();
        let _ = writeln!(text, "Distinct plans, and profiled sum over measured total:\n");
        let _ = writeln!(text, "| model | plans | distinct | {} |", labels.join(" | "));
        let _ = writeln!(text, "|---|--:|--:|{}", "--:|".repeat(labels.len()));
        for plan in &self.plans {
            let profiled = self.profiled.iter().find(|profiled| profiled.case == plan.case);
            let ratios: Vec<String> = labels
                .iter()
                .map(|label| {
                    let ratio = profiled.and_then(|p| p.ratios.iter().find(|ratio| ratio.0 == *label));
                    ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{:.2}", ratio.1))
                })
                .collect();
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} |",
                plan.case,
                plan.plans,
                plan.distinct,
                ratios.join(" | ")
            );
        }
        text.push('\n');
    }

    fn verdict_table(&self, text: &mut String) {
        if self.verdicts.is_empty() {
            return;
        }
        let _ = writeln!(
            text,
            "Exact solving pays while a heuristic's gap exceeds the cost model's error on the same pair of plans:\n\n\
             | scope | heuristic | pairs | gap | model error | measured | verdict |\n|---|---|--:|--:|--:|--:|---|"
        );
        let families = self.verdicts.iter().filter(|verdict| verdict.is_family);
        for verdict in families.chain(self.verdicts.iter().filter(|verdict| !verdict.is_family)) {
            let scope = named(&verdict.scope);
            let scope = if verdict.is_family {
                format!("*{scope}*")
            } else {
                scope.to_owned()
            };
            let _ = writeln!(
                text,
                "| {scope} | {} | {} | {:.2}% | {:.2}% | {:+.2}% | {} |",
                verdict.heuristic,
                verdict.pairs,
                verdict.gap_percent,
                verdict.error_percent,
                verdict.measured_percent,
                verdict.outcome.name()
            );
        }
        text.push('\n');
    }
}

fn line(text: &mut String, sentence: &str) {
    text.push_str(sentence);
    text.push_str("\n\n");
}

/// A family's name in tables.
fn named(family: &str) -> &str {
    if family.is_empty() { "(no family)" } else { family }
}

fn number(value: Option<f64>, unit: &str) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}{unit}"))
}
