//! The seed rule: which distribution a weight or an input is drawn from.
//!
//! Every tensor that a model file or family leaves open is drawn from the seed by its *role*, and the role follows from the first
//! consumer (operator and operand position) and the tensor's own shape, never from its name. The name only separates streams: element
//! i of a tensor depends on (seed, name, i). The rule keeps activations of deep networks near unit variance, so that an error
//! anywhere still shows at the output, and keeps anything that is divided by, or whose root is taken, away from zero.
//!
//! | role | distribution | who has it |
//! |---|---|---|
//! | contraction with fan-in f | uniform ±√(3/f): variance 1/f, which preserves variance | weights of convolutions, matmuls, Gemm; stacked (rank ≥ 3) tables |
//! | scale | uniform 0.5 … 1.5 | norm scales, batch-norm variances, multiplied operands, divisors, bases and exponents of powers |
//! | shift | uniform ±0.1 | biases, batch-norm means, added, subtracted and selected operands |
//! | value | uniform ±1 | floating-point data inputs, embedding tables, everything else |
//! | index below b | integers 0 … b−1 | integers that index; b is the smallest axis they index, 1 for a symbolic axis |
//! | ones | 1 | other integers and Booleans: an attention mask of ones can't mask a whole row, which would give NaN |
//! | coin | 0 or 1 | Boolean *weights* whose last axis has at least 32 elements (stripped masks): a row of zeros has probability 2⁻³² at most |
//!
//! `scripts/compare_onnx.py` restates the rule for ONNX files in Python.

use relayout_ir::annotation::DType;
use relayout_ir::graph::{Constant, ConstantData, Distribution, Generator};

/// What a tensor is for, as far as drawing it is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A weight contracted over this many elements.
    Contraction {
        /// Elements summed per result element.
        fan_in: usize,
    },
    /// A factor near one, never near zero.
    Scale,
    /// A small addend.
    Shift,
    /// Anything of unit magnitude.
    Value,
    /// An index below the bound.
    Index {
        /// Exclusive upper end.
        bound: usize,
    },
    /// The constant one.
    Ones,
    /// Zero or one.
    Coin,
}

/// Boolean weights with rows at least this long are coins, shorter ones are ones.
pub const SHORTEST_COIN_ROW: usize = 32;

impl Role {
    /// The distribution of the role.
    pub fn distribution(self) -> Distribution {
        let uniform = |low, high| Distribution::Uniform { low, high };
        match self {
            Role::Contraction { fan_in } => {
                // One f32 division and one f32 root, so that every restatement gets the same bits.
                let bound = (3.0f32 / fan_in.max(1) as f32).sqrt();
                uniform(-bound, bound)
            }
            Role::Scale => uniform(0.5, 1.5),
            Role::Shift => uniform(-0.1, 0.1),
            Role::Value => uniform(-1.0, 1.0),
            Role::Index { bound } => Distribution::Integers {
                low: 0,
                high: i64::try_from(bound.max(1)).unwrap_or(i64::MAX),
            },
            Role::Ones => Distribution::Integers { low: 1, high: 2 },
            Role::Coin => Distribution::Integers { low: 0, high: 2 },
        }
    }

    /// The role of an integer or Boolean tensor: an index when `bound` says what it indexes, else ones, else (for a long-rowed
    /// Boolean weight) a coin.
    pub fn of_integers(
        dtype: DType,
        last_extent: Option<usize>,
        is_weight: bool,
        bound: Option<usize>,
    ) -> Role {
        match bound {
            Some(bound) => Role::Index { bound },
            None if dtype == DType::Bool
                && is_weight
                && last_extent.is_some_and(|e| e >= SHORTEST_COIN_ROW) =>
            {
                Role::Coin
            }
            None => Role::Ones,
        }
    }
}

/// A weight: a module constant drawn from the seed by its role.
pub fn weight(seed: u64, name: &str, shape: &[usize], dtype: DType, role: Role) -> Constant {
    Constant {
        name: name.to_owned(),
        shape: shape.to_vec(),
        dtype,
        data: ConstantData::Generated(Generator {
            seed,
            key: name.to_owned(),
            distribution: role.distribution(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contraction_preserves_variance() {
        let Distribution::Uniform { low, high } = Role::Contraction { fan_in: 75 }.distribution() else {
            panic!("contraction weights are floating-point");
        };
        // The variance of a uniform distribution on ±b is b²/3; a sum over 75 of them is to have variance 1.
        assert_eq!(low, -high);
        assert!((75.0 * high * high / 3.0 - 1.0).abs() < 1e-6);
    }

    #[test]
    fn integers_never_leave_what_they_index_and_masks_are_ones() {
        let bound = |role: Role| match role.distribution() {
            Distribution::Integers { low, high } => (low, high),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            bound(Role::of_integers(DType::I64, Some(128), true, Some(2))),
            (0, 2)
        );
        assert_eq!(
            bound(Role::of_integers(DType::I64, Some(128), false, Some(0))),
            (0, 1)
        );
        assert_eq!(
            bound(Role::of_integers(DType::I64, Some(128), false, None)),
            (1, 2)
        );
        assert_eq!(
            bound(Role::of_integers(DType::Bool, Some(128), false, None)),
            (1, 2)
        );
        assert_eq!(
            bound(Role::of_integers(DType::Bool, Some(128), true, None)),
            (0, 2)
        );
        assert_eq!(
            bound(Role::of_integers(DType::Bool, Some(31), true, None)),
            (1, 2)
        );
    }
}
