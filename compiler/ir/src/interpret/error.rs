//! Why a reference interpretation stops.

use crate::op::OpError;

/// Why a tensor program or graph function can't be executed, with the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InterpretError {
    /// Wrong number of arguments.
    #[error("{callee}: takes {expected} {what}, found {found}")]
    Count {
        /// The function or program.
        callee: String,
        /// What is counted.
        what: &'static str,
        /// How many it takes.
        expected: usize,
        /// How many were given.
        found: usize,
    },
    /// A value that does not fit its annotation or buffer.
    #[error("{place}: expected {expected}, found {found}")]
    Mismatch {
        /// The function and value, or the program and buffer.
        place: String,
        /// What the declaration says.
        expected: String,
        /// What the value is.
        found: String,
    },
    /// A load or store outside its buffer.
    #[error("{place}: index {index} in dimension {dim} of buffer `{buffer}`, whose extent is {extent}")]
    OutOfBounds {
        /// The program and stage.
        place: String,
        /// The buffer.
        buffer: String,
        /// The dimension.
        dim: usize,
        /// The index.
        index: i64,
        /// The extent.
        extent: i64,
    },
    /// A symbolic expression over variables that nothing binds, or one that leaves 64 bits.
    #[error("{place}: `{expr}` has no value: {problem}")]
    Symbolic {
        /// Where it stands.
        place: String,
        /// The expression.
        expr: String,
        /// Unbound variable, overflow, or a negative extent.
        problem: String,
    },
    /// Integer division by zero.
    #[error("{place}: integer division by zero")]
    DivisionByZero {
        /// The program and stage.
        place: String,
    },
    /// A malformed program or function, which the verifier describes better.
    #[error("{place}: {problem}")]
    Malformed {
        /// Where.
        place: String,
        /// What is wrong.
        problem: String,
    },
    /// An operator refused its operands.
    #[error("{place}: {source}")]
    Op {
        /// The function and binding.
        place: String,
        /// Why.
        source: OpError,
    },
    /// A library routine is missing or refused its operands.
    #[error("{place}: library routine `{routine}`: {problem}")]
    Library {
        /// The function and binding.
        place: String,
        /// The routine.
        routine: String,
        /// Why.
        problem: String,
    },
    /// An allocation that the host can't serve.
    #[error("{place}: {elements} elements don't fit in memory")]
    Memory {
        /// What was to be allocated.
        place: String,
        /// How many elements.
        elements: u128,
    },
}
