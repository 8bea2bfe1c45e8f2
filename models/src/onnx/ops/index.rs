//! Pieces and look-ups: concatenation, slices, splits, gathers, padding, tiling.

use super::Lower;
use crate::onnx::context::{Call, Context, Lowered, Refusal, Value, refuse};
use crate::onnx::host;
use crate::onnx::symbolic::SymVector;
use relayout_ir::annotation::DType;
use relayout_ir::builder::attrs;
use relayout_ir::graph::Attr;
use relayout_ir::sym::{SymExpr, product};

/// The lowering of an operator of this family.
pub(super) fn lowering(op: &str) -> Option<Lower> {
    Some(match op {
        "Concat" => concat,
        "Slice" => slice,
        "Split" => split,
        "Gather" => gather,
        "GatherND" => gather_nd,
        "Pad" => pad,
        "Tile" => tile,
        _ => return None,
    })
}

fn concat(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let args = (0..call.args.len())
        .map(|i| call.arg(i))
        .collect::<Result<Vec<_>, _>>()?;
    if args.iter().any(|a| matches!(a, Value::Sym(_))) {
        let parts: Option<Vec<SymVector>> =
            args.iter().map(|a| ctx.as_sym(a).filter(|v| !v.scalar)).collect();
        let parts = parts.ok_or_else(|| Refusal("a symbolic dimension used as data".to_owned()))?;
        let items = parts.into_iter().flat_map(|v| v.items).collect();
        return Ok(vec![ctx.sym(SymVector::vector(items))]);
    }
    let first = args.first().ok_or_else(|| Refusal("no operands".to_owned()))?;
    let axis = ctx.axis(call.node.int("axis", 0), ctx.rank(first)?)?;
    // Empty pieces contribute nothing.
    let mut kept = Vec::with_capacity(args.len());
    for arg in &args {
        if !ctx.dims(arg)?.get(axis).is_some_and(|d| d.is_const(0)) {
            kept.push(*arg);
        }
    }
    match kept.as_slice() {
        [] => Ok(vec![(*first).clone()]),
        [one] => Ok(vec![(*one).clone()]),
        _ => Ok(vec![ctx.emit(
            call.name(),
            "concat",
            &kept,
            attrs([("axis", Attr::Int(axis as i64))]),
        )?]),
    }
}

/// One axis of a slice with bounds as ONNX writes them.
struct Range {
    axis: usize,
    start: i64,
    end: SymExpr,
    step: i64,
}

fn ranges(ctx: &Context<'_>, call: &Call<'_>, rank: usize) -> Result<Vec<Range>, Refusal> {
    let starts = ctx.ints(call.arg(1)?)?;
    let ends = ctx.shape_of(call.arg(2)?)?;
    let axes = match call.optional(3) {
        Some(a) => ctx
            .ints(a)?
            .iter()
            .map(|a| ctx.axis(*a, rank))
            .collect::<Result<Vec<_>, _>>()?,
        None => (0..starts.len()).collect(),
    };
    let steps = match call.optional(4) {
        Some(s) => ctx.ints(s)?,
        None => vec![1; starts.len()],
    };
    if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
        return refuse("starts, ends, axes and steps of different lengths");
    }
    let parts = starts.into_iter().zip(ends).zip(axes).zip(steps);
    Ok(parts
        .map(|(((start, end), axis), step)| Range {
            axis,
            start,
            end,
            step,
        })
        .collect())
}

/// Begin and end of a forward slice, within the axis.
fn forward(range: &Range, extent: &SymExpr) -> (SymExpr, SymExpr) {
    let place = |v: &SymExpr| match (v.as_const(), extent.as_const()) {
        (Some(v), Some(d)) => SymExpr::from(if v < 0 {
            v.saturating_add(d).max(0)
        } else {
            v.min(d)
        }),
        (Some(v), None) if v < 0 => (extent.clone() + SymExpr::from(v)).maximum(&SymExpr::zero()),
        (Some(v), None) if v > i64::from(i32::MAX) - 1 => extent.clone(),
        _ => v.minimum(extent),
    };
    // A negative offset from a symbolic extent is taken to lie within it, as every exporter means it.
    let within = |v: SymExpr| match v.as_single_atom() {
        Some(relayout_ir::sym::Atom::Max(a, b)) if b.is_const(0) => (**a).clone(),
        Some(relayout_ir::sym::Atom::Max(a, b)) if a.is_const(0) => (**b).clone(),
        _ => v,
    };
    let begin = if range.start == 0 {
        SymExpr::zero()
    } else {
        within(place(&SymExpr::from(range.start)))
    };
    let end = within(place(&range.end));
    // An empty slice begins where it ends.
    let reversed = (end.clone() - begin.clone()).as_const().is_some_and(|l| l < 0);
    (begin.clone(), if reversed { begin } else { end })
}

fn slice(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let mut x = call.arg(0)?.clone();
    let dims = ctx.dims(&x)?;
    let ranges = ranges(ctx, call, dims.len())?;
    if let (Value::Sym(v), [range]) = (&x, ranges.as_slice()) {
        let (begin, end) = forward(range, &v.items.len().into());
        let (Some(b), Some(e), true) = (begin.as_const(), end.as_const(), range.step >= 1) else {
            return refuse("a slice of shape elements that is not known at import");
        };
        let step = usize::try_from(range.step).unwrap_or(usize::MAX);
        let items = v.items.get(b as usize..e as usize).unwrap_or_default();
        return Ok(vec![
            ctx.sym(SymVector::vector(items.iter().step_by(step).cloned().collect())),
        ]);
    }
    let (mut axes, mut begins, mut ends, mut steps) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for range in &ranges {
        let extent = &dims[range.axis];
        if range.step == 0 {
            return refuse("a step of 0");
        }
        if range.step < 0 {
            x = backward(ctx, call, &x, range, extent)?;
            continue;
        }
        let (begin, end) = forward(range, extent);
        if begin.is_const(0) && end == *extent && range.step == 1 {
            continue;
        }
        axes.push(range.axis as i64);
        begins.push(begin);
        ends.push(end);
        steps.push(range.step);
    }
    if axes.is_empty() {
        return Ok(vec![x]);
    }
    let attrs = attrs([
        ("axes", Attr::Ints(axes)),
        ("begin", Attr::Shape(begins)),
        ("end", Attr::Shape(ends)),
        ("steps", Attr::Ints(steps)),
    ]);
    Ok(vec![ctx.emit(call.name(), "slice", &[&x], attrs)?])
}

/// A slice with a negative step: a look-up of the positions that it visits.
fn backward(
    ctx: &mut Context<'_>,
    call: &Call<'_>,
    x: &Value,
    range: &Range,
    extent: &SymExpr,
) -> Result<Value, Refusal> {
    let (Some(d), Some(end)) = (extent.as_const(), range.end.as_const()) else {
        return refuse("a negative step along a symbolic axis");
    };
    if d > 1 << 24 {
        return refuse("a negative step along more than 2^24 elements");
    }
    let place = |v: i64, low: i64| {
        if v < 0 {
            v.saturating_add(d).max(low)
        } else {
            v.min(d - 1)
        }
    };
    let (start, end) = (place(range.start, -1), place(end, -1));
    let mut indices = Vec::new();
    let mut at = start;
    while at > end {
        indices.push(at);
        at = at.saturating_add(range.step);
    }
    ctx.take_constant(
        &call.part(&format!("reversed{}", range.axis)),
        x,
        range.axis,
        indices,
    )
}

fn split(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let x = call.arg(0)?;
    let dims = ctx.dims(x)?;
    let axis = ctx.axis(call.node.int("axis", 0), dims.len())?;
    let count = call.node.proto.output.len();
    let sizes: Vec<SymExpr> = match (call.optional(1), call.node.ints("split")) {
        (Some(v), _) => ctx.shape_of(v)?,
        (None, Some(s)) => s.iter().map(|s| SymExpr::from(*s)).collect(),
        (None, None) => {
            let Some(extent) = dims[axis].as_const() else {
                return refuse("an even split of a symbolic axis");
            };
            let parts = count.max(1) as i64;
            if call.node.int("num_outputs", parts) != parts {
                return refuse(format!("num_outputs other than the {parts} results"));
            }
            // Equal parts, the last one smaller if need be.
            let part = extent.saturating_add(parts - 1) / parts;
            (0..parts)
                .map(|i| {
                    SymExpr::from(
                        extent
                            .saturating_sub(i.saturating_mul(part))
                            .clamp(0, part.max(0)),
                    )
                })
                .collect()
        }
    };
    if sizes.len() != count {
        return refuse(format!("{} parts for {count} results", sizes.len()));
    }
    if let ([one], true) = (sizes.as_slice(), count == 1)
        && *one == dims[axis]
    {
        return Ok(vec![x.clone()]);
    }
    if let Value::Host(_) = x {
        let mut at = 0;
        let mut parts = Vec::with_capacity(count);
        for size in &sizes {
            let size = size.as_const().unwrap_or(0);
            parts.push(ctx.slice_axis(call.name(), x, axis, at, SymExpr::from(at.saturating_add(size)))?);
            at = at.saturating_add(size);
        }
        return Ok(parts);
    }
    let attrs = attrs([("axis", Attr::Int(axis as i64)), ("sizes", Attr::Shape(sizes))]);
    let Value::Ir(bundle) = ctx.emit(&call.part("parts"), "split", &[x], attrs)? else {
        return refuse("a split that was folded");
    };
    let outputs = call.node.proto.output.iter().enumerate();
    outputs
        .map(|(i, name)| {
            let name = if name.is_empty() { "unused" } else { name };
            Ok(Value::Ir(ctx.builder.tuple_get(name, bundle, i)?))
        })
        .collect()
}

fn gather(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let (x, indices) = (call.arg(0)?, call.arg(1)?);
    let dims = ctx.dims(x)?;
    let axis = ctx.axis(call.node.int("axis", 0), dims.len())?;
    if let (Value::Sym(v), Ok(at)) = (x, ctx.ints(indices)) {
        let length = v.items.len() as i64;
        let item = |i: &i64| {
            let i = if *i < 0 { *i + length } else { *i };
            usize::try_from(i).ok().and_then(|i| v.items.get(i)).cloned()
        };
        let items: Option<Vec<SymExpr>> = at.iter().map(item).collect();
        let scalar = ctx.rank(indices)? == 0;
        return match items {
            Some(items) if ctx.rank(indices)? <= 1 => Ok(vec![ctx.sym(SymVector { items, scalar })]),
            _ => refuse("an index beyond the shape"),
        };
    }
    // One known position is a slice: no look-up, and possibly no copy.
    if let (Value::Host(t), Some(extent)) = (indices, dims[axis].as_const())
        && t.shape.is_empty()
        && !matches!(x, Value::Host(_))
    {
        let at = ctx.ints(indices)?.first().copied().unwrap_or(0);
        let at = if at < 0 { at + extent } else { at };
        if at < 0 || at >= extent {
            return refuse(format!("index {at} of an axis of extent {extent}"));
        }
        let piece = ctx.slice_axis(&call.part("piece"), x, axis, at, SymExpr::from(at + 1))?;
        return Ok(vec![ctx.squeeze(call.name(), &piece, &[axis])?]);
    }
    Ok(vec![ctx.emit(
        call.name(),
        "take",
        &[x, indices],
        attrs([("axis", Attr::Int(axis as i64))]),
    )?])
}

/// Tuples of indices become offsets into the indexed axes laid flat, for one look-up.
fn gather_nd(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    if call.node.flag("batch_dims") {
        return refuse("batch_dims above 0");
    }
    let (data, indices) = (call.arg(0)?, call.arg(1)?);
    let dims = ctx.dims(data)?;
    let shape = ctx.extents(indices)?;
    let Some((depth, outer)) = shape.split_last() else {
        return refuse("a scalar index");
    };
    let depth = usize::try_from(*depth).unwrap_or(0);
    if depth == 0 || depth > dims.len() {
        return refuse(format!("{depth} indices into a rank-{} operand", dims.len()));
    }
    let indexed = dims[..depth]
        .iter()
        .map(|d| d.as_const())
        .collect::<Option<Vec<i64>>>()
        .ok_or_else(|| Refusal("indices into symbolic axes".to_owned()))?;
    let outer: Vec<usize> = outer.iter().map(|d| usize::try_from(*d).unwrap_or(0)).collect();
    let offsets = if indexed.iter().min() == Some(&1) && matches!(indices, Value::Weight(_)) {
        // A drawn index stays below the smallest axis it indexes, here 1: it is 0.
        let count = host::elements(&outer).unwrap_or(0);
        ctx.host(host::integers(outer, DType::I64, vec![0; count]))
    } else {
        offsets(ctx, call, indices, &indexed, outer.len())?
    };
    let mut flat = vec![product(&dims[..depth])];
    flat.extend_from_slice(&dims[depth..]);
    let flat = ctx.reshape(&call.part("flat"), data, flat)?;
    Ok(vec![ctx.emit(
        call.name(),
        "take",
        &[&flat, &offsets],
        attrs([("axis", Attr::Int(0))]),
    )?])
}

/// Σ index_j · stride_j over the last axis, negative indices counting from the end.
fn offsets(
    ctx: &mut Context<'_>,
    call: &Call<'_>,
    indices: &Value,
    indexed: &[i64],
    last: usize,
) -> Result<Value, Refusal> {
    let dtype = ctx.dtype(indices)?;
    let drawn = matches!(indices, Value::Weight(_));
    let mut sum: Option<Value> = None;
    for (j, extent) in indexed.iter().enumerate() {
        let name = call.part(&format!("index{j}"));
        let piece = ctx.slice_axis(&name, indices, last, j as i64, SymExpr::from(j as i64 + 1))?;
        let mut index = ctx.squeeze(&name, &piece, &[last])?;
        if !drawn {
            let (zero, extent) = (
                ctx.scalar(0.0, dtype),
                ctx.host(host::integers(Vec::new(), dtype, vec![*extent])),
            );
            let negative = ctx.plain(&name, "less", &[&index, &zero])?;
            let wrapped = ctx.plain(&name, "add", &[&index, &extent])?;
            index = ctx.plain(&name, "where", &[&negative, &wrapped, &index])?;
        }
        let stride = indexed[j + 1..]
            .iter()
            .try_fold(1i64, |acc, d| acc.checked_mul(*d));
        let stride = stride.ok_or_else(|| Refusal("indexed axes beyond 2^63 elements".to_owned()))?;
        if stride != 1 {
            let stride = ctx.host(host::integers(Vec::new(), dtype, vec![stride]));
            index = ctx.plain(&name, "mul", &[&index, &stride])?;
        }
        sum = Some(match sum {
            None => index,
            Some(acc) => ctx.plain(&name, "add", &[&acc, &index])?,
        });
    }
    sum.ok_or_else(|| Refusal("no indices".to_owned()))
}

fn pad(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let x = call.arg(0)?;
    let rank = ctx.rank(x)?;
    let amounts = ctx.ints(call.arg(1)?)?;
    let axes = match call.optional(3) {
        Some(a) => ctx
            .ints(a)?
            .iter()
            .map(|a| ctx.axis(*a, rank))
            .collect::<Result<Vec<_>, _>>()?,
        None => (0..rank).collect(),
    };
    if amounts.len() != 2 * axes.len() {
        return refuse(format!(
            "{} amounts of padding for {} axes",
            amounts.len(),
            axes.len()
        ));
    }
    let (mut begin, mut end) = (vec![0; rank], vec![0; rank]);
    for (i, axis) in axes.iter().enumerate() {
        (begin[*axis], end[*axis]) = (amounts[i], amounts[axes.len() + i]);
    }
    if begin.iter().chain(&end).all(|p| *p == 0) {
        return Ok(vec![x.clone()]);
    }
    if begin.iter().chain(&end).any(|p| *p < 0) {
        return refuse(format!("negative padding {amounts:?}"));
    }
    let mode = call.node.text("mode", "constant");
    if mode == "constant" {
        let value = match call.optional(2) {
            None => 0.0,
            Some(v) => match ctx.host_floats(v) {
                Ok(f) => f64::from(f.first().copied().unwrap_or(0.0)),
                Err(_) => ctx.ints(v)?.first().copied().unwrap_or(0) as f64,
            },
        };
        let attrs = attrs([
            ("pads_begin", Attr::Ints(begin)),
            ("pads_end", Attr::Ints(end)),
            ("value", Attr::Float(value)),
        ]);
        return Ok(vec![ctx.emit(call.name(), "pad", &[x], attrs)?]);
    }
    let mut y = x.clone();
    for axis in 0..rank {
        if begin[axis] == 0 && end[axis] == 0 {
            continue;
        }
        let Some(d) = ctx.dims(&y)?[axis].as_const().filter(|d| *d > 0) else {
            return refuse(format!("mode = {mode} along a symbolic or empty axis"));
        };
        if d.saturating_add(begin[axis]).saturating_add(end[axis]) > 1 << 24 {
            return refuse("an axis of more than 2^24 elements");
        }
        let source = |i: i64| match mode.as_str() {
            "edge" => Some(i.clamp(0, d - 1)),
            "wrap" => Some(i.rem_euclid(d)),
            "reflect" if d == 1 => Some(0),
            "reflect" => {
                let period = 2 * (d - 1);
                let m = i.rem_euclid(period);
                Some(m.min(period - m))
            }
            _ => None,
        };
        let indices: Option<Vec<i64>> = (-begin[axis]..d + end[axis]).map(source).collect();
        let Some(indices) = indices else {
            return refuse(format!("mode = {mode}"));
        };
        y = ctx.take_constant(&call.part(&format!("axis{axis}")), &y, axis, indices)?;
    }
    Ok(vec![y])
}

/// Each repeated axis gets a new axis before it, is broadcast along it, and joined with it.
fn tile(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let x = call.arg(0)?;
    let dims = ctx.dims(x)?;
    let repeats = ctx.shape_of(call.arg(1)?)?;
    if repeats.len() != dims.len() {
        return refuse(format!(
            "{} repeats of a rank-{} operand",
            repeats.len(),
            dims.len()
        ));
    }
    let (mut split, mut spread, mut joined) = (Vec::new(), Vec::new(), Vec::new());
    for (d, r) in dims.iter().zip(&repeats) {
        if !r.is_const(1) {
            split.push(SymExpr::constant(1));
            spread.push(r.clone());
        }
        split.push(d.clone());
        spread.push(d.clone());
        joined.push(d.clone() * r.clone());
    }
    let y = ctx.reshape(&call.part("split"), x, split)?;
    let y = ctx.broadcast_to(&call.part("spread"), &y, spread)?;
    Ok(vec![ctx.reshape(call.name(), &y, joined)?])
}
