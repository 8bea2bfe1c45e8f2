//! The tree decomposition that an elimination order induces.

use super::eliminate::Elimination;
use crate::graph::Graph;

/// A rooted forest of bags. Bag `i` belongs to the `i`-th eliminated vertex and holds it and its neighbours at that moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeDecomposition {
    /// The bags, each sorted.
    pub bags: Vec<Vec<u32>>,
    /// The parent of each bag, always of higher index; `None` for roots (one per component).
    pub parents: Vec<Option<u32>>,
    /// The vertex whose elimination made the bag: it is in no bag above.
    pub forgets: Vec<u32>,
}

impl TreeDecomposition {
    /// The decomposition of `graph` by `order`, which must hold every vertex once.
    pub fn from_order(graph: &Graph, order: &[u32]) -> Self {
        let mut position = vec![0u32; graph.len()];
        for (i, &v) in order.iter().enumerate() {
            position[v as usize] = i as u32;
        }
        let mut e = Elimination::new(graph);
        let (mut bags, mut parents) = (Vec::with_capacity(order.len()), Vec::with_capacity(order.len()));
        for &v in order {
            let (mut bag, _) = e.eliminate(v);
            parents.push(bag.iter().map(|&u| position[u as usize]).min());
            let at = bag.partition_point(|&u| u < v);
            bag.insert(at, v);
            bags.push(bag);
        }
        Self {
            bags,
            parents,
            forgets: order.to_vec(),
        }
    }

    /// Size of the largest bag, less one.
    pub fn width(&self) -> usize {
        self.bags.iter().map(Vec::len).max().unwrap_or(1) - 1
    }

    /// Bags in depth-first post-order, children by falling size of their subtree, so that few tables are alive at once.
    pub fn post_order(&self) -> Vec<u32> {
        let n = self.bags.len();
        let mut size = vec![1u32; n];
        let mut children = vec![Vec::new(); n];
        let mut roots = Vec::new();
        for i in 0..n {
            match self.parents[i] {
                Some(p) => {
                    size[p as usize] += size[i];
                    children[p as usize].push(i as u32);
                }
                None => roots.push(i as u32),
            }
        }
        // Pushed in rising order of size, popped in falling order; the reverse of a pre-order is a post-order.
        let mut order = Vec::with_capacity(n);
        let mut stack = roots;
        while let Some(i) = stack.pop() {
            order.push(i);
            let mut below = std::mem::take(&mut children[i as usize]);
            below.sort_by_key(|&c| std::cmp::Reverse(size[c as usize]));
            stack.extend(below);
        }
        order.reverse();
        order
    }
}
