//! Code generation: a scheduled tensor program as C functions of the kernel ABI.

pub mod c;
pub mod math;
pub mod microkernel;
pub mod toolchain;

use crate::affine::Ranges;
use crate::schedule::{PhasePlan, Schedule};
use crate::target::Target;
use c::{buffer_name, element_type, index_expr, var_name};
use microkernel::{Text, print_stage, tile_start};
use relayout_ir::program::{BufferRole, TensorProgram};
use relayout_ir::sym::SymVar;

/// The C function name of a phase.
pub fn phase_symbol(kernel: &str, phase: usize) -> String {
    let clean: String = kernel
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    format!("k_{clean}_p{phase}")
}

/// The prelude of a translation unit for a target.
pub fn prelude(target: &Target) -> String {
    math::prelude(
        &[4, 8, 16]
            .into_iter()
            .filter(|l| *l <= target.lanes())
            .collect::<Vec<_>>(),
    )
}

/// The C functions of a program, one per phase, without the prelude.
pub fn print_program(program: &TensorProgram, schedule: &Schedule, ranges: &Ranges, kernel: &str) -> String {
    let mut out = String::new();
    for (i, phase) in schedule.phases.iter().enumerate() {
        out.push_str(&print_phase(program, phase, ranges, &phase_symbol(kernel, i)));
    }
    out
}

fn print_phase(program: &TensorProgram, phase: &PhasePlan, ranges: &Ranges, symbol: &str) -> String {
    let mut text = Text::default();
    text.open(format!(
        "__attribute__((visibility(\"default\"))) void {symbol}(void *const *bufs, const i64 *syms, i64 begin, i64 end, void *scratch)"
    ));
    text.line("(void)syms; (void)scratch;");
    let used: Vec<_> = {
        let mut used = Vec::new();
        for plan in &phase.stages {
            used.extend(crate::affine::buffers_read(&plan.stage));
            used.push(plan.stage.output);
        }
        used
    };
    let mut written = Vec::new();
    for plan in &phase.stages {
        written.push(plan.stage.output);
    }
    for (i, (id, b)) in program.buffers.iter().enumerate() {
        if !used.contains(&id) {
            continue;
        }
        let constant = if b.role == BufferRole::Input || !written.contains(&id) {
            "const "
        } else {
            ""
        };
        text.line(format!(
            "{constant}{} *restrict {} = bufs[{i}];",
            element_type(b.dtype),
            buffer_name(id)
        ));
    }
    for (i, v) in program.sym_params.iter().enumerate() {
        text.line(format!("const i64 {} = syms[{i}];", var_name(v)));
    }
    let parallel: Vec<SymVar> = phase.parallel.iter().map(|i| i.var.clone()).collect();
    text.open("for (i64 at = begin; at < end; ++at)");
    // The iteration's number, taken apart innermost loop first.
    let mut rest = "at".to_owned();
    for (k, item) in phase.parallel.iter().enumerate().rev() {
        let name = var_name(&item.var);
        let count = index_expr(&item.extent.ceil_div(item.step), ranges);
        let digit = if k == 0 {
            rest.clone()
        } else {
            format!("{rest} % ({count})")
        };
        let scaled = if item.step == 1 {
            digit
        } else {
            format!("{digit} * {}", item.step)
        };
        text.line(format!(
            "i64 {name} = {};",
            tile_start(&format!("({scaled})"), item.extent.as_const(), item.step)
        ));
        if k > 0 {
            text.line(format!("const i64 at{k} = {rest} / ({count});"));
            rest = format!("at{k}");
        }
    }
    let shared: Vec<relayout_ir::program::Loop> = phase
        .parallel
        .iter()
        .map(|i| relayout_ir::program::Loop {
            var: i.var.clone(),
            extent: i.extent.clone(),
            kind: relayout_ir::program::LoopKind::Spatial,
        })
        .collect();
    let inside = ranges.with_loops(&shared);
    for plan in &phase.stages {
        text.open("");
        print_stage(plan, &program.buffers, &inside, &parallel, &mut text);
        text.close();
    }
    text.close();
    text.close();
    text.into_string()
}
