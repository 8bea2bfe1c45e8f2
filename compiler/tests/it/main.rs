//! Integration tests of the compiler.
mod extract;
