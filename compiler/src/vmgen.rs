//! VM code generation: annotations are erased, symbolic expressions become bytecode over the function's integer slots, bindings
//! become instructions, constants get their pack recipes.

use crate::error::CompileError;
use crate::memory::Storage;
use crate::workspace::physical;
use relayout_ir::annotation::{Annotation, DType, ShapeInfo, TensorInfo};
use relayout_ir::graph::{
    Attr, Binding, Callee, ConstantData, Distribution, Expr, GraphFunction, Module, ProgramId, ValueId,
};
use relayout_ir::index::Idx;
use relayout_ir::layout::Layout;
use relayout_ir::sym::{Atom, SymExpr, SymVar};
use relayout_runtime::expr::{Expr as Code, ExprOp};
use relayout_runtime::index::{ConstId, FunctionId, KernelId, Reg, Slot};
use relayout_runtime::module as rt;
use std::collections::BTreeMap;

/// The runtime's element type.
pub fn dtype(t: DType) -> relayout_runtime::DType {
    use relayout_runtime::DType as R;
    match t {
        DType::F32 => R::F32,
        DType::F16 => R::F16,
        DType::BF16 => R::BF16,
        DType::I64 => R::I64,
        DType::I32 => R::I32,
        DType::I8 => R::I8,
        DType::U8 => R::U8,
        DType::Bool => R::Bool,
    }
}

/// Bytecode of a symbolic expression; `slot` gives a variable's slot. `None` when a variable has none.
pub fn bytecode(e: &SymExpr, slot: &dyn Fn(&SymVar) -> Option<Slot>) -> Option<Code> {
    let mut ops = Vec::new();
    let mut first = true;
    for (monomial, c) in e.terms() {
        let mut pushed = false;
        for (atom, power) in monomial.factors() {
            for _ in 0..*power {
                ops.extend_from_slice(atom_code(atom, slot)?.ops());
                if pushed {
                    ops.push(ExprOp::Mul);
                }
                pushed = true;
            }
        }
        if !pushed {
            ops.push(ExprOp::Const(c));
        } else if c != 1 {
            ops.extend([ExprOp::Const(c), ExprOp::Mul]);
        }
        if !first {
            ops.push(ExprOp::Add);
        }
        first = false;
    }
    if first {
        ops.push(ExprOp::Const(0));
    }
    Some(Code::from_ops(ops))
}

fn atom_code(atom: &Atom, slot: &dyn Fn(&SymVar) -> Option<Slot>) -> Option<Code> {
    let two = |op, a: &SymExpr, b: &SymExpr| Some(Code::binary(op, bytecode(a, slot)?, bytecode(b, slot)?));
    match atom {
        Atom::Var(v) => slot(v).map(Code::slot),
        Atom::FloorDiv(e, d) => two(ExprOp::FloorDiv, e, &SymExpr::constant(*d)),
        Atom::Mod(e, d) => two(ExprOp::Mod, e, &SymExpr::constant(*d)),
        Atom::Min(a, b) => two(ExprOp::Min, a, b),
        Atom::Max(a, b) => two(ExprOp::Max, a, b),
    }
}

/// Functions, constants and entries of a runtime module. `kernels` gives the kernel of each program that is called.
///
/// # Errors
/// When a construct has no form in the virtual machine.
pub fn generate(
    module: &Module,
    kernels: &BTreeMap<ProgramId, KernelId>,
    plan: &[Storage],
) -> Result<rt::Module, CompileError> {
    let Some(entry) = module.entry() else {
        let names: Vec<&str> = module.functions.iter().map(|(_, f)| f.name.as_str()).collect();
        return Err(CompileError::NoEntry {
            found: names.join(", "),
        });
    };
    let mut constants = Constants {
        module,
        ids: BTreeMap::new(),
        out: Vec::new(),
    };
    let mut functions = Vec::new();
    for (_, f) in module.functions.iter() {
        functions.push(FunctionGen::new(f)?.generate(kernels, &mut constants)?);
    }
    let storage_plan = plan
        .iter()
        .filter_map(|s| {
            let (id, f) = module.functions.iter().find(|(_, f)| f.name == s.function)?;
            Some(rt::PlannedStorage {
                function: FunctionId(id.index() as u32),
                bytes: bytecode(&s.bytes, &|v| slot_of(f, v))?,
                tensors: s.tensors.clone(),
            })
        })
        .collect();
    Ok(rt::Module {
        entries: vec![rt::Entry {
            name: "main".to_owned(),
            guard: None,
            function: FunctionId(entry.index() as u32),
        }],
        functions,
        constants: constants.out,
        storage_plan,
        ..rt::Module::default()
    })
}

fn slot_of(f: &GraphFunction, v: &SymVar) -> Option<Slot> {
    f.syms.iter().position(|d| d.var == *v).map(|i| Slot(i as u32))
}

/// The constants used, once per (constant, layout).
struct Constants<'m> {
    module: &'m Module,
    ids: BTreeMap<(u32, Layout), ConstId>,
    out: Vec<rt::Constant>,
}

impl Constants<'_> {
    fn id(&mut self, id: relayout_ir::graph::ConstId, layout: Layout) -> ConstId {
        let key = (id.index() as u32, layout.clone());
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        let c = &self.module.constants[id];
        let source = match &c.data {
            ConstantData::Inline(bytes) => rt::Source::Inline(bytes.clone()),
            ConstantData::Generated(g) => rt::Source::Generated(rt::Generator {
                seed: g.seed,
                key: g.key.clone(),
                distribution: match g.distribution {
                    Distribution::Uniform { low, high } => rt::Distribution::Uniform { low, high },
                    Distribution::Integers { low, high } => rt::Distribution::Integers { low, high },
                },
            }),
        };
        let pack = if layout.is_row_major() {
            Vec::new()
        } else {
            let split = |s: &relayout_ir::layout::Split| rt::Split {
                axis: s.axis,
                factor: s.factor,
            };
            vec![rt::PackStep::Layout(layout.splits().iter().map(split).collect())]
        };
        // The same constant in two layouts has two names.
        let name = if pack.is_empty() {
            c.name.clone()
        } else {
            format!("{}{layout}", c.name)
        };
        self.out.push(rt::Constant {
            name,
            shape: c.shape.iter().map(|d| *d as u64).collect(),
            dtype: dtype(c.dtype),
            source,
            pack,
        });
        let out = ConstId(self.out.len() as u32 - 1);
        self.ids.insert(key, out);
        out
    }
}

struct FunctionGen<'m> {
    function: &'m GraphFunction,
    /// Registers: parameters first, then every other value in order; values without a register are absent.
    registers: BTreeMap<ValueId, Reg>,
    next: u32,
    bound: Vec<bool>,
}

impl<'m> FunctionGen<'m> {
    fn new(function: &'m GraphFunction) -> Result<Self, CompileError> {
        let mut registers = BTreeMap::new();
        for (i, p) in function.params.iter().enumerate() {
            registers.insert(*p, Reg(i as u32));
        }
        Ok(FunctionGen {
            function,
            next: registers.len() as u32,
            registers,
            bound: vec![false; function.syms.len()],
        })
    }
    fn value(&self, v: ValueId, expected: &'static str) -> CompileError {
        let value = &self.function.values[v];
        CompileError::Value {
            function: self.function.name.clone(),
            value: value.name.clone(),
            expected,
            found: format!("{:?}", value.annotation),
        }
    }
    fn unsupported(&self, v: ValueId, construct: &'static str) -> CompileError {
        CompileError::Unsupported {
            function: self.function.name.clone(),
            binding: self.function.values[v].name.clone(),
            construct,
        }
    }
    fn code(&self, at: ValueId, e: &SymExpr) -> Result<Code, CompileError> {
        bytecode(e, &|v| slot_of(self.function, v)).ok_or_else(|| CompileError::Value {
            function: self.function.name.clone(),
            value: self.function.values[at].name.clone(),
            expected: "an expression over the function's symbolic variables",
            found: e.to_string(),
        })
    }
    fn codes(&self, at: ValueId, es: &[SymExpr]) -> Result<Vec<Code>, CompileError> {
        es.iter().map(|e| self.code(at, e)).collect()
    }
    fn reg(&self, v: ValueId) -> Result<Reg, CompileError> {
        self.registers
            .get(&v)
            .copied()
            .ok_or_else(|| self.value(v, "a value with a register (a tensor, tuple or storage)"))
    }
    fn regs(&self, vs: &[ValueId]) -> Result<Vec<Reg>, CompileError> {
        vs.iter().map(|v| self.reg(*v)).collect()
    }
    fn fresh(&mut self, v: ValueId) -> Reg {
        let r = Reg(self.next);
        self.next += 1;
        self.registers.insert(v, r);
        r
    }
    /// The type that is checked at a boundary; pure variables that nothing has bound yet are bound by it.
    fn tensor_type(&mut self, at: ValueId, t: &TensorInfo) -> Result<rt::TensorType, CompileError> {
        let Some(element) = t.dtype else {
            return Err(self.value(at, "a tensor of known type"));
        };
        let dims = match &t.shape {
            ShapeInfo::Known(dims) => {
                let layout = t.layout_or_abi().unwrap_or_else(|| Layout::row_major(dims.len()));
                let mut out = Vec::new();
                for d in layout.physical_shape(dims) {
                    let slot = d.as_var().and_then(|v| slot_of(self.function, v));
                    out.push(match slot {
                        Some(s) if !self.bound[s.index()] => {
                            self.bound[s.index()] = true;
                            rt::Dim::Bind(s)
                        }
                        _ => rt::Dim::Check(self.code(at, &d)?),
                    });
                }
                out
            }
            ShapeInfo::Rank(rank) => vec![rt::Dim::Any; *rank],
            ShapeInfo::Unknown => return Err(self.value(at, "a tensor of known rank")),
        };
        Ok(rt::TensorType {
            dtype: dtype(element),
            dims,
        })
    }
    fn value_type(&mut self, at: ValueId, a: &Annotation) -> Result<rt::ValueType, CompileError> {
        match a {
            Annotation::Tensor(t) => Ok(rt::ValueType::Tensor(self.tensor_type(at, t)?)),
            Annotation::Tuple(items) => {
                let mut out = Vec::new();
                for i in items {
                    let Annotation::Tensor(t) = i else {
                        return Err(
                            self.unsupported(at, "a tuple of anything but tensors at a function boundary")
                        );
                    };
                    out.push(self.tensor_type(at, t)?);
                }
                Ok(rt::ValueType::Tuple(out))
            }
            _ => Err(self.unsupported(at, "a parameter or result that is neither tensor nor tuple")),
        }
    }
    fn generate(
        mut self,
        kernels: &BTreeMap<ProgramId, KernelId>,
        constants: &mut Constants<'_>,
    ) -> Result<rt::Function, CompileError> {
        let function = self.function;
        // Pure variables anywhere in the parameters are bound before compound dimensions are checked (the VM does binds first).
        let mut params = Vec::new();
        for p in &function.params {
            let ty = self.value_type(*p, &function.values[*p].annotation)?;
            params.push(rt::Param {
                name: function.values[*p].name.clone(),
                ty,
            });
        }
        let mut code = Vec::new();
        let mut items_of: BTreeMap<ValueId, Vec<ValueId>> = BTreeMap::new();
        for binding in function.bindings() {
            if let Expr::Tuple(items) = &binding.expr {
                items_of.insert(binding.value, items.clone());
            }
            self.instruction(binding, kernels, constants, &mut code)?;
        }
        let result_names = match items_of.get(&function.result) {
            Some(items) => unique(items.iter().map(|v| function.values[*v].name.clone()).collect()),
            None => match &function.values[function.result].annotation {
                Annotation::Tensor(_) => vec![function.values[function.result].name.clone()],
                _ => Vec::new(),
            },
        };
        let result = self.value_type(function.result, &function.values[function.result].annotation)?;
        let value = self.reg(function.result)?;
        code.push(rt::Instr::Ret { value });
        Ok(rt::Function {
            name: function.name.clone(),
            params,
            result,
            result_names,
            slots: function
                .syms
                .iter()
                .map(|d| rt::SlotDecl {
                    name: d.var.name().to_owned(),
                    low: d.low,
                    high: d.high,
                })
                .collect(),
            registers: self.next,
            code,
        })
    }
    fn instruction(
        &mut self,
        binding: &Binding,
        kernels: &BTreeMap<ProgramId, KernelId>,
        constants: &mut Constants<'_>,
        code: &mut Vec<rt::Instr>,
    ) -> Result<(), CompileError> {
        let v = binding.value;
        match &binding.expr {
            Expr::AllocStorage { bytes } => {
                let bytes = self.code(v, bytes)?;
                code.push(rt::Instr::AllocStorage {
                    dst: self.fresh(v),
                    bytes,
                });
            }
            Expr::AllocTensor { storage, offset } => {
                let (shape, element) = physical(self.function, v)?;
                let (storage, offset, shape) =
                    (self.reg(*storage)?, self.code(v, offset)?, self.codes(v, &shape)?);
                code.push(rt::Instr::AllocTensor {
                    dst: self.fresh(v),
                    storage,
                    offset,
                    shape,
                    dtype: dtype(element),
                });
            }
            Expr::Constant(c) => {
                let layout = self.function.values[v]
                    .annotation
                    .as_tensor()
                    .and_then(|t| t.layout_or_abi())
                    .ok_or_else(|| self.value(v, "a tensor of known rank"))?;
                let constant = constants.id(*c, layout);
                code.push(rt::Instr::Constant {
                    dst: self.fresh(v),
                    constant,
                });
            }
            Expr::View(src) => {
                let (shape, _) = physical(self.function, v)?;
                let (src, shape) = (self.reg(*src)?, self.codes(v, &shape)?);
                code.push(rt::Instr::View {
                    dst: self.fresh(v),
                    src,
                    shape,
                });
            }
            Expr::MatchCast(src, annotation) => {
                let Annotation::Tensor(t) = annotation else {
                    return Err(self.unsupported(v, "match_cast of anything but a tensor"));
                };
                let ty = self.tensor_type(v, t)?;
                let reg = self.reg(*src)?;
                code.push(rt::Instr::MatchShape {
                    src: reg,
                    dtype: ty.dtype,
                    dims: ty.dims,
                });
                self.registers.insert(v, reg);
            }
            Expr::Invoke {
                callee,
                args,
                outs,
                sym_args,
            } => {
                let (args, outs, syms) = (self.regs(args)?, self.regs(outs)?, self.codes(v, sym_args)?);
                code.push(match callee {
                    Callee::Program(p) => rt::Instr::CallKernel {
                        kernel: *kernels
                            .get(p)
                            .ok_or_else(|| self.unsupported(v, "a call of a program without a kernel"))?,
                        args: args.into_iter().chain(outs).collect(),
                        syms,
                    },
                    Callee::Library(routine, attrs) => rt::Instr::CallLibrary {
                        routine: routine.clone(),
                        attrs: self.library_attrs(v, attrs)?,
                        args,
                        outs,
                        syms,
                    },
                });
            }
            Expr::CallGraph { func, args } => {
                let args = self.regs(args)?;
                let function = FunctionId(func.index() as u32);
                code.push(rt::Instr::CallFunction {
                    function,
                    args,
                    dst: self.fresh(v),
                });
            }
            Expr::Tuple(items) => {
                let items = self.regs(items)?;
                code.push(rt::Instr::MakeTuple {
                    dst: self.fresh(v),
                    items,
                });
            }
            Expr::TupleGet(src, index) => {
                let src = self.reg(*src)?;
                code.push(rt::Instr::GetTuple {
                    dst: self.fresh(v),
                    src,
                    index: *index as u32,
                });
            }
            Expr::Kill(dead) => {
                let reg = self.reg(*dead)?;
                code.push(rt::Instr::Kill { regs: vec![reg] });
            }
            // Shape values are read through the expressions that use them.
            Expr::Shape(_) => {}
            Expr::Op { .. } | Expr::CallTir { .. } | Expr::CallDpsLibrary { .. } => {
                return Err(
                    self.unsupported(v, "a call that has not been lowered to destination-passing form")
                );
            }
        }
        Ok(())
    }
    fn library_attrs(
        &self,
        v: ValueId,
        attrs: &relayout_ir::graph::Attrs,
    ) -> Result<BTreeMap<String, rt::Attr>, CompileError> {
        attrs
            .iter()
            .map(|(k, a)| {
                let a = match a {
                    Attr::Int(i) => rt::Attr::Int(*i),
                    Attr::Float(x) => rt::Attr::Float(*x),
                    Attr::Bool(b) => rt::Attr::Bool(*b),
                    Attr::Str(s) => rt::Attr::Str(s.clone()),
                    _ => {
                        return Err(
                            self.unsupported(v, "a library attribute that is a list, type, shape or layout")
                        );
                    }
                };
                Ok((k.clone(), a))
            })
            .collect()
    }
}

/// Names made unique by a suffix: one value may be returned twice.
fn unique(names: Vec<String>) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for name in names {
        let mut candidate = name.clone();
        let mut i = 1;
        while out.contains(&candidate) {
            candidate = format!("{name}_{i}");
            i += 1;
        }
        out.push(candidate);
    }
    out
}
