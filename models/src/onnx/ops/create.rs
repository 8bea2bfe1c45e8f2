//! Tensors made from nothing but numbers and shapes.

use super::Lower;
use crate::onnx::context::{Call, Context, Lowered, Refusal, Value, refuse};
use crate::onnx::host;
use crate::onnx::symbolic;
use relayout_ir::annotation::DType;
use relayout_ir::builder::attrs;
use relayout_ir::graph::Attr;
use relayout_ir::sym::{SymExpr, product};
use relayout_ir::tensor::TensorData;

/// Filled tensors up to this size are known values; larger ones are made at run time.
const KNOWN: i64 = 1 << 12;

/// The lowering of an operator of this family.
pub(super) fn lowering(op: &str) -> Option<Lower> {
    Some(match op {
        "Constant" => constant,
        "ConstantOfShape" => constant_of_shape,
        "Range" => range,
        "Trilu" => trilu,
        "OneHot" => one_hot,
        _ => return None,
    })
}

fn constant(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let node = call.node;
    let tensor = if let Some(tensor) = node.tensor("value") {
        let mut tensor = host::from_proto(tensor).map_err(|e| Refusal(e.to_string()))?;
        if ctx.f32_only && tensor.dtype.is_float() {
            tensor.dtype = DType::F32;
        }
        tensor
    } else if node.has("value_float") {
        host::floats(
            Vec::new(),
            DType::F32,
            vec![node.float("value_float", 0.0) as f32],
        )
    } else if node.has("value_int") {
        host::integers(Vec::new(), DType::I64, vec![node.int("value_int", 0)])
    } else if let Some(v) = node.floats("value_floats") {
        host::floats(vec![v.len()], DType::F32, v.to_vec())
    } else if let Some(v) = node.ints("value_ints") {
        host::integers(vec![v.len()], DType::I64, v.to_vec())
    } else {
        return refuse("a constant that is neither a tensor nor numbers");
    };
    Ok(vec![ctx.host(tensor)])
}

fn constant_of_shape(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let shape = ctx.shape_of(call.arg(0)?)?;
    let value = match call.node.tensor("value") {
        Some(t) => host::from_proto(t).map_err(|e| Refusal(e.to_string()))?,
        None => host::floats(vec![1], DType::F32, vec![0.0]),
    };
    let dtype = if ctx.f32_only && value.dtype.is_float() {
        DType::F32
    } else {
        value.dtype
    };
    let one = match &value.data {
        TensorData::Float(v) => v.first().map(|v| f64::from(*v)),
        TensorData::Int(v) => v.first().map(|v| *v as f64),
    };
    let one = one.ok_or_else(|| Refusal("a value without elements".to_owned()))?;
    if shape.iter().any(|d| d.as_const().is_some_and(|d| d < 0)) {
        return refuse(format!("the shape {shape:?}"));
    }
    let fixed: Option<Vec<usize>> = shape
        .iter()
        .map(|d| d.as_const().and_then(|d| usize::try_from(d).ok()))
        .collect();
    if let (Some(fixed), Some(count)) = (fixed, product(&shape).as_const().filter(|c| *c <= KNOWN)) {
        let count = usize::try_from(count).unwrap_or(0);
        return Ok(vec![ctx.host(if dtype.is_float() {
            host::floats(fixed, dtype, vec![one as f32; count])
        } else {
            host::integers(fixed, dtype, vec![one as i64; count])
        })]);
    }
    let attrs = attrs([
        ("shape", Attr::Shape(shape)),
        ("value", Attr::Float(one)),
        ("dtype", Attr::DType(dtype)),
    ]);
    Ok(vec![ctx.emit(call.name(), "full", &[], attrs)?])
}

fn range(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let (start, limit, delta) = (call.arg(0)?, call.arg(1)?, call.arg(2)?);
    let dtype = ctx.dtype(limit)?;
    if let (Ok(s), Ok(l), Ok(d)) = (
        ctx.host_floats(start),
        ctx.host_floats(limit),
        ctx.host_floats(delta),
    ) {
        let (Some(s), Some(l), Some(d)) = (s.first(), l.first(), d.first()) else {
            return refuse("an empty operand");
        };
        let (s, l, d) = (*s, *l, *d);
        let count = f64::from((l - s) / d).ceil().max(0.0);
        if count > KNOWN as f64 {
            return refuse(format!("{count} floating-point elements"));
        }
        let data: Vec<f32> = (0..count as usize).map(|i| s + i as f32 * d).collect();
        return Ok(vec![ctx.host(host::floats(vec![data.len()], dtype, data))]);
    }
    let one = |v: &Value| -> Result<SymExpr, Refusal> {
        ctx.shape_of(v)?
            .into_iter()
            .next()
            .ok_or_else(|| Refusal("an empty operand".to_owned()))
    };
    let (start, limit, delta) = (one(start)?, one(limit)?, one(delta)?);
    let Some(step) = delta.as_const().filter(|d| *d != 0) else {
        return refuse("a step of 0, or one that is not known at import");
    };
    if let (Some(s), Some(l)) = (start.as_const(), limit.as_const()) {
        let span = l.saturating_sub(s);
        // Rounded away from zero; a bound behind the start gives nothing.
        let rounded = span.saturating_add(step.saturating_sub(step.signum()));
        let count = rounded.checked_div(step).unwrap_or(0).max(0);
        if count <= 1 << 20 {
            let data: Vec<i64> = (0..count).map(|i| s + i * step).collect();
            return Ok(vec![ctx.host(host::integers(vec![data.len()], dtype, data))]);
        }
    }
    let (Some(first), 1) = (start.as_const(), step) else {
        return refuse(format!("from {start} in steps of {step} with a symbolic bound"));
    };
    let attrs = attrs([
        ("n", Attr::Shape(vec![limit - start])),
        ("start", Attr::Int(first)),
        ("dtype", Attr::DType(dtype)),
    ]);
    Ok(vec![ctx.emit(call.name(), "arange", &[], attrs)?])
}

/// Keeps the lower (or upper) triangle: a mask and a selection.
fn trilu(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let x = call.arg(0)?;
    let dims = ctx.dims(x)?;
    let [.., rows, cols] = dims.as_slice() else {
        return refuse(format!("a rank-{} operand", dims.len()));
    };
    let k = match call.optional(1) {
        Some(k) => ctx.ints(k)?.first().copied().unwrap_or(0),
        None => 0,
    };
    let upper = call.node.int("upper", 1) != 0;
    // The upper triangle from diagonal k on is what is not below diagonal k.
    let offset = if upper { k.saturating_sub(1) } else { k };
    let mask = attrs([
        ("rows", Attr::Shape(vec![rows.clone()])),
        ("cols", Attr::Shape(vec![cols.clone()])),
        ("offset", Attr::Shape(vec![SymExpr::from(offset)])),
    ]);
    let mask = ctx.emit(&call.part("mask"), "tril_mask", &[], mask)?;
    let dtype = ctx.dtype(x)?;
    let zero = ctx.scalar(0.0, dtype);
    let (a, b) = if upper { (&zero, x) } else { (x, &zero) };
    Ok(vec![ctx.plain(call.name(), "where", &[&mask, a, b])?])
}

fn one_hot(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let (indices, depth, values) = (call.arg(0)?, call.arg(1)?, call.arg(2)?);
    let depth = match ctx.shape_of(&ctx.cast_known(depth)?)?.first() {
        Some(d) => d.clone(),
        None => return refuse("no depth"),
    };
    let rank = ctx.rank(indices)?;
    let axis = ctx.axis(call.node.int("axis", -1), rank + 1)?;
    let dtype = ctx.dtype(indices)?;
    if dtype.is_float() {
        return refuse("floating-point indices");
    }
    let positions = attrs([
        ("n", Attr::Shape(vec![depth.clone()])),
        ("start", Attr::Int(0)),
        ("dtype", Attr::DType(dtype)),
    ]);
    let positions = ctx.emit(&call.part("positions"), "arange", &[], positions)?;
    let mut along = vec![SymExpr::constant(1); rank + 1 - axis];
    along[0] = depth.clone();
    let positions = ctx.reshape(&call.part("along"), &positions, along)?;
    let spread = ctx.expand_dims(&call.part("spread"), indices, &[axis])?;
    let (zero, extent) = (ctx.scalar(0.0, dtype), depth.as_const());
    let Some(extent) = extent else {
        return refuse("a symbolic depth");
    };
    let extent = ctx.host(host::integers(Vec::new(), dtype, vec![extent]));
    let negative = ctx.plain(&call.part("negative"), "less", &[&spread, &zero])?;
    let wrapped = ctx.plain(&call.part("wrapped"), "add", &[&spread, &extent])?;
    let spread = ctx.plain(&call.part("index"), "where", &[&negative, &wrapped, &spread])?;
    let hit = ctx.plain(&call.part("hit"), "equal", &[&spread, &positions])?;
    let off = ctx.slice_axis(&call.part("off"), values, 0, 0, SymExpr::constant(1))?;
    let off = ctx.squeeze(&call.part("off_value"), &off, &[0])?;
    let on = ctx.slice_axis(&call.part("on"), values, 0, 1, SymExpr::constant(2))?;
    let on = ctx.squeeze(&call.part("on_value"), &on, &[0])?;
    Ok(vec![ctx.plain(call.name(), "where", &[&hit, &on, &off])?])
}

impl Context<'_> {
    /// A known number as an integer, whatever its type.
    fn cast_known(&self, value: &Value) -> Result<Value, Refusal> {
        match self.host_floats(value) {
            Ok(v) => {
                let data: Vec<i64> = v.iter().map(|v| *v as i64).collect();
                Ok(self.sym(symbolic::SymVector::vector(
                    data.into_iter().map(SymExpr::from).collect(),
                )))
            }
            Err(_) => Ok(value.clone()),
        }
    }
}
