//! The `relayout` harness as a library: what a run records, and what is derived from the records.

pub mod analysis;
pub mod cli;
pub mod commands;
pub mod config;
pub mod diff;
pub mod filter;
pub mod frontend;
pub mod journal;
pub mod machine;
pub mod npy;
pub mod plan;
pub mod plots;
pub mod profiler;
pub mod progress;
pub mod record;
pub mod records;
pub mod reference;
pub mod run;
pub mod stats;
pub mod supervise;
pub mod table;
pub mod worker;
