//! Normalisations and softmax.

use super::Lower;
use crate::onnx::context::{Call, Context, Lowered, refuse};
use relayout_ir::builder::attrs;
use relayout_ir::graph::Attr;
use relayout_ir::sym::product;

/// The lowering of an operator of this family.
pub(super) fn lowering(op: &str) -> Option<Lower> {
    Some(match op {
        "BatchNormalization" => batch_norm,
        "LayerNormalization" => layer_norm,
        "RMSNormalization" | "SimplifiedLayerNormalization" => rms_norm,
        "InstanceNormalization" | "GroupNormalization" => group_norm,
        "Softmax" | "LogSoftmax" => softmax,
        _ => return None,
    })
}

fn batch_norm(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    call.only_first()?;
    if call.node.flag("training_mode") {
        return refuse("training_mode = 1");
    }
    let args = [
        call.arg(0)?,
        call.arg(1)?,
        call.arg(2)?,
        call.arg(3)?,
        call.arg(4)?,
    ];
    let attrs = attrs([("eps", Attr::Float(call.node.float("epsilon", 1e-5)))]);
    Ok(vec![ctx.emit(call.name(), "batch_norm", &args, attrs)?])
}

fn layer_norm(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    call.only_first()?;
    let (x, scale) = (call.arg(0)?, call.arg(1)?);
    let axis = ctx.axis(call.node.int("axis", -1), ctx.rank(x)?)?;
    let attrs = attrs([
        ("axis", Attr::Int(axis as i64)),
        ("eps", Attr::Float(call.node.float("epsilon", 1e-5))),
    ]);
    let mut args = vec![x, scale];
    args.extend(call.optional(2));
    Ok(vec![ctx.emit(call.name(), "layer_norm", &args, attrs)?])
}

fn rms_norm(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    call.only_first()?;
    let (x, scale) = (call.arg(0)?, call.arg(1)?);
    let rank = ctx.rank(x)?;
    if ctx.axis(call.node.int("axis", -1), rank)? + 1 != rank {
        return refuse("an axis other than the last");
    }
    let attrs = attrs([("eps", Attr::Float(call.node.float("epsilon", 1e-5)))]);
    Ok(vec![ctx.emit(call.name(), "rms_norm", &[x, scale], attrs)?])
}

/// Instance normalisation is group normalisation with a group per channel.
fn group_norm(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let args = [call.arg(0)?, call.arg(1)?, call.arg(2)?];
    let groups = if call.node.proto.op_type == "InstanceNormalization" {
        match ctx.dims(args[0])?.get(1).and_then(|c| c.as_const()) {
            Some(channels) => channels,
            None => return refuse("a symbolic number of channels"),
        }
    } else if ctx.opset >= 21 {
        call.node.int("num_groups", 1)
    } else {
        return refuse("operator set below 21: scale and bias per group, not per channel");
    };
    let attrs = attrs([
        ("groups", Attr::Int(groups)),
        ("eps", Attr::Float(call.node.float("epsilon", 1e-5))),
    ]);
    Ok(vec![ctx.emit(call.name(), "group_norm", &args, attrs)?])
}

fn softmax(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let x = call.arg(0)?;
    let rank = ctx.rank(x)?;
    let op = if call.node.proto.op_type == "Softmax" {
        "softmax"
    } else {
        "log_softmax"
    };
    let along = |axis: usize| attrs([("axis", Attr::Int(axis as i64))]);
    let axis = ctx.axis(call.node.int("axis", if ctx.opset < 13 { 1 } else { -1 }), rank)?;
    // Before operator set 13, all axes from `axis` on are normalised together.
    if ctx.opset >= 13 || axis + 1 == rank {
        return Ok(vec![ctx.emit(call.name(), op, &[x], along(axis))?]);
    }
    let dims = ctx.dims(x)?;
    let matrix = vec![product(&dims[..axis]), product(&dims[axis..])];
    let matrix = ctx.reshape(&call.part("matrix"), x, matrix)?;
    let soft = ctx.emit(&call.part("rows"), op, &[&matrix], along(1))?;
    Ok(vec![ctx.reshape(call.name(), &soft, dims)?])
}
