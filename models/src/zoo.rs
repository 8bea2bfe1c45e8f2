//! The zoo: names, one-line descriptions and typed overrides of the models that are built in.

use crate::families::{bert, cnn, examples, llama, resnet};
use crate::model::{Family, Model};
use crate::overrides::{OverrideSpec, Overrides, Sizes};
use crate::spec::nearest;
use relayout_ir::builder::BuildError;

/// Why a zoo model can't be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ZooError {
    /// No model of this name.
    #[error(
        "no model `{found}`; did you mean `{nearest}`? The zoo has {known}; a path to a file ends in .onnx"
    )]
    UnknownModel {
        /// The name given.
        found: String,
        /// The nearest valid one.
        nearest: String,
        /// Every valid one.
        known: String,
    },
    /// No override of this name.
    #[error("{model} has no override `{found}`; did you mean `{nearest}`? It takes {known}")]
    UnknownOverride {
        /// The model.
        model: &'static str,
        /// The key given.
        found: String,
        /// The nearest valid one.
        nearest: String,
        /// Every valid one.
        known: String,
    },
    /// An override of the wrong type or out of range.
    #[error("{model}: `{key}` is `{found}`; expected {expected}")]
    OverrideValue {
        /// The model.
        model: &'static str,
        /// The key.
        key: &'static str,
        /// What is accepted.
        expected: String,
        /// What was given.
        found: String,
    },
    /// A batch of zero, or one that overflows.
    #[error("batch is {0}; expected an integer from 1 to {MAX_BATCH}")]
    Batch(usize),
    /// Overrides that don't go together.
    #[error("{model}: {problem}")]
    Constraint {
        /// The model.
        model: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// Deduction refused a block (sizes that no longer fit each other, such as an image smaller than a kernel).
    #[error("{model}: {source}")]
    Build {
        /// The model.
        model: String,
        /// Why.
        source: BuildError,
    },
}

/// The largest batch accepted.
pub const MAX_BATCH: usize = 1 << 20;

/// One model of the zoo.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The name.
    pub name: &'static str,
    /// The family.
    pub family: Family,
    /// One line.
    pub description: &'static str,
    /// What can be overridden, with defaults.
    pub overrides: &'static [OverrideSpec],
    build: fn(&Sizes, u64, usize) -> Result<Model, ZooError>,
}

static ENTRIES: &[Entry] = &[
    Entry {
        name: "bert",
        family: Family::DenseTransformers,
        description: "BERT encoder (base sizes): bidirectional attention with a padding mask, GELU",
        overrides: bert::OVERRIDES,
        build: bert::bert,
    },
    Entry {
        name: "example-fanout",
        family: Family::Examples,
        description: "figure 2 of the layout paper: alternating convolutions and batch norms that meet in a shared sum",
        overrides: examples::FAN_OUT_OVERRIDES,
        build: examples::fan_out,
    },
    Entry {
        name: "example-reduce",
        family: Family::Examples,
        description: "figure 1 of the layout paper: matmul, reduction along columns, sum with the shared operand",
        overrides: examples::REDUCE_OVERRIDES,
        build: examples::reduce,
    },
    Entry {
        name: "llama",
        family: Family::DenseTransformers,
        description: "Llama-style decoder with symbolic batch n and sequence s: grouped-query attention, rotary positions, SwiGLU",
        overrides: llama::OVERRIDES,
        build: llama::llama,
    },
    Entry {
        name: "resnet50",
        family: Family::Vision,
        description: "residual network; depth 18, 34, 50, 101 or 152",
        overrides: resnet::OVERRIDES,
        build: resnet::resnet,
    },
    Entry {
        name: "small-cnn",
        family: Family::Vision,
        description: "five 3x3 convolutions with batch norm, pooling and a two-layer classifier",
        overrides: cnn::OVERRIDES,
        build: cnn::small_cnn,
    },
];

/// Every model, sorted by name.
pub fn list() -> &'static [Entry] {
    ENTRIES
}

/// The entry of a name.
///
/// # Errors
/// For an unknown name, with the nearest valid one.
pub fn find(name: &str) -> Result<&'static Entry, ZooError> {
    ENTRIES
        .iter()
        .find(|e| e.name == name)
        .ok_or_else(|| ZooError::UnknownModel {
            found: name.to_owned(),
            nearest: nearest(name, ENTRIES.iter().map(|e| e.name)),
            known: ENTRIES.iter().map(|e| e.name).collect::<Vec<_>>().join(", "),
        })
}

/// Builds a zoo model. `batch` is the leading dimension of the data inputs; where that is symbolic (`llama`), its default.
///
/// # Errors
/// For an unknown name or override, a value of the wrong type, or sizes that don't go together.
pub fn build(name: &str, overrides: &Overrides, seed: u64, batch: usize) -> Result<Model, ZooError> {
    let entry = find(name)?;
    if !(1..=MAX_BATCH).contains(&batch) {
        return Err(ZooError::Batch(batch));
    }
    let sizes = Sizes::check(entry.name, entry.overrides, overrides)?;
    let mut model = (entry.build)(&sizes, seed, batch)?;
    entry.name.clone_into(&mut model.name);
    Ok(model)
}
