//! Reference interpreters: what a tensor program and a graph function mean, executed on the host.
//!
//! Both are specifications first: bounds are checked, types are checked, nothing is approximated. Every pass can be tested by
//! running the module before and after it.

mod binding;
mod constants;
mod error;
mod graph;
mod index;
mod memory;
mod pack;
mod program;
mod scalar;

pub use constants::ConstantStore;
pub use error::InterpretError;
pub use graph::{GraphOptions, LibraryCall, LibraryTable, NoLibrary, Reference, run_function};
pub use pack::{Physical, pack, pack_zero_padded, unpack};
pub use program::run_program;
