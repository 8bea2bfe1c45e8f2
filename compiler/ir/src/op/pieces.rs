//! Operators that take tensors apart and put them together along axes: `concat`, `slice`, `split`, `pad`.

use super::check::{
    Accepts, Reader, arity, attribute_error, differ, dim_is, operand_error, result, same_dtype, tensor,
};
use super::{LayoutRule, OpError, Operator};
use crate::annotation::{Annotation, ShapeInfo, TensorInfo};
use crate::graph::Attrs;
use crate::sym::SymExpr;

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
