//! Canonicalisation, before layout selection: fewer kinds of operators, constants folded, nothing dead.
//!
//! - `split` becomes one `slice` per piece that is used;
//! - `identity` disappears, a reshape of a reshape becomes one reshape;
//! - `batch_norm` with constant statistics becomes a per-channel multiplication and addition with folded constants;
//! - operators of small constants are evaluated by the reference interpreter;
//! - bindings whose value nobody uses are removed from dataflow blocks.

use relayout_ir::annotation::{Annotation, DType, TensorInfo};
use relayout_ir::builder::attrs;
use relayout_ir::generate;
use relayout_ir::graph::{
    Attr, Attrs, Binding, BlockKind, ConstId, Constant, ConstantData, Expr, GraphFunction, Module, Value,
    ValueId,
};
use relayout_ir::op::{OpId, by_name};
use relayout_ir::sym::SymExpr;
use relayout_ir::tensor::{RefValue, Tensor, TensorData};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Constants of at most this many elements are folded.
const FOLD_LIMIT: usize = 1 << 16;

/// Brings every function into canonical form. Running it twice changes nothing more.
pub fn canonicalise(module: &mut Module) {
    for f in module.functions.ids().collect::<Vec<_>>() {
        let mut function = module.functions[f].clone();
        rewrite(module, &mut function);
        remove_dead(&mut function);
        module.functions[f] = function;
    }
    remove_unused_constants(module);
}

struct State {
    /// What a value stands for now.
    renamed: BTreeMap<ValueId, ValueId>,
    constants: BTreeMap<ValueId, ConstId>,
    /// Reshapes seen: the operand of each.
    reshapes: BTreeMap<ValueId, ValueId>,
    /// Tuples of slices that splits became.
    pieces: BTreeMap<ValueId, Vec<ValueId>>,
}

fn rewrite(module: &mut Module, function: &mut GraphFunction) {
    let mut state = State {
        renamed: BTreeMap::new(),
        constants: BTreeMap::new(),
        reshapes: BTreeMap::new(),
        pieces: BTreeMap::new(),
    };
    let mut blocks = std::mem::take(&mut function.blocks);
    for block in &mut blocks {
        let mut out = Vec::new();
        for mut binding in std::mem::take(&mut block.bindings) {
            rename(&mut binding.expr, &state.renamed);
            step(module, function, &mut state, binding, &mut out);
        }
        block.bindings = out;
    }
    function.blocks = blocks;
    if let Some(v) = state.renamed.get(&function.result) {
        function.result = *v;
    }
}

fn rename(expr: &mut Expr, renamed: &BTreeMap<ValueId, ValueId>) {
    let new = |v: &mut ValueId| {
        if let Some(n) = renamed.get(v) {
            *v = *n;
        }
    };
    match expr {
        Expr::Op { args, .. }
        | Expr::CallGraph { args, .. }
        | Expr::CallTir { args, .. }
        | Expr::CallDpsLibrary { args, .. }
        | Expr::Tuple(args) => args.iter_mut().for_each(new),
        Expr::Invoke { args, outs, .. } => args.iter_mut().chain(outs).for_each(new),
        Expr::TupleGet(v, _) | Expr::MatchCast(v, _) | Expr::View(v) | Expr::Kill(v) => new(v),
        Expr::AllocTensor { storage, .. } => new(storage),
        Expr::Constant(_) | Expr::Shape(_) | Expr::AllocStorage { .. } => {}
    }
}

fn step(
    module: &mut Module,
    function: &mut GraphFunction,
    state: &mut State,
    binding: Binding,
    out: &mut Vec<Binding>,
) {
    let value = binding.value;
    match &binding.expr {
        Expr::Constant(c) => {
            state.constants.insert(value, *c);
            out.push(binding);
        }
        Expr::TupleGet(tuple, index) => match state.pieces.get(tuple).and_then(|p| p.get(*index)) {
            Some(piece) => {
                state.renamed.insert(value, *piece);
            }
            None => out.push(binding),
        },
        Expr::Op { op, args, attrs, .. } => {
            let (op, args, attrs) = (*op, args.clone(), attrs.clone());
            // The result keeps its name: a function that returns an identity returns its operand.
            if op.name() == "identity"
                && let [x] = args[..]
            {
                state.renamed.insert(value, x);
                return;
            }
            if let Some(c) = fold(module, function, state, value, op, &args, &attrs) {
                state.constants.insert(value, c);
                out.push(Binding {
                    value,
                    expr: Expr::Constant(c),
                });
                return;
            }
            match op.name() {
                "split" if split(function, state, value, &args, &attrs, out) => {}
                "batch_norm" if batch_norm(module, function, state, value, &args, &attrs, out) => {}
                "reshape" => {
                    let source = args.first().map(|x| state.reshapes.get(x).copied().unwrap_or(*x));
                    let Some(source) = source else {
                        out.push(binding);
                        return;
                    };
                    if function.values[source].annotation == function.values[value].annotation {
                        state.renamed.insert(value, source);
                        return;
                    }
                    state.reshapes.insert(value, source);
                    out.push(Binding {
                        value,
                        expr: Expr::Op {
                            op,
                            args: vec![source],
                            attrs,
                            implementation: None,
                        },
                    });
                }
                _ => out.push(binding),
            }
        }
        _ => out.push(binding),
    }
}

fn new_value(function: &mut GraphFunction, hint: &str, annotation: Annotation) -> ValueId {
    let name = crate::workspace::fresh(function, hint);
    function.values.push(Value { name, annotation })
}

/// One slice per piece. Needs the offsets as expressions.
fn split(
    function: &mut GraphFunction,
    state: &mut State,
    value: ValueId,
    args: &[ValueId],
    attributes: &Attrs,
    out: &mut Vec<Binding>,
) -> bool {
    let (Some(Attr::Int(axis)), Some(Attr::Shape(sizes)), [x]) =
        (attributes.get("axis"), attributes.get("sizes"), args)
    else {
        return false;
    };
    let (Some(slice), Annotation::Tuple(items)) =
        (by_name("slice"), function.values[value].annotation.clone())
    else {
        return false;
    };
    if items.len() != sizes.len() {
        return false;
    }
    let mut begin = SymExpr::zero();
    let mut pieces = Vec::new();
    let hint = function.values[value].name.clone();
    for (i, (size, annotation)) in sizes.iter().zip(items).enumerate() {
        let end = begin.clone() + size.clone();
        let piece = new_value(function, &format!("{hint}_{i}"), annotation);
        out.push(Binding {
            value: piece,
            expr: Expr::Op {
                op: slice,
                args: vec![*x],
                attrs: attrs([
                    ("axes", Attr::Ints(vec![*axis])),
                    ("begin", Attr::Shape(vec![begin])),
                    ("end", Attr::Shape(vec![end.clone()])),
                    ("steps", Attr::Ints(vec![1])),
                ]),
                implementation: None,
            },
        });
        pieces.push(piece);
        begin = end;
    }
    // The tuple itself may be used whole; it is removed as dead otherwise.
    out.push(Binding {
        value,
        expr: Expr::Tuple(pieces.clone()),
    });
    state.pieces.insert(value, pieces);
    true
}

/// `x·s + t` with s = scale/√(var + eps) and t = bias − mean·s, computed in double precision.
fn batch_norm(
    module: &mut Module,
    function: &mut GraphFunction,
    state: &mut State,
    value: ValueId,
    args: &[ValueId],
    attributes: &Attrs,
    out: &mut Vec<Binding>,
) -> bool {
    let [x, statistics @ ..] = args else { return false };
    let Some(info) = function.values[*x].annotation.as_tensor().cloned() else {
        return false;
    };
    let (Some(rank), Some(DType::F32)) = (info.shape.rank(), info.dtype) else {
        return false;
    };
    let (Some(mul), Some(add)) = (by_name("mul"), by_name("add")) else {
        return false;
    };
    let eps = match attributes.get("eps") {
        Some(Attr::Float(e)) => *e,
        _ => 1e-5,
    };
    let values: Option<Vec<Vec<f32>>> = statistics
        .iter()
        .map(|a| match tensor_of(module, *state.constants.get(a)?)?.data {
            TensorData::Float(v) => Some(v),
            TensorData::Int(_) => None,
        })
        .collect();
    let Some([scale, bias, mean, var]) = values.as_deref() else {
        return false;
    };
    if rank < 2 || [bias, mean, var].iter().any(|v| v.len() != scale.len()) {
        return false;
    }
    let (mut s, mut t) = (Vec::new(), Vec::new());
    for c in 0..scale.len() {
        let factor = f64::from(scale[c]) / (f64::from(var[c]) + eps).sqrt();
        s.push(factor as f32);
        t.push((f64::from(bias[c]) - f64::from(mean[c]) * factor) as f32);
    }
    let mut shape = vec![scale.len()];
    shape.resize(rank - 1, 1);
    let hint = function.values[value].name.clone();
    let mut constant =
        |function: &mut GraphFunction, suffix: &str, data: Vec<f32>, out: &mut Vec<Binding>| {
            let tensor = Tensor {
                shape: shape.clone(),
                dtype: DType::F32,
                data: TensorData::Float(data),
            };
            bind_constant(module, function, state, &format!("{hint}_{suffix}"), &tensor, out)
        };
    let factor = constant(function, "scale", s, out);
    let offset = constant(function, "shift", t, out);
    let annotation = function.values[value].annotation.clone();
    let scaled = new_value(function, &format!("{hint}_scaled"), annotation);
    for (v, op, args) in [
        (scaled, mul, vec![*x, factor]),
        (value, add, vec![scaled, offset]),
    ] {
        out.push(Binding {
            value: v,
            expr: Expr::Op {
                op,
                args,
                attrs: Attrs::new(),
                implementation: None,
            },
        });
    }
    true
}

fn bind_constant(
    module: &mut Module,
    function: &mut GraphFunction,
    state: &mut State,
    hint: &str,
    tensor: &Tensor,
    out: &mut Vec<Binding>,
) -> ValueId {
    let id = push_constant(module, hint, tensor);
    let dims = tensor.shape.iter().map(|d| SymExpr::from(*d)).collect();
    let value = new_value(function, hint, Annotation::tensor(dims, tensor.dtype));
    state.constants.insert(value, id);
    out.push(Binding {
        value,
        expr: Expr::Constant(id),
    });
    value
}

fn push_constant(module: &mut Module, hint: &str, tensor: &Tensor) -> ConstId {
    let mut name = hint.to_owned();
    let mut i = 1;
    while module.constants.iter().any(|(_, c)| c.name == name) {
        name = format!("{hint}_{i}");
        i += 1;
    }
    module.constants.push(Constant {
        name,
        shape: tensor.shape.clone(),
        dtype: tensor.dtype,
        data: ConstantData::Inline(encode(tensor).into()),
    })
}

/// The value of an operator whose operands are all small constants.
fn fold(
    module: &mut Module,
    function: &GraphFunction,
    state: &State,
    value: ValueId,
    op: OpId,
    args: &[ValueId],
    attributes: &Attrs,
) -> Option<ConstId> {
    let Annotation::Tensor(TensorInfo {
        shape,
        dtype: Some(_),
        ..
    }) = &function.values[value].annotation
    else {
        return None;
    };
    let extents: Option<Vec<usize>> = shape
        .dims()?
        .iter()
        .map(|d| d.as_const().and_then(|d| usize::try_from(d).ok()))
        .collect();
    if extents?.iter().product::<usize>() > FOLD_LIMIT || op.name() == "layout_transform" {
        return None;
    }
    let small = |c: &Constant| c.shape.iter().product::<usize>() <= FOLD_LIMIT;
    let operands: Option<Vec<RefValue>> = args
        .iter()
        .map(|a| {
            let c = *state.constants.get(a)?;
            if !small(&module.constants[c]) {
                return None;
            }
            Some(RefValue::Tensor(Arc::new(tensor_of(module, c)?)))
        })
        .collect();
    let RefValue::Tensor(result) = op
        .get()
        .evaluate_fast(&operands?, attributes, &|e| e.as_const())
        .ok()?
    else {
        return None;
    };
    Some(push_constant(module, &function.values[value].name, &result))
}

/// The value of a constant, when it is small.
fn tensor_of(module: &Module, id: ConstId) -> Option<Tensor> {
    let c = &module.constants[id];
    if c.shape.iter().product::<usize>() > FOLD_LIMIT {
        return None;
    }
    match &c.data {
        ConstantData::Inline(bytes) => decode(bytes, &c.shape, c.dtype),
        ConstantData::Generated(g) => Some(generate::generate(g, &c.shape, c.dtype)),
    }
}

/// A tensor from little-endian elements in row-major order; `None` when there are too few or too many.
pub fn decode(bytes: &[u8], shape: &[usize], dtype: DType) -> Option<Tensor> {
    let count: usize = shape.iter().product();
    if bytes.len() != count * dtype.bytes() {
        return None;
    }
    let data = match dtype {
        DType::F32 => TensorData::Float(
            bytes
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                .collect(),
        ),
        DType::I64 => TensorData::Int(
            bytes
                .chunks_exact(8)
                .map(|b| b.iter().rev().fold(0u64, |v, x| v << 8 | u64::from(*x)) as i64)
                .collect(),
        ),
        DType::I32 => TensorData::Int(
            bytes
                .chunks_exact(4)
                .map(|b| i64::from(i32::from_le_bytes([b[0], b[1], b[2], b[3]])))
                .collect(),
        ),
        DType::I8 => TensorData::Int(bytes.iter().map(|b| i64::from(*b as i8)).collect()),
        DType::U8 | DType::Bool => TensorData::Int(bytes.iter().map(|b| i64::from(*b)).collect()),
        // 16-bit constants are left unfolded.
        DType::F16 | DType::BF16 => return None,
    };
    Some(Tensor {
        shape: shape.to_vec(),
        dtype,
        data,
    })
}

/// Little-endian elements of a tensor. 16-bit floats are rounded by the runtime's own rules.
pub fn encode(t: &Tensor) -> Vec<u8> {
    use relayout_runtime::generate::{f32_to_bf16, f32_to_f16};
    match &t.data {
        TensorData::Float(v) => match t.dtype {
            DType::F16 => v.iter().flat_map(|x| f32_to_f16(*x).to_le_bytes()).collect(),
            DType::BF16 => v.iter().flat_map(|x| f32_to_bf16(*x).to_le_bytes()).collect(),
            _ => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        },
        TensorData::Int(v) => match t.dtype {
            DType::I64 => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            DType::I32 => v.iter().flat_map(|x| (*x as i32).to_le_bytes()).collect(),
            _ => v.iter().map(|x| *x as u8).collect(),
        },
    }
}

/// Removes bindings of dataflow blocks that nothing uses.
fn remove_dead(function: &mut GraphFunction) {
    let mut live: BTreeSet<ValueId> = BTreeSet::from([function.result]);
    for block in function.blocks.iter_mut().rev() {
        let mut kept = Vec::new();
        for binding in std::mem::take(&mut block.bindings).into_iter().rev() {
            let pure = block.kind == BlockKind::Dataflow && !matches!(binding.expr, Expr::MatchCast(..));
            if !pure || live.contains(&binding.value) {
                live.extend(crate::memory::operands(&binding.expr));
                kept.push(binding);
            }
        }
        kept.reverse();
        block.bindings = kept;
    }
}

/// Removes constants that no function binds.
fn remove_unused_constants(module: &mut Module) {
    let used: BTreeSet<ConstId> = module
        .functions
        .iter()
        .flat_map(|(_, f)| f.bindings())
        .filter_map(|b| match b.expr {
            Expr::Constant(c) => Some(c),
            _ => None,
        })
        .collect();
    let mut map = BTreeMap::new();
    let mut kept = relayout_ir::index::Arena::new();
    for (id, c) in module.constants.iter() {
        if used.contains(&id) {
            map.insert(id, kept.push(c.clone()));
        }
    }
    module.constants = kept;
    for (_, f) in module.functions.iter_mut() {
        for b in f.blocks.iter_mut().flat_map(|b| &mut b.bindings) {
            if let Expr::Constant(c) = &mut b.expr
                && let Some(new) = map.get(c)
            {
                *c = *new;
            }
        }
    }
}
