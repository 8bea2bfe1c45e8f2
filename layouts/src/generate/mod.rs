//! Instance generators: random graphs with stated structure, the seed's two reductions, repeated blocks. Each is a pure
//! function of its parameters; the seed drives a SplitMix64 of our own, so an instance is the same everywhere and for ever.

mod blocks;
mod random;
mod reductions;

pub use blocks::{Blocks, blocks};
pub use random::{Random, random};
pub use reductions::{Literal3, oct, random_3sat, random_graph, sat};

use crate::problem::{ProblemError, TensorSpec};

/// Why nothing was generated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    /// A parameter is out of range.
    #[error("{parameter}: found {found}, expected {expected}")]
    Parameter {
        /// Its name.
        parameter: &'static str,
        /// Its value.
        found: u64,
        /// What it may be.
        expected: &'static str,
    },
    /// The parameters describe an invalid problem (its costs overflow, say).
    #[error(transparent)]
    Problem(#[from] ProblemError),
}

fn within(
    parameter: &'static str,
    found: u64,
    range: std::ops::RangeInclusive<u64>,
    expected: &'static str,
) -> Result<(), GenerateError> {
    if range.contains(&found) {
        Ok(())
    } else {
        Err(GenerateError::Parameter {
            parameter,
            found,
            expected,
        })
    }
}

/// A tensor whose layouts are `names`, with transpose costs from `cost` off the diagonal.
fn tensor(name: String, names: Vec<String>, mut cost: impl FnMut(usize, usize) -> Option<u64>) -> TensorSpec {
    let n = names.len();
    let transpose = (0..n)
        .map(|from| {
            (0..n)
                .map(|to| if from == to { Some(0) } else { cost(from, to) })
                .collect()
        })
        .collect();
    TensorSpec {
        name,
        layouts: names,
        transpose,
        ..TensorSpec::default()
    }
}

fn numbered(prefix: &str, n: usize) -> Vec<String> {
    (0..n).map(|i| format!("{prefix}{i}")).collect()
}

/// All tuples of layouts, the last varying fastest.
fn tuples(radices: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for &n in radices {
        all = all
            .into_iter()
            .flat_map(|t: Vec<usize>| (0..n).map(move |l| [t.clone(), vec![l]].concat()))
            .collect();
    }
    all
}
