//! `cumsum` and `argmax`: operators along one axis.

use super::check::{Accepts, Reader, arity, as_u8, result, tensor};
use super::reduce::reduced;
use super::{LayoutRule, OpError, Operator};
use crate::annotation::{Annotation, DType};
use crate::graph::Attrs;

/// Running sum along an axis.
pub(super) struct Cumsum;
/// Position of the first largest element along an axis.
pub(super) struct Argmax;

impl Operator for Cumsum {
    fn name(&self) -> &'static str {
        "cumsum"
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name(), args.len(), 1..=1)?;
        let x = tensor(self.name(), args, 0, Accepts::Number)?;
        Reader::new(self.name(), attrs, &["axis"])?.axis("axis", x.shape.rank())?;
        Ok(result(x.shape, x.dtype))
    }
    fn layout_rule(&self, _: &[&Annotation], attrs: &Attrs) -> LayoutRule {
        match Reader::new(self.name(), attrs, &["axis"]).and_then(|r| r.axis("axis", None)) {
            Ok(axis) => LayoutRule::AlongAxes(as_u8(&[axis])),
            Err(_) => LayoutRule::AbiOnly,
        }
    }
}

impl Argmax {
    fn axis(&self, attrs: &Attrs, rank: Option<usize>) -> Result<(usize, bool), OpError> {
        let reader = Reader::new("argmax", attrs, &["axis", "keepdims"])?;
        Ok((reader.axis("axis", rank)?, reader.flag("keepdims")?))
    }
}

impl Operator for Argmax {
    fn name(&self) -> &'static str {
        "argmax"
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name(), args.len(), 1..=1)?;
        let x = tensor(self.name(), args, 0, Accepts::Number)?;
        let (axis, keep) = self.axis(attrs, x.shape.rank())?;
        Ok(result(reduced(&x.shape, &[axis], keep), Some(DType::I64)))
    }
    fn layout_rule(&self, _: &[&Annotation], attrs: &Attrs) -> LayoutRule {
        match self.axis(attrs, None) {
            Ok((axis, keep)) => LayoutRule::Reduce {
                axes: as_u8(&[axis]),
                keep,
            },
            Err(_) => LayoutRule::AbiOnly,
        }
    }
}
