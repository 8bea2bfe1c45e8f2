//! Reductions and scans along axes.

use super::Lower;
use crate::onnx::context::{Call, Context, Lowered, Refusal, Value, refuse};
use relayout_ir::annotation::DType;
use relayout_ir::builder::attrs;
use relayout_ir::graph::Attr;

/// The lowering of an operator of this family.
pub(super) fn lowering(op: &str) -> Option<Lower> {
    Some(match op {
        "ReduceSum" | "ReduceMean" | "ReduceMax" | "ReduceMin" | "ReduceProd" | "ReduceL1" | "ReduceL2"
        | "ReduceSumSquare" | "ReduceLogSum" | "ReduceLogSumExp" => reduce,
        "ArgMax" | "ArgMin" => arg_extreme,
        "CumSum" => cumsum,
        "TopK" => top_one,
        _ => return None,
    })
}

/// Axes from the attribute (older operator sets) or operand 1, sorted.
fn axes(ctx: &Context<'_>, call: &Call<'_>, rank: usize) -> Result<Option<Vec<usize>>, Refusal> {
    let given = match (call.optional(1), call.node.ints("axes")) {
        (Some(v), _) => ctx.ints(v)?,
        (None, Some(a)) => a.to_vec(),
        (None, None) => Vec::new(),
    };
    if given.is_empty() {
        return Ok((!call.node.flag("noop_with_empty_axes")).then(|| (0..rank).collect()));
    }
    let mut axes = given
        .iter()
        .map(|a| ctx.axis(*a, rank))
        .collect::<Result<Vec<_>, _>>()?;
    axes.sort_unstable();
    axes.dedup();
    Ok(Some(axes))
}

fn reduce(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let x = call.arg(0)?.clone();
    let Some(axes) = axes(ctx, call, ctx.rank(&x)?)? else {
        return Ok(vec![x]);
    };
    if axes.is_empty() {
        return Ok(vec![x]);
    }
    let keep = call.node.int("keepdims", 1) != 0;
    let along = |ctx: &mut Context<'_>, name: &str, op: &str, x: &Value, keep: bool| {
        let axes = axes.iter().map(|a| *a as i64).collect();
        ctx.emit(
            name,
            op,
            &[x],
            attrs([("axes", Attr::Ints(axes)), ("keepdims", Attr::Bool(keep))]),
        )
    };
    let (name, onnx) = (call.name(), call.node.proto.op_type.as_str());
    Ok(vec![match onnx {
        "ReduceSum" => along(ctx, name, "reduce_sum", &x, keep)?,
        "ReduceMean" => along(ctx, name, "reduce_mean", &x, keep)?,
        "ReduceMax" => along(ctx, name, "reduce_max", &x, keep)?,
        "ReduceMin" => along(ctx, name, "reduce_min", &x, keep)?,
        "ReduceProd" => along(ctx, name, "reduce_prod", &x, keep)?,
        "ReduceL1" => {
            let abs = ctx.plain(&call.part("abs"), "abs", &[&x])?;
            along(ctx, name, "reduce_sum", &abs, keep)?
        }
        "ReduceSumSquare" => {
            let square = ctx.plain(&call.part("square"), "mul", &[&x, &x])?;
            along(ctx, name, "reduce_sum", &square, keep)?
        }
        "ReduceL2" => {
            let square = ctx.plain(&call.part("square"), "mul", &[&x, &x])?;
            let sum = along(ctx, &call.part("sum"), "reduce_sum", &square, keep)?;
            ctx.plain(name, "sqrt", &[&sum])?
        }
        "ReduceLogSum" => {
            let sum = along(ctx, &call.part("sum"), "reduce_sum", &x, keep)?;
            ctx.plain(name, "log", &[&sum])?
        }
        _ => {
            // The largest element is taken out first, so that the exponentials can't overflow.
            let largest = along(ctx, &call.part("largest"), "reduce_max", &x, true)?;
            let shifted = ctx.plain(&call.part("shifted"), "sub", &[&x, &largest])?;
            let exp = ctx.plain(&call.part("exp"), "exp", &[&shifted])?;
            let sum = along(ctx, &call.part("sum"), "reduce_sum", &exp, true)?;
            let log = ctx.plain(&call.part("log"), "log", &[&sum])?;
            let kept = ctx.plain(&call.part("kept"), "add", &[&log, &largest])?;
            if keep {
                kept
            } else {
                ctx.squeeze(name, &kept, &axes)?
            }
        }
    }])
}

fn arg_extreme(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    if call.node.flag("select_last_index") {
        return refuse("select_last_index = 1");
    }
    let mut x = call.arg(0)?.clone();
    let axis = ctx.axis(call.node.int("axis", 0), ctx.rank(&x)?)?;
    if call.node.proto.op_type == "ArgMin" {
        x = ctx.plain(&call.part("negated"), "neg", &[&x])?;
    }
    let keep = call.node.int("keepdims", 1) != 0;
    let attrs = attrs([("axis", Attr::Int(axis as i64)), ("keepdims", Attr::Bool(keep))]);
    Ok(vec![ctx.emit(call.name(), "argmax", &[&x], attrs)?])
}

fn cumsum(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    for flag in ["exclusive", "reverse"] {
        if call.node.flag(flag) {
            return refuse(format!("{flag} = 1"));
        }
    }
    let x = call.arg(0)?;
    let axis = ctx.ints(call.arg(1)?)?.first().copied().unwrap_or(0);
    let axis = ctx.axis(axis, ctx.rank(x)?)?;
    Ok(vec![ctx.emit(
        call.name(),
        "cumsum",
        &[x],
        attrs([("axis", Attr::Int(axis as i64))]),
    )?])
}

/// The largest element and its place.
fn top_one(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let x = call.arg(0)?;
    let k = ctx.ints(call.arg(1)?)?;
    if k != [1] || call.node.int("largest", 1) == 0 {
        return refuse(format!(
            "k = {k:?}, largest = {}; supported is the one largest element",
            call.node.int("largest", 1)
        ));
    }
    let axis = ctx.axis(call.node.int("axis", -1), ctx.rank(x)?)? as i64;
    let along = attrs([("axes", Attr::Ints(vec![axis])), ("keepdims", Attr::Bool(true))]);
    let value = ctx.emit(call.name(), "reduce_max", &[x], along)?;
    let at = attrs([("axis", Attr::Int(axis)), ("keepdims", Attr::Bool(true))]);
    let index = ctx.emit(&call.part("index"), "argmax", &[x], at)?;
    let index = ctx.cast(&call.part("indices"), &index, DType::I64)?;
    Ok(vec![value, index])
}
