//! `softmax` and `log_softmax` along one axis.

use super::check::{Accepts, OpName, Reader, arity, as_u8, result, tensor};
use super::{LayoutRule, OpError, Operator};
use crate::annotation::Annotation;
use crate::graph::Attrs;

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Softmax {
    Plain,
    Log,
}

impl Softmax {
    fn op(self) -> OpName {
        match self {
            Softmax::Plain => "softmax",
            Softmax::Log => "log_softmax",
        }
    }
    fn axis(self, attrs: &Attrs, rank: Option<usize>) -> Result<usize, OpError> {
        Reader::new(self.op(), attrs, &["axis"])?.axis("axis", rank)
    }
}

impl Operator for Softmax {
    fn name(&self) -> &'static str {
        self.op()
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.op(), args.len(), 1..=1)?;
        let x = tensor(self.op(), args, 0, Accepts::Float)?;
        self.axis(attrs, x.shape.rank())?;
        Ok(result(x.shape, x.dtype))
    }
    fn layout_rule(&self, _: &[&Annotation], attrs: &Attrs) -> LayoutRule {
        match self.axis(attrs, None) {
            Ok(axis) => LayoutRule::AlongAxes(as_u8(&[axis])),
            Err(_) => LayoutRule::AbiOnly,
        }
    }
}
