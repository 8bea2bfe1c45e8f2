//! A session: a module loaded on a device, its constants materialised, ready to run.

use crate::cpu::CpuDevice;
use crate::device::{CallArgs, Device, DeviceError, QueueId, RoutineId, nearest, nearest_hint};
use crate::dtype::DType;
use crate::generate;
use crate::index::KernelId;
use crate::module::{Attr, Constant, Entry, Instr, Isa, Module, Source};
use crate::pack;
use crate::profile::Profile;
use crate::storage::{PoolStats, StoragePool};
use crate::tensor::{DeviceTensor, Dims, HostTensor};
use crate::validate::ValidateError;
use crate::vm::{Mismatch, Scratch, Value, Vm, VmError, VmFault, check_kernel_args, match_entry};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How a session uses its device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Threads of the CPU device; 0: one per available core.
    pub threads: usize,
    /// Bytes of device memory for storages (constants not counted); none: what the machine has.
    pub memory_limit: Option<u64>,
    /// The folder of external constants; none: the current folder.
    pub directory: Option<PathBuf>,
}

/// Why a session cannot start.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The module is invalid.
    #[error(transparent)]
    Invalid(#[from] ValidateError),
    /// The device refuses it.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A constant cannot be materialised.
    #[error("constant `{name}`: {cause}")]
    Constant {
        /// The constant.
        name: String,
        /// Why.
        cause: ConstantError,
    },
}

/// Why a constant cannot be materialised.
#[derive(Debug, thiserror::Error)]
pub enum ConstantError {
    /// Its file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Its file has other contents.
    #[error("{path}: the contents are not those that the module was made with (BLAKE3 {found})")]
    Hash {
        /// The file.
        path: PathBuf,
        /// The hash of the file's contents.
        found: String,
    },
    /// The pack steps don't apply.
    #[error(transparent)]
    Pack(#[from] pack::PackError),
    /// The values cannot be drawn.
    #[error(transparent)]
    Generate(#[from] generate::GenerateError),
    /// There is no memory for it.
    #[error("no memory for {0} bytes")]
    Memory(usize),
}

/// Why a run fails.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No entry of this name.
    #[error("no entry `{name}`{}", nearest_hint(.nearest))]
    NoEntry {
        /// The name asked for.
        name: String,
        /// The nearest name.
        nearest: Option<String>,
    },
    /// The module has no entries.
    #[error("the module has no entries")]
    Empty,
    /// Another number of inputs than the entry takes.
    #[error("entry `{entry}` takes {expected} inputs, {found} given")]
    InputCount {
        /// The entry.
        entry: String,
        /// How many are given.
        found: usize,
        /// How many it takes.
        expected: usize,
    },
    /// An input that the entry does not take.
    #[error("entry `{entry}`, input `{input}`: {mismatch}")]
    Input {
        /// The entry.
        entry: String,
        /// The input.
        input: String,
        /// Why.
        mismatch: Box<Mismatch>,
    },
    /// The inputs match, but no guard holds.
    #[error("no guard of entry `{entry}` holds; the last was {guard}")]
    Guard {
        /// The entry.
        entry: String,
        /// The last guard tried.
        guard: String,
    },
    /// A tensor whose bytes are not as many as its shape says.
    #[error("a {dtype} tensor of shape {shape:?} with {bytes} bytes")]
    HostTensor {
        /// Element type.
        dtype: DType,
        /// Shape.
        shape: Vec<i64>,
        /// Bytes.
        bytes: usize,
    },
    /// A kernel index beyond the module's kernels.
    #[error("no kernel {0}")]
    NoKernel(KernelId),
    /// A kernel called directly with arguments that don't fit.
    #[error(transparent)]
    Call(VmFault),
    /// A fault in a function.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// What the device reports.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// What loading cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoadReport {
    /// Bytes of the constants as they are in the module's logical shapes.
    pub constant_bytes: u64,
    /// Bytes of the constants as the device holds them.
    pub packed_bytes: u64,
    /// Bytes of the constants that have pack steps, as the device holds them.
    pub repacked_bytes: u64,
    /// Time to load native code and find symbols.
    pub code: Duration,
    /// Time to draw, read, pack and upload constants.
    pub constants: Duration,
}

/// A loaded module.
pub struct Session {
    module: Module,
    device: Box<dyn Device>,
    constants: Vec<DeviceTensor>,
    routines: Vec<Vec<Option<RoutineId>>>,
    pool: StoragePool,
    constant_pool: StoragePool,
    scratch: Scratch,
    slots: Vec<i64>,
    report: LoadReport,
}

impl Session {
    /// Loads a module on the CPU.
    ///
    /// # Errors
    /// When the module is invalid, the machine cannot run its code, a library routine is missing, or a constant cannot be made.
    pub fn new(module: Module, options: &Options) -> Result<Self, SessionError> {
        let device = Box::new(CpuDevice::new(options.threads)?);
        Self::with_device(module, device, options)
    }

    /// Loads a module on a device of the caller's.
    ///
    /// # Errors
    /// See [`Session::new`].
    pub fn with_device(
        module: Module,
        device: Box<dyn Device>,
        options: &Options,
    ) -> Result<Self, SessionError> {
        module.validate()?;
        let mut session = Session {
            module,
            device,
            constants: Vec::new(),
            routines: Vec::new(),
            pool: StoragePool::new(options.memory_limit),
            constant_pool: StoragePool::new(None),
            scratch: Scratch::default(),
            slots: Vec::new(),
            report: LoadReport::default(),
        };
        let start = Instant::now();
        session.device.load(&session.module)?;
        for function in &session.module.functions {
            let routines = function.code.iter().map(|instr| match instr {
                Instr::CallLibrary { routine, .. } => session.device.routine(routine).map(Some),
                _ => Ok(None),
            });
            session.routines.push(routines.collect::<Result<_, _>>()?);
        }
        session.report.code = start.elapsed();
        let start = Instant::now();
        for index in 0..session.module.constants.len() {
            session.materialise(index, options)?;
        }
        session.report.constants = start.elapsed();
        Ok(session)
    }

    fn materialise(&mut self, index: usize, options: &Options) -> Result<(), SessionError> {
        let constant = &self.module.constants[index];
        let failed = |cause| SessionError::Constant {
            name: constant.name.clone(),
            cause,
        };
        let threads = self.device.threads();
        let shape = pack::packed_shape(&constant.shape, &constant.pack).map_err(|e| failed(e.into()))?;
        let bytes = values(constant, options, threads)
            .and_then(|values| {
                self.report.constant_bytes += values.len() as u64;
                let element = constant.dtype.bytes();
                Ok(pack::pack(
                    values,
                    element,
                    &constant.shape,
                    &constant.pack,
                    threads,
                )?)
            })
            .map_err(failed)?;
        self.report.packed_bytes += bytes.len() as u64;
        if !constant.pack.is_empty() {
            self.report.repacked_bytes += bytes.len() as u64;
        }
        let storage = self.constant_pool.acquire(&mut *self.device, bytes.len())?;
        self.device.upload(QueueId(0), storage.buffer(), 0, &bytes)?;
        let mut dims = Dims::scalar();
        for extent in shape {
            // Validation bounds rank and extents.
            dims.push(extent as i64)
                .ok_or_else(|| failed(ConstantError::Memory(bytes.len())))?;
        }
        self.constants.push(DeviceTensor {
            storage,
            offset: 0,
            dtype: constant.dtype,
            dims,
            bytes: bytes.len(),
        });
        Ok(())
    }

    /// The module.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// What loading cost.
    pub fn load_report(&self) -> LoadReport {
        self.report
    }

    /// Device memory of storages; constants are in [`Session::load_report`].
    pub fn memory(&self) -> PoolStats {
        self.pool.stats()
    }

    /// Starts a new peak of [`Session::memory`].
    pub fn reset_peak(&mut self) {
        self.pool.reset_peak();
    }

    /// Gives idle device memory back.
    pub fn trim(&mut self) {
        self.pool.trim(&mut *self.device);
    }

    /// Threads that kernels run on.
    pub fn threads(&self) -> usize {
        self.device.threads()
    }

    /// The level of the code that was loaded.
    pub fn isa(&self) -> Isa {
        self.device.isa()
    }

    /// Runs an entry (`None`: the first one's name) and copies its results back, tuples flattened.
    ///
    /// # Errors
    /// When no entry takes the inputs, or a fault occurs in a function.
    pub fn run(&mut self, entry: Option<&str>, inputs: &[HostTensor]) -> Result<Vec<HostTensor>, RunError> {
        let mut prepared = self.prepare(entry, inputs)?;
        prepared.run()?;
        prepared.outputs()
    }

    /// Chooses the entry and copies the inputs to the device, so that runs can be timed by themselves.
    ///
    /// # Errors
    /// When no entry takes the inputs, or there is no memory for them.
    pub fn prepare(&mut self, entry: Option<&str>, inputs: &[HostTensor]) -> Result<Prepared<'_>, RunError> {
        for tensor in inputs {
            check_host_tensor(tensor)?;
        }
        let entry = self.choose(entry, inputs)?;
        let args = inputs
            .iter()
            .map(|tensor| self.upload(tensor).map(Value::Tensor))
            .collect::<Result<_, _>>()?;
        Ok(Prepared {
            session: self,
            entry,
            args,
            result: Value::Unset,
        })
    }

    /// The first entry of the name that takes the inputs and whose guard holds.
    fn choose(&mut self, name: Option<&str>, inputs: &[HostTensor]) -> Result<usize, RunError> {
        let entries = &self.module.entries;
        let name = match (name, entries.first()) {
            (Some(name), _) => name,
            (None, Some(first)) => &first.name,
            (None, None) => return Err(RunError::Empty),
        };
        let mut refusal = None;
        for (i, entry) in entries.iter().enumerate().filter(|(_, e)| e.name == name) {
            let outcome = applies(&self.module, entry, inputs, &mut self.slots, &mut self.scratch);
            match outcome {
                Ok(()) => return Ok(i),
                // The first refusal is kept, but a guard that failed says more than a mismatch.
                Err(e) => {
                    let better = matches!(e, RunError::Guard { .. });
                    if refusal.is_none() || better {
                        refusal = Some(e);
                    }
                }
            }
        }
        Err(refusal.unwrap_or_else(|| RunError::NoEntry {
            name: name.to_owned(),
            nearest: nearest(name, entries.iter().map(|e| e.name.as_str())),
        }))
    }

    /// A tensor of unspecified contents on the device.
    ///
    /// # Errors
    /// When the shape has no size or there is no memory.
    pub fn tensor(&mut self, dtype: DType, shape: &[i64]) -> Result<DeviceTensor, RunError> {
        let no_size = || RunError::HostTensor {
            dtype,
            shape: shape.to_vec(),
            bytes: 0,
        };
        let dims = Dims::new(shape).ok_or_else(no_size)?;
        let bytes = dims.bytes(dtype).ok_or_else(no_size)?;
        let storage = self.pool.acquire(&mut *self.device, bytes)?;
        Ok(DeviceTensor {
            storage,
            offset: 0,
            dtype,
            dims,
            bytes,
        })
    }

    /// A copy of a host tensor on the device.
    ///
    /// # Errors
    /// When its bytes are not as many as its shape says, or there is no memory.
    pub fn upload(&mut self, tensor: &HostTensor) -> Result<DeviceTensor, RunError> {
        check_host_tensor(tensor)?;
        let copy = self.tensor(tensor.dtype, &tensor.shape)?;
        self.device
            .upload(QueueId(0), copy.storage.buffer(), 0, &tensor.bytes)?;
        Ok(copy)
    }

    /// A copy of a device tensor on the host.
    ///
    /// # Errors
    /// When the tensor belongs to another session.
    pub fn download(&mut self, tensor: &DeviceTensor) -> Result<HostTensor, RunError> {
        let mut bytes = vec![0; tensor.bytes];
        let buffer = tensor.storage.buffer();
        self.device
            .download(QueueId(0), buffer, tensor.offset, &mut bytes)?;
        Ok(HostTensor {
            dtype: tensor.dtype,
            shape: tensor.dims.to_vec(),
            bytes,
        })
    }

    /// A materialised constant, packed.
    pub fn constant(&self, name: &str) -> Option<&DeviceTensor> {
        let index = self.module.constants.iter().position(|c| c.name == name)?;
        self.constants.get(index)
    }

    /// Finds a kernel.
    pub fn kernel(&self, name: &str) -> Option<KernelId> {
        let index = self.module.kernels.iter().position(|k| k.name == name)?;
        Some(KernelId(index as u32))
    }

    /// Runs one kernel on given tensors, in ABI order (inputs, outputs, workspaces), and returns the device's time in nanoseconds.
    /// Arguments are checked as in a module's function.
    ///
    /// # Errors
    /// When the arguments don't fit the kernel, or the device fails.
    pub fn run_kernel(
        &mut self,
        kernel: KernelId,
        tensors: &[&DeviceTensor],
        syms: &[i64],
    ) -> Result<u64, RunError> {
        let declared = self
            .module
            .kernels
            .get(kernel.index())
            .ok_or(RunError::NoKernel(kernel))?;
        let args: Vec<_> = tensors.iter().map(|t| t.arg()).collect();
        check_kernel_args(declared, &args, syms, &mut self.scratch.stack).map_err(RunError::Call)?;
        let start = self.device.mark(QueueId(0))?;
        self.device.launch(QueueId(0), kernel, &args, syms)?;
        Ok(self.device.mark(QueueId(0))?.0 - start.0)
    }

    /// Runs one library routine on given tensors and returns the device's time in nanoseconds.
    ///
    /// # Errors
    /// When the device has no such routine, or the routine refuses the operands.
    pub fn run_library(
        &mut self,
        routine: &str,
        attrs: &BTreeMap<String, Attr>,
        args: &[&DeviceTensor],
        outs: &[&DeviceTensor],
        syms: &[i64],
    ) -> Result<u64, RunError> {
        let id = self.device.routine(routine)?;
        let args: Vec<_> = args.iter().map(|t| t.arg()).collect();
        let outs: Vec<_> = outs.iter().map(|t| t.arg()).collect();
        let call = CallArgs {
            args: &args,
            outs: &outs,
            attrs,
            syms,
        };
        let start = self.device.mark(QueueId(0))?;
        self.device.call(QueueId(0), id, call)?;
        Ok(self.device.mark(QueueId(0))?.0 - start.0)
    }
}

/// An entry with its inputs on the device.
pub struct Prepared<'s> {
    session: &'s mut Session,
    entry: usize,
    args: Vec<Value>,
    result: Value,
}

impl Prepared<'_> {
    /// Runs once; results stay on the device until the next run. The storage of the last results is free for this run.
    ///
    /// # Errors
    /// When a fault occurs in a function.
    pub fn run(&mut self) -> Result<(), RunError> {
        self.execute(None)
    }

    /// Runs once and times every kernel and library call.
    ///
    /// # Errors
    /// When a fault occurs in a function.
    pub fn run_profiled(&mut self, profile: &mut dyn Profile) -> Result<(), RunError> {
        self.execute(Some(profile))
    }

    fn execute(&mut self, profile: Option<&mut dyn Profile>) -> Result<(), RunError> {
        self.result = Value::Unset;
        let session = &mut *self.session;
        let function = session.module.entries[self.entry].function;
        let mut vm = Vm {
            module: &session.module,
            device: &mut *session.device,
            pool: &session.pool,
            constants: &session.constants,
            routines: &session.routines,
            scratch: &mut session.scratch,
            profile,
        };
        self.result = vm.call(function, &self.args, 0)?;
        session.device.synchronize(QueueId(0))?;
        Ok(())
    }

    /// The entry chosen.
    pub fn entry(&self) -> &Entry {
        &self.session.module.entries[self.entry]
    }

    /// Copies of the last run's results, tuples flattened; none before the first run.
    ///
    /// # Errors
    /// When the device fails.
    pub fn outputs(&mut self) -> Result<Vec<HostTensor>, RunError> {
        self.result
            .tensors()
            .iter()
            .map(|t| self.session.download(t))
            .collect()
    }

    /// The session's device memory.
    pub fn memory(&self) -> PoolStats {
        self.session.memory()
    }
}

fn check_host_tensor(tensor: &HostTensor) -> Result<(), RunError> {
    let expected = Dims::new(&tensor.shape).and_then(|dims| dims.bytes(tensor.dtype));
    if expected == Some(tensor.bytes.len()) {
        Ok(())
    } else {
        Err(RunError::HostTensor {
            dtype: tensor.dtype,
            shape: tensor.shape.clone(),
            bytes: tensor.bytes.len(),
        })
    }
}

fn applies(
    module: &Module,
    entry: &Entry,
    inputs: &[HostTensor],
    slots: &mut Vec<i64>,
    scratch: &mut Scratch,
) -> Result<(), RunError> {
    let function = &module.functions[entry.function.index()];
    if inputs.len() != function.params.len() {
        return Err(RunError::InputCount {
            entry: entry.name.clone(),
            found: inputs.len(),
            expected: function.params.len(),
        });
    }
    let actual = inputs.iter().map(|t| (t.dtype, &t.shape[..]));
    match_entry(function, actual, slots, &mut scratch.stack).map_err(|(i, mismatch)| RunError::Input {
        entry: entry.name.clone(),
        input: function.params[i].name.clone(),
        mismatch: Box::new(mismatch),
    })?;
    let Some(guard) = &entry.guard else {
        return Ok(());
    };
    let holds = guard.eval(slots, &mut scratch.stack).map_err(|source| {
        RunError::Call(VmFault::Expr {
            what: "guard",
            expr: guard.to_string(),
            source,
        })
    })?;
    if holds != 0 {
        Ok(())
    } else {
        Err(RunError::Guard {
            entry: entry.name.clone(),
            guard: guard.to_string(),
        })
    }
}

/// A constant's logical values.
fn values(constant: &Constant, options: &Options, threads: usize) -> Result<Vec<u8>, ConstantError> {
    match &constant.source {
        Source::Inline(bytes) => Ok(bytes.to_vec()),
        Source::Generated(generator) => {
            let count = pack::elements(&constant.shape).unwrap_or(0) as usize;
            let bytes = count * constant.dtype.bytes();
            let mut out = Vec::new();
            out.try_reserve_exact(bytes)
                .map_err(|_| ConstantError::Memory(bytes))?;
            out.resize(bytes, 0);
            generate::generate(generator, constant.dtype, &mut out, threads)?;
            Ok(out)
        }
        Source::External { path, blake3 } => {
            let path = options.directory.clone().unwrap_or_default().join(path);
            let bytes = match std::fs::read(&path) {
                Ok(bytes) => bytes,
                Err(source) => return Err(ConstantError::Io { path, source }),
            };
            let found = blake3::hash(&bytes);
            if found.as_bytes() != blake3 {
                return Err(ConstantError::Hash {
                    path,
                    found: found.to_hex().to_string(),
                });
            }
            Ok(bytes)
        }
    }
}
