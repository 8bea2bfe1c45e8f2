//! Integration tests of the harness's records and of what is derived from them.

mod analysis;
mod cli;
mod diff;
mod journal;
mod plots;
mod records;
mod support;
