//! Elementwise operators.

use super::Lower;
use crate::onnx::context::{Call, Context, Lowered, Refusal, Value, refuse};
use crate::onnx::symbolic::{self, SymVector};
use relayout_ir::annotation::DType;
use relayout_ir::builder::attrs;
use relayout_ir::graph::{Attr, Attrs};
use relayout_ir::sym::SymExpr;

/// The lowering of an operator of this family.
pub(super) fn lowering(op: &str) -> Option<Lower> {
    Some(match op {
        "Add" | "Sub" | "Mul" | "Div" | "Min" | "Max" | "Sum" | "Mean" => arithmetic,
        "Mod" => modulo,
        "Pow" => pow,
        "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual" | "Equal" | "And" | "Or" | "Xor" => predicate,
        "Neg" | "Abs" | "Exp" | "Log" | "Sqrt" | "Tanh" | "Erf" | "Sigmoid" | "Relu" | "Sin" | "Cos"
        | "Floor" | "Ceil" | "Reciprocal" | "Not" => unary,
        "Identity" => identity,
        "Dropout" => dropout,
        "Gelu" | "LeakyRelu" | "HardSigmoid" | "HardSwish" => with_attributes,
        "Softplus" | "Mish" => softplus,
        "Elu" | "Selu" | "Celu" | "PRelu" | "ThresholdedRelu" => piecewise,
        "Softsign" | "Sign" | "IsNaN" => small,
        "Clip" => clip,
        "Cast" | "CastLike" => cast,
        "Where" => select,
        _ => return None,
    })
}

/// Symbolic arithmetic, when both operands are known integers and one is symbolic.
fn symbolic_arithmetic(ctx: &Context<'_>, op: &str, a: &Value, b: &Value) -> Option<Value> {
    if !matches!(a, Value::Sym(_)) && !matches!(b, Value::Sym(_)) {
        return None;
    }
    let (a, b) = (ctx.as_sym(a)?, ctx.as_sym(b)?);
    let apply = |x: &SymExpr, y: &SymExpr| match op {
        "Add" | "Sum" => Some(x.clone() + y.clone()),
        "Sub" => Some(x.clone() - y.clone()),
        "Mul" => Some(x.clone() * y.clone()),
        "Div" => symbolic::divide(x, y),
        "Min" => Some(x.minimum(y)),
        "Max" => Some(x.maximum(y)),
        _ => None,
    };
    a.zip(&b, apply).map(|v| ctx.sym(v))
}

fn arithmetic(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let onnx = call.node.proto.op_type.as_str();
    let op = match onnx {
        "Add" | "Sum" | "Mean" => "add",
        "Sub" => "sub",
        "Mul" => "mul",
        "Div" => "div",
        "Min" => "minimum",
        _ => "maximum",
    };
    let mut acc = call.arg(0)?.clone();
    let count = call.args.len();
    for i in 1..count {
        let other = call.arg(i)?;
        let last = i + 1 == count && onnx != "Mean";
        let name = if last {
            call.name().to_owned()
        } else {
            call.part(&format!("partial{i}"))
        };
        acc = match symbolic_arithmetic(ctx, onnx, &acc, other) {
            Some(folded) => folded,
            None => ctx.plain(&name, op, &[&acc, other])?,
        };
    }
    if onnx == "Mean" && count > 1 {
        let share = ctx.scalar(1.0 / count as f32, ctx.dtype(&acc)?);
        acc = ctx.plain(call.name(), "mul", &[&acc, &share])?;
    }
    Ok(vec![acc])
}

fn modulo(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let (a, b) = (call.arg(0)?, call.arg(1)?);
    // With `fmod` the sign is the dividend's, without it the divisor's, as in the registry.
    if call.node.flag("fmod") {
        return refuse("fmod=1: the remainder takes the sign of the dividend");
    }
    Ok(vec![ctx.plain(call.name(), "mod", &[a, b])?])
}

fn pow(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let (base, exponent) = (call.arg(0)?.clone(), call.arg(1)?.clone());
    let dtype = ctx.dtype(&base)?;
    let work = if dtype.is_float() { dtype } else { DType::F32 };
    let base = ctx.cast(&call.part("base"), &base, work)?;
    let exponent = ctx.cast(&call.part("exponent"), &exponent, work)?;
    let scalar_exponent = match &exponent {
        Value::Host(t) if t.shape.iter().all(|d| *d == 1) => ctx.host_floats(&exponent)?.first().copied(),
        _ => None,
    };
    // A square and a root have operators that are exact and cheap.
    let result = match scalar_exponent {
        Some(2.0) if ctx.rank(&base)? >= ctx.rank(&exponent)? => {
            ctx.plain(call.name(), "mul", &[&base, &base])?
        }
        Some(0.5) if ctx.rank(&base)? >= ctx.rank(&exponent)? => ctx.plain(call.name(), "sqrt", &[&base])?,
        _ => ctx.plain(call.name(), "pow", &[&base, &exponent])?,
    };
    Ok(vec![ctx.cast(&call.part("cast"), &result, dtype)?])
}

fn predicate(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let (a, b) = (call.arg(0)?, call.arg(1)?);
    let op = match call.node.proto.op_type.as_str() {
        "Less" => "less",
        "LessOrEqual" => "less_equal",
        "Greater" => "greater",
        "GreaterOrEqual" => "greater_equal",
        "Equal" => "equal",
        "And" => "logical_and",
        "Or" => "logical_or",
        _ => "not_equal",
    };
    if op == "equal" && (matches!(a, Value::Sym(_)) || matches!(b, Value::Sym(_))) {
        return symbolic_equal(ctx, a, b);
    }
    Ok(vec![ctx.plain(call.name(), op, &[a, b])?])
}

/// Equality of shape elements: decided where the difference is constant, or where one side can't be negative and the other is.
fn symbolic_equal(ctx: &mut Context<'_>, a: &Value, b: &Value) -> Lowered {
    let undecided =
        || Refusal("a comparison of symbolic dimensions that is not decided at import".to_owned());
    let (a, b) = (
        ctx.as_sym(a).ok_or_else(undecided)?,
        ctx.as_sym(b).ok_or_else(undecided)?,
    );
    let non_negative = |e: &SymExpr| e.terms().all(|(_, c)| c >= 0);
    let negative = |e: &SymExpr| e.as_const().is_some_and(|c| c < 0);
    let equal = |x: &SymExpr, y: &SymExpr| match (x.clone() - y.clone()).as_const() {
        Some(d) => Some(SymExpr::from(i64::from(d == 0))),
        None if (non_negative(x) && negative(y)) || (negative(x) && non_negative(y)) => Some(SymExpr::zero()),
        None => None,
    };
    let result = a.zip(&b, equal).ok_or_else(undecided)?;
    let data = result.constants().ok_or_else(undecided)?;
    let shape = if result.scalar {
        Vec::new()
    } else {
        vec![data.len()]
    };
    Ok(vec![ctx.host(crate::onnx::host::integers(
        shape,
        DType::Bool,
        data,
    ))])
}

fn unary(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let x = call.arg(0)?;
    let op = match call.node.proto.op_type.as_str() {
        "Not" => "logical_not".to_owned(),
        other => other.to_ascii_lowercase(),
    };
    if let (Value::Sym(v), "neg") = (x, op.as_str()) {
        let items = v.items.iter().map(|i| -i.clone()).collect();
        return Ok(vec![ctx.sym(SymVector {
            items,
            scalar: v.scalar,
        })]);
    }
    Ok(vec![ctx.plain(call.name(), &op, &[x])?])
}

fn identity(_: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    Ok(vec![call.arg(0)?.clone()])
}

fn dropout(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    call.only_first()?;
    if let Some(training) = call.optional(2)
        && ctx.ints(training)?.first().is_some_and(|t| *t != 0)
    {
        return refuse("training_mode is true");
    }
    identity(ctx, call)
}

fn with_attributes(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let x = call.arg(0)?;
    let node = call.node;
    let (op, attrs) = match node.proto.op_type.as_str() {
        "Gelu" => (
            "gelu",
            attrs([("approximate", Attr::Str(node.text("approximate", "none")))]),
        ),
        "LeakyRelu" => (
            "leaky_relu",
            attrs([("alpha", Attr::Float(node.float("alpha", 0.01)))]),
        ),
        "HardSigmoid" => {
            let (alpha, beta) = (node.float("alpha", 0.2), node.float("beta", 0.5));
            (
                "hard_sigmoid",
                attrs([("alpha", Attr::Float(alpha)), ("beta", Attr::Float(beta))]),
            )
        }
        _ => ("hard_swish", Attrs::new()),
    };
    Ok(vec![ctx.emit(call.name(), op, &[x], attrs)?])
}

/// log(1 + eˣ) as max(x, 0) + log(1 + e^−|x|), which does not overflow; Mish is x · tanh of it.
fn softplus(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let x = call.arg(0)?;
    let one = ctx.scalar(1.0, ctx.dtype(x)?);
    let abs = ctx.plain(&call.part("abs"), "abs", &[x])?;
    let neg = ctx.plain(&call.part("neg"), "neg", &[&abs])?;
    let exp = ctx.plain(&call.part("exp"), "exp", &[&neg])?;
    let sum = ctx.plain(&call.part("sum"), "add", &[&exp, &one])?;
    let log = ctx.plain(&call.part("log"), "log", &[&sum])?;
    let relu = ctx.plain(&call.part("relu"), "relu", &[x])?;
    if call.node.proto.op_type == "Softplus" {
        return Ok(vec![ctx.plain(call.name(), "add", &[&relu, &log])?]);
    }
    let soft = ctx.plain(&call.part("softplus"), "add", &[&relu, &log])?;
    let tanh = ctx.plain(&call.part("tanh"), "tanh", &[&soft])?;
    Ok(vec![ctx.plain(call.name(), "mul", &[x, &tanh])?])
}

/// x above a threshold, something else below.
fn piecewise(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let x = call.arg(0)?;
    let dtype = ctx.dtype(x)?;
    let node = call.node;
    let zero = ctx.scalar(0.0, dtype);
    let onnx = node.proto.op_type.as_str();
    if onnx == "ThresholdedRelu" {
        let threshold = ctx.scalar(node.float("alpha", 1.0) as f32, dtype);
        let above = ctx.plain(&call.part("above"), "greater", &[x, &threshold])?;
        return Ok(vec![ctx.plain(call.name(), "where", &[&above, x, &zero])?]);
    }
    let above = ctx.plain(&call.part("above"), "greater", &[x, &zero])?;
    if onnx == "PRelu" {
        let slope = call.arg(1)?;
        let below = ctx.plain(&call.part("below"), "mul", &[x, slope])?;
        return Ok(vec![ctx.plain(call.name(), "where", &[&above, x, &below])?]);
    }
    // alpha · (e^(x / divisor) − 1) below, and everything times gamma.
    let (alpha, divisor, gamma) = match onnx {
        "Elu" => (node.float("alpha", 1.0), 1.0, 1.0),
        "Celu" => (node.float("alpha", 1.0), node.float("alpha", 1.0), 1.0),
        _ => (
            node.float("alpha", 1.673_263_2),
            1.0,
            node.float("gamma", 1.050_701),
        ),
    };
    let mut scaled = x.clone();
    if divisor != 1.0 {
        let divisor = ctx.scalar(divisor as f32, dtype);
        scaled = ctx.plain(&call.part("scaled"), "div", &[x, &divisor])?;
    }
    let (one, alpha) = (ctx.scalar(1.0, dtype), ctx.scalar(alpha as f32, dtype));
    // Clamped, so that the branch not taken can't overflow.
    let clamped = ctx.plain(&call.part("clamped"), "minimum", &[&scaled, &zero])?;
    let exp = ctx.plain(&call.part("exp"), "exp", &[&clamped])?;
    let minus = ctx.plain(&call.part("minus"), "sub", &[&exp, &one])?;
    let below = ctx.plain(&call.part("below"), "mul", &[&minus, &alpha])?;
    let result = ctx.plain(call.name(), "where", &[&above, x, &below])?;
    if gamma == 1.0 {
        return Ok(vec![result]);
    }
    let gamma = ctx.scalar(gamma as f32, dtype);
    Ok(vec![ctx.plain(
        &call.part("scaled"),
        "mul",
        &[&result, &gamma],
    )?])
}

fn small(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let x = call.arg(0)?;
    let dtype = ctx.dtype(x)?;
    Ok(vec![match call.node.proto.op_type.as_str() {
        "Softsign" => {
            let one = ctx.scalar(1.0, dtype);
            let abs = ctx.plain(&call.part("abs"), "abs", &[x])?;
            let below = ctx.plain(&call.part("below"), "add", &[&abs, &one])?;
            ctx.plain(call.name(), "div", &[x, &below])?
        }
        "Sign" => {
            let zero = ctx.scalar(0.0, dtype);
            let above = ctx.plain(&call.part("above"), "greater", &[x, &zero])?;
            let above = ctx.cast(&call.part("one"), &above, dtype)?;
            let below = ctx.plain(&call.part("below"), "less", &[x, &zero])?;
            let below = ctx.cast(&call.part("minus_one"), &below, dtype)?;
            ctx.plain(call.name(), "sub", &[&above, &below])?
        }
        _ => ctx.plain(call.name(), "not_equal", &[x, x])?,
    }])
}

fn clip(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let x = call.arg(0)?;
    let (low, high) = (call.optional(1), call.optional(2));
    let known = |v: Option<&Value>, absent: f64| match v {
        None => Some(absent),
        Some(v) => ctx
            .host_floats(v)
            .ok()
            .and_then(|f| f.first().map(|f| f64::from(*f))),
    };
    let bounds = (known(low, f64::from(f32::MIN)), known(high, f64::from(f32::MAX)));
    if let ((Some(min), Some(max)), true) = (bounds, ctx.dtype(x)?.is_float()) {
        let attrs = attrs([("min", Attr::Float(min)), ("max", Attr::Float(max))]);
        return Ok(vec![ctx.emit(call.name(), "clip", &[x], attrs)?]);
    }
    let mut y = x.clone();
    for (bound, op, onnx) in [(low, "maximum", "Max"), (high, "minimum", "Min")] {
        if let Some(bound) = bound {
            y = match symbolic_arithmetic(ctx, onnx, &y, bound) {
                Some(folded) => folded,
                None => ctx.plain(&call.part(op), op, &[&y, bound])?,
            };
        }
    }
    Ok(vec![y])
}

fn cast(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let x = call.arg(0)?;
    let dtype = match call.optional(1) {
        Some(like) if call.node.proto.op_type == "CastLike" => ctx.dtype(like)?,
        _ => ctx.dtype_of(call.node.int("to", 0)).map_err(Refusal)?,
    };
    Ok(vec![ctx.cast(call.name(), x, dtype)?])
}

fn select(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let (condition, a, b) = (call.arg(0)?, call.arg(1)?, call.arg(2)?);
    if matches!(a, Value::Sym(_)) || matches!(b, Value::Sym(_)) {
        let (Some(a), Some(b)) = (ctx.as_sym(a), ctx.as_sym(b)) else {
            return refuse("a symbolic dimension used as data");
        };
        let condition = ctx.ints(condition)?;
        let pick = |v: &SymVector, i: usize| v.items.get(if v.items.len() == 1 { 0 } else { i }).cloned();
        let length = condition.len().max(a.items.len()).max(b.items.len());
        let items: Option<Vec<SymExpr>> = (0..length)
            .map(|i| {
                let chosen = *condition.get(if condition.len() == 1 { 0 } else { i })? != 0;
                pick(if chosen { &a } else { &b }, i)
            })
            .collect();
        let items = items.ok_or_else(|| Refusal("operands of different lengths".to_owned()))?;
        return Ok(vec![ctx.sym(SymVector::vector(items))]);
    }
    Ok(vec![ctx.plain(call.name(), "where", &[condition, a, b])?])
}
