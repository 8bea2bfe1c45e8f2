//! Verifies lifetimes: no use after a kill.

use super::Report;
use crate::graph::{BlockKind, Expr, GraphFunction, ValueId};
use std::collections::{HashMap, HashSet};

pub(super) fn verify(f: &GraphFunction, report: &mut Report) {
    let name = |v: ValueId| f.values.get(v).map_or("?".to_owned(), |v| v.name.clone());
    let mut killed: HashSet<ValueId> = HashSet::new();
    // The storage that a tensor lives in, through views.
    let mut storage: HashMap<ValueId, ValueId> = HashMap::new();
    for (block, binding) in f
        .blocks
        .iter()
        .flat_map(|b| b.bindings.iter().map(move |x| (b, x)))
    {
        let place = format!("function `{}`, binding `%{}`", f.name, name(binding.value));
        for used in binding.expr.operands() {
            if killed.contains(&used) {
                let what = if matches!(binding.expr, Expr::Kill(_)) {
                    "kills"
                } else {
                    "uses"
                };
                report.add(&place, format!("{what} `%{}` after it was killed", name(used)));
            } else if let Some(s) = storage.get(&used).filter(|s| killed.contains(s))
                && !matches!(binding.expr, Expr::Kill(_))
            {
                let problem = format!(
                    "uses `%{}` after its storage `%{}` was killed",
                    name(used),
                    name(*s)
                );
                report.add(&place, problem);
            }
        }
        match &binding.expr {
            Expr::Kill(v) => {
                killed.insert(*v);
            }
            Expr::AllocTensor { storage: s, .. } => {
                storage.insert(binding.value, *s);
            }
            Expr::View(of) => {
                if let Some(s) = storage.get(of).copied() {
                    storage.insert(binding.value, s);
                }
            }
            Expr::Invoke { outs, .. } => {
                if outs.is_empty() {
                    report.add(&place, "an invoke without a destination");
                }
                for out in outs.iter().filter(|o| !storage.contains_key(o)) {
                    report.add(
                        &place,
                        format!("writes to `%{}`, which is in no storage", name(*out)),
                    );
                }
            }
            _ => {}
        }
        if block.kind == BlockKind::Dataflow && matches!(binding.expr, Expr::Invoke { .. } | Expr::Kill(_)) {
            report.add(&place, "a side effect in a dataflow block");
        }
    }
    let place = || format!("function `{}`, result `%{}`", f.name, name(f.result));
    if killed.contains(&f.result) {
        report.add(place(), "is killed");
    } else if storage.get(&f.result).is_some_and(|s| killed.contains(s)) {
        report.add(place(), "its storage is killed");
    }
}
