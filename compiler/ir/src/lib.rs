//! The cross-level IR of relayout: symbolic integers and their prover, annotations with layouts, graph functions, tensor
//! programs, the operator registry, deduction, text form, verifier and reference interpreters.

pub mod annotation;
pub mod builder;
pub mod graph;
pub mod index;
pub mod interpret;
pub mod layout;
pub mod op;
pub mod program;
pub mod sym;
pub mod tensor;
pub mod typing;
