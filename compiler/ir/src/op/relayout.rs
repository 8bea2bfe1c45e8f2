//! `layout_transform`: the identity on values; after layout selection its result has the named layout.

use super::check::{Accepts, Reader, arity, attribute_error, result, tensor};
use super::{LayoutRule, OpError, Operator};
use crate::annotation::{Annotation, TensorInfo};
use crate::graph::Attrs;

/// The operator.
pub(super) struct LayoutTransform;

const NAME: &str = "layout_transform";

impl Operator for LayoutTransform {
    fn name(&self) -> &'static str {
        NAME
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(NAME, args.len(), 1..=1)?;
        let x = tensor(NAME, args, 0, Accepts::Any)?;
        let layout = Reader::new(NAME, attrs, &["layout"])?.layout("layout")?;
        if let Some(rank) = x.shape.rank().filter(|r| *r != layout.rank()) {
            let problem = format!("expected a layout of rank {rank}, found {layout}");
            return Err(attribute_error(NAME, "layout", problem));
        }
        let TensorInfo { shape, dtype, .. } = x;
        Ok(match result(shape, dtype) {
            Annotation::Tensor(t) => Annotation::Tensor(t.in_layout(layout.clone())),
            other => other,
        })
    }
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::AbiOnly
    }
}
