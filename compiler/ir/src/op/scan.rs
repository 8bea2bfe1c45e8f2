//! `cumsum` and `argmax`: operators along one axis.

use super::check::{Accepts, Reader, arity, as_u8, result, tensor};
use super::lower::Lowering;
use super::reduce::reduced;
use super::reference::{around_axis, checked};
use super::scalar::{binary, compute_type, convert, index_le, select};
use super::{LayoutRule, LegaliseCall, OpError, Operator};
use crate::annotation::{Annotation, DType};
use crate::graph::Attrs;
use crate::program::{BinaryOp, Combiner, LoopKind, Scalar, StageBody, TensorProgram};
use crate::sym::SymExpr;
use crate::tensor::{RefValue, TensorData};

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
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        let x = call.args[0];
        let axis = Reader::new(self.name(), &call.attrs, &["axis"])?.axis("axis", Some(x.shape.len()))?;
        let (outer, extent, inner) = around_axis(&x.shape, axis);
        match &x.data {
            TensorData::Float(x) => {
                let mut out = x.clone();
                for start in (0..outer).flat_map(|o| (0..inner).map(move |i| o * extent * inner + i)) {
                    let mut sum = 0.0;
                    for j in 0..extent {
                        sum += f64::from(x[start + j * inner]);
                        out[start + j * inner] = sum as f32;
                    }
                }
                call.floats(out)
            }
            TensorData::Int(x) => {
                let mut out = x.clone();
                for start in (0..outer).flat_map(|o| (0..inner).map(move |i| o * extent * inner + i)) {
                    for j in 1..extent {
                        out[start + j * inner] =
                            out[start + j * inner].wrapping_add(out[start + (j - 1) * inner]);
                    }
                }
                call.ints(out)
            }
        }
    }
    /// Every element sums its predecessors: quadratic in the extent, but each element is independent.
    fn legalise(&self, call: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        let mut l = Lowering::new(self.name(), call, 1..=1)?;
        let (x, out) = (l.args[0].clone(), l.out.clone());
        let axis = Reader::new(self.name(), call.attrs, &["axis"])?.axis("axis", Some(x.dims.len()))?;
        let compute = compute_type(x.dtype);
        l.stage(&out, |nest, index| {
            let along = nest.over(&x.layout, &x.dims, |a| a == axis, LoopKind::Reduce).0[axis].clone();
            let mut place = index.to_vec();
            place[axis] = along.clone();
            let before = index_le(along, index[axis].clone());
            Ok(StageBody::Reduce {
                combiner: Combiner::Sum,
                value: select(before, x.value(&place, &nest.ranges), Scalar::Const(0.0, compute)),
                epilogue: convert(Scalar::Reduced, compute, out.dtype),
            })
        })?;
        l.finish()
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
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        let x = call.args[0];
        let (axis, _) = self.axis(&call.attrs, Some(x.shape.len()))?;
        let (outer, extent, inner) = around_axis(&x.shape, axis);
        if extent == 0 {
            return Err(super::check::operand_error(
                "argmax",
                0,
                format!("elements along axis {axis}"),
                "none",
            ));
        }
        let greater = |i: usize, j: usize| match &x.data {
            TensorData::Float(v) => v[i] > v[j],
            TensorData::Int(v) => v[i] > v[j],
        };
        let starts = (0..outer).flat_map(|o| (0..inner).map(move |i| o * extent * inner + i));
        let first_largest = starts.map(|start| {
            let at = |j: usize| start + j * inner;
            (1..extent).fold(0, |best, j| if greater(at(j), at(best)) { j } else { best }) as i64
        });
        call.ints(first_largest.collect())
    }
    /// The maximum, then the least position that has it.
    fn legalise(&self, call: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        let mut l = Lowering::new("argmax", call, 1..=1)?;
        let (x, out) = (l.args[0].clone(), l.out.clone());
        let (axis, keep) = self.axis(call.attrs, Some(x.dims.len()))?;
        let largest = l.statistic("largest", &x, &[axis], x.dtype)?;
        let load = |nest: &super::lower::Nest, index: &[SymExpr], _: &[SymExpr]| x.load(index, &nest.ranges);
        l.reduce(&largest, &x, &[axis], false, Combiner::Max, load, Scalar::Reduced)?;
        let position = |nest: &super::lower::Nest, index: &[SymExpr], _: &[SymExpr]| {
            let mut kept = index.to_vec();
            kept.remove(axis);
            let is_largest = binary(
                BinaryOp::Equal,
                x.load(index, &nest.ranges),
                largest.load(&kept, &nest.ranges),
            );
            select(
                is_largest,
                Scalar::Index(index[axis].clone()),
                Scalar::Index(x.dims[axis].clone()),
            )
        };
        let epilogue = convert(Scalar::Reduced, DType::I64, out.dtype);
        l.reduce(&out, &x, &[axis], keep, Combiner::Min, position, epilogue)?;
        l.finish()
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
