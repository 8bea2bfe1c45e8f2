//! Elimination orders: heuristics for upper bounds, and reductions that are provably without loss.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::graph::Graph;
use crate::rng::SplitMix64;
use crate::strategy::Budget;

/// An elimination order and its width.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Vertices in the order of elimination.
    pub order: Vec<u32>,
    /// Largest number of neighbours a vertex had when it was eliminated.
    pub width: usize,
}

/// The fill-in graph while it is eliminated. Adjacency lists stay sorted.
pub(crate) struct Elimination {
    pub adj: Vec<Vec<u32>>,
    pub gone: Vec<bool>,
}

impl Elimination {
    pub fn new(graph: &Graph) -> Self {
        Self {
            adj: graph.adjacency().to_vec(),
            gone: vec![false; graph.len()],
        }
    }

    pub fn adjacent(&self, u: u32, v: u32) -> bool {
        self.adj[u as usize].binary_search(&v).is_ok()
    }

    /// Edges missing among the neighbours of `v`, counted up to `limit`.
    pub fn fill(&self, v: u32, limit: usize) -> usize {
        let n = &self.adj[v as usize];
        let mut missing = 0;
        for (i, &a) in n.iter().enumerate() {
            for &b in &n[i + 1..] {
                missing += usize::from(!self.adjacent(a, b));
                if missing >= limit {
                    return missing;
                }
            }
        }
        missing
    }

    /// Joins the neighbours of `v` to a clique and removes `v`. Returns the neighbours and the number of edges added.
    pub fn eliminate(&mut self, v: u32) -> (Vec<u32>, usize) {
        let neighbours = std::mem::take(&mut self.adj[v as usize]);
        self.gone[v as usize] = true;
        let mut added = 0;
        for &u in &neighbours {
            let merged = merge(&self.adj[u as usize], &neighbours, u, v);
            added += merged.len() + 1 - self.adj[u as usize].len();
            self.adj[u as usize] = merged;
        }
        (neighbours, added / 2)
    }
}

/// `(a ∪ b) \ {u, v}`, all sorted.
fn merge(a: &[u32], b: &[u32], u: u32, v: u32) -> Vec<u32> {
    let mut out = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let next = match (a.get(i), b.get(j)) {
            (Some(&x), Some(&y)) => x.min(y),
            (Some(&x), None) | (None, Some(&x)) => x,
            (None, None) => break,
        };
        i += usize::from(a.get(i) == Some(&next));
        j += usize::from(b.get(j) == Some(&next));
        if next != u && next != v {
            out.push(next);
        }
    }
    out
}

/// Eliminates the vertex that adds the fewest edges (ties: degree, then index).
pub fn min_fill(graph: &Graph) -> Order {
    let ranks: Vec<u32> = (0..graph.len() as u32).collect();
    fill_order(graph, true, &ranks, usize::MAX).unwrap_or_default()
}

/// The narrowest of several min-fill orders with ties at random, if narrower than `best`; every other one looks at the
/// degree before chance. Stops at `enough`, or when `vertices` have been eliminated in all.
pub(crate) fn min_fill_at_random(
    graph: &Graph,
    mut best: Order,
    enough: usize,
    vertices: usize,
    budget: &Budget,
) -> Order {
    let mut rng = SplitMix64::new(graph.len() as u64);
    let mut ranks: Vec<u32> = (0..graph.len() as u32).collect();
    for run in 0..vertices / graph.len().max(1) {
        if best.width <= enough || budget.exhausted() {
            break;
        }
        for i in (1..ranks.len()).rev() {
            ranks.swap(i, rng.below(i as u64 + 1) as usize);
        }
        if let Some(order) = fill_order(graph, run % 2 == 0, &ranks, best.width) {
            best = order;
        }
    }
    best
}

/// Eliminates the vertex that adds the fewest edges; ties by degree if wanted, then by rank. `None` as soon as the order
/// is as wide as `too_wide`.
fn fill_order(graph: &Graph, by_degree: bool, ranks: &[u32], too_wide: usize) -> Option<Order> {
    let mut e = Elimination::new(graph);
    let key = |e: &Elimination, v: u32| {
        let degree = if by_degree { e.adj[v as usize].len() } else { 0 };
        (e.fill(v, usize::MAX), degree, ranks[v as usize])
    };
    let mut keys: Vec<_> = (0..graph.len() as u32).map(|v| key(&e, v)).collect();
    let mut heap: BinaryHeap<_> = keys.iter().zip(0u32..).map(|(&k, v)| Reverse((k, v))).collect();
    let mut order = Order {
        order: Vec::with_capacity(graph.len()),
        width: 0,
    };
    let mut stamp = vec![u32::MAX; graph.len()];
    let mut touched = Vec::new();
    while let Some(Reverse((k, v))) = heap.pop() {
        if e.gone[v as usize] || keys[v as usize] != k {
            continue;
        }
        let (neighbours, added) = e.eliminate(v);
        order.width = order.width.max(neighbours.len());
        if order.width >= too_wide {
            return None;
        }
        order.order.push(v);
        // Keys change among the neighbours, and, when edges were added, among whoever sees both ends of one.
        touched.clear();
        touched.extend_from_slice(&neighbours);
        if added > 0 {
            touched.extend(neighbours.iter().flat_map(|&u| e.adj[u as usize].iter().copied()));
        }
        for &u in &touched {
            if std::mem::replace(&mut stamp[u as usize], v) == v {
                continue;
            }
            let now = key(&e, u);
            if now != keys[u as usize] {
                keys[u as usize] = now;
                heap.push(Reverse((now, u)));
            }
        }
    }
    Some(order)
}

/// Eliminates the vertex with the fewest neighbours (ties: index).
pub fn min_degree(graph: &Graph) -> Order {
    let mut e = Elimination::new(graph);
    let mut heap: BinaryHeap<_> = (0..graph.len() as u32)
        .map(|v| Reverse((e.adj[v as usize].len(), v)))
        .collect();
    let mut order = Order {
        order: Vec::with_capacity(graph.len()),
        width: 0,
    };
    while let Some(Reverse((degree, v))) = heap.pop() {
        if e.gone[v as usize] || e.adj[v as usize].len() != degree {
            continue;
        }
        let (neighbours, _) = e.eliminate(v);
        order.width = order.width.max(neighbours.len());
        order.order.push(v);
        for u in neighbours {
            heap.push(Reverse((e.adj[u as usize].len(), u)));
        }
    }
    order
}

/// The width of an elimination order of all vertices.
pub fn width_of(graph: &Graph, order: &[u32]) -> usize {
    let mut e = Elimination::new(graph);
    order.iter().map(|&v| e.eliminate(v).0.len()).max().unwrap_or(0)
}

/// A connected part that no reduction applies to.
pub(crate) struct Kernel {
    pub graph: Graph,
    /// The original vertex of each vertex of `graph`.
    pub vertices: Vec<u32>,
}

/// What is left after the reductions.
pub(crate) struct Reduced {
    /// Vertices eliminated without loss, in order.
    pub prefix: Vec<u32>,
    /// Width of that prefix.
    pub width: usize,
    pub kernels: Vec<Kernel>,
}

/// Eliminates simplicial vertices (raising `lower` to their degree) and almost simplicial vertices of degree at most
/// `lower`. Both keep the maximum of `lower` and the treewidth (Bodlaender, Koster, van den Eijkhof 2005).
pub(crate) fn reduce(graph: &Graph, lower: &mut usize) -> Reduced {
    let mut e = Elimination::new(graph);
    let mut queue: VecDeque<u32> = (0..graph.len() as u32).collect();
    let mut queued = vec![true; graph.len()];
    let mut reduced = Reduced {
        prefix: Vec::new(),
        width: 0,
        kernels: Vec::new(),
    };
    let mut before = *lower;
    loop {
        while let Some(v) = queue.pop_front() {
            queued[v as usize] = false;
            let degree = e.adj[v as usize].len();
            if e.gone[v as usize] || !(simplicial(&e, v) || degree <= *lower && almost_simplicial(&e, v)) {
                continue;
            }
            if simplicial(&e, v) {
                *lower = (*lower).max(degree);
            }
            let (neighbours, added) = e.eliminate(v);
            reduced.width = reduced.width.max(degree);
            reduced.prefix.push(v);
            let mut wake = |u: u32| {
                if !std::mem::replace(&mut queued[u as usize], true) {
                    queue.push_back(u);
                }
            };
            for &u in &neighbours {
                wake(u);
                if added > 0 {
                    e.adj[u as usize].iter().for_each(|&w| wake(w));
                }
            }
        }
        if *lower == before {
            break;
        }
        // A better bound admits vertices of higher degree.
        before = *lower;
        queue.extend((0..graph.len() as u32).filter(|&v| !e.gone[v as usize]));
        queue.iter().for_each(|&v| queued[v as usize] = true);
    }
    reduced.kernels = kernels(&e);
    reduced
}

fn simplicial(e: &Elimination, v: u32) -> bool {
    e.fill(v, 1) == 0
}

/// Whether all neighbours but one form a clique.
fn almost_simplicial(e: &Elimination, v: u32) -> bool {
    let n = &e.adj[v as usize];
    // All missing edges must share an end; the first missing edge names the two candidates.
    let pairs = || {
        n.iter()
            .enumerate()
            .flat_map(|(i, &a)| n[i + 1..].iter().map(move |&b| (a, b)))
    };
    let Some((a, b)) = pairs().find(|&(a, b)| !e.adjacent(a, b)) else {
        return true;
    };
    [a, b]
        .iter()
        .any(|&x| pairs().all(|(p, q)| p == x || q == x || e.adjacent(p, q)))
}

fn kernels(e: &Elimination) -> Vec<Kernel> {
    let mut local = vec![u32::MAX; e.adj.len()];
    let mut kernels = Vec::new();
    for start in 0..e.adj.len() as u32 {
        if e.gone[start as usize] || local[start as usize] != u32::MAX {
            continue;
        }
        let mut vertices = vec![start];
        local[start as usize] = 0;
        let mut next = 0;
        while next < vertices.len() {
            for &u in &e.adj[vertices[next] as usize] {
                if local[u as usize] == u32::MAX {
                    local[u as usize] = vertices.len() as u32;
                    vertices.push(u);
                }
            }
            next += 1;
        }
        let edges = vertices
            .iter()
            .flat_map(|&v| e.adj[v as usize].iter().map(move |&u| (v, u)));
        let graph = Graph::new(
            vertices.len(),
            edges.map(|(v, u)| (local[v as usize], local[u as usize])),
        );
        kernels.push(Kernel { graph, vertices });
    }
    kernels
}
