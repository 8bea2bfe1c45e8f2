//! Integration tests of the IR, one module per concept.

mod generate;
mod infer;
mod ops;
mod prove;
mod run_function;
mod run_program;
mod text;
mod verify;
