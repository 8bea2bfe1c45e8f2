//! `matmul`: batched matrix product, each side optionally transposed in its last two axes.

use super::blas::{Matrix, multiply};
use super::check::{Accepts, Reader, arity, broadcast, dim_is, rank_is, result, same_dtype, tensor};
use super::lower::Lowering;
use super::reference::{Checked, broadcast_strides, checked};
use super::scalar::{compute_type, convert};
use super::{LayoutRule, LegaliseCall, OpError, Operator};
use crate::annotation::{Annotation, ShapeInfo};
use crate::graph::Attrs;
use crate::program::{LoopKind, Scalar, StageBody, TensorProgram};
use crate::sym::SymExpr;
use crate::tensor::{RefValue, TensorData, for_each_index};

/// The operator.
pub(super) struct Matmul;

const NAME: &str = "matmul";

/// (transpose_a, transpose_b).
fn flags(attrs: &Attrs) -> Result<(bool, bool), OpError> {
    let reader = Reader::new(NAME, attrs, &["transpose_a", "transpose_b"])?;
    Ok((reader.flag("transpose_a")?, reader.flag("transpose_b")?))
}

impl Operator for Matmul {
    fn name(&self) -> &'static str {
        NAME
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(NAME, args.len(), 2..=2)?;
        let (transpose_a, transpose_b) = flags(attrs)?;
        let a = tensor(NAME, args, 0, Accepts::Number)?;
        let b = tensor(NAME, args, 1, Accepts::Number)?;
        let dtype = same_dtype(NAME, &[(0, &a), (1, &b)])?;
        rank_is(NAME, 0, &a.shape, 2..=usize::MAX)?;
        rank_is(NAME, 1, &b.shape, 2..=usize::MAX)?;
        let (Some(da), Some(db)) = (a.dims(), b.dims()) else {
            let shape = match (a.shape.rank(), b.shape.rank()) {
                (Some(ra), Some(rb)) => ShapeInfo::Rank(ra.max(rb)),
                _ => ShapeInfo::Unknown,
            };
            return Ok(result(shape, dtype));
        };
        let (batch_a, mat_a) = da.split_at(da.len() - 2);
        let (batch_b, mat_b) = db.split_at(db.len() - 2);
        let (m, ka) = (
            &mat_a[usize::from(transpose_a)],
            &mat_a[1 - usize::from(transpose_a)],
        );
        let (kb, n) = (
            &mat_b[usize::from(transpose_b)],
            &mat_b[1 - usize::from(transpose_b)],
        );
        dim_is(NAME, 1, db.len() - 2 + usize::from(transpose_b), kb, ka)?;
        let batch = [
            (0, &ShapeInfo::Known(batch_a.to_vec())),
            (1, &ShapeInfo::Known(batch_b.to_vec())),
        ];
        let shape = match broadcast(NAME, &batch)? {
            ShapeInfo::Known(mut dims) => {
                dims.extend([m.clone(), n.clone()]);
                ShapeInfo::Known(dims)
            }
            _ => ShapeInfo::Rank(da.len().max(db.len())),
        };
        Ok(result(shape, dtype))
    }
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        let plan = Plan::new(&call)?;
        match (&call.args[0].data, &call.args[1].data) {
            (TensorData::Float(a), TensorData::Float(b)) => {
                let sum = |pairs: &mut dyn Iterator<Item = (usize, usize)>| {
                    pairs.map(|(i, j)| f64::from(a[i]) * f64::from(b[j])).sum::<f64>() as f32
                };
                call.floats(plan.each(sum))
            }
            _ => {
                let (a, b) = (call.int_arg(0)?, call.int_arg(1)?);
                let sum = |pairs: &mut dyn Iterator<Item = (usize, usize)>| {
                    pairs.fold(0i64, |s, (i, j)| s.wrapping_add(a[i].wrapping_mul(b[j])))
                };
                call.ints(plan.each(sum))
            }
        }
    }
    fn evaluate_fast(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        let (TensorData::Float(a), TensorData::Float(b)) = (&call.args[0].data, &call.args[1].data) else {
            return self.evaluate(args, attrs, eval);
        };
        let plan = Plan::new(&call)?;
        let mut out = vec![0.0; call.shape().iter().product()];
        // One matrix on the right for a stack on the left: the stack is one tall matrix.
        let (m, batches) = match plan.folds {
            true => (
                plan.m * plan.batches.len(),
                &plan.batches[..plan.batches.len().min(1)],
            ),
            false => (plan.m, plan.batches.as_slice()),
        };
        let (rows_a, cols_a) = if plan.transpose_a {
            (plan.k, m)
        } else {
            (m, plan.k)
        };
        let (rows_b, cols_b) = if plan.transpose_b {
            (plan.n, plan.k)
        } else {
            (plan.k, plan.n)
        };
        let size = m * plan.n;
        for (i, (at_a, at_b)) in batches.iter().enumerate() {
            let left = Matrix::row_major(&a[*at_a..], rows_a, cols_a).transposed_if(plan.transpose_a);
            let right = Matrix::row_major(&b[*at_b..], rows_b, cols_b).transposed_if(plan.transpose_b);
            multiply(&mut out[i * size..][..size], left, right);
        }
        call.floats(out)
    }
    fn legalise(&self, call: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        let (transpose_a, transpose_b) = flags(call.attrs)?;
        let mut l = Lowering::new(NAME, call, 2..=2)?;
        let (a, b, out) = (l.args[0].clone(), l.args[1].clone(), l.out.clone());
        for (i, view) in [&a, &b, &out].into_iter().enumerate() {
            rank_is(NAME, i, &ShapeInfo::Rank(view.dims.len()), 2..=usize::MAX)?;
        }
        let k_axis_a = a.dims.len() - 1 - usize::from(transpose_a);
        let k_axis_b = b.dims.len() - 2 + usize::from(transpose_b);
        l.stage(&out, |nest, index| {
            // The blocks of k are those of the left factor, or else those of the right one.
            let (view, axis) = match a.layout.block_of(k_axis_a as u8) {
                1 => (&b, k_axis_b),
                _ => (&a, k_axis_a),
            };
            let k = nest
                .over(&view.layout, &view.dims, |x| x == axis, LoopKind::Reduce)
                .0[axis]
                .clone();
            let (batch, last) = index.split_at(index.len() - 2);
            let batch_dims = &out.dims[..batch.len()];
            let access = |view: &super::lower::View, last: [SymExpr; 2]| {
                let mut own = view.clone();
                own.dims.truncate(view.dims.len() - 2);
                let mut full = own.broadcast_index(NAME, batch, batch_dims)?;
                full.extend(last);
                Ok(view.access(&full, &nest.ranges))
            };
            let (m, n) = (last[0].clone(), last[1].clone());
            let pair = |first: SymExpr, second: SymExpr, swap: bool| {
                if swap { [second, first] } else { [first, second] }
            };
            Ok(StageBody::Contract {
                a: access(&a, pair(m, k.clone(), transpose_a))?,
                b: access(&b, pair(k, n, transpose_b))?,
                epilogue: convert(Scalar::Reduced, compute_type(out.dtype), out.dtype),
            })
        })?;
        l.finish()
    }
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::Matmul
    }
}

/// Where the matrices of a checked call lie.
struct Plan {
    m: usize,
    k: usize,
    n: usize,
    transpose_a: bool,
    transpose_b: bool,
    /// For each matrix of the result, the first elements of its factors.
    batches: Vec<(usize, usize)>,
    /// The stack of left factors is one tall row-major matrix, and there is one right factor.
    folds: bool,
}

impl Plan {
    fn new(call: &Checked<'_>) -> Result<Self, OpError> {
        let (transpose_a, transpose_b) = flags(&call.attrs)?;
        let ([batch_a @ .., a0, a1], [batch_b @ .., b0, b1], [batch @ .., m, n]) =
            (&call.args[0].shape[..], &call.args[1].shape[..], call.shape())
        else {
            return Err(super::check::unsupported(
                NAME,
                "operands of rank at least 2 are expected",
            ));
        };
        let k = if transpose_a { *a0 } else { *a1 };
        let (strides_a, strides_b) = (
            broadcast_strides(batch_a, batch),
            broadcast_strides(batch_b, batch),
        );
        let mut batches = Vec::new();
        for_each_index(batch, |index| {
            let at = |s: &[usize]| index.iter().zip(s).map(|(i, s)| i * s).sum::<usize>();
            batches.push((at(&strides_a) * a0 * a1, at(&strides_b) * b0 * b1));
        });
        let folds = !transpose_a && batch_a == batch && batch_b.iter().all(|d| *d == 1);
        Ok(Plan {
            m: *m,
            k,
            n: *n,
            transpose_a,
            transpose_b,
            batches,
            folds,
        })
    }
    /// Every element of the result from the flat positions of its pairs of factors.
    fn each<T>(&self, sum: impl Fn(&mut dyn Iterator<Item = (usize, usize)>) -> T) -> Vec<T> {
        let (m, k, n) = (self.m, self.k, self.n);
        let mut out = Vec::with_capacity(self.batches.len() * m * n);
        for (at_a, at_b) in &self.batches {
            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let left = |p| at_a + if self.transpose_a { p * m + i } else { i * k + p };
                let right = |p| at_b + if self.transpose_b { j * k + p } else { p * n + j };
                out.push(sum(&mut (0..k).map(|p| (left(p), right(p)))));
            }
        }
        out
    }
}
