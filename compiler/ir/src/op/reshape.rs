//! `reshape`: the same elements in row-major order under another shape.

use super::check::{Accepts, Reader, arity, attribute_error, differ, result, tensor};
use super::{LayoutRule, OpError, Operator};
use crate::annotation::{Annotation, ShapeInfo};
use crate::graph::Attrs;
use crate::sym::product;

/// The operator.
pub(super) struct Reshape;

const NAME: &str = "reshape";

impl Operator for Reshape {
    fn name(&self) -> &'static str {
        NAME
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(NAME, args.len(), 1..=1)?;
        let x = tensor(NAME, args, 0, Accepts::Any)?;
        let shape = Reader::new(NAME, attrs, &["shape"])?.shape("shape")?;
        if let Some(dims) = x.dims() {
            let (have, want) = (product(dims), product(shape));
            if differ(&have, &want) {
                let problem = format!("expected a shape of {have} elements, found {want}");
                return Err(attribute_error(NAME, "shape", problem));
            }
        }
        Ok(result(ShapeInfo::Known(shape.to_vec()), x.dtype))
    }
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::Reshape
    }
}
