//! Normalisations over the last axis.

use super::Scope;
use crate::weights::Role;
use relayout_ir::builder::{BuildError, attrs};
use relayout_ir::graph::{Attr, ValueId};

/// Layer normalisation over the last axis (extent `width`) of a rank-`rank` tensor, with scale and bias.
///
/// # Errors
/// When the last axis is not `width`.
pub fn layer_norm(
    scope: &mut Scope,
    x: ValueId,
    rank: usize,
    width: usize,
    eps: f64,
) -> Result<ValueId, BuildError> {
    let scale = scope.weight("scale", &[width], Role::Scale);
    let bias = scope.weight("bias", &[width], Role::Shift);
    let axis = i64::try_from(rank).unwrap_or(1) - 1;
    let attrs = attrs([("axis", Attr::Int(axis)), ("eps", Attr::Float(eps))]);
    scope.op("", "layer_norm", &[x, scale, bias], attrs)
}

/// Root-mean-square normalisation over the last axis (extent `width`) with scale.
///
/// # Errors
/// When the last axis is not `width`.
pub fn rms_norm(scope: &mut Scope, x: ValueId, width: usize, eps: f64) -> Result<ValueId, BuildError> {
    let scale = scope.weight("scale", &[width], Role::Scale);
    scope.op("", "rms_norm", &[x, scale], attrs([("eps", Attr::Float(eps))]))
}
