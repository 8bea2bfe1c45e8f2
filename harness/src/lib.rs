//! The `relayout` harness as a library: what a run records, and what is derived from the records.

pub mod analysis;
pub mod diff;
pub mod journal;
pub mod plots;
pub mod record;
pub mod records;
pub mod stats;
pub mod table;
