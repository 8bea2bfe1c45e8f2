//! `matmul`: batched matrix product, each side optionally transposed in its last two axes.

use super::check::{Accepts, Reader, arity, broadcast, dim_is, rank_is, result, same_dtype, tensor};
use super::{LayoutRule, OpError, Operator};
use crate::annotation::{Annotation, ShapeInfo};
use crate::graph::Attrs;

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
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::Matmul
    }
}
