//! Integration tests of the compiler.
mod common;
mod extract;
mod kernels;
mod math;
mod passes;
mod speed;
