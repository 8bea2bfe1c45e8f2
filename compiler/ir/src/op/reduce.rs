//! Reductions over named axes.

use super::check::{Accepts, OpName, Reader, arity, as_u8, result, tensor};
use super::lower::Lowering;
use super::reference::{Checked, broadcast_strides, checked, for_each_row};
use super::scalar::{compute_type, convert, div, index_f32};
use super::{LayoutRule, LegaliseCall, OpError, Operator};
use crate::annotation::{Annotation, ShapeInfo};
use crate::graph::Attrs;
use crate::program::{Combiner, Scalar, TensorProgram};
use crate::sym::{SymExpr, product};
use crate::tensor::{RefValue, TensorData, strides};

/// One reduction.
pub(super) struct Reduce {
    name: OpName,
    accepts: Accepts,
    combiner: Combiner,
    /// Whether the combined value is divided by the number of elements.
    mean: bool,
}

const fn reduction(name: OpName, accepts: Accepts, combiner: Combiner, mean: bool) -> Reduce {
    Reduce {
        name,
        accepts,
        combiner,
        mean,
    }
}

static REDUCE: &[Reduce] = &[
    reduction("reduce_sum", Accepts::Number, Combiner::Sum, false),
    reduction("reduce_mean", Accepts::Float, Combiner::Sum, true),
    reduction("reduce_max", Accepts::Number, Combiner::Max, false),
    reduction("reduce_min", Accepts::Number, Combiner::Min, false),
    reduction("reduce_prod", Accepts::Number, Combiner::Prod, false),
];

/// The operators of this family.
pub(super) fn operators() -> impl Iterator<Item = &'static dyn Operator> {
    REDUCE.iter().map(|r| r as &dyn Operator)
}

/// The shape that is left when `axes` (ascending) are reduced.
pub(super) fn reduced(shape: &ShapeInfo, axes: &[usize], keep: bool) -> ShapeInfo {
    match shape {
        ShapeInfo::Known(dims) => {
            let dims = dims.iter().enumerate();
            let left = dims.filter_map(|(i, d)| match (axes.contains(&i), keep) {
                (false, _) => Some(d.clone()),
                (true, true) => Some(SymExpr::constant(1)),
                (true, false) => None,
            });
            ShapeInfo::Known(left.collect())
        }
        ShapeInfo::Rank(rank) => ShapeInfo::Rank(if keep { *rank } else { rank - axes.len() }),
        ShapeInfo::Unknown => ShapeInfo::Unknown,
    }
}

/// The reduced axes (ascending) and `keepdims`.
fn axes_and_keep(op: OpName, attrs: &Attrs, rank: Option<usize>) -> Result<(Vec<usize>, bool), OpError> {
    let reader = Reader::new(op, attrs, &["axes", "keepdims"])?;
    Ok((reader.axes("axes", rank)?, reader.flag("keepdims")?))
}

impl Operator for Reduce {
    fn name(&self) -> &'static str {
        self.name
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name, args.len(), 1..=1)?;
        let x = tensor(self.name, args, 0, self.accepts)?;
        let (axes, keep) = axes_and_keep(self.name, attrs, x.shape.rank())?;
        Ok(result(reduced(&x.shape, &axes, keep), x.dtype))
    }
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        let (axes, _) = axes_and_keep(self.name, &call.attrs, Some(call.args[0].shape.len()))?;
        let count: usize = axes.iter().map(|a| call.args[0].shape[*a]).product();
        let divisor = if self.mean { count as f64 } else { 1.0 };
        match &call.args[0].data {
            TensorData::Float(x) => {
                let wide: Vec<f64> = x.iter().map(|v| f64::from(*v)).collect();
                let (identity, f): (f64, fn(f64, f64) -> f64) = match self.combiner {
                    Combiner::Sum => (0.0, |a, b| a + b),
                    Combiner::Prod => (1.0, |a, b| a * b),
                    Combiner::Max => (f64::NEG_INFINITY, f64::max),
                    Combiner::Min => (f64::INFINITY, f64::min),
                };
                let combined = fold(&call, &axes, &wide, identity, f);
                call.floats(combined.into_iter().map(|v| (v / divisor) as f32).collect())
            }
            TensorData::Int(x) => {
                let (identity, f): (i64, fn(i64, i64) -> i64) = match self.combiner {
                    Combiner::Sum => (0, i64::wrapping_add),
                    Combiner::Prod => (1, i64::wrapping_mul),
                    Combiner::Max => (i64::MIN, Ord::max),
                    Combiner::Min => (i64::MAX, Ord::min),
                };
                call.ints(fold(&call, &axes, x, identity, f))
            }
        }
    }
    fn legalise(&self, call: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        let mut l = Lowering::new(self.name, call, 1..=1)?;
        let (x, out) = (l.args[0].clone(), l.out.clone());
        let (axes, keep) = axes_and_keep(self.name, call.attrs, Some(x.dims.len()))?;
        let compute = compute_type(x.dtype);
        let count = product(&axes.iter().map(|a| x.dims[*a].clone()).collect::<Vec<_>>());
        let reduced = match self.mean {
            true => div(Scalar::Reduced, index_f32(count)),
            false => Scalar::Reduced,
        };
        let value =
            |nest: &super::lower::Nest, index: &[SymExpr], _: &[SymExpr]| x.value(index, &nest.ranges);
        l.reduce(
            &out,
            &x,
            &axes,
            keep,
            self.combiner,
            value,
            convert(reduced, compute, out.dtype),
        )?;
        l.finish()
    }
    fn layout_rule(&self, args: &[&Annotation], attrs: &Attrs) -> LayoutRule {
        let rank = args
            .first()
            .and_then(|a| a.as_tensor())
            .and_then(|t| t.shape.rank());
        match axes_and_keep(self.name, attrs, rank) {
            Ok((axes, keep)) => LayoutRule::Reduce {
                axes: as_u8(&axes),
                keep,
            },
            Err(_) => LayoutRule::AbiOnly,
        }
    }
}

/// Combines the elements of the first operand into the result's.
fn fold<T: Copy>(call: &Checked<'_>, axes: &[usize], x: &[T], identity: T, f: fn(T, T) -> T) -> Vec<T> {
    let shape = &call.args[0].shape;
    let kept: Vec<usize> = shape
        .iter()
        .enumerate()
        .map(|(a, d)| if axes.contains(&a) { 1 } else { *d })
        .collect();
    let steps = [strides(shape), broadcast_strides(&kept, shape)];
    let step = |s: &[usize]| s.last().copied().unwrap_or(0);
    let (from_step, to_step) = (step(&steps[0]), step(&steps[1]));
    let mut out = vec![identity; kept.iter().product()];
    for_each_row(shape, &steps, |starts, length| {
        for i in 0..length {
            let slot = &mut out[starts[1] + i * to_step];
            *slot = f(*slot, x[starts[0] + i * from_step]);
        }
    });
    out
}
