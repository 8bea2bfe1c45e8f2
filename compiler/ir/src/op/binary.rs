//! Elementwise operators of two operands, with broadcasting. One row of [`BINARY`] holds an operator's definition for the
//! reference interpreter beside its tensor-program expression.

use super::check::{Accepts, OpName, Reader, arity, broadcast, result, same_dtype, tensor};
use super::lower::Lowering;
use super::reference::{checked, zip_broadcast};
use super::scalar::{add, binary, compute_type, convert, mul, select, sub, unary};
use super::{LayoutRule, LegaliseCall, OpError, Operator};
use crate::annotation::{Annotation, DType};
use crate::graph::Attrs;
use crate::program::{BinaryOp, Scalar, TensorProgram, UnaryOp};
use crate::sym::SymExpr;
use crate::tensor::{RefValue, TensorData};

/// The definition on elements.
enum Definition {
    /// The result has the operands' type.
    Arithmetic {
        float: fn(f32, f32) -> f32,
        int: fn(i64, i64) -> i64,
    },
    /// The result is a truth value.
    Predicate {
        float: fn(f32, f32) -> bool,
        int: fn(i64, i64) -> bool,
    },
}

/// One elementwise operator of two operands.
pub(super) struct Binary {
    name: OpName,
    accepts: Accepts,
    definition: Definition,
    /// The same as an expression of a tensor program, in the type that arithmetic is done in.
    scalar: fn(Scalar, Scalar, DType) -> Scalar,
}

const fn arithmetic(
    name: OpName,
    accepts: Accepts,
    float: fn(f32, f32) -> f32,
    int: fn(i64, i64) -> i64,
    scalar: fn(Scalar, Scalar, DType) -> Scalar,
) -> Binary {
    Binary {
        name,
        accepts,
        definition: Definition::Arithmetic { float, int },
        scalar,
    }
}

const fn predicate(
    name: OpName,
    accepts: Accepts,
    float: fn(f32, f32) -> bool,
    int: fn(i64, i64) -> bool,
    scalar: fn(Scalar, Scalar, DType) -> Scalar,
) -> Binary {
    Binary {
        name,
        accepts,
        definition: Definition::Predicate { float, int },
        scalar,
    }
}

static BINARY: &[Binary] = &[
    arithmetic(
        "add",
        Accepts::Number,
        |a, b| a + b,
        i64::wrapping_add,
        |a, b, _| add(a, b),
    ),
    arithmetic(
        "sub",
        Accepts::Number,
        |a, b| a - b,
        i64::wrapping_sub,
        |a, b, _| sub(a, b),
    ),
    arithmetic(
        "mul",
        Accepts::Number,
        |a, b| a * b,
        i64::wrapping_mul,
        |a, b, _| mul(a, b),
    ),
    arithmetic("div", Accepts::Number, |a, b| a / b, int_div, div_scalar),
    arithmetic(
        "pow",
        Accepts::Float,
        f32::powf,
        |a, _| a,
        |a, b, _| binary(BinaryOp::Pow, a, b),
    ),
    arithmetic(
        "minimum",
        Accepts::Number,
        f32::min,
        |a, b| a.min(b),
        |a, b, _| binary(BinaryOp::Min, a, b),
    ),
    arithmetic(
        "maximum",
        Accepts::Number,
        f32::max,
        |a, b| a.max(b),
        |a, b, _| binary(BinaryOp::Max, a, b),
    ),
    arithmetic("mod", Accepts::Number, float_mod, int_mod, mod_scalar),
    predicate(
        "less",
        Accepts::Number,
        |a, b| a < b,
        |a, b| a < b,
        |a, b, _| binary(BinaryOp::Less, a, b),
    ),
    predicate(
        "less_equal",
        Accepts::Number,
        |a, b| a <= b,
        |a, b| a <= b,
        |a, b, _| binary(BinaryOp::LessEqual, a, b),
    ),
    predicate(
        "greater",
        Accepts::Number,
        |a, b| a > b,
        |a, b| a > b,
        |a, b, _| binary(BinaryOp::Less, b, a),
    ),
    predicate(
        "greater_equal",
        Accepts::Number,
        |a, b| a >= b,
        |a, b| a >= b,
        |a, b, _| binary(BinaryOp::LessEqual, b, a),
    ),
    predicate(
        "equal",
        Accepts::Any,
        |a, b| a == b,
        |a, b| a == b,
        |a, b, _| binary(BinaryOp::Equal, a, b),
    ),
    predicate(
        "not_equal",
        Accepts::Any,
        |a, b| a != b,
        |a, b| a != b,
        |a, b, _| unary(UnaryOp::Not, binary(BinaryOp::Equal, a, b)),
    ),
    predicate(
        "logical_and",
        Accepts::Bool,
        |_, _| false,
        |a, b| a != 0 && b != 0,
        |a, b, _| binary(BinaryOp::And, a, b),
    ),
    predicate(
        "logical_or",
        Accepts::Bool,
        |_, _| false,
        |a, b| a != 0 || b != 0,
        |a, b, _| binary(BinaryOp::Or, a, b),
    ),
];

/// Truncated towards zero; 0 where the divisor is 0; the one overflow wraps.
fn int_div(a: i64, b: i64) -> i64 {
    if b == 0 { 0 } else { a.wrapping_div(b) }
}

/// The sign of the divisor; 0 where the divisor is 0.
fn int_mod(a: i64, b: i64) -> i64 {
    if b == 0 {
        return 0;
    }
    let r = a.wrapping_rem(b);
    if r != 0 && (r < 0) != (b < 0) { r + b } else { r }
}

/// The sign of the divisor.
fn float_mod(a: f32, b: f32) -> f32 {
    let r = a % b;
    if r != 0.0 && (r < 0.0) != (b < 0.0) {
        r + b
    } else {
        r
    }
}

/// Guards an integer division against the divisors 0 and −1, which processors trap on.
fn divided(
    a: Scalar,
    b: Scalar,
    dtype: DType,
    minus_one: fn(Scalar, DType) -> Scalar,
    op: BinaryOp,
) -> Scalar {
    let plain = binary(op, a.clone(), b.clone());
    if dtype.is_float() {
        return plain;
    }
    let is = |value: f64| binary(BinaryOp::Equal, b.clone(), Scalar::Const(value, dtype));
    let safe = match dtype {
        DType::U8 => plain,
        _ => select(is(-1.0), minus_one(a, dtype), plain),
    };
    select(is(0.0), Scalar::Const(0.0, dtype), safe)
}

fn div_scalar(a: Scalar, b: Scalar, dtype: DType) -> Scalar {
    divided(a, b, dtype, |a, _| unary(UnaryOp::Neg, a), BinaryOp::Div)
}

fn mod_scalar(a: Scalar, b: Scalar, dtype: DType) -> Scalar {
    divided(a, b, dtype, |_, dtype| Scalar::Const(0.0, dtype), BinaryOp::Mod)
}

/// The operators of this family.
pub(super) fn operators() -> impl Iterator<Item = &'static dyn Operator> {
    BINARY.iter().map(|b| b as &dyn Operator)
}

impl Operator for Binary {
    fn name(&self) -> &'static str {
        self.name
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name, args.len(), 2..=2)?;
        Reader::new(self.name, attrs, &[])?;
        let a = tensor(self.name, args, 0, self.accepts)?;
        let b = tensor(self.name, args, 1, self.accepts)?;
        let dtype = same_dtype(self.name, &[(0, &a), (1, &b)])?;
        let shape = broadcast(self.name, &[(0, &a.shape), (1, &b.shape)])?;
        let dtype = match self.definition {
            Definition::Arithmetic { .. } => dtype,
            Definition::Predicate { .. } => Some(DType::Bool),
        };
        Ok(result(shape, dtype))
    }
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        let (a, b, shape) = (call.args[0], call.args[1], call.shape());
        match (&a.data, &b.data) {
            (TensorData::Float(x), TensorData::Float(y)) => {
                let (x, y) = (
                    (x.as_slice(), a.shape.as_slice()),
                    (y.as_slice(), b.shape.as_slice()),
                );
                match self.definition {
                    Definition::Arithmetic { float, .. } => call.floats(zip_broadcast(shape, x, y, float)),
                    Definition::Predicate { float, .. } => {
                        call.ints(zip_broadcast(shape, x, y, |x, y| i64::from(float(x, y))))
                    }
                }
            }
            _ => {
                let (x, y) = (
                    (call.int_arg(0)?, a.shape.as_slice()),
                    (call.int_arg(1)?, b.shape.as_slice()),
                );
                match self.definition {
                    Definition::Arithmetic { int, .. } => call.ints(zip_broadcast(shape, x, y, int)),
                    Definition::Predicate { int, .. } => {
                        call.ints(zip_broadcast(shape, x, y, |x, y| i64::from(int(x, y))))
                    }
                }
            }
        }
    }
    fn legalise(&self, call: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        Lowering::new(self.name, call, 2..=2)?.map(|l, nest, index| {
            let operand = |i: usize| {
                let view = &l.args[i];
                let own = view.broadcast_index(self.name, index, &l.out.dims)?;
                Ok(view.value(&own, &nest.ranges))
            };
            let compute = compute_type(l.args[0].dtype);
            let y = (self.scalar)(operand(0)?, operand(1)?, compute);
            Ok(match self.definition {
                Definition::Arithmetic { .. } => convert(y, compute, l.out.dtype),
                Definition::Predicate { .. } => y,
            })
        })
    }
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::Elementwise
    }
}
