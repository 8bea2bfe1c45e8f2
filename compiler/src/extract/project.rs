//! How a layout of an operator's result determines the layouts of its operands and the other way round, per layout rule.

use crate::alias;
use relayout_ir::layout::{Layout, Split};
use relayout_ir::op::LayoutRule;
use relayout_ir::sym::SymExpr;

/// The logical shapes around one operator call. `args` has `None` for operands that are not tensors.
#[derive(Clone, Debug)]
pub struct Shapes {
    /// Operands.
    pub args: Vec<Option<Vec<SymExpr>>>,
    /// Result.
    pub out: Vec<SymExpr>,
}

/// Whether a tensor of these dimensions can be in this layout: every blocked axis is provably a multiple of its block.
pub fn fits(dims: &[SymExpr], layout: &Layout) -> bool {
    layout.rank() == dims.len()
        && (0..dims.len()).all(|axis| match layout.block_of(axis as u8) {
            1 => true,
            block => dims[axis].modulo(block).is_const(0),
        })
}

/// The layout of operand `operand` when the result is in `out`; `None` where the rule does not tie the two.
pub fn operand_layout(rule: &LayoutRule, shapes: &Shapes, operand: usize, out: &Layout) -> Option<Layout> {
    let dims = shapes.args.get(operand)?.as_ref()?;
    let layout = match rule {
        LayoutRule::Elementwise => broadcast_projection(dims, &shapes.out, out)?,
        LayoutRule::AlongAxes(_) | LayoutRule::Pool2d if operand == 0 => out.clone(),
        LayoutRule::AlongAxes(_) => Layout::row_major(dims.len()),
        LayoutRule::Reduce { keep: true, .. } => out.clone(),
        LayoutRule::Permute(perm) => alias::permuted_layout(out, &inverse(perm))?,
        LayoutRule::Reshape => alias::reshaped_layout((&shapes.out, out), dims)?,
        LayoutRule::AxisPieces(_) if dims.len() == shapes.out.len() => out.clone(),
        _ => return None,
    };
    fits(dims, &layout).then_some(layout)
}

/// The layout of the result when operand `operand` is in `layout`; `None` where the rule does not tie the two.
pub fn result_layout(rule: &LayoutRule, shapes: &Shapes, operand: usize, layout: &Layout) -> Option<Layout> {
    let dims = shapes.args.get(operand)?.as_ref()?;
    let out = match rule {
        LayoutRule::Elementwise if *dims == shapes.out => layout.clone(),
        LayoutRule::AlongAxes(_) | LayoutRule::Pool2d if operand == 0 => layout.clone(),
        LayoutRule::Reduce { axes, keep } => reduced_layout(layout, axes, *keep)?,
        LayoutRule::Permute(perm) => alias::permuted_layout(layout, perm)?,
        LayoutRule::Reshape => alias::reshaped_layout((dims, layout), &shapes.out)?,
        LayoutRule::AxisPieces(_) if dims.len() == shapes.out.len() => layout.clone(),
        _ => return None,
    };
    fits(&shapes.out, &out).then_some(out)
}

/// The layout of a broadcast operand that goes with the result's: missing axes are dropped, axes of extent 1 that the result
/// stretches are unblocked.
fn broadcast_projection(dims: &[SymExpr], out_dims: &[SymExpr], out: &Layout) -> Option<Layout> {
    let offset = out_dims.len().checked_sub(dims.len())?;
    let mut splits = Vec::new();
    for split in out.splits() {
        let Some(axis) = usize::from(split.axis).checked_sub(offset) else {
            continue;
        };
        let stretched = dims[axis] != out_dims[axis + offset];
        if !(stretched && split.factor.is_some()) {
            splits.push(Split {
                axis: axis as u8,
                factor: split.factor,
            });
        }
    }
    Layout::new(dims.len(), splits).ok()
}

/// A reduction's result in the order of its operand.
fn reduced_layout(layout: &Layout, axes: &[u8], keep: bool) -> Option<Layout> {
    let splits = layout
        .splits()
        .iter()
        .filter_map(|s| match (axes.contains(&s.axis), keep) {
            (false, true) => Some(*s),
            (true, true) => s.factor.is_none().then_some(*s),
            (false, false) => {
                let removed_before = axes.iter().filter(|a| **a < s.axis).count() as u8;
                Some(Split {
                    axis: s.axis - removed_before,
                    factor: s.factor,
                })
            }
            (true, false) => None,
        });
    let rank = if keep {
        layout.rank()
    } else {
        layout.rank() - axes.len()
    };
    Layout::new(rank, splits.collect()).ok()
}

/// The inverse of a permutation.
pub fn inverse(perm: &[u8]) -> Vec<u8> {
    let mut out = vec![0; perm.len()];
    for (i, &p) in perm.iter().enumerate() {
        out[usize::from(p)] = i as u8;
    }
    out
}
