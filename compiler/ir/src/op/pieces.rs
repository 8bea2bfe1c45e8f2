//! Operators that take tensors apart and put them together along axes: `concat`, `slice`, `split`, `pad`.

use super::check::{
    Accepts, Reader, arity, attribute_error, differ, dim_is, operand_error, result, same_dtype, tensor,
};
use super::lower::Lowering;
use super::reference::{checked, value};
use super::scalar::{guarded, index_le, index_lt, select};
use super::{LayoutRule, LegaliseCall, OpError, Operator};
use crate::annotation::{Annotation, ShapeInfo, TensorInfo};
use crate::graph::Attrs;
use crate::program::{Scalar, TensorProgram};
use crate::sym::SymExpr;
use crate::tensor::{RefValue, strides};

/// Tensors one after another along an axis.
pub(super) struct Concat;
/// A strided box.
pub(super) struct Slice;
/// Consecutive pieces along an axis, as a tuple.
pub(super) struct Split;
/// Constant elements around a tensor.
pub(super) struct Pad;

fn one_axis(op: &'static str, attrs: &Attrs, takes: &[&str], rank: Option<usize>) -> Result<usize, OpError> {
    Reader::new(op, attrs, takes)?.axis("axis", rank)
}

fn pieces_rule(axis: Result<usize, OpError>) -> LayoutRule {
    match axis.ok().and_then(|a| u8::try_from(a).ok()) {
        Some(axis) => LayoutRule::AxisPieces(axis),
        None => LayoutRule::AbiOnly,
    }
}

impl Operator for Concat {
    fn name(&self) -> &'static str {
        "concat"
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        let op = self.name();
        arity(op, args.len(), 1..=usize::MAX)?;
        let tensors = (0..args.len())
            .map(|i| tensor(op, args, i, Accepts::Any))
            .collect::<Result<Vec<_>, _>>()?;
        let numbered: Vec<_> = tensors.iter().enumerate().collect();
        let dtype = same_dtype(op, &numbered)?;
        let rank = tensors.iter().find_map(|t| t.shape.rank());
        let axis = one_axis(op, attrs, &["axis"], rank)?;
        let Some(rank) = rank else {
            return Ok(result(ShapeInfo::Unknown, dtype));
        };
        let mut joined: Option<Vec<SymExpr>> = None;
        let mut exact = true;
        for (i, t) in numbered {
            super::check::rank_is(op, i, &t.shape, rank..=rank)?;
            let Some(dims) = t.dims() else {
                exact = false;
                continue;
            };
            let Some(sum) = &mut joined else {
                joined = Some(dims.to_vec());
                continue;
            };
            for (a, (have, d)) in sum.iter_mut().zip(dims).enumerate() {
                if a == axis {
                    *have = have.clone() + d.clone();
                } else {
                    dim_is(op, i, a, d, have)?;
                    exact &= have == d;
                }
            }
        }
        let shape = match joined.filter(|_| exact) {
            Some(dims) => ShapeInfo::Known(dims),
            None => ShapeInfo::Rank(rank),
        };
        Ok(result(shape, dtype))
    }
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        let axis = one_axis(self.name(), &call.attrs, &["axis"], Some(call.shape().len()))?;
        let outer: usize = call.shape()[..axis].iter().product();
        if call.dtype().is_float() {
            let parts = (0..args.len())
                .map(|i| call.float_arg(i))
                .collect::<Result<Vec<_>, _>>()?;
            call.floats(interleave(&parts, outer))
        } else {
            let parts = (0..args.len())
                .map(|i| call.int_arg(i))
                .collect::<Result<Vec<_>, _>>()?;
            call.ints(interleave(&parts, outer))
        }
    }
    fn legalise(&self, call: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        let lowering = Lowering::new(self.name(), call, 1..=usize::MAX)?;
        let axis = one_axis(self.name(), call.attrs, &["axis"], Some(lowering.out.dims.len()))?;
        lowering.map(|l, nest, index| {
            let mut offsets = vec![SymExpr::zero()];
            for x in &l.args {
                offsets.push(offsets[offsets.len() - 1].clone() + x.dims[axis].clone());
            }
            let piece = |k: usize| {
                let mut own = index.to_vec();
                own[axis] = own[axis].clone() - offsets[k].clone();
                l.args[k].load(&own, &nest.ranges)
            };
            let last = l.args.len() - 1;
            Ok((0..last).rev().fold(piece(last), |rest, k| {
                select(
                    index_lt(index[axis].clone(), offsets[k + 1].clone()),
                    piece(k),
                    rest,
                )
            }))
        })
    }
    fn layout_rule(&self, _: &[&Annotation], attrs: &Attrs) -> LayoutRule {
        pieces_rule(one_axis(self.name(), attrs, &["axis"], None))
    }
}

/// One sliced axis: result index i is operand index `begin + i·step`.
#[derive(Clone, Debug)]
struct Range {
    axis: usize,
    begin: SymExpr,
    end: SymExpr,
    step: i64,
}

impl Slice {
    fn ranges(attrs: &Attrs, rank: Option<usize>) -> Result<Vec<Range>, OpError> {
        let op = "slice";
        let reader = Reader::new(op, attrs, &["axes", "begin", "end", "steps"])?;
        let axes = reader.ints("axes")?;
        reader.axes("axes", rank)?;
        let (begin, end) = (reader.shape("begin")?, reader.shape("end")?);
        let ones = vec![1; axes.len()];
        let steps = match attrs.contains_key("steps") {
            true => reader.ints("steps")?,
            false => &ones,
        };
        for (name, len) in [("begin", begin.len()), ("end", end.len()), ("steps", steps.len())] {
            if len != axes.len() {
                let problem = format!("expected one value for each of {} axes, found {len}", axes.len());
                return Err(attribute_error(op, name, problem));
            }
        }
        let mut ranges = Vec::new();
        for (i, axis) in axes.iter().enumerate() {
            if steps[i] < 1 {
                let problem = format!("expected positive steps, found {}", steps[i]);
                return Err(attribute_error(op, "steps", problem));
            }
            ranges.push(Range {
                axis: reader.check_axis("axes", *axis, rank)?,
                begin: begin[i].clone(),
                end: end[i].clone(),
                step: steps[i],
            });
        }
        Ok(ranges)
    }
}

impl Operator for Slice {
    fn name(&self) -> &'static str {
        "slice"
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        let op = self.name();
        arity(op, args.len(), 1..=1)?;
        let x = tensor(op, args, 0, Accepts::Any)?;
        let ranges = Self::ranges(attrs, x.shape.rank())?;
        let Some(dims) = x.dims() else {
            return Ok(result(x.shape, x.dtype));
        };
        let mut dims = dims.to_vec();
        for r in ranges {
            let length = r.end.clone() - r.begin.clone();
            let below = r.begin.as_const().is_some_and(|b| b < 0);
            let reversed = length.as_const().is_some_and(|l| l < 0);
            let beyond = (dims[r.axis].clone() - r.end.clone())
                .as_const()
                .is_some_and(|s| s < 0);
            if below || reversed || beyond {
                let problem = format!(
                    "{}..{} does not lie within axis {} of extent {}",
                    r.begin, r.end, r.axis, dims[r.axis]
                );
                return Err(attribute_error(op, if beyond { "end" } else { "begin" }, problem));
            }
            dims[r.axis] = length.ceil_div(r.step);
        }
        Ok(result(ShapeInfo::Known(dims), x.dtype))
    }
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        let x = call.args[0];
        let own = strides(&x.shape);
        let (mut first, mut steps) = (0, own.clone());
        for r in Self::ranges(&call.attrs, Some(x.shape.len()))? {
            let constant = |e: &SymExpr| e.as_const().and_then(|b| usize::try_from(b).ok());
            let begin =
                constant(&r.begin).ok_or_else(|| attribute_error(self.name(), "begin", "not a constant"))?;
            first += begin * own[r.axis];
            steps[r.axis] *= r.step as usize;
        }
        let place =
            |index: &[usize]| Some(first + index.iter().zip(&steps).map(|(i, s)| i * s).sum::<usize>());
        Ok(value(x.rearranged(call.shape().to_vec(), 0.0, place)))
    }
    fn legalise(&self, call: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        Lowering::new(self.name(), call, 1..=1)?.map(|l, nest, index| {
            let mut own = index.to_vec();
            for r in Self::ranges(call.attrs, Some(own.len()))? {
                own[r.axis] = own[r.axis].clone() * SymExpr::constant(r.step) + r.begin;
            }
            Ok(l.args[0].load(&own, &nest.ranges))
        })
    }
    fn layout_rule(&self, args: &[&Annotation], attrs: &Attrs) -> LayoutRule {
        let rank = args
            .first()
            .and_then(|a| a.as_tensor())
            .and_then(|t| t.shape.rank());
        match Self::ranges(attrs, rank) {
            Ok(ranges) if ranges.len() == 1 => pieces_rule(Ok(ranges[0].axis)),
            _ => LayoutRule::AbiOnly,
        }
    }
}

impl Operator for Split {
    fn name(&self) -> &'static str {
        "split"
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        let op = self.name();
        arity(op, args.len(), 1..=1)?;
        let x = tensor(op, args, 0, Accepts::Any)?;
        let axis = one_axis(op, attrs, &["axis", "sizes"], x.shape.rank())?;
        let sizes = Reader::new(op, attrs, &["axis", "sizes"])?.shape("sizes")?;
        if let Some(dims) = x.dims() {
            let sum = sizes.iter().fold(SymExpr::zero(), |acc, s| acc + s.clone());
            if differ(&sum, &dims[axis]) {
                let problem = format!("sum to {sum}; axis {axis} has extent {}", dims[axis]);
                return Err(attribute_error(op, "sizes", problem));
            }
        }
        let piece = |size: &SymExpr| {
            let shape = match x.dims() {
                Some(dims) => {
                    let mut dims = dims.to_vec();
                    dims[axis] = size.clone();
                    ShapeInfo::Known(dims)
                }
                None => x.shape.clone(),
            };
            result(shape, x.dtype)
        };
        Ok(Annotation::Tuple(sizes.iter().map(piece).collect()))
    }
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        let x = call.args[0];
        let axis = one_axis(self.name(), &call.attrs, &["axis", "sizes"], Some(x.shape.len()))?;
        let (own, mut begin) = (strides(&x.shape), 0);
        let mut pieces = Vec::new();
        for (shape, _) in &call.outs {
            let first = begin * own[axis];
            let place =
                |index: &[usize]| Some(first + index.iter().zip(&own).map(|(i, s)| i * s).sum::<usize>());
            pieces.push(value(x.rearranged(shape.clone(), 0.0, place)));
            begin += shape[axis];
        }
        Ok(RefValue::Tuple(pieces))
    }
    /// A program has one output and a split has several: it is rewritten into slices before legalisation.
    fn legalise(&self, _: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        Err(super::check::unsupported(
            self.name(),
            "a tensor program has one output; rewrite the split into slices first",
        ))
    }
    fn layout_rule(&self, _: &[&Annotation], attrs: &Attrs) -> LayoutRule {
        pieces_rule(one_axis(self.name(), attrs, &["axis", "sizes"], None))
    }
}

impl Pad {
    fn attributes(attrs: &Attrs) -> Result<(&[i64], &[i64], f64), OpError> {
        let op = "pad";
        let reader = Reader::new(op, attrs, &["pads_begin", "pads_end", "value"])?;
        let (begin, end) = (reader.ints("pads_begin")?, reader.ints("pads_end")?);
        for (name, pads) in [("pads_begin", begin), ("pads_end", end)] {
            if pads.iter().any(|p| *p < 0) || pads.len() != begin.len() {
                let problem = format!("expected {} amounts of at least 0, found {pads:?}", begin.len());
                return Err(attribute_error(op, name, problem));
            }
        }
        Ok((begin, end, reader.float("value")?))
    }
    fn padded(x: &TensorInfo, begin: &[i64], end: &[i64]) -> ShapeInfo {
        let Some(dims) = x.dims() else {
            return ShapeInfo::Rank(begin.len());
        };
        let dims = dims.iter().zip(begin.iter().zip(end));
        ShapeInfo::Known(
            dims.map(|(d, (b, e))| d.clone() + SymExpr::constant(b + e))
                .collect(),
        )
    }
}

impl Operator for Pad {
    fn name(&self) -> &'static str {
        "pad"
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name(), args.len(), 1..=1)?;
        let x = tensor(self.name(), args, 0, Accepts::Any)?;
        let (begin, end, _) = Self::attributes(attrs)?;
        if let Some(rank) = x.shape.rank().filter(|r| *r != begin.len()) {
            let expected = format!("rank {} (one amount of padding per axis)", begin.len());
            return Err(operand_error(self.name(), 0, expected, format!("rank {rank}")));
        }
        Ok(result(Self::padded(&x, begin, end), x.dtype))
    }
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        let x = call.args[0];
        let (begin, _, fill) = Self::attributes(&call.attrs)?;
        let own = strides(&x.shape);
        let place = |index: &[usize]| {
            let mut at = 0;
            for (axis, i) in index.iter().enumerate() {
                let inside = i
                    .checked_sub(begin[axis] as usize)
                    .filter(|i| *i < x.shape[axis])?;
                at += inside * own[axis];
            }
            Some(at)
        };
        Ok(value(x.rearranged(call.shape().to_vec(), fill, place)))
    }
    fn legalise(&self, call: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        let (begin, end, fill) = Self::attributes(call.attrs)?;
        Lowering::new(self.name(), call, 1..=1)?.map(|l, nest, index| {
            let x = &l.args[0];
            super::check::rank_is(
                self.name(),
                0,
                &ShapeInfo::Rank(x.dims.len()),
                begin.len()..=begin.len(),
            )?;
            let mut own = index.to_vec();
            let mut guards = Vec::new();
            for (axis, at) in index.iter().enumerate() {
                let before = SymExpr::constant(begin[axis]);
                if begin[axis] > 0 {
                    guards.push(index_le(before.clone(), at.clone()));
                }
                if end[axis] > 0 {
                    guards.push(index_lt(at.clone(), x.dims[axis].clone() + before.clone()));
                }
                own[axis] = at.clone() - before;
            }
            let outside = Scalar::Const(fill, x.dtype);
            Ok(guarded(guards, x.load(&own, &nest.ranges), outside))
        })
    }
    fn layout_rule(&self, _: &[&Annotation], attrs: &Attrs) -> LayoutRule {
        let Ok((begin, end, _)) = Self::attributes(attrs) else {
            return LayoutRule::AbiOnly;
        };
        let mut padded = (0..begin.len()).filter(|i| begin[*i] + end[*i] > 0);
        match (padded.next(), padded.next()) {
            (Some(axis), None) => pieces_rule(Ok(axis)),
            _ => LayoutRule::AbiOnly,
        }
    }
}

/// Parts with a common number of outer rows, joined row by row.
fn interleave<T: Copy>(parts: &[&[T]], outer: usize) -> Vec<T> {
    let mut out = Vec::with_capacity(parts.iter().map(|p| p.len()).sum());
    for row in 0..outer {
        for part in parts {
            let length = part.len() / outer;
            out.extend_from_slice(&part[row * length..][..length]);
        }
    }
    out
}
