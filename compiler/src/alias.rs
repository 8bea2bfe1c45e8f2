//! When two tensors are the same bytes: the test behind free logical transposes, reshapes and layout conversions.
//!
//! A tensor in a layout is a walk over its *logical linear index*: from the outermost physical piece to the innermost, each
//! piece has an extent and a stride in that index. Dropping pieces of extent 1 and joining neighbours whose strides nest
//! gives a normal form. A reshape keeps the linear index, so operand and result are the same bytes exactly when the normal
//! forms are equal; a transpose permutes the strides first; a conversion compares two layouts of one tensor.

use relayout_ir::annotation::TensorInfo;
use relayout_ir::graph::{Attr, Attrs};
use relayout_ir::layout::Layout;
use relayout_ir::sym::{SymExpr, product};

/// Whether a call of `op` maps `input` to `output` under their layouts without moving a byte. What extraction prices at nothing
/// and what legalisation turns into a view is decided here, for both.
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
        "layout_transform" => conversion_is_alias(in_dims, &from, &to),
        "reshape" | "expand_dims" | "squeeze" => reshape_is_alias((in_dims, &from), (out_dims, &to)),
        "permute" => {
            let Some(Attr::Ints(perm)) = attrs.get("perm") else {
                return false;
            };
            let perm: Option<Vec<u8>> = perm.iter().map(|p| u8::try_from(*p).ok()).collect();
            perm.is_some_and(|perm| permute_is_alias(in_dims, &perm, &from, &to))
        }
        _ => false,
    }
}

/// One run of the normal form: `extent` steps of `stride` in the logical linear index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    extent: SymExpr,
    stride: SymExpr,
}

/// Strides of the row-major linear index, per logical axis.
pub fn linear_strides(dims: &[SymExpr]) -> Vec<SymExpr> {
    (0..dims.len()).map(|i| product(&dims[i + 1..])).collect()
}

/// The normal form of a tensor of `dims` in `layout`, with the given stride per logical axis; `None` when the layout pads an
/// axis (its bytes are then no walk over the logical elements) or divisibility is not provable.
///
/// O(pieces) symbolic operations.
pub fn normal_form(dims: &[SymExpr], layout: &Layout, strides: &[SymExpr]) -> Option<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for (position, split) in layout.splits().iter().enumerate() {
        let axis = usize::from(split.axis);
        let inner: i64 = layout.splits()[position + 1..]
            .iter()
            .filter(|s| s.axis == split.axis)
            .filter_map(|s| s.factor)
            .map(i64::from)
            .product();
        let extent = match split.factor {
            Some(f) => SymExpr::constant(i64::from(f)),
            None if inner == 1 => dims[axis].clone(),
            None if dims[axis].modulo(inner).is_const(0) => dims[axis].floor_div(inner),
            None => return None,
        };
        if extent.is_const(1) {
            continue;
        }
        let stride = strides[axis].clone() * SymExpr::constant(inner);
        match runs.last_mut() {
            Some(last) if last.stride == stride.clone() * extent.clone() => {
                last.extent = last.extent.clone() * extent;
                last.stride = stride;
            }
            _ => runs.push(Run { extent, stride }),
        }
    }
    Some(runs)
}

/// Whether a reshape from `from` to `to` moves no byte.
pub fn reshape_is_alias(from: (&[SymExpr], &Layout), to: (&[SymExpr], &Layout)) -> bool {
    let a = normal_form(from.0, from.1, &linear_strides(from.0));
    let b = normal_form(to.0, to.1, &linear_strides(to.0));
    product(from.0) == product(to.0) && a.is_some() && a == b
}

/// Whether converting a tensor of `dims` between two layouts moves no byte.
pub fn conversion_is_alias(dims: &[SymExpr], from: &Layout, to: &Layout) -> bool {
    from == to || reshape_is_alias((dims, from), (dims, to))
}

/// Whether the logical transpose `result[i] = operand[perm[i]]` moves no byte.
pub fn permute_is_alias(dims: &[SymExpr], perm: &[u8], from: &Layout, to: &Layout) -> bool {
    let strides = linear_strides(dims);
    let out_dims: Vec<SymExpr> = perm.iter().map(|&p| dims[usize::from(p)].clone()).collect();
    let out_strides: Vec<SymExpr> = perm.iter().map(|&p| strides[usize::from(p)].clone()).collect();
    let a = normal_form(dims, from, &strides);
    a.is_some() && a == normal_form(&out_dims, to, &out_strides)
}

/// The layout of the result of a transpose that reads its operand in `layout` without moving a byte.
pub fn permuted_layout(layout: &Layout, perm: &[u8]) -> Option<Layout> {
    let splits = layout
        .splits()
        .iter()
        .map(|s| {
            let axis = perm.iter().position(|&p| p == s.axis)?;
            Some(relayout_ir::layout::Split {
                axis: u8::try_from(axis).ok()?,
                factor: s.factor,
            })
        })
        .collect::<Option<Vec<_>>>()?;
    Layout::new(perm.len(), splits).ok()
}

/// The plain dimension order nearest to row-major in which the reshape's result is an alias of its operand. Tries the
/// permutations of the result's axes in lexicographic order, so it is meant for ranks up to 6.
pub fn reshaped_layout(from: (&[SymExpr], &Layout), to: &[SymExpr]) -> Option<Layout> {
    const MAX_RANK: usize = 6;
    if to.len() > MAX_RANK || product(from.0) != product(to) {
        return None;
    }
    let target = normal_form(from.0, from.1, &linear_strides(from.0))?;
    let strides = linear_strides(to);
    permutations(to.len())
        .into_iter()
        .map(|order| Layout::permuted(&order))
        .find(|layout| normal_form(to, layout, &strides).as_ref() == Some(&target))
}

/// All orders of `0..rank`, lexicographically.
pub fn permutations(rank: usize) -> Vec<Vec<u8>> {
    fn extend(prefix: &mut Vec<u8>, rank: usize, out: &mut Vec<Vec<u8>>) {
        if prefix.len() == rank {
            out.push(prefix.clone());
            return;
        }
        for axis in 0..rank as u8 {
            if !prefix.contains(&axis) {
                prefix.push(axis);
                extend(prefix, rank, out);
                prefix.pop();
            }
        }
    }
    let mut out = Vec::new();
    extend(&mut Vec::with_capacity(rank), rank, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(d: &[i64]) -> Vec<SymExpr> {
        d.iter().map(|&x| SymExpr::constant(x)).collect()
    }

    #[test]
    fn heads_split_off_a_hidden_dimension_is_an_alias_at_any_sequence_length() {
        let s = SymExpr::named("s");
        let from = [SymExpr::constant(1), s.clone(), SymExpr::constant(768)];
        let to = [
            SymExpr::constant(1),
            s.clone(),
            SymExpr::constant(12),
            SymExpr::constant(64),
        ];
        assert!(reshape_is_alias(
            (&from, &Layout::row_major(3)),
            (&to, &Layout::row_major(4))
        ));
        let split = Layout::permuted(&[0, 2, 1, 3]);
        assert!(!reshape_is_alias((&from, &Layout::row_major(3)), (&to, &split)));
    }

    #[test]
    fn flattening_a_blocked_pooled_image_is_an_alias() {
        let image = dims(&[1, 512, 1, 1]);
        let flat = dims(&[1, 512]);
        assert!(reshape_is_alias(
            (&image, &Layout::blocked(4, 1, 16)),
            (&flat, &Layout::row_major(2))
        ));
        let image = dims(&[1, 512, 7, 7]);
        let flat = dims(&[1, 512 * 49]);
        assert!(!reshape_is_alias(
            (&image, &Layout::blocked(4, 1, 16)),
            (&flat, &Layout::row_major(2))
        ));
    }

    #[test]
    fn a_transpose_is_an_alias_in_the_permuted_layout_only() {
        let d = dims(&[2, 3, 5, 7]);
        let perm = [0, 2, 1, 3];
        let to = permuted_layout(&Layout::row_major(4), &perm).expect("a permutation");
        assert_eq!(to, Layout::permuted(&[0, 2, 1, 3]));
        assert!(permute_is_alias(&d, &perm, &Layout::row_major(4), &to));
        assert!(!permute_is_alias(
            &d,
            &perm,
            &Layout::row_major(4),
            &Layout::row_major(4)
        ));
    }

    #[test]
    fn conversions_between_orders_of_unit_axes_are_free() {
        let d = dims(&[1, 64, 1, 1]);
        assert!(conversion_is_alias(
            &d,
            &Layout::row_major(4),
            &Layout::permuted(&[0, 2, 3, 1])
        ));
        let d = dims(&[1, 64, 2, 1]);
        assert!(!conversion_is_alias(
            &d,
            &Layout::row_major(4),
            &Layout::permuted(&[0, 2, 3, 1])
        ));
    }

    #[test]
    fn a_conversion_priced_at_nothing_is_a_view() {
        let pooled = TensorInfo::new(dims(&[1, 64, 1, 1]), relayout_ir::annotation::DType::F32);
        let (nchw, nhwc) = (Layout::row_major(4), Layout::permuted(&[0, 2, 3, 1]));
        let view = |from: &TensorInfo, to: &TensorInfo| is_alias("layout_transform", &Attrs::new(), from, to);
        assert!(view(
            &pooled.in_layout(nchw.clone()),
            &pooled.in_layout(nhwc.clone())
        ));
        let image = TensorInfo::new(dims(&[1, 64, 7, 7]), relayout_ir::annotation::DType::F32);
        assert!(!view(&image.in_layout(nchw), &image.in_layout(nhwc)));
    }

    #[test]
    fn the_reshaped_layout_follows_the_operand() {
        // [b, h, s, d] stored as [b, s, h, d] merges h and d again.
        let from = dims(&[2, 12, 5, 64]);
        let joined = reshaped_layout((&from, &Layout::row_major(4)), &dims(&[24, 5, 64]));
        assert_eq!(joined, Some(Layout::row_major(3)));
        let none = reshaped_layout((&from, &Layout::permuted(&[0, 2, 1, 3])), &dims(&[24, 5, 64]));
        assert_eq!(none, None);
    }
}
