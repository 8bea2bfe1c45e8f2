//! Verifies tensor programs.

use super::Report;
use crate::program::{Access, BufferRole, LoopKind, Scalar, Stage, StageBody, TensorProgram};
use crate::sym::{SymExpr, SymVar};
use crate::typing;
use std::collections::HashSet;

pub(super) fn verify(program: &TensorProgram, report: &mut Report) {
    let place = format!("program `{}`", program.name);
    let mut params = HashSet::new();
    for p in &program.sym_params {
        if !params.insert(p.clone()) {
            report.add(&place, format!("symbolic parameter `{p}` is declared twice"));
        }
    }
    let outputs = program
        .buffers
        .iter()
        .filter(|(_, b)| b.role == BufferRole::Output)
        .count();
    if outputs != 1 {
        report.add(&place, format!("{outputs} output buffers, expected exactly one"));
    }
    let rank = |role| match role {
        BufferRole::Input => 0,
        BufferRole::Output => 1,
        BufferRole::Workspace => 2,
    };
    if !program.buffers.iter().is_sorted_by_key(|(_, b)| rank(b.role)) {
        report.add(
            &place,
            "buffers out of order, expected inputs, then the output, then workspaces",
        );
    }
    let mut names = HashSet::new();
    for (_, b) in program.buffers.iter() {
        if !names.insert(&b.name) {
            report.add(&place, format!("buffer name `{}` is used twice", b.name));
        }
        for d in &b.shape {
            scoped(
                d,
                &params,
                &format!("the shape of buffer `{}`", b.name),
                &place,
                report,
            );
        }
    }
    for (number, stage) in program.stages.iter().enumerate() {
        let place = format!("{place}, stage {number}");
        StageVerifier {
            program,
            stage,
            params: &params,
            place: &place,
            report,
        }
        .verify();
    }
}

/// Checks that an expression uses only these variables.
fn scoped(e: &SymExpr, scope: &HashSet<SymVar>, what: &str, place: &str, report: &mut Report) {
    for v in e.vars() {
        if !scope.contains(&v) {
            report.add(place, format!("{what} uses `{v}`, which is not in scope"));
        }
    }
}

struct StageVerifier<'a, 'r> {
    program: &'a TensorProgram,
    stage: &'a Stage,
    params: &'a HashSet<SymVar>,
    place: &'a str,
    report: &'r mut Report,
}

impl StageVerifier<'_, '_> {
    fn verify(&mut self) {
        let (stage, place) = (self.stage, self.place);
        let mut all = self.params.clone();
        for l in &stage.loops {
            scoped(
                &l.extent,
                self.params,
                &format!("the extent of loop `{}`", l.var),
                place,
                self.report,
            );
            if !all.insert(l.var.clone()) {
                self.report
                    .add(place, format!("loop variable `{}` is already in scope", l.var));
            }
        }
        let reduce: HashSet<SymVar> = stage
            .loops
            .iter()
            .filter(|l| l.kind == LoopKind::Reduce)
            .map(|l| l.var.clone())
            .collect();
        let spatial: HashSet<SymVar> = all.difference(&reduce).cloned().collect();
        self.access(
            &Access {
                buffer: stage.output,
                index: stage.index.clone(),
            },
            &spatial,
            "the output index",
        );
        if self
            .program
            .buffers
            .get(stage.output)
            .is_some_and(|b| b.role == BufferRole::Input)
        {
            self.report.add(
                place,
                format!("writes input `{}`", self.program.buffers[stage.output].name),
            );
        }
        match &stage.body {
            StageBody::Map(value) => {
                if !reduce.is_empty() {
                    self.report.add(place, "a map with reduce loops");
                }
                self.scalar(value, &all, "the value");
            }
            StageBody::Reduce { value, epilogue, .. } => {
                self.scalar(value, &all, "the value");
                self.scalar(epilogue, &spatial, "the epilogue");
            }
            StageBody::Contract { a, b, epilogue } => {
                self.access(a, &all, "the first factor");
                self.access(b, &all, "the second factor");
                self.scalar(epilogue, &spatial, "the epilogue");
            }
        }
        if let Err(e) = typing::check_stage(self.program, stage) {
            self.report.add(place, e.to_string());
        }
    }

    fn access(&mut self, access: &Access, scope: &HashSet<SymVar>, what: &str) {
        match self.program.buffers.get(access.buffer) {
            None => self
                .report
                .add(self.place, format!("{what} is in a buffer that does not exist")),
            Some(b) if b.shape.len() != access.index.len() => self.report.add(
                self.place,
                format!(
                    "{what} has {} indices into `{}`, which has {} dimensions",
                    access.index.len(),
                    b.name,
                    b.shape.len()
                ),
            ),
            Some(_) => {}
        }
        for e in &access.index {
            scoped(e, scope, what, self.place, self.report);
        }
    }

    fn scalar(&mut self, scalar: &Scalar, scope: &HashSet<SymVar>, what: &str) {
        match scalar {
            Scalar::Const(..) | Scalar::Reduced => {}
            Scalar::Load(a) => self.access(a, scope, what),
            Scalar::Index(e) => scoped(e, scope, what, self.place, self.report),
            Scalar::Gather { buffer, index } => {
                if let Some(b) = self
                    .program
                    .buffers
                    .get(*buffer)
                    .filter(|b| b.shape.len() != index.len())
                {
                    let problem = format!(
                        "{what} gathers with {} indices from `{}`, which has {} dimensions",
                        index.len(),
                        b.name,
                        b.shape.len()
                    );
                    self.report.add(self.place, problem);
                }
                index.iter().for_each(|i| self.scalar(i, scope, what));
            }
            Scalar::Unary(_, x) | Scalar::Cast(_, x) => self.scalar(x, scope, what),
            Scalar::Binary(_, a, b) => {
                self.scalar(a, scope, what);
                self.scalar(b, scope, what);
            }
            Scalar::Select(c, a, b) => [c, a, b].into_iter().for_each(|s| self.scalar(s, scope, what)),
        }
    }
}
