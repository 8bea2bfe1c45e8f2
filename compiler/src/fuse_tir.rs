//! FuseTensorIR (Relax §4.2, third stage): the functions that FuseOps made become single tensor programs.
//!
//! The programs of a group are put one after another with their intermediates as workspaces, and then intermediates are removed:
//! - an element-wise stage whose only operand of that kind is written by one stage moves into that stage's epilogue, its loop variables
//!   taking the values that the writer's index gives them;
//! - a map whose index is plain variables is substituted into the one place that reads it, if that reads each element at
//!   most once.
//!
//! What can't be removed stays a workspace, which is correct and only slower.

use crate::affine;
use relayout_ir::annotation::DType;
use relayout_ir::graph::{Expr, FuncId, GraphFunction, Module, ValueId};
use relayout_ir::index::{Arena, Idx};
use relayout_ir::program::{Access, Buffer, BufferId, BufferRole, Scalar, Stage, StageBody, TensorProgram};
use relayout_ir::sym::{SymExpr, SymVar};
use std::collections::BTreeMap;

/// The prefix of the names of functions that FuseOps makes.
pub const FUSED: &str = "fused_";

/// Replaces every call of a fused function by `call_tir` of its merged program, and removes the fused functions.
pub fn fuse_tensor_ir(module: &mut Module) {
    let fused: Vec<FuncId> = module
        .functions
        .iter()
        .filter(|(_, f)| f.name.starts_with(FUSED))
        .map(|(id, _)| id)
        .collect();
    if fused.is_empty() {
        return;
    }
    let mut programs = BTreeMap::new();
    for f in &fused {
        let function = module.functions[*f].clone();
        if let Some(program) = merge_function(module, &function) {
            programs.insert(*f, module.programs.push(program));
        }
    }
    for f in module.functions.ids().collect::<Vec<_>>() {
        if fused.contains(&f) {
            continue;
        }
        let callees: BTreeMap<FuncId, (GraphFunction, Vec<SymVar>)> = programs
            .iter()
            .map(|(id, p)| {
                (
                    *id,
                    (
                        module.functions[*id].clone(),
                        module.programs[*p].sym_params.clone(),
                    ),
                )
            })
            .collect();
        let function = &mut module.functions[f];
        for binding in function.blocks.iter_mut().flat_map(|b| &mut b.bindings) {
            let Expr::CallGraph { func, args } = &binding.expr else {
                continue;
            };
            let (Some((callee, params)), Some(program)) = (callees.get(func), programs.get(func)) else {
                continue;
            };
            // The shape parameter, if there is one, carried the variables, which keep their names: they are passed directly.
            let tensors = args
                .iter()
                .zip(&callee.params)
                .filter(|(_, p)| callee.values[**p].annotation.as_tensor().is_some())
                .map(|(a, _)| *a)
                .collect();
            binding.expr = Expr::CallTir {
                program: *program,
                args: tensors,
                sym_args: params.iter().map(SymExpr::var).collect(),
            };
        }
    }
    remove_functions(module, &programs.keys().copied().collect::<Vec<_>>());
    remove_dead_shapes(module);
}

/// Shape values that only carried variables to fused functions.
fn remove_dead_shapes(module: &mut Module) {
    for (_, function) in module.functions.iter_mut() {
        let used: std::collections::BTreeSet<ValueId> = function
            .bindings()
            .flat_map(|b| crate::memory::operands(&b.expr))
            .chain([function.result])
            .collect();
        for block in &mut function.blocks {
            block
                .bindings
                .retain(|b| !matches!(b.expr, Expr::Shape(_)) || used.contains(&b.value));
        }
    }
}

/// Removes functions and renumbers the calls of those that stay.
fn remove_functions(module: &mut Module, dead: &[FuncId]) {
    let mut renumbered = BTreeMap::new();
    let mut kept = Arena::new();
    for (id, f) in module.functions.iter() {
        if !dead.contains(&id) {
            renumbered.insert(id, kept.push(f.clone()));
        }
    }
    for (_, f) in kept.iter_mut() {
        let f: &mut GraphFunction = f;
        for binding in f.blocks.iter_mut().flat_map(|b| &mut b.bindings) {
            if let Expr::CallGraph { func, .. } = &mut binding.expr
                && let Some(new) = renumbered.get(func)
            {
                *func = *new;
            }
        }
    }
    module.functions = kept;
}

/// The program of a function whose bindings are `call_tir`s ending in its result.
fn merge_function(module: &Module, function: &GraphFunction) -> Option<TensorProgram> {
    let mut members = Vec::new();
    for b in function.bindings() {
        let Expr::CallTir {
            program,
            args,
            sym_args,
        } = &b.expr
        else {
            return None;
        };
        members.push(Member {
            program: &module.programs[*program],
            args: args.clone(),
            sym_args: sym_args.clone(),
            value: b.value,
        });
    }
    let inputs: Vec<ValueId> = function
        .params
        .iter()
        .copied()
        .filter(|p| function.values[*p].annotation.as_tensor().is_some())
        .collect();
    let order: Vec<SymVar> = function.syms.iter().map(|d| d.var.clone()).collect();
    merge(&members, &inputs, function.result, &order, &function.name)
}

/// One call of a group.
pub struct Member<'a> {
    /// The program.
    pub program: &'a TensorProgram,
    /// Its inputs.
    pub args: Vec<ValueId>,
    /// Its symbolic arguments.
    pub sym_args: Vec<SymExpr>,
    /// Its result.
    pub value: ValueId,
}

/// Merges calls (in order) into one program with the given inputs and result. `None` when a call uses a value that is neither
/// an input nor an earlier result.
pub fn merge(
    members: &[Member<'_>],
    inputs: &[ValueId],
    result: ValueId,
    sym_order: &[SymVar],
    name: &str,
) -> Option<TensorProgram> {
    // Buffers in ABI order: inputs, the output, workspaces.
    let mut buffers: Arena<BufferId, Buffer> = Arena::new();
    let mut of_value: BTreeMap<ValueId, BufferId> = BTreeMap::new();
    let at_call = |m: &Member<'_>, e: &SymExpr| crate::workspace::at_call(e, m.program, &m.sym_args);
    for (i, input) in inputs.iter().enumerate() {
        let (m, position) = members
            .iter()
            .find_map(|m| Some((m, m.args.iter().position(|a| a == input)?)))?;
        let source = &m.program.buffers[m.program.inputs().nth(position)?];
        let id = buffers.push(Buffer {
            name: format!("in{i}"),
            shape: source.shape.iter().map(|e| at_call(m, e)).collect(),
            dtype: source.dtype,
            role: BufferRole::Input,
        });
        of_value.insert(*input, id);
    }
    let mut ordered: Vec<&Member<'_>> = members.iter().filter(|m| m.value == result).collect();
    ordered.extend(members.iter().filter(|m| m.value != result));
    for m in ordered {
        let source = &m.program.buffers[m.program.output()?];
        let last = m.value == result;
        let id = buffers.push(Buffer {
            name: if last {
                "out".to_owned()
            } else {
                format!("mid{}", m.value.index())
            },
            shape: source.shape.iter().map(|e| at_call(m, e)).collect(),
            dtype: source.dtype,
            role: if last {
                BufferRole::Output
            } else {
                BufferRole::Workspace
            },
        });
        of_value.insert(m.value, id);
    }
    let mut stages = Vec::new();
    for (k, m) in members.iter().enumerate() {
        let mut map: BTreeMap<BufferId, BufferId> = BTreeMap::new();
        for (position, id) in m.program.inputs().enumerate() {
            map.insert(id, *of_value.get(m.args.get(position)?)?);
        }
        map.insert(m.program.output()?, *of_value.get(&m.value)?);
        for id in m.program.workspaces() {
            let source = &m.program.buffers[id];
            let new = buffers.push(Buffer {
                name: format!("{}_{k}", source.name),
                shape: source.shape.iter().map(|e| at_call(m, e)).collect(),
                dtype: source.dtype,
                role: BufferRole::Workspace,
            });
            map.insert(id, new);
        }
        for stage in &m.program.stages {
            stages.push(instantiate(stage, m, &map, k)?);
        }
    }
    simplify_stages(&mut stages, &mut buffers);
    let mut used = std::collections::BTreeSet::new();
    for e in buffers.iter().flat_map(|(_, b)| &b.shape) {
        e.collect_vars(&mut used);
    }
    for stage in &stages {
        affine::map_stage_indices(stage, &mut |e| {
            e.collect_vars(&mut used);
            e.clone()
        });
        for l in &stage.loops {
            l.extent.collect_vars(&mut used);
        }
    }
    let loops: std::collections::BTreeSet<SymVar> = stages
        .iter()
        .flat_map(|s| s.loops.iter().map(|l| l.var.clone()))
        .collect();
    Some(TensorProgram {
        name: name.to_owned(),
        sym_params: sym_order
            .iter()
            .filter(|v| used.contains(v) && !loops.contains(v))
            .cloned()
            .collect(),
        buffers,
        stages,
        kind: None,
    })
}

/// A member's stage over the merged program's buffers, its parameters replaced by the call's arguments and its loop variables made
/// unique to the member.
fn instantiate(stage: &Stage, m: &Member<'_>, map: &BTreeMap<BufferId, BufferId>, k: usize) -> Option<Stage> {
    let rename = |v: &SymVar| SymVar::new(format!("{}_m{k}", v.name()));
    let loops: Vec<SymVar> = stage.loops.iter().map(|l| l.var.clone()).collect();
    let substitute = |e: &SymExpr| {
        e.substitute(&|v| {
            if loops.contains(v) {
                return Some(SymExpr::var(&rename(v)));
            }
            let i = m.program.sym_params.iter().position(|p| p == v)?;
            m.sym_args.get(i).cloned()
        })
    };
    let mut out = affine::map_stage_indices(stage, &mut |e| substitute(e));
    for l in &mut out.loops {
        l.extent = substitute(&l.extent);
        l.var = rename(&l.var);
    }
    out.output = *map.get(&stage.output)?;
    out.body = match out.body {
        StageBody::Map(v) => StageBody::Map(rebuffer(&v, map)?),
        StageBody::Reduce {
            combiner,
            value,
            epilogue,
        } => StageBody::Reduce {
            combiner,
            value: rebuffer(&value, map)?,
            epilogue: rebuffer(&epilogue, map)?,
        },
        StageBody::Contract { a, b, epilogue } => StageBody::Contract {
            a: Access {
                buffer: *map.get(&a.buffer)?,
                index: a.index,
            },
            b: Access {
                buffer: *map.get(&b.buffer)?,
                index: b.index,
            },
            epilogue: rebuffer(&epilogue, map)?,
        },
    };
    Some(out)
}

fn rebuffer(s: &Scalar, map: &BTreeMap<BufferId, BufferId>) -> Option<Scalar> {
    replace(s, &mut |s| match s {
        Scalar::Load(a) => Some(map.get(&a.buffer).map(|b| {
            Scalar::Load(Access {
                buffer: *b,
                index: a.index.clone(),
            })
        })),
        Scalar::Gather { buffer, index } => Some((|| {
            Some(Scalar::Gather {
                buffer: *map.get(buffer)?,
                index: index.iter().map(|i| rebuffer(i, map)).collect::<Option<_>>()?,
            })
        })()),
        _ => None,
    })
}

/// Rebuilds a scalar; where `f` answers, its answer (`None` inside fails the whole) stands for the part.
fn replace(s: &Scalar, f: &mut dyn FnMut(&Scalar) -> Option<Option<Scalar>>) -> Option<Scalar> {
    if let Some(answer) = f(s) {
        return answer;
    }
    Some(match s {
        Scalar::Const(..) | Scalar::Index(_) | Scalar::Reduced | Scalar::Load(_) => s.clone(),
        Scalar::Gather { buffer, index } => Scalar::Gather {
            buffer: *buffer,
            index: index.iter().map(|i| replace(i, f)).collect::<Option<_>>()?,
        },
        Scalar::Unary(op, a) => Scalar::Unary(*op, Box::new(replace(a, f)?)),
        Scalar::Binary(op, a, b) => Scalar::Binary(*op, Box::new(replace(a, f)?), Box::new(replace(b, f)?)),
        Scalar::Select(c, a, b) => Scalar::Select(
            Box::new(replace(c, f)?),
            Box::new(replace(a, f)?),
            Box::new(replace(b, f)?),
        ),
        Scalar::Cast(t, a) => Scalar::Cast(*t, Box::new(replace(a, f)?)),
    })
}

/// Removes intermediates until nothing changes, then the buffers that nobody uses.
fn simplify_stages(stages: &mut Vec<Stage>, buffers: &mut Arena<BufferId, Buffer>) {
    while eliminate_one(stages, buffers) {}
    let mut used: Vec<BufferId> = Vec::new();
    for s in stages.iter() {
        used.push(s.output);
        used.extend(affine::buffers_read(s));
    }
    let mut map = BTreeMap::new();
    let mut kept = Arena::new();
    for (id, b) in buffers.iter() {
        if b.role != BufferRole::Workspace || used.contains(&id) {
            map.insert(id, kept.push(b.clone()));
        }
    }
    *buffers = kept;
    for s in stages.iter_mut() {
        renumber(s, &map);
    }
}

fn renumber(stage: &mut Stage, map: &BTreeMap<BufferId, BufferId>) {
    let new = |b: BufferId| map.get(&b).copied().unwrap_or(b);
    stage.output = new(stage.output);
    match &mut stage.body {
        StageBody::Map(v) => {
            if let Some(r) = rebuffer(v, map) {
                *v = r;
            }
        }
        StageBody::Reduce { value, epilogue, .. } => {
            for v in [value, epilogue] {
                if let Some(r) = rebuffer(v, map) {
                    *v = r;
                }
            }
        }
        StageBody::Contract { a, b, epilogue } => {
            a.buffer = new(a.buffer);
            b.buffer = new(b.buffer);
            if let Some(r) = rebuffer(epilogue, map) {
                *epilogue = r;
            }
        }
    }
}

fn eliminate_one(stages: &mut Vec<Stage>, buffers: &Arena<BufferId, Buffer>) -> bool {
    for (b, buffer) in buffers.iter() {
        if buffer.role != BufferRole::Workspace {
            continue;
        }
        let writers: Vec<usize> = (0..stages.len()).filter(|&i| stages[i].output == b).collect();
        let readers: Vec<usize> = (0..stages.len())
            .filter(|&i| affine::buffers_read(&stages[i]).contains(&b))
            .collect();
        let ([w], [r]) = (&writers[..], &readers[..]) else {
            continue;
        };
        let (w, r) = (*w, *r);
        if w >= r {
            continue;
        }
        // The writer's operands must not change between the two.
        let inputs = affine::buffers_read(&stages[w]);
        if stages[w + 1..r].iter().any(|s| inputs.contains(&s.output)) {
            continue;
        }
        let merged =
            epilogue(&stages[w], &stages[r], b, buffer).or_else(|| inline(&stages[w], &stages[r], b, buffer));
        if let Some(stage) = merged {
            stages[r] = stage;
            stages.remove(w);
            return true;
        }
    }
    false
}

/// A value that no longer passes through a buffer, rounded as its store would have rounded it.
fn rounded(value: &Scalar, dtype: DType) -> Scalar {
    match dtype {
        DType::F16 | DType::BF16 => Scalar::Cast(dtype, Box::new(value.clone())),
        _ => value.clone(),
    }
}

/// The one index with which a stage reads a buffer, if there is only one.
fn only_index(stage: &Stage, b: BufferId) -> Option<Vec<SymExpr>> {
    let mut index: Option<Vec<SymExpr>> = None;
    let mut same = true;
    affine::visit_stage_loads(stage, &mut |a| {
        if a.buffer == b {
            match &index {
                None => index = Some(a.index.clone()),
                Some(first) => same &= *first == a.index,
            }
        }
    });
    for s in affine::body_scalars(&stage.body) {
        affine::visit_scalar(s, &mut |s| {
            same &= !matches!(s, Scalar::Gather { buffer, .. } if *buffer == b);
        });
    }
    index.filter(|_| same)
}

/// The reader, an element-wise map, as the epilogue of the writer.
fn epilogue(writer: &Stage, reader: &Stage, b: BufferId, buffer: &Buffer) -> Option<Stage> {
    let shape = &buffer.shape;
    let read = only_index(reader, b)?;
    let mut assigned: BTreeMap<SymVar, SymExpr> = BTreeMap::new();
    for (d, (r, w)) in read.iter().zip(&writer.index).enumerate() {
        if let Some(v) = r.as_var().filter(|v| reader.loops.iter().any(|l| l.var == **v)) {
            let extent = &reader.loops.iter().find(|l| l.var == *v)?.extent;
            if *extent != shape[d] || assigned.insert(v.clone(), w.clone()).is_some() {
                return None;
            }
        } else if !(r.is_const(0) && shape[d].is_const(1)) {
            return None;
        }
    }
    for l in &reader.loops {
        if !assigned.contains_key(&l.var) {
            if !l.extent.is_const(1) {
                return None;
            }
            assigned.insert(l.var.clone(), SymExpr::zero());
        }
    }
    let moved = affine::map_stage_indices(reader, &mut |e| e.substitute(&|v| assigned.get(v).cloned()));
    let StageBody::Map(moved_value) = &moved.body else {
        return None;
    };
    let put = |inner: &Scalar| {
        replace(moved_value, &mut |s| match s {
            Scalar::Load(a) if a.buffer == b => Some(Some(rounded(inner, buffer.dtype))),
            _ => None,
        })
    };
    let body = match &writer.body {
        StageBody::Map(v) => StageBody::Map(put(v)?),
        StageBody::Reduce {
            combiner,
            value,
            epilogue,
        } => StageBody::Reduce {
            combiner: *combiner,
            value: value.clone(),
            epilogue: put(epilogue)?,
        },
        StageBody::Contract { a, b: f, epilogue } => StageBody::Contract {
            a: a.clone(),
            b: f.clone(),
            epilogue: put(epilogue)?,
        },
    };
    Some(Stage {
        loops: writer.loops.clone(),
        output: moved.output,
        index: moved.index,
        body,
    })
}

/// The writer, a map over plain variables, substituted into the reader, which reads each element at most once.
fn inline(writer: &Stage, reader: &Stage, b: BufferId, buffer: &Buffer) -> Option<Stage> {
    let shape = &buffer.shape;
    let StageBody::Map(value) = &writer.body else {
        return None;
    };
    let read = only_index(reader, b)?;
    // Each element at most once: every loop of the reader is a dimension of its own.
    for l in reader.loops.iter().filter(|l| !l.extent.is_const(1)) {
        let own = read.iter().filter(|e| e.as_var() == Some(&l.var)).count();
        if own != 1 {
            return None;
        }
    }
    let mut assigned: BTreeMap<SymVar, SymExpr> = BTreeMap::new();
    for (d, w) in writer.index.iter().enumerate() {
        if let Some(v) = w.as_var() {
            if assigned.insert(v.clone(), read.get(d)?.clone()).is_some() {
                return None;
            }
        } else if !(w.is_const(0) && shape[d].is_const(1)) {
            return None;
        }
    }
    for l in &writer.loops {
        if !assigned.contains_key(&l.var) {
            if !l.extent.is_const(1) {
                return None;
            }
            assigned.insert(l.var.clone(), SymExpr::zero());
        }
    }
    let inner = affine::map_scalar_indices(value, &mut |e| e.substitute(&|v| assigned.get(v).cloned()));
    let put = |s: &Scalar| {
        replace(s, &mut |s| match s {
            Scalar::Load(a) if a.buffer == b => Some(Some(rounded(&inner, buffer.dtype))),
            _ => None,
        })
    };
    let body = match &reader.body {
        StageBody::Map(v) => StageBody::Map(put(v)?),
        StageBody::Reduce {
            combiner,
            value,
            epilogue,
        } => StageBody::Reduce {
            combiner: *combiner,
            value: put(value)?,
            epilogue: put(epilogue)?,
        },
        StageBody::Contract { a, b: f, epilogue } => {
            // Factors are loads; only epilogue operands can be substituted.
            if a.buffer == b || f.buffer == b {
                return None;
            }
            StageBody::Contract {
                a: a.clone(),
                b: f.clone(),
                epilogue: put(epilogue)?,
            }
        }
    };
    Some(Stage {
        loops: reader.loops.clone(),
        output: reader.output,
        index: reader.index.clone(),
        body,
    })
}
