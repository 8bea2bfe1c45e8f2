//! Look-ups: `take` (by data) and `resize2d` (by position).

use super::check::{Accepts, Reader, arity, rank_is, result, tensor};
use super::{LayoutRule, OpError, Operator};
use crate::annotation::{Annotation, ShapeInfo};
use crate::graph::Attrs;
use crate::sym::SymExpr;

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
    /// Like a pooling: channels and batch in any layout, spatial axes looked up.
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::Pool2d
    }
}
