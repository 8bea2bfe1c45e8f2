//! The coefficient file: nanoseconds per unit of every cost term.

use super::terms::{TERM_NAMES, Terms};
use std::collections::BTreeMap;

/// Nanoseconds per unit, by term name; every term has one.
#[derive(Clone, PartialEq, Debug)]
pub struct Coefficients(BTreeMap<String, f64>);

/// Why a coefficient map is not usable.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CoefficientError {
    /// A term that the cost model does not know.
    #[error("unknown cost term `{found}`{}", nearest.as_ref().map(|n| format!("; did you mean `{n}`?")).unwrap_or_default())]
    Unknown {
        /// The name given.
        found: String,
        /// The closest known name.
        nearest: Option<String>,
    },
    /// A term without a coefficient.
    #[error("no coefficient for cost term `{0}`")]
    Missing(&'static str),
    /// The text is no map from names to numbers.
    #[error("{0}")]
    Parse(String),
    /// A negative, infinite or undefined coefficient.
    #[error("coefficient of `{term}` is {value}; a finite non-negative number of nanoseconds is needed")]
    Value {
        /// The term.
        term: String,
        /// What was given.
        value: f64,
    },
}

impl Coefficients {
    /// Checks a map read from a file: exactly the known terms, each finite and not negative.
    ///
    /// # Errors
    /// The first fault found.
    pub fn new(map: BTreeMap<String, f64>) -> Result<Self, CoefficientError> {
        for (term, value) in &map {
            if !TERM_NAMES.contains(&term.as_str()) {
                let nearest = TERM_NAMES
                    .iter()
                    .map(|n| (strsim::damerau_levenshtein(n, term), *n))
                    .min()
                    .filter(|(d, _)| *d <= 4)
                    .map(|(_, n)| n.to_owned());
                return Err(CoefficientError::Unknown {
                    found: term.clone(),
                    nearest,
                });
            }
            if !value.is_finite() || *value < 0.0 {
                return Err(CoefficientError::Value {
                    term: term.clone(),
                    value: *value,
                });
            }
        }
        match TERM_NAMES.iter().find(|n| !map.contains_key(**n)) {
            Some(missing) => Err(CoefficientError::Missing(missing)),
            None => Ok(Coefficients(map)),
        }
    }
    /// Reads a coefficient file.
    ///
    /// # Errors
    /// When the text is no such map, or see [`Coefficients::new`].
    pub fn parse(text: &str) -> Result<Self, CoefficientError> {
        let map = serde_yaml::from_str(text)
            .map_err(|e: serde_yaml::Error| CoefficientError::Parse(e.to_string()))?;
        Self::new(map)
    }
    /// The coefficients of `configs/targets/cpu-coefficients.yaml`, compiled in.
    ///
    /// # Errors
    /// Never for the file that is shipped (a test reads it).
    pub fn cpu() -> Result<Self, CoefficientError> {
        Self::parse(include_str!("../../../configs/targets/cpu-coefficients.yaml"))
    }
    /// Nanoseconds per unit of a term; 0 for names that are no terms.
    pub fn get(&self, term: &str) -> f64 {
        self.0.get(term).copied().unwrap_or(0.0)
    }
    /// The cost of some terms in nanoseconds, rounded, at least 1 when there is any term.
    pub fn cost(&self, terms: &Terms) -> u64 {
        let sum: f64 = terms
            .iter()
            .map(|(name, amount)| amount as f64 * self.get(name))
            .sum();
        if terms.is_empty() {
            0
        } else {
            (sum.round() as u64).max(1)
        }
    }
}
