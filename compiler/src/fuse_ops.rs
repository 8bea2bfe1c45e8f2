//! FuseOps (Relax algorithm 2): calls whose programs can be merged are lifted into functions of their own.
//!
//! A group grows from a call by element-wise consumers of its result, as long as the result has no other consumer, so that nothing is
//! computed twice: contraction or reduction with its element-wise epilogues (residual additions included), chains of
//! element-wise calls, and maps into the one consumer that reads each of their elements once. Whether two programs merge is
//! asked of the merger itself (`fuse_tir::merge`), so both always agree.

use crate::affine;
use crate::fuse_tir::{FUSED, Member, merge};
use crate::memory::operands;
use relayout_ir::annotation::{Annotation, ShapeInfo};
use relayout_ir::graph::{Binding, Block, BlockKind, Expr, GraphFunction, Module, Value, ValueId};
use relayout_ir::index::Arena;
use relayout_ir::program::{BufferRole, PatternKind, TensorProgram};
use relayout_ir::sym::{Atom, SymExpr, SymVar};
use std::collections::{BTreeMap, BTreeSet};

/// Groups the calls of every function.
pub fn fuse_ops(module: &mut Module) {
    let mut counter = 0;
    for f in module.functions.ids().collect::<Vec<_>>() {
        if module.functions[f].name.starts_with(FUSED) {
            continue;
        }
        fuse_function(module, f, &mut counter);
    }
}

/// The call of a binding, for merging.
fn member<'a>(module: &'a Module, binding: &Binding) -> Option<Member<'a>> {
    let Expr::CallTir {
        program,
        args,
        sym_args,
    } = &binding.expr
    else {
        return None;
    };
    Some(Member {
        program: &module.programs[*program],
        args: args.clone(),
        sym_args: sym_args.clone(),
        value: binding.value,
    })
}

fn kind(m: &Member<'_>) -> PatternKind {
    m.program.kind.unwrap_or_else(|| crate::kind::kind_of(m.program))
}

fn is_map(k: PatternKind) -> bool {
    matches!(
        k,
        PatternKind::ElementWise | PatternKind::Broadcast | PatternKind::Injective
    )
}

/// Whether a map reads a value along the axis in which it is contiguous as it writes its own result along its contiguous axis. An
/// epilogue that does not (a conversion from NHWC to NCHW, say) would take the vectors from the contraction before it.
fn keeps_contiguity(consumer: &Member<'_>, value: ValueId) -> bool {
    let Some(stage) = consumer.program.stages.last() else {
        return false;
    };
    let innermost = |index: &[SymExpr]| index.iter().rev().find(|e| e.as_const().is_none()).cloned();
    let Some(along) = innermost(&stage.index).and_then(|e| e.as_var().cloned()) else {
        return false;
    };
    let follows = |read: &SymExpr| match read.as_single_atom() {
        Some(Atom::Mod(e, _)) => affine::stride(e, &along).is_some_and(|s| s.is_const(1)),
        _ => affine::stride(read, &along).is_some_and(|s| s.is_const(1)),
    };
    let inputs = consumer
        .program
        .buffers
        .iter()
        .filter(|(_, b)| b.role == BufferRole::Input);
    let buffers: Vec<_> = inputs
        .zip(&consumer.args)
        .filter(|(_, arg)| **arg == value)
        .map(|((id, _), _)| id)
        .collect();
    let mut kept = true;
    affine::visit_stage_loads(stage, &mut |a| {
        if buffers.contains(&a.buffer) {
            kept &= innermost(&a.index).is_none_or(|e| follows(&e));
        }
    });
    kept
}

/// Whether merging two calls removes the buffer between them.
fn merges(producer: &Member<'_>, consumer: &Member<'_>) -> bool {
    let mut inputs: Vec<ValueId> = Vec::new();
    for a in producer.args.iter().chain(&consumer.args) {
        if *a != producer.value && !inputs.contains(a) {
            inputs.push(*a);
        }
    }
    let copy = |m: &Member<'_>| -> (TensorProgram, Vec<ValueId>, Vec<SymExpr>, ValueId) {
        (m.program.clone(), m.args.clone(), m.sym_args.clone(), m.value)
    };
    let (p, c) = (copy(producer), copy(consumer));
    let members = [
        Member {
            program: &p.0,
            args: p.1,
            sym_args: p.2,
            value: p.3,
        },
        Member {
            program: &c.0,
            args: c.1,
            sym_args: c.2,
            value: c.3,
        },
    ];
    let workspaces = |p: &TensorProgram| {
        p.buffers
            .iter()
            .filter(|(_, b)| b.role == BufferRole::Workspace)
            .count()
    };
    let own = workspaces(producer.program) + workspaces(consumer.program);
    merge(&members, &inputs, consumer.value, &[], "trial").is_some_and(|m| workspaces(&m) <= own)
}

fn fuse_function(module: &mut Module, f: relayout_ir::graph::FuncId, counter: &mut usize) {
    let function = module.functions[f].clone();
    // How many bindings read each value; the result counts as one more.
    let mut consumers: BTreeMap<ValueId, usize> = BTreeMap::new();
    for b in function.bindings() {
        for v in operands(&b.expr).into_iter().collect::<BTreeSet<_>>() {
            *consumers.entry(v).or_insert(0) += 1;
        }
    }
    *consumers.entry(function.result).or_insert(0) += 1;
    let mut blocks = Vec::new();
    let mut function = function;
    for block in std::mem::take(&mut function.blocks) {
        if block.kind != BlockKind::Dataflow {
            blocks.push(block);
            continue;
        }
        let group_of = groups(module, &block.bindings, &consumers);
        blocks.push(rebuild(module, &mut function, block, &group_of, counter));
    }
    function.blocks = blocks;
    module.functions[f] = function;
}

/// The group of each binding (a binding's own position when it is alone).
fn groups(module: &Module, bindings: &[Binding], consumers: &BTreeMap<ValueId, usize>) -> Vec<usize> {
    let position: BTreeMap<ValueId, usize> = bindings.iter().enumerate().map(|(i, b)| (b.value, i)).collect();
    let mut group: Vec<usize> = (0..bindings.len()).collect();
    for (i, binding) in bindings.iter().enumerate() {
        let Some(consumer) = member(module, binding) else {
            continue;
        };
        let k = kind(&consumer);
        let reduction = k == PatternKind::Reduction && consumer.program.stages.len() == 1;
        if !is_map(k) && !reduction {
            continue;
        }
        // Producers that only this call reads, the latest first.
        let mut producers: Vec<usize> = consumer
            .args
            .iter()
            .filter(|a| consumers.get(a) == Some(&1))
            .filter_map(|a| position.get(a).copied())
            .collect();
        producers.sort_unstable_by(|a, b| b.cmp(a));
        producers.dedup();
        let mut anchored = false;
        // A contraction or reduction first: its epilogue takes the call; one at most.
        let mut ordered: Vec<(usize, PatternKind)> = producers
            .iter()
            .filter_map(|&p| Some((p, kind(&member(module, &bindings[p])?))))
            .collect();
        ordered.sort_by_key(|(p, k)| {
            let rank = match k {
                PatternKind::OutputEwiseFusible => 0,
                PatternKind::Reduction => 1,
                _ => 2,
            };
            (rank, std::cmp::Reverse(*p))
        });
        for (p, pk) in ordered {
            let whole = |g: usize| -> Vec<usize> { (0..i).filter(|&j| group[j] == g).collect() };
            let heavy = whole(group[p])
                .iter()
                .any(|&j| member(module, &bindings[j]).is_some_and(|m| !is_map(kind(&m))));
            if (heavy || !is_map(pk)) && (anchored || reduction) {
                continue;
            }
            if pk == PatternKind::Opaque {
                continue;
            }
            let Some(producer) = member(module, &bindings[p]) else {
                continue;
            };
            if (heavy || !is_map(pk)) && !keeps_contiguity(&consumer, producer.value) {
                continue;
            }
            if !merges(&producer, &consumer) {
                continue;
            }
            anchored |= heavy || !is_map(pk);
            let (from, to) = (group[p], group[i]);
            for g in &mut group {
                if *g == from {
                    *g = to;
                }
            }
        }
    }
    group
}

/// The block with every group of several calls replaced by a call of a new function, at the place of the group's last call.
fn rebuild(
    module: &mut Module,
    function: &mut GraphFunction,
    block: Block,
    group_of: &[usize],
    counter: &mut usize,
) -> Block {
    let mut out = Vec::new();
    for (i, binding) in block.bindings.iter().enumerate() {
        let group = group_of[i];
        let members: Vec<&Binding> = block
            .bindings
            .iter()
            .zip(group_of)
            .filter(|(_, g)| **g == group)
            .map(|(b, _)| b)
            .collect();
        if members.len() == 1 {
            out.push(binding.clone());
        } else if members.last().is_some_and(|b| b.value == binding.value) {
            lift(module, function, &members, counter, &mut out);
        }
    }
    Block {
        kind: block.kind,
        bindings: out,
    }
}

/// Lifts a group into a function. Symbolic variables that no tensor parameter binds arrive in one more parameter, a shape
/// (Relax §4.2, figure 8).
fn lift(
    module: &mut Module,
    function: &mut GraphFunction,
    members: &[&Binding],
    counter: &mut usize,
    out: &mut Vec<Binding>,
) {
    let inner: BTreeSet<ValueId> = members.iter().map(|b| b.value).collect();
    let mut inputs: Vec<ValueId> = Vec::new();
    let mut syms: BTreeSet<SymVar> = BTreeSet::new();
    for b in members {
        for v in operands(&b.expr) {
            if !inner.contains(&v) && !inputs.contains(&v) {
                inputs.push(v);
            }
        }
        if let Expr::CallTir { sym_args, .. } = &b.expr {
            for e in sym_args {
                e.collect_vars(&mut syms);
            }
        }
        annotation_vars(&function.values[b.value].annotation, &mut syms);
    }
    for v in &inputs {
        annotation_vars(&function.values[*v].annotation, &mut syms);
    }
    let Some(last) = members.last() else { return };
    let mut values: Arena<ValueId, Value> = Arena::new();
    let mut map: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    let mut bound: BTreeSet<SymVar> = BTreeSet::new();
    let mut params = Vec::new();
    for v in &inputs {
        let value = function.values[*v].clone();
        if let Some(dims) = value.annotation.as_tensor().and_then(|t| t.dims()) {
            bound.extend(dims.iter().filter_map(|d| d.as_var().cloned()));
        }
        let id = values.push(value);
        map.insert(*v, id);
        params.push(id);
    }
    let mut args = inputs.clone();
    let free: Vec<SymExpr> = syms.difference(&bound).map(SymExpr::var).collect();
    if !free.is_empty() {
        let annotation = Annotation::Shape(ShapeInfo::Known(free.clone()));
        let taken = |n: &str| inputs.iter().chain(&inner).any(|v| function.values[*v].name == n);
        let mut name = "s".to_owned();
        while taken(&name) {
            name.push('s');
        }
        params.push(values.push(Value {
            name,
            annotation: annotation.clone(),
        }));
        let name = crate::workspace::fresh(function, &format!("{}_syms", function.values[last.value].name));
        let shape = function.values.push(Value { name, annotation });
        out.push(Binding {
            value: shape,
            expr: Expr::Shape(free),
        });
        args.push(shape);
    }
    let mut bindings = Vec::new();
    for b in members {
        let id = values.push(function.values[b.value].clone());
        map.insert(b.value, id);
        let Expr::CallTir {
            program,
            args,
            sym_args,
        } = &b.expr
        else {
            continue;
        };
        bindings.push(Binding {
            value: id,
            expr: Expr::CallTir {
                program: *program,
                args: args.iter().filter_map(|a| map.get(a).copied()).collect(),
                sym_args: sym_args.clone(),
            },
        });
    }
    let name = format!("{FUSED}{}_{}", *counter, function.values[last.value].name);
    *counter += 1;
    let result = map[&last.value];
    let func = module.functions.push(GraphFunction {
        name,
        syms: function
            .syms
            .iter()
            .filter(|d| syms.contains(&d.var))
            .cloned()
            .collect(),
        params,
        values,
        blocks: vec![Block {
            kind: BlockKind::Dataflow,
            bindings,
        }],
        result,
    });
    out.push(Binding {
        value: last.value,
        expr: Expr::CallGraph { func, args },
    });
}

fn annotation_vars(a: &Annotation, out: &mut BTreeSet<SymVar>) {
    match a {
        Annotation::Tensor(t) => t.dims().into_iter().flatten().for_each(|d| d.collect_vars(out)),
        Annotation::Shape(s) => s.dims().into_iter().flatten().for_each(|d| d.collect_vars(out)),
        Annotation::Tuple(items) => items.iter().for_each(|i| annotation_vars(i, out)),
        Annotation::Object | Annotation::Callable(..) => {}
    }
}
