//! Components: what propagation leaves open falls apart into parts that have no open tensor in common.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::propagate::Propagation;
use super::view::View;
use crate::id::TensorId;

/// The connected parts of those of `nodes` that are still open, each ascending, ordered by their first members. Two nodes
/// are connected when both have yet to decide about a tensor that both touch.
pub fn components(view: &View<'_>, state: &Propagation<'_>, nodes: &[usize]) -> Vec<Vec<usize>> {
    let open: Vec<usize> = nodes.iter().copied().filter(|&n| !state.is_decided(n)).collect();
    let mut parents: Vec<usize> = (0..open.len()).collect();
    let mut first: BTreeMap<TensorId, usize> = BTreeMap::new();
    for (i, &node) in open.iter().enumerate() {
        for t in open_tensors(view, state, node) {
            let other = *first.entry(t).or_insert(i);
            let (a, b) = (root(&mut parents, i), root(&mut parents, other));
            parents[a.max(b)] = a.min(b);
        }
    }
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut part_of = vec![usize::MAX; open.len()];
    for (i, &node) in open.iter().enumerate() {
        let r = root(&mut parents, i);
        if r == i {
            part_of[i] = parts.len();
            parts.push(Vec::new());
        }
        parts[part_of[r]].push(node);
    }
    parts
}

/// The tensors about which `node` has yet to decide; one stands here as often as the node touches it.
pub fn open_tensors<'s>(
    view: &'s View<'_>,
    state: &'s Propagation<'_>,
    node: usize,
) -> impl Iterator<Item = TensorId> + 's {
    let n = &view.nodes()[node];
    (0..n.places())
        .filter(move |&place| !state.is_decided(node) && state.agreed(node, place).is_none())
        .map(|place| n.tensor(place))
}

/// How many ways there are to choose for all of `nodes`, saturating.
pub fn combinations(state: &Propagation<'_>, nodes: &[usize]) -> u64 {
    nodes.iter().fold(1, |product: u64, &n| {
        product.saturating_mul(state.candidates(n).len() as u64)
    })
}

/// The member that shares open tensors with most others: where to cut a component that is too large. Among equals the one
/// nearest to the middle, so that cutting a long chain takes logarithmically many rounds.
pub fn hub(view: &View<'_>, state: &Propagation<'_>, component: &[usize]) -> Option<usize> {
    let mut touching: BTreeMap<TensorId, u64> = BTreeMap::new();
    for &node in component {
        for t in open_tensors(view, state, node) {
            *touching.entry(t).or_default() += 1;
        }
    }
    let middle = component.len() / 2;
    let merit = |&(i, &node): &(usize, &usize)| {
        let others: u64 = open_tensors(view, state, node).map(|t| touching[&t] - 1).sum();
        (others, Reverse(i.abs_diff(middle)), Reverse(i))
    };
    component
        .iter()
        .enumerate()
        .max_by_key(merit)
        .map(|(_, &node)| node)
}

fn root(parents: &mut [usize], mut at: usize) -> usize {
    while parents[at] != at {
        parents[at] = parents[parents[at]];
        at = parents[at];
    }
    at
}
