//! The generator rule: how weights and inputs are drawn from a seed.
//!
//! Element i depends only on (seed, key, i), so tensors can be drawn in any order, in parallel, or in part; and the rule is
//! short enough to be restated in NumPy, all arithmetic modulo 2^64:
//!
//! ```text
//! mix(z):  z ^= z >> 30;  z *= 0xbf58476d1ce4e5b9;  z ^= z >> 27;  z *= 0x94d049bb133111eb;  z ^= z >> 31
//! fnv(s):  h = 0xcbf29ce484222325;  for each byte b of s:  h ^= b;  h *= 0x100000001b3
//! state   = mix(seed ^ fnv(key as UTF-8))
//! z(i)    = mix(state + (i + 1) · 0x9e3779b97f4a7c15)                 i = 0, 1, … in logical row-major order
//! Uniform:   u = float32(z >> 40) · 2^-24;  value = low + (high − low) · u   in float32, then rounded to the type
//! Integers:  value = low + (z >> 1) mod (high − low)
//! ```
//!
//! The finaliser and the increment are those of SplitMix64; the hash is FNV-1a.

use crate::annotation::DType;
use crate::graph::{Distribution, Generator};
use crate::tensor::{Tensor, TensorData, round_to, wrap_to};

/// The finaliser of SplitMix64.
fn mix(mut z: u64) -> u64 {
    z ^= z >> 30;
    z = z.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^= z >> 27;
    z = z.wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// FNV-1a over the UTF-8 bytes of a key.
fn key_hash(key: &str) -> u64 {
    key.bytes().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| {
        (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Draws a tensor of a logical shape. A uniform distribution for an integer type is truncated towards zero; integers for a
/// floating-point type are rounded to it; an empty integer range gives `low`. Linear time, about 1 ns per element.
pub fn generate(generator: &Generator, shape: &[usize], dtype: DType) -> Tensor {
    let state = mix(generator.seed ^ key_hash(&generator.key));
    let count = shape.iter().fold(1usize, |a, d| a.saturating_mul(*d)) as u64;
    // A half-open range has an exact length, so collecting allocates once.
    let draws =
        (0..count).map(|i| mix(state.wrapping_add(i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))));
    let uniform =
        |low: f32, high: f32| move |z: u64| low + (high - low) * ((z >> 40) as f32 * (1.0 / 16_777_216.0));
    let integer = |low: i64, high: i64| {
        let range = high.saturating_sub(low).max(1);
        move |z: u64| low.wrapping_add((z >> 1) as i64 % range)
    };
    let data = match (generator.distribution, dtype) {
        (Distribution::Uniform { low, high }, DType::F32) => {
            TensorData::Float(draws.map(uniform(low, high)).collect())
        }
        (Distribution::Uniform { low, high }, DType::F16 | DType::BF16) => {
            let draw = uniform(low, high);
            TensorData::Float(draws.map(|z| round_to(dtype, draw(z))).collect())
        }
        (Distribution::Uniform { low, high }, _) => {
            let draw = uniform(low, high);
            TensorData::Int(draws.map(|z| wrap_to(dtype, draw(z) as i64)).collect())
        }
        (Distribution::Integers { low, high }, DType::F32 | DType::F16 | DType::BF16) => {
            let draw = integer(low, high);
            TensorData::Float(draws.map(|z| round_to(dtype, draw(z) as f32)).collect())
        }
        (Distribution::Integers { low, high }, _) => {
            let draw = integer(low, high);
            TensorData::Int(draws.map(|z| wrap_to(dtype, draw(z))).collect())
        }
    };
    Tensor {
        shape: shape.to_vec(),
        dtype,
        data,
    }
}
