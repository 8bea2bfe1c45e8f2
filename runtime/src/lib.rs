//! The deployable half of relayout: the module file, the virtual machine that runs it, storage, devices and the
//! kernel-library registry.
//!
//! A compiler builds a [`Module`] (or reads one from a file), a [`Session`] loads it onto a device, checks and materialises its
//! constants, and runs its entries. Nothing here knows a compiler, an intermediate representation or a solver. Without default features the
//! crate is module format and virtual machine only; feature `gemm` (default) adds the `gemm.*` routines.
//!
//! *Trust.* Loading validates everything that can be validated (indices, definitions before uses, expression bytecode, sizes,
//! checksums), so that a damaged file is an error and never a panic. Native code inside a module is run as it is: it is trusted exactly as
//! much as the file's source.

mod cpu;
pub mod device;
pub mod dtype;
pub mod expr;
mod format;
#[cfg(feature = "gemm")]
mod gemm;
pub mod generate;
pub mod index;
pub mod library;
pub mod module;
mod native;
pub mod pack;
mod pool;
mod profile;
mod session;
mod storage;
mod tensor;
mod validate;
mod vm;

pub use cpu::CpuDevice;
pub use device::{Device, DeviceError};
pub use dtype::DType;
pub use expr::{EvalStack, Expr, ExprError, ExprOp};
pub use format::{FormatError, LoadError, Section, VERSION, WriteError};
pub use index::{ConstId, FunctionId, KernelId, Reg, Slot};
pub use library::{Library, LibraryError};
pub use module::{Isa, Module};
pub use native::{machine_isa, missing_features};
pub use pool::{Panicked, ThreadPool};
pub use profile::{Event, EventKind, Profile, Sample};
pub use session::{ConstantError, LoadReport, Options, Prepared, RunError, Session, SessionError};
pub use storage::{PoolStats, Storage};
pub use tensor::{DeviceTensor, Dims, HostTensor};
pub use validate::{Fault, ValidateError, Where};
pub use vm::{Mismatch, VmError, VmFault};
