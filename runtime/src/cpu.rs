//! The CPU device: host memory, native code, a thread pool. One queue; every call runs to its end before it returns.

use crate::device::{BufferId, CallArgs, Device, DeviceError, Mark, QueueId, RoutineId, TensorArg};
use crate::expr::EvalStack;
use crate::index::KernelId;
use crate::library::{Input, Library, LibraryCall, Output};
use crate::module::{ALIGNMENT, Isa, Kernel, Module, chunk_size};
use crate::native::{self, NativeLibrary, PhaseFn};
use crate::pool::ThreadPool;
use crate::storage::AlignedBuffer;
use std::ffi::c_void;
use std::time::Instant;

/// A place for a buffer; the generation tells successive buffers of one place apart.
struct Place {
    generation: u32,
    buffer: Option<AlignedBuffer>,
}

/// A kernel whose phases have been found in the native code.
struct LoadedKernel {
    kernel: Kernel,
    phases: Vec<PhaseFn>,
}

/// The CPU.
pub struct CpuDevice {
    places: Vec<Place>,
    vacant: Vec<u32>,
    pool: ThreadPool,
    /// Scratch memory per worker.
    scratch: Vec<AlignedBuffer>,
    library: Library,
    kernels: Vec<LoadedKernel>,
    /// Holds the code of `kernels`.
    code: Option<NativeLibrary>,
    isa: Isa,
    stack: EvalStack,
    start: Instant,
}

impl CpuDevice {
    /// A device with `threads` threads (0: one per available core) and the standard library.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn new(threads: usize) -> Result<Self, DeviceError> {
        Self::with_library(threads, Library::standard())
    }

    /// A device with a kernel library of the caller's.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn with_library(threads: usize, library: Library) -> Result<Self, DeviceError> {
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            n => n,
        };
        Ok(CpuDevice {
            places: Vec::new(),
            vacant: Vec::new(),
            pool: ThreadPool::new(threads).map_err(DeviceError::Threads)?,
            scratch: Vec::new(),
            library,
            kernels: Vec::new(),
            code: None,
            isa: Isa::Generic,
            stack: EvalStack::new(),
            start: Instant::now(),
        })
    }

    fn buffer(&self, id: BufferId) -> Result<&AlignedBuffer, DeviceError> {
        let (index, generation) = id.parts();
        self.places
            .get(index as usize)
            .filter(|p| p.generation == generation)
            .and_then(|p| p.buffer.as_ref())
            .ok_or(DeviceError::Buffer(id))
    }

    fn buffer_mut(&mut self, id: BufferId) -> Result<&mut AlignedBuffer, DeviceError> {
        let (index, generation) = id.parts();
        self.places
            .get_mut(index as usize)
            .filter(|p| p.generation == generation)
            .and_then(|p| p.buffer.as_mut())
            .ok_or(DeviceError::Buffer(id))
    }

    /// Where an argument's data is; checked to lie inside its buffer.
    fn resolve(&self, arg: &TensorArg) -> Result<*mut u8, DeviceError> {
        let buffer = self.buffer(arg.buffer)?;
        let size = buffer.len();
        if !arg.offset.is_multiple_of(ALIGNMENT)
            || arg.offset.checked_add(arg.bytes).is_none_or(|end| end > size)
        {
            return Err(DeviceError::Range {
                offset: arg.offset,
                bytes: arg.bytes,
                size,
            });
        }
        // An empty tensor may lie at the very end, which is still a valid address of the allocation.
        // SAFETY: the offset is at most the size of the allocation.
        Ok(unsafe { buffer.as_ptr().add(arg.offset) })
    }

    fn reserve_scratch(&mut self, bytes: usize) -> Result<(), DeviceError> {
        if self.scratch.len() == self.pool.threads() && self.scratch.iter().all(|s| s.len() >= bytes) {
            return Ok(());
        }
        self.scratch.clear();
        for _ in 0..self.pool.threads() {
            self.scratch
                .push(AlignedBuffer::new(bytes).ok_or(DeviceError::Memory {
                    bytes,
                    in_use: 0,
                    limit: None,
                })?);
        }
        Ok(())
    }
}

fn check_queue(queue: QueueId) -> Result<(), DeviceError> {
    if queue == QueueId(0) {
        Ok(())
    } else {
        Err(DeviceError::Index {
            what: "queue",
            index: queue.0,
            count: 1,
        })
    }
}

fn check_range(offset: usize, bytes: usize, size: usize) -> Result<(), DeviceError> {
    if offset.checked_add(bytes).is_some_and(|end| end <= size) {
        Ok(())
    } else {
        Err(DeviceError::Range { offset, bytes, size })
    }
}

/// One phase, ready to run its chunks on any worker.
struct Launch<'a> {
    function: PhaseFn,
    buffers: &'a [*mut c_void],
    syms: &'a [i64],
    extent: i64,
    chunk: i64,
    scratch: &'a [AlignedBuffer],
    /// Whether the phase wants scratch memory at all.
    wants_scratch: bool,
}

// SAFETY: the pointers refer to buffers that the device keeps during the launch; by the kernel ABI distinct iterations may run at the same time.
unsafe impl Sync for Launch<'_> {}

impl Launch<'_> {
    fn run(&self, worker: usize, index: usize) {
        let begin = index as i64 * self.chunk;
        let end = begin.saturating_add(self.chunk).min(self.extent);
        let scratch = match self.scratch.get(worker) {
            Some(scratch) if self.wants_scratch => scratch.as_ptr(),
            _ => std::ptr::null_mut(),
        };
        // SAFETY: the function is a phase of the loaded code, which is trusted as its source is. The buffers were resolved and their
        // sizes compared with what the kernel declares; there are as many buffers and symbols as it expects; each worker has its own scratch.
        unsafe {
            (self.function)(
                self.buffers.as_ptr(),
                self.syms.as_ptr(),
                begin,
                end,
                scratch.cast(),
            )
        }
    }
}

impl Device for CpuDevice {
    fn name(&self) -> &str {
        "cpu"
    }

    fn threads(&self) -> usize {
        self.pool.threads()
    }

    fn isa(&self) -> Isa {
        self.isa
    }

    fn load(&mut self, module: &Module) -> Result<(), DeviceError> {
        self.kernels.clear();
        self.code = None;
        self.isa = Isa::Generic;
        if module.kernels.is_empty() {
            return Ok(());
        }
        let native = native::choose(module)?;
        let code = NativeLibrary::load(&native.bytes)?;
        for kernel in &module.kernels {
            let phases = kernel
                .phases
                .iter()
                .map(|phase| {
                    code.phase(&phase.symbol).ok_or_else(|| DeviceError::Symbol {
                        kernel: kernel.name.clone(),
                        symbol: phase.symbol.clone(),
                    })
                })
                .collect::<Result<_, _>>()?;
            self.kernels.push(LoadedKernel {
                kernel: kernel.clone(),
                phases,
            });
        }
        self.isa = native.isa;
        self.code = Some(code);
        Ok(())
    }

    fn routine(&self, name: &str) -> Result<RoutineId, DeviceError> {
        self.library.find(name)
    }

    fn alloc(&mut self, bytes: usize) -> Result<BufferId, DeviceError> {
        let buffer = AlignedBuffer::new(bytes).ok_or(DeviceError::Memory {
            bytes,
            in_use: 0,
            limit: None,
        })?;
        let index = match self.vacant.pop() {
            Some(index) => index,
            None => {
                self.places.push(Place {
                    generation: 0,
                    buffer: None,
                });
                (self.places.len() - 1) as u32
            }
        };
        let place = &mut self.places[index as usize];
        place.buffer = Some(buffer);
        Ok(BufferId::new(index, place.generation))
    }

    fn free(&mut self, buffer: BufferId) {
        let (index, generation) = buffer.parts();
        if let Some(place) = self.places.get_mut(index as usize)
            && place.generation == generation
            && place.buffer.take().is_some()
        {
            place.generation = place.generation.wrapping_add(1);
            self.vacant.push(index);
        }
    }

    fn upload(
        &mut self,
        queue: QueueId,
        dst: BufferId,
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), DeviceError> {
        check_queue(queue)?;
        let buffer = self.buffer_mut(dst)?.as_mut_slice();
        check_range(offset, bytes.len(), buffer.len())?;
        buffer[offset..offset + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn download(
        &mut self,
        queue: QueueId,
        src: BufferId,
        offset: usize,
        out: &mut [u8],
    ) -> Result<(), DeviceError> {
        check_queue(queue)?;
        let buffer = self.buffer(src)?.as_slice();
        check_range(offset, out.len(), buffer.len())?;
        out.copy_from_slice(&buffer[offset..offset + out.len()]);
        Ok(())
    }

    fn launch(
        &mut self,
        queue: QueueId,
        kernel: KernelId,
        args: &[TensorArg],
        syms: &[i64],
    ) -> Result<(), DeviceError> {
        check_queue(queue)?;
        let count = self.kernels.len();
        let loaded = self.kernels.get(kernel.index()).ok_or(DeviceError::Index {
            what: "kernel",
            index: kernel.0,
            count,
        })?;
        let declared = &loaded.kernel;
        for (what, found, expected) in [
            ("arguments", args.len(), declared.params.len()),
            ("symbolic arguments", syms.len(), declared.syms as usize),
        ] {
            if found != expected {
                return Err(DeviceError::Arity {
                    kernel: declared.name.clone(),
                    what,
                    found,
                    expected,
                });
            }
        }
        let buffers = args
            .iter()
            .map(|arg| Ok(self.resolve(arg)?.cast()))
            .collect::<Result<Vec<*mut c_void>, DeviceError>>()?;
        for phase in 0..loaded.phases.len() {
            let loaded = &self.kernels[kernel.index()];
            let declared = &loaded.kernel.phases[phase];
            let stack = &mut self.stack;
            let mut eval = |e: &crate::expr::Expr| {
                e.eval(syms, stack).map_err(|source| DeviceError::Phase {
                    kernel: loaded.kernel.name.clone(),
                    phase: declared.symbol.clone(),
                    source,
                })
            };
            let extent = eval(&declared.extent)?;
            let scratch = usize::try_from(eval(&declared.scratch)?).unwrap_or(0);
            if extent <= 0 {
                continue;
            }
            let (function, grain) = (loaded.phases[phase], declared.grain);
            if scratch > 0 {
                self.reserve_scratch(scratch)?;
            }
            let chunk = chunk_size(extent, grain);
            let launch = Launch {
                function,
                buffers: &buffers,
                syms,
                extent,
                chunk,
                scratch: &self.scratch,
                wants_scratch: scratch > 0,
            };
            let chunks = ((extent - 1) / chunk + 1) as usize;
            self.pool
                .run(chunks, &|worker, i| launch.run(worker, i))
                .map_err(|_| DeviceError::Panicked(self.kernels[kernel.index()].kernel.name.clone()))?;
        }
        Ok(())
    }

    fn call(&mut self, queue: QueueId, routine: RoutineId, call: CallArgs<'_>) -> Result<(), DeviceError> {
        check_queue(queue)?;
        let count = self.library.names().len();
        let (name, run) = self.library.get(routine).ok_or(DeviceError::Index {
            what: "library routine",
            index: routine.0,
            count,
        })?;
        check_overlap(name, call.args, call.outs)?;
        let args = call
            .args
            .iter()
            .map(|arg| {
                let data = self.resolve(arg)?;
                // SAFETY: resolved to lie inside its buffer, which lives and is not written during the call: no output overlaps it.
                let bytes = unsafe { std::slice::from_raw_parts(data, arg.bytes) };
                Ok(Input::new(arg.dtype, arg.dims, bytes))
            })
            .collect::<Result<Vec<_>, DeviceError>>()?;
        let mut outs = call
            .outs
            .iter()
            .map(|arg| {
                let data = self.resolve(arg)?;
                // SAFETY: resolved to lie inside its buffer, aligned, and overlapping no other operand.
                Ok(unsafe { Output::new(arg.dtype, arg.dims, data, arg.bytes) })
            })
            .collect::<Result<Vec<_>, DeviceError>>()?;
        let mut library_call = LibraryCall {
            args: &args,
            outs: &mut outs,
            attrs: call.attrs,
            syms: call.syms,
            pool: &mut self.pool,
        };
        run(&mut library_call).map_err(|source| DeviceError::Library {
            routine: name.to_owned(),
            source,
        })
    }

    fn synchronize(&mut self, queue: QueueId) -> Result<(), DeviceError> {
        check_queue(queue)
    }

    fn mark(&mut self, queue: QueueId) -> Result<Mark, DeviceError> {
        check_queue(queue)?;
        Ok(Mark(self.start.elapsed().as_nanos() as u64))
    }
}

fn check_overlap(routine: &str, args: &[TensorArg], outs: &[TensorArg]) -> Result<(), DeviceError> {
    let overlap = |a: &TensorArg, b: &TensorArg| {
        a.bytes > 0
            && b.bytes > 0
            && a.buffer == b.buffer
            && a.offset < b.offset + b.bytes
            && b.offset < a.offset + a.bytes
    };
    for (i, out) in outs.iter().enumerate() {
        let argument = args.iter().position(|a| overlap(a, out));
        let output = outs[..i].iter().position(|o| overlap(o, out));
        let other = match (argument, output) {
            (Some(a), _) => format!("argument {a}"),
            (None, Some(o)) => format!("output {o}"),
            (None, None) => continue,
        };
        return Err(DeviceError::Overlap {
            routine: routine.to_owned(),
            out: i,
            other,
        });
    }
    Ok(())
}
