//! `softmax` and `log_softmax` along one axis.

use super::check::{Accepts, OpName, Reader, arity, as_u8, result, tensor};
use super::lower::{Lowering, Nest};
use super::reference::{around_axis, checked};
use super::scalar::{convert, div, sub, unary};
use super::{LayoutRule, LegaliseCall, OpError, Operator};
use crate::annotation::{Annotation, DType};
use crate::graph::Attrs;
use crate::program::{Combiner, Scalar, StageBody, TensorProgram, UnaryOp};
use crate::sym::SymExpr;
use crate::tensor::RefValue;

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
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        let axis = self.axis(&call.attrs, Some(call.shape().len()))?;
        let x = call.float_arg(0)?;
        let (outer, extent, inner) = around_axis(call.shape(), axis);
        let mut out = x.to_vec();
        for start in (0..outer).flat_map(|o| (0..inner).map(move |i| o * extent * inner + i)) {
            let lane = || (0..extent).map(|j| start + j * inner);
            let largest = lane().map(|i| x[i]).fold(f32::NEG_INFINITY, f32::max);
            let sum: f64 = lane().map(|i| f64::from((x[i] - largest).exp())).sum();
            for i in lane() {
                out[i] = match self {
                    Softmax::Plain => (f64::from((x[i] - largest).exp()) / sum) as f32,
                    Softmax::Log => (f64::from(x[i] - largest) - sum.ln()) as f32,
                };
            }
        }
        call.floats(out)
    }
    /// Three stages: the maximum and the sum of exponentials along the axis, then the result. The exponentials are computed twice
    /// rather than stored.
    fn legalise(&self, call: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        let mut l = Lowering::new(self.op(), call, 1..=1)?;
        let (x, out) = (l.args[0].clone(), l.out.clone());
        let axis = self.axis(call.attrs, Some(x.dims.len()))?;
        let largest = l.statistic("largest", &out, &[axis], DType::F32)?;
        let value = |nest: &Nest, index: &[SymExpr], _: &[SymExpr]| x.value(index, &nest.ranges);
        l.reduce(
            &largest,
            &x,
            &[axis],
            false,
            Combiner::Max,
            value,
            Scalar::Reduced,
        )?;
        let shifted = |nest: &Nest, index: &[SymExpr]| {
            let mut kept = index.to_vec();
            kept.remove(axis);
            sub(x.value(index, &nest.ranges), largest.load(&kept, &nest.ranges))
        };
        let sum = l.statistic("sum", &out, &[axis], DType::F32)?;
        let exponential =
            |nest: &Nest, index: &[SymExpr], _: &[SymExpr]| unary(UnaryOp::Exp, shifted(nest, index));
        let total = match self {
            Softmax::Plain => Scalar::Reduced,
            Softmax::Log => unary(UnaryOp::Log, Scalar::Reduced),
        };
        l.reduce(&sum, &x, &[axis], false, Combiner::Sum, exponential, total)?;
        l.stage(&out, |nest, index| {
            let mut kept = index.to_vec();
            kept.remove(axis);
            let (shifted, sum) = (shifted(nest, index), sum.load(&kept, &nest.ranges));
            let y = match self {
                Softmax::Plain => div(unary(UnaryOp::Exp, shifted), sum),
                Softmax::Log => sub(shifted, sum),
            };
            Ok(StageBody::Map(convert(y, DType::F32, out.dtype)))
        })?;
        l.finish()
    }
    fn layout_rule(&self, _: &[&Annotation], attrs: &Attrs) -> LayoutRule {
        match self.axis(attrs, None) {
            Ok(axis) => LayoutRule::AlongAxes(as_u8(&[axis])),
            Err(_) => LayoutRule::AbiOnly,
        }
    }
}
