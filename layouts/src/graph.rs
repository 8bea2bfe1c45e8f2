//! The graph whose width is meant by "treewidth": simple, undirected, on operators.
//!
//! Sources and sinks are vertices; parallel edges are merged; consumers of one tensor are not made a clique.

use crate::problem::Problem;

/// A simple undirected graph with sorted adjacency lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    adjacency: Vec<Vec<u32>>,
}

impl Graph {
    /// The graph on `vertices` vertices with these edges; loops are dropped, parallel edges merged.
    ///
    /// # Panics
    /// When an edge names a vertex that does not exist.
    pub fn new(vertices: usize, edges: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let mut adjacency = vec![Vec::new(); vertices];
        for (u, v) in edges.into_iter().filter(|(u, v)| u != v) {
            adjacency[u as usize].push(v);
            adjacency[v as usize].push(u);
        }
        for neighbours in &mut adjacency {
            neighbours.sort_unstable();
            neighbours.dedup();
        }
        Self { adjacency }
    }

    /// The operator graph of a problem: vertex = operator index.
    pub fn of(problem: &Problem) -> Self {
        let edge = |(o, t): (u32, &crate::id::TensorId)| (problem.producer(*t).0, o);
        let reads = problem
            .operators()
            .zip(0u32..)
            .flat_map(|(op, o)| op.inputs.iter().map(move |t| (o, t)));
        Self::new(problem.operators().len(), reads.map(edge))
    }

    /// The operator graph without the sources of constants, with the operator of each vertex.
    pub fn without_constants(problem: &Problem) -> (Self, Vec<crate::id::OpId>) {
        let kept: Vec<_> = problem
            .op_ids()
            .filter(|&o| !problem.tensor(problem.operator(o).output).constant)
            .collect();
        let mut vertex = vec![None; problem.operators().len()];
        for (v, o) in kept.iter().enumerate() {
            vertex[o.index()] = Some(v as u32);
        }
        let full = Self::of(problem);
        let edges = full
            .edges()
            .filter_map(|(u, v)| Some((vertex[u as usize]?, vertex[v as usize]?)));
        (Self::new(kept.len(), edges), kept)
    }

    /// Number of vertices.
    pub fn len(&self) -> usize {
        self.adjacency.len()
    }

    /// Whether there is no vertex.
    pub fn is_empty(&self) -> bool {
        self.adjacency.is_empty()
    }

    /// The neighbours of `v`, ascending.
    pub fn neighbours(&self, v: u32) -> &[u32] {
        &self.adjacency[v as usize]
    }

    /// Every edge once, smaller vertex first, ascending.
    pub fn edges(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let from = |(u, n): (u32, &'_ Vec<u32>)| {
            n.iter()
                .filter(move |&&v| v > u)
                .map(move |&v| (u, v))
                .collect::<Vec<_>>()
        };
        (0u32..).zip(&self.adjacency).flat_map(from)
    }

    /// All adjacency lists.
    pub(crate) fn adjacency(&self) -> &[Vec<u32>] {
        &self.adjacency
    }
}
