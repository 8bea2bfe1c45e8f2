//! Optimality gap (figure 7a of the study): (cost − optimum) / optimum under the cost model.

use super::cases::{Case, Column};
use crate::record::SolverStatus;
use crate::stats;
use serde::Serialize;

/// The gap of one column on one case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gap {
    /// The case.
    pub case: String,
    /// Predicted cost of the column's plan.
    pub cost: u64,
    /// The optimum, or the best proven lower bound.
    pub reference: u64,
    /// Whether `reference` is the optimum; if not, the gap is an upper bound on the true one.
    pub proven: bool,
    /// 100 × (cost − reference) / reference.
    pub percent: f64,
}

/// One strategy's curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GapCurve {
    /// The column.
    pub column: Column,
    /// Gaps in descending order.
    pub gaps: Vec<Gap>,
    /// Cases of the figure on which this column has no plan; they come before the first gap.
    pub absent: usize,
    /// Mean gap.
    pub mean: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
}

/// The figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OptimalityGaps {
    /// Cases with a reference: what all curves are over.
    pub cases: usize,
    /// How many of them have a bound instead of an optimum.
    pub unproven: usize,
    /// Cases without a reference, or with reference 0 (no gap is defined): left out.
    pub left_out: Vec<String>,
    /// Cases in which a cell claims an optimum or a bound above another cell's cost. A bug somewhere; left out.
    pub contradictions: Vec<String>,
    /// The curves, in the order of the columns.
    pub curves: Vec<GapCurve>,
}

/// Computes optimality gaps of `columns`. The reference comes from any cell of the case, columns or not.
pub fn optimality_gaps(cases: &[Case<'_>], columns: &[Column]) -> OptimalityGaps {
    let mut result = OptimalityGaps {
        cases: 0,
        unproven: 0,
        left_out: Vec::new(),
        contradictions: Vec::new(),
        curves: columns
            .iter()
            .map(|column| GapCurve {
                column: column.clone(),
                gaps: Vec::new(),
                absent: 0,
                mean: None,
                p90: None,
            })
            .collect(),
    };
    for case in cases {
        let Some(reference) = case.reference_cost() else {
            result.left_out.push(case.label.clone());
            continue;
        };
        if contradicts(case) {
            result.contradictions.push(case.label.clone());
            continue;
        }
        if reference.cost == 0 {
            result.left_out.push(case.label.clone());
            continue;
        }
        result.cases += 1;
        result.unproven += usize::from(!reference.proven);
        for curve in &mut result.curves {
            match case.predicted(&curve.column) {
                Some(cost) => curve.gaps.push(Gap {
                    case: case.label.clone(),
                    cost,
                    reference: reference.cost,
                    proven: reference.proven,
                    // The difference is exact in integers; only the quotient is rounded.
                    percent: 100.0 * cost.saturating_sub(reference.cost) as f64 / reference.cost as f64,
                }),
                None => curve.absent += 1,
            }
        }
    }
    for curve in &mut result.curves {
        curve
            .gaps
            .sort_by(|a, b| b.percent.total_cmp(&a.percent).then_with(|| a.case.cmp(&b.case)));
        let values: Vec<f64> = curve.gaps.iter().map(|gap| gap.percent).collect();
        curve.mean = stats::mean(&values);
        curve.p90 = stats::quantile_of(&values, 0.9);
    }
    result
}

/// Whether any claimed optimum or lower bound exceeds any cell's cost.
fn contradicts(case: &Case<'_>) -> bool {
    let cheapest = case.cells.values().filter_map(|cell| cell.predicted_cost()).min();
    let claims = case.cells.values().flat_map(|cell| {
        let solve = cell.solve.as_ref();
        let optimum = solve
            .filter(|solve| solve.status == SolverStatus::Optimal)
            .and_then(|_| cell.predicted_cost());
        [optimum, solve.and_then(|solve| solve.lower_bound)]
    });
    matches!((cheapest, claims.flatten().max()), (Some(cost), Some(claim)) if claim > cost)
}
