//! `conv2d`: grouped two-dimensional convolution (cross-correlation), logical NCHW input and OIHW weight.

use super::blas::{Matrix, multiply};
use super::check::{
    Accepts, Reader, arity, attribute_error, dim_is, operand_error, rank_is, result, same_dtype, tensor,
};
use super::lower::{Lowering, View, fitting};
use super::reference::{Checked, checked};
use super::scalar::{compute_type, convert, guarded, index_le, index_lt};
use super::{LayoutRule, LegaliseCall, OpError, Operator};
use crate::annotation::{Annotation, ShapeInfo};
use crate::graph::Attrs;
use crate::program::{LoopKind, Scalar, StageBody, TensorProgram};
use crate::sym::SymExpr;
use crate::tensor::{RefValue, TensorData};

/// The operator.
pub(super) struct Conv2d;

const NAME: &str = "conv2d";

/// The attributes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) strides: [i64; 2],
    /// Top, left, bottom, right.
    pub(super) pads: [i64; 4],
    pub(super) dilations: [i64; 2],
    pub(super) groups: i64,
}

fn window(attrs: &Attrs) -> Result<Window, OpError> {
    let reader = Reader::new(NAME, attrs, &["strides", "pads", "dilations", "groups"])?;
    let groups = reader.int_or("groups", 1)?;
    if groups < 1 {
        return Err(attribute_error(
            NAME,
            "groups",
            format!("expected at least 1, found {groups}"),
        ));
    }
    Ok(Window {
        strides: reader.ints_or("strides", 1, [1; 2])?,
        pads: reader.ints_or("pads", 0, [0; 4])?,
        dilations: reader.ints_or("dilations", 1, [1; 2])?,
        groups,
    })
}

impl Operator for Conv2d {
    fn name(&self) -> &'static str {
        NAME
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(NAME, args.len(), 2..=2)?;
        let w = window(attrs)?;
        let x = tensor(NAME, args, 0, Accepts::Number)?;
        let weight = tensor(NAME, args, 1, Accepts::Number)?;
        let dtype = same_dtype(NAME, &[(0, &x), (1, &weight)])?;
        rank_is(NAME, 0, &x.shape, 4..=4)?;
        rank_is(NAME, 1, &weight.shape, 4..=4)?;
        let (Some([n, c, h, wd]), Some([o, i, kh, kw])) = (x.dims(), weight.dims()) else {
            return Ok(result(ShapeInfo::Rank(4), dtype));
        };
        dim_is(NAME, 0, 1, c, &(i.clone() * SymExpr::constant(w.groups)))?;
        if o.as_const().is_some_and(|o| o % w.groups != 0) {
            let expected = format!("output channels divisible by {} groups", w.groups);
            return Err(operand_error(NAME, 1, expected, o.to_string()));
        }
        let mut dims = vec![n.clone(), o.clone()];
        for (axis, (input, kernel)) in [(h, kh), (wd, kw)].into_iter().enumerate() {
            let dilated = (kernel.clone() - SymExpr::constant(1)) * SymExpr::constant(w.dilations[axis]);
            let slack = input.clone() + SymExpr::constant(w.pads[axis] + w.pads[axis + 2] - 1) - dilated;
            if slack.as_const().is_some_and(|s| s < 0) {
                let expected = format!(
                    "a padded extent of at least the dilated kernel along axis {}",
                    axis + 2
                );
                return Err(operand_error(NAME, 0, expected, input.to_string()));
            }
            dims.push(slack.floor_div(w.strides[axis]) + SymExpr::constant(1));
        }
        Ok(result(ShapeInfo::Known(dims), dtype))
    }
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        let geometry = Geometry::new(&call)?;
        match (&call.args[0].data, &call.args[1].data) {
            (TensorData::Float(x), TensorData::Float(w)) => call.floats(geometry.each(|taps| {
                let products = taps.map(|(i, j)| f64::from(x[i]) * f64::from(w[j]));
                products.sum::<f64>() as f32
            })),
            _ => {
                let (x, w) = (call.int_arg(0)?, call.int_arg(1)?);
                call.ints(
                    geometry
                        .each(|taps| taps.fold(0i64, |s, (i, j)| s.wrapping_add(x[i].wrapping_mul(w[j])))),
                )
            }
        }
    }
    /// One matrix product per image and group: the weight as `[o/groups, c/groups·kh·kw]` by the unfolded image (im2col).
    fn evaluate_fast(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        let (TensorData::Float(x), TensorData::Float(w)) = (&call.args[0].data, &call.args[1].data) else {
            return self.evaluate(args, attrs, eval);
        };
        let g = Geometry::new(&call)?;
        let [images, o, oh, ow] = g.out;
        let [_, cg, kh, kw] = g.weight;
        let (og, depth, places) = (o / g.groups, cg * kh * kw, oh * ow);
        let mut out = vec![0.0; images * o * places];
        let mut columns = vec![0.0; if g.is_pointwise() { 0 } else { depth * places }];
        for (image, group) in (0..images).flat_map(|n| (0..g.groups).map(move |q| (n, q))) {
            let first = (image * g.x[1] + group * cg) * g.x[2] * g.x[3];
            let right = if g.is_pointwise() {
                &x[first..]
            } else {
                g.unfold(&x[first..], &mut columns);
                &columns[..]
            };
            let weight = Matrix::row_major(&w[group * og * depth..], og, depth);
            let block = &mut out[(image * o + group * og) * places..][..og * places];
            multiply(block, weight, Matrix::row_major(right, depth, places));
        }
        call.floats(out)
    }
    fn legalise(&self, call: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        let window = window(call.attrs)?;
        let mut l = Lowering::new(NAME, call, 2..=2)?;
        for (i, view) in l.args.iter().chain([&l.out]).enumerate() {
            rank_is(NAME, i, &ShapeInfo::Rank(view.dims.len()), 4..=4)?;
        }
        let x = pad_input(&mut l, window.pads)?;
        contract(&mut l, &x, window)?;
        l.finish()
    }
    fn layout_rule(&self, _: &[&Annotation], attrs: &Attrs) -> LayoutRule {
        LayoutRule::Conv2d {
            groups: window(attrs).map_or(1, |w| w.groups),
        }
    }
}

/// Copies the input into a workspace with zeros around it, so that the contraction reads without guards. Without padding the
/// input is read where it is.
fn pad_input(l: &mut Lowering<'_>, pads: [i64; 4]) -> Result<View, OpError> {
    let x = l.args[0].clone();
    if pads == [0; 4] {
        return Ok(x);
    }
    let mut dims = x.dims.clone();
    for axis in 0..2 {
        dims[axis + 2] = dims[axis + 2].clone() + SymExpr::constant(pads[axis] + pads[axis + 2]);
    }
    let layout = fitting(&x.layout, &dims);
    let padded = l.workspace("padded", dims, layout, x.dtype)?;
    l.stage(&padded, |nest, index| {
        let mut inside = index.to_vec();
        let mut guards = Vec::new();
        for axis in 0..2 {
            let (before, after) = (pads[axis], pads[axis + 2]);
            let at = &index[axis + 2];
            if before > 0 {
                guards.push(index_le(SymExpr::constant(before), at.clone()));
            }
            if after > 0 {
                guards.push(index_lt(
                    at.clone(),
                    x.dims[axis + 2].clone() + SymExpr::constant(before),
                ));
            }
            inside[axis + 2] = at.clone() - SymExpr::constant(before);
        }
        let zero = Scalar::Const(0.0, x.dtype);
        Ok(StageBody::Map(guarded(
            guards,
            x.load(&inside, &nest.ranges),
            zero,
        )))
    })?;
    Ok(padded)
}

/// The contraction: spatial loops in the result's physical order, then input channels, kernel rows, kernel columns, and innermost
/// the blocks of the input channels.
fn contract(l: &mut Lowering<'_>, x: &View, window: Window) -> Result<(), OpError> {
    let (weight, out) = (l.args[1].clone(), l.out.clone());
    let channels = weight.dims[1].clone();
    // Position of an output channel's group: o // (o/groups).
    let per_group = match (window.groups, out.dims[1].as_const()) {
        (1, _) => None,
        (g, Some(o)) if o % g == 0 => Some(o / g),
        _ => {
            return Err(super::check::unsupported(
                NAME,
                "grouped convolution needs a constant number of output channels",
            ));
        }
    };
    let pieces = channel_blocks(x, &weight);
    l.stage(&out, |nest, index| {
        let group = per_group.map_or_else(SymExpr::zero, |p| index[1].floor_div(p));
        let outer = channels.floor_div(pieces.iter().product());
        let mut channel = match channels.is_const(1) {
            true => SymExpr::zero(),
            false => nest.add(outer, LoopKind::Reduce),
        };
        let kh = nest.add(weight.dims[2].clone(), LoopKind::Reduce);
        let kw = nest.add(weight.dims[3].clone(), LoopKind::Reduce);
        for block in &pieces {
            let lane = nest.add(SymExpr::constant(*block), LoopKind::Reduce);
            channel = channel * SymExpr::constant(*block) + lane;
        }
        let place = |axis: usize, tap: &SymExpr| {
            index[axis + 2].clone() * SymExpr::constant(window.strides[axis])
                + tap.clone() * SymExpr::constant(window.dilations[axis])
        };
        let in_x = [
            index[0].clone(),
            group * channels.clone() + channel.clone(),
            place(0, &kh),
            place(1, &kw),
        ];
        Ok(StageBody::Contract {
            a: x.access(&in_x, &nest.ranges),
            b: weight.access(&[index[1].clone(), channel, kh, kw], &nest.ranges),
            epilogue: convert(Scalar::Reduced, compute_type(out.dtype), out.dtype),
        })
    })
}

/// The inner blocks of the input channels, outermost first: those of the input's layout, or else those of the weight's, if they
/// divide the channels of a group.
fn channel_blocks(x: &View, weight: &View) -> Vec<i64> {
    let blocks = |view: &View| -> Vec<i64> {
        let inner = view.layout.splits().iter().filter(|s| s.axis == 1);
        inner.filter_map(|s| s.factor).map(i64::from).collect()
    };
    let fits = |b: &Vec<i64>| !b.is_empty() && weight.dims[1].modulo(b.iter().product()).is_const(0);
    [blocks(x), blocks(weight)]
        .into_iter()
        .find(fits)
        .unwrap_or_default()
}

/// The extents of a checked call.
struct Geometry {
    x: [usize; 4],
    weight: [usize; 4],
    out: [usize; 4],
    groups: usize,
    window: Window,
}

impl Geometry {
    fn new(call: &Checked<'_>) -> Result<Self, OpError> {
        let four = |shape: &[usize]| <[usize; 4]>::try_from(shape).ok();
        let window = window(&call.attrs)?;
        let shapes = (
            four(&call.args[0].shape),
            four(&call.args[1].shape),
            four(call.shape()),
        );
        match (shapes, usize::try_from(window.groups)) {
            ((Some(x), Some(weight), Some(out)), Ok(groups)) => Ok(Geometry {
                x,
                weight,
                out,
                groups,
                window,
            }),
            _ => Err(super::check::unsupported(NAME, "operands of rank 4 are expected")),
        }
    }
    fn is_pointwise(&self) -> bool {
        let w = &self.window;
        self.weight[2..] == [1, 1] && w.strides == [1, 1] && w.pads == [0; 4]
    }
    /// The input coordinate of an output coordinate and a kernel tap along spatial axis 0 or 1, when it is not padding.
    fn source(&self, axis: usize, out: usize, tap: usize) -> Option<usize> {
        let (stride, dilation) = (self.window.strides[axis], self.window.dilations[axis]);
        let at = out as i64 * stride + tap as i64 * dilation - self.window.pads[axis];
        usize::try_from(at).ok().filter(|i| *i < self.x[axis + 2])
    }
    /// Every element of the result from the flat positions (input, weight) of its taps, padding left out.
    fn each<T>(&self, sum: impl Fn(&mut dyn Iterator<Item = (usize, usize)>) -> T) -> Vec<T> {
        let [images, o, oh, ow] = self.out;
        let [_, cg, kh, kw] = self.weight;
        let [_, c, h, w] = self.x;
        let mut out = Vec::with_capacity(images * o * oh * ow);
        crate::tensor::for_each_index(&self.out, |index| {
            let (n, k, y, x) = (index[0], index[1], index[2], index[3]);
            let group = k / (o / self.groups);
            let taps = (0..cg).flat_map(|i| (0..kh).flat_map(move |r| (0..kw).map(move |s| (i, r, s))));
            let mut pairs = taps.filter_map(|(i, r, s)| {
                let (row, col) = (self.source(0, y, r)?, self.source(1, x, s)?);
                let from = ((n * c + group * cg + i) * h + row) * w + col;
                Some((from, ((k * cg + i) * kh + r) * kw + s))
            });
            out.push(sum(&mut pairs));
        });
        out
    }
    /// Writes the unfolded channels of one group: row (channel, tap), column output place.
    fn unfold(&self, x: &[f32], columns: &mut [f32]) {
        let [_, cg, kh, kw] = self.weight;
        let (h, w, oh, ow) = (self.x[2], self.x[3], self.out[2], self.out[3]);
        let rows = (0..cg).flat_map(|i| (0..kh).flat_map(move |r| (0..kw).map(move |s| (i, r, s))));
        for ((i, r, s), row) in rows.zip(columns.chunks_exact_mut((oh * ow).max(1))) {
            for (y, line) in row.chunks_exact_mut(ow.max(1)).enumerate() {
                let Some(source) = self.source(0, y, r) else {
                    line.fill(0.0);
                    continue;
                };
                let from = &x[(i * h + source) * w..][..w];
                for (place, slot) in line.iter_mut().enumerate() {
                    *slot = self.source(1, place, s).map_or(0.0, |col| from[col]);
                }
            }
        }
    }
}
