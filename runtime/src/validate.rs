//! What a valid module is. Loading and writing check, in this order:
//!
//! 1. *Kernels*: unique names; at least one phase; parameters ordered inputs, outputs, workspaces; symbols usable as C strings; expressions
//!    well formed over the symbolic arguments; grains at least 1.
//! 2. *Constants*: unique names; shapes and pack steps that fit together and in memory; inline bytes of the shape's length;
//!    distributions that suit the type; external paths that stay in the module's folder.
//! 3. *Functions*: unique names; ranks within bounds; every register and slot within its table, written before it is read and written only
//!    while unset; operands of the right kind, element type and rank; arities of kernel and function calls; exactly one `Ret`, at
//!    the end, of the declared type; calls not recursive.
//! 4. *Entries*: functions in range whose parameters are tensors; guards over slots that the parameters bind.
//! 5. *Native code*: one per level. *Storage plan*: functions in range, well-formed sizes.
//!
//! What depends on run-time values (sizes, dimensions, alignment) is checked by the VM.

use crate::dtype::DType;
use crate::expr::{Expr, ExprError};
use crate::generate::{self, GenerateError};
use crate::index::{ConstId, FunctionId, KernelId, Reg, Slot};
use crate::module::{
    Constant, Dim, Function, Instr, Kernel, MAX_RANK, Module, Source, TensorType, ValueType,
};
use crate::pack::{self, PackError};
use std::collections::HashSet;
use std::fmt;

/// A place in a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Where {
    /// An entry.
    Entry(String),
    /// A function, or one of its instructions.
    Function {
        /// The function's name.
        name: String,
        /// The instruction.
        instruction: Option<usize>,
    },
    /// A kernel.
    Kernel(String),
    /// A constant.
    Constant(String),
    /// The i-th native code.
    Native(usize),
    /// The i-th storage of the plan.
    Plan(usize),
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Where::Entry(name) => write!(f, "entry `{name}`"),
            Where::Function {
                name,
                instruction: Some(i),
            } => write!(f, "function `{name}`, instruction {i}"),
            Where::Function {
                name,
                instruction: None,
            } => write!(f, "function `{name}`"),
            Where::Kernel(name) => write!(f, "kernel `{name}`"),
            Where::Constant(name) => write!(f, "constant `{name}`"),
            Where::Native(i) => write!(f, "native code {i}"),
            Where::Plan(i) => write!(f, "planned storage {i}"),
        }
    }
}

/// Why a module is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{place}: {fault}")]
pub struct ValidateError {
    /// Where.
    pub place: Where,
    /// What.
    pub fault: Fault,
}

/// What is wrong at a place of a module.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Fault {
    /// Two items of one name.
    #[error("the name is taken by an earlier one")]
    DuplicateName,
    /// An index beyond its table.
    #[error("{what} {index} of {count}")]
    Index {
        /// What is indexed.
        what: &'static str,
        /// The index.
        index: u32,
        /// How many there are.
        count: usize,
    },
    /// A malformed expression.
    #[error("{what}: {source}")]
    Expr {
        /// What the expression is for.
        what: &'static str,
        /// The cause.
        source: ExprError,
    },
    /// A slot that is read before it is set.
    #[error("{what} reads slot {slot} before it is set")]
    UnsetSlot {
        /// What reads it.
        what: &'static str,
        /// The slot.
        slot: Slot,
    },
    /// A slot that is set twice.
    #[error("slot {0} is set a second time")]
    SlotSetTwice(Slot),
    /// An empty range of a slot.
    #[error("slot {slot} has range {low}..={high}")]
    SlotRange {
        /// The slot.
        slot: Slot,
        /// Lower bound.
        low: i64,
        /// Upper bound.
        high: i64,
    },
    /// A register that is read while unset.
    #[error("register {0} is read while it is unset")]
    UnsetRegister(Reg),
    /// A register that is written while set.
    #[error("register {0} is written while it is set; kill it first")]
    RegisterSetTwice(Reg),
    /// A table of registers that the code cannot use.
    #[error("{registers} registers, but {params} parameters and {code} instructions")]
    Registers {
        /// The number declared.
        registers: u32,
        /// Number of parameters.
        params: usize,
        /// Number of instructions.
        code: usize,
    },
    /// An operand of the wrong kind or type.
    #[error("register {reg} holds {found}, expected {expected}")]
    Operand {
        /// The register.
        reg: Reg,
        /// What it holds.
        found: String,
        /// What is expected.
        expected: String,
    },
    /// A wrong number of operands.
    #[error("{found} {what}, expected {expected}")]
    Arity {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many are expected.
        expected: usize,
    },
    /// More dimensions than supported.
    #[error("rank {0}; at most {MAX_RANK} dimensions are supported")]
    Rank(usize),
    /// No `Ret` at the end, or one before it.
    #[error("the last instruction, and only that, returns")]
    Return,
    /// A function that can call itself.
    #[error("calls are recursive")]
    Recursion,
    /// A kernel without phases.
    #[error("a kernel without phases")]
    NoPhases,
    /// Parameters out of order.
    #[error("parameter {0} is out of order: inputs come first, then outputs, then workspaces")]
    ParamOrder(usize),
    /// A grain below 1.
    #[error("grain {0}; at least 1")]
    Grain(i64),
    /// A symbol that C cannot name.
    #[error("symbol {0:?} is not a C identifier")]
    Symbol(String),
    /// A pack step or shape that does not fit.
    #[error(transparent)]
    Pack(PackError),
    /// Inline data of the wrong length.
    #[error("{found} bytes of inline data for a shape of {expected} bytes")]
    InlineLength {
        /// Bytes given.
        found: usize,
        /// Bytes of the shape.
        expected: u64,
    },
    /// A distribution that does not suit.
    #[error(transparent)]
    Generate(GenerateError),
    /// A path that leaves the module's folder.
    #[error("external path {0:?}; it must be relative and stay in the module's folder")]
    Path(String),
    /// An entry whose function takes a tuple.
    #[error("parameter `{0}` of an entry's function is a tuple; entries take tensors")]
    EntryParam(String),
    /// Two codes of one level.
    #[error("a second native code for the level {0}")]
    DuplicateIsa(crate::module::Isa),
}

/// What a register holds, as far as it is known before the run.
#[derive(Clone, PartialEq, Debug)]
enum Kind {
    Unset,
    Storage,
    Tensor(DType, usize),
    Tuple(Vec<(DType, usize)>),
}

impl Kind {
    fn of(ty: &ValueType) -> Kind {
        match ty {
            ValueType::Tensor(t) => Kind::Tensor(t.dtype, t.dims.len()),
            ValueType::Tuple(ts) => Kind::Tuple(ts.iter().map(|t| (t.dtype, t.dims.len())).collect()),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Unset => f.write_str("nothing"),
            Kind::Storage => f.write_str("a storage"),
            Kind::Tensor(dtype, rank) => write!(f, "a {dtype} tensor of rank {rank}"),
            Kind::Tuple(items) => {
                f.write_str("a tuple (")?;
                for (i, (dtype, rank)) in items.iter().enumerate() {
                    write!(f, "{}{dtype} rank {rank}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str(")")
            }
        }
    }
}

impl Module {
    /// Checks everything that does not depend on run-time values; see the documentation of `validate.rs`. Linear in the module's size.
    ///
    /// # Errors
    /// The first fault, with its place.
    pub fn validate(&self) -> Result<(), ValidateError> {
        unique(self.kernels.iter().map(|k| &k.name), |name| {
            Where::Kernel(name.into())
        })?;
        for kernel in &self.kernels {
            check_kernel(kernel).map_err(|fault| ValidateError {
                place: Where::Kernel(kernel.name.clone()),
                fault,
            })?;
        }
        unique(self.constants.iter().map(|c| &c.name), |name| {
            Where::Constant(name.into())
        })?;
        let constants = self
            .constants
            .iter()
            .map(|constant| {
                check_constant(constant).map_err(|fault| ValidateError {
                    place: Where::Constant(constant.name.clone()),
                    fault,
                })
            })
            .collect::<Result<Vec<Kind>, _>>()?;
        unique(self.functions.iter().map(|f| &f.name), |name| Where::Function {
            name: name.into(),
            instruction: None,
        })?;
        for function in &self.functions {
            FunctionCheck::new(self, &constants, function).run()?;
        }
        check_recursion(self)?;
        for entry in &self.entries {
            check_entry(self, entry.function, entry.guard.as_ref()).map_err(|fault| ValidateError {
                place: Where::Entry(entry.name.clone()),
                fault,
            })?;
        }
        let mut levels = HashSet::new();
        for (i, native) in self.native.iter().enumerate() {
            if !levels.insert(native.isa) {
                return Err(ValidateError {
                    place: Where::Native(i),
                    fault: Fault::DuplicateIsa(native.isa),
                });
            }
        }
        for (i, storage) in self.storage_plan.iter().enumerate() {
            let check = || {
                let function = lookup(&self.functions, "function", storage.function.0)?;
                expr("size", &storage.bytes, function.slots.len())
            };
            check().map_err(|fault| ValidateError {
                place: Where::Plan(i),
                fault,
            })?;
        }
        Ok(())
    }
}

fn unique<'a>(
    names: impl Iterator<Item = &'a String>,
    place: impl Fn(&str) -> Where,
) -> Result<(), ValidateError> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(ValidateError {
                place: place(name),
                fault: Fault::DuplicateName,
            });
        }
    }
    Ok(())
}

fn lookup<'a, T>(table: &'a [T], what: &'static str, index: u32) -> Result<&'a T, Fault> {
    table.get(index as usize).ok_or(Fault::Index {
        what,
        index,
        count: table.len(),
    })
}

fn expr(what: &'static str, expr: &Expr, slots: usize) -> Result<(), Fault> {
    expr.validate(slots)
        .map_err(|source| Fault::Expr { what, source })
}

fn arity(what: &'static str, found: usize, expected: usize) -> Result<(), Fault> {
    if found == expected {
        Ok(())
    } else {
        Err(Fault::Arity {
            what,
            found,
            expected,
        })
    }
}

fn check_kernel(kernel: &Kernel) -> Result<(), Fault> {
    let syms = kernel.syms as usize;
    for (i, pair) in kernel.params.windows(2).enumerate() {
        if pair[0].role > pair[1].role {
            return Err(Fault::ParamOrder(i + 1));
        }
    }
    for param in &kernel.params {
        expr("bytes", &param.bytes, syms)?;
    }
    if kernel.phases.is_empty() {
        return Err(Fault::NoPhases);
    }
    for phase in &kernel.phases {
        let mut chars = phase.symbol.chars();
        let head = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        if !head || !chars.all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(Fault::Symbol(phase.symbol.clone()));
        }
        expr("extent", &phase.extent, syms)?;
        expr("scratch", &phase.scratch, syms)?;
        if phase.grain < 1 {
            return Err(Fault::Grain(phase.grain));
        }
    }
    Ok(())
}

fn check_constant(constant: &Constant) -> Result<Kind, Fault> {
    let packed = pack::packed_shape(&constant.shape, &constant.pack).map_err(Fault::Pack)?;
    match &constant.source {
        Source::Inline(bytes) => {
            // `packed_shape` has checked that the count fits with room for any element size.
            let expected = pack::elements(&constant.shape).unwrap_or(0) * constant.dtype.bytes() as u64;
            if bytes.len() as u64 != expected {
                return Err(Fault::InlineLength {
                    found: bytes.len(),
                    expected,
                });
            }
        }
        Source::Generated(generator) => {
            generate::check(generator.distribution, constant.dtype).map_err(Fault::Generate)?;
        }
        Source::External { path, .. } => {
            use std::path::{Component, Path};
            let stays = Path::new(path)
                .components()
                .all(|c| matches!(c, Component::Normal(_)));
            if path.is_empty() || path.contains(['\0', '\\', ':']) || !stays {
                return Err(Fault::Path(path.clone()));
            }
        }
    }
    Ok(Kind::Tensor(constant.dtype, packed.len()))
}

fn check_entry(module: &Module, function: FunctionId, guard: Option<&Expr>) -> Result<(), Fault> {
    let function = lookup(&module.functions, "function", function.0)?;
    let mut bound = vec![false; function.slots.len()];
    for param in &function.params {
        let ValueType::Tensor(ty) = &param.ty else {
            return Err(Fault::EntryParam(param.name.clone()));
        };
        for dim in &ty.dims {
            if let Dim::Bind(slot) = dim {
                bound[slot.index()] = true;
            }
        }
    }
    if let Some(guard) = guard {
        expr("guard", guard, function.slots.len())?;
        if let Some(slot) = guard.slots().find(|s| !bound[s.index()]) {
            return Err(Fault::UnsetSlot { what: "guard", slot });
        }
    }
    Ok(())
}

/// Kahn's algorithm over the call graph: what remains is on a cycle or calls into one.
fn check_recursion(module: &Module) -> Result<(), ValidateError> {
    let callees: Vec<Vec<usize>> = module
        .functions
        .iter()
        .map(|f| {
            f.code
                .iter()
                .filter_map(|i| match i {
                    Instr::CallFunction { function, .. } => Some(function.index()),
                    _ => None,
                })
                .collect()
        })
        .collect();
    let mut callers = vec![0usize; callees.len()];
    callees.iter().flatten().for_each(|&c| callers[c] += 1);
    let mut ready: Vec<usize> = (0..callees.len()).filter(|&f| callers[f] == 0).collect();
    let mut done = 0;
    while let Some(f) = ready.pop() {
        done += 1;
        for &callee in &callees[f] {
            callers[callee] -= 1;
            if callers[callee] == 0 {
                ready.push(callee);
            }
        }
    }
    if done == callees.len() {
        return Ok(());
    }
    let name = callers
        .iter()
        .zip(&module.functions)
        .find(|(n, _)| **n > 0)
        .map_or(String::new(), |(_, f)| f.name.clone());
    Err(ValidateError {
        place: Where::Function {
            name,
            instruction: None,
        },
        fault: Fault::Recursion,
    })
}

/// Abstract execution of one function.
struct FunctionCheck<'m> {
    module: &'m Module,
    constants: &'m [Kind],
    function: &'m Function,
    registers: Vec<Kind>,
    slots: Vec<bool>,
}

impl<'m> FunctionCheck<'m> {
    fn new(module: &'m Module, constants: &'m [Kind], function: &'m Function) -> Self {
        FunctionCheck {
            module,
            constants,
            function,
            registers: Vec::new(),
            slots: vec![false; function.slots.len()],
        }
    }

    fn run(mut self) -> Result<(), ValidateError> {
        let place = |instruction| Where::Function {
            name: self.function.name.clone(),
            instruction,
        };
        self.prologue().map_err(|fault| ValidateError {
            place: place(None),
            fault,
        })?;
        let last = self.function.code.len().checked_sub(1);
        for (i, instr) in self.function.code.iter().enumerate() {
            let returns = matches!(instr, Instr::Ret { .. });
            let step = if returns == (Some(i) == last) {
                self.step(instr)
            } else {
                Err(Fault::Return)
            };
            step.map_err(|fault| ValidateError {
                place: place(Some(i)),
                fault,
            })?;
        }
        Ok(())
    }

    fn prologue(&mut self) -> Result<(), Fault> {
        let function = self.function;
        let (registers, params, code) = (function.registers, function.params.len(), function.code.len());
        // Every instruction sets at most one register: more registers than that are a damaged number.
        if (registers as usize) < params || registers as usize > params + code {
            return Err(Fault::Registers {
                registers,
                params,
                code,
            });
        }
        if code == 0 {
            return Err(Fault::Return);
        }
        for (i, slot) in function.slots.iter().enumerate() {
            if let Some(high) = slot.high.filter(|h| *h < slot.low) {
                return Err(Fault::SlotRange {
                    slot: Slot(i as u32),
                    low: slot.low,
                    high,
                });
            }
        }
        let types: Vec<&TensorType> = function.params.iter().flat_map(|p| p.ty.tensors()).collect();
        self.patterns("parameter", types.iter().map(|t| &t.dims[..]))?;
        let names = function.result_names.len();
        if names != 0 {
            arity("result names", names, function.result.tensors().len())?;
        }
        self.registers = function.params.iter().map(|p| Kind::of(&p.ty)).collect();
        self.registers.resize(registers as usize, Kind::Unset);
        Ok(())
    }

    /// All bindings first, then all checks.
    fn patterns<'p>(
        &mut self,
        what: &'static str,
        shapes: impl Iterator<Item = &'p [Dim]> + Clone,
    ) -> Result<(), Fault> {
        for dims in shapes.clone() {
            if dims.len() > MAX_RANK {
                return Err(Fault::Rank(dims.len()));
            }
            for dim in dims {
                if let Dim::Bind(slot) = dim {
                    self.set_slot(*slot)?;
                }
            }
        }
        for dim in shapes.flatten() {
            if let Dim::Check(e) = dim {
                self.expr(what, e)?;
            }
        }
        Ok(())
    }

    fn set_slot(&mut self, slot: Slot) -> Result<(), Fault> {
        let count = self.slots.len();
        match self.slots.get_mut(slot.index()) {
            None => Err(Fault::Index {
                what: "slot",
                index: slot.0,
                count,
            }),
            Some(true) => Err(Fault::SlotSetTwice(slot)),
            Some(set) => {
                *set = true;
                Ok(())
            }
        }
    }

    fn expr(&self, what: &'static str, e: &Expr) -> Result<(), Fault> {
        expr(what, e, self.slots.len())?;
        match e.slots().find(|s| !self.slots[s.index()]) {
            Some(slot) => Err(Fault::UnsetSlot { what, slot }),
            None => Ok(()),
        }
    }

    fn shape(&self, shape: &[Expr]) -> Result<(), Fault> {
        if shape.len() > MAX_RANK {
            return Err(Fault::Rank(shape.len()));
        }
        shape.iter().try_for_each(|e| self.expr("dimension", e))
    }

    fn get(&self, reg: Reg) -> Result<&Kind, Fault> {
        match lookup(&self.registers, "register", reg.0)? {
            Kind::Unset => Err(Fault::UnsetRegister(reg)),
            kind => Ok(kind),
        }
    }

    fn set(&mut self, reg: Reg, kind: Kind) -> Result<(), Fault> {
        match lookup(&self.registers, "register", reg.0)? {
            Kind::Unset => {
                self.registers[reg.index()] = kind;
                Ok(())
            }
            _ => Err(Fault::RegisterSetTwice(reg)),
        }
    }

    fn tensor(&self, reg: Reg) -> Result<(DType, usize), Fault> {
        match self.get(reg)? {
            Kind::Tensor(dtype, rank) => Ok((*dtype, *rank)),
            found => Err(operand(reg, found, "a tensor".into())),
        }
    }

    fn value(&self, reg: Reg, expected: &Kind) -> Result<(), Fault> {
        let found = self.get(reg)?;
        if found == expected {
            Ok(())
        } else {
            Err(operand(reg, found, expected.to_string()))
        }
    }

    fn step(&mut self, instr: &Instr) -> Result<(), Fault> {
        match instr {
            Instr::AllocStorage { dst, bytes } => {
                self.expr("bytes", bytes)?;
                self.set(*dst, Kind::Storage)
            }
            Instr::AllocTensor {
                dst,
                storage,
                offset,
                shape,
                dtype,
            } => {
                self.value(*storage, &Kind::Storage)?;
                self.expr("offset", offset)?;
                self.shape(shape)?;
                self.set(*dst, Kind::Tensor(*dtype, shape.len()))
            }
            Instr::Constant { dst, constant } => {
                let ConstId(index) = *constant;
                let kind = lookup(self.constants, "constant", index)?.clone();
                self.set(*dst, kind)
            }
            Instr::View { dst, src, shape } => {
                let (dtype, _) = self.tensor(*src)?;
                self.shape(shape)?;
                self.set(*dst, Kind::Tensor(dtype, shape.len()))
            }
            Instr::MatchShape { src, dtype, dims } => {
                self.value(*src, &Kind::Tensor(*dtype, dims.len()))?;
                self.patterns("match", std::iter::once(&dims[..]))
            }
            Instr::Eval { dst, value } => {
                self.expr("value", value)?;
                self.set_slot(*dst)
            }
            Instr::CallKernel { kernel, args, syms } => self.call_kernel(*kernel, args, syms),
            Instr::CallLibrary { args, outs, syms, .. } => {
                for reg in args.iter().chain(outs) {
                    self.tensor(*reg)?;
                }
                syms.iter().try_for_each(|e| self.expr("symbolic argument", e))
            }
            Instr::CallFunction { function, args, dst } => {
                let callee = lookup(&self.module.functions, "function", function.0)?;
                arity("arguments", args.len(), callee.params.len())?;
                for (reg, param) in args.iter().zip(&callee.params) {
                    self.value(*reg, &Kind::of(&param.ty))?;
                }
                self.set(*dst, Kind::of(&callee.result))
            }
            Instr::MakeTuple { dst, items } => {
                let items = items
                    .iter()
                    .map(|reg| self.tensor(*reg))
                    .collect::<Result<_, _>>()?;
                self.set(*dst, Kind::Tuple(items))
            }
            Instr::GetTuple { dst, src, index } => {
                let (dtype, rank) = match self.get(*src)? {
                    Kind::Tuple(items) => *lookup(items, "tuple item", *index)?,
                    found => return Err(operand(*src, found, "a tuple".into())),
                };
                self.set(*dst, Kind::Tensor(dtype, rank))
            }
            Instr::Kill { regs } => regs.iter().try_for_each(|reg| {
                self.get(*reg)?;
                self.registers[reg.index()] = Kind::Unset;
                Ok(())
            }),
            Instr::Ret { value } => {
                let result = &self.function.result;
                self.value(*value, &Kind::of(result))?;
                self.patterns("result", result.tensors().iter().map(|t| &t.dims[..]))
            }
        }
    }

    fn call_kernel(&self, kernel: KernelId, args: &[Reg], syms: &[Expr]) -> Result<(), Fault> {
        let kernel = lookup(&self.module.kernels, "kernel", kernel.0)?;
        arity("arguments", args.len(), kernel.params.len())?;
        arity("symbolic arguments", syms.len(), kernel.syms as usize)?;
        for (reg, param) in args.iter().zip(&kernel.params) {
            let (dtype, rank) = self.tensor(*reg)?;
            if dtype != param.dtype {
                let found = Kind::Tensor(dtype, rank);
                return Err(operand(*reg, &found, format!("a {} tensor", param.dtype)));
            }
        }
        syms.iter().try_for_each(|e| self.expr("symbolic argument", e))
    }
}

fn operand(reg: Reg, found: &Kind, expected: String) -> Fault {
    Fault::Operand {
        reg,
        found: found.to_string(),
        expected,
    }
}
