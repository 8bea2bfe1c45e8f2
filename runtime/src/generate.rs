//! Generated constants: element i of a tensor depends on (seed, key, i) alone, so weights are the same in every program that follows the
//! rule, need no file, and can be drawn in parallel.
//!
//! The rule: `key` = FNV-1a (64 bit) of the name's UTF-8 bytes; `mix` = the finaliser of splitmix64; `state` = mix(seed ^ key);
//! `z(i)` = mix(state + (i + 1) · 0x9E3779B97F4A7C15), wrapping. `Uniform`: `u` = (z >> 40) · 2⁻²⁴ and `low + (high − low) · u`, all in
//! f32 (then rounded to nearest even for 16-bit types). `Integers`: `low + (z >> 1) mod (high − low)`.

use crate::dtype::DType;
use crate::module::{Distribution, Generator};

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// FNV-1a, 64 bit.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

/// The finaliser of splitmix64.
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The random word of element `index`, given `state` = mix(seed ^ key).
fn word(state: u64, index: u64) -> u64 {
    mix(state.wrapping_add(index.wrapping_add(1).wrapping_mul(GOLDEN)))
}

/// Why a distribution does not suit an element type.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GenerateError {
    /// A uniform distribution for integers, or integers for a floating-point type.
    #[error("distribution {distribution:?} of elements of type {dtype}")]
    Kind {
        /// The distribution.
        distribution: Distribution,
        /// The element type.
        dtype: DType,
    },
    /// An empty or infinite range, or integers that the element type cannot hold.
    #[error("range of {distribution:?} for elements of type {dtype}")]
    Range {
        /// The distribution.
        distribution: Distribution,
        /// The element type.
        dtype: DType,
    },
}

/// Whether the rule can draw elements of `dtype` from the distribution.
///
/// # Errors
/// A kind that does not suit the type, or an unusable range.
pub fn check(distribution: Distribution, dtype: DType) -> Result<(), GenerateError> {
    let range = GenerateError::Range { distribution, dtype };
    match distribution {
        Distribution::Uniform { .. } if !dtype.is_float() => Err(GenerateError::Kind { distribution, dtype }),
        Distribution::Integers { .. } if dtype.is_float() => Err(GenerateError::Kind { distribution, dtype }),
        Distribution::Uniform { low, high } => {
            if low <= high && (high - low).is_finite() {
                Ok(())
            } else {
                Err(range)
            }
        }
        Distribution::Integers { low, high } => {
            let (least, most) = match dtype {
                DType::I64 => (i64::MIN, i64::MAX),
                DType::I32 => (i32::MIN.into(), i32::MAX.into()),
                DType::I8 => (i8::MIN.into(), i8::MAX.into()),
                DType::U8 => (0, u8::MAX.into()),
                _ => (0, 1),
            };
            if low < high && low >= least && high - 1 <= most && high.checked_sub(low).is_some() {
                Ok(())
            } else {
                Err(range)
            }
        }
    }
}

/// Draws all elements into `out` (little-endian), on up to `threads` threads.
///
/// # Errors
/// See [`check`].
pub fn generate(
    generator: &Generator,
    dtype: DType,
    out: &mut [u8],
    threads: usize,
) -> Result<(), GenerateError> {
    check(generator.distribution, dtype)?;
    let state = mix(generator.seed ^ fnv1a(generator.key.as_bytes()));
    let element = dtype.bytes();
    let per_part = (out.len() / element).div_ceil(threads.max(1)).max(1);
    if threads <= 1 || out.len() < (1 << 20) {
        fill(state, generator.distribution, dtype, 0, out);
        return Ok(());
    }
    std::thread::scope(|scope| {
        for (part, chunk) in out.chunks_mut(per_part * element).enumerate() {
            let distribution = generator.distribution;
            scope.spawn(move || fill(state, distribution, dtype, (part * per_part) as u64, chunk));
        }
    });
    Ok(())
}

fn fill(state: u64, distribution: Distribution, dtype: DType, first: u64, out: &mut [u8]) {
    match distribution {
        Distribution::Uniform { low, high } => {
            let value = |i: u64| {
                let u = (word(state, i) >> 40) as f32 * (1.0 / 16_777_216.0);
                low + (high - low) * u
            };
            match dtype {
                DType::F16 => each(out, first, |i| f32_to_f16(value(i)).to_le_bytes()),
                DType::BF16 => each(out, first, |i| f32_to_bf16(value(i)).to_le_bytes()),
                _ => each(out, first, |i| value(i).to_le_bytes()),
            }
        }
        Distribution::Integers { low, high } => {
            let span = high - low;
            let value = |i: u64| low + (word(state, i) >> 1) as i64 % span;
            match dtype {
                DType::I64 => each(out, first, |i| value(i).to_le_bytes()),
                DType::I32 => each(out, first, |i| (value(i) as i32).to_le_bytes()),
                _ => each(out, first, |i| [value(i) as u8]),
            }
        }
    }
}

fn each<const N: usize>(out: &mut [u8], first: u64, value: impl Fn(u64) -> [u8; N]) {
    for (i, to) in out.chunks_exact_mut(N).enumerate() {
        to.copy_from_slice(&value(first + i as u64));
    }
}

/// Round to nearest, ties to even; NaN stays NaN.
pub fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    let round = 0x7FFF + ((bits >> 16) & 1);
    (bits.wrapping_add(round) >> 16) as u16
}

/// Round to nearest, ties to even; overflow gives infinity, NaN stays NaN.
pub fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let magnitude = bits & 0x7FFF_FFFF;
    if magnitude > 0x7F80_0000 {
        return sign | 0x7E00;
    }
    // 65520 and above round to infinity.
    if magnitude >= 0x477F_F000 {
        return sign | 0x7C00;
    }
    if magnitude < 0x3880_0000 {
        // Below the smallest normal half: adding 0.5 lets the hardware round to a multiple of 2⁻²⁴.
        let rounded = f32::from_bits(magnitude) + 0.5;
        return sign | (rounded.to_bits() - 0.5f32.to_bits()) as u16;
    }
    let round = 0xFFF + ((magnitude >> 13) & 1);
    let half = (magnitude + round - (112 << 23)) >> 13;
    sign | half as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_and_mix_are_the_published_ones() {
        // FNV-1a test vectors (draft-eastlake-fnv) and the first outputs of splitmix64 seeded with 1234567.
        assert_eq!(fnv1a(b""), 0xcbf29ce484222325);
        assert_eq!(fnv1a(b"a"), 0xaf63dc4c8601ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x85944171f73967e8);
        assert_eq!(word(1234567, 0), 6457827717110365317);
        assert_eq!(word(1234567, 1), 3203168211198807973);
    }

    #[test]
    fn uniform_follows_the_rule_and_its_range() {
        let generator = Generator {
            seed: 7,
            key: "w".into(),
            distribution: Distribution::Uniform { low: -0.5, high: 0.5 },
        };
        let mut out = vec![0u8; 4 * 1000];
        generate(&generator, DType::F32, &mut out, 1).unwrap();
        let values: Vec<f32> = out
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect();
        assert!(values.iter().all(|v| (-0.5..0.5).contains(v)));
        let mean = values.iter().sum::<f32>() / 1000.0;
        assert!(mean.abs() < 0.05, "{mean}");
        let state = mix(7 ^ fnv1a(b"w"));
        let z = mix(state.wrapping_add(GOLDEN.wrapping_mul(3)));
        assert_eq!(values[2], -0.5 + (z >> 40) as f32 / 16777216.0);
    }

    #[test]
    fn threads_do_not_change_values() {
        for (dtype, distribution) in [
            (DType::F32, Distribution::Uniform { low: -1.0, high: 2.0 }),
            (DType::F16, Distribution::Uniform { low: 0.0, high: 1.0 }),
            (DType::I32, Distribution::Integers { low: -5, high: 9 }),
        ] {
            let generator = Generator {
                seed: 1,
                key: "big".into(),
                distribution,
            };
            let mut one = vec![0u8; 300_001 * dtype.bytes() * 2];
            let mut many = one.clone();
            generate(&generator, dtype, &mut one, 1).unwrap();
            generate(&generator, dtype, &mut many, 3).unwrap();
            assert!(one.len() > 1 << 20 && one == many);
        }
    }

    #[test]
    fn integers_stay_in_range_and_types_are_checked() {
        let distribution = Distribution::Integers { low: -3, high: 4 };
        let generator = Generator {
            seed: 0,
            key: "ids".into(),
            distribution,
        };
        let mut out = vec![0u8; 500];
        generate(&generator, DType::I8, &mut out, 1).unwrap();
        let mut seen: Vec<i8> = out.iter().map(|b| *b as i8).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen, [-3, -2, -1, 0, 1, 2, 3]);
        assert!(check(distribution, DType::U8).is_err());
        assert!(check(distribution, DType::F32).is_err());
        assert!(check(Distribution::Integers { low: 0, high: 3 }, DType::Bool).is_err());
        assert!(
            check(
                Distribution::Integers {
                    low: i64::MIN,
                    high: i64::MAX
                },
                DType::I64
            )
            .is_err()
        );
        let backwards = Distribution::Uniform { low: 1.0, high: 0.0 };
        assert!(check(backwards, DType::F32).is_err());
    }

    #[test]
    fn half_precision_rounds_to_nearest_even() {
        for (value, half) in [
            (1.0, 0x3C00),
            (-2.0, 0xC000),
            (65504.0, 0x7BFF),
            (65519.9, 0x7BFF),
            (65520.0, 0x7C00),
            (5.960_464_5e-8, 1),
            (2.980_232_2e-8, 0),
            (6.097_555_2e-5, 0x3FF),
            (6.103_515_6e-5, 0x400),
            (1.000_488_3, 0x3C00),
            (1.001_464_8, 0x3C02),
            (0.0, 0),
        ] {
            assert_eq!(f32_to_f16(value), half, "{value}");
        }
        assert_eq!(f32_to_bf16(1.0), 0x3F80);
        assert_eq!(f32_to_bf16(f32::from_bits(0x3F80_8000)), 0x3F80);
        assert_eq!(f32_to_bf16(f32::from_bits(0x3F81_8000)), 0x3F82);
        assert!(f32_to_f16(f32::NAN) & 0x3FF != 0);
    }
}
