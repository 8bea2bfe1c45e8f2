//! Short constructors of tensor-program scalars.

use crate::annotation::DType;
use crate::program::{BinaryOp, Scalar, UnaryOp};
use crate::sym::SymExpr;

/// The type that arithmetic is done in: 16-bit floats are widened, everything else computes in its own type.
pub(super) fn compute_type(dtype: DType) -> DType {
    if dtype.is_float() { DType::F32 } else { dtype }
}

/// Converts, unless the value already has the type.
pub(super) fn convert(value: Scalar, from: DType, to: DType) -> Scalar {
    if from == to {
        value
    } else {
        Scalar::Cast(to, Box::new(value))
    }
}

pub(super) fn unary(op: UnaryOp, a: Scalar) -> Scalar {
    Scalar::Unary(op, Box::new(a))
}

pub(super) fn binary(op: BinaryOp, a: Scalar, b: Scalar) -> Scalar {
    Scalar::Binary(op, Box::new(a), Box::new(b))
}

pub(super) fn add(a: Scalar, b: Scalar) -> Scalar {
    binary(BinaryOp::Add, a, b)
}

pub(super) fn sub(a: Scalar, b: Scalar) -> Scalar {
    binary(BinaryOp::Sub, a, b)
}

pub(super) fn mul(a: Scalar, b: Scalar) -> Scalar {
    binary(BinaryOp::Mul, a, b)
}

pub(super) fn div(a: Scalar, b: Scalar) -> Scalar {
    binary(BinaryOp::Div, a, b)
}

pub(super) fn select(condition: Scalar, a: Scalar, b: Scalar) -> Scalar {
    Scalar::Select(Box::new(condition), Box::new(a), Box::new(b))
}

/// A 32-bit float constant.
pub(super) fn f32_const(value: f64) -> Scalar {
    Scalar::Const(value, DType::F32)
}

/// An index expression as a 32-bit float.
pub(super) fn index_f32(value: SymExpr) -> Scalar {
    match value.as_const() {
        Some(c) => f32_const(c as f64),
        None => Scalar::Cast(DType::F32, Box::new(Scalar::Index(value))),
    }
}

/// `a <= b` on index expressions.
pub(super) fn index_le(a: SymExpr, b: SymExpr) -> Scalar {
    binary(BinaryOp::LessEqual, Scalar::Index(a), Scalar::Index(b))
}

/// `a < b` on index expressions.
pub(super) fn index_lt(a: SymExpr, b: SymExpr) -> Scalar {
    binary(BinaryOp::Less, Scalar::Index(a), Scalar::Index(b))
}

/// `value` where all conditions hold, `other` elsewhere.
pub(super) fn guarded(conditions: Vec<Scalar>, value: Scalar, other: Scalar) -> Scalar {
    match conditions.into_iter().reduce(|a, b| binary(BinaryOp::And, a, b)) {
        Some(all) => select(all, value, other),
        None => value,
    }
}

/// The least value of a type: the identity of the maximum.
pub(super) fn lowest(dtype: DType) -> Scalar {
    let value = match dtype {
        DType::F32 | DType::F16 | DType::BF16 => f64::NEG_INFINITY,
        DType::I64 => i64::MIN as f64,
        DType::I32 => f64::from(i32::MIN),
        DType::I8 => f64::from(i8::MIN),
        DType::U8 | DType::Bool => 0.0,
    };
    Scalar::Const(value, dtype)
}
