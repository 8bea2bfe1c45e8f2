//! Coefficients from measured kernels: the `calibrated` way to an analytic cost model.

use super::coefficients::Coefficients;
use super::terms::TERM_NAMES;
use std::collections::BTreeMap;

/// A measured kernel: its cost terms and what it took.
#[derive(Clone, Debug, PartialEq)]
pub struct FitSample {
    /// Amounts by term name.
    pub terms: BTreeMap<String, u64>,
    /// Measured nanoseconds.
    pub nanoseconds: u64,
}

/// The outcome of [`fit`].
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// Nanoseconds per unit.
    pub coefficients: Coefficients,
    /// Samples in which each term occurs.
    pub seen: BTreeMap<&'static str, usize>,
    /// Median over the samples of |predicted ÷ measured − 1|, with the coefficients given at first.
    pub error_before: f64,
    /// The same after the fit.
    pub error_after: f64,
}

/// Rounds of reweighting, each with as many sweeps of coordinate descent: far past where coefficients still move in their third digit.
const ROUNDS: usize = 40;
/// Residuals smaller than this weigh alike.
const FLOOR: f64 = 0.05;
/// How strongly a coefficient is held at what it was, against one sample: unseen terms stay, rare ones move little.
const HOLD: f64 = 0.05;

/// Non-negative coefficients that minimise the sum of relative deviations |predicted ÷ measured − 1|, by iteratively reweighted
/// least squares with coordinate descent inside. Absolute and not squared deviations, since some kernels are far off whatever the
/// coefficients are, and should not bend the others. Deterministic; O(rounds · samples · terms).
///
/// # Errors
/// Never for finite samples: coefficients stay finite and non-negative.
pub fn fit(samples: &[FitSample], start: &Coefficients) -> Result<Fit, super::CoefficientError> {
    let rows: Vec<Vec<f64>> = samples
        .iter()
        .map(|s| {
            let time = s.nanoseconds.max(1) as f64;
            TERM_NAMES
                .iter()
                .map(|name| s.terms.get(*name).map_or(0.0, |a| *a as f64 / time))
                .collect()
        })
        .collect();
    let prior: Vec<f64> = TERM_NAMES.iter().map(|name| start.get(name)).collect();
    let mut values = prior.clone();
    let mut residuals: Vec<f64> = rows.iter().map(|row| dot(row, &values) - 1.0).collect();
    let error_before = median_magnitude(&residuals);
    for _ in 0..ROUNDS {
        let weights: Vec<f64> = residuals.iter().map(|r| 1.0 / r.abs().max(FLOOR)).collect();
        for _ in 0..ROUNDS {
            for j in 0..values.len() {
                let scale = HOLD / prior[j].max(f64::MIN_POSITIVE).powi(2);
                let (mut slope, mut curve) = (scale * (values[j] - prior[j]), scale);
                for ((row, residual), weight) in rows.iter().zip(&residuals).zip(&weights) {
                    slope += weight * residual * row[j];
                    curve += weight * row[j] * row[j];
                }
                let moved = (values[j] - slope / curve).max(0.0) - values[j];
                if moved != 0.0 && moved.is_finite() {
                    values[j] += moved;
                    for (residual, row) in residuals.iter_mut().zip(&rows) {
                        *residual += moved * row[j];
                    }
                }
            }
        }
    }
    let seen = TERM_NAMES
        .iter()
        .map(|name| {
            (
                *name,
                samples.iter().filter(|s| s.terms.contains_key(*name)).count(),
            )
        })
        .collect();
    let map = TERM_NAMES
        .iter()
        .zip(&values)
        .map(|(name, value)| ((*name).to_owned(), three_digits(*value)));
    Ok(Fit {
        coefficients: Coefficients::new(map.collect())?,
        seen,
        error_before,
        error_after: median_magnitude(&residuals),
    })
}

fn dot(row: &[f64], values: &[f64]) -> f64 {
    row.iter().zip(values).map(|(a, c)| a * c).sum()
}

fn median_magnitude(values: &[f64]) -> f64 {
    let mut magnitudes: Vec<f64> = values.iter().map(|v| v.abs()).collect();
    magnitudes.sort_by(f64::total_cmp);
    magnitudes.get(magnitudes.len() / 2).copied().unwrap_or(0.0)
}

/// Three significant digits: more would be noise in a file that people read.
fn three_digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(terms: &[(&str, u64)], nanoseconds: f64) -> FitSample {
        FitSample {
            terms: terms.iter().map(|(n, a)| ((*n).to_owned(), *a)).collect(),
            nanoseconds: nanoseconds.round() as u64,
        }
    }

    #[test]
    fn coefficients_that_made_the_samples_come_back_in_spite_of_outliers() {
        let start = Coefficients::cpu().expect("the shipped file");
        let mut samples: Vec<FitSample> = (1..40u64)
            .map(|i| {
                let (flops, bytes) = (1_000_000 * i, 3_000_000 * (41 - i));
                let time = 0.1 * flops as f64 + 0.02 * bytes as f64 + 900.0;
                sample(
                    &[("conv.nhwc", flops), ("bytes.cache", bytes), ("kernels", 1)],
                    time,
                )
            })
            .collect();
        samples.push(sample(&[("conv.nhwc", 1_000_000)], 9e9));
        let fitted = fit(&samples, &start).expect("finite");
        let near = |name: &str, value: f64| {
            let found = fitted.coefficients.get(name);
            assert!((found / value - 1.0).abs() < 0.05, "{name}: {found}, not {value}");
        };
        near("conv.nhwc", 0.1);
        near("bytes.cache", 0.02);
        // Unseen terms keep what they had.
        assert_eq!(fitted.coefficients.get("conv.nchw"), start.get("conv.nchw"));
        assert_eq!(fitted.seen["conv.nhwc"], 40);
        assert!(fitted.error_after < 0.02 && fitted.error_before > fitted.error_after);
    }

    #[test]
    fn no_samples_change_nothing() {
        let start = Coefficients::cpu().expect("the shipped file");
        let fitted = fit(&[], &start).expect("finite");
        assert_eq!((fitted.coefficients, fitted.error_after), (start, 0.0));
    }
}
