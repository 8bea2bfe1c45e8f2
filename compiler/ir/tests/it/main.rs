//! Integration tests of the IR, one module per concept.

mod ops;
mod run_program;
