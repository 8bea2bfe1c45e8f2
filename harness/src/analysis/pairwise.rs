//! Pairwise accuracy of the cost model: does it order two strategies as the hardware does?

use super::cases::{Case, Column, Settings};
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Accuracy of a predictor that guesses uniformly among better, worse and equal.
pub const BASELINE: f64 = 1.0 / 3.0;

/// Agreements among comparisons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Accuracy {
    /// Comparisons made.
    pub pairs: u64,
    /// Comparisons in which prediction and measurement fall in the same class.
    pub agree: u64,
}

impl Accuracy {
    /// Fraction of agreements; `None` without any comparison.
    pub fn fraction(self) -> Option<f64> {
        (self.pairs > 0).then(|| self.agree as f64 / self.pairs as f64)
    }

    fn count(&mut self, agree: bool) {
        self.pairs += 1;
        self.agree += u64::from(agree);
    }
}

/// A pair that the cost model ordered differently from the hardware.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Disagreement {
    /// The case.
    pub case: String,
    /// First column.
    pub first: String,
    /// Second column.
    pub second: String,
    /// Predicted: the first is `better`, `worse` or `equal`.
    pub predicted: &'static str,
    /// Measured, likewise.
    pub measured: &'static str,
}

/// Pairwise accuracy in its variants.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PairwiseAccuracy {
    /// All unordered pairs of columns of all cases.
    pub all: Accuracy,
    /// Without pairs whose plans are identical: they agree for free.
    pub distinct_plans: Accuracy,
    /// All pairs, with the case's A/A noise as tolerance where that is larger.
    pub noise_aware: Accuracy,
    /// Cases that have no A/A noise; the noise-aware variant uses the plain tolerance for them.
    pub cases_without_noise: usize,
    /// [`PairwiseAccuracy::all`] by family.
    pub by_family: BTreeMap<String, Accuracy>,
    /// The pairs of [`PairwiseAccuracy::all`] that disagree.
    pub disagreements: Vec<Disagreement>,
}

/// Class of a pair: equal when |a − b| / min(a, b) is below the tolerance. Two zeros are equal; a zero and a positive are not.
pub fn compare(a: f64, b: f64, tolerance: f64) -> Ordering {
    if a == b || (a - b).abs() < tolerance * a.min(b) {
        Ordering::Equal
    } else {
        a.total_cmp(&b)
    }
}

fn class(ordering: Ordering) -> &'static str {
    match ordering {
        Ordering::Less => "better",
        Ordering::Equal => "equal",
        Ordering::Greater => "worse",
    }
}

/// Computes pairwise accuracy over the unordered pairs of `columns` that have both a prediction and a measurement.
pub fn pairwise_accuracy(cases: &[Case<'_>], columns: &[Column], settings: &Settings) -> PairwiseAccuracy {
    let mut result = PairwiseAccuracy::default();
    for case in cases {
        let known: Vec<(&Column, f64, f64)> = columns
            .iter()
            .filter_map(|column| Some((column, case.predicted(column)? as f64, case.measured(column)?)))
            .collect();
        let noise = case.noise();
        if known.len() >= 2 && noise.is_none() {
            result.cases_without_noise += 1;
        }
        let wide = noise.unwrap_or(0.0).max(settings.tolerance);
        for (index, &(first, predicted_a, measured_a)) in known.iter().enumerate() {
            for &(second, predicted_b, measured_b) in &known[index + 1..] {
                let predicted = compare(predicted_a, predicted_b, settings.tolerance);
                let measured = compare(measured_a, measured_b, settings.tolerance);
                let agree = predicted == measured;
                result.all.count(agree);
                result
                    .by_family
                    .entry(case.family.clone())
                    .or_default()
                    .count(agree);
                if !case.same_plan(first, second) {
                    result.distinct_plans.count(agree);
                }
                let wide_agree =
                    compare(predicted_a, predicted_b, wide) == compare(measured_a, measured_b, wide);
                result.noise_aware.count(wide_agree);
                if !agree {
                    result.disagreements.push(Disagreement {
                        case: case.label.clone(),
                        first: first.label.clone(),
                        second: second.label.clone(),
                        predicted: class(predicted),
                        measured: class(measured),
                    });
                }
            }
        }
    }
    result
}
