//! Conversions, plans and shares: what the strategies' programs are made of.

use super::cases::{Case, Column, Settings};
use crate::stats;
use serde::Serialize;
use std::collections::BTreeSet;

/// A set of numbers in short.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Distribution {
    /// How many.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub median: f64,
    /// 90th percentile.
    pub p90: f64,
}

impl Distribution {
    /// Summary of values; `None` without any.
    pub fn of(values: &[f64]) -> Option<Distribution> {
        Some(Distribution {
            count: values.len(),
            mean: stats::mean(values)?,
            median: stats::quantile_of(values, 0.5)?,
            p90: stats::quantile_of(values, 0.9)?,
        })
    }
}

/// Conversions of each column relative to one of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConversionRatios {
    /// The column that is 1.
    pub reference: Column,
    /// Said when the reference is not `rule-based`.
    pub note: Option<String>,
    /// Per column, the ratios' distribution; `None` where no case has both.
    pub columns: Vec<(Column, Option<Distribution>)>,
    /// Pairs of case and column left out: the reference has no conversion and the column has some.
    pub undefined: usize,
}

/// Conversions relative to `rule-based`, or to the configured column when no case has a `rule-based` plan.
///
/// # Errors
/// In words, when neither is there.
pub fn conversion_ratios(
    cases: &[Case<'_>],
    columns: &[Column],
    settings: &Settings,
) -> Result<ConversionRatios, String> {
    let conversions =
        |case: &Case<'_>, column: &Column| Some(case.cell(column)?.plan.as_ref()?.conversions as f64);
    let find = |label: &str| {
        let column = columns
            .iter()
            .find(|column| column.label == label || column.series == label)?;
        cases
            .iter()
            .any(|case| conversions(case, column).is_some())
            .then(|| column.clone())
    };
    let (reference, note) = match (find("rule-based"), &settings.fallback_reference) {
        (Some(column), _) => (column, None),
        (None, Some(name)) => match find(name) {
            Some(column) => {
                let note = format!("no case has a rule-based plan; conversions are relative to {name}");
                (column, Some(note))
            }
            None => return Err(format!("neither rule-based nor {name} has a plan in any case")),
        },
        (None, None) => {
            return Err("no case has a rule-based plan and no other reference is configured".to_owned());
        }
    };
    let mut undefined = 0;
    let ratios = columns
        .iter()
        .map(|column| {
            let mut values = Vec::new();
            for case in cases {
                let (Some(own), Some(base)) = (conversions(case, column), conversions(case, &reference))
                else {
                    continue;
                };
                if base > 0.0 {
                    values.push(own / base);
                } else if own == 0.0 {
                    values.push(1.0);
                } else {
                    undefined += 1;
                }
            }
            (column.clone(), Distribution::of(&values))
        })
        .collect();
    Ok(ConversionRatios {
        reference,
        note,
        columns: ratios,
        undefined,
    })
}

/// Per column, the share of conversions in the predicted cost, as fractions.
pub fn conversion_cost_share(cases: &[Case<'_>], columns: &[Column]) -> Vec<(Column, Option<Distribution>)> {
    shares(cases, columns, |case, column| {
        let cost = case.cell(column)?.solve.as_ref()?.cost?;
        let total = cost.total().filter(|&total| total > 0)?;
        Some(cost.transpose_cost as f64 / total as f64)
    })
}

/// Per column, the strategy's share of the compile time, as fractions.
pub fn solver_time_share(cases: &[Case<'_>], columns: &[Column]) -> Vec<(Column, Option<Distribution>)> {
    shares(cases, columns, |case, column| {
        let cell = case.cell(column)?;
        let total = cell.compile.as_ref()?.seconds;
        (total > 0.0).then_some(())?;
        Some(cell.solve.as_ref()?.seconds / total)
    })
}

fn shares(
    cases: &[Case<'_>],
    columns: &[Column],
    share: impl Fn(&Case<'_>, &Column) -> Option<f64>,
) -> Vec<(Column, Option<Distribution>)> {
    columns
        .iter()
        .map(|column| {
            let values: Vec<f64> = cases.iter().filter_map(|case| share(case, column)).collect();
            (column.clone(), Distribution::of(&values))
        })
        .collect()
}

/// How many different programs a case's strategies chose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanCount {
    /// The case.
    pub case: String,
    /// Cells that have a plan, columns or not.
    pub plans: usize,
    /// Different plans among them.
    pub distinct: usize,
}

/// Distinct plans per case.
pub fn distinct_plans(cases: &[Case<'_>]) -> Vec<PlanCount> {
    cases
        .iter()
        .map(|case| {
            let hashes: Vec<&str> = case
                .cells
                .values()
                .filter_map(|cell| Some(cell.plan.as_ref()?.hash.as_str()))
                .collect();
            let distinct = hashes.iter().collect::<BTreeSet<_>>().len();
            PlanCount {
                case: case.label.clone(),
                plans: hashes.len(),
                distinct,
            }
        })
        .collect()
}

/// Sum of separately profiled kernels over the measured whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProfiledRatio {
    /// The case.
    pub case: String,
    /// Ratio per column that has both numbers; 1 means that the parts explain the whole.
    pub ratios: Vec<(String, f64)>,
}

/// Profiled sum over measured median per case and column. Cases without any such ratio are not listed.
pub fn profiled_over_measured(cases: &[Case<'_>], columns: &[Column]) -> Vec<ProfiledRatio> {
    cases
        .iter()
        .filter_map(|case| {
            let ratios: Vec<(String, f64)> = columns
                .iter()
                .filter_map(|column| {
                    let cell = case.cell(column)?;
                    Some((column.label.clone(), cell.profiled_sum_ms? / cell.median_ms()?))
                })
                .collect();
            (!ratios.is_empty()).then(|| ProfiledRatio {
                case: case.label.clone(),
                ratios,
            })
        })
        .collect()
}
