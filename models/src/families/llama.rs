//! Llama-style decoders (Touvron et al. 2023): RMS normalisation, rotary positions, grouped-query causal attention, SwiGLU. Batch `n` and
//! sequence `s` are symbolic.

use super::{assemble, root};
use crate::model::{Dimension, Family, Model};
use crate::nn::{
    Heads, causal_grouped_attention, causal_mask, embedding, linear, rms_norm, rotary_tables, swiglu_mlp,
};
use crate::overrides::{OverrideSpec, Sizes, size};
use crate::weights::Role;
use crate::zoo::ZooError;
use relayout_ir::annotation::DType;
use relayout_ir::graph::SymDecl;
use relayout_ir::sym::{SymExpr, SymVar};

/// What can be overridden.
pub const OVERRIDES: &[OverrideSpec] = &[
    size("layers", 4, 1024, "decoder blocks"),
    size(
        "hidden",
        1024,
        65_536,
        "model width; a multiple of heads, with an even quotient",
    ),
    size("heads", 16, 1024, "query heads; a multiple of kv_heads"),
    size("kv_heads", 4, 1024, "key and value heads"),
    size("intermediate", 2816, 1 << 20, "width inside the perceptron"),
    size("vocab", 32_000, 1 << 22, "vocabulary"),
    size("seq", 128, 1 << 20, "default of the symbolic sequence length s"),
    size("max_batch", 64, 1 << 20, "upper bound of n"),
    size("max_seq", 4096, 1 << 24, "upper bound of s"),
];

const EPS: f64 = 1e-5;
const THETA: f64 = 10_000.0;

fn dimension(name: &str, default: usize, high: usize) -> Dimension {
    let int = |v: usize| i64::try_from(v).unwrap_or(i64::MAX);
    Dimension {
        decl: SymDecl {
            var: SymVar::new(name),
            low: 1,
            high: Some(int(high)),
        },
        default: int(default),
    }
}

/// Builds the stack; `batch` is the default of `n`.
///
/// # Errors
/// When the head counts do not divide, a head is odd, or a default exceeds its bound.
pub fn llama(sizes: &Sizes, seed: u64, batch: usize) -> Result<Model, ZooError> {
    sizes.divides("heads", "hidden")?;
    sizes.divides("kv_heads", "heads")?;
    let get = |name| sizes.get(name);
    let (hidden, heads, vocab) = (get("hidden"), get("heads"), get("vocab"));
    let head = hidden / heads;
    let refuse = |problem: String| {
        Err(ZooError::Constraint {
            model: "llama",
            problem,
        })
    };
    if !head.is_multiple_of(2) {
        return refuse(format!(
            "hidden/heads = {head} is odd; rotary positions pair the elements of a head"
        ));
    }
    for (name, value, bound) in [("seq", get("seq"), "max_seq"), ("batch", batch, "max_batch")] {
        if value > get(bound) {
            return refuse(format!("{name}={value} exceeds {bound}={}", get(bound)));
        }
    }
    let dims = [
        dimension("n", batch, get("max_batch")),
        dimension("s", get("seq"), get("max_seq")),
    ];
    let geometry = Heads {
        batch: SymExpr::named("n"),
        sequence: SymExpr::named("s"),
        width: hidden,
        heads,
        kv_heads: get("kv_heads"),
        head,
    };
    assemble(
        "llama",
        Family::DenseTransformers,
        seed,
        &dims,
        |assembly, seed| {
            let shape = vec![SymExpr::named("n"), SymExpr::named("s")];
            let tokens = assembly.input("tokens", shape, DType::I64, Role::Index { bound: vocab });
            let mut net = root(assembly, seed);
            let mut x = embedding(&mut net.child("embedding"), tokens, vocab, hidden)?;
            let rotary = rotary_tables(&mut net.child("rotary"), &geometry.sequence, head, THETA)?;
            let mask = causal_mask(&mut net, &geometry.sequence)?;
            for layer in 0..get("layers") {
                let mut scope = net.child(&format!("layer{layer}"));
                let normed = rms_norm(&mut scope.child("attention_norm"), x, hidden, EPS)?;
                let attended =
                    causal_grouped_attention(&mut scope.child("attention"), normed, &geometry, rotary, mask)?;
                x = scope.plain("attention_sum", "add", &[x, attended])?;
                let normed = rms_norm(&mut scope.child("mlp_norm"), x, hidden, EPS)?;
                let inner = swiglu_mlp(&mut scope.child("mlp"), normed, hidden, get("intermediate"))?;
                x = scope.plain("mlp_sum", "add", &[x, inner])?;
            }
            let normed = rms_norm(&mut net.child("norm"), x, hidden, EPS)?;
            let logits = linear(&mut net.child("head"), normed, hidden, vocab, false)?;
            Ok(vec![("logits", logits)])
        },
    )
}
