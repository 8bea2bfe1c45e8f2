//! Reference semantics.
