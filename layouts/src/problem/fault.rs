//! What can be wrong with a problem.

use super::MAX_TOTAL;
use crate::hints::HintFault;

/// What is wrong with a problem, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {fault}")]
pub struct ProblemError {
    /// Path to the fault in the JSON form, like `operators[3].configs[0].in[1]`.
    pub path: String,
    /// The fault.
    pub fault: Fault,
}

/// The ways in which a problem can be invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // each message says what the fields are
pub enum Fault {
    #[error("a tensor needs at least one layout")]
    NoLayouts,
    #[error("layout {name:?} is listed twice in this tensor")]
    DuplicateLayout { name: String },
    #[error("the transpose matrix has {found} rows or columns here, expected {expected} (one per layout)")]
    MatrixShape { found: usize, expected: usize },
    #[error("the diagonal of a transpose matrix must be 0, found {}", show(*.found))]
    Diagonal { found: Option<u64> },
    #[error("no tensor has index {found}; there are {tensors}")]
    NoSuchTensor { found: usize, tensors: usize },
    #[error("tensor {tensor} has two producers, operators {first} and {second}")]
    TwoProducers {
        tensor: usize,
        first: usize,
        second: usize,
    },
    #[error("no operator produces this tensor")]
    NoProducer,
    #[error("found {found} input layouts, expected {expected} (one per input)")]
    InputCount { found: usize, expected: usize },
    #[error("no layout has index {found} in tensor {tensor}; it has {layouts}")]
    NoSuchLayout {
        found: usize,
        tensor: usize,
        layouts: usize,
    },
    #[error("the same layouts are already listed in configuration {first}")]
    DuplicateConfig { first: usize },
    #[error("a constant must come from an operator without inputs; operator {operator} has {inputs}")]
    ConstantWithInputs { operator: usize, inputs: usize },
    #[error("the transpose matrix of a constant must be all zero, found {}", show(*.found))]
    ConstantTranspose { found: Option<u64> },
    #[error("a bundle cannot be converted: expected null, found {found}")]
    BundleTranspose { found: u64 },
    #[error(
        "an operator that reads bundle {tensor} is a projection and must have that one input, found {inputs}"
    )]
    ProjectionInputs { tensor: usize, inputs: usize },
    #[error("a projection costs nothing, found {found}")]
    ProjectionCost { found: u64 },
    #[error(
        "a projection has one configuration per layout of its bundle; configuration {first} reads the same layout"
    )]
    ProjectionChoice { first: usize },
    #[error("operator {operator} depends on its own output")]
    Cycle { operator: usize },
    #[error("the dearest choices sum to more than {MAX_TOTAL} here; use a coarser unit")]
    CostOverflow,
    #[error("more than 2^32 {what}")]
    TooMany { what: &'static str },
    #[error(transparent)]
    Hints(HintFault),
}

fn show(cost: Option<u64>) -> String {
    cost.map_or_else(|| "null".into(), |c| c.to_string())
}

pub(super) fn error(path: String, fault: Fault) -> ProblemError {
    ProblemError { path, fault }
}
