//! The device trait: opaque buffers, ordered queues, kernels and library routines by index, and the device's own timing.
//!
//! The VM knows devices through this trait alone and never holds an address: a buffer is a number that only its device can
//! resolve. Work on one queue runs in order; results are visible to the host after [`Device::synchronize`] (or a download).

use crate::dtype::DType;
use crate::expr::ExprError;
use crate::index::KernelId;
use crate::library::LibraryError;
use crate::module::{Attr, Isa, Module};
use crate::tensor::Dims;
use std::collections::BTreeMap;

/// A buffer of one device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BufferId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl BufferId {
    /// A handle for a device implementation's own tables; `generation` tells apart successive buffers of one index.
    pub fn new(index: u32, generation: u32) -> Self {
        BufferId { index, generation }
    }
    /// (index, generation).
    pub fn parts(self) -> (u32, u32) {
        (self.index, self.generation)
    }
}

/// An ordered queue of a device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct QueueId(pub u32);

/// A routine of a device's kernel library.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RoutineId(pub u32);

/// A point in a queue, in nanoseconds of the device's clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Mark(pub u64);

/// A dense tensor in a buffer, as an argument of a kernel or routine. The VM has checked that it lies inside the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TensorArg {
    /// The buffer.
    pub buffer: BufferId,
    /// Byte offset in it, a multiple of [`crate::module::ALIGNMENT`].
    pub offset: usize,
    /// Size in bytes.
    pub bytes: usize,
    /// Element type.
    pub dtype: DType,
    /// Physical dimensions.
    pub dims: Dims,
}

/// The operands of a library call.
#[derive(Clone, Copy, Debug)]
pub struct CallArgs<'a> {
    /// Tensors read.
    pub args: &'a [TensorArg],
    /// Tensors written.
    pub outs: &'a [TensorArg],
    /// Attributes.
    pub attrs: &'a BTreeMap<String, Attr>,
    /// Further integers.
    pub syms: &'a [i64],
}

/// What a device can do. Buffer contents after [`Device::alloc`] are unspecified but safe to read.
pub trait Device: Send {
    /// The device's name, for reports.
    fn name(&self) -> &str;
    /// Worker threads (or another measure of its width), for reports.
    fn threads(&self) -> usize;
    /// The instruction-set level of the code that was loaded.
    fn isa(&self) -> Isa;

    /// Loads the code of a module's kernels; replaces an earlier module.
    ///
    /// # Errors
    /// When no code suits the machine, the code cannot be loaded, or a symbol is missing.
    fn load(&mut self, module: &Module) -> Result<(), DeviceError>;
    /// Finds a routine of the kernel library.
    ///
    /// # Errors
    /// When the device has none of that name.
    fn routine(&self, name: &str) -> Result<RoutineId, DeviceError>;

    /// A buffer of at least `bytes` bytes.
    ///
    /// # Errors
    /// When the memory is not there.
    fn alloc(&mut self, bytes: usize) -> Result<BufferId, DeviceError>;
    /// Gives a buffer back; unknown handles are ignored.
    fn free(&mut self, buffer: BufferId);
    /// Copies from the host.
    ///
    /// # Errors
    /// When the range is not in the buffer.
    fn upload(
        &mut self,
        queue: QueueId,
        dst: BufferId,
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), DeviceError>;
    /// Copies to the host and waits for it.
    ///
    /// # Errors
    /// When the range is not in the buffer.
    fn download(
        &mut self,
        queue: QueueId,
        src: BufferId,
        offset: usize,
        out: &mut [u8],
    ) -> Result<(), DeviceError>;

    /// Enqueues a kernel of the loaded module. The caller has checked the arguments against the kernel's parameters.
    ///
    /// # Errors
    /// When an extent cannot be evaluated or a buffer is unknown.
    fn launch(
        &mut self,
        queue: QueueId,
        kernel: KernelId,
        args: &[TensorArg],
        syms: &[i64],
    ) -> Result<(), DeviceError>;
    /// Enqueues a library routine.
    ///
    /// # Errors
    /// What the routine reports, overlapping operands, or unknown buffers.
    fn call(&mut self, queue: QueueId, routine: RoutineId, call: CallArgs<'_>) -> Result<(), DeviceError>;

    /// Waits until everything enqueued has run.
    ///
    /// # Errors
    /// When the device failed meanwhile.
    fn synchronize(&mut self, queue: QueueId) -> Result<(), DeviceError>;
    /// The time at which everything enqueued so far has run.
    ///
    /// # Errors
    /// When the device failed meanwhile.
    fn mark(&mut self, queue: QueueId) -> Result<Mark, DeviceError>;
}

/// What can go wrong on a device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The machine lacks instructions that the code needs.
    #[error("the module's code needs {needed}; this machine lacks {missing:?}")]
    Isa {
        /// The weakest level that the module has code for.
        needed: Isa,
        /// The features that the machine lacks.
        missing: Vec<&'static str>,
    },
    /// The module has kernels but no code for this device.
    #[error("the module has {kernels} kernels but no native code")]
    NoCode {
        /// The number of kernels.
        kernels: usize,
    },
    /// The native code cannot be loaded.
    #[error("loading native code: {0}")]
    Load(String),
    /// A phase's symbol is not in the native code.
    #[error("kernel `{kernel}`: symbol `{symbol}` is not in the native code")]
    Symbol {
        /// The kernel.
        kernel: String,
        /// The symbol.
        symbol: String,
    },
    /// The device has no routine of this name.
    #[error("no library routine `{name}`{}", nearest_hint(.nearest))]
    Routine {
        /// The name asked for.
        name: String,
        /// The nearest name that exists.
        nearest: Option<String>,
    },
    /// Out of memory.
    #[error("cannot allocate {bytes} bytes{}", .limit.map(|l| format!(" (limit {l}, in use {in_use})")).unwrap_or_default())]
    Memory {
        /// Bytes asked for.
        bytes: usize,
        /// Bytes reserved already.
        in_use: u64,
        /// The limit that was set, when that is the cause.
        limit: Option<u64>,
    },
    /// A handle that the device does not know.
    #[error("unknown buffer {0:?}")]
    Buffer(BufferId),
    /// A range beyond a buffer.
    #[error("bytes {offset}+{bytes} of a buffer of {size}")]
    Range {
        /// Start.
        offset: usize,
        /// Length.
        bytes: usize,
        /// The buffer's size.
        size: usize,
    },
    /// A queue, kernel or routine that the device does not have.
    #[error("{what} {index} of {count}")]
    Index {
        /// What is indexed.
        what: &'static str,
        /// The index.
        index: u32,
        /// How many there are.
        count: usize,
    },
    /// A kernel called with the wrong number of arguments.
    #[error("kernel `{kernel}`: {found} {what}, expected {expected}")]
    Arity {
        /// The kernel.
        kernel: String,
        /// What is counted.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many are expected.
        expected: usize,
    },
    /// An extent or scratch size that cannot be evaluated.
    #[error("kernel `{kernel}`, phase `{phase}`: {source}")]
    Phase {
        /// The kernel.
        kernel: String,
        /// The phase's symbol.
        phase: String,
        /// The cause.
        source: ExprError,
    },
    /// An output of a library call shares memory with another operand.
    #[error("output {out} of `{routine}` overlaps {other}")]
    Overlap {
        /// The routine.
        routine: String,
        /// The output's position.
        out: usize,
        /// The other operand.
        other: String,
    },
    /// A routine failed.
    #[error("`{routine}`: {source}")]
    Library {
        /// The routine.
        routine: String,
        /// The cause.
        source: LibraryError,
    },
    /// A worker thread cannot be started.
    #[error("starting worker threads: {0}")]
    Threads(std::io::Error),
    /// Code on a worker thread panicked.
    #[error("`{0}` panicked on a worker thread")]
    Panicked(String),
}

/// `; did you mean …?`, or nothing.
pub(crate) fn nearest_hint(nearest: &Option<String>) -> String {
    nearest
        .as_ref()
        .map(|n| format!("; did you mean `{n}`?"))
        .unwrap_or_default()
}

/// The candidate with the smallest edit distance to `name`, when it is near.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    candidates
        .map(|c| (edit_distance(name, c), c))
        .min()
        .filter(|(distance, c)| *distance <= c.chars().count().max(3) / 2)
        .map(|(_, c)| c.to_owned())
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substitution = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substitution.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
