//! Layout extraction and application, passes, targets and code generation: from a graph module to a runtime module.

pub mod affine;
pub mod codegen;
pub mod schedule;
pub mod target;
