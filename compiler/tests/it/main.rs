//! Integration tests of the compiler.
mod common;
mod extract;
mod generate;
mod kernels;
mod math;
mod passes;
mod rules;
mod speed;
