//! Why a cost function network could not be imported, and where in the file.

use super::MAX_MATRICES;

/// A fault and its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {fault}")]
pub struct CfnError {
    /// Counted from 1.
    pub line: usize,
    /// Counted in characters from 1.
    pub column: usize,
    /// The fault.
    pub fault: Fault,
}

/// What can be wrong with a network. The last ones are networks that may be in order, but that no instance exports to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // each message says what the fields are
pub enum Fault {
    #[error("the file is not UTF-8")]
    Encoding,
    #[error("found {found}, expected {expected}")]
    Syntax { found: String, expected: &'static str },
    #[error("the text that begins here does not end")]
    OpenString,
    #[error("an escape in this text is not JSON's")]
    Escape,
    #[error("nested deeper than a network is")]
    TooDeep,
    #[error("expected {expected}, found {found}")]
    Kind { expected: &'static str, found: String },
    #[error("missing key {key:?}")]
    MissingKey { key: &'static str },
    #[error("unknown key {key:?}; did you mean {nearest:?}?")]
    UnknownKey { key: String, nearest: &'static str },
    #[error("{name:?} is given twice")]
    Twice { name: String },
    #[error("{found:?} is no upper bound of a minimisation in whole numbers; expected one such as \"<100\"")]
    MustBe { found: String },
    #[error("no variable is named {name:?}")]
    NoSuchVariable { name: String },
    #[error("there is no variable {index}; there are {variables}")]
    NoSuchIndex { index: usize, variables: usize },
    #[error("variable {name:?} has no value {found}; it has {values}")]
    NoSuchValue {
        name: String,
        found: String,
        values: usize,
    },
    #[error("found {found} costs, expected {expected} (one per combination of values)")]
    CostCount { found: usize, expected: usize },
    #[error(
        "with a default cost, costs come as values and a cost: {found} numbers are no multiple of {each}"
    )]
    TupleCount { found: usize, each: usize },
    #[error("a cost is a whole number from 0 to 2^62, found {found}")]
    Cost { found: String },
    #[error("the costs of this function sum to more than 2^62")]
    CostOverflow,
    #[error(
        "a variable is named `x…` (an operator) or `y<tensor>_<layout>` (whether the tensor is requested in the layout), not {name:?}: such \
         a network does not map back"
    )]
    VariableName { name: String },
    #[error("{name:?} says whether a layout is requested and must have two values, not {found}")]
    HubValues { name: String, found: usize },
    #[error("an operator needs a value")]
    NoValues,
    #[error("a function of {found} does not map back: expected one `x`, or one `x` and one `y`")]
    Scope { found: &'static str },
    #[error("this function costs something that no configuration and no conversion does")]
    StrayCost,
    #[error("value {value} is forbidden here, which does not map back: leave it out of the variable")]
    ForbiddenValue { value: usize },
    #[error(
        "{operator:?} and {hub:?}: with the operator first, costs are `0,c` per configuration (what the conversion costs that the producer then \
         pays) or `f,0` with f forbidden or 0 (what a consumer requests); value {value} is neither, or differs from the others in this"
    )]
    Table {
        operator: String,
        hub: String,
        value: usize,
    },
    #[error("both {first:?} and {second:?} pay for conversions of tensor {tensor}")]
    TwoProducers {
        tensor: u64,
        first: String,
        second: String,
    },
    #[error("{operator:?} pays for conversions of both tensors {first} and {second}; an operator writes one")]
    TwoOutputs {
        operator: String,
        first: u64,
        second: u64,
    },
    #[error("no operator pays for conversions of tensor {tensor}")]
    NoProducer { tensor: u64 },
    #[error("value {value} of {operator:?} requests no layout of tensor {tensor}, though others do")]
    NoRequest {
        operator: String,
        value: usize,
        tensor: u64,
    },
    #[error("{operator:?} depends on its own output")]
    Cycle { operator: String },
    #[error(
        "assignments may cost up to {worst} and would be cut off; an upper bound must be above that to map back"
    )]
    CutOff { worst: u64 },
    #[error("the variables and default costs up to here stand for more numbers than can be held")]
    TooLarge,
    #[error("the conversion matrices of tensors up to this would have more than {MAX_MATRICES} entries")]
    Matrices,
    #[error("the network makes no valid instance: {0}")]
    Problem(String),
}

/// The fault with the place of a byte.
pub(super) fn at(text: &str, byte: usize, fault: Fault) -> CfnError {
    let before = &text[..byte];
    let start = before.rfind('\n').map_or(0, |n| n + 1);
    CfnError {
        line: before.bytes().filter(|b| *b == b'\n').count() + 1,
        column: before[start..].chars().count() + 1,
        fault,
    }
}
