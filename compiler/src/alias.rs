//! When a logical transpose or reshape is the same bytes in the same order, hence a view.

use relayout_ir::annotation::TensorInfo;
use relayout_ir::graph::{Attr, Attrs};
use relayout_ir::layout::Layout;
use relayout_ir::sym::SymExpr;

/// Whether `op` (`permute`, `reshape`, `expand_dims`, `squeeze`, `identity`) maps `input` to `output` without moving a byte, under their
/// layouts. Other operators are never aliases. Linear in the ranks.
pub fn is_alias(op: &str, attrs: &Attrs, input: &TensorInfo, output: &TensorInfo) -> bool {
    let (Some(from), Some(to)) = (input.layout_or_abi(), output.layout_or_abi()) else {
        return false;
    };
    let (Some(in_dims), Some(out_dims)) = (input.dims(), output.dims()) else {
        return false;
    };
    if from.partition().is_some() || to.partition().is_some() || from.space() != to.space() {
        return false;
    }
    match op {
        "identity" => from == to,
        "permute" => {
            let Some(Attr::Ints(perm)) = attrs.get("perm") else {
                return false;
            };
            let of_input = |axis: u8| perm.get(usize::from(axis)).and_then(|p| u8::try_from(*p).ok());
            let pieces = |l: &Layout, dims: &[SymExpr], rename: &dyn Fn(u8) -> Option<u8>| {
                l.splits()
                    .iter()
                    .filter(|s| s.factor.is_some() || !dims[usize::from(s.axis)].is_const(1))
                    .map(|s| rename(s.axis).map(|a| (a, s.factor)))
                    .collect::<Option<Vec<_>>>()
            };
            let a = pieces(&from, in_dims, &Some);
            let b = pieces(&to, out_dims, &of_input);
            a.is_some() && a == b
        }
        "reshape" | "expand_dims" | "squeeze" => {
            let Some(groups) = groups(in_dims, out_dims) else {
                return false;
            };
            match (
                order(&from, in_dims, &groups, |g| &g.0),
                order(&to, out_dims, &groups, |g| &g.1),
            ) {
                (Some(a), Some(b)) => a == b,
                _ => false,
            }
        }
        _ => false,
    }
}

/// Axes of the operand and of the result that have the same product, in logical order.
type Group = (Vec<usize>, Vec<usize>);

/// The finest grouping of a reshape's axes into runs of equal products; axes of extent 1 are in no group.
fn groups(input: &[SymExpr], output: &[SymExpr]) -> Option<Vec<Group>> {
    let some =
        |dims: &[SymExpr]| -> Vec<usize> { (0..dims.len()).filter(|&i| !dims[i].is_const(1)).collect() };
    let (ins, outs) = (some(input), some(output));
    let (mut i, mut o) = (0, 0);
    let mut groups = Vec::new();
    while i < ins.len() || o < outs.len() {
        let (mut a, mut b) = (vec![*ins.get(i)?], vec![*outs.get(o)?]);
        let (mut pa, mut pb) = (input[a[0]].clone(), output[b[0]].clone());
        (i, o) = (i + 1, o + 1);
        while pa != pb {
            // Extend the side that is known to be smaller; with symbolic extents, the one that divides the other is not known, so
            // both are tried in turn: the left first.
            let left = match (pa.as_const(), pb.as_const()) {
                (Some(x), Some(y)) => x < y,
                _ => i < ins.len() && (o >= outs.len() || a.len() <= b.len()),
            };
            if left {
                let axis = *ins.get(i)?;
                pa = pa * input[axis].clone();
                a.push(axis);
                i += 1;
            } else {
                let axis = *outs.get(o)?;
                pb = pb * output[axis].clone();
                b.push(axis);
                o += 1;
            }
        }
        groups.push((a, b));
    }
    Some(groups)
}

/// The physical order as a list of (group, block factor): every group whole and in order, blocks only on axes that are a group
/// of their own on both sides.
fn order(
    layout: &Layout,
    dims: &[SymExpr],
    groups: &[Group],
    side: impl Fn(&Group) -> &Vec<usize>,
) -> Option<Vec<(usize, Option<u32>)>> {
    let mut out = Vec::new();
    let pieces: Vec<_> = layout
        .splits()
        .iter()
        .filter(|s| s.factor.is_some() || !dims[usize::from(s.axis)].is_const(1))
        .collect();
    let mut at = 0;
    while at < pieces.len() {
        let axis = usize::from(pieces[at].axis);
        let (g, group) = groups.iter().enumerate().find(|(_, g)| side(g).contains(&axis))?;
        let axes = side(group);
        if group.0.len() == 1 && group.1.len() == 1 {
            out.push((g, pieces[at].factor));
            at += 1;
            continue;
        }
        for (k, axis) in axes.iter().enumerate() {
            let piece = pieces.get(at + k)?;
            if usize::from(piece.axis) != *axis || layout.block_of(piece.axis) != 1 {
                return None;
            }
        }
        out.push((g, None));
        at += axes.len();
    }
    Some(out)
}
