//! Hints for the rule-based strategies: what an instance says about its layouts and operators besides costs.

use super::ShapeBinding;
use super::project::Shapes;
use super::view::{Call, TensorView};
use crate::alias;
use crate::target::LayoutRules;
use relayout_ir::graph::Attr;
use relayout_ir::layout::Layout;
use relayout_ir::op::LayoutRule;
use relayout_ir::sym::SymExpr;
use relayout_layouts::ConfigSpec;
use relayout_layouts::hints::{DimMap, LayoutHints, OperatorHints, TensorHints};

/// The kind of the operators that stand for parameters and constants.
pub const SOURCE: &str = "source";
/// The kind of the operators that stand for results.
pub const SINK: &str = "sink";

/// Hints on a tensor: each layout singles out the dimension that is contiguous in memory (the partition dimension where there
/// is one), and a blocked layout has the form `block` and its factor. The size is in bytes, over all bindings.
pub fn tensor(tensor: &TensorView<'_>, layouts: &[Layout], bindings: &[ShapeBinding]) -> TensorHints {
    let bytes = |binding: &ShapeBinding| {
        let extents = tensor.dims.iter().map(|d| {
            let value = d.eval(&|v| binding.values.get(v.name()).copied());
            value.and_then(|v| u64::try_from(v).ok()).unwrap_or(0)
        });
        extents
            .fold(tensor.dtype.bytes() as u64, u64::saturating_mul)
            .saturating_mul(binding.weight)
    };
    TensorHints {
        rank: tensor.dims.len(),
        size: bindings.iter().map(bytes).fold(0, u64::saturating_add),
        layouts: layouts
            .iter()
            .enumerate()
            .map(|(i, l)| {
                let same = |j: &usize| alias::conversion_is_alias(&tensor.dims, &layouts[*j], l);
                layout(&tensor.dims, l, (0..i).find(same))
            })
            .collect(),
    }
}

fn layout(dims: &[SymExpr], layout: &Layout, same_as: Option<usize>) -> LayoutHints {
    // A piece of extent 1 has no stride; the piece outside it is the contiguous one.
    let moves =
        |s: &&relayout_ir::layout::Split| s.factor.is_some() || !dims[usize::from(s.axis)].is_const(1);
    let innermost = layout
        .splits()
        .iter()
        .rev()
        .find(moves)
        .or(layout.splits().last());
    let form = innermost.and_then(|s| s.factor).map(|f| format!("block{f}"));
    LayoutHints {
        dim: layout.partition().or(innermost.map(|s| s.axis)).map(usize::from),
        form: form.unwrap_or_default(),
        same_as,
    }
}

/// Hints on the sink's own tensor, which has the one layout of what it reads in the ABI.
pub fn sink_tensor(source: &TensorHints) -> TensorHints {
    TensorHints {
        rank: source.rank,
        size: source.size,
        layouts: source.layouts[..1].to_vec(),
    }
}

/// Hints on an operator that stands for a parameter or a constant.
pub fn source() -> OperatorHints {
    OperatorHints {
        kind: SOURCE.into(),
        ..OperatorHints::default()
    }
}

/// Hints on an operator that stands for a result of this rank.
pub fn sink(rank: usize) -> OperatorHints {
    let same: Vec<Option<u32>> = (0..rank as u32).map(Some).collect();
    OperatorHints {
        kind: SINK.into(),
        dims: Some(DimMap {
            inputs: vec![same.clone()],
            out: same,
        }),
        ..OperatorHints::default()
    }
}

/// Hints on a call, but for its preferences. `kept` says of each operand whether the instance has it as an input.
pub fn call(call: &Call<'_>, kept: &[bool]) -> OperatorHints {
    let Labels {
        mut args,
        out,
        mut along,
    } = labels(call);
    let mut keep = kept.iter();
    args.retain(|_| *keep.next().unwrap_or(&false));
    along.retain(|l| args.iter().chain([&out]).any(|labels| labels.contains(&Some(*l))));
    OperatorHints {
        kind: call.op.name().to_owned(),
        dims: Some(DimMap { inputs: args, out }),
        along,
        preferred: Vec::new(),
    }
}

/// The configurations that the target's rules prefer. `facts` has the implementation of each and whether it is an alias.
pub fn preferred(
    rules: &LayoutRules,
    hints: &OperatorHints,
    inputs: &[&TensorHints],
    output: &TensorHints,
    configs: &[ConfigSpec],
    facts: &[(String, bool)],
) -> Vec<usize> {
    let of_kind = rules.preferred.iter().filter(|p| p.kinds.contains(&hints.kind));
    let matching = of_kind.map(|p| {
        (0..configs.len())
            .filter(|&c| {
                let (implementation, alias) = &facts[c];
                p.alias.is_none_or(|a| a == *alias)
                    && p.implementation.as_ref().is_none_or(|i| i == implementation)
                    && p.when.iter().all(|condition| {
                        let place = match condition.input {
                            Some(i) => inputs.get(i).map(|t| (*t, configs[c].inputs[i])),
                            None => Some((output, configs[c].output)),
                        };
                        place.is_some_and(|(t, l)| condition.holds(hints, t, &t.layouts[l]))
                    })
            })
            .collect::<Vec<usize>>()
    });
    matching.into_iter().find(|m| !m.is_empty()).unwrap_or_default()
}

/// Labels per operand and for the result; the labels along which the operator combines elements.
struct Labels {
    args: Vec<Vec<Option<u32>>>,
    out: Vec<Option<u32>>,
    along: Vec<u32>,
}

/// Labels `0, 1, …` in order.
fn in_order(rank: usize) -> Vec<Option<u32>> {
    (0..rank as u32).map(Some).collect()
}

/// Labels of an operand that is aligned with `reference` to the right; dimensions that are stretched get none.
fn aligned(dims: &[SymExpr], reference: &[SymExpr], labels: &[Option<u32>]) -> Vec<Option<u32>> {
    (0..dims.len())
        .map(|d| {
            let r = (d + reference.len()).checked_sub(dims.len())?;
            (dims[d] == reference[r]).then_some(labels[r]).flatten()
        })
        .collect()
}

/// Which dimensions around a call are one logical dimension, per layout rule. Spatial dimensions keep their identity through
/// windows and strides; a dimension that is merged or split is that of its innermost factor, which is what stays contiguous.
fn labels(call: &Call<'_>) -> Labels {
    let Shapes { args, out } = &call.shapes;
    let dims = |i: usize| args.get(i).and_then(Option::as_deref).unwrap_or_default();
    let axes = |axes: &[u8]| axes.iter().map(|&a| u32::from(a)).collect::<Vec<u32>>();
    let mut labels = Labels {
        args: args
            .iter()
            .map(|d| vec![None; d.as_ref().map_or(0, Vec::len)])
            .collect(),
        out: in_order(out.len()),
        along: Vec::new(),
    };
    match &call.rule {
        LayoutRule::Elementwise => {
            for (slot, d) in labels.args.iter_mut().zip(args) {
                *slot = aligned(d.as_deref().unwrap_or_default(), out, &labels.out);
            }
        }
        LayoutRule::AlongAxes(a) => {
            labels.args[0] = in_order(dims(0).len());
            labels.along = axes(a);
        }
        LayoutRule::Pool2d => {
            labels.args[0] = in_order(4);
            labels.along = vec![2, 3];
        }
        LayoutRule::AxisPieces(_) => {
            for (slot, d) in labels.args.iter_mut().zip(args) {
                if d.as_ref().is_some_and(|d| d.len() == out.len()) {
                    *slot = in_order(out.len());
                }
            }
        }
        LayoutRule::Reduce { axes: a, keep } => {
            let rank = dims(0).len();
            let removed = |l: &Option<u32>| l.is_some_and(|l| a.iter().any(|&x| u32::from(x) == l));
            labels.args[0] = in_order(rank);
            labels.along = axes(a);
            labels.out = if *keep {
                let kept = |l: Option<u32>| l.filter(|_| !removed(&l));
                in_order(rank).into_iter().map(kept).collect()
            } else {
                in_order(rank).into_iter().filter(|l| !removed(l)).collect()
            };
        }
        LayoutRule::Permute(perm) => {
            labels.args[0] = in_order(dims(0).len());
            labels.out = perm.iter().map(|&p| Some(u32::from(p))).collect();
        }
        LayoutRule::Reshape => reshape(dims(0), out, &mut labels),
        LayoutRule::Conv2d { groups } => {
            let depthwise = *groups > 1 && dims(0).get(1) == out.get(1);
            let channels_out = if depthwise { 1 } else { 4 };
            let channels_in = (*groups == 1).then_some(1);
            labels.args[0] = in_order(4);
            labels.args[1] = vec![Some(channels_out), channels_in, Some(5), Some(6)];
            labels.out = vec![Some(0), Some(channels_out), Some(2), Some(3)];
            labels.along = channels_in.into_iter().chain([5, 6]).collect();
            for slot in labels.args.iter_mut().skip(2).filter(|s| s.len() == 1) {
                *slot = vec![Some(channels_out)];
            }
        }
        LayoutRule::Matmul => matmul(call, &mut labels),
        LayoutRule::AbiOnly => labels.out = vec![None; out.len()],
    }
    labels
}

fn matmul(call: &Call<'_>, labels: &mut Labels) {
    let Shapes { args, out } = &call.shapes;
    let ([Some(a), Some(b)], Some(m)) = (args.as_slice(), out.len().checked_sub(2)) else {
        labels.out = vec![None; out.len()];
        return;
    };
    if a.len() < 2 || b.len() < 2 {
        labels.out = vec![None; out.len()];
        return;
    }
    let (m, n, k) = (m as u32, m as u32 + 1, m as u32 + 2);
    let batch = &out[..out.len() - 2];
    let operand = |dims: &[SymExpr], last: [u32; 2], transposed: &str| {
        let mut last = last.map(Some);
        if matches!(call.attrs.get(transposed), Some(Attr::Bool(true))) {
            last.swap(0, 1);
        }
        let mut labels = aligned(&dims[..dims.len() - 2], batch, &in_order(batch.len()));
        labels.extend(last);
        labels
    };
    labels.args = vec![
        operand(a, [m, k], "transpose_a"),
        operand(b, [k, n], "transpose_b"),
    ];
    labels.along = vec![k];
}

/// Equal dimensions from the left and from the right are the same; of what is left in the middle, the innermost are.
fn reshape(from: &[SymExpr], to: &[SymExpr], labels: &mut Labels) {
    let shorter = from.len().min(to.len());
    let left = (0..shorter).take_while(|&i| from[i] == to[i]).count();
    let right = (1..=shorter - left)
        .take_while(|&i| from[from.len() - i] == to[to.len() - i])
        .count();
    labels.out = in_order(to.len());
    let (inner_from, inner_to) = (from.len() - right, to.len() - right);
    labels.args[0] = (0..from.len())
        .map(|d| match d {
            _ if d < left => Some(d as u32),
            _ if d >= inner_from => Some((d + to.len() - from.len()) as u32),
            _ if d + 1 == inner_from && inner_to > left => Some(inner_to as u32 - 1),
            _ => None,
        })
        .collect();
}
