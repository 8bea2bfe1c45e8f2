//! Integration tests of the harness's records and of what is derived from them.

mod journal;
mod support;
