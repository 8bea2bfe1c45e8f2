//! Kernels of a module: every program that is called, scheduled, printed, compiled; structurally equal programs once.

use crate::affine::Ranges;
use crate::codegen::toolchain::{Toolchain, jobs};
use crate::codegen::{phase_symbol, prelude, print_program};
use crate::error::CompileError;
use crate::schedule::schedule;
use crate::target::Target;
use crate::vmgen::{bytecode, dtype};
use relayout_ir::graph::{Callee, Expr, Module, ProgramId, SymDecl};
use relayout_ir::program::{BufferRole, TensorProgram};
use relayout_ir::sym::{SymExpr, SymVar, product};
use relayout_runtime::index::{KernelId, Slot};
use relayout_runtime::module as rt;
use std::collections::BTreeMap;

/// The kernels of a module.
#[derive(Debug, Default)]
pub struct Kernels {
    /// The kernel of each program that is called.
    pub of_program: BTreeMap<ProgramId, KernelId>,
    /// The kernels.
    pub kernels: Vec<rt::Kernel>,
    /// The translation units.
    pub sources: Vec<String>,
}

/// Ranges of a program's parameters that hold at every one of its calls: those of the callers' variables where a parameter is always
/// passed the variable of its own name.
fn declared(program: &TensorProgram, module: &Module) -> Vec<SymDecl> {
    let mut out: Vec<SymDecl> = Vec::new();
    for p in &program.sym_params {
        let found: Vec<&SymDecl> = module
            .functions
            .iter()
            .flat_map(|(_, f)| &f.syms)
            .filter(|d| d.var == *p)
            .collect();
        let low = found.iter().map(|d| d.low).min().unwrap_or(i64::MIN);
        let high = found
            .iter()
            .map(|d| d.high)
            .max_by_key(|h| h.unwrap_or(i64::MAX))
            .flatten();
        out.push(SymDecl {
            var: p.clone(),
            low,
            high,
        });
    }
    out
}

/// Schedules and prints every program that some function calls.
pub fn print_kernels(module: &Module, target: &Target) -> Kernels {
    let mut out = Kernels::default();
    // Text with a placeholder for the name: equal text means equal kernels.
    let mut seen: BTreeMap<String, KernelId> = BTreeMap::new();
    let mut texts: Vec<String> = Vec::new();
    let called = module
        .functions
        .iter()
        .flat_map(|(_, f)| f.bindings())
        .filter_map(|b| match &b.expr {
            Expr::Invoke {
                callee: Callee::Program(p),
                ..
            }
            | Expr::CallTir { program: p, .. } => Some(*p),
            _ => None,
        });
    for id in called {
        if out.of_program.contains_key(&id) {
            continue;
        }
        let program = &module.programs[id];
        let ranges = Ranges::of_syms(&program.sym_params, &declared(program, module));
        let plan = schedule(program, &ranges, target);
        let text = print_program(program, &plan, &ranges, "@");
        let signature = format!(
            "{:?}\n{text}",
            program
                .buffers
                .iter()
                .map(|(_, b)| (&b.shape, b.dtype, b.role))
                .collect::<Vec<_>>()
        );
        if let Some(kernel) = seen.get(&signature) {
            out.of_program.insert(id, *kernel);
            continue;
        }
        let name = format!("{}_{}", out.kernels.len(), program.name);
        let kernel = KernelId(out.kernels.len() as u32);
        texts.push(text.replace(
            &phase_symbol("@", 0).replace("_p0", "_p"),
            &phase_symbol(&name, 0).replace("_p0", "_p"),
        ));
        out.kernels.push(describe(program, &plan, &name));
        seen.insert(signature, kernel);
        out.of_program.insert(id, kernel);
    }
    out.sources = units(target, &texts);
    out
}

/// Translation units of similar length, as many as compilers run at a time if there is enough to share.
fn units(target: &Target, texts: &[String]) -> Vec<String> {
    if texts.is_empty() {
        return Vec::new();
    }
    let total: usize = texts.iter().map(String::len).sum();
    let count = if total > 60_000 {
        (2 * jobs()).min(texts.len())
    } else {
        1
    };
    let mut units = vec![String::new(); count];
    for text in texts {
        if let Some(shortest) = units.iter_mut().min_by_key(|u| u.len()) {
            shortest.push_str(text);
        }
    }
    let head = prelude(target);
    units.into_iter().map(|u| format!("{head}\n{u}")).collect()
}

fn describe(program: &TensorProgram, plan: &crate::schedule::Schedule, name: &str) -> rt::Kernel {
    let slot = |v: &SymVar| {
        program
            .sym_params
            .iter()
            .position(|p| p == v)
            .map(|i| Slot(i as u32))
    };
    // Every variable of a program is one of its parameters; a program that breaks this is refused by the verifier.
    let code = |e: &SymExpr| bytecode(e, &slot).unwrap_or_else(|| relayout_runtime::Expr::constant(0));
    rt::Kernel {
        name: name.to_owned(),
        params: program
            .buffers
            .iter()
            .map(|(_, b)| rt::KernelParam {
                role: match b.role {
                    BufferRole::Input => rt::ParamRole::Input,
                    BufferRole::Output => rt::ParamRole::Output,
                    BufferRole::Workspace => rt::ParamRole::Workspace,
                },
                dtype: dtype(b.dtype),
                bytes: code(&(product(&b.shape) * SymExpr::from(b.dtype.bytes()))),
            })
            .collect(),
        syms: program.sym_params.len() as u32,
        phases: plan
            .phases
            .iter()
            .enumerate()
            .map(|(i, phase)| rt::Phase {
                symbol: phase_symbol(name, i),
                extent: code(&phase.parallel.iter().fold(SymExpr::constant(1), |n, item| {
                    n * item.extent.ceil_div(item.step)
                })),
                grain: phase.grain,
                scratch: relayout_runtime::Expr::constant(0),
            })
            .collect(),
    }
}

/// Compiles the printed kernels for the target's level.
///
/// # Errors
/// When the C compiler fails.
pub fn compile_kernels(
    kernels: &Kernels,
    target: &Target,
    toolchain: &Toolchain,
) -> Result<Option<rt::NativeCode>, CompileError> {
    if kernels.sources.is_empty() {
        return Ok(None);
    }
    let object = toolchain.build(&kernels.sources, target.isa)?;
    Ok(Some(rt::NativeCode {
        isa: target.isa,
        bytes: object.bytes,
    }))
}
