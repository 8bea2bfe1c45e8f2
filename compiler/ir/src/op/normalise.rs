//! `layer_norm`, `rms_norm`, `batch_norm` and `group_norm`.

use super::check::{
    Accepts, OpName, Reader, arity, as_u8, attribute_error, dim_is, operand_error, rank_is, result,
    same_dtype, tensor,
};
use super::{LayoutRule, OpError, Operator};
use crate::annotation::{Annotation, TensorInfo};
use crate::graph::Attrs;
use crate::sym::SymExpr;

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
