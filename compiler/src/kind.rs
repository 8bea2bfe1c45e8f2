//! Compute pattern analysis (Relax algorithm 1): the kind of a tensor program, from its loops alone.

use crate::affine;
use relayout_ir::graph::Module;
use relayout_ir::program::{LoopKind, PatternKind, Scalar, Stage, StageBody, TensorProgram};
use relayout_ir::sym::SymExpr;

/// Records the kind of every program of the module.
pub fn analyse_kinds(module: &mut Module) {
    for (_, program) in module.programs.iter_mut() {
        program.kind = Some(kind_of(program));
    }
}

/// The kind of a program. Several stages are classified by what fusion may do at their end: `OutputEwiseFusible` if the last one
/// is a contraction, `Reduction` if it reduces or any stage before it does, else `Opaque`.
pub fn kind_of(program: &TensorProgram) -> PatternKind {
    match &program.stages[..] {
        [] => PatternKind::Opaque,
        [stage] => stage_kind(stage),
        [before @ .., last] => match stage_kind(last) {
            PatternKind::OutputEwiseFusible => PatternKind::OutputEwiseFusible,
            PatternKind::Reduction => PatternKind::Reduction,
            _ if before
                .iter()
                .any(|s| s.loops.iter().any(|l| l.kind == LoopKind::Reduce)) =>
            {
                PatternKind::Reduction
            }
            _ => PatternKind::Opaque,
        },
    }
}

fn stage_kind(stage: &Stage) -> PatternKind {
    let value = match &stage.body {
        StageBody::Contract { .. } => return PatternKind::OutputEwiseFusible,
        StageBody::Reduce { .. } => return PatternKind::Reduction,
        StageBody::Map(value) => value,
    };
    let mut data_dependent = false;
    affine::visit_scalar(value, &mut |s| {
        data_dependent |= matches!(s, Scalar::Gather { .. })
    });
    if data_dependent {
        return PatternKind::Opaque;
    }
    // Written dimensions: single variables (constants for dimensions of extent 1).
    if stage
        .index
        .iter()
        .any(|e| e.as_var().is_none() && e.as_const().is_none())
    {
        return PatternKind::Injective;
    }
    let (mut elementwise, mut broadcast, mut injective) = (false, false, false);
    affine::visit_loads(value, &mut |a| match read_kind(&a.index, &stage.index) {
        PatternKind::ElementWise => elementwise = true,
        PatternKind::Broadcast => broadcast = true,
        _ => injective = true,
    });
    if injective {
        PatternKind::Injective
    } else if elementwise || !broadcast {
        // A broadcast beside an element-wise read is element-wise as a whole.
        PatternKind::ElementWise
    } else {
        PatternKind::Broadcast
    }
}

fn read_kind(read: &[SymExpr], write: &[SymExpr]) -> PatternKind {
    if read == write {
        return PatternKind::ElementWise;
    }
    let variables: Vec<_> = read.iter().filter(|e| e.as_const().is_none()).collect();
    let mut from = 0;
    let ordered = variables.iter().all(|e| {
        let found = write[from..].iter().position(|w| w == *e);
        if let Some(p) = found {
            from += p + 1;
        }
        found.is_some()
    });
    if ordered {
        PatternKind::Broadcast
    } else {
        PatternKind::Injective
    }
}
