//! `cast` and `where`: elementwise operators that change or choose.

use super::check::{Accepts, Reader, arity, broadcast, result, same_dtype, tensor};
use super::lower::Lowering;
use super::reference::{broadcast_strides, checked, for_each_row, value};
use super::scalar::{binary, convert, select, unary};
use super::{LayoutRule, LegaliseCall, OpError, Operator};
use crate::annotation::{Annotation, DType};
use crate::graph::Attrs;
use crate::program::{BinaryOp, Scalar, TensorProgram, UnaryOp};
use crate::sym::SymExpr;
use crate::tensor::{RefValue, TensorData};

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
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        Ok(value(call.args[0].cast(call.dtype())))
    }
    fn legalise(&self, call: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        Lowering::new(self.name(), call, 1..=1)?.map(|l, nest, index| {
            let x = &l.args[0];
            let loaded = x.load(&x.broadcast_index(self.name(), index, &l.out.dims)?, &nest.ranges);
            Ok(match l.out.dtype {
                // A truth value is "differs from zero", which is not a numeric conversion.
                DType::Bool if x.dtype != DType::Bool => unary(
                    UnaryOp::Not,
                    binary(BinaryOp::Equal, loaded, Scalar::Const(0.0, x.dtype)),
                ),
                dtype => convert(loaded, x.dtype, dtype),
            })
        })
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
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        let condition = call.int_arg(0)?;
        match (&call.args[1].data, &call.args[2].data) {
            (TensorData::Float(a), TensorData::Float(b)) => call.floats(choose(&call, condition, a, b)),
            _ => call.ints(choose(&call, condition, call.int_arg(1)?, call.int_arg(2)?)),
        }
    }
    fn legalise(&self, call: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        Lowering::new(self.name(), call, 3..=3)?.map(|l, nest, index| {
            let operand = |i: usize| {
                let view = &l.args[i];
                let own = view.broadcast_index(self.name(), index, &l.out.dims)?;
                Ok(view.load(&own, &nest.ranges))
            };
            Ok(select(operand(0)?, operand(1)?, operand(2)?))
        })
    }
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::Elementwise
    }
}

/// Picks from `a` where the condition holds and from `b` elsewhere, with broadcasting.
fn choose<T: Copy>(call: &super::reference::Checked<'_>, condition: &[i64], a: &[T], b: &[T]) -> Vec<T> {
    let shape = call.shape();
    let strides: Vec<_> = call
        .args
        .iter()
        .map(|t| broadcast_strides(&t.shape, shape))
        .collect();
    let step: Vec<usize> = strides.iter().map(|s| s.last().copied().unwrap_or(0)).collect();
    let mut out = Vec::with_capacity(shape.iter().product());
    for_each_row(shape, &strides, |starts, length| {
        out.extend((0..length).map(|i| match condition[starts[0] + i * step[0]] {
            0 => b[starts[2] + i * step[2]],
            _ => a[starts[1] + i * step[1]],
        }));
    });
    out
}
