//! Annotations: the structural type of every value, with as much as is known (Relax §3.2, table 1).

use crate::layout::Layout;
use crate::sym::SymExpr;
use std::fmt;

/// Element types.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum DType {
    F32,
    F16,
    BF16,
    I64,
    I32,
    I8,
    U8,
    Bool,
}

impl DType {
    /// Every element type.
    pub const ALL: [DType; 8] = [
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::I64,
        DType::I32,
        DType::I8,
        DType::U8,
        DType::Bool,
    ];
    /// Bytes per element.
    pub fn bytes(self) -> usize {
        match self {
            DType::I64 => 8,
            DType::F32 | DType::I32 => 4,
            DType::F16 | DType::BF16 => 2,
            DType::I8 | DType::U8 | DType::Bool => 1,
        }
    }
    /// Whether it is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F16 | DType::BF16)
    }
    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::I64 => "i64",
            DType::I32 => "i32",
            DType::I8 => "i8",
            DType::U8 => "u8",
            DType::Bool => "bool",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is known of a shape.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ShapeInfo {
    /// Every dimension, as an expression.
    Known(Vec<SymExpr>),
    /// Only the number of dimensions.
    Rank(usize),
    /// Nothing.
    Unknown,
}

impl ShapeInfo {
    /// The dimensions, when known.
    pub fn dims(&self) -> Option<&[SymExpr]> {
        match self {
            ShapeInfo::Known(dims) => Some(dims),
            _ => None,
        }
    }
    /// The number of dimensions, when known.
    pub fn rank(&self) -> Option<usize> {
        match self {
            ShapeInfo::Known(dims) => Some(dims.len()),
            ShapeInfo::Rank(rank) => Some(*rank),
            ShapeInfo::Unknown => None,
        }
    }
}

/// What is known of a tensor: logical shape, element type, and after layout selection its layout.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TensorInfo {
    /// The logical shape.
    pub shape: ShapeInfo,
    /// The element type, when known.
    pub dtype: Option<DType>,
    /// The layout; `None` before selection, which means the ABI layout (row-major).
    pub layout: Option<Layout>,
}

impl TensorInfo {
    /// A tensor of known shape and type in the ABI layout.
    pub fn new(dims: Vec<SymExpr>, dtype: DType) -> Self {
        TensorInfo {
            shape: ShapeInfo::Known(dims),
            dtype: Some(dtype),
            layout: None,
        }
    }
    /// The dimensions, when known.
    pub fn dims(&self) -> Option<&[SymExpr]> {
        self.shape.dims()
    }
    /// The layout, or row-major of the known rank.
    pub fn layout_or_abi(&self) -> Option<Layout> {
        match (&self.layout, self.shape.rank()) {
            (Some(layout), _) => Some(layout.clone()),
            (None, Some(rank)) => Some(Layout::row_major(rank)),
            (None, None) => None,
        }
    }
    /// The same tensor in another layout.
    pub fn in_layout(&self, layout: Layout) -> Self {
        TensorInfo {
            layout: Some(layout),
            ..self.clone()
        }
    }
}

/// The structural type of a value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Annotation {
    /// Any runtime value.
    Object,
    /// A shape value.
    Shape(ShapeInfo),
    /// A tensor.
    Tensor(TensorInfo),
    /// A tuple of values.
    Tuple(Vec<Annotation>),
    /// A function: parameters and result.
    Callable(Vec<Annotation>, Box<Annotation>),
}

impl Annotation {
    /// A tensor of known shape and type.
    pub fn tensor(dims: Vec<SymExpr>, dtype: DType) -> Self {
        Annotation::Tensor(TensorInfo::new(dims, dtype))
    }
    /// The tensor information, if this is a tensor.
    pub fn as_tensor(&self) -> Option<&TensorInfo> {
        match self {
            Annotation::Tensor(t) => Some(t),
            _ => None,
        }
    }
}
