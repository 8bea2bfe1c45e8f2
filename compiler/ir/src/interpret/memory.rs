//! Element storage shared by the interpreters: allocation that can fail, poison, and the byte form.

use super::error::InterpretError;
use super::scalar::{round_to, wrap_to};
use crate::annotation::DType;
use crate::tensor::{Tensor, TensorData};
use half::{bf16, f16};

/// What memory holds before anything is written: NaN for floats and 85 for integers, so that a program that reads
/// unspecified elements is seen to.
pub(super) fn poisoned(
    shape: Vec<usize>,
    dtype: DType,
    place: &dyn Fn() -> String,
) -> Result<Tensor, InterpretError> {
    filled(shape, dtype, f32::NAN, 85, place)
}

/// A tensor with every element the same.
pub(super) fn filled(
    shape: Vec<usize>,
    dtype: DType,
    float: f32,
    int: i64,
    place: &dyn Fn() -> String,
) -> Result<Tensor, InterpretError> {
    let elements: u128 = shape
        .iter()
        .map(|&d| d as u128)
        .try_fold(1u128, |a, d| a.checked_mul(d))
        .unwrap_or(u128::MAX);
    let too_big = || InterpretError::Memory {
        place: place(),
        elements,
    };
    let count = usize::try_from(elements).map_err(|_| too_big())?;
    let data = if dtype.is_float() {
        let mut v = Vec::new();
        v.try_reserve_exact(count).map_err(|_| too_big())?;
        v.resize(count, float);
        TensorData::Float(v)
    } else {
        let mut v = Vec::new();
        v.try_reserve_exact(count).map_err(|_| too_big())?;
        v.resize(count, wrap_to(dtype, int));
        TensorData::Int(v)
    };
    Ok(Tensor { shape, dtype, data })
}

/// Number of elements held.
pub(super) fn len(data: &TensorData) -> usize {
    match data {
        TensorData::Float(v) => v.len(),
        TensorData::Int(v) => v.len(),
    }
}

/// Appends the little-endian bytes of every element.
#[allow(dead_code)]
pub(super) fn encode(dtype: DType, data: &TensorData, out: &mut Vec<u8>) {
    match data {
        TensorData::Float(values) => match dtype {
            DType::F16 => values
                .iter()
                .for_each(|v| out.extend(f16::from_f32(*v).to_le_bytes())),
            DType::BF16 => values
                .iter()
                .for_each(|v| out.extend(bf16::from_f32(*v).to_le_bytes())),
            _ => values.iter().for_each(|v| out.extend(v.to_le_bytes())),
        },
        TensorData::Int(values) => {
            let width = dtype.bytes();
            values.iter().for_each(|v| out.extend(&v.to_le_bytes()[..width]));
        }
    }
}

/// Reads little-endian elements; a trailing part of an element is ignored.
#[allow(dead_code)]
pub(super) fn decode(dtype: DType, bytes: &[u8]) -> TensorData {
    let elements = bytes.chunks_exact(dtype.bytes());
    match dtype {
        DType::F32 => TensorData::Float(
            elements
                .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                .collect(),
        ),
        DType::F16 => TensorData::Float(
            elements
                .map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32())
                .collect(),
        ),
        DType::BF16 => TensorData::Float(
            elements
                .map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f32())
                .collect(),
        ),
        DType::I64 | DType::I32 | DType::I8 | DType::U8 | DType::Bool => TensorData::Int(
            elements
                .map(|b| {
                    let mut wide = [0u8; 8];
                    wide[..b.len()].copy_from_slice(b);
                    wrap_to(dtype, i64::from_le_bytes(wide))
                })
                .collect(),
        ),
    }
}

/// Checks that a caller's tensor is well formed: as many elements as its shape, of the variant its type says.
pub(super) fn check_well_formed(tensor: &Tensor, place: &dyn Fn() -> String) -> Result<(), InterpretError> {
    let elements = tensor.shape.iter().try_fold(1usize, |a, d| a.checked_mul(*d));
    let kind_fits = matches!(tensor.data, TensorData::Float(_)) == tensor.dtype.is_float();
    if elements == Some(len(&tensor.data)) && kind_fits {
        return Ok(());
    }
    Err(InterpretError::Mismatch {
        place: place(),
        expected: format!("the elements of {} {:?}", tensor.dtype, tensor.shape),
        found: format!(
            "{} {} elements",
            len(&tensor.data),
            if matches!(tensor.data, TensorData::Float(_)) {
                "floating-point"
            } else {
                "integer"
            }
        ),
    })
}

/// Stores one element, rounded or wrapped to the type.
pub(super) fn store(data: &mut TensorData, dtype: DType, at: usize, value: super::scalar::Value) {
    match data {
        TensorData::Float(v) => v[at] = round_to(dtype, value.as_float()),
        TensorData::Int(v) => v[at] = wrap_to(dtype, value.as_int()),
    }
}
