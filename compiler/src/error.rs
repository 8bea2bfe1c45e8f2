//! Why a module can't be compiled.

use crate::codegen::toolchain::ToolchainError;
use relayout_ir::op::OpError;

/// Why a module can't be compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// No function `main`.
    #[error("the module has no function `main`; it has {found}")]
    NoEntry {
        /// The functions that there are.
        found: String,
    },
    /// Something whose shape or type must be known is not.
    #[error("function `{function}`, value `{value}`: expected {expected}, found {found}")]
    Value {
        /// The function.
        function: String,
        /// The value's name.
        value: String,
        /// What is needed.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// An operator can't be turned into a tensor program.
    #[error("function `{function}`, binding `{binding}`: {source}")]
    Operator {
        /// The function.
        function: String,
        /// The binding's name.
        binding: String,
        /// Why.
        source: OpError,
    },
    /// An implementation that lowering does not know.
    #[error("function `{function}`, binding `{binding}`: implementation `{found}`: {problem}")]
    Implementation {
        /// The function.
        function: String,
        /// The binding's name.
        binding: String,
        /// The implementation's text name.
        found: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A construct that the virtual machine has no form for.
    #[error(
        "function `{function}`, binding `{binding}`: {construct} can't be lowered to the virtual machine"
    )]
    Unsupported {
        /// The function.
        function: String,
        /// The binding's name.
        binding: String,
        /// What.
        construct: &'static str,
    },
    /// A kernel to be timed in isolation can't be built.
    #[error("{unit}: {problem}")]
    Unit {
        /// What it is.
        unit: String,
        /// Why.
        problem: String,
    },
    /// The C compiler.
    #[error(transparent)]
    Toolchain(#[from] ToolchainError),
}
