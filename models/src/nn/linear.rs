//! Linear maps, embeddings and multi-layer perceptrons.

use super::Scope;
use crate::weights::Role;
use relayout_ir::builder::{BuildError, attrs};
use relayout_ir::graph::{Attr, ValueId};

/// `x · W (+ b)` with W `[input, output]`.
///
/// # Errors
/// When the last axis of `x` is not `input`.
pub fn linear(
    scope: &mut Scope,
    x: ValueId,
    input: usize,
    output: usize,
    bias: bool,
) -> Result<ValueId, BuildError> {
    let weight = scope.weight("weight", &[input, output], Role::Contraction { fan_in: input });
    if !bias {
        return scope.matmul("", x, weight, false);
    }
    let product = scope.matmul("matmul", x, weight, false)?;
    let bias = scope.weight("bias", &[output], Role::Shift);
    scope.plain("", "add", &[product, bias])
}

/// Rows of a table `[vocabulary, width]` looked up by integer ids.
///
/// # Errors
/// When `ids` is no integer tensor.
pub fn embedding(
    scope: &mut Scope,
    ids: ValueId,
    vocabulary: usize,
    width: usize,
) -> Result<ValueId, BuildError> {
    let table = scope.weight("weight", &[vocabulary, width], Role::Value);
    scope.op("", "take", &[table, ids], attrs([("axis", Attr::Int(0))]))
}

/// Linear, GELU (by the error function), linear: the perceptron of BERT.
///
/// # Errors
/// When the last axis of `x` is not `width`.
pub fn gelu_mlp(scope: &mut Scope, x: ValueId, width: usize, inner: usize) -> Result<ValueId, BuildError> {
    let up = linear(&mut scope.child("up"), x, width, inner, true)?;
    let exact = attrs([("approximate", Attr::Str("none".to_owned()))]);
    let active = scope.op("gelu", "gelu", &[up], exact)?;
    linear(&mut scope.child("down"), active, inner, width, true)
}

/// `down(silu(gate(x)) · up(x))` without biases: the perceptron of Llama.
///
/// # Errors
/// When the last axis of `x` is not `width`.
pub fn swiglu_mlp(scope: &mut Scope, x: ValueId, width: usize, inner: usize) -> Result<ValueId, BuildError> {
    let gate = linear(&mut scope.child("gate"), x, width, inner, false)?;
    let up = linear(&mut scope.child("up"), x, width, inner, false)?;
    let active = scope.plain("silu", "silu", &[gate])?;
    let gated = scope.plain("gated", "mul", &[active, up])?;
    linear(&mut scope.child("down"), gated, inner, width, false)
}
