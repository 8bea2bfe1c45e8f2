//! Dynamic shape-aware memory planning (Relax algorithm 3): tensors whose lives do not overlap share a storage when one size
//! provably serves both.
//!
//! A free storage serves a request when the sizes are equal as symbolic expressions, or when the declared ranges prove it large enough.
//! With upper bounds asked for, sizes are taken at the variables' declared maxima, so that all sizes are constants and the plan is
//! static. Among fitting storages the smallest is taken; a free storage whose constant size is too small is grown, since its
//! allocation is still ours to size. Quadratic in the number of storages at worst.

use crate::affine::Ranges;
use relayout_ir::annotation::Annotation;
use relayout_ir::graph::{Binding, Expr, GraphFunction, Module, Value, ValueId};
use relayout_ir::sym::SymExpr;
use std::collections::{BTreeMap, BTreeSet};

/// Whether and how storages are shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryOptions {
    /// Take sizes at the declared upper bounds of the symbolic variables, where all have one.
    pub upper_bounds: bool,
    /// One storage per tensor (an ablation).
    pub no_reuse: bool,
}

/// A storage of the plan.
#[derive(Clone, PartialEq, Debug)]
pub struct Storage {
    /// The function.
    pub function: String,
    /// Its size.
    pub bytes: SymExpr,
    /// The tensors that share it, in order of their lives.
    pub tensors: Vec<String>,
}

struct Planned {
    value: ValueId,
    bytes: SymExpr,
    tensors: Vec<ValueId>,
    last_use: usize,
}

/// Plans every function and returns the storages.
pub fn plan_memory(module: &mut Module, options: MemoryOptions) -> Vec<Storage> {
    let mut plan = Vec::new();
    for f in module.functions.ids().collect::<Vec<_>>() {
        let function = &mut module.functions[f];
        let storages = plan_function(function, options);
        for s in storages {
            plan.push(Storage {
                function: function.name.clone(),
                bytes: s.bytes,
                tensors: s
                    .tensors
                    .iter()
                    .map(|t| function.values[*t].name.clone())
                    .collect(),
            });
        }
    }
    plan
}

fn plan_function(function: &mut GraphFunction, options: MemoryOptions) -> Vec<Planned> {
    let params: Vec<_> = function.syms.iter().map(|d| d.var.clone()).collect();
    let ranges = Ranges::of_syms(&params, &function.syms);
    let bindings: Vec<Binding> = function.blocks.iter().flat_map(|b| b.bindings.clone()).collect();
    let roots = roots(&bindings);
    let last_use = last_uses(&bindings, &roots, function.result);
    let requested: BTreeMap<ValueId, SymExpr> = bindings
        .iter()
        .filter_map(|b| match &b.expr {
            Expr::AllocStorage { bytes } => Some((b.value, bytes.clone())),
            _ => None,
        })
        .collect();
    let bound = |e: &SymExpr| -> SymExpr {
        match ranges.bounds(e).1 {
            Some(high) if options.upper_bounds => SymExpr::constant(high),
            _ => e.clone(),
        }
    };
    let mut storages: Vec<Planned> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    // For each tensor, its storage.
    let mut place: BTreeMap<ValueId, usize> = BTreeMap::new();
    // Tensors that die after each binding.
    let mut dying: BTreeMap<usize, Vec<ValueId>> = BTreeMap::new();
    for (&root, &at) in &last_use {
        dying.entry(at).or_default().push(root);
    }
    for (at, binding) in bindings.iter().enumerate() {
        if let Expr::AllocTensor { storage, .. } = &binding.expr {
            let bytes = requested.get(storage).map(&bound).unwrap_or_default();
            let found = if options.no_reuse {
                None
            } else {
                request(&storages, &free, &bytes, &ranges)
            };
            let index = match found {
                Some(index) => {
                    free.retain(|f| *f != index);
                    if let (Some(have), Some(want)) = (storages[index].bytes.as_const(), bytes.as_const())
                        && want > have
                    {
                        storages[index].bytes = bytes;
                    }
                    index
                }
                None => {
                    storages.push(Planned {
                        value: *storage,
                        bytes,
                        tensors: Vec::new(),
                        last_use: at,
                    });
                    storages.len() - 1
                }
            };
            storages[index].tensors.push(binding.value);
            storages[index].last_use = last_use.get(&binding.value).copied().unwrap_or(at);
            place.insert(binding.value, index);
        }
        // A tensor that is never used dies where it is made.
        for dead in dying.get(&at).into_iter().flatten() {
            if let Some(index) = place.get(dead) {
                free.push(*index);
            }
        }
    }
    rewrite(function, &storages, &place, &last_use);
    storages
}

/// The free storage that serves a request best: equal size first, then the smallest that is provably large enough, then the largest
/// of constant size, to be grown.
fn request(storages: &[Planned], free: &[usize], bytes: &SymExpr, ranges: &Ranges) -> Option<usize> {
    if let Some(equal) = free.iter().copied().find(|&i| storages[i].bytes == *bytes) {
        return Some(equal);
    }
    if let Some(want) = bytes.as_const() {
        let constant = |i: &usize| storages[*i].bytes.as_const().map(|have| (have, *i));
        let fitting = free
            .iter()
            .filter_map(constant)
            .filter(|(have, _)| *have >= want)
            .min();
        let growing = free.iter().filter_map(constant).max();
        return fitting.or(growing).map(|(_, i)| i);
    }
    free.iter()
        .copied()
        .find(|&i| ranges.non_negative(&(storages[i].bytes.clone() - bytes.clone())))
}

/// The tensors that each value is, or is made of.
fn roots(bindings: &[Binding]) -> BTreeMap<ValueId, BTreeSet<ValueId>> {
    let mut roots: BTreeMap<ValueId, BTreeSet<ValueId>> = BTreeMap::new();
    for b in bindings {
        let of = |v: &ValueId, roots: &BTreeMap<ValueId, BTreeSet<ValueId>>| {
            roots.get(v).cloned().unwrap_or_else(|| BTreeSet::from([*v]))
        };
        let set = match &b.expr {
            Expr::View(v) | Expr::MatchCast(v, _) | Expr::TupleGet(v, _) => of(v, &roots),
            Expr::Tuple(items) => items.iter().flat_map(|v| of(v, &roots)).collect(),
            // What a called function returns may be one of its arguments.
            Expr::CallGraph { args, .. } => {
                let mut set: BTreeSet<ValueId> = args.iter().flat_map(|v| of(v, &roots)).collect();
                set.insert(b.value);
                set
            }
            _ => BTreeSet::from([b.value]),
        };
        roots.insert(b.value, set);
    }
    roots
}

/// The values that an expression reads.
pub fn operands(expr: &Expr) -> Vec<ValueId> {
    match expr {
        Expr::Op { args, .. }
        | Expr::CallGraph { args, .. }
        | Expr::CallTir { args, .. }
        | Expr::CallDpsLibrary { args, .. }
        | Expr::Tuple(args) => args.clone(),
        Expr::Invoke { args, outs, .. } => args.iter().chain(outs).copied().collect(),
        Expr::TupleGet(v, _) | Expr::MatchCast(v, _) | Expr::View(v) | Expr::Kill(v) => vec![*v],
        Expr::AllocTensor { storage, .. } => vec![*storage],
        Expr::Constant(_) | Expr::Shape(_) | Expr::AllocStorage { .. } => Vec::new(),
    }
}

/// The position after which each tensor is no longer needed; tensors that the result is made of have none.
fn last_uses(
    bindings: &[Binding],
    roots: &BTreeMap<ValueId, BTreeSet<ValueId>>,
    result: ValueId,
) -> BTreeMap<ValueId, usize> {
    let mut last = BTreeMap::new();
    for (at, b) in bindings.iter().enumerate() {
        last.entry(b.value).or_insert(at);
        for v in operands(&b.expr) {
            match roots.get(&v) {
                Some(set) => {
                    for r in set {
                        last.insert(*r, at);
                    }
                }
                None => {
                    last.insert(v, at);
                }
            }
        }
    }
    if let Some(set) = roots.get(&result) {
        for r in set {
            last.remove(r);
        }
    }
    last
}

/// One allocation per storage, before its first tensor; each storage and tensor is killed after its last use.
fn rewrite(
    function: &mut GraphFunction,
    storages: &[Planned],
    place: &BTreeMap<ValueId, usize>,
    last_use: &BTreeMap<ValueId, usize>,
) {
    let mut at = 0;
    let mut blocks = std::mem::take(&mut function.blocks);
    for block in &mut blocks {
        let mut out = Vec::new();
        for binding in std::mem::take(&mut block.bindings) {
            match &binding.expr {
                Expr::AllocStorage { .. } => {}
                Expr::AllocTensor { offset, .. } => {
                    if let Some(&index) = place.get(&binding.value) {
                        let s = &storages[index];
                        if s.tensors.first() == Some(&binding.value) {
                            out.push(Binding {
                                value: s.value,
                                expr: Expr::AllocStorage {
                                    bytes: s.bytes.clone(),
                                },
                            });
                        }
                        out.push(Binding {
                            value: binding.value,
                            expr: Expr::AllocTensor {
                                storage: s.value,
                                offset: offset.clone(),
                            },
                        });
                    }
                }
                _ => out.push(binding),
            }
            let mut dead: Vec<ValueId> = place
                .keys()
                .filter(|t| last_use.get(t) == Some(&at))
                .copied()
                .collect();
            dead.extend(
                storages
                    .iter()
                    .filter(|s| {
                        s.last_use == at && s.tensors.last().is_some_and(|t| last_use.contains_key(t))
                    })
                    .map(|s| s.value),
            );
            for v in dead {
                let name = crate::workspace::fresh(function, &format!("{}_end", function.values[v].name));
                let value = function.values.push(Value {
                    name,
                    annotation: Annotation::Tuple(Vec::new()),
                });
                out.push(Binding {
                    value,
                    expr: Expr::Kill(v),
                });
            }
            at += 1;
        }
        block.bindings = out;
    }
    function.blocks = blocks;
}
