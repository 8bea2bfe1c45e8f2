//! Relative performance (figure 5 of the study): 100 × best / own over the columns, each curve sorted by itself.

use super::cases::{Case, Column};
use crate::stats;
use serde::Serialize;

/// One model on one curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RelativePoint {
    /// The case.
    pub case: String,
    /// 100 × (best measured median of the case) / (own measured median): 100 is the best known result.
    pub percent: f64,
}

/// One strategy's curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RelativeCurve {
    /// The column.
    pub column: Column,
    /// Points in ascending order of performance.
    pub points: Vec<RelativePoint>,
    /// Cases of the figure on which this column has no measurement; they come before the first point.
    pub absent: usize,
    /// Mean over the points.
    pub mean: Option<f64>,
    /// 10th percentile over the points: the worst decile begins here.
    pub p10: Option<f64>,
}

/// The figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RelativePerformance {
    /// Cases with at least two measured columns: what all curves are over.
    pub cases: usize,
    /// Cases that can't be compared: fewer than two measured columns.
    pub left_out: Vec<String>,
    /// The curves, in the order of the columns.
    pub curves: Vec<RelativeCurve>,
}

/// Computes relative performance over `columns`.
pub fn relative_performance(cases: &[Case<'_>], columns: &[Column]) -> RelativePerformance {
    let mut curves: Vec<RelativeCurve> = columns
        .iter()
        .map(|column| RelativeCurve {
            column: column.clone(),
            points: Vec::new(),
            absent: 0,
            mean: None,
            p10: None,
        })
        .collect();
    let mut counted = 0;
    let mut left_out = Vec::new();
    for case in cases {
        let measured: Vec<Option<f64>> = columns.iter().map(|column| case.measured(column)).collect();
        let best = measured.iter().flatten().copied().min_by(f64::total_cmp);
        let (Some(best), true) = (best, measured.iter().flatten().count() >= 2) else {
            left_out.push(case.label.clone());
            continue;
        };
        counted += 1;
        for (curve, own) in curves.iter_mut().zip(measured) {
            match own {
                Some(own) => curve.points.push(RelativePoint {
                    case: case.label.clone(),
                    percent: 100.0 * best / own,
                }),
                None => curve.absent += 1,
            }
        }
    }
    for curve in &mut curves {
        curve
            .points
            .sort_by(|a, b| a.percent.total_cmp(&b.percent).then_with(|| a.case.cmp(&b.case)));
        let values: Vec<f64> = curve.points.iter().map(|point| point.percent).collect();
        curve.mean = stats::mean(&values);
        curve.p10 = stats::quantile(&values, 0.1);
    }
    RelativePerformance {
        cases: counted,
        left_out,
        curves,
    }
}
