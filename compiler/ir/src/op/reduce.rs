//! Reductions over named axes.

use super::check::{Accepts, OpName, Reader, arity, as_u8, result, tensor};
use super::{LayoutRule, OpError, Operator};
use crate::annotation::{Annotation, ShapeInfo};
use crate::graph::Attrs;
use crate::sym::SymExpr;

/// One reduction.
pub(super) struct Reduce {
    name: OpName,
    accepts: Accepts,
}

static REDUCE: &[Reduce] = &[
    Reduce {
        name: "reduce_sum",
        accepts: Accepts::Number,
    },
    Reduce {
        name: "reduce_mean",
        accepts: Accepts::Float,
    },
    Reduce {
        name: "reduce_max",
        accepts: Accepts::Number,
    },
    Reduce {
        name: "reduce_min",
        accepts: Accepts::Number,
    },
    Reduce {
        name: "reduce_prod",
        accepts: Accepts::Number,
    },
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
