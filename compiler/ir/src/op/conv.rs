//! `conv2d`: grouped two-dimensional convolution (cross-correlation), logical NCHW input and OIHW weight.

use super::check::{
    Accepts, Reader, arity, attribute_error, dim_is, operand_error, rank_is, result, same_dtype, tensor,
};
use super::{LayoutRule, OpError, Operator};
use crate::annotation::{Annotation, ShapeInfo};
use crate::graph::Attrs;
use crate::sym::SymExpr;

/// The operator.
pub(super) struct Conv2d;

const NAME: &str = "conv2d";

/// The attributes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) strides: [i64; 2],
    /// Top, left, bottom, right.
    pub(super) pads: [i64; 4],
    pub(super) dilations: [i64; 2],
    pub(super) groups: i64,
}

fn window(attrs: &Attrs) -> Result<Window, OpError> {
    let reader = Reader::new(NAME, attrs, &["strides", "pads", "dilations", "groups"])?;
    let groups = reader.int_or("groups", 1)?;
    if groups < 1 {
        return Err(attribute_error(
            NAME,
            "groups",
            format!("expected at least 1, found {groups}"),
        ));
    }
    Ok(Window {
        strides: reader.ints_or("strides", 1, [1; 2])?,
        pads: reader.ints_or("pads", 0, [0; 4])?,
        dilations: reader.ints_or("dilations", 1, [1; 2])?,
        groups,
    })
}

impl Operator for Conv2d {
    fn name(&self) -> &'static str {
        NAME
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(NAME, args.len(), 2..=2)?;
        let w = window(attrs)?;
        let x = tensor(NAME, args, 0, Accepts::Number)?;
        let weight = tensor(NAME, args, 1, Accepts::Number)?;
        let dtype = same_dtype(NAME, &[(0, &x), (1, &weight)])?;
        rank_is(NAME, 0, &x.shape, 4..=4)?;
        rank_is(NAME, 1, &weight.shape, 4..=4)?;
        let (Some([n, c, h, wd]), Some([o, i, kh, kw])) = (x.dims(), weight.dims()) else {
            return Ok(result(ShapeInfo::Rank(4), dtype));
        };
        dim_is(NAME, 0, 1, c, &(i.clone() * SymExpr::constant(w.groups)))?;
        if o.as_const().is_some_and(|o| o % w.groups != 0) {
            let expected = format!("output channels divisible by {} groups", w.groups);
            return Err(operand_error(NAME, 1, expected, o.to_string()));
        }
        let mut dims = vec![n.clone(), o.clone()];
        for (axis, (input, kernel)) in [(h, kh), (wd, kw)].into_iter().enumerate() {
            let dilated = (kernel.clone() - SymExpr::constant(1)) * SymExpr::constant(w.dilations[axis]);
            let slack = input.clone() + SymExpr::constant(w.pads[axis] + w.pads[axis + 2] - 1) - dilated;
            if slack.as_const().is_some_and(|s| s < 0) {
                let expected = format!(
                    "a padded extent of at least the dilated kernel along axis {}",
                    axis + 2
                );
                return Err(operand_error(NAME, 0, expected, input.to_string()));
            }
            dims.push(slack.floor_div(w.strides[axis]) + SymExpr::constant(1));
        }
        Ok(result(ShapeInfo::Known(dims), dtype))
    }
    fn layout_rule(&self, _: &[&Annotation], attrs: &Attrs) -> LayoutRule {
        LayoutRule::Conv2d {
            groups: window(attrs).map_or(1, |w| w.groups),
        }
    }
}
