//! The `relayout` harness as a library: what a run records, and what is derived from the records.

pub mod journal;
pub mod record;
pub mod stats;
