//! Layout extraction and application, passes, targets and code generation: from a graph module to a runtime module.

pub mod affine;
pub mod alias;
pub mod apply;
pub mod canonicalise;
pub mod codegen;
pub mod cost;
pub mod error;
pub mod extract;
pub mod fuse_ops;
pub mod fuse_tir;
pub mod implementation;
pub mod kernels;
pub mod kind;
pub mod legalise;
pub mod library;
pub mod memory;
pub mod pipeline;
pub mod schedule;
pub mod stage_plan;
pub mod target;
pub mod unit;
pub mod vmgen;
pub mod workspace;
