//! `layer_norm`, `rms_norm`, `batch_norm` and `group_norm`.

use super::check::{
    Accepts, OpName, Reader, arity, as_u8, attribute_error, dim_is, operand_error, rank_is, result,
    same_dtype, tensor,
};
use super::lower::{Lowering, Nest, View, fitting};
use super::reference::{around_axis, checked};
use super::scalar::{add, convert, div, f32_const, index_f32, mul, sub, unary};
use super::{LayoutRule, LegaliseCall, OpError, Operator};
use crate::annotation::{Annotation, DType, TensorInfo};
use crate::graph::Attrs;
use crate::layout::Layout;
use crate::program::{Combiner, LoopKind, Scalar, StageBody, TensorProgram, UnaryOp};
use crate::sym::{SymExpr, product};
use crate::tensor::RefValue;

/// Over the axes from `axis` on.
pub(super) struct LayerNorm;
/// Root mean square over the last axis.
pub(super) struct RmsNorm;
/// With given statistics per channel (axis 1).
pub(super) struct BatchNorm;
/// Over groups of channels and all spatial axes.
pub(super) struct GroupNorm;

/// Checks that a parameter has exactly these dimensions, as far as known.
fn parameter(op: OpName, operand: usize, t: &TensorInfo, expected: &[SymExpr]) -> Result<(), OpError> {
    rank_is(op, operand, &t.shape, expected.len()..=expected.len())?;
    if let Some(dims) = t.dims() {
        for (axis, (found, want)) in dims.iter().zip(expected).enumerate() {
            dim_is(op, operand, axis, found, want)?;
        }
    }
    Ok(())
}

/// The operands, all floating-point and of one type.
fn float_operands(op: OpName, args: &[&Annotation]) -> Result<Vec<TensorInfo>, OpError> {
    let tensors = (0..args.len())
        .map(|i| tensor(op, args, i, Accepts::Float))
        .collect::<Result<Vec<_>, _>>()?;
    let numbered: Vec<_> = tensors.iter().enumerate().collect();
    same_dtype(op, &numbered)?;
    Ok(tensors)
}

impl LayerNorm {
    fn attributes(attrs: &Attrs, rank: Option<usize>) -> Result<(usize, f64), OpError> {
        let reader = Reader::new("layer_norm", attrs, &["axis", "eps"])?;
        Ok((reader.axis("axis", rank)?, reader.float("eps")?))
    }
}

impl Operator for LayerNorm {
    fn name(&self) -> &'static str {
        "layer_norm"
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name(), args.len(), 1..=3)?;
        let operands = float_operands(self.name(), args)?;
        let x = &operands[0];
        let (axis, _) = Self::attributes(attrs, x.shape.rank())?;
        if let Some(dims) = x.dims() {
            for (i, p) in operands.iter().enumerate().skip(1) {
                parameter(self.name(), i, p, &dims[axis..])?;
            }
        }
        Ok(result(x.shape.clone(), x.dtype))
    }
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        let (axis, eps) = Self::attributes(&call.attrs, Some(call.shape().len()))?;
        let row: usize = call.shape()[axis..].iter().product();
        let scale = if call.args.len() > 1 {
            Some(call.float_arg(1)?)
        } else {
            None
        };
        let bias = if call.args.len() > 2 {
            Some(call.float_arg(2)?)
        } else {
            None
        };
        call.floats(standardised(call.float_arg(0)?, row, eps, |at, y| {
            let lane = at % row;
            y * scale.map_or(1.0, |s| f64::from(s[lane])) + bias.map_or(0.0, |b| f64::from(b[lane]))
        }))
    }
    /// Three stages: the mean, the reciprocal deviation, the result.
    fn legalise(&self, call: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        let mut l = Lowering::new(self.name(), call, 1..=3)?;
        let (x, out) = (l.args[0].clone(), l.out.clone());
        let (axis, eps) = Self::attributes(call.attrs, Some(x.dims.len()))?;
        let axes: Vec<usize> = (axis..x.dims.len()).collect();
        let count = index_f32(product(&x.dims[axis..]));
        let mean = l.statistic("mean", &out, &axes, DType::F32)?;
        let value = |nest: &Nest, index: &[SymExpr], _: &[SymExpr]| x.value(index, &nest.ranges);
        l.reduce(
            &mean,
            &x,
            &axes,
            false,
            Combiner::Sum,
            value,
            div(Scalar::Reduced, count.clone()),
        )?;
        let centred = |nest: &Nest, index: &[SymExpr]| {
            sub(
                x.value(index, &nest.ranges),
                mean.load(&index[..axis], &nest.ranges),
            )
        };
        let inverse = l.statistic("inverse_deviation", &out, &axes, DType::F32)?;
        let square = |nest: &Nest, index: &[SymExpr], _: &[SymExpr]| {
            let c = centred(nest, index);
            mul(c.clone(), c)
        };
        l.reduce(
            &inverse,
            &x,
            &axes,
            false,
            Combiner::Sum,
            square,
            inverse_root(count, eps),
        )?;
        let params = l.args[1..].to_vec();
        l.stage(&out, |nest, index| {
            let own = &index[axis..];
            let y = mul(centred(nest, index), inverse.load(&index[..axis], &nest.ranges));
            Ok(StageBody::Map(affine(y, &params, own, nest, out.dtype)))
        })?;
        l.finish()
    }
    fn layout_rule(&self, args: &[&Annotation], attrs: &Attrs) -> LayoutRule {
        let rank = args
            .first()
            .and_then(|a| a.as_tensor())
            .and_then(|t| t.shape.rank());
        match (Self::attributes(attrs, rank), rank) {
            (Ok((axis, _)), Some(rank)) => LayoutRule::AlongAxes(as_u8(&(axis..rank).collect::<Vec<_>>())),
            _ => LayoutRule::AbiOnly,
        }
    }
}

impl RmsNorm {
    fn eps(attrs: &Attrs) -> Result<f64, OpError> {
        Reader::new("rms_norm", attrs, &["eps"])?.float("eps")
    }
}

impl Operator for RmsNorm {
    fn name(&self) -> &'static str {
        "rms_norm"
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name(), args.len(), 2..=2)?;
        Self::eps(attrs)?;
        let operands = float_operands(self.name(), args)?;
        let x = &operands[0];
        rank_is(self.name(), 0, &x.shape, 1..=usize::MAX)?;
        if let Some([.., last]) = x.dims() {
            parameter(self.name(), 1, &operands[1], std::slice::from_ref(last))?;
        }
        Ok(result(x.shape.clone(), x.dtype))
    }
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        let eps = Self::eps(&call.attrs)?;
        let (x, scale) = (call.float_arg(0)?, call.float_arg(1)?);
        let mut out = Vec::with_capacity(x.len());
        for row in x.chunks(scale.len().max(1)) {
            let square = row.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / row.len() as f64;
            let inverse = 1.0 / (square + eps).sqrt();
            out.extend(
                row.iter()
                    .zip(scale)
                    .map(|(v, s)| (f64::from(*v) * inverse * f64::from(*s)) as f32),
            );
        }
        call.floats(out)
    }
    /// Two stages: the reciprocal root mean square, the result.
    fn legalise(&self, call: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        let mut l = Lowering::new(self.name(), call, 2..=2)?;
        let (x, out) = (l.args[0].clone(), l.out.clone());
        let eps = Self::eps(call.attrs)?;
        rank_is(
            self.name(),
            0,
            &crate::annotation::ShapeInfo::Rank(x.dims.len()),
            1..=usize::MAX,
        )?;
        let axis = x.dims.len() - 1;
        let inverse = l.statistic("inverse_root", &out, &[axis], DType::F32)?;
        let square = |nest: &Nest, index: &[SymExpr], _: &[SymExpr]| {
            let v = x.value(index, &nest.ranges);
            mul(v.clone(), v)
        };
        let epilogue = inverse_root(index_f32(x.dims[axis].clone()), eps);
        l.reduce(&inverse, &x, &[axis], false, Combiner::Sum, square, epilogue)?;
        let params = l.args[1..].to_vec();
        l.stage(&out, |nest, index| {
            let y = mul(
                x.value(index, &nest.ranges),
                inverse.load(&index[..axis], &nest.ranges),
            );
            Ok(StageBody::Map(affine(
                y,
                &params,
                &index[axis..],
                nest,
                out.dtype,
            )))
        })?;
        l.finish()
    }
    fn layout_rule(&self, args: &[&Annotation], _: &Attrs) -> LayoutRule {
        let rank = args
            .first()
            .and_then(|a| a.as_tensor())
            .and_then(|t| t.shape.rank());
        match rank {
            Some(rank @ 1..) => LayoutRule::AlongAxes(as_u8(&[rank - 1])),
            _ => LayoutRule::AbiOnly,
        }
    }
}

impl BatchNorm {
    fn eps(attrs: &Attrs) -> Result<f64, OpError> {
        Reader::new("batch_norm", attrs, &["eps"])?.float("eps")
    }
}

impl Operator for BatchNorm {
    fn name(&self) -> &'static str {
        "batch_norm"
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name(), args.len(), 5..=5)?;
        Self::eps(attrs)?;
        channelwise(self.name(), args)
    }
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        let eps = Self::eps(&call.attrs)?;
        let (_, channels, inner) = around_axis(call.shape(), 1);
        let x = call.float_arg(0)?;
        let param = |i: usize| call.float_arg(i);
        let (scale, bias, mean, var) = (param(1)?, param(2)?, param(3)?, param(4)?);
        let mut out = Vec::with_capacity(x.len());
        for (plane, values) in x.chunks(inner.max(1)).enumerate() {
            let c = plane % channels;
            let factor = f64::from(scale[c]) / (f64::from(var[c]) + eps).sqrt();
            let shift = f64::from(bias[c]) - f64::from(mean[c]) * factor;
            out.extend(values.iter().map(|v| (f64::from(*v) * factor + shift) as f32));
        }
        call.floats(out)
    }
    /// One stage; the per-channel factors are computed in place, so that the program stays elementwise.
    fn legalise(&self, call: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        let eps = Self::eps(call.attrs)?;
        Lowering::new(self.name(), call, 5..=5)?.map(|l, nest, index| {
            rank_is(
                self.name(),
                0,
                &crate::annotation::ShapeInfo::Rank(index.len()),
                2..=usize::MAX,
            )?;
            let param = |i: usize| l.args[i].value(&index[1..2], &nest.ranges);
            let deviation = add(param(4), f32_const(eps));
            let factor = mul(param(1), unary(UnaryOp::Rsqrt, deviation));
            let centred = sub(l.args[0].value(index, &nest.ranges), param(3));
            Ok(convert(
                add(mul(centred, factor), param(2)),
                DType::F32,
                l.out.dtype,
            ))
        })
    }
    /// Nothing is read whole: the parameters are per channel.
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::AlongAxes(Vec::new())
    }
}

/// Deduction where every operand after the first is per channel (axis 1).
fn channelwise(op: OpName, args: &[&Annotation]) -> Result<Annotation, OpError> {
    let operands = float_operands(op, args)?;
    let x = &operands[0];
    rank_is(op, 0, &x.shape, 2..=usize::MAX)?;
    if let Some([_, channels, ..]) = x.dims() {
        for (i, p) in operands.iter().enumerate().skip(1) {
            parameter(op, i, p, std::slice::from_ref(channels))?;
        }
    }
    Ok(result(x.shape.clone(), x.dtype))
}

impl GroupNorm {
    fn attributes(attrs: &Attrs) -> Result<(i64, f64), OpError> {
        let reader = Reader::new("group_norm", attrs, &["groups", "eps"])?;
        let groups = reader.int("groups")?;
        if groups < 1 {
            let problem = format!("expected at least 1, found {groups}");
            return Err(attribute_error("group_norm", "groups", problem));
        }
        Ok((groups, reader.float("eps")?))
    }
}

impl Operator for GroupNorm {
    fn name(&self) -> &'static str {
        "group_norm"
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name(), args.len(), 3..=3)?;
        let (groups, _) = Self::attributes(attrs)?;
        let out = channelwise(self.name(), args)?;
        let channels = out.as_tensor().and_then(|t| t.dims()).map(|d| &d[1]);
        if let Some(c) = channels.filter(|c| c.as_const().is_some_and(|c| c % groups != 0)) {
            let expected = format!("channels divisible by {groups} groups");
            return Err(operand_error(self.name(), 0, expected, c.to_string()));
        }
        Ok(out)
    }
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        let (groups, eps) = Self::attributes(&call.attrs)?;
        let (_, channels, inner) = around_axis(call.shape(), 1);
        let row = channels / groups as usize * inner;
        let (scale, bias) = (call.float_arg(1)?, call.float_arg(2)?);
        call.floats(standardised(call.float_arg(0)?, row, eps, |at, y| {
            let c = at / inner % channels;
            y * f64::from(scale[c]) + f64::from(bias[c])
        }))
    }
    /// Three stages as in layer normalisation, with statistics per image and group.
    fn legalise(&self, call: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        let (groups, eps) = Self::attributes(call.attrs)?;
        let mut l = Lowering::new(self.name(), call, 3..=3)?;
        let (x, out) = (l.args[0].clone(), l.out.clone());
        rank_is(
            self.name(),
            0,
            &crate::annotation::ShapeInfo::Rank(x.dims.len()),
            2..=usize::MAX,
        )?;
        let per_group = match x.dims[1].as_const() {
            Some(c) if c % groups == 0 => c / groups,
            _ => {
                let problem = format!("{groups} groups do not provably divide {} channels", x.dims[1]);
                return Err(super::check::unsupported(self.name(), problem));
            }
        };
        let dims = vec![x.dims[0].clone(), SymExpr::constant(groups)];
        // One group's part of the input, with the blocks that fit into it.
        let mut part = x.dims.clone();
        part[1] = SymExpr::constant(per_group);
        let part_layout = fitting(&x.layout, &part);
        let count = index_f32(product(&part[1..]));
        let inside = |nest: &mut Nest, stat: &[SymExpr]| {
            let (mut index, _) = nest.over(&part_layout, &part, |a| a > 0, LoopKind::Reduce);
            index[0] = stat[0].clone();
            index[1] = index[1].clone() + stat[1].clone() * SymExpr::constant(per_group);
            x.value(&index, &nest.ranges)
        };
        let statistic = Layout::row_major(2);
        let mean = l.workspace("mean", dims.clone(), statistic.clone(), DType::F32)?;
        l.stage(&mean, |nest, stat| {
            Ok(StageBody::Reduce {
                combiner: Combiner::Sum,
                value: inside(nest, stat),
                epilogue: div(Scalar::Reduced, count.clone()),
            })
        })?;
        let inverse = l.workspace("inverse_deviation", dims, statistic, DType::F32)?;
        l.stage(&inverse, |nest, stat| {
            let value = inside(nest, stat);
            let centred = sub(value, mean.load(stat, &nest.ranges));
            Ok(StageBody::Reduce {
                combiner: Combiner::Sum,
                value: mul(centred.clone(), centred),
                epilogue: inverse_root(count.clone(), eps),
            })
        })?;
        let params = l.args[1..].to_vec();
        l.stage(&out, |nest, index| {
            let stat = [index[0].clone(), index[1].floor_div(per_group)];
            let centred = sub(x.value(index, &nest.ranges), mean.load(&stat, &nest.ranges));
            let y = mul(centred, inverse.load(&stat, &nest.ranges));
            Ok(StageBody::Map(affine(y, &params, &index[1..2], nest, out.dtype)))
        })?;
        l.finish()
    }
    fn layout_rule(&self, args: &[&Annotation], _: &Attrs) -> LayoutRule {
        match args
            .first()
            .and_then(|a| a.as_tensor())
            .and_then(|t| t.shape.rank())
        {
            Some(rank) => LayoutRule::AlongAxes(as_u8(&(1..rank).collect::<Vec<_>>())),
            None => LayoutRule::AbiOnly,
        }
    }
}

/// 1 / √(reduced / count + eps).
fn inverse_root(count: Scalar, eps: f64) -> Scalar {
    unary(UnaryOp::Rsqrt, add(div(Scalar::Reduced, count), f32_const(eps)))
}

/// `y · scale + bias` with the parameters that there are, in the result's type.
fn affine(y: Scalar, params: &[View], index: &[SymExpr], nest: &Nest, dtype: DType) -> Scalar {
    let y = match params.first() {
        Some(scale) => mul(y, scale.value(index, &nest.ranges)),
        None => y,
    };
    let y = match params.get(1) {
        Some(bias) => add(y, bias.value(index, &nest.ranges)),
        None => y,
    };
    convert(y, DType::F32, dtype)
}

/// Rows shifted to mean 0 and scaled to variance 1, then mapped by a function of the flat position.
fn standardised(x: &[f32], row: usize, eps: f64, map: impl Fn(usize, f64) -> f64) -> Vec<f32> {
    let mut out = Vec::with_capacity(x.len());
    for values in x.chunks(row.max(1)) {
        let n = values.len() as f64;
        let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / n;
        let variance = values.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / n;
        let inverse = 1.0 / (variance + eps).sqrt();
        for v in values {
            let y = (f64::from(*v) - mean) * inverse;
            out.push(map(out.len(), y) as f32);
        }
    }
    out
}
