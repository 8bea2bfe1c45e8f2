//! Predicted against measured (figure 7b of the study): both min-max normalised per model, counted on a grid.

use super::cases::{Case, Column};
use serde::Serialize;

/// Bins per axis.
pub const BINS: usize = 5;

/// One strategy on one model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeatPoint {
    /// The case.
    pub case: String,
    /// The column.
    pub column: String,
    /// Predicted cost, 0 = the case's lowest, 1 = its highest.
    pub predicted: f64,
    /// Measured execution time, likewise.
    pub measured: f64,
}

/// The figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HeatMap {
    /// Counts, `[y][x]`: y bin of measured time, x bin of predicted cost, both from lowest to highest.
    pub counts: [[u64; BINS]; BINS],
    /// The points behind the counts.
    pub points: Vec<HeatPoint>,
    /// Cases counted.
    pub cases: usize,
    /// Cases without a scale: all predicted costs or all measured times are the same. Left out.
    pub degenerate: Vec<String>,
    /// Cases with fewer than two columns that have both values. Left out.
    pub left_out: Vec<String>,
}

/// Computes the heat map over `columns`.
pub fn heat_map(cases: &[Case<'_>], columns: &[Column]) -> HeatMap {
    let mut result = HeatMap::default();
    for case in cases {
        let known: Vec<(&Column, f64, f64)> = columns
            .iter()
            .filter_map(|column| Some((column, case.predicted(column)? as f64, case.measured(column)?)))
            .collect();
        if known.len() < 2 {
            result.left_out.push(case.label.clone());
            continue;
        }
        let (Some(predicted), Some(measured)) = (
            Scale::of(known.iter().map(|point| point.1)),
            Scale::of(known.iter().map(|point| point.2)),
        ) else {
            result.degenerate.push(case.label.clone());
            continue;
        };
        result.cases += 1;
        for &(column, cost, time) in &known {
            let (x, y) = (predicted.normalise(cost), measured.normalise(time));
            result.counts[bin(y)][bin(x)] += 1;
            result.points.push(HeatPoint {
                case: case.label.clone(),
                column: column.label.clone(),
                predicted: x,
                measured: y,
            });
        }
    }
    result
}

/// The range of a case's values on one axis; never empty.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64>) -> Option<Scale> {
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| {
            (l.min(v), h.max(v))
        });
        (low < high).then_some(Scale { low, high })
    }

    fn normalise(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }
}

fn bin(value: f64) -> usize {
    ((value * BINS as f64) as usize).min(BINS - 1)
}
