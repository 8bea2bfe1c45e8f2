//! Analysis of index expressions inside one stage: strides with respect to a loop variable, bounds under loop ranges,
//! removal of floor divisions by splitting loops, and merging of loops that are contiguous in every access.
//!
//! After [`normalise`] every access has one index, the element offset into its dense buffer, so that strides are read off a
//! polynomial and two loops can be recognised as one.

use relayout_ir::graph::SymDecl;
use relayout_ir::index::{Arena, Idx};
use relayout_ir::program::{Access, Buffer, BufferId, Loop, Scalar, Stage, StageBody};
use relayout_ir::sym::{Atom, SymExpr, SymVar};
use std::collections::BTreeMap;

/// Inclusive constant bounds of variables; a missing end is unknown.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    bounds: BTreeMap<SymVar, (Option<i64>, Option<i64>)>,
}

impl Ranges {
    /// The ranges declared for symbolic parameters. A parameter that is not declared is a dimension, hence at least 1.
    pub fn of_syms(params: &[SymVar], decls: &[SymDecl]) -> Self {
        let mut ranges = Ranges::default();
        for p in params {
            let (low, high) = decls
                .iter()
                .find(|d| d.var == *p)
                .map_or((1, None), |d| (d.low, d.high));
            ranges.bounds.insert(p.clone(), (Some(low), high));
        }
        ranges
    }
    /// Adds the range `0..extent` of a loop.
    pub fn add_loop(&mut self, l: &Loop) {
        let high = self.bounds(&l.extent).1.map(|e| e - 1);
        self.bounds.insert(l.var.clone(), (Some(0), high));
    }
    /// These ranges with those of a stage's loops.
    pub fn with_loops(&self, loops: &[Loop]) -> Self {
        let mut out = self.clone();
        for l in loops {
            out.add_loop(l);
        }
        out
    }
    /// Inclusive bounds of an expression by interval arithmetic.
    pub fn bounds(&self, e: &SymExpr) -> (Option<i64>, Option<i64>) {
        let (mut low, mut high) = (Some(0i64), Some(0i64));
        for (monomial, c) in e.terms() {
            let (mut ml, mut mh) = (Some(1i64), Some(1i64));
            for (atom, power) in monomial.factors() {
                let (al, ah) = self.atom_bounds(atom);
                for _ in 0..*power {
                    (ml, mh) = times((ml, mh), (al, ah));
                }
            }
            let (tl, th) = times((ml, mh), (Some(c), Some(c)));
            low = low.zip(tl).and_then(|(a, b)| a.checked_add(b));
            high = high.zip(th).and_then(|(a, b)| a.checked_add(b));
        }
        (low, high)
    }
    fn atom_bounds(&self, atom: &Atom) -> (Option<i64>, Option<i64>) {
        match atom {
            Atom::Var(v) => self.bounds.get(v).copied().unwrap_or((None, None)),
            Atom::FloorDiv(e, d) => {
                let (l, h) = self.bounds(e);
                (l.map(|l| l.div_euclid(*d)), h.map(|h| h.div_euclid(*d)))
            }
            Atom::Mod(e, d) => match self.bounds(e) {
                (Some(l), Some(h)) if l >= 0 && h < *d => (Some(l), Some(h)),
                _ => (Some(0), Some(d - 1)),
            },
            Atom::Min(a, b) => {
                let ((al, ah), (bl, bh)) = (self.bounds(a), self.bounds(b));
                let high = match (ah, bh) {
                    (Some(x), Some(y)) => Some(x.min(y)),
                    (x, y) => x.or(y),
                };
                (al.zip(bl).map(|(x, y)| x.min(y)), high)
            }
            Atom::Max(a, b) => {
                let ((al, ah), (bl, bh)) = (self.bounds(a), self.bounds(b));
                let low = match (al, bl) {
                    (Some(x), Some(y)) => Some(x.max(y)),
                    (x, y) => x.or(y),
                };
                (low, ah.zip(bh).map(|(x, y)| x.max(y)))
            }
        }
    }
    /// Whether the expression is known not to be negative.
    pub fn non_negative(&self, e: &SymExpr) -> bool {
        self.bounds(e).0.is_some_and(|l| l >= 0)
    }
    /// Replaces floor divisions, remainders, minima and maxima that the ranges decide.
    pub fn simplify(&self, e: &SymExpr) -> SymExpr {
        let mut out = SymExpr::zero();
        for (monomial, c) in e.terms() {
            let mut product = SymExpr::constant(c);
            for (atom, power) in monomial.factors() {
                let value = self.simplify_atom(atom);
                for _ in 0..*power {
                    product = product * value.clone();
                }
            }
            out = out + product;
        }
        out
    }
    fn simplify_atom(&self, atom: &Atom) -> SymExpr {
        let within = |e: &SymExpr, d: i64| matches!(self.bounds(e), (Some(l), Some(h)) if l >= 0 && h < d);
        match atom {
            Atom::Var(v) => match self.bounds.get(v) {
                Some((Some(l), Some(h))) if l == h => SymExpr::constant(*l),
                _ => SymExpr::var(v),
            },
            Atom::FloorDiv(e, d) => {
                let e = self.simplify(e);
                if within(&e, *d) {
                    return SymExpr::zero();
                }
                let out = e.floor_div(*d);
                // The remaining floor may be decided once the divisible part has left it.
                match out.as_single_atom() {
                    Some(Atom::FloorDiv(..)) => out,
                    _ => self.simplify(&out),
                }
            }
            Atom::Mod(e, d) => {
                let e = self.simplify(e);
                match e.modulo(*d).as_single_atom() {
                    Some(Atom::Mod(rest, _)) if within(rest, *d) => (**rest).clone(),
                    _ => e.modulo(*d),
                }
            }
            Atom::Min(a, b) => {
                let (a, b) = (self.simplify(a), self.simplify(b));
                match self.bounds(&(a.clone() - b.clone())) {
                    (_, Some(h)) if h <= 0 => a,
                    (Some(l), _) if l >= 0 => b,
                    _ => a.minimum(&b),
                }
            }
            Atom::Max(a, b) => {
                let (a, b) = (self.simplify(a), self.simplify(b));
                match self.bounds(&(a.clone() - b.clone())) {
                    (_, Some(h)) if h <= 0 => b,
                    (Some(l), _) if l >= 0 => a,
                    _ => a.maximum(&b),
                }
            }
        }
    }
}

type Interval = (Option<i64>, Option<i64>);

fn times(a: Interval, b: Interval) -> Interval {
    match (a, b) {
        ((Some(al), Some(ah)), (Some(bl), Some(bh))) => {
            let products = [
                al.checked_mul(bl),
                al.checked_mul(bh),
                ah.checked_mul(bl),
                ah.checked_mul(bh),
            ];
            let all: Option<Vec<i64>> = products.into_iter().collect();
            match all {
                Some(p) => (p.iter().min().copied(), p.iter().max().copied()),
                None => (None, None),
            }
        }
        // Half-open intervals of non-negative factors.
        ((Some(al), ah), (Some(bl), bh)) if al >= 0 && bl >= 0 => {
            (al.checked_mul(bl), ah.zip(bh).and_then(|(x, y)| x.checked_mul(y)))
        }
        // A non-negative half-open interval times a non-positive constant interval.
        ((Some(al), None), (Some(_), Some(bh))) if al >= 0 && bh <= 0 => (None, al.checked_mul(bh)),
        ((Some(_), Some(_)), (Some(bl), None)) if bl >= 0 => times(b, a),
        _ => (None, None),
    }
}

/// Whether a variable occurs anywhere in an expression.
pub fn mentions(e: &SymExpr, var: &SymVar) -> bool {
    e.terms().any(|(m, _)| {
        m.factors().iter().any(|(atom, _)| match atom {
            Atom::Var(v) => v == var,
            Atom::FloorDiv(e, _) | Atom::Mod(e, _) => mentions(e, var),
            Atom::Min(a, b) | Atom::Max(a, b) => mentions(a, var) || mentions(b, var),
        })
    })
}

/// The coefficient of `var` if the expression is affine in it: `e(var + 1) − e(var)`.
pub fn stride(e: &SymExpr, var: &SymVar) -> Option<SymExpr> {
    if !mentions(e, var) {
        return Some(SymExpr::zero());
    }
    let next = SymExpr::var(var) + SymExpr::constant(1);
    let step = e.substitute(&|v| (v == var).then(|| next.clone())) - e.clone();
    (!mentions(&step, var)).then_some(step)
}

/// The expression with `var` replaced.
pub fn substitute_one(e: &SymExpr, var: &SymVar, with: &SymExpr) -> SymExpr {
    if mentions(e, var) {
        e.substitute(&|v| (v == var).then(|| with.clone()))
    } else {
        e.clone()
    }
}

/// Applies a function to every index expression of a scalar (loads and index values).
pub fn map_scalar_indices(s: &Scalar, f: &mut dyn FnMut(&SymExpr) -> SymExpr) -> Scalar {
    match s {
        Scalar::Const(..) | Scalar::Reduced => s.clone(),
        Scalar::Load(a) => Scalar::Load(map_access(a, f)),
        Scalar::Gather { buffer, index } => Scalar::Gather {
            buffer: *buffer,
            index: index.iter().map(|i| map_scalar_indices(i, f)).collect(),
        },
        Scalar::Index(e) => Scalar::Index(f(e)),
        Scalar::Unary(op, a) => Scalar::Unary(*op, Box::new(map_scalar_indices(a, f))),
        Scalar::Binary(op, a, b) => Scalar::Binary(
            *op,
            Box::new(map_scalar_indices(a, f)),
            Box::new(map_scalar_indices(b, f)),
        ),
        Scalar::Select(c, a, b) => Scalar::Select(
            Box::new(map_scalar_indices(c, f)),
            Box::new(map_scalar_indices(a, f)),
            Box::new(map_scalar_indices(b, f)),
        ),
        Scalar::Cast(t, a) => Scalar::Cast(*t, Box::new(map_scalar_indices(a, f))),
    }
}

fn map_access(a: &Access, f: &mut dyn FnMut(&SymExpr) -> SymExpr) -> Access {
    Access {
        buffer: a.buffer,
        index: a.index.iter().map(f).collect(),
    }
}

/// Applies a function to every index expression of a stage (not to extents).
pub fn map_stage_indices(stage: &Stage, f: &mut dyn FnMut(&SymExpr) -> SymExpr) -> Stage {
    let body = match &stage.body {
        StageBody::Map(v) => StageBody::Map(map_scalar_indices(v, f)),
        StageBody::Reduce {
            combiner,
            value,
            epilogue,
        } => StageBody::Reduce {
            combiner: *combiner,
            value: map_scalar_indices(value, f),
            epilogue: map_scalar_indices(epilogue, f),
        },
        StageBody::Contract { a, b, epilogue } => StageBody::Contract {
            a: map_access(a, f),
            b: map_access(b, f),
            epilogue: map_scalar_indices(epilogue, f),
        },
    };
    Stage {
        loops: stage.loops.clone(),
        output: stage.output,
        index: stage.index.iter().map(f).collect(),
        body,
    }
}

/// Calls a function on every load of a scalar.
pub fn visit_loads(s: &Scalar, f: &mut dyn FnMut(&Access)) {
    match s {
        Scalar::Const(..) | Scalar::Reduced | Scalar::Index(_) => {}
        Scalar::Load(a) => f(a),
        Scalar::Gather { index, .. } => index.iter().for_each(|i| visit_loads(i, f)),
        Scalar::Unary(_, a) | Scalar::Cast(_, a) => visit_loads(a, f),
        Scalar::Binary(_, a, b) => {
            visit_loads(a, f);
            visit_loads(b, f);
        }
        Scalar::Select(c, a, b) => {
            visit_loads(c, f);
            visit_loads(a, f);
            visit_loads(b, f);
        }
    }
}

/// Calls a function on every part of a scalar, outermost first.
pub fn visit_scalar(s: &Scalar, f: &mut dyn FnMut(&Scalar)) {
    f(s);
    match s {
        Scalar::Const(..) | Scalar::Reduced | Scalar::Index(_) | Scalar::Load(_) => {}
        Scalar::Gather { index, .. } => index.iter().for_each(|i| visit_scalar(i, f)),
        Scalar::Unary(_, a) | Scalar::Cast(_, a) => visit_scalar(a, f),
        Scalar::Binary(_, a, b) => {
            visit_scalar(a, f);
            visit_scalar(b, f);
        }
        Scalar::Select(c, a, b) => {
            visit_scalar(c, f);
            visit_scalar(a, f);
            visit_scalar(b, f);
        }
    }
}

/// The scalars of a stage's body.
pub fn body_scalars(body: &StageBody) -> Vec<&Scalar> {
    match body {
        StageBody::Map(v) => vec![v],
        StageBody::Reduce { value, epilogue, .. } => vec![value, epilogue],
        StageBody::Contract { epilogue, .. } => vec![epilogue],
    }
}

/// Calls a function on every affine load of a stage, contraction factors included.
pub fn visit_stage_loads(stage: &Stage, f: &mut dyn FnMut(&Access)) {
    if let StageBody::Contract { a, b, .. } = &stage.body {
        f(a);
        f(b);
    }
    for s in body_scalars(&stage.body) {
        visit_loads(s, f);
    }
}

/// The buffers that a stage reads.
pub fn buffers_read(stage: &Stage) -> Vec<BufferId> {
    let mut out = Vec::new();
    visit_stage_loads(stage, &mut |a| out.push(a.buffer));
    for s in body_scalars(&stage.body) {
        visit_scalar(s, &mut |s| {
            if let Scalar::Gather { buffer, .. } = s {
                out.push(*buffer);
            }
        });
    }
    out.sort_by_key(|b| b.index());
    out.dedup();
    out
}

/// Row-major strides of a shape, in elements.
pub fn row_major_strides(shape: &[SymExpr]) -> Vec<SymExpr> {
    let mut strides = vec![SymExpr::constant(1); shape.len()];
    for d in (0..shape.len().saturating_sub(1)).rev() {
        strides[d] = strides[d + 1].clone() * shape[d + 1].clone();
    }
    strides
}

/// The element offset of an index into a dense buffer.
pub fn offset(shape: &[SymExpr], index: &[SymExpr]) -> SymExpr {
    row_major_strides(shape)
        .into_iter()
        .zip(index)
        .fold(SymExpr::zero(), |sum, (s, i)| sum + s * i.clone())
}

fn flatten_scalar(s: &Scalar, buffers: &Arena<BufferId, Buffer>) -> Scalar {
    match s {
        Scalar::Load(a) => Scalar::Load(flatten_access(a, buffers)),
        Scalar::Const(..) | Scalar::Reduced | Scalar::Index(_) => s.clone(),
        Scalar::Gather { buffer, index } => Scalar::Gather {
            buffer: *buffer,
            index: index.iter().map(|i| flatten_scalar(i, buffers)).collect(),
        },
        Scalar::Unary(op, a) => Scalar::Unary(*op, Box::new(flatten_scalar(a, buffers))),
        Scalar::Binary(op, a, b) => Scalar::Binary(
            *op,
            Box::new(flatten_scalar(a, buffers)),
            Box::new(flatten_scalar(b, buffers)),
        ),
        Scalar::Select(c, a, b) => Scalar::Select(
            Box::new(flatten_scalar(c, buffers)),
            Box::new(flatten_scalar(a, buffers)),
            Box::new(flatten_scalar(b, buffers)),
        ),
        Scalar::Cast(t, a) => Scalar::Cast(*t, Box::new(flatten_scalar(a, buffers))),
    }
}

fn flatten_access(a: &Access, buffers: &Arena<BufferId, Buffer>) -> Access {
    Access {
        buffer: a.buffer,
        index: vec![offset(&buffers[a.buffer].shape, &a.index)],
    }
}

/// The stage with every access and its output index flattened to an element offset.
fn flatten(stage: &Stage, buffers: &Arena<BufferId, Buffer>) -> Stage {
    let body = match &stage.body {
        StageBody::Map(v) => StageBody::Map(flatten_scalar(v, buffers)),
        StageBody::Reduce {
            combiner,
            value,
            epilogue,
        } => StageBody::Reduce {
            combiner: *combiner,
            value: flatten_scalar(value, buffers),
            epilogue: flatten_scalar(epilogue, buffers),
        },
        StageBody::Contract { a, b, epilogue } => StageBody::Contract {
            a: flatten_access(a, buffers),
            b: flatten_access(b, buffers),
            epilogue: flatten_scalar(epilogue, buffers),
        },
    };
    Stage {
        loops: stage.loops.clone(),
        output: stage.output,
        index: vec![offset(&buffers[stage.output].shape, &stage.index)],
        body,
    }
}

/// The constant factors by which floor division or remainder takes a loop variable apart, over all indices of the stage.
fn split_factor(stage: &Stage, var: &SymVar) -> Option<i64> {
    fn search(e: &SymExpr, var: &SymVar, found: &mut Option<i64>) {
        for (m, _) in e.terms() {
            for (atom, _) in m.factors() {
                match atom {
                    Atom::Var(_) => {}
                    Atom::FloorDiv(inner, d) | Atom::Mod(inner, d) => {
                        search(inner, var, found);
                        let splits = stride(inner, var)
                            .and_then(|s| s.as_const())
                            .is_some_and(|s| s > 0 && d % s == 0 && d / s > 1);
                        if splits {
                            let s = stride(inner, var).and_then(|s| s.as_const()).unwrap_or(1);
                            let factor = d / s;
                            *found = Some(found.map_or(factor, |f| f.min(factor)));
                        }
                    }
                    Atom::Min(a, b) | Atom::Max(a, b) => {
                        search(a, var, found);
                        search(b, var, found);
                    }
                }
            }
        }
    }
    let mut found = None;
    map_stage_indices(stage, &mut |e| {
        search(e, var, &mut found);
        e.clone()
    });
    found
}

/// Splits loops whose variable is taken apart by constant division, where the extent is a multiple of the divisor, so that
/// the division disappears (Halide's split). Other divisions stay.
fn split_loops(mut stage: Stage, ranges: &Ranges) -> Stage {
    let mut position = 0;
    let mut budget = 16;
    while position < stage.loops.len() {
        let l = stage.loops[position].clone();
        let factor = split_factor(&stage, &l.var)
            .filter(|f| budget > 0 && l.extent.modulo(*f).is_const(0) && !l.extent.is_const(*f));
        let Some(factor) = factor else {
            position += 1;
            continue;
        };
        budget -= 1;
        let (outer, inner) = (
            SymVar::new(format!("{}_o", l.var.name())),
            SymVar::new(format!("{}_i", l.var.name())),
        );
        let value = SymExpr::var(&outer) * SymExpr::constant(factor) + SymExpr::var(&inner);
        let outer_loop = Loop {
            var: outer,
            extent: l.extent.floor_div(factor),
            kind: l.kind,
        };
        let inner_loop = Loop {
            var: inner,
            extent: SymExpr::constant(factor),
            kind: l.kind,
        };
        stage.loops.splice(position..=position, [outer_loop, inner_loop]);
        let inside = ranges.with_loops(&stage.loops);
        stage = map_stage_indices(&stage, &mut |e| {
            inside.simplify(&substitute_one(e, &l.var, &value))
        });
    }
    stage
}

/// Replaces loops of extent 1 by 0.
fn drop_unit_loops(stage: Stage) -> Stage {
    let unit: Vec<SymVar> = stage
        .loops
        .iter()
        .filter(|l| l.extent.is_const(1))
        .map(|l| l.var.clone())
        .collect();
    if unit.is_empty() {
        return stage;
    }
    let mut out = map_stage_indices(&stage, &mut |e| {
        e.substitute(&|v| unit.contains(v).then(SymExpr::zero))
    });
    out.loops.retain(|l| !l.extent.is_const(1));
    out
}

/// Merges an outer and an inner loop of one kind into one where every access walks them contiguously
/// (`stride(outer) = extent(inner) · stride(inner)`), so that a 1×1 convolution over rows and columns is one loop.
fn merge_loops(mut stage: Stage) -> Stage {
    loop {
        let pair = (0..stage.loops.len())
            .flat_map(|i| (0..stage.loops.len()).map(move |j| (i, j)))
            .find(|&(i, j)| i != j && mergeable(&stage, i, j));
        let Some((i, j)) = pair else { return stage };
        let (outer, inner) = (stage.loops[i].clone(), stage.loops[j].clone());
        let merged = Loop {
            var: SymVar::new(format!("{}_{}", outer.var.name(), inner.var.name())),
            extent: outer.extent.clone() * inner.extent.clone(),
            kind: outer.kind,
        };
        // Affine in both with proportional strides: outer := 0, inner := merged.
        stage = map_stage_indices(&stage, &mut |e| {
            let e = substitute_one(e, &outer.var, &SymExpr::zero());
            substitute_one(&e, &inner.var, &SymExpr::var(&merged.var))
        });
        stage.loops[i] = merged;
        stage.loops.remove(j);
    }
}

fn mergeable(stage: &Stage, i: usize, j: usize) -> bool {
    let (outer, inner) = (&stage.loops[i], &stage.loops[j]);
    if outer.kind != inner.kind {
        return false;
    }
    let mut ok = true;
    let mut used = false;
    map_stage_indices(stage, &mut |e| {
        match (stride(e, &outer.var), stride(e, &inner.var)) {
            (Some(so), Some(si)) => {
                used |= so != SymExpr::zero();
                ok &= so == si * inner.extent.clone();
            }
            _ => ok = false,
        }
        e.clone()
    });
    ok && used
}

/// The stage in the form the scheduler and the printer work on: flat offsets, no divisions that splitting removes, no unit
/// loops, contiguous loops merged.
pub fn normalise(stage: &Stage, buffers: &Arena<BufferId, Buffer>, ranges: &Ranges) -> Stage {
    let inside = ranges.with_loops(&stage.loops);
    let simplified = map_stage_indices(stage, &mut |e| inside.simplify(e));
    let split = split_loops(simplified, ranges);
    let flat = drop_unit_loops(flatten(&split, buffers));
    let inside = ranges.with_loops(&flat.loops);
    merge_loops(map_stage_indices(&flat, &mut |e| inside.simplify(e)))
}
