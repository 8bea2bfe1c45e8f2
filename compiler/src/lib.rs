//! Layout extraction and application, passes, targets and code generation: from a graph module to a runtime module.
pub mod alias;
pub mod apply;
pub mod cost;
pub mod extract;
pub mod implementation;
pub mod target;
