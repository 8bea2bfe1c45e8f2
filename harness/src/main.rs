//! The `relayout` binary.
fn main() {}
