//! `reshape`: the same elements in row-major order under another shape.

use super::check::{Accepts, Reader, arity, attribute_error, differ, result, tensor};
use super::lower::Lowering;
use super::reference::checked;
use super::{LayoutRule, LegaliseCall, OpError, Operator};
use crate::annotation::{Annotation, ShapeInfo};
use crate::graph::Attrs;
use crate::program::TensorProgram;
use crate::sym::{SymExpr, product};
use crate::tensor::RefValue;

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
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        call.finish(call.args[0].data.clone())
    }
    /// A copy. Axes are matched in groups of equal products; within a group the result's index is made flat and taken apart again,
    /// which needs constant extents of the operand's axes but for the first of the group (divisors are constants).
    fn legalise(&self, call: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        Lowering::new(NAME, call, 1..=1)?.map(|l, nest, index| {
            let x = &l.args[0];
            Ok(x.load(&operand_index(index, &l.out.dims, &x.dims)?, &nest.ranges))
        })
    }
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::Reshape
    }
}

/// The operand's index of a result's index.
fn operand_index(
    index: &[SymExpr],
    result: &[SymExpr],
    operand: &[SymExpr],
) -> Result<Vec<SymExpr>, OpError> {
    let mut out: Vec<SymExpr> = Vec::new();
    let mut done = 0;
    loop {
        while result.get(done).is_some_and(|d| d.is_const(1)) {
            done += 1;
        }
        while operand.get(out.len()).is_some_and(|d| d.is_const(1)) {
            out.push(SymExpr::zero());
        }
        let (from, to) = (&operand[out.len()..], &result[done..]);
        if from.is_empty() && to.is_empty() {
            return Ok(out);
        }
        let sizes = (1..=from.len()).flat_map(|a| (1..=to.len()).map(move |b| (a, b)));
        let mut sizes: Vec<(usize, usize)> = sizes.collect();
        sizes.sort_unstable_by_key(|(a, b)| a + b);
        let group = sizes
            .into_iter()
            .find(|(a, b)| product(&from[..*a]) == product(&to[..*b]));
        let Some((a, b)) = group else {
            let problem = format!("no groups of equal extents between {from:?} and {to:?}");
            return Err(super::check::unsupported(NAME, problem));
        };
        let axes = index[done..done + b].iter().zip(&to[..b]);
        let mut flat = axes.fold(SymExpr::zero(), |acc, (i, d)| acc * d.clone() + i.clone());
        let mut group = Vec::new();
        for extent in from[1..a].iter().rev() {
            let Some(extent) = extent.as_const().filter(|e| *e >= 1) else {
                let problem = format!("an index into {from:?} from {to:?} would divide by {extent}");
                return Err(super::check::unsupported(NAME, problem));
            };
            group.push(flat.modulo(extent));
            flat = flat.floor_div(extent);
        }
        group.push(flat);
        out.extend(group.into_iter().rev());
        done += b;
    }
}
