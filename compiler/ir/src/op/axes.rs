//! Operators that reorder, insert, drop or repeat axes: `permute`, `expand_dims`, `squeeze`, `broadcast_to`.

use super::check::{Accepts, Reader, arity, as_u8, attribute_error, dim_is, operand_error, result, tensor};
use super::{LayoutRule, OpError, Operator};
use crate::annotation::{Annotation, ShapeInfo};
use crate::graph::Attrs;
use crate::sym::SymExpr;

/// Result axis i is operand axis `perm[i]`.
pub(super) struct Permute;
/// Inserts axes of extent 1.
pub(super) struct ExpandDims;
/// Drops axes of extent 1.
pub(super) struct Squeeze;
/// Repeats along axes of extent 1 and along new leading axes.
pub(super) struct BroadcastTo;

impl Permute {
    fn perm(attrs: &Attrs) -> Result<Vec<usize>, OpError> {
        let reader = Reader::new("permute", attrs, &["perm"])?;
        let perm = reader.ints("perm")?;
        reader.axes("perm", Some(perm.len()))?;
        perm.iter()
            .map(|p| reader.check_axis("perm", *p, Some(perm.len())))
            .collect()
    }
}

impl Operator for Permute {
    fn name(&self) -> &'static str {
        "permute"
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name(), args.len(), 1..=1)?;
        let x = tensor(self.name(), args, 0, Accepts::Any)?;
        let perm = Self::perm(attrs)?;
        if let Some(rank) = x.shape.rank().filter(|r| *r != perm.len()) {
            let problem = format!("expected a permutation of {rank} axes, found {} axes", perm.len());
            return Err(attribute_error(self.name(), "perm", problem));
        }
        let shape = match x.dims() {
            Some(dims) => ShapeInfo::Known(perm.iter().map(|p| dims[*p].clone()).collect()),
            None => ShapeInfo::Rank(perm.len()),
        };
        Ok(result(shape, x.dtype))
    }
    fn layout_rule(&self, _: &[&Annotation], attrs: &Attrs) -> LayoutRule {
        Self::perm(attrs).map_or(LayoutRule::AbiOnly, |p| LayoutRule::Permute(as_u8(&p)))
    }
}

/// The axes attribute of `expand_dims` or `squeeze`, ascending.
fn axes_of(op: &'static str, attrs: &Attrs, rank: Option<usize>) -> Result<Vec<usize>, OpError> {
    Reader::new(op, attrs, &["axes"])?.axes("axes", rank)
}

impl Operator for ExpandDims {
    fn name(&self) -> &'static str {
        "expand_dims"
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name(), args.len(), 1..=1)?;
        let x = tensor(self.name(), args, 0, Accepts::Any)?;
        let count = axes_of(self.name(), attrs, None)?.len();
        let rank = x.shape.rank().map(|r| r + count);
        let axes = axes_of(self.name(), attrs, rank)?;
        let shape = match (x.dims(), rank) {
            (Some(dims), Some(rank)) => {
                let mut rest = dims.iter().cloned();
                let at = |i: usize| match axes.contains(&i) {
                    true => Some(SymExpr::constant(1)),
                    false => rest.next(),
                };
                ShapeInfo::Known((0..rank).filter_map(at).collect())
            }
            (None, Some(rank)) => ShapeInfo::Rank(rank),
            _ => ShapeInfo::Unknown,
        };
        Ok(result(shape, x.dtype))
    }
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::Reshape
    }
}

impl Operator for Squeeze {
    fn name(&self) -> &'static str {
        "squeeze"
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name(), args.len(), 1..=1)?;
        let x = tensor(self.name(), args, 0, Accepts::Any)?;
        let axes = axes_of(self.name(), attrs, x.shape.rank())?;
        if let Some(dims) = x.dims() {
            for axis in &axes {
                dim_is(self.name(), 0, *axis, &dims[*axis], &SymExpr::constant(1))?;
            }
        }
        Ok(result(super::reduce::reduced(&x.shape, &axes, false), x.dtype))
    }
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::Reshape
    }
}

impl Operator for BroadcastTo {
    fn name(&self) -> &'static str {
        "broadcast_to"
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name(), args.len(), 1..=1)?;
        let x = tensor(self.name(), args, 0, Accepts::Any)?;
        let shape = Reader::new(self.name(), attrs, &["shape"])?.shape("shape")?;
        if let Some(rank) = x.shape.rank().filter(|r| *r > shape.len()) {
            let expected = format!("rank at most {}", shape.len());
            return Err(operand_error(self.name(), 0, expected, format!("rank {rank}")));
        }
        if let Some(dims) = x.dims() {
            for (axis, (have, want)) in dims.iter().zip(&shape[shape.len() - dims.len()..]).enumerate() {
                if !have.is_const(1) && have.as_const().is_some() {
                    dim_is(self.name(), 0, axis, have, want)?;
                }
            }
        }
        Ok(result(ShapeInfo::Known(shape.to_vec()), x.dtype))
    }
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::Elementwise
    }
}
