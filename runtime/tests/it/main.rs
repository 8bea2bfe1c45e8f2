//! Integration tests: hand-assembled modules, with kernels compiled from C by the host's compiler.

mod common;
mod constants;
mod format;
#[cfg(feature = "gemm")]
mod gemm;
mod kernels;
mod validation;
mod vm;
