//! Rotary position embeddings (Su et al. 2021), in the half-split form of Llama.

use super::Scope;
use relayout_ir::annotation::DType;
use relayout_ir::builder::{BuildError, attrs};
use relayout_ir::graph::{Attr, ValueId};
use relayout_ir::sym::SymExpr;

/// Cosine and sine tables `[sequence, head / 2]`, shared by all layers.
#[derive(Clone, Copy, Debug)]
pub struct Rotary {
    cos: ValueId,
    sin: ValueId,
    head: usize,
}

/// Tables for positions `0..sequence` and heads of `head` (even) elements with base `theta`.
///
/// # Errors
/// Never for valid sizes; deduction checks each step.
pub fn rotary_tables(
    scope: &mut Scope,
    sequence: &SymExpr,
    head: usize,
    theta: f64,
) -> Result<Rotary, BuildError> {
    let half = head / 2;
    let frequency = |i: usize| theta.powf(-2.0 * i as f64 / head as f64) as f32;
    let frequencies: Vec<f32> = (0..half).map(frequency).collect();
    let frequencies = scope.values("frequencies", &[half], &frequencies);
    let count = attrs([
        ("n", Attr::Shape(vec![sequence.clone()])),
        ("start", Attr::Int(0)),
        ("dtype", Attr::DType(DType::F32)),
    ]);
    let positions = scope.op("positions", "arange", &[], count)?;
    let column = scope.expand_dims("column", positions, &[1])?;
    let angles = scope.plain("angles", "mul", &[column, frequencies])?;
    Ok(Rotary {
        cos: scope.plain("cos", "cos", &[angles])?,
        sin: scope.plain("sin", "sin", &[angles])?,
        head,
    })
}

impl Rotary {
    /// Rotates `x` `[batch, heads, sequence, head]`: with x = (a, b) split in halves, (a·cos − b·sin, b·cos + a·sin).
    ///
    /// # Errors
    /// When the shape of `x` does not fit the tables.
    pub fn apply(&self, scope: &mut Scope, x: ValueId) -> Result<ValueId, BuildError> {
        let half = self.head / 2;
        let a = scope.slice("low", x, 3, 0, half)?;
        let b = scope.slice("high", x, 3, half, self.head)?;
        let a_cos = scope.plain("low_cos", "mul", &[a, self.cos])?;
        let b_sin = scope.plain("high_sin", "mul", &[b, self.sin])?;
        let b_cos = scope.plain("high_cos", "mul", &[b, self.cos])?;
        let a_sin = scope.plain("low_sin", "mul", &[a, self.sin])?;
        let first = scope.plain("first", "sub", &[a_cos, b_sin])?;
        let second = scope.plain("second", "add", &[b_cos, a_sin])?;
        scope.op("", "concat", &[first, second], attrs([("axis", Attr::Int(3))]))
    }
}
