//! `max_pool2d` and `avg_pool2d` over the last two axes of NCHW.

use super::check::{Accepts, OpName, Reader, arity, operand_error, rank_is, result, tensor};
use super::{LayoutRule, OpError, Operator};
use crate::annotation::{Annotation, ShapeInfo};
use crate::graph::Attrs;
use crate::sym::SymExpr;

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pool2d {
    Max,
    Avg,
}

/// The attributes.
#[derive(Clone, Copy, Debug)]
struct Window {
    kernel: [i64; 2],
    strides: [i64; 2],
    /// Top, left, bottom, right.
    pads: [i64; 4],
    dilations: [i64; 2],
    ceil_mode: bool,
    count_include_pad: bool,
}

impl Pool2d {
    fn op(self) -> OpName {
        match self {
            Pool2d::Max => "max_pool2d",
            Pool2d::Avg => "avg_pool2d",
        }
    }
    fn window(self, attrs: &Attrs) -> Result<Window, OpError> {
        let own = match self {
            Pool2d::Max => "dilations",
            Pool2d::Avg => "count_include_pad",
        };
        let reader = Reader::new(self.op(), attrs, &["kernel", "strides", "pads", "ceil_mode", own])?;
        let avg = self == Pool2d::Avg;
        Ok(Window {
            kernel: reader.ints_n("kernel", 1)?,
            strides: reader.ints_or("strides", 1, [1; 2])?,
            pads: reader.ints_or("pads", 0, [0; 4])?,
            dilations: if avg {
                [1; 2]
            } else {
                reader.ints_or("dilations", 1, [1; 2])?
            },
            ceil_mode: reader.flag("ceil_mode")?,
            count_include_pad: avg && reader.flag("count_include_pad")?,
        })
    }
}

impl Window {
    /// The output extent along spatial axis 0 or 1. With `ceil_mode` a last window that would begin beyond the input and its
    /// leading padding is dropped.
    fn output_extent(&self, axis: usize, input: &SymExpr) -> SymExpr {
        let reach = self.dilations[axis] * (self.kernel[axis] - 1) + 1;
        let slack = input.clone() + SymExpr::constant(self.pads[axis] + self.pads[axis + 2] - reach);
        let one = SymExpr::constant(1);
        if !self.ceil_mode {
            return slack.floor_div(self.strides[axis]) + one;
        }
        let last_start = input.clone() + SymExpr::constant(self.pads[axis] - 1);
        let starts_inside = last_start.floor_div(self.strides[axis]) + one.clone();
        (slack.ceil_div(self.strides[axis]) + one).minimum(&starts_inside)
    }
}

impl Operator for Pool2d {
    fn name(&self) -> &'static str {
        self.op()
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.op(), args.len(), 1..=1)?;
        let window = self.window(attrs)?;
        let accepts = if *self == Pool2d::Avg {
            Accepts::Float
        } else {
            Accepts::Number
        };
        let x = tensor(self.op(), args, 0, accepts)?;
        rank_is(self.op(), 0, &x.shape, 4..=4)?;
        let Some([n, c, h, w]) = x.dims() else {
            return Ok(result(ShapeInfo::Rank(4), x.dtype));
        };
        let mut dims = vec![n.clone(), c.clone()];
        for (axis, input) in [h, w].into_iter().enumerate() {
            let extent = window.output_extent(axis, input);
            if extent.as_const().is_some_and(|e| e < 1) {
                let expected = format!("a padded extent of at least the kernel along axis {}", axis + 2);
                return Err(operand_error(self.op(), 0, expected, input.to_string()));
            }
            dims.push(extent);
        }
        Ok(result(ShapeInfo::Known(dims), x.dtype))
    }
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::Pool2d
    }
}
