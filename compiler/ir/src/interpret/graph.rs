//! Runs graph functions at every stage of lowering: operators on logical values, tensor programs and library routines on
//! physical ones, and after memory planning, tensors inside storages.
//!
//! - Symbolic variables are bound by the parameters' annotations and by `match_cast`; every value is checked against its
//!   annotation when it is bound.
//! - Operators never see layouts. `call_tir`, `call_dps_library` and `invoke` get their operands packed as the operands'
//!   annotations say, and their result is unpacked as the binding's annotation says. A `view` keeps the bytes.
//! - A storage is real bytes, poisoned when allocated, and tensors inside it are windows: a memory plan that reuses bytes too
//!   early shows in the results. Workspaces of an `invoke` are poisoned before its operands are read.
//! - A value is dropped after its last use, so that peak memory is that of the live values.

use super::binding::Binding;
use super::constants::ConstantStore;
use super::error::InterpretError;
use super::memory::{decode, encode};
use super::pack::{Physical, pack, physical_extents, unpack};
use super::program::run_borrowed;
use crate::annotation::DType;
use crate::graph::{Attrs, Callee, Expr, FuncId, GraphFunction, Module, ProgramId, ValueId};
use crate::index::Idx;
use crate::layout::Layout;
use crate::sym::SymExpr;
use crate::tensor::{RefValue, Tensor};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Which semantics operators are run with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reference {
    /// [`crate::op::Operator::evaluate`].
    Plain,
    /// [`crate::op::Operator::evaluate_fast`].
    Fast,
}

/// A library call on physical operands.
pub struct LibraryCall<'a> {
    /// The routine.
    pub routine: &'a str,
    /// Operands as memory holds them.
    pub args: Vec<Physical>,
    /// Element type of the result.
    pub dtype: DType,
    /// Logical shape of the result.
    pub logical: Vec<usize>,
    /// Layout of the result.
    pub layout: Layout,
    /// Static parameters.
    pub attrs: &'a Attrs,
    /// Symbolic arguments.
    pub sym_args: Vec<i64>,
}

/// Reference semantics of library routines.
pub trait LibraryTable {
    /// The physical result of a routine, of the physical shape of `call.logical` in `call.layout`.
    ///
    /// # Errors
    /// When there is no such routine or it refuses its operands.
    fn call(&self, call: &LibraryCall<'_>) -> Result<Tensor, String>;
}

/// A table without routines.
pub struct NoLibrary;

impl LibraryTable for NoLibrary {
    fn call(&self, _: &LibraryCall<'_>) -> Result<Tensor, String> {
        Err("no library is available".to_owned())
    }
}

/// What a graph function is run with.
#[derive(Clone, Copy)]
pub struct GraphOptions<'a> {
    /// Semantics of operators.
    pub reference: Reference,
    /// Library routines.
    pub library: &'a dyn LibraryTable,
    /// Where constants come from.
    pub constants: &'a ConstantStore,
}

/// Calls deeper than this are refused; graph functions have no conditionals, so recursion never ends.
const MAX_CALLS: usize = 64;

/// Runs a graph function of a module on logical values and returns its logical result.
///
/// # Errors
/// When arguments or values don't fit their annotations, an operator, program or routine refuses its operands, or the function
/// is malformed.
pub fn run_function(
    module: &Module,
    func: FuncId,
    args: &[RefValue],
    options: GraphOptions<'_>,
) -> Result<RefValue, InterpretError> {
    call(module, func, args, options, 0)
}

fn call(
    module: &Module,
    func: FuncId,
    args: &[RefValue],
    options: GraphOptions<'_>,
    depth: usize,
) -> Result<RefValue, InterpretError> {
    let malformed = |problem: &str| InterpretError::Malformed {
        place: format!("{func:?}"),
        problem: problem.to_owned(),
    };
    let function = module
        .functions
        .get(func)
        .ok_or_else(|| malformed("no such function"))?;
    if depth > MAX_CALLS {
        return Err(malformed("calls nest too deeply"));
    }
    if args.len() != function.params.len() {
        return Err(InterpretError::Count {
            callee: function.name.clone(),
            what: "arguments",
            expected: function.params.len(),
            found: args.len(),
        });
    }
    let mut machine = Machine {
        module,
        function,
        options,
        depth,
        syms: Binding::default(),
        held: (0..function.values.len()).map(|_| Held::Nothing).collect(),
    };
    for (param, arg) in function.params.iter().zip(args) {
        let annotation = &machine.value(*param)?.annotation;
        machine.syms.bind(annotation, arg);
    }
    for (param, arg) in function.params.iter().zip(args) {
        machine
            .syms
            .check(&machine.value(*param)?.annotation, arg, &|| machine.place(*param))?;
        machine.held[param.index()] = Held::Value(arg.clone());
    }
    machine.check_ranges()?;
    let last_uses = last_uses(function);
    for (position, binding) in function.bindings().enumerate() {
        let held = machine.run(binding.value, &binding.expr)?;
        machine.value(binding.value)?;
        if let Held::Value(value) = &held {
            let annotation = &function.values[binding.value].annotation;
            machine
                .syms
                .check(annotation, value, &|| machine.place(binding.value))?;
        }
        machine.held[binding.value.index()] = held;
        for dead in &last_uses[position] {
            machine.held[dead.index()] = Held::Nothing;
        }
    }
    machine.logical(function.result)
}

/// For each binding, the values that nothing uses afterwards.
fn last_uses(function: &GraphFunction) -> Vec<Vec<ValueId>> {
    let count = function.bindings().count();
    let mut last = vec![None; function.values.len()];
    for (position, binding) in function.bindings().enumerate() {
        for used in binding.expr.operands().into_iter().chain([binding.value]) {
            if let Some(entry) = last.get_mut(used.index()) {
                *entry = Some(position);
            }
        }
    }
    let mut dead = vec![Vec::new(); count];
    for (value, position) in function.values.ids().zip(last) {
        if let (Some(position), true) = (position, value != function.result) {
            dead[position].push(value);
        }
    }
    dead
}

/// Bytes of an allocated storage.
struct Storage {
    bytes: RefCell<Vec<u8>>,
    alive: Cell<bool>,
}

/// Type, logical shape and layout of a tensor in memory.
#[derive(Clone)]
struct Form {
    dtype: DType,
    logical: Vec<usize>,
    layout: Layout,
}

impl Form {
    fn physical(&self) -> Vec<usize> {
        physical_extents(&self.logical, &self.layout)
    }
    fn bytes(&self) -> usize {
        self.physical()
            .iter()
            .fold(self.dtype.bytes(), |a, d| a.saturating_mul(*d))
    }
}

/// What a value is at run time.
enum Held {
    /// Not yet defined, dropped after its last use, or killed.
    Nothing,
    Value(RefValue),
    Storage(Rc<Storage>),
    Window {
        storage: Rc<Storage>,
        offset: usize,
        form: Form,
    },
}

struct Machine<'a> {
    module: &'a Module,
    function: &'a GraphFunction,
    options: GraphOptions<'a>,
    depth: usize,
    syms: Binding,
    held: Vec<Held>,
}

impl<'a> Machine<'a> {
    fn place(&self, value: ValueId) -> String {
        let name = self.function.values.get(value).map_or("?", |v| v.name.as_str());
        format!("function `{}`, value `%{name}`", self.function.name)
    }
    fn malformed(&self, value: ValueId, problem: impl Into<String>) -> InterpretError {
        InterpretError::Malformed {
            place: self.place(value),
            problem: problem.into(),
        }
    }
    fn value(&self, value: ValueId) -> Result<&'a crate::graph::Value, InterpretError> {
        let function = self.function;
        function
            .values
            .get(value)
            .ok_or_else(|| self.malformed(value, "no such value"))
    }
    fn check_ranges(&self) -> Result<(), InterpretError> {
        for d in &self.function.syms {
            let Some(value) = self.syms.get(&d.var) else {
                continue;
            };
            if value < d.low || d.high.is_some_and(|h| value > h) {
                let high = d.high.map_or("any".to_owned(), |h| h.to_string());
                return Err(InterpretError::Mismatch {
                    place: format!("function `{}`, variable `{}`", self.function.name, d.var),
                    expected: format!("a value from {} to {high}", d.low),
                    found: value.to_string(),
                });
            }
        }
        Ok(())
    }

    /// The form of a value, from its annotation.
    fn form(&self, value: ValueId) -> Result<Form, InterpretError> {
        let annotation = &self.value(value)?.annotation;
        let info = annotation
            .as_tensor()
            .ok_or_else(|| self.malformed(value, "annotated as no tensor"))?;
        let (Some(dims), Some(dtype), Some(layout)) = (info.dims(), info.dtype, info.layout_or_abi()) else {
            return Err(self.malformed(value, "a tensor in memory needs a known shape and type"));
        };
        let logical = self.syms.extents(dims, &|| self.place(value))?;
        if Layout::new(logical.len(), layout.splits().to_vec()).is_err() {
            return Err(self.malformed(
                value,
                format!("layout {layout} does not fit rank {}", logical.len()),
            ));
        }
        Ok(Form {
            dtype,
            logical,
            layout,
        })
    }

    fn window(
        &self,
        value: ValueId,
        storage: &Storage,
        offset: usize,
        form: &Form,
    ) -> Result<Tensor, InterpretError> {
        if !storage.alive.get() {
            return Err(self.malformed(value, "its storage has been killed"));
        }
        let bytes = storage.bytes.borrow();
        let range = bytes
            .get(offset..offset.saturating_add(form.bytes()))
            .ok_or_else(|| self.malformed(value, "reaches beyond its storage"))?;
        Ok(Tensor {
            shape: form.physical(),
            dtype: form.dtype,
            data: decode(form.dtype, range),
        })
    }

    fn held(&self, value: ValueId) -> Result<&Held, InterpretError> {
        match self.held.get(value.index()) {
            None | Some(Held::Nothing) => {
                Err(self.malformed(value, "used before it is defined or after it is killed"))
            }
            Some(held) => Ok(held),
        }
    }

    /// The logical value.
    fn logical(&self, value: ValueId) -> Result<RefValue, InterpretError> {
        match self.held(value)? {
            Held::Value(v) => Ok(v.clone()),
            Held::Window {
                storage,
                offset,
                form,
            } => {
                let physical = self.window(value, storage, *offset, form)?;
                Ok(RefValue::Tensor(Arc::new(unpack(
                    &physical,
                    &form.logical,
                    &form.layout,
                )?)))
            }
            Held::Storage(_) | Held::Nothing => Err(self.malformed(value, "a storage is no value")),
        }
    }

    /// The tensor as memory holds it.
    fn physical(&self, value: ValueId) -> Result<(Arc<Tensor>, Vec<usize>, Layout), InterpretError> {
        match self.held(value)? {
            Held::Value(RefValue::Tensor(t)) => {
                let info = self.value(value)?.annotation.as_tensor();
                let layout = info
                    .and_then(|i| i.layout.clone())
                    .unwrap_or_else(|| Layout::row_major(t.shape.len()));
                let packed = if layout.is_row_major() {
                    t.clone()
                } else {
                    Arc::new(pack(t, &layout)?)
                };
                Ok((packed, t.shape.clone(), layout))
            }
            Held::Window {
                storage,
                offset,
                form,
            } => {
                let tensor = self.window(value, storage, *offset, form)?;
                Ok((Arc::new(tensor), form.logical.clone(), form.layout.clone()))
            }
            _ => Err(self.malformed(value, "is no tensor")),
        }
    }

    fn sym_values(&self, value: ValueId, exprs: &[SymExpr]) -> Result<Vec<i64>, InterpretError> {
        exprs
            .iter()
            .map(|e| self.syms.eval(e, &|| self.place(value)))
            .collect()
    }

    fn program(
        &self,
        value: ValueId,
        program: ProgramId,
        args: &[ValueId],
        sym_args: &[SymExpr],
    ) -> Result<Tensor, InterpretError> {
        let program = self
            .module
            .programs
            .get(program)
            .ok_or_else(|| self.malformed(value, "no such program"))?;
        let inputs = args
            .iter()
            .map(|a| Ok(self.physical(*a)?.0))
            .collect::<Result<Vec<_>, InterpretError>>()?;
        let borrowed: Vec<&Tensor> = inputs.iter().map(Arc::as_ref).collect();
        run_borrowed(program, &borrowed, &self.sym_values(value, sym_args)?)
    }

    fn library(
        &self,
        value: ValueId,
        routine: &str,
        args: &[ValueId],
        attrs: &Attrs,
        sym_args: &[SymExpr],
        form: &Form,
    ) -> Result<Tensor, InterpretError> {
        let mut operands = Vec::new();
        for a in args {
            let (tensor, logical, layout) = self.physical(*a)?;
            operands.push(Physical {
                tensor: Arc::unwrap_or_clone(tensor),
                logical,
                layout,
            });
        }
        let call = LibraryCall {
            routine,
            args: operands,
            dtype: form.dtype,
            logical: form.logical.clone(),
            layout: form.layout.clone(),
            attrs,
            sym_args: self.sym_values(value, sym_args)?,
        };
        let failed = |problem| InterpretError::Library {
            place: self.place(value),
            routine: routine.to_owned(),
            problem,
        };
        self.options.library.call(&call).map_err(failed)
    }

    /// A physical result as a logical value.
    fn result(&self, value: ValueId, physical: Tensor, form: &Form) -> Result<Held, InterpretError> {
        if physical.dtype != form.dtype || physical.shape != form.physical() {
            return Err(InterpretError::Mismatch {
                place: self.place(value),
                expected: format!("a physical {}{:?}", form.dtype, form.physical()),
                found: format!("{}{:?}", physical.dtype, physical.shape),
            });
        }
        let logical = if form.layout.is_row_major() {
            physical
        } else {
            unpack(&physical, &form.logical, &form.layout)?
        };
        Ok(Held::Value(RefValue::Tensor(Arc::new(logical))))
    }

    fn run(&mut self, value: ValueId, expr: &Expr) -> Result<Held, InterpretError> {
        match expr {
            Expr::Op { op, args, attrs, .. } => {
                let args = args
                    .iter()
                    .map(|a| self.logical(*a))
                    .collect::<Result<Vec<_>, _>>()?;
                let eval = |e: &SymExpr| e.eval(&|v| self.syms.get(v));
                let result = match self.options.reference {
                    Reference::Plain => op.get().evaluate(&args, attrs, &eval),
                    Reference::Fast => op.get().evaluate_fast(&args, attrs, &eval),
                };
                result.map(Held::Value).map_err(|source| InterpretError::Op {
                    place: self.place(value),
                    source,
                })
            }
            Expr::CallGraph { func, args } => {
                let args = args
                    .iter()
                    .map(|a| self.logical(*a))
                    .collect::<Result<Vec<_>, _>>()?;
                call(self.module, *func, &args, self.options, self.depth + 1).map(Held::Value)
            }
            Expr::CallTir {
                program,
                args,
                sym_args,
            } => {
                let physical = self.program(value, *program, args, sym_args)?;
                self.result(value, physical, &self.form(value)?)
            }
            Expr::CallDpsLibrary {
                routine,
                args,
                attrs,
                sym_args,
            } => {
                let form = self.form(value)?;
                let physical = self.library(value, routine, args, attrs, sym_args, &form)?;
                self.result(value, physical, &form)
            }
            Expr::Constant(id) => {
                let constant = self
                    .module
                    .constants
                    .get(*id)
                    .ok_or_else(|| self.malformed(value, "no such constant"))?;
                Ok(Held::Value(RefValue::Tensor(
                    self.options.constants.get(constant)?,
                )))
            }
            Expr::Shape(dims) => Ok(Held::Value(RefValue::Shape(self.sym_values(value, dims)?))),
            Expr::Tuple(items) => {
                let items = items
                    .iter()
                    .map(|i| self.logical(*i))
                    .collect::<Result<Vec<_>, _>>()?;
                Ok(Held::Value(RefValue::Tuple(items)))
            }
            Expr::TupleGet(tuple, index) => match self.held(*tuple)? {
                Held::Value(RefValue::Tuple(items)) => match items.get(*index) {
                    Some(item) => Ok(Held::Value(item.clone())),
                    None => {
                        Err(self.malformed(value, format!("element {index} of a tuple of {}", items.len())))
                    }
                },
                _ => Err(self.malformed(value, "an element of something that is no tuple")),
            },
            Expr::MatchCast(of, annotation) => {
                let actual = self.logical(*of)?;
                self.syms.bind(annotation, &actual);
                self.syms.check(annotation, &actual, &|| self.place(value))?;
                self.check_ranges()?;
                Ok(Held::Value(actual))
            }
            Expr::View(of) => self.view(value, *of),
            Expr::AllocStorage { bytes } => {
                let bytes = self
                    .syms
                    .extents(std::slice::from_ref(bytes), &|| self.place(value))?[0];
                let mut memory = Vec::new();
                memory
                    .try_reserve_exact(bytes)
                    .map_err(|_| InterpretError::Memory {
                        place: self.place(value),
                        elements: bytes as u128,
                    })?;
                // All ones is NaN in every floating-point type.
                memory.resize(bytes, 0xff);
                Ok(Held::Storage(Rc::new(Storage {
                    bytes: RefCell::new(memory),
                    alive: Cell::new(true),
                })))
            }
            Expr::AllocTensor { storage, offset } => {
                let offset = self
                    .syms
                    .extents(std::slice::from_ref(offset), &|| self.place(value))?[0];
                let form = self.form(value)?;
                let Held::Storage(storage) = self.held(*storage)? else {
                    return Err(self.malformed(value, "allocated in something that is no storage"));
                };
                self.window(value, storage, offset, &form)?;
                Ok(Held::Window {
                    storage: storage.clone(),
                    offset,
                    form,
                })
            }
            Expr::Invoke {
                callee,
                args,
                outs,
                sym_args,
            } => {
                let Some((out, workspaces)) = outs.split_first() else {
                    return Err(self.malformed(value, "no destination"));
                };
                for w in workspaces {
                    let Held::Window {
                        storage,
                        offset,
                        form,
                    } = self.held(*w)?
                    else {
                        return Err(self.malformed(*w, "a workspace must be allocated in a storage"));
                    };
                    self.window(*w, storage, *offset, form)?;
                    storage.bytes.borrow_mut()[*offset..offset + form.bytes()].fill(0xff);
                }
                let form = self.form(*out)?;
                let physical = match callee {
                    Callee::Program(program) => self.program(value, *program, args, sym_args)?,
                    Callee::Library(routine, attrs) => {
                        self.library(value, routine, args, attrs, sym_args, &form)?
                    }
                };
                self.write(*out, &physical)?;
                Ok(Held::Value(RefValue::Tuple(Vec::new())))
            }
            Expr::Kill(killed) => {
                if let Held::Storage(storage) = self.held(*killed)? {
                    storage.alive.set(false);
                }
                self.held[killed.index()] = Held::Nothing;
                Ok(Held::Value(RefValue::Tuple(Vec::new())))
            }
        }
    }

    fn write(&self, out: ValueId, physical: &Tensor) -> Result<(), InterpretError> {
        let Held::Window {
            storage,
            offset,
            form,
        } = self.held(out)?
        else {
            return Err(self.malformed(out, "a destination must be allocated in a storage"));
        };
        let before = self.window(out, storage, *offset, form)?;
        if before.shape != physical.shape || before.dtype != physical.dtype {
            return Err(InterpretError::Mismatch {
                place: self.place(out),
                expected: format!("a physical {}{:?}", before.dtype, before.shape),
                found: format!("{}{:?}", physical.dtype, physical.shape),
            });
        }
        let mut bytes = Vec::with_capacity(form.bytes());
        encode(physical.dtype, &physical.data, &mut bytes);
        storage.bytes.borrow_mut()[*offset..offset + bytes.len()].copy_from_slice(&bytes);
        Ok(())
    }

    fn view(&self, value: ValueId, of: ValueId) -> Result<Held, InterpretError> {
        let form = self.form(value)?;
        if let Held::Window {
            storage,
            offset,
            form: old,
        } = self.held(of)?
        {
            if old.bytes() != form.bytes() {
                return Err(self.malformed(
                    value,
                    format!("a view of {} bytes as {}", old.bytes(), form.bytes()),
                ));
            }
            return Ok(Held::Window {
                storage: storage.clone(),
                offset: *offset,
                form,
            });
        }
        let (physical, ..) = self.physical(of)?;
        if physical.dtype != form.dtype || physical.len() * physical.dtype.bytes() != form.bytes() {
            let found = format!("{}{:?}", physical.dtype, physical.shape);
            return Err(self.malformed(
                value,
                format!("a view of {found} as {}{:?}", form.dtype, form.physical()),
            ));
        }
        let mut tensor = Arc::unwrap_or_clone(physical);
        tensor.shape = form.physical();
        self.result(value, tensor, &form)
    }
}
