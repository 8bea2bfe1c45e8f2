//! Elementwise operators of one operand. One row of [`UNARY`] holds an operator's definition for the reference interpreter
//! beside its tensor-program expression.

use super::check::{Accepts, OpName, Reader, arity, result, tensor};
use super::lower::Lowering;
use super::reference::checked;
use super::scalar::{add, binary, compute_type, convert, div, f32_const, mul, select, unary};
use super::special::erf;
use super::{LayoutRule, LegaliseCall, OpError, Operator};
use crate::annotation::{Annotation, DType};
use crate::graph::Attrs;
use crate::program::{BinaryOp, Scalar, TensorProgram, UnaryOp};
use crate::sym::SymExpr;
use crate::tensor::{RefValue, TensorData};

/// Up to two numeric attributes of an elementwise operator.
pub(super) type Params = [f64; 2];

/// One elementwise operator of one operand.
pub(super) struct Unary {
    name: OpName,
    accepts: Accepts,
    attrs: &'static [&'static str],
    params: fn(&Reader<'_>) -> Result<Params, OpError>,
    /// The definition on floating-point elements, for types the operator takes.
    float: fn(f32, Params) -> f32,
    /// The definition on integers and truth values.
    int: fn(i64, Params) -> i64,
    /// The same as an expression of a tensor program, in the type that arithmetic is done in.
    scalar: fn(Scalar, DType, Params) -> Scalar,
}

fn no_params(_: &Reader<'_>) -> Result<Params, OpError> {
    Ok([0.0; 2])
}

/// A floating-point function without attributes.
const fn float(
    name: OpName,
    float: fn(f32, Params) -> f32,
    scalar: fn(Scalar, DType, Params) -> Scalar,
) -> Unary {
    Unary {
        name,
        accepts: Accepts::Float,
        attrs: &[],
        params: no_params,
        float,
        int: |x, _| x,
        scalar,
    }
}

/// A function of numbers or truth values without attributes.
const fn any(
    name: OpName,
    accepts: Accepts,
    float: fn(f32, Params) -> f32,
    int: fn(i64, Params) -> i64,
    scalar: fn(Scalar, DType, Params) -> Scalar,
) -> Unary {
    Unary {
        name,
        accepts,
        attrs: &[],
        params: no_params,
        float,
        int,
        scalar,
    }
}

/// √(2/π), of the tangent approximation of GELU.
const GELU_SLOPE: f64 = 0.797_884_560_802_865_4;
/// The cubic coefficient of the same.
const GELU_CUBIC: f64 = 0.044_715;

static UNARY: &[Unary] = &[
    any(
        "neg",
        Accepts::Number,
        |x, _| -x,
        |x, _| x.wrapping_neg(),
        |x, _, _| unary(UnaryOp::Neg, x),
    ),
    any(
        "abs",
        Accepts::Number,
        |x, _| x.abs(),
        |x, _| x.wrapping_abs(),
        |x, _, _| unary(UnaryOp::Abs, x),
    ),
    float("exp", |x, _| x.exp(), |x, _, _| unary(UnaryOp::Exp, x)),
    float("log", |x, _| x.ln(), |x, _, _| unary(UnaryOp::Log, x)),
    float("sqrt", |x, _| x.sqrt(), |x, _, _| unary(UnaryOp::Sqrt, x)),
    float("rsqrt", |x, _| 1.0 / x.sqrt(), |x, _, _| unary(UnaryOp::Rsqrt, x)),
    float("tanh", |x, _| x.tanh(), |x, _, _| unary(UnaryOp::Tanh, x)),
    float(
        "erf",
        |x, _| erf(f64::from(x)) as f32,
        |x, _, _| unary(UnaryOp::Erf, x),
    ),
    float(
        "sigmoid",
        |x, _| 1.0 / (1.0 + (-x).exp()),
        |x, _, _| unary(UnaryOp::Sigmoid, x),
    ),
    any(
        "relu",
        Accepts::Number,
        |x, _| if x > 0.0 { x } else { 0.0 },
        |x, _| x.max(0),
        |x, dtype, _| binary(BinaryOp::Max, x, Scalar::Const(0.0, dtype)),
    ),
    float(
        "silu",
        |x, _| x / (1.0 + (-x).exp()),
        |x, _, _| mul(x.clone(), unary(UnaryOp::Sigmoid, x)),
    ),
    float("sin", |x, _| x.sin(), |x, _, _| unary(UnaryOp::Sin, x)),
    float("cos", |x, _| x.cos(), |x, _, _| unary(UnaryOp::Cos, x)),
    float("floor", |x, _| x.floor(), |x, _, _| unary(UnaryOp::Floor, x)),
    float("ceil", |x, _| x.ceil(), |x, _, _| unary(UnaryOp::Ceil, x)),
    float("reciprocal", |x, _| 1.0 / x, |x, _, _| div(f32_const(1.0), x)),
    float(
        "hard_swish",
        |x, _| x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
        |x, dtype, _| {
            let line = add(mul(x.clone(), f32_const(1.0 / 6.0)), f32_const(0.5));
            mul(x, clamp(line, dtype, [0.0, 1.0]))
        },
    ),
    any(
        "logical_not",
        Accepts::Bool,
        |x, _| x,
        |x, _| 1 - x,
        |x, _, _| unary(UnaryOp::Not, x),
    ),
    any("identity", Accepts::Any, |x, _| x, |x, _| x, |x, _, _| x),
    Unary {
        attrs: &["approximate"],
        params: |r| {
            Ok([
                f64::from(u8::from(r.word("approximate", &["none", "tanh"])? == "tanh")),
                0.0,
            ])
        },
        ..float("gelu", gelu, gelu_scalar)
    },
    Unary {
        attrs: &["alpha"],
        params: |r| Ok([r.float("alpha")?, 0.0]),
        ..float(
            "leaky_relu",
            |x, [alpha, _]| if x < 0.0 { x * alpha as f32 } else { x },
            |x, _, [alpha, _]| {
                let negative = binary(BinaryOp::Less, x.clone(), f32_const(0.0));
                select(negative, mul(x.clone(), f32_const(alpha)), x)
            },
        )
    },
    Unary {
        attrs: &["alpha", "beta"],
        params: |r| Ok([r.float("alpha")?, r.float("beta")?]),
        ..float(
            "hard_sigmoid",
            |x, [alpha, beta]| (x * alpha as f32 + beta as f32).clamp(0.0, 1.0),
            |x, dtype, [alpha, beta]| {
                let line = add(mul(x, f32_const(alpha)), f32_const(beta));
                clamp(line, dtype, [0.0, 1.0])
            },
        )
    },
    Unary {
        attrs: &["min", "max"],
        params: |r| Ok([r.float("min")?, r.float("max")?]),
        ..any(
            "clip",
            Accepts::Number,
            |x, [low, high]| x.max(low as f32).min(high as f32),
            // Integer bounds truncate towards zero; infinite ones saturate to no bound.
            |x, [low, high]| x.max(low as i64).min(high as i64),
            clamp,
        )
    },
];

/// `min(max(x, low), high)`; a bound beyond the range of the type is left out.
fn clamp(x: Scalar, dtype: DType, [low, high]: Params) -> Scalar {
    let (least, most) = match dtype {
        DType::I64 => (i64::MIN as f64, i64::MAX as f64),
        DType::I32 => (f64::from(i32::MIN), f64::from(i32::MAX)),
        DType::I8 => (f64::from(i8::MIN), f64::from(i8::MAX)),
        DType::U8 => (0.0, f64::from(u8::MAX)),
        _ => (f64::NEG_INFINITY, f64::INFINITY),
    };
    let bound = |v: f64| Scalar::Const(if dtype.is_float() { v } else { v.trunc() }, dtype);
    // A bound on the wrong side of the whole range pins every element to it.
    let x = if low > least {
        binary(BinaryOp::Max, x, bound(low.min(most)))
    } else {
        x
    };
    if high < most {
        binary(BinaryOp::Min, x, bound(high.max(least)))
    } else {
        x
    }
}

fn gelu(x: f32, [tangent, _]: Params) -> f32 {
    let x = f64::from(x);
    let y = if tangent == 1.0 {
        0.5 * x * (1.0 + (GELU_SLOPE * (x + GELU_CUBIC * x * x * x)).tanh())
    } else {
        0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2))
    };
    y as f32
}

fn gelu_scalar(x: Scalar, _: DType, [tangent, _]: Params) -> Scalar {
    let bell = if tangent == 1.0 {
        let square = mul(x.clone(), x.clone());
        let inner = add(
            mul(f32_const(GELU_CUBIC * GELU_SLOPE), square),
            f32_const(GELU_SLOPE),
        );
        unary(UnaryOp::Tanh, mul(x.clone(), inner))
    } else {
        unary(
            UnaryOp::Erf,
            mul(x.clone(), f32_const(std::f64::consts::FRAC_1_SQRT_2)),
        )
    };
    mul(mul(f32_const(0.5), x), add(bell, f32_const(1.0)))
}

/// The operators of this family.
pub(super) fn operators() -> impl Iterator<Item = &'static dyn Operator> {
    UNARY.iter().map(|u| u as &dyn Operator)
}

impl Unary {
    fn params(&self, attrs: &Attrs) -> Result<Params, OpError> {
        (self.params)(&Reader::new(self.name, attrs, self.attrs)?)
    }
}

impl Operator for Unary {
    fn name(&self) -> &'static str {
        self.name
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name, args.len(), 1..=1)?;
        let x = tensor(self.name, args, 0, self.accepts)?;
        self.params(attrs)?;
        Ok(result(x.shape, x.dtype))
    }
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        let params = self.params(attrs)?;
        match &call.args[0].data {
            TensorData::Float(x) => call.floats(x.iter().map(|x| (self.float)(*x, params)).collect()),
            TensorData::Int(x) => call.ints(x.iter().map(|x| (self.int)(*x, params)).collect()),
        }
    }
    fn legalise(&self, call: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        let params = self.params(call.attrs)?;
        Lowering::new(self.name, call, 1..=1)?.map(|l, nest, index| {
            let x = &l.args[0];
            let compute = compute_type(x.dtype);
            let index = x.broadcast_index(self.name, index, &l.out.dims)?;
            let y = (self.scalar)(x.value(&index, &nest.ranges), compute, params);
            Ok(convert(y, compute, l.out.dtype))
        })
    }
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::Elementwise
    }
}
