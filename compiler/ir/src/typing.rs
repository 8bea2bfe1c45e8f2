//! Element types of the scalar expressions of tensor programs.
//!
//! - Both operands of a binary function have one type; two different floating-point types meet in `f32`. Nothing else converts
//!   without a [`Scalar::Cast`].
//! - Comparisons, `and`, `or` and `not` give `bool`; `and`, `or` and `not` take `bool`.
//! - Transcendental functions take floating-point operands.
//! - [`Scalar::Index`] is `i64`.
//! - Reductions and contractions of floating-point values accumulate in `f32`, and [`Scalar::Reduced`] is `f32`. Integer
//!   reductions keep their type; an integer contraction gives `i32`, or `i64` when a factor is `i64`.
//! - The value stored has the type of the output buffer, or both are floating-point (the store rounds).

use crate::annotation::DType;
use crate::index::Idx;
use crate::program::{BinaryOp, BufferId, Scalar, Stage, StageBody, TensorProgram, UnaryOp};

/// Why a scalar expression has no type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TypeError {
    /// A buffer that the program does not have.
    #[error("buffer number {0} does not exist")]
    Buffer(usize),
    /// `reduced` where nothing is reduced.
    #[error("`reduced` outside the epilogue of a reduction or contraction")]
    Reduced,
    /// An operand of the wrong type.
    #[error("{what}: expected {expected}, found {found}")]
    Operand {
        /// The function, or the place that takes the value.
        what: String,
        /// The types it takes.
        expected: String,
        /// The type found.
        found: DType,
    },
}

fn operand(what: impl Into<String>, expected: impl Into<String>, found: DType) -> TypeError {
    TypeError::Operand {
        what: what.into(),
        expected: expected.into(),
        found,
    }
}

fn buffer_type(program: &TensorProgram, buffer: BufferId) -> Result<DType, TypeError> {
    program
        .buffers
        .get(buffer)
        .map(|b| b.dtype)
        .ok_or(TypeError::Buffer(buffer.index()))
}

/// The type in which two operands meet.
pub(crate) fn unify(what: &str, a: DType, b: DType) -> Result<DType, TypeError> {
    match (a == b, a.is_float() && b.is_float()) {
        (true, _) => Ok(a),
        (false, true) => Ok(DType::F32),
        (false, false) => Err(operand(what, a.name(), b)),
    }
}

/// The operand type of a unary function and its result type.
pub(crate) fn unary_type(op: UnaryOp, x: DType) -> Result<DType, TypeError> {
    let allowed = match op {
        UnaryOp::Not => x == DType::Bool,
        UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Floor | UnaryOp::Ceil => x != DType::Bool,
        _ => x.is_float(),
    };
    let expected = match op {
        UnaryOp::Not => "bool",
        UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Floor | UnaryOp::Ceil => "a number",
        _ => "a floating-point number",
    };
    if allowed {
        Ok(x)
    } else {
        Err(operand(op.name(), expected, x))
    }
}

/// The type in which a binary function works and the type of its result.
pub(crate) fn binary_types(op: BinaryOp, a: DType, b: DType) -> Result<(DType, DType), TypeError> {
    let common = unify(op.name(), a, b)?;
    match op {
        BinaryOp::And | BinaryOp::Or if common != DType::Bool => Err(operand(op.name(), "bool", common)),
        BinaryOp::And | BinaryOp::Or | BinaryOp::Less | BinaryOp::LessEqual | BinaryOp::Equal => {
            Ok((common, DType::Bool))
        }
        _ if common == DType::Bool && !matches!(op, BinaryOp::Min | BinaryOp::Max) => {
            Err(operand(op.name(), "a number", common))
        }
        _ => Ok((common, common)),
    }
}

/// The type of a scalar expression, where [`Scalar::Reduced`] has type `reduced`.
///
/// # Errors
/// When an operand has a type that its function does not take, or a buffer does not exist.
pub fn scalar_type(
    program: &TensorProgram,
    reduced: Option<DType>,
    scalar: &Scalar,
) -> Result<DType, TypeError> {
    let of = |s: &Scalar| scalar_type(program, reduced, s);
    match scalar {
        Scalar::Const(_, dtype) => Ok(*dtype),
        Scalar::Load(access) => buffer_type(program, access.buffer),
        Scalar::Gather { buffer, index } => {
            for i in index {
                let found = of(i)?;
                if found.is_float() || found == DType::Bool {
                    return Err(operand("gather index", "an integer", found));
                }
            }
            buffer_type(program, *buffer)
        }
        Scalar::Index(_) => Ok(DType::I64),
        Scalar::Reduced => reduced.ok_or(TypeError::Reduced),
        Scalar::Unary(op, x) => unary_type(*op, of(x)?),
        Scalar::Binary(op, a, b) => Ok(binary_types(*op, of(a)?, of(b)?)?.1),
        Scalar::Select(condition, a, b) => {
            let found = of(condition)?;
            if found != DType::Bool {
                return Err(operand("select condition", "bool", found));
            }
            unify("select", of(a)?, of(b)?)
        }
        Scalar::Cast(to, x) => of(x).map(|_| *to),
    }
}

/// The type of [`Scalar::Reduced`] in a stage's epilogue; `None` for a map.
///
/// # Errors
/// As [`scalar_type`].
pub fn reduced_type(program: &TensorProgram, stage: &Stage) -> Result<Option<DType>, TypeError> {
    match &stage.body {
        StageBody::Map(_) => Ok(None),
        StageBody::Reduce { value, .. } => {
            let dtype = scalar_type(program, None, value)?;
            Ok(Some(if dtype.is_float() { DType::F32 } else { dtype }))
        }
        StageBody::Contract { a, b, .. } => {
            let (a, b) = (buffer_type(program, a.buffer)?, buffer_type(program, b.buffer)?);
            match (a.is_float(), b.is_float()) {
                (true, true) => Ok(Some(DType::F32)),
                (false, false) if a == DType::I64 || b == DType::I64 => Ok(Some(DType::I64)),
                (false, false) => Ok(Some(DType::I32)),
                _ => Err(operand(
                    "contract",
                    if a.is_float() {
                        "a floating-point number"
                    } else {
                        "an integer"
                    },
                    b,
                )),
            }
        }
    }
}

/// Checks a whole stage: its value or epilogue has the type of its output buffer.
///
/// # Errors
/// As [`scalar_type`].
pub fn check_stage(program: &TensorProgram, stage: &Stage) -> Result<(), TypeError> {
    let reduced = reduced_type(program, stage)?;
    let stored = match &stage.body {
        StageBody::Map(value) => value,
        StageBody::Reduce { epilogue, .. } | StageBody::Contract { epilogue, .. } => epilogue,
    };
    let (found, expected) = (
        scalar_type(program, reduced, stored)?,
        buffer_type(program, stage.output)?,
    );
    if found == expected || (found.is_float() && expected.is_float()) {
        Ok(())
    } else {
        Err(operand("store", expected.name(), found))
    }
}
