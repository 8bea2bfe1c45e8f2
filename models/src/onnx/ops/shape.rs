//! Shapes and what changes them without moving elements.

use super::Lower;
use crate::onnx::context::{Call, Context, Lowered, Refusal, Value, refuse};
use crate::onnx::symbolic::{SymVector, divide_exact};
use relayout_ir::builder::attrs;
use relayout_ir::graph::Attr;
use relayout_ir::sym::{SymExpr, product};

/// The lowering of an operator of this family.
pub(super) fn lowering(op: &str) -> Option<Lower> {
    Some(match op {
        "Shape" => shape,
        "Size" => size,
        "Reshape" => reshape,
        "Flatten" => flatten,
        "Squeeze" => squeeze,
        "Unsqueeze" => unsqueeze,
        "Transpose" => transpose,
        "Expand" => expand,
        "DepthToSpace" => depth_to_space,
        "SpaceToDepth" => space_to_depth,
        _ => return None,
    })
}

fn shape(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let dims = ctx.dims(call.arg(0)?)?;
    let rank = dims.len() as i64;
    let clamp = |v: i64| if v < 0 { (v + rank).max(0) } else { v.min(rank) } as usize;
    let (start, end) = (
        clamp(call.node.int("start", 0)),
        clamp(call.node.int("end", rank)),
    );
    let part = dims.get(start..end).unwrap_or_default().to_vec();
    Ok(vec![ctx.sym(SymVector::vector(part))])
}

fn size(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let items = vec![product(&ctx.dims(call.arg(0)?)?)];
    Ok(vec![ctx.sym(SymVector { items, scalar: true })])
}

/// The target of a reshape with 0 (copy) and −1 (what is left) resolved.
fn target(dims: &[SymExpr], given: &[SymExpr], copy_zero: bool) -> Result<Vec<SymExpr>, Refusal> {
    let mut out = Vec::with_capacity(given.len());
    let mut open = None;
    for (i, d) in given.iter().enumerate() {
        match d.as_const() {
            Some(0) if copy_zero => match dims.get(i) {
                Some(d) => out.push(d.clone()),
                None => {
                    return refuse(format!(
                        "dimension {i} is to be copied from a rank-{} operand",
                        dims.len()
                    ));
                }
            },
            Some(-1) if open.is_none() => {
                open = Some(i);
                out.push(SymExpr::constant(1));
            }
            Some(v) if v < 0 => return refuse(format!("the target {given:?}")),
            _ => out.push(d.clone()),
        }
    }
    if let Some(i) = open {
        let (have, rest) = (product(dims), product(&out));
        out[i] = divide_exact(&have, &rest).ok_or_else(|| {
            Refusal(format!(
                "the open dimension of {given:?}: {have} elements by {rest}"
            ))
        })?;
    }
    Ok(out)
}

fn reshape(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let x = call.arg(0)?;
    let given = ctx.shape_of(call.arg(1)?)?;
    let copy_zero = !call.node.flag("allowzero");
    if let Value::Sym(v) = x {
        let scalar = given.is_empty();
        if given.len() <= 1 && (!scalar || v.items.len() == 1) {
            return Ok(vec![ctx.sym(SymVector {
                items: v.items.clone(),
                scalar,
            })]);
        }
    }
    let target = target(&ctx.dims(x)?, &given, copy_zero)?;
    Ok(vec![ctx.reshape(call.name(), x, target)?])
}

fn flatten(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let x = call.arg(0)?;
    let dims = ctx.dims(x)?;
    let axis = call.node.int("axis", 1);
    let axis = if axis == dims.len() as i64 {
        dims.len()
    } else {
        ctx.axis(axis, dims.len())?
    };
    let matrix = vec![product(&dims[..axis]), product(&dims[axis..])];
    Ok(vec![ctx.reshape(call.name(), x, matrix)?])
}

/// Axes from the attribute (before operator set 13) or operand 1.
fn axes_of(ctx: &Context<'_>, call: &Call<'_>, rank: usize) -> Result<Option<Vec<usize>>, Refusal> {
    let given = match (call.optional(1), call.node.ints("axes")) {
        (Some(v), _) => ctx.ints(v)?,
        (None, Some(a)) => a.to_vec(),
        (None, None) => return Ok(None),
    };
    let mut axes = given
        .iter()
        .map(|a| ctx.axis(*a, rank))
        .collect::<Result<Vec<_>, _>>()?;
    axes.sort_unstable();
    axes.dedup();
    Ok(Some(axes))
}

fn squeeze(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let x = call.arg(0)?;
    if let Value::Sym(v) = x {
        if v.items.len() != 1 {
            return refuse("a squeezed axis whose extent is not 1");
        }
        return Ok(vec![ctx.sym(SymVector {
            items: v.items.clone(),
            scalar: true,
        })]);
    }
    let dims = ctx.dims(x)?;
    let axes = match axes_of(ctx, call, dims.len())? {
        Some(axes) => axes,
        None => (0..dims.len()).filter(|i| dims[*i].is_const(1)).collect(),
    };
    Ok(vec![ctx.squeeze(call.name(), x, &axes)?])
}

fn unsqueeze(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let x = call.arg(0)?;
    let given = match (call.optional(1), call.node.ints("axes")) {
        (Some(v), _) => ctx.ints(v)?.len(),
        (None, axes) => axes.map_or(0, <[i64]>::len),
    };
    if let Value::Sym(v) = x {
        if v.scalar && given == 1 {
            return Ok(vec![ctx.sym(SymVector::vector(v.items.clone()))]);
        }
        return refuse("shape arithmetic of more than one axis");
    }
    let axes = axes_of(ctx, call, ctx.rank(x)? + given)?.unwrap_or_default();
    Ok(vec![ctx.expand_dims(call.name(), x, &axes)?])
}

fn transpose(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let x = call.arg(0)?;
    let rank = ctx.rank(x)?;
    let perm = match call.node.ints("perm") {
        Some(perm) => perm.to_vec(),
        None => (0..rank as i64).rev().collect(),
    };
    if perm.iter().enumerate().all(|(i, p)| i as i64 == *p) && perm.len() == rank {
        return Ok(vec![x.clone()]);
    }
    Ok(vec![ctx.emit(
        call.name(),
        "permute",
        &[x],
        attrs([("perm", Attr::Ints(perm))]),
    )?])
}

fn expand(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let x = call.arg(0)?;
    let mut dims = ctx.dims(x)?;
    let mut given = ctx.shape_of(call.arg(1)?)?;
    let one = SymExpr::constant(1);
    while dims.len() < given.len() {
        dims.insert(0, one.clone());
    }
    while given.len() < dims.len() {
        given.insert(0, one.clone());
    }
    // Both sides broadcast: an extent of 1 on either gives the other's.
    let pair = |(d, g): (&SymExpr, &SymExpr)| if g.is_const(1) { d.clone() } else { g.clone() };
    let target = dims.iter().zip(&given).map(pair).collect();
    Ok(vec![ctx.broadcast_to(call.name(), x, target)?])
}

/// The block size and the four extents of the operand.
fn blocks(ctx: &Context<'_>, call: &Call<'_>) -> Result<(i64, [SymExpr; 4]), Refusal> {
    let block = call.node.int("blocksize", 0);
    if !(1..=1 << 16).contains(&block) {
        return refuse(format!("blocksize = {block}"));
    }
    match <[SymExpr; 4]>::try_from(ctx.dims(call.arg(0)?)?) {
        Ok(dims) => Ok((block, dims)),
        Err(dims) => refuse(format!("a rank-{} operand", dims.len())),
    }
}

fn permuted(
    ctx: &mut Context<'_>,
    call: &Call<'_>,
    split: Vec<SymExpr>,
    perm: [i64; 6],
    joined: Vec<SymExpr>,
) -> Lowered {
    let x = ctx.reshape(&call.part("split"), call.arg(0)?, split)?;
    let x = ctx.emit(
        &call.part("moved"),
        "permute",
        &[&x],
        attrs([("perm", Attr::Ints(perm.to_vec()))]),
    )?;
    Ok(vec![ctx.reshape(call.name(), &x, joined)?])
}

fn depth_to_space(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let (block, [n, c, h, w]) = blocks(ctx, call)?;
    let (b, less) = (SymExpr::from(block), c.floor_div(block * block));
    let (split, perm) = if call.node.text("mode", "DCR") == "DCR" {
        (
            vec![
                n.clone(),
                b.clone(),
                b.clone(),
                less.clone(),
                h.clone(),
                w.clone(),
            ],
            [0, 3, 4, 1, 5, 2],
        )
    } else {
        (
            vec![
                n.clone(),
                less.clone(),
                b.clone(),
                b.clone(),
                h.clone(),
                w.clone(),
            ],
            [0, 1, 4, 2, 5, 3],
        )
    };
    permuted(ctx, call, split, perm, vec![n, less, h * b.clone(), w * b])
}

fn space_to_depth(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let (block, [n, c, h, w]) = blocks(ctx, call)?;
    let (b, hb, wb) = (SymExpr::from(block), h.floor_div(block), w.floor_div(block));
    let split = vec![n.clone(), c.clone(), hb.clone(), b.clone(), wb.clone(), b.clone()];
    permuted(
        ctx,
        call,
        split,
        [0, 3, 5, 1, 2, 4],
        vec![n, c * b.clone() * b, hb, wb],
    )
}
