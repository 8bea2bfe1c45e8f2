//! Tensors whose values are known during import: initializers and what is folded from them.

use super::error::OnnxError;
use super::proto::TensorProto;
use relayout_ir::annotation::DType;
use relayout_ir::tensor::{Tensor, TensorData, round_to};

/// The element type of an ONNX type number.
pub(super) fn dtype(number: i32) -> Result<DType, String> {
    Ok(match number {
        1 => DType::F32,
        2 => DType::U8,
        3 => DType::I8,
        6 => DType::I32,
        7 => DType::I64,
        9 => DType::Bool,
        10 => DType::F16,
        16 => DType::BF16,
        other => {
            return Err(format!(
                "element type {}; supported are f32, f16, bf16, i64, i32, i8, u8, bool",
                type_name(other)
            ));
        }
    })
}

fn type_name(number: i32) -> String {
    match number {
        0 => "undefined".to_owned(),
        4 => "uint16".to_owned(),
        5 => "int16".to_owned(),
        8 => "string".to_owned(),
        11 => "double".to_owned(),
        12 => "uint32".to_owned(),
        13 => "uint64".to_owned(),
        14 | 15 => "complex".to_owned(),
        17..=20 => "float8".to_owned(),
        21 | 22 => "int4".to_owned(),
        other => format!("number {other}"),
    }
}

/// A tensor of integers.
pub(super) fn integers(shape: Vec<usize>, dtype: DType, data: Vec<i64>) -> Tensor {
    Tensor {
        shape,
        dtype,
        data: TensorData::Int(data),
    }
}

/// A tensor of floats, `dtype` being floating-point.
pub(super) fn floats(shape: Vec<usize>, dtype: DType, data: Vec<f32>) -> Tensor {
    Tensor {
        shape,
        dtype,
        data: TensorData::Float(data.into_iter().map(|v| round_to(dtype, v)).collect()),
    }
}

/// Number of elements of a shape, `None` on overflow.
pub(super) fn elements(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |acc, d| acc.checked_mul(*d))
}

/// Reads an initializer or a tensor attribute.
pub(super) fn from_proto(tensor: &TensorProto) -> Result<Tensor, OnnxError> {
    let refuse = |problem: String| OnnxError::Value {
        kind: "initializer",
        name: tensor.name.clone(),
        problem,
    };
    let dtype = dtype(tensor.data_type).map_err(refuse)?;
    let shape: Vec<usize> = tensor
        .dims
        .iter()
        .map(|d| usize::try_from(*d).map_err(|_| refuse(format!("dimension {d}; expected 0 or more"))))
        .collect::<Result<_, _>>()?;
    let count = elements(&shape).ok_or_else(|| refuse("more elements than memory can hold".to_owned()))?;
    if tensor.data_location != 0 {
        return Err(refuse(
            "its data lies in another file; expected data inside the ONNX file, or a weight-stripped file with `data_inputs`".to_owned(),
        ));
    }
    let have = |found: usize, unit: &str| {
        let expected = if unit == "bytes" {
            count.saturating_mul(dtype.bytes())
        } else {
            count
        };
        if found == expected {
            Ok(())
        } else {
            Err(refuse(format!(
                "{found} {unit} of data; shape {shape:?} of {dtype} needs {expected}"
            )))
        }
    };
    let raw = &tensor.raw_data;
    if !raw.is_empty() {
        have(raw.len(), "bytes")?;
        return Tensor::from_bytes(shape, dtype, raw).map_err(|e| refuse(e.to_string()));
    }
    Ok(match dtype {
        DType::F32 => {
            have(tensor.float_data.len(), "values")?;
            floats(shape, dtype, tensor.float_data.clone())
        }
        DType::I64 => {
            have(tensor.int64_data.len(), "values")?;
            integers(shape, dtype, tensor.int64_data.clone())
        }
        _ => {
            have(tensor.int32_data.len(), "values")?;
            let data = tensor.int32_data.iter();
            match dtype {
                // 16-bit floats are held as their bits.
                DType::F16 | DType::BF16 => {
                    let bits: Vec<u8> = data.flat_map(|v| v.to_le_bytes().into_iter().take(2)).collect();
                    Tensor::from_bytes(shape, dtype, &bits).map_err(|e| refuse(e.to_string()))?
                }
                DType::Bool => integers(shape, dtype, data.map(|v| i64::from(*v != 0)).collect()),
                _ => integers(shape, dtype, data.map(|v| i64::from(*v)).collect()),
            }
        }
    })
}
