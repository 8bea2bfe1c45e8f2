//! `max_pool2d` and `avg_pool2d` over the last two axes of NCHW.

use super::check::{Accepts, OpName, Reader, arity, attribute_error, operand_error, rank_is, result, tensor};
use super::lower::Lowering;
use super::reference::checked;
use super::scalar::{compute_type, convert, div, guarded, index_f32, index_le, index_lt, lowest};
use super::{LayoutRule, LegaliseCall, OpError, Operator};
use crate::annotation::{Annotation, ShapeInfo};
use crate::graph::Attrs;
use crate::program::{Combiner, LoopKind, Scalar, StageBody, TensorProgram};
use crate::sym::SymExpr;
use crate::tensor::{RefValue, TensorData, for_each_index};

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
        let window = Window {
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
        };
        // A window that lies in the padding altogether would have nothing to combine.
        for axis in 0..2 {
            let reach = window.dilations[axis] * (window.kernel[axis] - 1) + 1;
            if window.pads[axis] >= reach || window.pads[axis + 2] >= reach {
                let problem = format!(
                    "expected less than the kernel's extent {reach}, found {:?}",
                    window.pads
                );
                return Err(attribute_error(self.op(), "pads", problem));
            }
        }
        Ok(window)
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
    /// The input coordinate at which a window begins; negative in the leading padding.
    fn start(&self, axis: usize, out: &SymExpr) -> SymExpr {
        out.clone() * SymExpr::constant(self.strides[axis]) - SymExpr::constant(self.pads[axis])
    }
    /// The divisor of an average: elements of the window inside the input, or inside the padded input.
    fn count(&self, out: &[SymExpr], dims: &[SymExpr]) -> SymExpr {
        let whole = |axis: usize| self.pads[axis] == 0 && self.pads[axis + 2] == 0 || self.count_include_pad;
        let extent = |axis: usize| {
            if whole(axis) && !self.ceil_mode {
                return SymExpr::constant(self.kernel[axis]);
            }
            let start = self.start(axis, &out[axis + 2]);
            let end = start.clone() + SymExpr::constant(self.kernel[axis]);
            let limit = dims[axis + 2].clone();
            match self.count_include_pad {
                true => end.minimum(&(limit + SymExpr::constant(self.pads[axis + 2]))) - start,
                false => end.minimum(&limit) - start.maximum(&SymExpr::zero()),
            }
        };
        extent(0) * extent(1)
    }
    /// Every element of the result from the flat positions of its window inside the input and the divisor of an average.
    fn each<T>(
        &self,
        input: &[usize],
        shape: &[usize],
        combine: impl Fn(&mut dyn Iterator<Item = usize>, i64) -> T,
    ) -> Vec<T> {
        let (h, w) = (input[2] as i64, input[3] as i64);
        let mut out = Vec::with_capacity(shape.iter().product());
        for_each_index(shape, |index| {
            let start = |axis: usize| index[axis + 2] as i64 * self.strides[axis] - self.pads[axis];
            let taps = |axis: usize, extent: i64| {
                let all = (0..self.kernel[axis]).map(move |t| start(axis) + t * self.dilations[axis]);
                all.filter(move |i| (0..extent).contains(i))
            };
            let divisor = |axis: usize, extent: i64| match self.count_include_pad {
                true => self.kernel[axis].min(extent + self.pads[axis + 2] - start(axis)),
                false => taps(axis, extent).count() as i64,
            };
            let plane = (index[0] * input[1] + index[1]) as i64;
            let mut places =
                taps(0, h).flat_map(|r| taps(1, w).map(move |s| ((plane * h + r) * w + s) as usize));
            out.push(combine(&mut places, divisor(0, h) * divisor(1, w)));
        });
        out
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
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        let window = self.window(&call.attrs)?;
        let (x, shape) = (call.args[0], call.shape());
        match &x.data {
            TensorData::Float(values) if *self == Pool2d::Avg => {
                call.floats(window.each(&x.shape, shape, |taps, count| {
                    (taps.map(|i| f64::from(values[i])).sum::<f64>() / count as f64) as f32
                }))
            }
            TensorData::Float(values) => call.floats(window.each(&x.shape, shape, |taps, _| {
                taps.fold(f32::NEG_INFINITY, |m, i| m.max(values[i]))
            })),
            TensorData::Int(values) => call.ints(window.each(&x.shape, shape, |taps, _| {
                taps.fold(i64::MIN, |m, i| m.max(values[i]))
            })),
        }
    }
    fn legalise(&self, call: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        let window = self.window(call.attrs)?;
        let mut l = Lowering::new(self.op(), call, 1..=1)?;
        let (x, out) = (l.args[0].clone(), l.out.clone());
        for (i, view) in [&x, &out].into_iter().enumerate() {
            rank_is(self.op(), i, &ShapeInfo::Rank(view.dims.len()), 4..=4)?;
        }
        let compute = compute_type(x.dtype);
        l.stage(&out, |nest, index| {
            let mut place = index.to_vec();
            let mut guards = Vec::new();
            for axis in 0..2 {
                let tap = nest.add(SymExpr::constant(window.kernel[axis]), LoopKind::Reduce);
                let at =
                    window.start(axis, &index[axis + 2]) + tap * SymExpr::constant(window.dilations[axis]);
                if window.pads[axis] > 0 {
                    guards.push(index_le(SymExpr::zero(), at.clone()));
                }
                if window.pads[axis + 2] > 0 || window.ceil_mode {
                    guards.push(index_lt(at.clone(), x.dims[axis + 2].clone()));
                }
                place[axis + 2] = at;
            }
            let (combiner, outside) = match self {
                Pool2d::Max => (Combiner::Max, lowest(compute)),
                Pool2d::Avg => (Combiner::Sum, Scalar::Const(0.0, compute)),
            };
            let reduced = match self {
                Pool2d::Max => Scalar::Reduced,
                Pool2d::Avg => div(Scalar::Reduced, index_f32(window.count(index, &x.dims))),
            };
            Ok(StageBody::Reduce {
                combiner,
                value: guarded(guards, x.value(&place, &nest.ranges), outside),
                epilogue: convert(reduced, compute, out.dtype),
            })
        })?;
        l.finish()
    }
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::Pool2d
    }
}
