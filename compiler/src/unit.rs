//! Kernels to be timed in isolation: exactly what a configuration names, on physical buffers, many in one translation unit.

use crate::codegen::toolchain::Toolchain;
use crate::error::CompileError;
use crate::extract::{CallSpec, ShapeBinding};
use crate::implementation::{Implementation, gemm_attrs};
use crate::kernels::{compile_kernels, print_kernels};
use crate::target::Target;
use crate::vmgen;
use relayout_ir::annotation::Annotation;
use relayout_ir::graph::{Attr, Binding, Block, BlockKind, Expr, GraphFunction, Module, Value};
use relayout_ir::index::{Arena, Idx};
use relayout_ir::program::TensorProgram;
use relayout_runtime::index::KernelId;
use relayout_runtime::module as rt;
use std::collections::BTreeMap;

/// A hash of the sources that schedule and print a kernel: a change to them makes other kernels of the same text.
const KERNEL_SOURCES: &str = env!("RELAYOUT_KERNEL_SOURCES");

/// What runs for one unit.
#[derive(Clone, PartialEq, Debug)]
pub enum UnitCall {
    /// A kernel of the batch's module, with its symbolic arguments.
    Kernel {
        /// The kernel.
        kernel: KernelId,
        /// Its symbolic arguments.
        syms: Vec<i64>,
    },
    /// A library routine on operands of these physical extents.
    Library {
        /// The routine.
        routine: String,
        /// Its attributes.
        attrs: BTreeMap<String, rt::Attr>,
        /// Type and extents per operand.
        args: Vec<(relayout_runtime::DType, Vec<i64>)>,
        /// Type and extents of the result.
        out: (relayout_runtime::DType, Vec<i64>),
    },
}

/// Several units behind one module.
#[derive(Clone, Debug)]
pub struct UnitBatch {
    /// Kernels and their code; no functions.
    pub module: rt::Module,
    /// One per unit asked for.
    pub calls: Vec<UnitCall>,
}

fn program_of(spec: &CallSpec, name: &str) -> Result<TensorProgram, String> {
    spec.op
        .get()
        .legalise(&spec.legalise_call(name))
        .map_err(|e| e.to_string())
}

fn implementation(spec: &CallSpec) -> Result<Implementation, String> {
    spec.implementation.parse()
}

/// The content-addressed key of a unit under a binding: kernel text (or routine and attributes), the sources that
/// make code of it, physical operands, binding, threads, ISA, compiler and flags, machine.
///
/// # Errors
/// When the kernel can't be generated.
pub fn unit_key(
    spec: &CallSpec,
    binding: &ShapeBinding,
    target: &Target,
    toolchain: &Toolchain,
    threads: u32,
    machine: &str,
) -> Result<String, String> {
    let body = match implementation(spec)? {
        Implementation::Library(routine) => {
            format!(
                "{routine} {:?} {:?} {:?}",
                gemm_attrs(&spec.args, &spec.out, &spec.attrs),
                spec.args,
                spec.out
            )
        }
        Implementation::Generated => relayout_ir::text::print_program(&program_of(spec, "unit")?),
    };
    let mut hasher = blake3::Hasher::new();
    for part in [
        KERNEL_SOURCES.to_owned(),
        body,
        format!("{:?}", binding.values),
        threads.to_string(),
        toolchain.identity(target.isa),
        machine.to_owned(),
    ] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    Ok(hasher.finalize().to_hex()[..32].to_owned())
}

/// Builds units into one module, so that the C compiler runs a few times and not once per kernel.
///
/// # Errors
/// When one of them can't be generated or compiled; the message names it.
pub fn build_units(
    specs: &[(&CallSpec, &ShapeBinding)],
    target: &Target,
    toolchain: &Toolchain,
) -> Result<UnitBatch, CompileError> {
    let mut module = Module::default();
    let mut function = GraphFunction {
        name: "main".into(),
        syms: Vec::new(),
        params: Vec::new(),
        values: Arena::new(),
        blocks: Vec::new(),
        result: Idx::from_u32(0),
    };
    let mut bindings = Vec::new();
    let mut programs = Vec::new();
    for (number, (spec, _)) in specs.iter().enumerate() {
        let fail = |problem: String| CompileError::Unit {
            unit: spec.describe(),
            problem,
        };
        if let Implementation::Library(_) = implementation(spec).map_err(fail)? {
            programs.push(None);
            continue;
        }
        let program = program_of(spec, &format!("unit{number}")).map_err(fail)?;
        for decl in &spec.syms {
            if !function.syms.iter().any(|d| d.var == decl.var) {
                function.syms.push(decl.clone());
            }
        }
        let id = module.programs.push(program);
        let annotation = Annotation::Tensor(spec.out.clone());
        let value = function.values.push(Value {
            name: format!("u{number}"),
            annotation,
        });
        bindings.push(Binding {
            value,
            expr: Expr::CallTir {
                program: id,
                args: Vec::new(),
                sym_args: Vec::new(),
            },
        });
        programs.push(Some(id));
    }
    function.blocks.push(Block {
        kind: BlockKind::Dataflow,
        bindings,
    });
    module.functions.push(function);
    let kernels = print_kernels(&module, target);
    let native = compile_kernels(&kernels, target, toolchain)?;
    let mut calls = Vec::with_capacity(specs.len());
    for ((spec, binding), program) in specs.iter().zip(&programs) {
        let fail = |problem: &str| CompileError::Unit {
            unit: spec.describe(),
            problem: problem.to_owned(),
        };
        let value = |e: &relayout_ir::sym::SymExpr| e.eval(&|v| binding.values.get(v.name()).copied());
        calls.push(match program {
            Some(id) => {
                let syms = module.programs[*id]
                    .sym_params
                    .iter()
                    .map(|v| binding.values.get(v.name()).copied());
                let kernel = *kernels
                    .of_program
                    .get(id)
                    .ok_or_else(|| fail("no kernel was printed"))?;
                UnitCall::Kernel {
                    kernel,
                    syms: syms
                        .collect::<Option<_>>()
                        .ok_or_else(|| fail("a symbolic dimension has no value"))?,
                }
            }
            None => {
                let tensor = |t: &relayout_ir::annotation::TensorInfo| {
                    let layout = t.layout_or_abi()?;
                    let shape = layout
                        .physical_shape(t.dims()?)
                        .iter()
                        .map(value)
                        .collect::<Option<Vec<_>>>()?;
                    Some((vmgen::dtype(t.dtype?), shape))
                };
                let Implementation::Library(routine) = implementation(spec).map_err(|e| fail(&e))? else {
                    return Err(fail("neither kernel nor routine"));
                };
                let attrs = gemm_attrs(&spec.args, &spec.out, &spec.attrs).ok_or_else(|| fail("strides"))?;
                let flags = attrs.into_iter().filter_map(|(k, a)| match a {
                    Attr::Bool(b) => Some((k, rt::Attr::Bool(b))),
                    Attr::Int(i) => Some((k, rt::Attr::Int(i))),
                    _ => None,
                });
                UnitCall::Library {
                    routine,
                    attrs: flags.collect(),
                    args: spec
                        .args
                        .iter()
                        .map(tensor)
                        .collect::<Option<_>>()
                        .ok_or_else(|| fail("unknown extents"))?,
                    out: tensor(&spec.out).ok_or_else(|| fail("unknown extents"))?,
                }
            }
        });
    }
    let module = rt::Module {
        name: "units".into(),
        target: rt::Target {
            name: target.name.clone(),
            isa: target.isa,
            toolchain: toolchain.identity(target.isa),
        },
        entries: Vec::new(),
        functions: Vec::new(),
        kernels: kernels.kernels,
        native: native.into_iter().collect(),
        constants: Vec::new(),
        storage_plan: Vec::new(),
    };
    Ok(UnitBatch { module, calls })
}
