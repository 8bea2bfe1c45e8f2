//! Import of ONNX files (operator sets 11 to 21) into the IR.
//!
//! A file whose metadata has `data_inputs` (comma-separated names) has had its weights stripped: every other graph input is a weight,
//! drawn from the seed by the rule of [`crate::weights`]. Integer shape computations are evaluated during import, so that reshape targets
//! and the like are known; named dimensions become symbolic variables, and shape arithmetic on them stays symbolic.

mod context;
mod error;
mod host;
mod import;
mod node;
mod ops;
mod proto;
mod roles;
mod symbolic;
mod wire;

pub use error::{OnnxError, UnsupportedOperator};
pub use import::{ImportOptions, import};
