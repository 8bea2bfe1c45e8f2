//! When does exact solving pay (section 4.3 of the study)? While the heuristic's gap exceeds the cost model's error.
//!
//! For a heuristic plan h and the solver's plan s of one case, let p = ln(predicted h / predicted s) and
//! m = ln(measured h / measured s). Logarithms of ratios need no common unit. p is the gap that the solver closes and
//! e = m − p the error the cost model makes on this pair. |e| < p implies m > 0: the solver's plan is faster on the hardware
//! too. Over a family, gap and error are means over its pairs.

use super::cases::{Case, Column, Settings};
use crate::stats;
use serde::Serialize;
use std::collections::BTreeMap;

/// What the comparison of gap and error says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The heuristic is optimal within the tolerance: there is nothing to gain.
    NothingToGain,
    /// The gap is larger than the error: exact solving pays.
    SolverPays,
    /// The error is at least as large as the gap: a better search shows nothing on the hardware.
    ModelErrorDominates,
}

impl Outcome {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::NothingToGain => "nothing to gain",
            Outcome::SolverPays => "solver pays",
            Outcome::ModelErrorDominates => "model error dominates",
        }
    }
}

/// The verdict on one heuristic over one case or one family.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Case or family.
    pub scope: String,
    /// Whether `scope` is a family.
    pub is_family: bool,
    /// The heuristic column.
    pub heuristic: String,
    /// Pairs behind it: 1 for a case.
    pub pairs: usize,
    /// The heuristic's gap to the solver's plan, percent of predicted cost.
    pub gap_percent: f64,
    /// The cost model's error on the pair, percent.
    pub error_percent: f64,
    /// How much slower the heuristic's plan measured, percent; negative when the optimum lost.
    pub measured_percent: f64,
    /// The verdict.
    pub outcome: Outcome,
}

/// Verdicts per heuristic, first per case, then per family. Pairs of identical plans have neither gap nor error and count as
/// such; pairs without both predictions and both measurements are left out. Empty without a solver-based column.
pub fn verdicts(cases: &[Case<'_>], columns: &[Column], settings: &Settings) -> Vec<Verdict> {
    let Some(solver) = columns.iter().find(|column| column.label == "solver-based") else {
        return Vec::new();
    };
    let mut result = Vec::new();
    let mut families: BTreeMap<(&str, usize), Vec<Pair>> = BTreeMap::new();
    for case in cases {
        for (index, heuristic) in columns.iter().enumerate().filter(|(_, column)| *column != solver) {
            let Some(pair) = Pair::of(case, heuristic, solver) else {
                continue;
            };
            result.push(pair.verdict(&case.label, false, &heuristic.label, 1, settings));
            families.entry((&case.family, index)).or_default().push(pair);
        }
    }
    for ((family, index), pairs) in families {
        let average = |value: fn(&Pair) -> f64| {
            stats::mean(&pairs.iter().map(value).collect::<Vec<_>>()).unwrap_or(0.0)
        };
        let mean = Pair {
            gap: average(|pair| pair.gap),
            error: average(|pair| pair.error),
            measured: average(|pair| pair.measured),
        };
        result.push(mean.verdict(family, true, &columns[index].label, pairs.len(), settings));
    }
    result
}

/// Natural logarithms of ratios.
struct Pair {
    gap: f64,
    error: f64,
    measured: f64,
}

impl Pair {
    fn of(case: &Case<'_>, heuristic: &Column, solver: &Column) -> Option<Pair> {
        let predicted = (case.predicted(heuristic)?, case.predicted(solver)?);
        let measured = (case.measured(heuristic)?, case.measured(solver)?);
        if case.same_plan(heuristic, solver) {
            return Some(Pair {
                gap: 0.0,
                error: 0.0,
                measured: 0.0,
            });
        }
        if predicted.0 == 0 || predicted.1 == 0 {
            return None;
        }
        let gap = (predicted.0 as f64 / predicted.1 as f64).ln();
        let measured = (measured.0 / measured.1).ln();
        Some(Pair {
            gap,
            error: (measured - gap).abs(),
            measured,
        })
    }

    fn verdict(
        &self,
        scope: &str,
        is_family: bool,
        heuristic: &str,
        pairs: usize,
        settings: &Settings,
    ) -> Verdict {
        let outcome = if self.gap < settings.tolerance.ln_1p() {
            Outcome::NothingToGain
        } else if self.gap > self.error {
            Outcome::SolverPays
        } else {
            Outcome::ModelErrorDominates
        };
        Verdict {
            scope: scope.to_owned(),
            is_family,
            heuristic: heuristic.to_owned(),
            pairs,
            gap_percent: 100.0 * self.gap.exp_m1(),
            error_percent: 100.0 * self.error.exp_m1(),
            measured_percent: 100.0 * self.measured.exp_m1(),
            outcome,
        }
    }
}
