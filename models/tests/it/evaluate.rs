//! A walk over a module's entry with the operators' fast reference semantics. Values are dropped after their last use.

use relayout_ir::graph::{ConstantData, Expr, ValueId};
use relayout_ir::index::Idx;
use relayout_ir::sym::{SymExpr, SymVar};
use relayout_ir::tensor::{RefValue, Tensor};
use relayout_models::{Model, draw_inputs};
use std::collections::HashMap;
use std::sync::Arc;

/// The results of the model on inputs drawn from `seed`, under a binding of its symbolic dimensions.
pub fn evaluate(model: &Model, seed: u64, binding: &dyn Fn(&SymVar) -> Option<i64>) -> Vec<Arc<Tensor>> {
    let value = |v: &SymVar| binding(v).or_else(|| model.default_binding(v));
    let eval = |e: &SymExpr| e.eval(&value);
    let main = model.module.entry().expect("a model has an entry");
    let function = &model.module.functions[main];
    let mut last: HashMap<usize, usize> = HashMap::new();
    let operands = |e: &Expr| -> Vec<ValueId> {
        match e {
            Expr::Op { args, .. } | Expr::Tuple(args) => args.clone(),
            Expr::TupleGet(v, _) => vec![*v],
            _ => Vec::new(),
        }
    };
    for (at, b) in function.bindings().enumerate() {
        for v in operands(&b.expr) {
            last.insert(v.index(), at);
        }
    }
    let mut env: HashMap<usize, RefValue> = HashMap::new();
    for (param, input) in function
        .params
        .iter()
        .zip(draw_inputs(model, seed, binding).expect("bound"))
    {
        let tensor = relayout_ir::generate::generate(&input.generator, &input.shape, input.dtype);
        env.insert(param.index(), RefValue::Tensor(Arc::new(tensor)));
    }
    for (at, b) in function.bindings().enumerate() {
        let result = match &b.expr {
            Expr::Op { op, args, attrs, .. } => {
                let args: Vec<RefValue> = args.iter().map(|a| env[&a.index()].clone()).collect();
                let name = &function.values[b.value].name;
                op.get()
                    .evaluate_fast(&args, attrs, &eval)
                    .unwrap_or_else(|e| panic!("{name}: {e}"))
            }
            Expr::Constant(id) => {
                let c = &model.module.constants[*id];
                RefValue::Tensor(Arc::new(match &c.data {
                    ConstantData::Inline(bytes) => {
                        Tensor::from_bytes(c.shape.clone(), c.dtype, bytes).expect("a whole constant")
                    }
                    ConstantData::Generated(g) => relayout_ir::generate::generate(g, &c.shape, c.dtype),
                }))
            }
            Expr::Tuple(items) => RefValue::Tuple(items.iter().map(|i| env[&i.index()].clone()).collect()),
            Expr::TupleGet(tuple, i) => match &env[&tuple.index()] {
                RefValue::Tuple(items) => items[*i].clone(),
                other => panic!("{other:?} is no tuple"),
            },
            other => panic!("{other:?} in an imported function"),
        };
        if let (RefValue::Tensor(t), Some(info)) = (&result, function.values[b.value].annotation.as_tensor())
        {
            let deduced: Option<Vec<i64>> = info.dims().expect("known").iter().map(eval).collect();
            let found: Vec<i64> = t.shape.iter().map(|d| *d as i64).collect();
            assert_eq!(
                deduced,
                Some(found),
                "{}: deduction and value disagree",
                function.values[b.value].name
            );
        }
        env.insert(b.value.index(), result);
        for v in operands(&b.expr) {
            if last.get(&v.index()) == Some(&at) && v != function.result {
                env.remove(&v.index());
            }
        }
    }
    let tensor = |v: &RefValue| match v {
        RefValue::Tensor(t) => t.clone(),
        other => panic!("{other:?} as a result"),
    };
    match &env[&function.result.index()] {
        RefValue::Tuple(items) => items.iter().map(tensor).collect(),
        one => vec![tensor(one)],
    }
}

/// How often each operator occurs in the entry, as text.
pub fn histogram(model: &Model) -> String {
    let main = model.module.entry().expect("a model has an entry");
    let mut counts = std::collections::BTreeMap::new();
    for b in model.module.functions[main].bindings() {
        if let Expr::Op { op, .. } = &b.expr {
            *counts.entry(op.name()).or_insert(0) += 1;
        }
    }
    let lines: Vec<String> = counts.iter().map(|(op, n)| format!("{op} {n}\n")).collect();
    lines.concat()
}
