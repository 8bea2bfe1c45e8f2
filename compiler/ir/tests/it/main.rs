//! Integration tests of the IR, one module per concept.

mod run_program;
