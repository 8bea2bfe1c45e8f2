//! Costs: named terms per configuration and conversion, their product with a coefficient file, and the models built on them.
//!
//! `analytic` is the product alone; `profiled` replaces it by the measured time of the kernel that the configuration names,
//! except where nothing of its own runs (aliases) or only marginal traffic is added (fused elementwise operators).
//! The unit is the nanosecond; sums are over integers.

mod coefficients;
mod fit;
mod profiled;
mod terms;

pub use coefficients::{CoefficientError, Coefficients};
pub use fit::{Fit, FitSample, fit};
pub use profiled::{ProfileTable, UnitRequest};
pub use terms::{CallShape, TERM_NAMES, Terms, config_terms, conversion_terms};

/// Which cost model prices an instance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CostModelKind {
    /// Terms times coefficients.
    Analytic,
    /// Measured kernels.
    Profiled,
}

impl CostModelKind {
    /// Every model with its name.
    pub const ALL: [(CostModelKind, &'static str); 2] = [
        (CostModelKind::Analytic, "analytic"),
        (CostModelKind::Profiled, "profiled"),
    ];
    /// The name in configurations and records.
    pub fn name(self) -> &'static str {
        match self {
            CostModelKind::Analytic => "analytic",
            CostModelKind::Profiled => "profiled",
        }
    }
}
