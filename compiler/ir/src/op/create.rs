//! Operators without operands: `arange`, `full`, `tril_mask`.

use super::check::{Reader, arity, result};
use super::{LayoutRule, OpError, Operator};
use crate::annotation::{Annotation, DType, ShapeInfo};
use crate::graph::Attrs;
use crate::sym::SymExpr;

/// `start, start + 1, …`.
pub(super) struct Arange;
/// One value everywhere.
pub(super) struct Full;
/// True on and below a diagonal: element (i, j) is j ≤ i + offset.
pub(super) struct TrilMask;

impl Arange {
    fn attributes(attrs: &Attrs) -> Result<(&SymExpr, i64, DType), OpError> {
        let reader = Reader::new("arange", attrs, &["n", "start", "dtype"])?;
        Ok((
            reader.dim("n")?,
            reader.int_or("start", 0)?,
            reader.dtype("dtype")?,
        ))
    }
}

impl Operator for Arange {
    fn name(&self) -> &'static str {
        "arange"
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name(), args.len(), 0..=0)?;
        let (n, _, dtype) = Self::attributes(attrs)?;
        if dtype == DType::Bool {
            return Err(super::check::attribute_error(
                self.name(),
                "dtype",
                "expected a number type, found bool",
            ));
        }
        Ok(result(ShapeInfo::Known(vec![n.clone()]), Some(dtype)))
    }
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::AbiOnly
    }
}

impl Full {
    fn attributes(attrs: &Attrs) -> Result<(&[SymExpr], f64, DType), OpError> {
        let reader = Reader::new("full", attrs, &["shape", "value", "dtype"])?;
        Ok((
            reader.shape("shape")?,
            reader.float("value")?,
            reader.dtype("dtype")?,
        ))
    }
}

impl Operator for Full {
    fn name(&self) -> &'static str {
        "full"
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name(), args.len(), 0..=0)?;
        let (shape, _, dtype) = Self::attributes(attrs)?;
        Ok(result(ShapeInfo::Known(shape.to_vec()), Some(dtype)))
    }
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::Elementwise
    }
}

impl TrilMask {
    fn attributes(attrs: &Attrs) -> Result<[&SymExpr; 3], OpError> {
        let reader = Reader::new("tril_mask", attrs, &["rows", "cols", "offset"])?;
        Ok([reader.dim("rows")?, reader.dim("cols")?, reader.dim("offset")?])
    }
}

impl Operator for TrilMask {
    fn name(&self) -> &'static str {
        "tril_mask"
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name(), args.len(), 0..=0)?;
        let [rows, cols, _] = Self::attributes(attrs)?;
        Ok(result(
            ShapeInfo::Known(vec![rows.clone(), cols.clone()]),
            Some(DType::Bool),
        ))
    }
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::Elementwise
    }
}
