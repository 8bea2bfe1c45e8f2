//! Building blocks: small functions over a [`Scope`], which adds operators and seeded weights to a graph function under names that are
//! scoped by path (`encoder.layer.0.attention.query.weight`).

mod attention;
mod conv;
mod linear;
mod norm;
mod rotary;
mod scope;

pub(crate) use attention::causal_mask;
pub use attention::{Heads, causal_grouped_attention, masked_attention};
pub use conv::{Conv, avg_pool_global, batch_norm, conv_bn, conv2d, max_pool};
pub use linear::{embedding, gelu_mlp, linear, swiglu_mlp};
pub use norm::{layer_norm, rms_norm};
pub use rotary::{Rotary, rotary_tables};
pub use scope::Scope;
