//! Pooling, and the spatial attributes that it shares with convolutions.

use super::Lower;
use crate::onnx::context::{Call, Context, Lowered, Refusal, Value, refuse};
use crate::onnx::node::Node;
use relayout_ir::builder::attrs;
use relayout_ir::graph::Attr;

/// The lowering of an operator of this family.
pub(super) fn lowering(op: &str) -> Option<Lower> {
    Some(match op {
        "MaxPool" | "AveragePool" => pool,
        "GlobalAveragePool" | "GlobalMaxPool" => global,
        _ => return None,
    })
}

/// An attribute with one value per spatial axis; one-dimensional operators get 1 for the added height.
pub(super) fn spatial(node: Node<'_>, name: &str, flat: bool, default: i64) -> Result<[i64; 2], Refusal> {
    match (node.ints(name), flat) {
        (None | Some([]), _) => Ok([if flat { 1 } else { default }, default]),
        (Some([w]), true) => Ok([1, *w]),
        (Some([h, w]), false) => Ok([*h, *w]),
        (Some(other), _) => refuse(format!(
            "{name} = {other:?} for {} spatial axes",
            if flat { 1 } else { 2 }
        )),
    }
}

/// Padding as top, left, bottom, right, from `pads` or `auto_pad`.
pub(super) fn pads(
    ctx: &Context<'_>,
    node: Node<'_>,
    x: &Value,
    flat: bool,
    (kernel, strides, dilations): ([i64; 2], [i64; 2], [i64; 2]),
) -> Result<[i64; 4], Refusal> {
    let auto = node.text("auto_pad", "NOTSET");
    match auto.as_str() {
        "NOTSET" | "" => {}
        "VALID" => return Ok([0; 4]),
        "SAME_UPPER" | "SAME_LOWER" => {
            let dims = ctx.dims(x)?;
            let mut out = [0; 4];
            for axis in 0..2 {
                let Some(extent) = dims[2 + axis].as_const() else {
                    return refuse(format!("auto_pad = {auto} with a symbolic spatial axis"));
                };
                if strides[axis] < 1 {
                    return refuse(format!("strides = {strides:?}"));
                }
                let result = extent.saturating_add(strides[axis] - 1) / strides[axis];
                let reach = dilations[axis]
                    .saturating_mul(kernel[axis].saturating_sub(1))
                    .saturating_add(1);
                let total = (result - 1)
                    .saturating_mul(strides[axis])
                    .saturating_add(reach)
                    .saturating_sub(extent)
                    .max(0);
                let small = total / 2;
                let (begin, end) = if auto == "SAME_UPPER" {
                    (small, total - small)
                } else {
                    (total - small, small)
                };
                (out[axis], out[2 + axis]) = (begin, end);
            }
            return Ok(out);
        }
        other => return refuse(format!("auto_pad = {other}")),
    }
    match (node.ints("pads"), flat) {
        (None | Some([]), _) => Ok([0; 4]),
        (Some([l, r]), true) => Ok([0, *l, 0, *r]),
        (Some([t, l, b, r]), false) => Ok([*t, *l, *b, *r]),
        (Some(other), _) => refuse(format!("pads = {other:?}")),
    }
}

fn pool(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    call.only_first()?;
    let node = call.node;
    let x = call.arg(0)?.clone();
    let rank = ctx.rank(&x)?;
    let flat = rank == 3;
    if rank != 3 && rank != 4 {
        return refuse(format!(
            "{} spatial axes; supported are 1 and 2",
            rank.saturating_sub(2)
        ));
    }
    if !node.has("kernel_shape") {
        return refuse("kernel_shape is missing");
    }
    let x = if flat {
        ctx.expand_dims(&call.part("image"), &x, &[2])?
    } else {
        x
    };
    let kernel = spatial(node, "kernel_shape", flat, 1)?;
    let strides = spatial(node, "strides", flat, 1)?;
    let dilations = spatial(node, "dilations", flat, 1)?;
    let pads = pads(ctx, node, &x, flat, (kernel, strides, dilations))?;
    let mut attrs = attrs([
        ("kernel", Attr::Ints(kernel.to_vec())),
        ("strides", Attr::Ints(strides.to_vec())),
        ("pads", Attr::Ints(pads.to_vec())),
        ("ceil_mode", Attr::Bool(node.flag("ceil_mode"))),
    ]);
    let op = if node.proto.op_type == "MaxPool" {
        attrs.insert("dilations".to_owned(), Attr::Ints(dilations.to_vec()));
        "max_pool2d"
    } else {
        if dilations != [1, 1] {
            return refuse(format!("dilations = {dilations:?} of an average"));
        }
        attrs.insert(
            "count_include_pad".to_owned(),
            Attr::Bool(node.flag("count_include_pad")),
        );
        "avg_pool2d"
    };
    if !flat {
        return Ok(vec![ctx.emit(call.name(), op, &[&x], attrs)?]);
    }
    let pooled = ctx.emit(&call.part("pooled"), op, &[&x], attrs)?;
    Ok(vec![ctx.squeeze(call.name(), &pooled, &[2])?])
}

fn global(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let x = call.arg(0)?;
    let axes = (2..ctx.rank(x)? as i64).collect();
    let op = if call.node.proto.op_type == "GlobalMaxPool" {
        "reduce_max"
    } else {
        "reduce_mean"
    };
    let attrs = attrs([("axes", Attr::Ints(axes)), ("keepdims", Attr::Bool(true))]);
    Ok(vec![ctx.emit(call.name(), op, &[x], attrs)?])
}
