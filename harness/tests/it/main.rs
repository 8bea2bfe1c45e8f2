//! Integration tests of the harness's records and of what is derived from them.

mod analysis;
mod cli;
mod config;
mod corrupt;
mod diff;
mod journal;
mod kill;
mod plots;
mod records;
mod run;
mod support;
