//! Concrete tensors of the reference interpreters: logical row-major values, no layout.

use crate::annotation::DType;

/// Elements of one type. 16-bit floats are held as `f32` values already rounded to their type.
#[derive(Clone, PartialEq, Debug)]
pub enum TensorData {
    /// `F32`, `F16` and `BF16`.
    Float(Vec<f32>),
    /// `I64`, `I32`, `I8`, `U8` and `Bool` (0 or 1).
    Int(Vec<i64>),
}

/// A dense tensor in logical row-major order.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    /// Extents.
    pub shape: Vec<usize>,
    /// Element type.
    pub dtype: DType,
    /// Elements; the variant follows from `dtype`.
    pub data: TensorData,
}

/// A value of the reference interpreters.
#[derive(Clone, PartialEq, Debug)]
pub enum RefValue {
    /// A tensor.
    Tensor(std::sync::Arc<Tensor>),
    /// A shape.
    Shape(Vec<i64>),
    /// A tuple.
    Tuple(Vec<RefValue>),
}
