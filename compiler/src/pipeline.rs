//! The passes in their fixed order, each once. Compilation resumes right after layout selection, so that several plans of one
//! module can be built and timed.

use crate::codegen::toolchain::Toolchain;
use crate::error::CompileError;
use crate::kernels::{compile_kernels, print_kernels};
use crate::memory::{MemoryOptions, plan_memory};
use crate::target::Target;
use crate::{kind, legalise, library, vmgen, workspace};
use relayout_ir::graph::Module;
use relayout_runtime::module as rt;
use std::time::{Duration, Instant};

pub use crate::canonicalise::canonicalise;

/// The passes after layout selection, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Pass {
    /// Library calls.
    LibraryLowering,
    /// Operators to tensor programs.
    Legalise,
    /// Compute pattern analysis.
    Kinds,
    /// Grouping of calls.
    FuseOps,
    /// Merging of the groups' tensor programs.
    FuseTensorIr,
    /// Explicit destinations and workspaces.
    LiftWorkspaces,
    /// Storage sharing.
    PlanMemory,
    /// Schedules and C text.
    Schedule,
    /// The C compiler.
    CompileKernels,
    /// Bytecode.
    VmCodegen,
}

impl Pass {
    /// All passes, in the order in which they run.
    pub const ORDER: [Pass; 10] = [
        Pass::LibraryLowering,
        Pass::Legalise,
        Pass::Kinds,
        Pass::FuseOps,
        Pass::FuseTensorIr,
        Pass::LiftWorkspaces,
        Pass::PlanMemory,
        Pass::Schedule,
        Pass::CompileKernels,
        Pass::VmCodegen,
    ];
    /// The name for `--dump-ir` and for switching a pass off.
    pub fn name(self) -> &'static str {
        match self {
            Pass::LibraryLowering => "library-lowering",
            Pass::Legalise => "legalise",
            Pass::Kinds => "kinds",
            Pass::FuseOps => "fuse-ops",
            Pass::FuseTensorIr => "fuse-tensor-ir",
            Pass::LiftWorkspaces => "lift-workspaces",
            Pass::PlanMemory => "plan-memory",
            Pass::Schedule => "schedule",
            Pass::CompileKernels => "compile-kernels",
            Pass::VmCodegen => "vm-codegen",
        }
    }
    /// The pass of a name.
    pub fn by_name(name: &str) -> Option<Pass> {
        Self::ORDER.into_iter().find(|p| p.name() == name)
    }
    /// Whether compilation works without it.
    pub fn optional(self) -> bool {
        matches!(self, Pass::LibraryLowering | Pass::FuseOps | Pass::PlanMemory)
    }
}

/// How to compile.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// The module's name, for reports.
    pub name: String,
    /// Optional passes that are left out.
    pub without: Vec<Pass>,
    /// Passes after which the module's text (for [`Pass::Schedule`], the C text) is kept in the report.
    pub dump: Vec<Pass>,
    /// Plan memory at the declared upper bounds.
    pub upper_bounds: bool,
    /// The compiler; detected when absent.
    pub toolchain: Option<Toolchain>,
}

impl Default for CompileOptions {
    fn default() -> Self {
        CompileOptions {
            name: "model".to_owned(),
            without: Vec::new(),
            dump: Vec::new(),
            upper_bounds: false,
            toolchain: None,
        }
    }
}

/// What compilation did.
#[derive(Clone, Debug, Default)]
pub struct CompileReport {
    /// Time of each pass that ran, in order.
    pub times: Vec<(Pass, Duration)>,
    /// Text after the passes asked for.
    pub dumps: Vec<(Pass, String)>,
    /// Distinct kernels.
    pub kernels: usize,
    /// Kernel and library calls.
    pub calls: usize,
    /// Storages of the plan.
    pub storages: usize,
}

/// A compiled module with its report.
#[derive(Clone, Debug)]
pub struct CompiledModule {
    /// The runtime module.
    pub module: rt::Module,
    /// What compilation did.
    pub report: CompileReport,
}

/// Runs the IR passes after layout selection, up to and including memory planning; `observe` sees the module after each pass.
///
/// # Errors
/// When a pass fails.
pub fn lower(
    module: &mut Module,
    target: &Target,
    options: &CompileOptions,
    report: &mut CompileReport,
    observe: &mut dyn FnMut(Pass, &Module),
) -> Result<Vec<crate::memory::Storage>, CompileError> {
    let mut storages = Vec::new();
    for pass in Pass::ORDER {
        let skipped = pass.optional() && options.without.contains(&pass);
        let start = Instant::now();
        match pass {
            Pass::LibraryLowering if skipped => crate::library::generate_all(module),
            Pass::LibraryLowering => library::library_lowering(module, target)?,
            Pass::Legalise => legalise::legalise(module)?,
            Pass::Kinds => kind::analyse_kinds(module),
            Pass::FuseOps if skipped => {}
            Pass::FuseOps => crate::fuse_ops::fuse_ops(module),
            Pass::FuseTensorIr => crate::fuse_tir::fuse_tensor_ir(module),
            Pass::LiftWorkspaces => workspace::lift_workspaces(module)?,
            Pass::PlanMemory => {
                let memory = MemoryOptions {
                    upper_bounds: options.upper_bounds,
                    no_reuse: skipped,
                };
                storages = plan_memory(module, memory);
            }
            Pass::Schedule | Pass::CompileKernels | Pass::VmCodegen => break,
        }
        report.times.push((pass, start.elapsed()));
        if options.dump.contains(&pass) {
            report.dumps.push((pass, relayout_ir::text::print(module)));
        }
        observe(pass, module);
    }
    Ok(storages)
}

/// Compiles a module whose layouts are selected: annotations carry layouts, `layout_transform`s are in place, and operator calls name
/// their implementation.
///
/// # Errors
/// When a pass or the C compiler fails.
pub fn compile_selected(
    module: &Module,
    target: &Target,
    options: &CompileOptions,
) -> Result<CompiledModule, CompileError> {
    let mut module = module.clone();
    let mut report = CompileReport::default();
    let storages = lower(&mut module, target, options, &mut report, &mut |_, _| {})?;
    let toolchain = match &options.toolchain {
        Some(t) => t.clone(),
        None => Toolchain::detect()?,
    };
    let start = Instant::now();
    let kernels = print_kernels(&module, target);
    report.times.push((Pass::Schedule, start.elapsed()));
    if options.dump.contains(&Pass::Schedule) {
        report.dumps.push((Pass::Schedule, kernels.sources.join("\n")));
    }
    let start = Instant::now();
    let native = compile_kernels(&kernels, target, &toolchain)?;
    report.times.push((Pass::CompileKernels, start.elapsed()));
    let start = Instant::now();
    let mut out = vmgen::generate(&module, &kernels.of_program, &storages)?;
    out.name = options.name.clone();
    out.target = rt::Target {
        name: target.name.clone(),
        isa: target.isa,
        toolchain: toolchain.identity(target.isa),
    };
    report.kernels = kernels.kernels.len();
    report.storages = storages.len();
    out.kernels = kernels.kernels;
    out.native = native.into_iter().collect();
    report.calls = out
        .functions
        .iter()
        .flat_map(|f| &f.code)
        .filter(|i| matches!(i, rt::Instr::CallKernel { .. } | rt::Instr::CallLibrary { .. }))
        .count();
    report.times.push((Pass::VmCodegen, start.elapsed()));
    Ok(CompiledModule { module: out, report })
}
