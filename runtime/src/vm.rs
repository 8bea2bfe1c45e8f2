//! The virtual machine: runs the straight-line code of a module's functions on a device.
//!
//! A call of a function checks its arguments against the signature (binding slots), executes the instructions, and checks the result.
//! Sizes, offsets and shapes are evaluated from bytecode at the point of need; nothing is allocated on the host per instruction but the
//! handle of a storage.

use crate::device::{CallArgs, Device, DeviceError, QueueId, RoutineId, TensorArg};
use crate::dtype::DType;
use crate::expr::{EvalStack, Expr, ExprError};
use crate::index::{FunctionId, KernelId, Reg, Slot};
use crate::module::{
    ALIGNMENT, Dim, Function, Instr, Kernel, Module, Param, SlotDecl, TensorType, ValueType,
};
use crate::profile::{Event, EventKind, Profile};
use crate::storage::{Storage, StoragePool};
use crate::tensor::{DeviceTensor, Dims};
use std::sync::Arc;

/// Calls nest at most this deep; they can't be recursive, so only a machine-made module gets near.
const MAX_DEPTH: usize = 200;

/// What a register holds.
#[derive(Clone, Debug, Default)]
pub(crate) enum Value {
    #[default]
    Unset,
    Storage(Arc<Storage>),
    Tensor(DeviceTensor),
    Tuple(Vec<DeviceTensor>),
}

impl Value {
    /// The tensors of a tensor or tuple.
    pub fn tensors(&self) -> &[DeviceTensor] {
        match self {
            Value::Tensor(t) => std::slice::from_ref(t),
            Value::Tuple(ts) => ts,
            Value::Unset | Value::Storage(_) => &[],
        }
    }
}

/// Why a value is not what a signature or match says.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Mismatch {
    /// Another number of tensors.
    #[error("{found} tensors, expected {expected}")]
    Count {
        /// How many there are.
        found: usize,
        /// How many are expected.
        expected: usize,
    },
    /// A tuple for a tensor, or the other way round.
    #[error("a {found}, expected a {expected}")]
    Kind {
        /// What it is.
        found: &'static str,
        /// What is expected.
        expected: &'static str,
    },
    /// Another element type.
    #[error("element type {found}, expected {expected}")]
    DType {
        /// The type.
        found: DType,
        /// The type expected.
        expected: DType,
    },
    /// Another rank.
    #[error("rank {found} (shape {shape:?}), expected rank {expected}")]
    Rank {
        /// The rank.
        found: usize,
        /// The rank expected.
        expected: usize,
        /// The shape.
        shape: Vec<i64>,
    },
    /// Another dimension.
    #[error("dimension {dim} is {found} (shape {shape:?}), expected {expected} = {value}")]
    Dim {
        /// Which dimension.
        dim: usize,
        /// Its extent.
        found: i64,
        /// The expression expected.
        expected: String,
        /// The expression's value.
        value: i64,
        /// The shape.
        shape: Vec<i64>,
    },
    /// A symbolic variable beyond its declared range.
    #[error("`{name}` is {value}, outside its declared range {low}..{}", .high.map_or(String::new(), |h| format!("={h}")))]
    Range {
        /// The variable.
        name: String,
        /// Its value.
        value: i64,
        /// Inclusive lower bound.
        low: i64,
        /// Inclusive upper bound.
        high: Option<i64>,
    },
    /// An expected dimension that cannot be evaluated.
    #[error("dimension {dim}, expected {expected}: {source}")]
    Expr {
        /// Which dimension.
        dim: usize,
        /// The expression.
        expected: String,
        /// The cause.
        source: ExprError,
    },
}

/// What can go wrong in a function.
#[derive(Debug, thiserror::Error)]
pub enum VmFault {
    /// An argument that does not match the signature.
    #[error("argument `{name}`: {mismatch}")]
    Argument {
        /// The parameter.
        name: String,
        /// Why.
        mismatch: Mismatch,
    },
    /// A result that does not match the signature.
    #[error("result {index}: {mismatch}")]
    Result {
        /// Which tensor of the result.
        index: usize,
        /// Why.
        mismatch: Mismatch,
    },
    /// A failed match_cast.
    #[error("match of {reg}: {mismatch}")]
    Match {
        /// The register.
        reg: Reg,
        /// Why.
        mismatch: Mismatch,
    },
    /// A computed slot beyond its declared range.
    #[error(transparent)]
    Slot(Mismatch),
    /// An expression that cannot be evaluated.
    #[error("{what} {expr}: {source}")]
    Expr {
        /// What it is for.
        what: &'static str,
        /// The expression.
        expr: String,
        /// The cause.
        source: ExprError,
    },
    /// A negative size, or a shape without a size.
    #[error("{what} of {found:?}")]
    Size {
        /// What it is.
        what: &'static str,
        /// The values.
        found: Vec<i64>,
    },
    /// A tensor that does not fit in its storage, or starts at an unaligned offset.
    #[error(
        "a tensor of {bytes} bytes at offset {offset} of a storage of {size} (offsets are multiples of {ALIGNMENT})"
    )]
    Placement {
        /// Bytes of the tensor.
        bytes: usize,
        /// Its offset.
        offset: i64,
        /// Bytes of the storage.
        size: usize,
    },
    /// A view with another number of elements.
    #[error("a view of shape {to:?} of a tensor of shape {from:?}")]
    View {
        /// The tensor's shape.
        from: Vec<i64>,
        /// The shape asked for.
        to: Vec<i64>,
    },
    /// A kernel's argument that is smaller than the kernel needs.
    #[error(
        "argument {index} of kernel `{kernel}` has {found} bytes (shape {shape:?}); the kernel needs {needed} bytes of {dtype}"
    )]
    KernelArgument {
        /// The kernel.
        kernel: String,
        /// Which argument.
        index: usize,
        /// Its bytes.
        found: usize,
        /// Its shape.
        shape: Vec<i64>,
        /// Bytes that the kernel may touch.
        needed: i64,
        /// The element type expected.
        dtype: DType,
    },
    /// Calls nested too deep.
    #[error("calls nest deeper than {MAX_DEPTH}")]
    Depth,
    /// A register that does not hold what an instruction reads; validation excludes it.
    #[error("register {0} does not hold what the instruction reads")]
    Register(Reg),
    /// What the device reports.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// A fault with its place.
#[derive(Debug, thiserror::Error)]
#[error("function `{function}`{}: {fault}", .instruction.map(|i| format!(", instruction {i}")).unwrap_or_default())]
pub struct VmError {
    /// The function.
    pub function: String,
    /// The instruction; none for arguments.
    pub instruction: Option<usize>,
    /// What went wrong. Boxed: results carry errors of this type through every call.
    pub fault: Box<VmFault>,
}

/// What an execution reads and uses.
pub(crate) struct Vm<'a, 'p> {
    pub module: &'a Module,
    pub device: &'a mut dyn Device,
    pub pool: &'a StoragePool,
    pub constants: &'a [DeviceTensor],
    /// Per function and instruction, the routine of a library call.
    pub routines: &'a [Vec<Option<RoutineId>>],
    pub scratch: &'a mut Scratch,
    pub profile: Option<&'p mut dyn Profile>,
}

/// Working memory that executions reuse.
#[derive(Default)]
pub(crate) struct Scratch {
    pub stack: EvalStack,
    frames: Vec<Frame>,
    args: Vec<TensorArg>,
    outs: Vec<TensorArg>,
    syms: Vec<i64>,
}

#[derive(Default)]
struct Frame {
    registers: Vec<Value>,
    slots: Vec<i64>,
}

impl Vm<'_, '_> {
    /// Calls a function with one value per parameter.
    pub fn call(&mut self, id: FunctionId, args: &[Value], depth: usize) -> Result<Value, VmError> {
        let module = self.module;
        let Some(function) = module.functions.get(id.index()) else {
            // Validation excludes it.
            return Err(VmError {
                function: id.to_string(),
                instruction: None,
                fault: Box::new(VmFault::Depth),
            });
        };
        let at = |instruction, fault| VmError {
            function: function.name.clone(),
            instruction,
            fault: Box::new(fault),
        };
        if depth > MAX_DEPTH {
            return Err(at(None, VmFault::Depth));
        }
        let mut frame = self.scratch.frames.pop().unwrap_or_default();
        frame.slots.clear();
        frame.slots.resize(function.slots.len(), 0);
        frame.registers.clear();
        frame.registers.extend_from_slice(args);
        frame
            .registers
            .resize_with(function.registers as usize, Value::default);
        bind_arguments(function, args, &mut frame.slots, &mut self.scratch.stack)
            .map_err(|fault| at(None, fault))?;
        for (i, instr) in function.code.iter().enumerate() {
            if let Instr::Ret { value } = instr {
                let value = std::mem::take(&mut frame.registers[value.index()]);
                check_result(function, &value, &mut frame.slots, &mut self.scratch.stack)
                    .map_err(|fault| at(Some(i), fault))?;
                frame.registers.clear();
                self.scratch.frames.push(frame);
                return Ok(value);
            }
            if let Instr::CallFunction {
                function: callee,
                args,
                dst,
            } = instr
            {
                let values: Vec<Value> = args.iter().map(|r| frame.registers[r.index()].clone()).collect();
                // The error of a callee names the callee.
                frame.registers[dst.index()] = self.call(*callee, &values, depth + 1)?;
                continue;
            }
            self.step(&mut frame, instr, id, i)
                .map_err(|fault| at(Some(i), fault))?;
        }
        // Validation excludes code without `Ret`.
        Err(at(None, VmFault::Depth))
    }

    fn step(
        &mut self,
        frame: &mut Frame,
        instr: &Instr,
        function: FunctionId,
        at: usize,
    ) -> Result<(), VmFault> {
        match instr {
            Instr::AllocStorage { dst, bytes } => {
                let bytes = self.eval("bytes", bytes, &frame.slots)?;
                let size = usize::try_from(bytes).map_err(|_| VmFault::Size {
                    what: "a storage",
                    found: vec![bytes],
                })?;
                let storage = self.pool.acquire(self.device, size)?;
                frame.registers[dst.index()] = Value::Storage(storage);
            }
            Instr::AllocTensor {
                dst,
                storage,
                offset,
                shape,
                dtype,
            } => {
                let offset = self.eval("offset", offset, &frame.slots)?;
                let (dims, bytes) = self.shape(shape, *dtype, &frame.slots)?;
                let Value::Storage(storage) = &frame.registers[storage.index()] else {
                    return Err(VmFault::Register(*storage));
                };
                let start = usize::try_from(offset)
                    .ok()
                    .filter(|o| {
                        o.is_multiple_of(ALIGNMENT)
                            && o.checked_add(bytes).is_some_and(|end| end <= storage.bytes())
                    })
                    .ok_or(VmFault::Placement {
                        bytes,
                        offset,
                        size: storage.bytes(),
                    })?;
                let tensor = DeviceTensor {
                    storage: storage.clone(),
                    offset: start,
                    dtype: *dtype,
                    dims,
                    bytes,
                };
                frame.registers[dst.index()] = Value::Tensor(tensor);
            }
            Instr::Constant { dst, constant } => {
                frame.registers[dst.index()] = Value::Tensor(self.constants[constant.index()].clone());
            }
            Instr::View { dst, src, shape } => {
                let source = tensor(frame, *src)?;
                let (dims, bytes) = self.shape(shape, source.dtype, &frame.slots)?;
                if bytes != source.bytes {
                    return Err(VmFault::View {
                        from: source.dims.to_vec(),
                        to: dims.to_vec(),
                    });
                }
                let view = DeviceTensor {
                    dims,
                    ..source.clone()
                };
                frame.registers[dst.index()] = Value::Tensor(view);
            }
            Instr::MatchShape { src, dtype, dims } => {
                let Value::Tensor(source) = &frame.registers[src.index()] else {
                    return Err(VmFault::Register(*src));
                };
                let fault = |mismatch| VmFault::Match { reg: *src, mismatch };
                let decls = &self.module.functions[function.index()].slots;
                check_type(*dtype, dims.len(), source.dtype, &source.dims).map_err(fault)?;
                bind(dims, &source.dims, decls, &mut frame.slots).map_err(fault)?;
                check(dims, &source.dims, decls, &frame.slots, &mut self.scratch.stack).map_err(fault)?;
            }
            Instr::Eval { dst, value } => {
                let value = self.eval("value", value, &frame.slots)?;
                let decls = &self.module.functions[function.index()].slots;
                set_slot(*dst, value, decls, &mut frame.slots).map_err(VmFault::Slot)?;
            }
            Instr::CallKernel { kernel, args, syms } => {
                self.call_kernel(frame, *kernel, args, syms, function, at)?;
            }
            Instr::CallLibrary {
                routine,
                attrs,
                args,
                outs,
                syms,
            } => {
                gather(frame, args, &mut self.scratch.args)?;
                gather(frame, outs, &mut self.scratch.outs)?;
                self.symbols(syms, &frame.slots)?;
                let id = match self.routines[function.index()][at] {
                    Some(id) => id,
                    None => self.device.routine(routine)?,
                };
                let call = CallArgs {
                    args: &self.scratch.args,
                    outs: &self.scratch.outs,
                    attrs,
                    syms: &self.scratch.syms,
                };
                let start = begin(&self.profile, self.device)?;
                self.device.call(QueueId(0), id, call)?;
                self.finish(start, function, at, EventKind::Library, routine)?;
            }
            Instr::MakeTuple { dst, items } => {
                let items = items
                    .iter()
                    .map(|r| tensor(frame, *r).cloned())
                    .collect::<Result<_, _>>()?;
                frame.registers[dst.index()] = Value::Tuple(items);
            }
            Instr::GetTuple { dst, src, index } => {
                let item = match &frame.registers[src.index()] {
                    Value::Tuple(items) => items.get(*index as usize).cloned(),
                    _ => None,
                };
                frame.registers[dst.index()] = Value::Tensor(item.ok_or(VmFault::Register(*src))?);
            }
            Instr::Kill { regs } => {
                for reg in regs {
                    frame.registers[reg.index()] = Value::Unset;
                }
            }
            // Handled by the caller.
            Instr::CallFunction { dst, .. } => return Err(VmFault::Register(*dst)),
            Instr::Ret { value } => return Err(VmFault::Register(*value)),
        }
        Ok(())
    }

    fn call_kernel(
        &mut self,
        frame: &Frame,
        kernel: KernelId,
        args: &[Reg],
        syms: &[Expr],
        function: FunctionId,
        at: usize,
    ) -> Result<(), VmFault> {
        gather(frame, args, &mut self.scratch.args)?;
        self.symbols(syms, &frame.slots)?;
        let declared = &self.module.kernels[kernel.index()];
        let Scratch {
            args, syms, stack, ..
        } = &mut *self.scratch;
        check_kernel_args(declared, args, syms, stack)?;
        let start = begin(&self.profile, self.device)?;
        self.device.launch(QueueId(0), kernel, args, syms)?;
        self.finish(start, function, at, EventKind::Kernel, &declared.name)
    }

    fn finish(
        &mut self,
        start: Option<u64>,
        function: FunctionId,
        instruction: usize,
        kind: EventKind,
        name: &str,
    ) -> Result<(), VmFault> {
        if let (Some(start), Some(profile)) = (start, self.profile.as_mut()) {
            let end = self.device.mark(QueueId(0))?;
            profile.record(&Event {
                function: &self.module.functions[function.index()].name,
                instruction,
                kind,
                name,
                nanoseconds: end.0.saturating_sub(start),
            });
        }
        Ok(())
    }

    fn eval(&mut self, what: &'static str, expr: &Expr, slots: &[i64]) -> Result<i64, VmFault> {
        expr.eval(slots, &mut self.scratch.stack)
            .map_err(|source| VmFault::Expr {
                what,
                expr: expr.to_string(),
                source,
            })
    }

    fn symbols(&mut self, syms: &[Expr], slots: &[i64]) -> Result<(), VmFault> {
        self.scratch.syms.clear();
        for expr in syms {
            let value = self.eval("symbolic argument", expr, slots)?;
            self.scratch.syms.push(value);
        }
        Ok(())
    }

    fn shape(&mut self, shape: &[Expr], dtype: DType, slots: &[i64]) -> Result<(Dims, usize), VmFault> {
        let mut dims = Dims::scalar();
        for expr in shape {
            let value = self.eval("dimension", expr, slots)?;
            dims.push(value).ok_or_else(|| VmFault::Size {
                what: "a tensor",
                found: dims.to_vec(),
            })?;
        }
        match dims.bytes(dtype) {
            Some(bytes) => Ok((dims, bytes)),
            None => Err(VmFault::Size {
                what: "a tensor",
                found: dims.to_vec(),
            }),
        }
    }
}

/// The time before a timed instruction; none when nobody wants it.
fn begin(profile: &Option<&mut dyn Profile>, device: &mut dyn Device) -> Result<Option<u64>, DeviceError> {
    match profile {
        Some(_) => Ok(Some(device.mark(QueueId(0))?.0)),
        None => Ok(None),
    }
}

fn tensor(frame: &Frame, reg: Reg) -> Result<&DeviceTensor, VmFault> {
    match &frame.registers[reg.index()] {
        Value::Tensor(t) => Ok(t),
        _ => Err(VmFault::Register(reg)),
    }
}

fn gather(frame: &Frame, regs: &[Reg], out: &mut Vec<TensorArg>) -> Result<(), VmFault> {
    out.clear();
    for reg in regs {
        out.push(tensor(frame, *reg)?.arg());
    }
    Ok(())
}

/// Checks a kernel's arguments against its parameters.
pub(crate) fn check_kernel_args(
    kernel: &Kernel,
    args: &[TensorArg],
    syms: &[i64],
    stack: &mut EvalStack,
) -> Result<(), VmFault> {
    for (index, (arg, param)) in args.iter().zip(&kernel.params).enumerate() {
        let needed = param.bytes.eval(syms, stack).map_err(|source| VmFault::Expr {
            what: "bytes of a kernel argument",
            expr: param.bytes.to_string(),
            source,
        })?;
        if arg.dtype != param.dtype || (arg.bytes as i64) < needed {
            return Err(VmFault::KernelArgument {
                kernel: kernel.name.clone(),
                index,
                found: arg.bytes,
                shape: arg.dims.to_vec(),
                needed,
                dtype: param.dtype,
            });
        }
    }
    Ok(())
}

fn set_slot(slot: Slot, value: i64, decls: &[SlotDecl], slots: &mut [i64]) -> Result<(), Mismatch> {
    let decl = &decls[slot.index()];
    if value < decl.low || decl.high.is_some_and(|high| value > high) {
        return Err(Mismatch::Range {
            name: decl.name.clone(),
            value,
            low: decl.low,
            high: decl.high,
        });
    }
    slots[slot.index()] = value;
    Ok(())
}

/// Type and rank of a tensor.
fn check_type(dtype: DType, rank: usize, found: DType, shape: &[i64]) -> Result<(), Mismatch> {
    if found != dtype {
        return Err(Mismatch::DType {
            found,
            expected: dtype,
        });
    }
    if shape.len() != rank {
        return Err(Mismatch::Rank {
            found: shape.len(),
            expected: rank,
            shape: shape.to_vec(),
        });
    }
    Ok(())
}

/// Sets the slots of `Bind` patterns.
fn bind(dims: &[Dim], shape: &[i64], decls: &[SlotDecl], slots: &mut [i64]) -> Result<(), Mismatch> {
    for (dim, &extent) in dims.iter().zip(shape) {
        if let Dim::Bind(slot) = dim {
            set_slot(*slot, extent, decls, slots)?;
        }
    }
    Ok(())
}

/// Compares with `Check` patterns.
fn check(
    dims: &[Dim],
    shape: &[i64],
    decls: &[SlotDecl],
    slots: &[i64],
    stack: &mut EvalStack,
) -> Result<(), Mismatch> {
    for (i, (dim, &extent)) in dims.iter().zip(shape).enumerate() {
        let Dim::Check(expr) = dim else { continue };
        let text = || named(expr, decls);
        let value = expr.eval(slots, stack).map_err(|source| Mismatch::Expr {
            dim: i,
            expected: text(),
            source,
        })?;
        if value != extent {
            return Err(Mismatch::Dim {
                dim: i,
                found: extent,
                expected: text(),
                value,
                shape: shape.to_vec(),
            });
        }
    }
    Ok(())
}

/// An expression with the variables' names, highest slots first so that `$1` is not taken for the start of `$12`.
fn named(expr: &Expr, decls: &[SlotDecl]) -> String {
    let mut text = expr.to_string();
    for (i, decl) in decls.iter().enumerate().rev() {
        if !decl.name.is_empty() {
            text = text.replace(&Slot(i as u32).to_string(), &decl.name);
        }
    }
    text
}

/// One shape to match: a pattern and the tensor's type and shape.
pub(crate) type Actual<'a> = (DType, &'a [i64]);

/// Matches tensors with patterns: types and bindings of all first, then checks of all. The error has the position of the tensor.
fn match_all<'t>(
    types: impl Iterator<Item = &'t TensorType> + Clone,
    actual: impl Iterator<Item = Actual<'t>> + Clone,
    decls: &[SlotDecl],
    slots: &mut [i64],
    stack: &mut EvalStack,
) -> Result<(), (usize, Mismatch)> {
    for (i, (ty, (dtype, shape))) in types.clone().zip(actual.clone()).enumerate() {
        check_type(ty.dtype, ty.dims.len(), dtype, shape).map_err(|m| (i, m))?;
        bind(&ty.dims, shape, decls, slots).map_err(|m| (i, m))?;
    }
    for (i, (ty, (_, shape))) in types.zip(actual).enumerate() {
        check(&ty.dims, shape, decls, slots, stack).map_err(|m| (i, m))?;
    }
    Ok(())
}

/// Whether tensors of these types and shapes are acceptable arguments of an entry's function; sets its slots. The error has the
/// position of the tensor.
pub(crate) fn match_entry<'t>(
    function: &'t Function,
    actual: impl Iterator<Item = Actual<'t>> + Clone,
    slots: &mut Vec<i64>,
    stack: &mut EvalStack,
) -> Result<(), (usize, Mismatch)> {
    slots.clear();
    slots.resize(function.slots.len(), 0);
    let types = function.params.iter().flat_map(|p| p.ty.tensors());
    match_all(types, actual, &function.slots, slots, stack)
}

fn kind(ty: &ValueType) -> &'static str {
    match ty {
        ValueType::Tensor(_) => "tensor",
        ValueType::Tuple(_) => "tuple",
    }
}

/// Whether a value has the kind and number of tensors of a type.
fn check_kind(ty: &ValueType, value: &Value) -> Result<(), Mismatch> {
    let found = match value {
        Value::Unset => "nothing",
        Value::Storage(_) => "storage",
        Value::Tensor(_) => "tensor",
        Value::Tuple(_) => "tuple",
    };
    let expected = kind(ty);
    if found != expected {
        return Err(Mismatch::Kind { found, expected });
    }
    let (found, expected) = (value.tensors().len(), ty.tensors().len());
    if found != expected {
        return Err(Mismatch::Count { found, expected });
    }
    Ok(())
}

fn shapes(values: &[Value]) -> impl Iterator<Item = Actual<'_>> + Clone {
    values
        .iter()
        .flat_map(Value::tensors)
        .map(|t| (t.dtype, &*t.dims))
}

fn bind_arguments(
    function: &Function,
    args: &[Value],
    slots: &mut [i64],
    stack: &mut EvalStack,
) -> Result<(), VmFault> {
    if args.len() != function.params.len() {
        return Err(VmFault::Argument {
            name: String::new(),
            mismatch: Mismatch::Count {
                found: args.len(),
                expected: function.params.len(),
            },
        });
    }
    let fault = |param: &Param, mismatch| VmFault::Argument {
        name: param.name.clone(),
        mismatch,
    };
    for (param, value) in function.params.iter().zip(args) {
        check_kind(&param.ty, value).map_err(|m| fault(param, m))?;
    }
    let types = function.params.iter().flat_map(|p| p.ty.tensors());
    match_all(types, shapes(args), &function.slots, slots, stack).map_err(|(position, mismatch)| {
        let owner = function
            .params
            .iter()
            .flat_map(|p| p.ty.tensors().iter().map(move |_| p))
            .nth(position);
        VmFault::Argument {
            name: owner.map_or(String::new(), |p| p.name.clone()),
            mismatch,
        }
    })
}

fn check_result(
    function: &Function,
    value: &Value,
    slots: &mut [i64],
    stack: &mut EvalStack,
) -> Result<(), VmFault> {
    check_kind(&function.result, value).map_err(|mismatch| VmFault::Result { index: 0, mismatch })?;
    let values = std::slice::from_ref(value);
    let types = function.result.tensors().iter();
    match_all(types, shapes(values), &function.slots, slots, stack)
        .map_err(|(index, mismatch)| VmFault::Result { index, mismatch })
}
