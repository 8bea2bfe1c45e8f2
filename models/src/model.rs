//! A model: a module with what is needed to feed it and to name its results.

use crate::inputs::DataInput;
use relayout_ir::graph::{Module, SymDecl};
use relayout_ir::sym::SymVar;
use std::fmt;

/// The architectural family of a model, as tables and plots group them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Family {
    /// Encoder and decoder transformers without sparse routing.
    DenseTransformers,
    /// Convolutional and vision networks.
    Vision,
    /// Models over several kinds of input.
    Multimodal,
    /// Transformers with routed experts.
    MixtureOfExperts,
    /// The small graphs that explain the problem.
    Examples,
    /// Anything else.
    Other,
}

impl Family {
    /// Every family.
    pub const ALL: [Family; 6] = [
        Family::DenseTransformers,
        Family::Vision,
        Family::Multimodal,
        Family::MixtureOfExperts,
        Family::Examples,
        Family::Other,
    ];
    /// The label in tables.
    pub fn label(self) -> &'static str {
        match self {
            Family::DenseTransformers => "Dense Transformers",
            Family::Vision => "Vision",
            Family::Multimodal => "Multimodal",
            Family::MixtureOfExperts => "MoE",
            Family::Examples => "Examples",
            Family::Other => "Other",
        }
    }
    /// The row group of table 1 of the layout paper, which knows two.
    pub fn group(self) -> &'static str {
        match self {
            Family::DenseTransformers => "Dense Transformers",
            Family::Vision | Family::Multimodal | Family::MixtureOfExperts => "Vision, Multimodal, MoE",
            Family::Examples | Family::Other => self.label(),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// A symbolic dimension of a model's entry with the value it has unless told otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dimension {
    /// The variable with its declared range.
    pub decl: SymDecl,
    /// The default binding, within the range.
    pub default: i64,
}

/// A model ready to be compiled or interpreted.
#[derive(Clone, PartialEq, Debug)]
pub struct Model {
    /// The zoo name, or the name that the importer was given.
    pub name: String,
    /// The family.
    pub family: Family,
    /// The module; its entry is `main`.
    pub module: Module,
    /// Data inputs, one per parameter of `main`, in order.
    pub inputs: Vec<DataInput>,
    /// Names of the results of `main`, in order.
    pub outputs: Vec<String>,
    /// Symbolic dimensions of `main`; empty for a static model.
    pub dims: Vec<Dimension>,
}

impl Model {
    /// The default binding of a symbolic dimension.
    pub fn default_binding(&self, var: &SymVar) -> Option<i64> {
        self.dims.iter().find(|d| d.decl.var == *var).map(|d| d.default)
    }
    /// Bytes of all constants.
    pub fn constant_bytes(&self) -> u64 {
        let bytes = |c: &relayout_ir::graph::Constant| {
            c.shape
                .iter()
                .fold(c.dtype.bytes() as u64, |acc, d| acc.saturating_mul(*d as u64))
        };
        self.module.constants.iter().map(|(_, c)| bytes(c)).sum()
    }
}
