//! The five figures, as charts, captions and data, built from a facet's measures. Pure: no file is touched.

use super::chart::{Axis, Bar, BarChart, Chart, HeatChart, Line, LineChart, Step};
use super::style;
use crate::analysis::{
    BASELINE, Column, Facet, Settings, heat_map, optimality_gaps, pairwise_accuracy, relative_performance,
    solver_runtimes, treewidth_histogram,
};
use crate::table::csv_field;
use std::fmt::Write;

/// Above this many models, curves carry no markers.
const MARKER_LIMIT: usize = 40;

/// A figure ready to be drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// File name without extension.
    pub name: String,
    /// What it shows, in a sentence for a heading.
    pub title: String,
    /// What it means and what it leaves out.
    pub caption: String,
    /// The chart.
    pub chart: Chart,
    /// The data behind it, as CSV with a header.
    pub csv: String,
}

/// A figure that is not drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The file name it would have.
    pub name: String,
    /// Why not.
    pub reason: String,
}

/// Builds all figures of a facet. `suffix` is appended to the names, to tell facets apart.
pub fn figures(facet: &Facet<'_>, settings: &Settings, suffix: &str) -> Vec<Result<Figure, Skipped>> {
    let simulated = facet
        .cases
        .iter()
        .flat_map(|case| case.cells.values())
        .any(|cell| cell.simulated);
    let parts: [(&str, Result<Figure, String>); 5] = [
        ("fig5-relative-performance", relative(facet, simulated)),
        ("fig6a-treewidth", treewidth(facet)),
        ("fig6b-solver-runtime", runtime(facet)),
        ("fig7a-optimality-gap", gap(facet)),
        (
            "fig7b-predicted-measured",
            predicted_measured(facet, settings, simulated),
        ),
    ];
    parts
        .into_iter()
        .map(|(name, built)| {
            let name = format!("{name}{suffix}");
            match built {
                Ok(figure) => Ok(Figure {
                    caption: format!("{} ({}.)", figure.caption, facet.title()),
                    name,
                    ..figure
                }),
                Err(reason) => Err(Skipped { name, reason }),
            }
        })
        .collect()
}

/// `solver-based (maxsat)` for the designated strategy, the column's own name for the others.
fn legend(column: &Column) -> String {
    if column.label == column.series {
        column.label.clone()
    } else {
        format!("{} ({})", column.label, column.series)
    }
}

/// The legend's text with the number of models behind a curve, where that is not all.
fn legend_of(name: String, present: usize, all: usize) -> String {
    if present == all {
        name
    } else {
        format!("{name}, {present} of {all}")
    }
}

/// Steps of equal width for values in curve order. The absent ones come first, or last.
fn steps(values: &[(f64, bool)], all: usize, first: usize) -> Vec<Step> {
    let share = |rank: usize| 100.0 * rank as f64 / all.max(1) as f64;
    values
        .iter()
        .enumerate()
        .map(|(rank, &(y, hollow))| Step {
            from: share(first + rank),
            to: share(first + rank + 1),
            y,
            hollow,
        })
        .collect()
}

fn percent_axis(label: &str) -> Axis {
    Axis::linear(label, 0.0, 100.0, 5)
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}

/// A sentence naming what was left out; empty when nothing was.
fn left_out(cases: &[String], why: &str) -> String {
    match cases.len() {
        0 => String::new(),
        1..=5 => format!(" Left out, because {why}: {}.", cases.join("; ")),
        n => format!(" {n} models are left out, because {why}."),
    }
}

fn relative(facet: &Facet<'_>, simulated: bool) -> Result<Figure, String> {
    let data = relative_performance(&facet.cases, &facet.columns);
    if data.cases == 0 {
        return Err("no model has a measured latency for two or more strategies".to_owned());
    }
    let mut csv = String::from("strategy,series,rank,models,model,relative_percent\n");
    let mut lines = Vec::new();
    let mut lowest = 100.0f64;
    for (position, curve) in data.curves.iter().enumerate() {
        for (rank, point) in curve.points.iter().enumerate() {
            lowest = lowest.min(point.percent);
            let _ = writeln!(
                csv,
                "{},{},{},{},{},{}",
                csv_field(&curve.column.label),
                csv_field(&curve.column.series),
                curve.absent + rank + 1,
                data.cases,
                csv_field(&point.case),
                point.percent
            );
        }
        let values: Vec<(f64, bool)> = curve.points.iter().map(|point| (point.percent, false)).collect();
        lines.push(Line {
            label: legend_of(legend(&curve.column), values.len(), data.cases),
            look: style::look(&curve.column.label, position),
            steps: steps(&values, data.cases, curve.absent),
        });
    }
    // From zero, unless all of the data is in the upper part; the tick labels tell.
    let floor = if lowest < 50.0 {
        0.0
    } else {
        ((lowest - 1.0) / 10.0).floor().min(9.0) * 10.0
    };
    let kind = if simulated {
        "Simulated performance"
    } else {
        "Performance"
    };
    let caption = format!(
        "For each strategy, its {} relative to the best strategy of the same model, from the worst model to the best \
         over {}. 100 is the best known result (dashed); higher is better. A curve that begins further right has models \
         without a result.{}",
        kind.to_lowercase(),
        counted(data.cases, "model"),
        left_out(&data.left_out, "fewer than two strategies have a latency")
    );
    Ok(Figure {
        name: String::new(),
        title: "Relative performance".to_owned(),
        caption,
        chart: Chart::Lines(LineChart {
            x: percent_axis("Models (%)"),
            // A little above 100, so that the curves at 100 lie inside.
            y: Axis::linear(&format!("{kind}, % of best"), floor, 100.0, 5)
                .capped(100.0 + (100.0 - floor) * 0.03),
            lines,
            guide: Some(100.0),
            markers: data.cases <= MARKER_LIMIT,
        }),
        csv,
    })
}

fn gap(facet: &Facet<'_>) -> Result<Figure, String> {
    let data = optimality_gaps(&facet.cases, &facet.columns);
    if data.cases == 0 || data.curves.iter().all(|curve| curve.gaps.is_empty()) {
        return Err("no model has both a plan and a proven optimum or lower bound".to_owned());
    }
    let mut csv = String::from("strategy,series,rank,models,model,cost,reference,proven,gap_percent\n");
    let mut lines = Vec::new();
    let mut highest = 0.0f64;
    for (position, curve) in data.curves.iter().enumerate() {
        for (rank, gap) in curve.gaps.iter().enumerate() {
            highest = highest.max(gap.percent);
            let _ = writeln!(
                csv,
                "{},{},{},{},{},{},{},{},{}",
                csv_field(&curve.column.label),
                csv_field(&curve.column.series),
                curve.absent + rank + 1,
                data.cases,
                csv_field(&gap.case),
                gap.cost,
                gap.reference,
                gap.proven,
                gap.percent
            );
        }
        let values: Vec<(f64, bool)> = curve.gaps.iter().map(|gap| (gap.percent, !gap.proven)).collect();
        lines.push(Line {
            label: legend_of(legend(&curve.column), values.len(), data.cases),
            look: style::look(&curve.column.label, position),
            steps: steps(&values, data.cases, curve.absent),
        });
    }
    let top = if highest > 0.0 { highest } else { 1.0 };
    let markers = data.cases <= MARKER_LIMIT;
    let unproven = match data.unproven {
        0 => String::new(),
        n => format!(
            " For {} no optimum is proven; their gaps are relative to the best lower bound, and so upper bounds{}.",
            counted(n, "model"),
            if markers { " (hollow markers)" } else { "" }
        ),
    };
    let caption = format!(
        "For each strategy, how far its predicted cost is above the optimum under the cost model, from the worst model to \
         the best over {}. 0 is optimal; lower is better.{unproven}{}{}",
        counted(data.cases, "model"),
        left_out(&data.left_out, "there is no optimum and no bound above 0"),
        left_out(
            &data.contradictions,
            "a claimed optimum or bound lies above another strategy's cost, which is a bug"
        ),
    );
    Ok(Figure {
        name: String::new(),
        title: "Optimality gap".to_owned(),
        caption,
        chart: Chart::Lines(LineChart {
            x: percent_axis("Models (%)"),
            // The line at 0 lies a little above the axis: markers on it keep clear of the ticks.
            y: Axis::linear("Optimality gap (%)", 0.0, top, 5).lowered(0.05),
            lines,
            guide: None,
            markers,
        }),
        csv,
    })
}

fn runtime(facet: &Facet<'_>) -> Result<Figure, String> {
    /// Below this a time is drawn as this: no solver is measured more finely.
    const FLOOR: f64 = 1e-6;
    let curves: Vec<_> = solver_runtimes(&facet.cases)
        .into_iter()
        .filter(|curve| !curve.solved.is_empty())
        .collect();
    if curves.is_empty() {
        return Err("no exact strategy has proven an optimum".to_owned());
    }
    let mut csv = String::from("series,rank,tried,model,outcome,seconds\n");
    let (mut lowest, mut highest) = (f64::INFINITY, FLOOR);
    let mut lines = Vec::new();
    let mut most = 0;
    for (position, curve) in curves.iter().enumerate() {
        most = most.max(curve.tried());
        let series = csv_field(&curve.series);
        for (rank, (case, seconds)) in curve.solved.iter().enumerate() {
            lowest = lowest.min(seconds.max(FLOOR));
            highest = highest.max(*seconds);
            let _ = writeln!(
                csv,
                "{series},{},{},{},optimal,{seconds}",
                rank + 1,
                curve.tried(),
                csv_field(case)
            );
        }
        for (case, reason) in &curve.unsolved {
            let _ = writeln!(
                csv,
                "{series},,{},{},{},",
                curve.tried(),
                csv_field(case),
                csv_field(reason)
            );
        }
        let values: Vec<(f64, bool)> = curve
            .solved
            .iter()
            .map(|(_, seconds)| (seconds.max(FLOOR).log10(), false))
            .collect();
        lines.push(Line {
            label: legend_of(curve.series.clone(), values.len(), curve.tried()),
            look: style::look(&curve.series, position),
            steps: steps(&values, curve.tried(), 0),
        });
    }
    Ok(Figure {
        name: String::new(),
        title: "Solver runtime".to_owned(),
        caption: "For each exact strategy, the time within which it proves the optimum of a given share of the models, on a \
                  logarithmic scale. A curve that ends before 100% has models without a proof; the CSV has the reasons."
            .to_owned(),
        chart: Chart::Lines(LineChart {
            x: percent_axis("Models (%)"),
            y: Axis::decades("Runtime (s)", lowest, highest),
            lines,
            guide: None,
            markers: most <= MARKER_LIMIT,
        }),
        csv,
    })
}

fn treewidth(facet: &Facet<'_>) -> Result<Figure, String> {
    let data = treewidth_histogram(&facet.cases);
    let (Some(first), Some(last)) = (data.bars.first(), data.bars.last()) else {
        return Err("no record has a treewidth".to_owned());
    };
    let mut csv = String::from("treewidth,graphs_exact,graphs_upper_bound,graphs\n");
    let mut bars = Vec::new();
    let mut highest = 0.0f64;
    for width in first.0..=last.0 {
        let (exact, bounded) = data
            .bars
            .iter()
            .find(|bar| bar.0 == width)
            .map_or((0, 0), |bar| (bar.1, bar.2));
        let share = |count: usize| 100.0 * count as f64 / data.graphs as f64;
        let _ = writeln!(csv, "{width},{exact},{bounded},{}", data.graphs);
        highest = highest.max(share(exact + bounded));
        bars.push(Bar {
            name: width.to_string(),
            exact: share(exact),
            bounded: share(bounded),
            text: format!("{:.1}", share(exact + bounded)),
        });
    }
    let granularity = match data.granularity.len() {
        0 => "The records don't say what a vertex is.".to_owned(),
        1 => format!("A vertex is one of: {}.", data.granularity[0]),
        _ => format!(
            "**The graphs differ in what a vertex is**: {}.",
            data.granularity.join("; ")
        ),
    };
    let caption = format!(
        "Share of dataflow graphs by treewidth of the simple undirected operator graph, sources and sinks included, over {}. \
         {granularity} Where upper and lower bound differ, the upper bound counts and the bar is light.{}",
        counted(data.graphs, "graph"),
        left_out(&data.left_out, "no width is known")
    );
    Ok(Figure {
        name: String::new(),
        title: "Treewidth of dataflow graphs".to_owned(),
        caption,
        chart: Chart::Bars(BarChart {
            x_label: "Treewidth".to_owned(),
            // Room above the highest bar for its text.
            y: Axis::linear("Graphs (%)", 0.0, (highest * 1.1).max(1.0), 5),
            bars,
            parts: ("exact".to_owned(), "upper bound".to_owned()),
        }),
        csv,
    })
}

fn predicted_measured(facet: &Facet<'_>, settings: &Settings, simulated: bool) -> Result<Figure, String> {
    let data = heat_map(&facet.cases, &facet.columns);
    if data.cases == 0 {
        return Err(match data.degenerate.len() {
            0 => "no model has a predicted cost and a measured latency for two or more strategies".to_owned(),
            n => format!(
                "in all of the {n} comparable models the strategies' costs or latencies are all the same"
            ),
        });
    }
    let accuracy = pairwise_accuracy(&facet.cases, &facet.columns, settings);
    let mut csv = String::from("model,strategy,predicted_normalised,measured_normalised\n");
    for point in &data.points {
        let _ = writeln!(
            csv,
            "{},{},{},{}",
            csv_field(&point.case),
            csv_field(&point.column),
            point.predicted,
            point.measured
        );
    }
    let share = |fraction: Option<f64>| match fraction {
        Some(fraction) => format!("{:.0}%", 100.0 * fraction),
        None => "none".to_owned(),
    };
    let notes = vec![
        format!(
            "pairwise accuracy {} of {} (chance {:.0}%)",
            share(accuracy.all.fraction()),
            counted(accuracy.all.pairs as usize, "pair"),
            100.0 * BASELINE
        ),
        format!(
            "distinct plans {} of {}",
            share(accuracy.distinct_plans.fraction()),
            counted(accuracy.distinct_plans.pairs as usize, "pair")
        ),
    ];
    let kind = if simulated { "Simulated" } else { "Measured" };
    let caption = format!(
        "Predicted cost against execution time, each scaled per model from its lowest to its highest over the strategies; \
         the shares of {} of {} on a grid. A cost model that orders strategies as the device does puts everything near the \
         diagonal (dashed). Pairwise accuracy is the share of pairs of strategies that prediction and measurement put in the \
         same of three classes, better, worse and equal (below {}%).{}{}",
        counted(data.points.len(), "point"),
        counted(data.cases, "model"),
        100.0 * settings.tolerance,
        left_out(
            &data.degenerate,
            "all their costs or all their times are the same"
        ),
        left_out(&data.left_out, "fewer than two strategies have both values"),
    );
    Ok(Figure {
        name: String::new(),
        title: "Predicted against measured".to_owned(),
        caption,
        chart: Chart::Heat(HeatChart {
            x_label: "Predicted cost, normalised".to_owned(),
            y_label: format!("{kind} time, normalised"),
            counts: data.counts.iter().map(|row| row.to_vec()).collect(),
            notes,
        }),
        csv,
    })
}
