//! BERT encoders (Devlin et al. 2018): the last hidden state and the pooled first token.

use super::{assemble, root};
use crate::model::{Family, Model};
use crate::nn::{Heads, embedding, gelu_mlp, layer_norm, linear, masked_attention};
use crate::overrides::{OverrideSpec, Sizes, size};
use crate::weights::Role;
use crate::zoo::ZooError;
use relayout_ir::annotation::DType;
use relayout_ir::builder::attrs;
use relayout_ir::graph::Attr;
use relayout_ir::sym::SymExpr;

/// What can be overridden.
pub const OVERRIDES: &[OverrideSpec] = &[
    size("layers", 12, 1024, "encoder layers"),
    size("hidden", 768, 65_536, "model width; a multiple of heads"),
    size("heads", 12, 1024, "attention heads"),
    size("intermediate", 3072, 1 << 20, "width inside the perceptron"),
    size("vocab", 30_522, 1 << 22, "vocabulary"),
    size("seq", 128, 1 << 20, "tokens"),
];

const EPS: f64 = 1e-12;

/// Builds the encoder.
///
/// # Errors
/// When `hidden` is not a multiple of `heads`.
pub fn bert(sizes: &Sizes, seed: u64, batch: usize) -> Result<Model, ZooError> {
    sizes.divides("heads", "hidden")?;
    let (hidden, heads, seq, vocab) = (
        sizes.get("hidden"),
        sizes.get("heads"),
        sizes.get("seq"),
        sizes.get("vocab"),
    );
    let geometry = Heads {
        batch: batch.into(),
        sequence: seq.into(),
        width: hidden,
        heads,
        kv_heads: heads,
        head: hidden / heads,
    };
    assemble("bert", Family::DenseTransformers, seed, &[], |assembly, seed| {
        let shape: Vec<SymExpr> = vec![batch.into(), seq.into()];
        let ids = assembly.input(
            "input_ids",
            shape.clone(),
            DType::I64,
            Role::Index { bound: vocab },
        );
        let mask = assembly.input("attention_mask", shape.clone(), DType::I64, Role::Ones);
        let types = assembly.input("token_type_ids", shape, DType::I64, Role::Index { bound: 2 });
        let mut net = root(assembly, seed);

        let mut part = net.child("embeddings");
        let words = embedding(&mut part.child("word"), ids, vocab, hidden)?;
        let kinds = embedding(&mut part.child("token_type"), types, 2, hidden)?;
        let positions = part.weight("position.weight", &[seq, hidden], Role::Shift);
        let sum = part.plain("typed", "add", &[words, kinds])?;
        let sum = part.plain("positioned", "add", &[sum, positions])?;
        let mut x = layer_norm(&mut part.child("norm"), sum, 3, hidden, EPS)?;

        // The additive mask [batch, 1, 1, seq]: 0 where attention may look, a large negative number elsewhere.
        let seen = net.op(
            "mask.seen",
            "cast",
            &[mask],
            attrs([("dtype", Attr::DType(DType::Bool))]),
        )?;
        let seen = net.expand_dims("mask.rows", seen, &[1, 2])?;
        let (open, blocked) = (
            net.values("mask.open", &[], &[0.0]),
            net.values("mask.blocked", &[], &[f32::MIN]),
        );
        let mask = net.plain("mask", "where", &[seen, open, blocked])?;

        for layer in 0..sizes.get("layers") {
            let mut scope = net.child(&format!("layer{layer}"));
            let attended = masked_attention(&mut scope.child("attention"), x, &geometry, mask)?;
            let sum = scope.plain("attention_sum", "add", &[attended, x])?;
            let middle = layer_norm(&mut scope.child("attention_norm"), sum, 3, hidden, EPS)?;
            let inner = gelu_mlp(&mut scope.child("mlp"), middle, hidden, sizes.get("intermediate"))?;
            let sum = scope.plain("mlp_sum", "add", &[inner, middle])?;
            x = layer_norm(&mut scope.child("mlp_norm"), sum, 3, hidden, EPS)?;
        }
        let first = net.slice("pooler.first", x, 1, 0, 1)?;
        let first = net.reshape("pooler.token", first, vec![batch.into(), hidden.into()])?;
        let dense = linear(&mut net.child("pooler.dense"), first, hidden, hidden, true)?;
        let pooled = net.plain("pooled", "tanh", &[dense])?;
        Ok(vec![("last_hidden_state", x), ("pooler_output", pooled)])
    })
}
