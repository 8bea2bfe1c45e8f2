//! Treewidth and tree decompositions (seed, section 3.2.1).
//!
//! [`eliminate`] has the heuristic orders and the exact reductions, [`bounds`] the lower bounds, [`search`] the bounded
//! exact search, [`tree`] the decomposition an order induces, [`nice`] its nice form. [`treewidth`] puts them together.

pub mod bounds;
pub mod eliminate;
pub mod nice;
pub mod search;
pub mod tree;

pub use nice::{NiceDecomposition, NiceNode};
pub use tree::TreeDecomposition;

use crate::graph::Graph;
use crate::strategy::Budget;

/// Bounds on the treewidth of a graph, and an elimination order of width `upper`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Width {
    /// No decomposition is narrower.
    pub lower: usize,
    /// The width of `order`. Equal to `lower` when the treewidth is known exactly.
    pub upper: usize,
    /// Every vertex once, in the order of elimination.
    pub order: Vec<u32>,
}

impl Width {
    /// Whether the bounds meet.
    pub fn is_exact(&self) -> bool {
        self.lower == self.upper
    }
}

/// Work that the exact search may do per kernel before it gives up: about half a second.
const SEARCH_WORK: u64 = 40_000_000;

/// Vertices that the bounds with random ties may take per kernel, over all their runs: a few tenths of a second.
const RESTART_VERTICES: usize = 30_000;

/// The treewidth of `graph` (maximum over components), as exactly as cheap means allow.
///
/// Safe reductions (simplicial and almost simplicial vertices, Bodlaender, Koster, van den Eijkhof 2005) with lower
/// bounds from minor-min-width (MMD+, Gogate and Dechter 2004) shrink the graph to a kernel; min-fill and min-degree
/// bound the kernel from above, and both bounds with random ties where that leaves
/// a gap; a memoised search over elimination sets closes what gap is left within a step limit.
pub fn treewidth(graph: &Graph, budget: &Budget) -> Width {
    let mut lower = bounds::minor_min_width(graph.adjacency());
    let reduced = eliminate::reduce(graph, &mut lower);
    let mut upper = reduced.width;
    let mut order = reduced.prefix;
    for kernel in &reduced.kernels {
        let by_fill = eliminate::min_fill(&kernel.graph);
        let by_degree = eliminate::min_degree(&kernel.graph);
        let mut best = if by_degree.width < by_fill.width {
            by_degree
        } else {
            by_fill
        };
        let mut low = bounds::minor_min_width(kernel.graph.adjacency());
        // Only the widest kernel decides: a kernel known to be no wider than `lower` needs no closer look.
        if best.width > low.max(lower) {
            best =
                eliminate::min_fill_at_random(&kernel.graph, best, low.max(lower), RESTART_VERTICES, budget);
            let lists = kernel.graph.adjacency();
            low = bounds::minor_min_width_at_random(lists, low, best.width, RESTART_VERTICES, budget);
        }
        if best.width > low.max(lower) {
            let found = search::narrow(&kernel.graph, low.max(lower), best, SEARCH_WORK, budget);
            low = low.max(found.proven_lower);
            best = found.order;
        }
        lower = lower.max(low.min(best.width));
        upper = upper.max(best.width);
        order.extend(best.order.iter().map(|&v| kernel.vertices[v as usize]));
    }
    Width {
        lower: lower.min(upper),
        upper,
        order,
    }
}
