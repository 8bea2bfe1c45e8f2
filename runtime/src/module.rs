//! The module: everything that a compiled model needs to run, as data.
//!
//! # Kernel ABI
//!
//! Every *phase* of a kernel is one C function of the native code:
//!
//! ```c
//! void phase(void *const *bufs, const int64_t *syms, int64_t begin, int64_t end, void *scratch);
//! ```
//!
//! - `bufs[i]` is the data of the kernel's i-th buffer, in the order of [`Kernel::params`]: inputs, then outputs, then workspaces. Every
//!   pointer is 64-byte aligned and points to at least as many bytes as the parameter's `bytes` expression says; the array has exactly as many
//!   entries as there are parameters. Buffers are dense and row-major over their physical shape. An output may share memory with an
//!   input only where the compiler's memory plan said so; the kernel must then be correct in place.
//! - `syms[j]` is the j-th symbolic argument; `bytes`, `extent` and `scratch` expressions read it as slot j.
//! - The phase performs the iterations `begin..end` of its parallel range `0..extent`. Distinct iterations are independent:
//!   they may run in any order and at the same time. An extent of 0 or less means that the phase is not called.
//! - Phases run in the order listed, with a barrier between them: everything a phase wrote is visible to the next.
//! - The range is cut into chunks by [`chunk_size`], which depends on extent and grain alone. A chunk is never split or merged, whatever
//!   the number of threads, so results are bit-identical for any number of threads even where a kernel treats the ends of
//!   its range differently. `begin` is always a multiple of the grain.
//! - `scratch` is private to the calling worker, 64-byte aligned, at least as large as the phase's `scratch` expression says (null
//!   when that is 0). Its contents are unspecified on entry and lost on return.
//! - The function must not throw, exit, change the floating-point environment, or keep any pointer. The caller has the default environment
//!   (round to nearest, denormals kept).
//!
//! # Values and symbols
//!
//! A function works on registers (storages, tensors, flat tuples of tensors) and on *slots*, the integer table that
//! symbolic expressions read. On entry the slots named by `Bind` patterns of the parameters are set (in parameter and dimension order; a slot is
//! bound once), then every `Check` pattern is evaluated and compared; afterwards `MatchShape` and `Eval` set further slots. The result is
//! compared with its pattern on return, in the same two steps.

use crate::dtype::DType;
use crate::expr::Expr;
use crate::index::{ConstId, FunctionId, KernelId, Reg, Slot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The largest rank of any tensor. Blocked layouts add one dimension per block.
pub const MAX_RANK: usize = 12;

/// Alignment of every buffer and of every tensor inside a storage, in bytes.
pub const ALIGNMENT: usize = 64;

/// A phase's range is never cut into more chunks than this.
pub const MAX_CHUNKS: i64 = 256;

/// Iterations per chunk of a parallel range: the smallest multiple of `grain` that gives at most [`MAX_CHUNKS`] chunks.
/// Depends on its arguments alone, never on the number of threads. Both arguments are at least 1 (smaller ones count as 1).
pub fn chunk_size(extent: i64, grain: i64) -> i64 {
    let (extent, grain) = (extent.max(1), grain.max(1));
    let grains = (extent - 1) / grain + 1;
    let grains_per_chunk = (grains - 1) / MAX_CHUNKS + 1;
    grain.saturating_mul(grains_per_chunk)
}

/// A compiled model.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Module {
    /// The model's name, for reports.
    pub name: String,
    /// What the code was compiled for.
    pub target: Target,
    /// Guarded entries, tried in order among those of the name asked for; the name of the first is the default.
    pub entries: Vec<Entry>,
    /// VM functions.
    pub functions: Vec<Function>,
    /// Kernels of the native code.
    pub kernels: Vec<Kernel>,
    /// Native code; one of them is loaded (the best that the machine supports).
    pub native: Vec<NativeCode>,
    /// Constants shared by all functions.
    pub constants: Vec<Constant>,
    /// What the memory planner decided, for reports; the VM does not read it.
    pub storage_plan: Vec<PlannedStorage>,
}

/// What a module was compiled for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Target {
    /// The target's name, such as `cpu`.
    pub name: String,
    /// The instruction-set level asked for.
    pub isa: Isa,
    /// Compiler, version and flags, for reports.
    pub toolchain: String,
}

/// Instruction-set levels, weakest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub enum Isa {
    /// Whatever the host's C compiler makes by default; no level is checked.
    #[default]
    Generic,
    /// x86-64 (SSE2).
    Baseline,
    /// x86-64-v3 (AVX2, FMA, BMI2, F16C).
    Avx2,
    /// x86-64-v4 (AVX-512 F, BW, CD, DQ, VL).
    Avx512,
}

impl Isa {
    /// The short name.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Generic => "generic",
            Isa::Baseline => "x86-64",
            Isa::Avx2 => "x86-64-v3",
            Isa::Avx512 => "x86-64-v4",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An entry: applies when the inputs match its function's parameters and its guard holds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The name; several entries may share it.
    pub name: String,
    /// A condition over the function's slots that the parameters bind; non-zero means that the entry applies.
    pub guard: Option<Expr>,
    /// The function to run.
    pub function: FunctionId,
}

/// A VM function: straight-line code.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Function {
    /// Unique in the module.
    pub name: String,
    /// Parameters; the i-th is in register i on entry.
    pub params: Vec<Param>,
    /// The result.
    pub result: ValueType,
    /// Names of the result's tensors (flattened); empty, or one each.
    pub result_names: Vec<String>,
    /// The integer table.
    pub slots: Vec<SlotDecl>,
    /// Number of registers; at least the number of parameters.
    pub registers: u32,
    /// Executed in order; the last one, and only that, is [`Instr::Ret`].
    pub code: Vec<Instr>,
}

/// A parameter.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Param {
    /// The name, for binding inputs and for errors.
    pub name: String,
    /// What an argument must be.
    pub ty: ValueType,
}

/// A slot with the range that its value must be in when it is bound or computed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SlotDecl {
    /// The symbolic variable's name, or any text for computed slots; for errors.
    pub name: String,
    /// Inclusive lower bound.
    pub low: i64,
    /// Inclusive upper bound, when there is one.
    pub high: Option<i64>,
}

/// What a value must be. Tuples are flat: the compiler flattens nested ones.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ValueType {
    /// One tensor.
    Tensor(TensorType),
    /// A tuple of tensors.
    Tuple(Vec<TensorType>),
}

impl ValueType {
    /// The tensors, in order.
    pub fn tensors(&self) -> &[TensorType] {
        match self {
            ValueType::Tensor(t) => std::slice::from_ref(t),
            ValueType::Tuple(ts) => ts,
        }
    }
}

/// What a tensor must be: element type, rank and dimensions (logical and physical shapes agree at function boundaries of the ABI).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TensorType {
    /// The element type.
    pub dtype: DType,
    /// One pattern per dimension.
    pub dims: Vec<Dim>,
}

/// A dimension's pattern.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Dim {
    /// Sets the slot; a slot is bound at most once.
    Bind(Slot),
    /// The dimension equals the expression.
    Check(Expr),
    /// Anything.
    Any,
}

/// A VM instruction. Destination registers are unset before (killed, or never written).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Instr {
    /// A storage of at least `bytes` bytes from the pool. Contents are unspecified.
    AllocStorage {
        /// Receives the storage.
        dst: Reg,
        /// Bytes wanted, not negative.
        bytes: Expr,
    },
    /// A tensor inside a storage; several may overlap.
    AllocTensor {
        /// Receives the tensor.
        dst: Reg,
        /// The storage.
        storage: Reg,
        /// Byte offset, a multiple of [`ALIGNMENT`].
        offset: Expr,
        /// Physical dimensions.
        shape: Vec<Expr>,
        /// Element type.
        dtype: DType,
    },
    /// The materialised (packed) constant; its shape is the packed one.
    Constant {
        /// Receives the tensor.
        dst: Reg,
        /// The constant.
        constant: ConstId,
    },
    /// The same elements in the same order under another shape.
    View {
        /// Receives the tensor.
        dst: Reg,
        /// A tensor with as many elements.
        src: Reg,
        /// The new dimensions.
        shape: Vec<Expr>,
    },
    /// Checks a tensor's type and binds slots: match_cast. All `Bind`s first, then all `Check`s.
    MatchShape {
        /// The tensor.
        src: Reg,
        /// Expected element type.
        dtype: DType,
        /// Expected dimensions.
        dims: Vec<Dim>,
    },
    /// Stores an expression's value in a slot that was not set before.
    Eval {
        /// The slot.
        dst: Slot,
        /// The expression.
        value: Expr,
    },
    /// Runs a kernel.
    CallKernel {
        /// The kernel.
        kernel: KernelId,
        /// One tensor per kernel parameter: inputs, outputs, workspaces.
        args: Vec<Reg>,
        /// One value per symbolic argument.
        syms: Vec<Expr>,
    },
    /// Runs a routine of the device's kernel library, in destination-passing style.
    CallLibrary {
        /// The routine's name, such as `gemm.matmul`.
        routine: String,
        /// Attributes by name.
        attrs: BTreeMap<String, Attr>,
        /// Tensors read.
        args: Vec<Reg>,
        /// Tensors written; they don't overlap any argument or each other.
        outs: Vec<Reg>,
        /// Further integers.
        syms: Vec<Expr>,
    },
    /// Calls a function of the module. Calls can't be recursive.
    CallFunction {
        /// The function.
        function: FunctionId,
        /// One tensor or tuple per parameter.
        args: Vec<Reg>,
        /// Receives the result.
        dst: Reg,
    },
    /// A tuple of tensors.
    MakeTuple {
        /// Receives the tuple.
        dst: Reg,
        /// The tensors.
        items: Vec<Reg>,
    },
    /// One tensor of a tuple.
    GetTuple {
        /// Receives the tensor.
        dst: Reg,
        /// The tuple.
        src: Reg,
        /// Position.
        index: u32,
    },
    /// Unsets registers. A storage goes back to the pool when no register, tuple or result refers to it any more.
    Kill {
        /// The registers.
        regs: Vec<Reg>,
    },
    /// Returns a tensor or tuple.
    Ret {
        /// The value.
        value: Reg,
    },
}

/// An attribute of a library call.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Attr {
    Int(i64),
    Float(f64),
    Bool(bool),
    Str(String),
}

/// A kernel: what the VM must know to call it. See the module documentation for the ABI.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Kernel {
    /// Unique in the module.
    pub name: String,
    /// Buffers in ABI order: inputs, outputs, workspaces.
    pub params: Vec<KernelParam>,
    /// Number of symbolic arguments.
    pub syms: u32,
    /// Executed in order, at least one.
    pub phases: Vec<Phase>,
}

/// A buffer of a kernel.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct KernelParam {
    /// What the kernel does with it.
    pub role: ParamRole,
    /// Element type; the VM checks that the argument has it.
    pub dtype: DType,
    /// Bytes that the kernel may touch, over its symbolic arguments; the VM checks that the argument has as many.
    pub bytes: Expr,
}

/// What a kernel does with a buffer. The order of the variants is the order of a kernel's parameters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum ParamRole {
    /// Only read.
    Input,
    /// Written in full.
    Output,
    /// Written and read back between phases.
    Workspace,
}

/// One C function of a kernel and its parallel range.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Phase {
    /// The function's symbol in the native code.
    pub symbol: String,
    /// Number of iterations, over the kernel's symbolic arguments.
    pub extent: Expr,
    /// Chunks have a multiple of this many iterations; at least 1.
    pub grain: i64,
    /// Bytes of scratch memory per worker, over the kernel's symbolic arguments.
    pub scratch: Expr,
}

/// Native code that holds the phases of all kernels.
#[derive(Clone, PartialEq, Debug)]
pub struct NativeCode {
    /// The level that the machine must have.
    pub isa: Isa,
    /// An ELF shared object.
    pub bytes: Arc<[u8]>,
}

/// A constant. The device holds it packed; functions see the packed shape.
#[derive(Clone, PartialEq, Debug)]
pub struct Constant {
    /// Unique in the module.
    pub name: String,
    /// Logical shape.
    pub shape: Vec<u64>,
    /// Element type.
    pub dtype: DType,
    /// Where its values come from.
    pub source: Source,
    /// Applied in order when the module is loaded.
    pub pack: Vec<PackStep>,
}

/// Where a constant's values come from: always logical, row-major, little-endian.
#[derive(Clone, PartialEq, Debug)]
pub enum Source {
    /// The elements.
    Inline(Arc<[u8]>),
    /// Drawn from a seed.
    Generated(Generator),
    /// The whole contents of a file beside the module.
    External {
        /// Relative to the module's folder; never leaves it.
        path: String,
        /// The BLAKE3 hash of the file's contents.
        blake3: [u8; 32],
    },
}

/// The rule that draws a tensor from a seed; element i depends on (seed, key, i) alone. Defined in [`crate::generate`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Generator {
    /// The seed of the run.
    pub seed: u64,
    /// The name that separates this tensor's stream from all others.
    pub key: String,
    /// The distribution.
    pub distribution: Distribution,
}

/// Distributions of generated tensors.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum Distribution {
    /// Uniform in `[low, high)`, for floating-point tensors.
    Uniform {
        /// Inclusive lower end.
        low: f32,
        /// Exclusive upper end.
        high: f32,
    },
    /// Uniform over the integers `low..high`, for integer and Boolean tensors.
    Integers {
        /// Inclusive lower end.
        low: i64,
        /// Exclusive upper end.
        high: i64,
    },
}

/// One step of packing a constant: from a dense row-major array to another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum PackStep {
    /// Lays the array out by pieces of its axes, outermost first. Lanes of a block beyond the axis are zeros.
    Layout(Vec<Split>),
    /// The same elements under another shape.
    Reshape(Vec<u64>),
}

/// One piece of an axis. An axis has one outer piece (no factor) before its inner pieces; the outer piece of an axis of extent d has
/// extent ⌈d / product of the factors⌉.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Split {
    /// The axis.
    pub axis: u8,
    /// `None`: what the inner pieces leave of the axis. `Some(f)`: an inner piece of `f` elements, at least 2.
    pub factor: Option<u32>,
}

/// A storage of the compiler's memory plan.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PlannedStorage {
    /// The function that it belongs to.
    pub function: FunctionId,
    /// Size in bytes over the function's slots.
    pub bytes: Expr,
    /// Names of the tensors that share it, in order of their lifetimes.
    pub tensors: Vec<String>,
}
