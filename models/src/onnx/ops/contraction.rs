//! Matrix products and convolutions.

use super::Lower;
use super::pool::{pads, spatial};
use crate::onnx::context::{Call, Context, Lowered, Refusal, Value, refuse};
use relayout_ir::builder::attrs;
use relayout_ir::graph::Attr;
use relayout_ir::sym::SymExpr;

/// The lowering of an operator of this family.
pub(super) fn lowering(op: &str) -> Option<Lower> {
    Some(match op {
        "MatMul" => matmul,
        "Gemm" => gemm,
        "Conv" => conv,
        _ => return None,
    })
}

fn product(
    ctx: &mut Context<'_>,
    name: &str,
    (a, b): (&Value, &Value),
    (transpose_a, transpose_b): (bool, bool),
) -> Result<Value, Refusal> {
    let attrs = attrs([
        ("transpose_a", Attr::Bool(transpose_a)),
        ("transpose_b", Attr::Bool(transpose_b)),
    ]);
    ctx.emit(name, "matmul", &[a, b], attrs)
}

/// NumPy's product: a vector on the left is a row, on the right a column, and the added axis leaves the result.
fn matmul(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let (a, b) = (call.arg(0)?.clone(), call.arg(1)?.clone());
    let (row, column) = (ctx.rank(&a)? == 1, ctx.rank(&b)? == 1);
    if !row && !column {
        return Ok(vec![product(ctx, call.name(), (&a, &b), (false, false))?]);
    }
    let a = if row {
        ctx.expand_dims(&call.part("row"), &a, &[0])?
    } else {
        a
    };
    let b = if column {
        ctx.expand_dims(&call.part("column"), &b, &[1])?
    } else {
        b
    };
    let full = product(ctx, &call.part("full"), (&a, &b), (false, false))?;
    let rank = ctx.rank(&full)?;
    let mut axes = Vec::new();
    if row {
        axes.push(rank - 2);
    }
    if column {
        axes.push(rank - 1);
    }
    Ok(vec![ctx.squeeze(call.name(), &full, &axes)?])
}

fn gemm(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let node = call.node;
    let (a, b, c) = (call.arg(0)?, call.arg(1)?, call.optional(2));
    let (alpha, beta) = (node.float("alpha", 1.0) as f32, node.float("beta", 1.0) as f32);
    let bare = alpha == 1.0 && c.is_none();
    let name = if bare {
        call.name().to_owned()
    } else {
        call.part("product")
    };
    let mut y = product(ctx, &name, (a, b), (node.flag("transA"), node.flag("transB")))?;
    let dtype = ctx.dtype(&y)?;
    if alpha != 1.0 {
        let alpha = ctx.scalar(alpha, dtype);
        y = ctx.plain(&call.part("scaled"), "mul", &[&y, &alpha])?;
    }
    if let Some(c) = c.filter(|_| beta != 0.0) {
        let mut c = c.clone();
        if beta != 1.0 {
            let beta = ctx.scalar(beta, dtype);
            c = ctx.plain(&call.part("addend"), "mul", &[&c, &beta])?;
        }
        y = ctx.plain(call.name(), "add", &[&y, &c])?;
    }
    Ok(vec![y])
}

/// One- and two-dimensional convolutions; the former get a height of 1.
fn conv(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let (x, weight) = (call.arg(0)?.clone(), call.arg(1)?.clone());
    let rank = ctx.rank(&x)?;
    let flat = rank == 3;
    if rank != 3 && rank != 4 {
        return refuse(format!(
            "{} spatial axes; supported are 1 and 2",
            rank.saturating_sub(2)
        ));
    }
    if ctx.rank(&weight)? != rank {
        return refuse(format!(
            "a rank-{} weight of a rank-{rank} operand",
            ctx.rank(&weight)?
        ));
    }
    let (x, weight) = if flat {
        (
            ctx.expand_dims(&call.part("image"), &x, &[2])?,
            ctx.expand_dims(&call.part("weight"), &weight, &[2])?,
        )
    } else {
        (x, weight)
    };
    let kernel = ctx.extents(&weight)?;
    let kernel = [kernel[2], kernel[3]];
    let strides = spatial(call.node, "strides", flat, 1)?;
    let dilations = spatial(call.node, "dilations", flat, 1)?;
    let pads = pads(ctx, call.node, &x, flat, (kernel, strides, dilations))?;
    let attrs = attrs([
        ("strides", Attr::Ints(strides.to_vec())),
        ("pads", Attr::Ints(pads.to_vec())),
        ("dilations", Attr::Ints(dilations.to_vec())),
        ("groups", Attr::Int(call.node.int("group", 1))),
    ]);
    let bias = call.optional(2);
    let name = if bias.is_none() && !flat {
        call.name().to_owned()
    } else {
        call.part("conv")
    };
    let mut y = ctx.emit(&name, "conv2d", &[&x, &weight], attrs)?;
    if let Some(bias) = bias {
        let channels = ctx.dims(bias)?;
        let [channels] = channels.as_slice() else {
            return refuse("a bias that is no vector");
        };
        let one = SymExpr::constant(1);
        let along = ctx.reshape(&call.part("bias"), bias, vec![channels.clone(), one.clone(), one])?;
        let name = if flat {
            call.part("sum")
        } else {
            call.name().to_owned()
        };
        y = ctx.plain(&name, "add", &[&y, &along])?;
    }
    if flat {
        y = ctx.squeeze(call.name(), &y, &[2])?;
    }
    Ok(vec![y])
}
