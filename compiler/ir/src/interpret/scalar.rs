//! Scalar arithmetic of tensor programs: one function per operation, each exact in its type.

use crate::annotation::DType;
use crate::program::{BinaryOp, Combiner, UnaryOp};
use half::{bf16, f16};

/// A scalar; its type is known statically.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value {
    Float(f32),
    Int(i64),
}

impl Value {
    pub(super) fn as_float(self) -> f32 {
        match self {
            Value::Float(v) => v,
            Value::Int(v) => v as f32,
        }
    }
    pub(super) fn as_int(self) -> i64 {
        match self {
            Value::Float(v) => v as i64,
            Value::Int(v) => v,
        }
    }
    pub(super) fn is_true(self) -> bool {
        match self {
            Value::Float(v) => v != 0.0,
            Value::Int(v) => v != 0,
        }
    }
    fn bool(value: bool) -> Value {
        Value::Int(i64::from(value))
    }
}

/// Rounds to a floating-point type (to nearest, ties to even); other types are left alone.
pub fn round_to(dtype: DType, value: f32) -> f32 {
    match dtype {
        DType::F16 => f16::from_f32(value).to_f32(),
        DType::BF16 => bf16::from_f32(value).to_f32(),
        _ => value,
    }
}

/// Wraps to an integer type as two's complement; `Bool` becomes 0 or 1.
pub fn wrap_to(dtype: DType, value: i64) -> i64 {
    match dtype {
        DType::I32 => i64::from(value as i32),
        DType::I8 => i64::from(value as i8),
        DType::U8 => i64::from(value as u8),
        DType::Bool => i64::from(value != 0),
        _ => value,
    }
}

/// A constant of a type.
pub(super) fn constant(value: f64, dtype: DType) -> Value {
    if dtype.is_float() {
        Value::Float(round_to(dtype, value as f32))
    } else {
        cast(dtype, Value::Float(0.0), Some(value))
    }
}

/// Conversion between types: float to integer truncates and saturates (NaN gives 0), integer to integer wraps, anything to
/// `Bool` is "not zero".
pub(super) fn convert(to: DType, value: Value) -> Value {
    match value {
        Value::Float(v) => cast(to, value, Some(f64::from(v))),
        Value::Int(_) => cast(to, value, None),
    }
}

fn cast(to: DType, value: Value, float: Option<f64>) -> Value {
    match (to, float) {
        (DType::F32 | DType::F16 | DType::BF16, _) => Value::Float(round_to(to, value.as_float())),
        (DType::Bool, Some(v)) => Value::bool(v != 0.0),
        (DType::I64, Some(v)) => Value::Int(v as i64),
        (DType::I32, Some(v)) => Value::Int(i64::from(v as i32)),
        (DType::I8, Some(v)) => Value::Int(i64::from(v as i8)),
        (DType::U8, Some(v)) => Value::Int(i64::from(v as u8)),
        (_, None) => Value::Int(wrap_to(to, value.as_int())),
    }
}

/// A function of one value in type `dtype`.
pub(super) fn unary(op: UnaryOp, dtype: DType, value: Value) -> Value {
    match value {
        Value::Float(x) => {
            let y = match op {
                UnaryOp::Neg => -x,
                UnaryOp::Abs => x.abs(),
                UnaryOp::Exp => x.exp(),
                UnaryOp::Log => x.ln(),
                UnaryOp::Sqrt => x.sqrt(),
                UnaryOp::Rsqrt => 1.0 / x.sqrt(),
                UnaryOp::Tanh => x.tanh(),
                UnaryOp::Erf => erf(x),
                UnaryOp::Sigmoid => 1.0 / (1.0 + (-x).exp()),
                UnaryOp::Sin => x.sin(),
                UnaryOp::Cos => x.cos(),
                UnaryOp::Floor => x.floor(),
                UnaryOp::Ceil => x.ceil(),
                UnaryOp::Not => return Value::bool(x == 0.0),
            };
            Value::Float(round_to(dtype, y))
        }
        Value::Int(x) => match op {
            UnaryOp::Neg => Value::Int(wrap_to(dtype, x.wrapping_neg())),
            UnaryOp::Abs => Value::Int(wrap_to(dtype, x.wrapping_abs())),
            UnaryOp::Not => Value::bool(x == 0),
            // Typing refuses the transcendental functions of integers; rounding an integer changes nothing.
            _ => value,
        },
    }
}

/// A function of two values in type `dtype` (the type of the operands). `None`: integer division by zero.
///
/// `Min` and `Max` give NaN when an operand is NaN. Integer arithmetic wraps; integer division truncates.
pub(super) fn binary(op: BinaryOp, dtype: DType, a: Value, b: Value) -> Option<Value> {
    Some(match (a, b) {
        (Value::Int(a), Value::Int(b)) => {
            let wrap = |v: i64| Value::Int(wrap_to(dtype, v));
            match op {
                BinaryOp::Add => wrap(a.wrapping_add(b)),
                BinaryOp::Sub => wrap(a.wrapping_sub(b)),
                BinaryOp::Mul => wrap(a.wrapping_mul(b)),
                BinaryOp::Div => wrap((b != 0).then(|| a.wrapping_div(b))?),
                BinaryOp::Mod => wrap((b != 0).then(|| floor_mod(a, b))?),
                BinaryOp::Min => Value::Int(a.min(b)),
                BinaryOp::Max => Value::Int(a.max(b)),
                BinaryOp::Pow => wrap(int_pow(a, b)),
                BinaryOp::Less => Value::bool(a < b),
                BinaryOp::LessEqual => Value::bool(a <= b),
                BinaryOp::Equal => Value::bool(a == b),
                BinaryOp::And => Value::bool(a != 0 && b != 0),
                BinaryOp::Or => Value::bool(a != 0 || b != 0),
            }
        }
        _ => {
            let (x, y) = (a.as_float(), b.as_float());
            let round = |v: f32| Value::Float(round_to(dtype, v));
            match op {
                BinaryOp::Add => round(x + y),
                BinaryOp::Sub => round(x - y),
                BinaryOp::Mul => round(x * y),
                BinaryOp::Div => round(x / y),
                BinaryOp::Min => Value::Float(if x < y || x.is_nan() { x } else { y }),
                BinaryOp::Max => Value::Float(if x > y || x.is_nan() { x } else { y }),
                BinaryOp::Pow => round(x.powf(y)),
                BinaryOp::Mod => round(float_mod(x, y)),
                BinaryOp::Less => Value::bool(x < y),
                BinaryOp::LessEqual => Value::bool(x <= y),
                BinaryOp::Equal => Value::bool(x == y),
                BinaryOp::And => Value::bool(a.is_true() && b.is_true()),
                BinaryOp::Or => Value::bool(a.is_true() || b.is_true()),
            }
        }
    })
}

/// Remainder with the sign of the divisor.
fn floor_mod(a: i64, b: i64) -> i64 {
    let r = a.wrapping_rem(b);
    if r != 0 && (r < 0) != (b < 0) { r + b } else { r }
}

/// Remainder with the sign of the divisor.
fn float_mod(x: f32, y: f32) -> f32 {
    let r = x % y;
    if r != 0.0 && (r < 0.0) != (y < 0.0) {
        r + y
    } else {
        r
    }
}

/// Wrapping power; a negative exponent truncates the true quotient towards zero.
fn int_pow(base: i64, exponent: i64) -> i64 {
    match (base, exponent) {
        (1, _) => 1,
        (-1, e) => {
            if e % 2 == 0 {
                1
            } else {
                -1
            }
        }
        (_, e) if e < 0 => 0,
        (_, mut e) => {
            let (mut result, mut square) = (1i64, base);
            while e > 0 {
                if e & 1 == 1 {
                    result = result.wrapping_mul(square);
                }
                square = square.wrapping_mul(square);
                e >>= 1;
            }
            result
        }
    }
}

/// What a reduction starts from in a type: the empty sum, product, maximum or minimum.
pub(super) fn identity(combiner: Combiner, dtype: DType) -> Value {
    let (lowest, highest) = match dtype {
        DType::I64 => (i64::MIN, i64::MAX),
        DType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        DType::I8 => (i64::from(i8::MIN), i64::from(i8::MAX)),
        DType::U8 => (0, 255),
        _ => (0, 1),
    };
    match (combiner, dtype.is_float()) {
        (Combiner::Sum, true) => Value::Float(0.0),
        (Combiner::Prod, true) => Value::Float(1.0),
        (Combiner::Max, true) => Value::Float(f32::NEG_INFINITY),
        (Combiner::Min, true) => Value::Float(f32::INFINITY),
        (Combiner::Sum, false) => Value::Int(0),
        (Combiner::Prod, false) => Value::Int(1),
        (Combiner::Max, false) => Value::Int(lowest),
        (Combiner::Min, false) => Value::Int(highest),
    }
}

/// The binary function of a combiner.
pub(super) fn combining(combiner: Combiner) -> BinaryOp {
    match combiner {
        Combiner::Sum => BinaryOp::Add,
        Combiner::Max => BinaryOp::Max,
        Combiner::Min => BinaryOp::Min,
        Combiner::Prod => BinaryOp::Mul,
    }
}

/// The error function, correctly rounded in all but rare ties: the series erf x = 2/√π · e^(−x²) · Σ 2ⁿ x^(2n+1) / (2n+1)!!
/// in double precision, whose terms are all of one sign. Beyond |x| = 4, 1 − |erf x| is below half a unit in the last place.
pub fn erf(x: f32) -> f32 {
    if x.is_nan() {
        return x;
    }
    if x.abs() >= 4.0 {
        return 1f32.copysign(x);
    }
    let x = f64::from(x);
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    while term.abs() > 1e-17 * sum.abs() {
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    (std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_matches_tabulated_values() {
        for (x, y) in [
            (0.0, 0.0),
            (0.1, 0.112_462_916),
            (0.5, 0.520_499_88),
            (1.0, 0.842_700_79),
            (2.0, 0.995_322_27),
            (3.5, 0.999_999_26),
        ] {
            assert!((erf(x) - y).abs() <= 6e-8, "erf({x}) = {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
        assert!(erf(f32::NAN).is_nan());
        assert_eq!((erf(f32::INFINITY), erf(-5.0)), (1.0, -1.0));
    }

    #[test]
    fn remainders_have_the_sign_of_the_divisor() {
        let int = |a, b| binary(BinaryOp::Mod, DType::I64, Value::Int(a), Value::Int(b));
        assert_eq!(
            [int(7, 3), int(-7, 3), int(7, -3), int(i64::MIN, -1)],
            [1, 2, -2, 0].map(|v| Some(Value::Int(v)))
        );
        assert_eq!(int(1, 0), None);
        let float = |a, b| binary(BinaryOp::Mod, DType::F32, Value::Float(a), Value::Float(b));
        assert_eq!(
            [float(-7.5, 2.0), float(7.5, -2.0)],
            [0.5, -0.5].map(|v| Some(Value::Float(v)))
        );
    }

    #[test]
    fn casts_truncate_and_saturate() {
        assert_eq!(convert(DType::I8, Value::Float(-300.7)), Value::Int(-128));
        assert_eq!(convert(DType::U8, Value::Float(f32::NAN)), Value::Int(0));
        assert_eq!(convert(DType::I32, Value::Float(-2.9)), Value::Int(-2));
        assert_eq!(convert(DType::U8, Value::Int(-1)), Value::Int(255));
        assert_eq!(convert(DType::Bool, Value::Float(0.25)), Value::Int(1));
        assert_eq!(convert(DType::F16, Value::Float(2049.0)), Value::Float(2048.0));
        assert_eq!(constant(-1.0, DType::I64), Value::Int(-1));
    }
}
