//! The schedule of a tensor program, as data: phases with their parallel range. Printing (`codegen`) only follows it.
//!
//! After the analysis-based scheduling of Relax (§4.6 there): consecutive stages share a phase when their outermost loops walk the
//! buffers between them in step and are long enough to be the parallel range (softmax: one row at a time, still in cache);
//! otherwise each stage is a phase of its own. How a stage is computed is [`crate::stage_plan`].

use crate::affine::{self, Ranges};
use crate::stage_plan::{Item, StagePlan, UNKNOWN_EXTENT, Vectors, plan_stage};
use crate::target::Target;
use relayout_ir::program::{Loop, LoopKind, Scalar, Stage, StageBody, TensorProgram, UnaryOp};
use relayout_ir::sym::{SymExpr, SymVar};

/// Stages that run together over one parallel range.
#[derive(Clone, PartialEq, Debug)]
pub struct PhasePlan {
    /// The loops whose iterations are the parallel range, outermost first: loops shared by all stages, or the outermost loops of
    /// the only stage.
    pub parallel: Vec<Item>,
    /// Iterations that a chunk has at least.
    pub grain: i64,
    /// The stages, without the parallel loops.
    pub stages: Vec<StagePlan>,
}

/// The schedule of a program.
#[derive(Clone, PartialEq, Debug)]
pub struct Schedule {
    /// Run in order, with a barrier between them.
    pub phases: Vec<PhasePlan>,
}

/// Work (in scalar operations) that one chunk should have, so that handing it out costs little.
const CHUNK_WORK: i64 = 32 * 1024;
/// Work that one iteration of a parallel range should have, since its index is taken apart by divisions.
const ITERATION_WORK: i64 = 2048;

/// Schedules a program.
pub fn schedule(program: &TensorProgram, ranges: &Ranges, target: &Target) -> Schedule {
    let mut phases = Vec::new();
    let mut first = 0;
    while first < program.stages.len() {
        let mut end = first + 1;
        let mut shared = 0;
        while end < program.stages.len() {
            let k = shared_loops(program, first, end + 1, ranges, target);
            if k == 0 {
                break;
            }
            shared = k;
            end += 1;
        }
        phases.push(if end - first > 1 {
            shared_phase(program, first, end, shared, ranges, target)
        } else {
            single_phase(program, first, ranges, target)
        });
        first = end;
    }
    Schedule { phases }
}

fn single_phase(program: &TensorProgram, index: usize, ranges: &Ranges, target: &Target) -> PhasePlan {
    let mut plan = plan_stage(&program.stages[index], &program.buffers, ranges, target);
    let work = stage_work(&plan.stage);
    let count = |item: &Item| {
        item.extent
            .ceil_div(item.step)
            .as_const()
            .unwrap_or(UNKNOWN_EXTENT)
            .max(1)
    };
    let (mut iterations, mut taken) = (1i64, 0);
    for item in &plan.outer {
        let next = iterations.saturating_mul(count(item));
        let long_enough = iterations >= 64;
        if long_enough || (taken > 0 && work / next.max(1) < ITERATION_WORK && iterations >= 8) {
            break;
        }
        iterations = next;
        taken += 1;
    }
    let parallel: Vec<Item> = plan.outer.drain(..taken).collect();
    PhasePlan {
        grain: grain(work, iterations),
        parallel,
        stages: vec![plan],
    }
}

fn shared_phase(
    program: &TensorProgram,
    first: usize,
    end: usize,
    shared: usize,
    ranges: &Ranges,
    target: &Target,
) -> PhasePlan {
    let common = &program.stages[first].loops[..shared];
    let mut work = 0i64;
    let stages = program.stages[first..end]
        .iter()
        .map(|stage| {
            let (inner, inside) = inside(stage, common, ranges);
            work = work.saturating_add(stage_work(&inner));
            plan_stage(&inner, &program.buffers, &inside, target)
        })
        .collect();
    let iterations = common
        .iter()
        .map(|l| l.extent.as_const().unwrap_or(UNKNOWN_EXTENT))
        .fold(1i64, i64::saturating_mul);
    PhasePlan {
        grain: grain(work, iterations),
        parallel: common
            .iter()
            .map(|l| Item {
                var: l.var.clone(),
                extent: l.extent.clone(),
                step: 1,
            })
            .collect(),
        stages,
    }
}

/// A stage within one iteration of shared loops that stand for its own outermost ones, with the ranges there.
fn inside(stage: &Stage, common: &[Loop], ranges: &Ranges) -> (Stage, Ranges) {
    let own = &stage.loops[..common.len()];
    let mut inner = affine::map_stage_indices(stage, &mut |e| {
        e.substitute(&|v| {
            own.iter()
                .position(|o| o.var == *v)
                .map(|i| SymExpr::var(&common[i].var))
        })
    });
    inner.loops.drain(..common.len());
    // Two stages may use the name of a shared loop for a loop of their own.
    (rename_clashes(inner, common), ranges.with_loops(common))
}

fn rename_clashes(mut stage: Stage, common: &[Loop]) -> Stage {
    for i in 0..stage.loops.len() {
        let var = stage.loops[i].var.clone();
        if common.iter().any(|c| c.var == var) {
            // The substitution above already replaced this stage's shared variables, so that only its own remain; but a stage
            // whose own loop has the shared name is ambiguous, and `shared_loops` refuses it.
            stage.loops[i].var = SymVar::new(format!("{}_own", var.name()));
        }
    }
    stage
}

fn grain(work: i64, iterations: i64) -> i64 {
    let per_iteration = (work / iterations.max(1)).max(1);
    (CHUNK_WORK / per_iteration).clamp(1, 1 << 20)
}

/// Scalar operations of a stage, roughly.
fn stage_work(stage: &Stage) -> i64 {
    let iterations = stage
        .loops
        .iter()
        .map(|l| l.extent.as_const().unwrap_or(UNKNOWN_EXTENT).max(1))
        .fold(1i64, i64::saturating_mul);
    let mut per = 1i64;
    for s in affine::body_scalars(&stage.body) {
        affine::visit_scalar(s, &mut |s| {
            per += match s {
                Scalar::Unary(
                    UnaryOp::Exp
                    | UnaryOp::Tanh
                    | UnaryOp::Erf
                    | UnaryOp::Sigmoid
                    | UnaryOp::Log
                    | UnaryOp::Sin
                    | UnaryOp::Cos,
                    _,
                ) => 8,
                Scalar::Unary(..) | Scalar::Binary(..) => 1,
                _ => 0,
            };
        });
    }
    iterations.saturating_mul(per)
}

/// The number of outermost loops that stages `first..end` can share as a parallel range, 0 for none. A loop can be shared when every
/// buffer that passes between the stages is written and read at the same value of it, in a dimension of its own. A contraction
/// shares none: its loops are what its register tile is made of. Any other stage keeps the vectors that it has alone.
fn shared_loops(
    program: &TensorProgram,
    first: usize,
    end: usize,
    ranges: &Ranges,
    target: &Target,
) -> usize {
    let stages = &program.stages[first..end];
    if stages
        .iter()
        .any(|s| matches!(s.body, StageBody::Contract { .. }))
    {
        return 0;
    }
    let most = stages
        .iter()
        .map(|s| s.loops.iter().take_while(|l| l.kind == LoopKind::Spatial).count())
        .min()
        .unwrap_or(0);
    let mut k = (0..most)
        .take_while(|&i| {
            stages
                .iter()
                .all(|s| s.loops[i].extent == stages[0].loops[i].extent)
        })
        .count();
    let scalar = |stage: &Stage, ranges: &Ranges| {
        plan_stage(stage, &program.buffers, ranges, target).vectors == Vectors::None
    };
    let alone: Vec<bool> = stages.iter().map(|s| scalar(s, ranges)).collect();
    let loses_vectors = |k: usize| {
        stages.iter().zip(&alone).any(|(stage, alone)| {
            let (inner, inside) = inside(stage, &stages[0].loops[..k], ranges);
            !alone && scalar(&inner, &inside)
        })
    };
    while k > 0 && (!shares(stages, k) || loses_vectors(k)) {
        k -= 1;
    }
    let iterations = stages[0].loops[..k]
        .iter()
        .map(|l| l.extent.as_const().unwrap_or(UNKNOWN_EXTENT))
        .fold(1i64, i64::saturating_mul);
    let wanted = if target.threads > 1 {
        4 * target.threads as i64
    } else {
        2
    };
    if iterations >= wanted { k } else { 0 }
}

fn shares(stages: &[Stage], k: usize) -> bool {
    // No stage may use the name of another stage's shared loop for something else.
    let names: Vec<&SymVar> = stages[0].loops[..k].iter().map(|l| &l.var).collect();
    if stages
        .iter()
        .any(|s| s.loops[k..].iter().any(|l| names.contains(&&l.var)))
    {
        return false;
    }
    for (w, writer) in stages.iter().enumerate() {
        for reader in &stages[w + 1..] {
            if !affine::buffers_read(reader).contains(&writer.output) {
                continue;
            }
            // Position of each shared loop in the buffer's index.
            let mut positions = Vec::new();
            for l in &writer.loops[..k] {
                let at: Vec<usize> = (0..writer.index.len())
                    .filter(|&d| affine::mentions(&writer.index[d], &l.var))
                    .collect();
                match at[..] {
                    [d] if writer.index[d].as_var() == Some(&l.var) => positions.push(d),
                    _ => return false,
                }
            }
            let mut ok = true;
            affine::visit_stage_loads(reader, &mut |a| {
                if a.buffer == writer.output {
                    for (i, &d) in positions.iter().enumerate() {
                        ok &= a.index[d].as_var() == Some(&reader.loops[i].var);
                    }
                }
            });
            for s in affine::body_scalars(&reader.body) {
                affine::visit_scalar(s, &mut |s| {
                    ok &= !matches!(s, Scalar::Gather { buffer, .. } if *buffer == writer.output);
                });
            }
            if !ok {
                return false;
            }
        }
    }
    // Every stage must write a part of its own per shared iteration.
    stages.iter().all(|s| {
        s.loops[..k]
            .iter()
            .all(|l| s.index.iter().any(|e| affine::mentions(e, &l.var)))
    })
}
