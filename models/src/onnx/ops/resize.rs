//! Resizing of the two spatial axes of images.
//!
//! Nearest-neighbour resizing by whole factors is `resize2d`, by others a look-up per axis. Linear and cubic resizing are separable and
//! linear in the image, so each axis is a product with a constant matrix.

use super::Lower;
use crate::onnx::context::{Call, Context, Lowered, Refusal, Value, refuse};
use crate::onnx::host;
use crate::onnx::node::Node;
use relayout_ir::annotation::DType;
use relayout_ir::builder::attrs;
use relayout_ir::graph::Attr;

/// The lowering of an operator of this family.
pub(super) fn lowering(op: &str) -> Option<Lower> {
    match op {
        "Resize" => Some(resize),
        _ => None,
    }
}

/// One resized axis.
struct Axis {
    from: i64,
    to: i64,
    scale: f32,
}

fn resize(ctx: &mut Context<'_>, call: &Call<'_>) -> Lowered {
    let node = call.node;
    let x = call.arg(0)?.clone();
    let extents = ctx.extents(&x)?;
    let rank = extents.len();
    let axes: Vec<usize> = match node.ints("axes") {
        Some(axes) => axes
            .iter()
            .map(|a| ctx.axis(*a, rank))
            .collect::<Result<_, _>>()?,
        None => (0..rank).collect(),
    };
    let policy = node.text("keep_aspect_ratio_policy", "stretch");
    for (what, found, wanted) in [
        ("antialias", node.flag("antialias"), false),
        ("exclude_outside", node.flag("exclude_outside"), false),
    ] {
        if found != wanted {
            return refuse(format!("{what} = 1"));
        }
    }
    if policy != "stretch" {
        return refuse(format!("keep_aspect_ratio_policy = {policy}"));
    }
    let scales = match call.optional(2) {
        Some(s) => ctx.host_floats(s)?,
        None => Vec::new(),
    };
    let mut resized: Vec<Axis> = extents
        .iter()
        .map(|d| Axis {
            from: *d,
            to: *d,
            scale: 1.0,
        })
        .collect();
    if scales.is_empty() {
        let sizes = ctx.ints(call.arg(3)?)?;
        if sizes.len() != axes.len() {
            return refuse(format!("{} sizes for {} axes", sizes.len(), axes.len()));
        }
        for (axis, to) in axes.iter().zip(sizes) {
            let from = extents[*axis];
            resized[*axis] = Axis {
                from,
                to,
                scale: to as f32 / from as f32,
            };
        }
    } else {
        if scales.len() != axes.len() {
            return refuse(format!("{} scales for {} axes", scales.len(), axes.len()));
        }
        for (axis, scale) in axes.iter().zip(scales) {
            let from = extents[*axis];
            resized[*axis] = Axis {
                from,
                to: (from as f32 * scale).floor() as i64,
                scale,
            };
        }
    }
    if resized
        .iter()
        .any(|a| !(1..=1 << 16).contains(&a.to) || a.from < 1)
    {
        return refuse("an axis that is empty or has more than 2^16 elements");
    }
    let changed: Vec<usize> = (0..rank)
        .filter(|i| resized[*i].from != resized[*i].to || resized[*i].scale != 1.0)
        .collect();
    if changed.is_empty() {
        return Ok(vec![x]);
    }
    match node.text("mode", "nearest").as_str() {
        "nearest" => nearest(ctx, call, x, &resized, &changed),
        mode @ ("linear" | "cubic") => interpolate(ctx, call, x, (&resized, &changed), mode),
        other => refuse(format!("mode = {other}")),
    }
}

/// Where element `i` of the result lies in the operand.
fn source(node: Node<'_>, axis: &Axis, i: i64) -> Result<f32, Refusal> {
    let (x, scale) = (i as f32, axis.scale);
    let (from, to) = (axis.from as f32, axis.to as f32);
    Ok(
        match node.text("coordinate_transformation_mode", "half_pixel").as_str() {
            "half_pixel" => (x + 0.5) / scale - 0.5,
            "pytorch_half_pixel" => {
                if axis.to > 1 {
                    (x + 0.5) / scale - 0.5
                } else {
                    0.0
                }
            }
            "align_corners" => {
                if axis.to > 1 {
                    x * (from - 1.0) / (to - 1.0)
                } else {
                    0.0
                }
            }
            "asymmetric" => x / scale,
            other => return refuse(format!("coordinate_transformation_mode = {other}")),
        },
    )
}

fn nearest(ctx: &mut Context<'_>, call: &Call<'_>, x: Value, resized: &[Axis], changed: &[usize]) -> Lowered {
    let rounding = call.node.text("nearest_mode", "round_prefer_floor");
    let round = |v: f32| match rounding.as_str() {
        "round_prefer_floor" => Some((v - 0.5).ceil()),
        "round_prefer_ceil" => Some((v + 0.5).floor()),
        "floor" => Some(v.floor()),
        "ceil" => Some(v.ceil()),
        _ => None,
    };
    let mut tables = Vec::with_capacity(changed.len());
    for axis in changed {
        let a = &resized[*axis];
        let mut table = Vec::new();
        for i in 0..a.to {
            let Some(at) = round(source(call.node, a, i)?) else {
                return refuse(format!("nearest_mode = {rounding}"));
            };
            table.push((at as i64).clamp(0, a.from - 1));
        }
        tables.push((*axis, table));
    }
    // Whole factors over the last two axes of an image have an operator of their own.
    let whole = |axis: usize, table: &[i64]| {
        let a = &resized[axis];
        let factor = a.to / a.from;
        let even = a.to % a.from == 0
            && table
                .iter()
                .enumerate()
                .all(|(i, at)| *at == i as i64 / factor.max(1));
        even.then_some(factor)
    };
    let factor = |axis: usize| match tables.iter().find(|(a, _)| *a == axis) {
        Some((a, table)) => whole(*a, table),
        None => Some(1),
    };
    if resized.len() == 4
        && changed.iter().all(|a| *a >= 2)
        && let (Some(h), Some(w)) = (factor(2), factor(3))
    {
        let attrs = attrs([
            ("scales", Attr::Ints(vec![h, w])),
            ("mode", Attr::Str("nearest".to_owned())),
        ]);
        return Ok(vec![ctx.emit(call.name(), "resize2d", &[&x], attrs)?]);
    }
    let mut y = x;
    for (axis, table) in tables {
        y = ctx.take_constant(&call.part(&format!("axis{axis}")), &y, axis, table)?;
    }
    Ok(vec![y])
}

/// The weights of the taps around a fractional position: offsets from its floor, and what each is multiplied with.
fn taps(mode: &str, fraction: f32, a: f32) -> Vec<(i64, f32)> {
    if mode == "linear" {
        return vec![(0, 1.0 - fraction), (1, fraction)];
    }
    let near = |t: f32| ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0;
    let far = |t: f32| ((a * t - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a;
    vec![
        (-1, far(1.0 + fraction)),
        (0, near(fraction)),
        (1, near(1.0 - fraction)),
        (2, far(2.0 - fraction)),
    ]
}

/// The matrix `[to, from]` of one axis; taps beyond the edge repeat it.
fn matrix(node: Node<'_>, axis: &Axis, mode: &str) -> Result<Vec<f32>, Refusal> {
    let (from, to) = (axis.from as usize, axis.to as usize);
    if from.saturating_mul(to) > 1 << 24 {
        return refuse("an interpolation matrix of more than 2^24 elements");
    }
    let a = node.float("cubic_coeff_a", -0.75) as f32;
    let mut rows = vec![0.0f32; from * to];
    for i in 0..to {
        let at = source(node, axis, i as i64)?;
        let floor = at.floor();
        for (offset, weight) in taps(mode, at - floor, a) {
            let column = (floor as i64 + offset).clamp(0, axis.from - 1) as usize;
            rows[i * from + column] += weight;
        }
    }
    Ok(rows)
}

fn interpolate(
    ctx: &mut Context<'_>,
    call: &Call<'_>,
    x: Value,
    (resized, changed): (&[Axis], &[usize]),
    mode: &str,
) -> Lowered {
    let rank = resized.len();
    let dtype = ctx.dtype(&x)?;
    if rank < 3 || changed.iter().any(|a| *a + 2 < rank) || !dtype.is_float() {
        return refuse(format!(
            "mode = {mode} along axes other than the last two of a floating-point tensor"
        ));
    }
    let mut y = x;
    for axis in changed {
        let a = &resized[*axis];
        let shape = vec![a.to as usize, a.from as usize];
        let rows = host::floats(shape, DType::F32, matrix(call.node, a, mode)?);
        let rows = ctx.host(rows);
        let rows = ctx.cast(&call.part("weights"), &rows, dtype)?;
        let last = *axis + 1 == rank;
        let attrs = attrs([
            ("transpose_a", Attr::Bool(false)),
            ("transpose_b", Attr::Bool(last)),
        ]);
        let name = call.part(&format!("axis{axis}"));
        // Rows of the matrix combine columns of the image (last axis) or its rows.
        let args = if last { [&y, &rows] } else { [&rows, &y] };
        y = ctx.emit(&name, "matmul", &args, attrs)?;
    }
    Ok(vec![y])
}
