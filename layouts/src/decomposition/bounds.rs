//! Lower bounds on treewidth.

use std::collections::BTreeSet;

use crate::rng::SplitMix64;
use crate::strategy::Budget;

/// Degeneracy (MMD): the largest minimum degree met when the vertex of least degree is removed again and again.
/// A subgraph of minimum degree d has treewidth at least d. O(edges · log vertices).
pub fn degeneracy(adjacency: &[Vec<u32>]) -> usize {
    let mut degree: Vec<usize> = adjacency.iter().map(Vec::len).collect();
    let mut queue: BTreeSet<(usize, u32)> = degree.iter().copied().zip(0..).collect();
    let mut removed = vec![false; adjacency.len()];
    let mut bound = 0;
    while let Some((d, v)) = queue.pop_first() {
        bound = bound.max(d);
        removed[v as usize] = true;
        for &u in &adjacency[v as usize] {
            if !removed[u as usize] {
                queue.remove(&(degree[u as usize], u));
                degree[u as usize] -= 1;
                queue.insert((degree[u as usize], u));
            }
        }
    }
    bound
}

/// Minor-min-width (MMD+ with the least-common-neighbour rule): like [`degeneracy`], but the vertex is contracted into
/// the neighbour with which it shares the fewest neighbours. Treewidth never grows under contraction, so every minimum
/// degree met is a bound, and at least as good a one.
pub fn minor_min_width(adjacency: &[Vec<u32>]) -> usize {
    let ranks: Vec<u32> = (0..adjacency.len() as u32).collect();
    contracted(adjacency, &ranks)
}

/// The best of several minor-min-width bounds with ties at random, at least `bound`. Stops at `enough`, or when `vertices`
/// have been contracted in all.
pub(crate) fn minor_min_width_at_random(
    adjacency: &[Vec<u32>],
    mut bound: usize,
    enough: usize,
    vertices: usize,
    budget: &Budget,
) -> usize {
    let mut rng = SplitMix64::new(adjacency.len() as u64);
    let mut ranks: Vec<u32> = (0..adjacency.len() as u32).collect();
    for _ in 0..vertices / adjacency.len().max(1) {
        if bound >= enough || budget.exhausted() {
            break;
        }
        for i in (1..ranks.len()).rev() {
            ranks.swap(i, rng.below(i as u64 + 1) as usize);
        }
        bound = bound.max(contracted(adjacency, &ranks));
    }
    bound
}

/// The bound that contractions give when ties go to the vertex of least rank.
fn contracted(adjacency: &[Vec<u32>], ranks: &[u32]) -> usize {
    // Vertices are called by their rank from here on.
    let mut adj: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); adjacency.len()];
    for (v, neighbours) in adjacency.iter().enumerate() {
        adj[ranks[v] as usize] = neighbours.iter().map(|&u| ranks[u as usize]).collect();
    }
    let mut queue: BTreeSet<(usize, u32)> = adj.iter().map(BTreeSet::len).zip(0..).collect();
    let mut bound = 0;
    while let Some((d, v)) = queue.pop_first() {
        bound = bound.max(d);
        if queue.len() <= bound {
            break; // every further degree is below the number of vertices left
        }
        let neighbours = std::mem::take(&mut adj[v as usize]);
        let shared = |u: u32| {
            neighbours
                .iter()
                .filter(|&&w| adj[u as usize].contains(&w))
                .count()
        };
        let into = neighbours
            .iter()
            .copied()
            .min_by_key(|&u| (shared(u), adj[u as usize].len(), u));
        let touched: Vec<u32> = neighbours.iter().copied().collect();
        for &u in &touched {
            queue.remove(&(adj[u as usize].len(), u));
            adj[u as usize].remove(&v);
        }
        if let Some(into) = into {
            for &u in touched.iter().filter(|&&u| u != into) {
                adj[u as usize].insert(into);
                adj[into as usize].insert(u);
            }
        }
        for &u in &touched {
            queue.insert((adj[u as usize].len(), u));
        }
    }
    bound
}
