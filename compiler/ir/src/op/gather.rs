//! Look-ups: `take` (by data) and `resize2d` (by position).

use super::check::{Accepts, Reader, arity, rank_is, result, tensor};
use super::lower::Lowering;
use super::reference::{around_axis, checked, value};
use super::scalar::convert;
use super::{LayoutRule, LegaliseCall, OpError, Operator};
use crate::annotation::{Annotation, DType, ShapeInfo};
use crate::graph::Attrs;
use crate::program::TensorProgram;
use crate::sym::SymExpr;
use crate::tensor::RefValue;

/// Elements of `data` along an axis, at `indices`. Negative indices count from the end; others out of range are clamped.
pub(super) struct Take;
/// Enlargement of the last two axes of NCHW by integer factors.
pub(super) struct Resize2d;

impl Take {
    fn axis(attrs: &Attrs, rank: Option<usize>) -> Result<usize, OpError> {
        Reader::new("take", attrs, &["axis"])?.axis("axis", rank)
    }
}

impl Operator for Take {
    fn name(&self) -> &'static str {
        "take"
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name(), args.len(), 2..=2)?;
        let data = tensor(self.name(), args, 0, Accepts::Any)?;
        let indices = tensor(self.name(), args, 1, Accepts::Integer)?;
        let axis = Self::axis(attrs, data.shape.rank())?;
        let shape = match (&data.shape, &indices.shape) {
            (ShapeInfo::Known(d), ShapeInfo::Known(i)) => {
                ShapeInfo::Known([&d[..axis], i, &d[axis + 1..]].concat())
            }
            (d, i) => match (d.rank(), i.rank()) {
                (Some(d), Some(i)) => ShapeInfo::Rank(d - 1 + i),
                _ => ShapeInfo::Unknown,
            },
        };
        Ok(result(shape, data.dtype))
    }
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        let (data, indices) = (call.args[0], call.int_arg(1)?);
        let axis = Self::axis(&call.attrs, Some(data.shape.len()))?;
        let (_, extent, inner) = around_axis(&data.shape, axis);
        if extent == 0 && !indices.is_empty() {
            let expected = format!("elements along axis {axis}");
            return Err(super::check::operand_error(self.name(), 0, expected, "none"));
        }
        let rank = call.args[1].shape.len();
        let (own, of_indices) = (
            crate::tensor::strides(&data.shape),
            crate::tensor::strides(&call.args[1].shape),
        );
        let dot = |a: &[usize], b: &[usize]| a.iter().zip(b).map(|(i, s)| i * s).sum::<usize>();
        let place = |index: &[usize]| {
            let position = indices[dot(&index[axis..axis + rank], &of_indices)];
            let wrapped = if position < 0 {
                position.saturating_add(extent as i64)
            } else {
                position
            };
            let row = wrapped.clamp(0, extent as i64 - 1) as usize;
            Some(dot(&index[..axis], &own) + row * inner + dot(&index[axis + rank..], &own[axis + 1..]))
        };
        Ok(value(data.rearranged(call.shape().to_vec(), 0.0, place)))
    }
    fn legalise(&self, call: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        let lowering = Lowering::new(self.name(), call, 2..=2)?;
        let axis = Self::axis(call.attrs, Some(lowering.args[0].dims.len()))?;
        lowering.map(|l, nest, index| {
            let (data, indices) = (&l.args[0], &l.args[1]);
            let after = axis + indices.dims.len();
            let position = indices.load(&index[axis..after], &nest.ranges);
            let position = convert(position, indices.dtype, DType::I64);
            let own = [&index[..axis], &[SymExpr::zero()], &index[after..]].concat();
            data.gather(self.name(), &own, axis, position, &nest.ranges)
        })
    }
    fn layout_rule(&self, _: &[&Annotation], attrs: &Attrs) -> LayoutRule {
        match Self::axis(attrs, None).ok().and_then(|a| u8::try_from(a).ok()) {
            Some(axis) => LayoutRule::AxisPieces(axis),
            None => LayoutRule::AbiOnly,
        }
    }
}

impl Resize2d {
    fn scales(attrs: &Attrs) -> Result<[i64; 2], OpError> {
        let reader = Reader::new("resize2d", attrs, &["scales", "mode"])?;
        reader.word("mode", &["nearest"])?;
        reader.ints_n("scales", 1)
    }
}

impl Operator for Resize2d {
    fn name(&self) -> &'static str {
        "resize2d"
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name(), args.len(), 1..=1)?;
        let x = tensor(self.name(), args, 0, Accepts::Any)?;
        let [sh, sw] = Self::scales(attrs)?.map(SymExpr::constant);
        rank_is(self.name(), 0, &x.shape, 4..=4)?;
        let shape = match x.dims() {
            Some([n, c, h, w]) => {
                ShapeInfo::Known(vec![n.clone(), c.clone(), h.clone() * sh, w.clone() * sw])
            }
            _ => ShapeInfo::Rank(4),
        };
        Ok(result(shape, x.dtype))
    }
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        let [sh, sw] = Self::scales(&call.attrs)?.map(|s| s as usize);
        let x = call.args[0];
        let (c, h, w) = (x.shape[1], x.shape[2], x.shape[3]);
        let place = |i: &[usize]| Some(((i[0] * c + i[1]) * h + i[2] / sh) * w + i[3] / sw);
        Ok(value(x.rearranged(call.shape().to_vec(), 0.0, place)))
    }
    fn legalise(&self, call: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        let scales = Self::scales(call.attrs)?;
        Lowering::new(self.name(), call, 1..=1)?.map(|l, nest, index| {
            rank_is(self.name(), 0, &ShapeInfo::Rank(index.len()), 4..=4)?;
            let mut own = index.to_vec();
            for (axis, scale) in scales.iter().enumerate() {
                own[axis + 2] = own[axis + 2].floor_div(*scale);
            }
            Ok(l.args[0].load(&own, &nest.ranges))
        })
    }
    /// Like a pooling: channels and batch in any layout, spatial axes looked up.
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::Pool2d
    }
}
