//! `cast` and `where`: elementwise operators that change or choose.

use super::check::{Accepts, Reader, arity, broadcast, result, same_dtype, tensor};
use super::{LayoutRule, OpError, Operator};
use crate::annotation::Annotation;
use crate::graph::Attrs;

/// `cast`: conversion to another element type.
pub(super) struct Cast;
/// `where`: elementwise choice.
pub(super) struct Where;

impl Operator for Cast {
    fn name(&self) -> &'static str {
        "cast"
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name(), args.len(), 1..=1)?;
        let x = tensor(self.name(), args, 0, Accepts::Any)?;
        let dtype = Reader::new(self.name(), attrs, &["dtype"])?.dtype("dtype")?;
        Ok(result(x.shape, Some(dtype)))
    }
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::Elementwise
    }
}

impl Operator for Where {
    fn name(&self) -> &'static str {
        "where"
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name(), args.len(), 3..=3)?;
        Reader::new(self.name(), attrs, &[])?;
        let condition = tensor(self.name(), args, 0, Accepts::Bool)?;
        let a = tensor(self.name(), args, 1, Accepts::Any)?;
        let b = tensor(self.name(), args, 2, Accepts::Any)?;
        let dtype = same_dtype(self.name(), &[(1, &a), (2, &b)])?;
        let shapes = [(0, &condition.shape), (1, &a.shape), (2, &b.shape)];
        Ok(result(broadcast(self.name(), &shapes)?, dtype))
    }
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::Elementwise
    }
}
