//! Bounded exact search for a narrower elimination order.
//!
//! Decides "treewidth ≤ k" for rising k: depth-first over sets of eliminated vertices, each set visited once (what is left
//! after eliminating a set does not depend on the order, so a set that failed once fails always). Simplicial and almost
//! simplicial vertices of degree ≤ k are eliminated at once, without branching.

use rustc_hash::FxHashSet;

use super::bounds;
use super::eliminate::Order;
use crate::graph::Graph;
use crate::strategy::Budget;

/// Kernels above this are not searched: their bit sets make each step too slow to be worth it.
const MAX_VERTICES: usize = 1024;

/// What [`narrow`] found.
pub(crate) struct Narrowed {
    /// The best order known.
    pub order: Order,
    /// Proven: no order is narrower than this.
    pub proven_lower: usize,
}

/// Tries to close the gap between `lower` and `best` within a budget of `work` (words of bit sets touched, about).
pub(crate) fn narrow(graph: &Graph, lower: usize, best: Order, work: u64, budget: &Budget) -> Narrowed {
    let mut proven_lower = lower;
    if graph.len() > MAX_VERTICES {
        return Narrowed {
            order: best,
            proven_lower,
        };
    }
    let mut search = Search {
        work,
        budget,
        seen: FxHashSet::default(),
        order: Vec::new(),
        k: 0,
    };
    for k in lower..best.width {
        search.k = k;
        search.seen.clear();
        search.order.clear();
        match search.decide(&Bits::of(graph)) {
            Some(true) => {
                let order = Order {
                    order: search.order,
                    width: k,
                };
                return Narrowed {
                    order,
                    proven_lower: k,
                };
            }
            Some(false) => proven_lower = k + 1,
            None => break,
        }
    }
    Narrowed {
        order: best,
        proven_lower,
    }
}

struct Search<'a> {
    work: u64,
    budget: &'a Budget,
    seen: FxHashSet<Box<[u64]>>,
    order: Vec<u32>,
    k: usize,
}

impl Search<'_> {
    /// Whether the rest can be eliminated at width `k`; `None` when the work or the budget ran out. On success `order` is complete.
    fn decide(&mut self, graph: &Bits) -> Option<bool> {
        let mut graph = graph.clone();
        let mark = self.order.len();
        while let Some(v) = graph.reducible(self.k) {
            graph.eliminate(v);
            self.order.push(v as u32);
            self.charge(&graph, 1)?;
        }
        if graph.alive_count() <= self.k + 1 {
            let rest: Vec<u32> = graph.vertices().map(|v| v as u32).collect();
            self.order.extend(rest);
            return Some(true);
        }
        if !self.seen.insert(graph.alive.clone().into_boxed_slice()) || graph.minor_min_width() > self.k {
            self.order.truncate(mark);
            return Some(false);
        }
        self.charge(&graph, 64)?; // the bound costs about as much as that many passes
        let mut candidates: Vec<_> = graph.vertices().filter(|&v| graph.degree(v) <= self.k).collect();
        candidates.sort_by_key(|&v| (graph.fill(v), v));
        for v in candidates {
            self.charge(&graph, 1)?;
            let mut next = graph.clone();
            next.eliminate(v);
            self.order.push(v as u32);
            if self.decide(&next)? {
                return Some(true);
            }
            self.order.pop();
        }
        self.order.truncate(mark);
        Some(false)
    }
}

impl Search<'_> {
    /// Pays for `passes` over the graph; `None` when the work or the budget ran out.
    fn charge(&mut self, graph: &Bits, passes: u64) -> Option<()> {
        self.work = self.work.checked_sub(passes * graph.rows.len() as u64)?;
        (!self.budget.exhausted()).then_some(())
    }
}

/// A graph as bit rows; `alive` marks the vertices that are left.
#[derive(Clone)]
struct Bits {
    words: usize,
    rows: Vec<u64>,
    alive: Vec<u64>,
}

fn ones(words: &[u64]) -> impl Iterator<Item = usize> + '_ {
    words.iter().enumerate().flat_map(|(i, &w)| {
        std::iter::successors(Some(w), |w| Some(w & w.wrapping_sub(1)))
            .take_while(|&w| w != 0)
            .map(move |w| i * 64 + w.trailing_zeros() as usize)
    })
}

impl Bits {
    fn of(graph: &Graph) -> Self {
        let (n, words) = (graph.len(), graph.len().div_ceil(64));
        let mut bits = Self {
            words,
            rows: vec![0; n * words],
            alive: vec![0; words],
        };
        for v in 0..n {
            bits.alive[v / 64] |= 1 << (v % 64);
            for &u in graph.neighbours(v as u32) {
                bits.rows[v * words + u as usize / 64] |= 1 << (u % 64);
            }
        }
        bits
    }

    fn row(&self, v: usize) -> &[u64] {
        &self.rows[v * self.words..(v + 1) * self.words]
    }

    fn degree(&self, v: usize) -> usize {
        self.row(v).iter().map(|w| w.count_ones() as usize).sum()
    }

    fn alive_count(&self) -> usize {
        self.alive.iter().map(|w| w.count_ones() as usize).sum()
    }

    fn vertices(&self) -> impl Iterator<Item = usize> + '_ {
        ones(&self.alive)
    }

    /// Neighbours of `v` that `u`, itself a neighbour, is not adjacent to.
    fn missing(&self, v: usize, u: usize) -> usize {
        let both = self
            .row(v)
            .iter()
            .zip(self.row(u))
            .map(|(a, b)| (a & !b).count_ones() as usize)
            .sum::<usize>();
        both - 1
    }

    /// Twice the number of edges missing among the neighbours of `v`.
    fn fill(&self, v: usize) -> usize {
        ones(self.row(v)).map(|u| self.missing(v, u)).sum()
    }

    fn reducible(&self, k: usize) -> Option<usize> {
        self.vertices().find(|&v| {
            let degree = self.degree(v);
            if degree > k {
                return false;
            }
            // Almost simplicial: one neighbour is an end of every missing edge (simplicial: none is missing).
            let fill = self.fill(v);
            fill == 0 || ones(self.row(v)).any(|u| 2 * self.missing(v, u) == fill)
        })
    }

    fn eliminate(&mut self, v: usize) {
        let row = self.row(v).to_vec();
        for u in ones(&row) {
            for (w, bits) in row.iter().enumerate() {
                self.rows[u * self.words + w] |= bits;
            }
            self.rows[u * self.words + u / 64] &= !(1 << (u % 64));
            self.rows[u * self.words + v / 64] &= !(1 << (v % 64));
        }
        self.rows[v * self.words..(v + 1) * self.words].fill(0);
        self.alive[v / 64] &= !(1 << (v % 64));
    }

    fn minor_min_width(&self) -> usize {
        let vertices: Vec<usize> = self.vertices().collect();
        let mut local = vec![0u32; self.rows.len() / self.words.max(1)];
        for (i, &v) in vertices.iter().enumerate() {
            local[v] = i as u32;
        }
        let adjacency: Vec<Vec<u32>> = vertices
            .iter()
            .map(|&v| ones(self.row(v)).map(|u| local[u]).collect())
            .collect();
        bounds::minor_min_width(&adjacency)
    }
}
