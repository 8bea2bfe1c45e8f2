//! Attention: bidirectional with a padding mask (BERT), and causal with grouped key and value heads (Llama).

use super::{Rotary, Scope, linear};
use relayout_ir::builder::{BuildError, attrs};
use relayout_ir::graph::{Attr, ValueId};
use relayout_ir::sym::SymExpr;

/// Sizes of an attention block.
#[derive(Clone, Debug)]
pub struct Heads {
    /// Batch.
    pub batch: SymExpr,
    /// Sequence length.
    pub sequence: SymExpr,
    /// Model width.
    pub width: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Elements per head.
    pub head: usize,
}

impl Heads {
    fn project(
        &self,
        scope: &mut Scope,
        name: &str,
        x: ValueId,
        heads: usize,
        bias: bool,
    ) -> Result<ValueId, BuildError> {
        let mut part = scope.child(name);
        let y = linear(&mut part, x, self.width, heads * self.head, bias)?;
        let shape = vec![
            self.batch.clone(),
            self.sequence.clone(),
            heads.into(),
            self.head.into(),
        ];
        let split = part.reshape("split", y, shape)?;
        part.permute("heads", split, &[0, 2, 1, 3])
    }
    /// `[batch, heads, sequence, head]` back to `[batch, sequence, width]`, then the output projection.
    fn output(&self, scope: &mut Scope, x: ValueId, bias: bool) -> Result<ValueId, BuildError> {
        let joined = scope.permute("joined", x, &[0, 2, 1, 3])?;
        let inner = self.heads * self.head;
        let flat = scope.reshape(
            "flat",
            joined,
            vec![self.batch.clone(), self.sequence.clone(), inner.into()],
        )?;
        linear(&mut scope.child("output"), flat, inner, self.width, bias)
    }
    fn scale(&self, scope: &mut Scope, scores: ValueId) -> Result<ValueId, BuildError> {
        let scale = scope.values("scale", &[], &[1.0 / (self.head as f32).sqrt()]);
        scope.plain("scaled", "mul", &[scores, scale])
    }
}

/// Bidirectional attention. `mask` broadcasts to `[batch, heads, sequence, sequence]` and is added to the scores.
///
/// # Errors
/// When `x` is not `[batch, sequence, width]`.
pub fn masked_attention(
    scope: &mut Scope,
    x: ValueId,
    heads: &Heads,
    mask: ValueId,
) -> Result<ValueId, BuildError> {
    let query = heads.project(scope, "query", x, heads.heads, true)?;
    let key = heads.project(scope, "key", x, heads.heads, true)?;
    let value = heads.project(scope, "value", x, heads.heads, true)?;
    let scores = scope.matmul("scores", query, key, true)?;
    let scaled = heads.scale(scope, scores)?;
    let masked = scope.plain("masked", "add", &[scaled, mask])?;
    let weights = scope.softmax("weights", masked, 4)?;
    let context = scope.matmul("context", weights, value, false)?;
    heads.output(scope, context, true)
}

/// Causal attention with grouped heads and rotary positions. `mask` is Boolean `[sequence, sequence]`, true where a query may look.
///
/// The queries of a group are laid one after the other (heads/kv_heads · sequence rows), so that one matmul per key head serves the
/// group and keys and values are never repeated; all reshapes involved are aliases.
///
/// # Errors
/// When `x` is not `[batch, sequence, width]`.
pub fn causal_grouped_attention(
    scope: &mut Scope,
    x: ValueId,
    heads: &Heads,
    rotary: Rotary,
    mask: ValueId,
) -> Result<ValueId, BuildError> {
    let group = heads.heads / heads.kv_heads;
    let (n, s) = (heads.batch.clone(), heads.sequence.clone());
    let (kv, head) = (SymExpr::from(heads.kv_heads), SymExpr::from(heads.head));
    let rows = s.clone() * SymExpr::from(group);

    let query = heads.project(scope, "query", x, heads.heads, false)?;
    let key = heads.project(scope, "key", x, heads.kv_heads, false)?;
    let value = heads.project(scope, "value", x, heads.kv_heads, false)?;
    let query = rotary.apply(&mut scope.child("query_rotary"), query)?;
    let key = rotary.apply(&mut scope.child("key_rotary"), key)?;

    let grouped = scope.reshape(
        "grouped",
        query,
        vec![n.clone(), kv.clone(), rows.clone(), head.clone()],
    )?;
    let scores = scope.matmul("scores", grouped, key, true)?;
    let scaled = heads.scale(scope, scores)?;
    let per_head = vec![n.clone(), heads.heads.into(), s.clone(), s.clone()];
    let per_head = scope.reshape("per_head", scaled, per_head)?;
    // Finite, so that a row could not become NaN even if it were masked whole.
    let blocked = scope.values("blocked", &[], &[f32::MIN]);
    let masked = scope.plain("masked", "where", &[mask, per_head, blocked])?;
    let weights = scope.softmax("weights", masked, 4)?;
    let regrouped = scope.reshape("regrouped", weights, vec![n.clone(), kv, rows, s.clone()])?;
    let context = scope.matmul("context", regrouped, value, false)?;
    let context = scope.reshape("heads", context, vec![n, heads.heads.into(), s, head])?;
    heads.output(scope, context, false)
}

/// The Boolean causal mask `[sequence, sequence]`: element (i, j) is j ≤ i.
pub(crate) fn causal_mask(scope: &mut Scope, sequence: &SymExpr) -> Result<ValueId, BuildError> {
    let square = attrs([
        ("rows", Attr::Shape(vec![sequence.clone()])),
        ("cols", Attr::Shape(vec![sequence.clone()])),
        ("offset", Attr::Shape(vec![SymExpr::zero()])),
    ]);
    scope.op("causal_mask", "tril_mask", &[], square)
}
