//! The configurations of one operator call: which layouts of operands and result go together.

use super::domain::{Domains, blocked_weight, hwio, ohwi_blocked};
use super::project::{fits, operand_layout, result_layout};
use super::view::{Call, GraphView};
use crate::alias;
use relayout_ir::index::Idx;
use relayout_ir::layout::Layout;
use relayout_ir::op::LayoutRule;
use relayout_ir::sym::SymExpr;

/// One admissible combination. `args` has `None` for operands that are not tensors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayoutConfig {
    /// Per operand.
    pub args: Vec<Option<Layout>>,
    /// Result.
    pub out: Layout,
}

/// A combination of a convolution.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConvCombination {
    /// The image read.
    pub x: Layout,
    /// The weight.
    pub weight: Layout,
    /// The image written.
    pub out: Layout,
}

/// Every combination of a call whose layouts are in the domains; the imported one (all row-major) comes first.
pub fn configurations(
    view: &GraphView<'_>,
    domains: &Domains,
    blocks: &[u32],
    call: &Call<'_>,
) -> Vec<LayoutConfig> {
    let domain = |value: relayout_ir::graph::ValueId| view.position[value.index()].map(|p| &domains[p]);
    let out_domain = domain(call.value).cloned().unwrap_or_default();
    let mut found = vec![imported(call)];
    let mut add = |config: LayoutConfig| {
        let known = out_domain.contains(&config.out)
            && config
                .args
                .iter()
                .zip(call.args)
                .all(|(layout, arg)| match (layout, domain(*arg)) {
                    (Some(l), Some(d)) => d.contains(l),
                    (None, _) => true,
                    (Some(_), None) => false,
                });
        if known && !found.contains(&config) {
            found.push(config);
        }
    };
    match (&call.rule, call.shapes.args.as_slice()) {
        (LayoutRule::Conv2d { groups }, [Some(x), Some(weight), rest @ ..]) => {
            for c in conv_combinations(x, weight, &call.shapes.out, *groups, blocks) {
                let mut args = vec![Some(c.x), Some(c.weight)];
                args.extend(
                    rest.iter()
                        .map(|d| d.as_ref().map(|d| Layout::row_major(d.len()))),
                );
                add(LayoutConfig { args, out: c.out });
            }
        }
        (LayoutRule::Matmul, [Some(_), Some(_)]) => {
            let side = |i: usize| {
                domain(call.args[i])
                    .into_iter()
                    .flatten()
                    .filter(|l| matrix_is_readable(l))
            };
            for a in side(0) {
                for b in side(1) {
                    for out in out_domain.iter().filter(|l| matrix_is_readable(l)) {
                        add(LayoutConfig {
                            args: vec![Some(a.clone()), Some(b.clone())],
                            out: out.clone(),
                        });
                    }
                }
            }
        }
        (LayoutRule::Reduce { .. }, [Some(_)]) => {
            for layout in domain(call.args[0]).into_iter().flatten() {
                if let Some(out) = result_layout(&call.rule, &call.shapes, 0, layout) {
                    add(LayoutConfig {
                        args: vec![Some(layout.clone())],
                        out,
                    });
                }
            }
        }
        (LayoutRule::Permute(_) | LayoutRule::Reshape, [Some(_), ..]) => {
            for layout in domain(call.args[0]).into_iter().flatten() {
                for out in &out_domain {
                    if is_alias(call, layout, out) {
                        let mut args = vec![Some(layout.clone())];
                        args.resize(call.args.len(), None);
                        add(LayoutConfig {
                            args,
                            out: out.clone(),
                        });
                    }
                }
            }
        }
        (LayoutRule::AbiOnly, _) => {}
        _ => {
            for out in &out_domain {
                let args: Option<Vec<_>> = (0..call.args.len())
                    .map(|i| match &call.shapes.args[i] {
                        None => Some(None),
                        Some(_) => operand_layout(&call.rule, &call.shapes, i, out).map(Some),
                    })
                    .collect();
                if let Some(args) = args {
                    add(LayoutConfig {
                        args,
                        out: out.clone(),
                    });
                }
            }
        }
    }
    found
}

/// Whether the call only renames bytes under these layouts of its first operand and its result.
pub fn is_alias(call: &Call<'_>, from: &Layout, to: &Layout) -> bool {
    let Some(Some(dims)) = call.shapes.args.first() else {
        return false;
    };
    match &call.rule {
        LayoutRule::Permute(perm) => alias::permute_is_alias(dims, perm, from, to),
        LayoutRule::Reshape => alias::reshape_is_alias((dims, from), (&call.shapes.out, to)),
        _ => false,
    }
}

fn imported(call: &Call<'_>) -> LayoutConfig {
    LayoutConfig {
        args: call
            .shapes
            .args
            .iter()
            .map(|d| d.as_ref().map(|d| Layout::row_major(d.len())))
            .collect(),
        out: Layout::row_major(call.shapes.out.len()),
    }
}

/// A matmul operand is read with unit stride along one of its last two axes.
fn matrix_is_readable(layout: &Layout) -> bool {
    let rank = layout.rank();
    !layout.is_blocked()
        && layout
            .splits()
            .last()
            .is_some_and(|s| usize::from(s.axis) + 2 >= rank)
}

/// The combinations that have a kernel: NCHW; NHWC with HWIO weights; NHWC with HWI weights in blocks of output channels, whose
/// panels are contiguous where a row of all output channels outgrows the cache's ways (small images of many channels);
/// channel-blocked with weights blocked alike; and for images whose channels no block divides (the first layer), plain images
/// in, blocked images out.
pub fn conv_combinations(
    x: &[SymExpr],
    weight: &[SymExpr],
    out: &[SymExpr],
    groups: i64,
    blocks: &[u32],
) -> Vec<ConvCombination> {
    let nchw = Layout::row_major(4);
    let nhwc = Layout::permuted(&[0, 2, 3, 1]);
    let mut found = vec![
        ConvCombination {
            x: nchw.clone(),
            weight: nchw.clone(),
            out: nchw.clone(),
        },
        ConvCombination {
            x: nhwc.clone(),
            weight: hwio(),
            out: nhwc.clone(),
        },
    ];
    let depthwise = groups > 1 && weight[1].is_const(1) && x[1] == out[1];
    let panels = blocks
        .iter()
        .map(|&b| ohwi_blocked(b))
        .filter(|l| fits(weight, l));
    if groups == 1
        && let Some(panel) = panels.max_by_key(|l| l.splits().last().and_then(|s| s.factor))
    {
        found.push(ConvCombination {
            x: nhwc.clone(),
            weight: panel,
            out: nhwc.clone(),
        });
    }
    for &block in blocks {
        let image = Layout::blocked(4, 1, block);
        if !fits(out, &image) || (groups > 1 && !depthwise) {
            continue;
        }
        let from_blocked = if depthwise {
            blocked_weight(block, None)
        } else {
            blocked_weight(block, Some(block))
        };
        if fits(x, &image) && fits(weight, &from_blocked) {
            found.push(ConvCombination {
                x: image.clone(),
                weight: from_blocked,
                out: image,
            });
        } else if groups == 1 {
            let from_plain = blocked_weight(block, None);
            found.push(ConvCombination {
                x: nchw.clone(),
                weight: from_plain.clone(),
                out: image.clone(),
            });
            found.push(ConvCombination {
                x: nhwc.clone(),
                weight: from_plain,
                out: image,
            });
        }
    }
    found
}
