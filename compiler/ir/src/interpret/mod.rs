//! Reference interpreters: what a tensor program and a graph function mean, executed on the host.
//!
//! Both are specifications first: bounds are checked, types are checked, nothing is approximated. Every pass can be tested by
//! running the module before and after it.

mod error;
mod index;
mod memory;
mod pack;
mod program;
mod scalar;

pub use error::InterpretError;
pub use pack::{Physical, pack, pack_zero_padded, unpack};
pub use program::run_program;
pub use scalar::{erf, round_to, wrap_to};
