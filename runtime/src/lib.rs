//! The deployable half of relayout: the module file, the virtual machine that runs it, storage, devices and the
//! kernel-library registry.
//!
//! A compiler builds a [`Module`] (or reads one from a file), a session loads it onto a device, checks and materialises its
//! constants, and runs its entries. Nothing here knows a compiler, an intermediate representation or a solver. Without default features the
//! crate is module format and virtual machine only; feature `gemm` (default) adds the `gemm.*` routines.
//!
//! *Trust.* Loading validates everything that can be validated (indices, definitions before uses, expression bytecode, sizes,
//! checksums), so that a damaged file is an error and never a panic. Native code inside a module is run as it is: it is trusted exactly as
//! much as the file's source.

pub mod dtype;
pub mod expr;
mod format;
pub mod generate;
pub mod index;
pub mod module;
pub mod pack;
mod validate;

pub use dtype::DType;
pub use expr::{EvalStack, Expr, ExprError, ExprOp};
pub use format::{FormatError, LoadError, Section, VERSION, WriteError};
pub use index::{ConstId, FunctionId, KernelId, Reg, Slot};
pub use module::Module;
pub use validate::{Fault, ValidateError, Where};
