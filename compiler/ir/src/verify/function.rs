//! Verifies graph functions.

use super::{Report, kill};
use crate::annotation::{Annotation, TensorInfo};
use crate::graph::{Callee, Expr, GraphFunction, Module, ProgramId, ValueId};
use crate::index::Idx;
use crate::infer::deduce;
use crate::layout::Layout;
use crate::program::BufferId;
use crate::prove::{Proof, Prover};
use crate::signature::{for_each_dim, implies};
use crate::sym::{SymExpr, SymVar, product};
use crate::text::print_annotation;
use std::collections::{BTreeSet, HashSet};

pub(super) fn verify(module: &Module, f: &GraphFunction, report: &mut Report) {
    let mut v = FunctionVerifier {
        module,
        f,
        prover: Prover::new(&f.syms),
        bound: HashSet::new(),
        defined: vec![false; f.values.len()],
        report,
    };
    v.names();
    v.symbols();
    v.params();
    for binding in f.bindings() {
        v.binding(binding.value, &binding.expr);
    }
    v.result();
    kill::verify(f, report);
}

struct FunctionVerifier<'a, 'r> {
    module: &'a Module,
    f: &'a GraphFunction,
    prover: Prover,
    bound: HashSet<SymVar>,
    defined: Vec<bool>,
    report: &'r mut Report,
}

impl FunctionVerifier<'_, '_> {
    fn name(&self, v: ValueId) -> String {
        self.f
            .values
            .get(v)
            .map_or_else(|| format!("{v:?}"), |v| format!("%{}", v.name))
    }
    fn place(&self, kind: &str, v: ValueId) -> String {
        format!("function `{}`, {kind} `{}`", self.f.name, self.name(v))
    }

    fn names(&mut self) {
        let mut seen = HashSet::new();
        for (id, value) in self.f.values.iter() {
            if !seen.insert(&value.name) {
                let place = self.place("value", id);
                self.report.add(place, "the name is used twice in the function");
            }
        }
    }

    fn symbols(&mut self) {
        let mut seen = HashSet::new();
        for d in &self.f.syms {
            let place = format!("function `{}`, variable `{}`", self.f.name, d.var);
            if !seen.insert(&d.var) {
                self.report.add(&place, "is declared twice");
            }
            if let Some(high) = d.high.filter(|h| *h < d.low) {
                self.report
                    .add(&place, format!("has the empty range {}..={high}", d.low));
            }
        }
    }

    /// Variables alone in a dimension become bound.
    fn bind(&mut self, annotation: &Annotation) {
        match annotation {
            Annotation::Shape(shape) | Annotation::Tensor(TensorInfo { shape, .. }) => {
                self.bound.extend(
                    shape
                        .dims()
                        .unwrap_or(&[])
                        .iter()
                        .filter_map(SymExpr::as_var)
                        .cloned(),
                );
            }
            Annotation::Tuple(items) => items.iter().for_each(|i| self.bind(i)),
            Annotation::Object | Annotation::Callable(..) => {}
        }
    }

    fn params(&mut self) {
        for p in &self.f.params {
            if let Some(value) = self.f.values.get(*p) {
                self.bind(&value.annotation);
            }
        }
        for p in &self.f.params {
            let place = self.place("parameter", *p);
            self.define(*p, &place);
            if let Some(value) = self.f.values.get(*p) {
                self.annotation(&value.annotation, &place);
                self.abi(&value.annotation, &place);
            }
        }
    }

    fn define(&mut self, v: ValueId, place: &str) {
        match self.defined.get_mut(v.index()) {
            None => self.report.add(place, "a value that does not exist"),
            Some(true) => self.report.add(place, "is defined twice"),
            Some(defined) => *defined = true,
        }
    }

    /// Variables in scope and declared, layouts well formed.
    fn annotation(&mut self, annotation: &Annotation, place: &str) {
        let mut vars = BTreeSet::new();
        // A function type's variables are its own.
        if !matches!(annotation, Annotation::Callable(..)) {
            for_each_dim(annotation, &mut |d| d.collect_vars(&mut vars));
        }
        self.scope(&vars, "the annotation", place);
        self.layouts(annotation, place);
    }

    fn scope(&mut self, vars: &BTreeSet<SymVar>, what: &str, place: &str) {
        for var in vars {
            if !self.f.syms.iter().any(|d| d.var == *var) {
                let names = self.f.syms.iter().map(|d| d.var.name());
                let hint = crate::text::nearest(var.name(), names)
                    .map_or(String::new(), |n| format!("; did you mean `{n}`?"));
                self.report.add(
                    place,
                    format!("{what} uses `{var}`, which the function does not declare{hint}"),
                );
            } else if !self.bound.contains(var) {
                self.report
                    .add(place, format!("{what} uses `{var}`, which nothing before binds"));
            }
        }
    }

    fn expr_scope(&mut self, exprs: &[SymExpr], what: &str, place: &str) {
        let mut vars = BTreeSet::new();
        exprs.iter().for_each(|e| e.collect_vars(&mut vars));
        self.scope(&vars, what, place);
    }

    fn layouts(&mut self, annotation: &Annotation, place: &str) {
        match annotation {
            Annotation::Tensor(TensorInfo {
                shape,
                layout: Some(layout),
                ..
            }) => {
                let Some(rank) = shape.rank() else {
                    self.report
                        .add(place, format!("layout {layout} of a tensor of unknown rank"));
                    return;
                };
                if let Err(e) = Layout::new(rank, layout.splits().to_vec()) {
                    self.report
                        .add(place, format!("layout {layout} does not fit rank {rank}: {e}"));
                } else if let Some(p) = layout.partition().filter(|p| usize::from(*p) >= rank) {
                    self.report
                        .add(place, format!("partition axis {p} of a rank-{rank} tensor"));
                }
            }
            Annotation::Tuple(items) => items.iter().for_each(|i| self.layouts(i, place)),
            _ => {}
        }
    }

    fn abi(&mut self, annotation: &Annotation, place: &str) {
        match annotation {
            Annotation::Tensor(TensorInfo {
                layout: Some(layout), ..
            }) if !layout.is_row_major() => {
                self.report.add(
                    place,
                    format!("layout {layout} at a function boundary, expected the ABI layout"),
                );
            }
            Annotation::Tuple(items) => items.iter().for_each(|i| self.abi(i, place)),
            _ => {}
        }
    }

    fn binding(&mut self, value: ValueId, expr: &Expr) {
        let place = self.place("binding", value);
        let mut whole = true;
        for used in expr.operands() {
            if self.defined.get(used.index()) != Some(&true) {
                let problem = format!("uses `{}` before it is defined", self.name(used));
                self.report.add(&place, problem);
                whole = false;
            }
        }
        match expr {
            Expr::MatchCast(_, annotation) => self.bind(annotation),
            Expr::Shape(dims) => self.expr_scope(dims, "the shape", &place),
            Expr::AllocStorage { bytes } => self.expr_scope(std::slice::from_ref(bytes), "the size", &place),
            Expr::AllocTensor { offset, .. } => {
                self.expr_scope(std::slice::from_ref(offset), "the offset", &place)
            }
            Expr::CallTir { sym_args, .. }
            | Expr::CallDpsLibrary { sym_args, .. }
            | Expr::Invoke { sym_args, .. } => {
                self.expr_scope(sym_args, "a symbolic argument", &place);
            }
            Expr::Op { attrs, .. } => {
                for (key, attr) in attrs {
                    if let crate::graph::Attr::Shape(dims) = attr {
                        self.expr_scope(dims, &format!("attribute `{key}`"), &place);
                    }
                }
            }
            _ => {}
        }
        self.define(value, &place);
        let Some(given) = self.f.values.get(value).map(|v| &v.annotation) else {
            return;
        };
        self.annotation(given, &place);
        if !whole {
            return;
        }
        match deduce(self.module, self.f, &self.prover, value, expr) {
            Err(e) => self.report.add(&place, e.to_string()),
            Ok(deduced) if !implies(&deduced, given, &self.prover) => self.report.add(
                &place,
                format!(
                    "annotated {}, but deduction gives {}",
                    print_annotation(given),
                    print_annotation(&deduced)
                ),
            ),
            Ok(_) => {}
        }
        match expr {
            Expr::CallTir {
                program,
                args,
                sym_args,
            } => self.program_call(*program, args, &[value], sym_args, &place),
            Expr::Invoke {
                callee: Callee::Program(program),
                args,
                outs,
                sym_args,
            } => {
                self.program_call(*program, args, outs, sym_args, &place);
            }
            Expr::CallDpsLibrary { .. } => {
                self.physical(value, &place);
            }
            Expr::View(of) => self.view(value, *of, &place),
            Expr::AllocTensor { storage, offset } => self.alloc_tensor(value, *storage, offset, &place),
            _ => {}
        }
    }

    /// The physical shape and the tensor information of a value; reports when it is not a tensor of known shape and type.
    fn physical(&mut self, v: ValueId, place: &str) -> Option<(Vec<SymExpr>, TensorInfo)> {
        let info = self
            .f
            .values
            .get(v)
            .and_then(|v| v.annotation.as_tensor())
            .cloned();
        let known = info.and_then(|info| {
            let (dims, layout) = (info.dims()?.to_vec(), info.layout_or_abi()?);
            info.dtype?;
            Layout::new(dims.len(), layout.splits().to_vec()).ok()?;
            Some((layout.physical_shape(&dims), info))
        });
        if known.is_none() {
            let problem = format!("`{}` must be a tensor of known shape and type", self.name(v));
            self.report.add(place, problem);
        }
        known
    }

    fn program_call(
        &mut self,
        program: ProgramId,
        args: &[ValueId],
        outs: &[ValueId],
        sym_args: &[SymExpr],
        place: &str,
    ) {
        let Some(program) = self.module.programs.get(program) else {
            self.report.add(place, "calls a program that does not exist");
            return;
        };
        let inputs: Vec<BufferId> = program.inputs().collect();
        if inputs.len() != args.len() {
            let problem = format!(
                "passes {} tensors to `{}`, which takes {}",
                args.len(),
                program.name,
                inputs.len()
            );
            self.report.add(place, problem);
        }
        if program.sym_params.len() != sym_args.len() {
            let takes = program.sym_params.len();
            let problem = format!(
                "passes {} symbolic arguments to `{}`, which takes {takes}",
                sym_args.len(),
                program.name
            );
            self.report.add(place, problem);
            return;
        }
        let value_of = |v: &SymVar| {
            program
                .sym_params
                .iter()
                .position(|p| p == v)
                .map(|i| sym_args[i].clone())
        };
        let destinations = program.output().into_iter().chain(program.workspaces());
        for (operand, buffer) in args.iter().zip(inputs).chain(outs.iter().zip(destinations)) {
            let Some((shape, info)) = self.physical(*operand, place) else {
                continue;
            };
            let buffer = &program.buffers[buffer];
            let expected: Vec<SymExpr> = buffer.shape.iter().map(|d| d.substitute(&value_of)).collect();
            let same = shape.len() == expected.len()
                && shape
                    .iter()
                    .zip(&expected)
                    .all(|(a, b)| self.prover.equal(a, b) == Proof::Equal);
            if !same || info.dtype != Some(buffer.dtype) {
                let dtype = info.dtype.map_or("?", crate::annotation::DType::name);
                let problem = format!(
                    "`{}` is physically {dtype}{shape:?}, but buffer `{}` of `{}` is {}{expected:?}",
                    self.name(*operand),
                    buffer.name,
                    program.name,
                    buffer.dtype
                );
                self.report.add(place, problem);
            }
        }
    }

    fn view(&mut self, value: ValueId, of: ValueId, place: &str) {
        let (Some((new, new_info)), Some((old, old_info))) =
            (self.physical(value, place), self.physical(of, place))
        else {
            return;
        };
        if new_info.dtype != old_info.dtype
            || self.prover.equal(&product(&new), &product(&old)) != Proof::Equal
        {
            let text = |info: &TensorInfo| print_annotation(&Annotation::Tensor(info.clone()));
            self.report.add(
                place,
                format!("a view of {} as {}", text(&old_info), text(&new_info)),
            );
        }
    }

    fn alloc_tensor(&mut self, value: ValueId, storage: ValueId, offset: &SymExpr, place: &str) {
        let size = self
            .f
            .bindings()
            .find(|b| b.value == storage)
            .and_then(|b| match &b.expr {
                Expr::AllocStorage { bytes } => Some(bytes.clone()),
                _ => None,
            });
        let Some(size) = size else {
            let problem = format!("`{}` is no storage", self.name(storage));
            self.report.add(place, problem);
            return;
        };
        let Some((shape, info)) = self.physical(value, place) else {
            return;
        };
        let width = SymExpr::from(info.dtype.map_or(1, crate::annotation::DType::bytes));
        let end = offset.clone() + product(&shape) * width;
        // Provably beyond: the smallest value of the excess is positive.
        let excess = end.clone() - size.clone();
        if self.prover.bounds(&excess).0.is_some_and(|low| low > 0) {
            self.report
                .add(place, format!("ends at byte {end} of a storage of {size} bytes"));
        }
    }

    fn result(&mut self) {
        let place = self.place("result", self.f.result);
        if self.defined.get(self.f.result.index()) != Some(&true) {
            self.report.add(place, "is not defined");
            return;
        }
        let annotation = &self.f.values[self.f.result].annotation;
        self.abi(annotation, &place);
    }
}
