//! Treewidth: validity of decompositions, bounds against brute force, known graphs.

use std::collections::BTreeSet;

use proptest::prelude::*;
use relayout_layouts::decomposition::eliminate::{min_degree, min_fill, width_of};
use relayout_layouts::decomposition::{NiceDecomposition, NiceNode, TreeDecomposition, bounds, treewidth};
use relayout_layouts::graph::Graph;
use relayout_layouts::{Budget, json};

use crate::support::shared;

/// The bag of every node, checking the shape of each.
fn bags(nice: &NiceDecomposition) -> Vec<BTreeSet<u32>> {
    let mut bags: Vec<BTreeSet<u32>> = Vec::new();
    let mut parents = vec![0; nice.nodes.len()];
    for node in &nice.nodes {
        let mut child = |c: u32| {
            parents[c as usize] += 1;
            bags[c as usize].clone()
        };
        let bag = match *node {
            NiceNode::Leaf => BTreeSet::new(),
            NiceNode::Introduce { vertex, child: c } => {
                let mut bag = child(c);
                assert!(bag.insert(vertex), "introduced twice");
                bag
            }
            NiceNode::Forget { vertex, child: c } => {
                let mut bag = child(c);
                assert!(bag.remove(&vertex), "forgotten though absent");
                bag
            }
            NiceNode::Join { left, right } => {
                let bag = child(left);
                assert_eq!(bag, child(right), "joined bags differ");
                bag
            }
        };
        bags.push(bag);
    }
    assert!(
        bags.last().is_some_and(BTreeSet::is_empty),
        "the root's bag is not empty"
    );
    let root = parents.len() - 1;
    assert!(
        parents
            .iter()
            .enumerate()
            .all(|(i, &p)| p == usize::from(i != root)),
        "not a tree"
    );
    bags
}

fn check_nice(graph: &Graph, nice: &NiceDecomposition, width: usize) {
    let bags = bags(nice);
    assert_eq!(
        bags.iter().map(BTreeSet::len).max().unwrap_or(0),
        if graph.is_empty() { 0 } else { width + 1 }
    );
    // Two vertices share a bag when one of them is introduced into a bag with the other.
    let mut together = BTreeSet::new();
    for (node, bag) in nice.nodes.iter().zip(&bags) {
        if let NiceNode::Introduce { vertex, .. } = node {
            together.extend(bag.iter().map(|u| (*u.min(vertex), *u.max(vertex))));
        }
    }
    for edge in graph.edges() {
        assert!(together.contains(&edge), "edge {edge:?} is in no bag");
    }
    // Forgotten once each: with the shape checked above this makes each vertex's bags one subtree.
    let mut forgotten: Vec<u32> = nice
        .nodes
        .iter()
        .filter_map(|n| {
            if let NiceNode::Forget { vertex, .. } = n {
                Some(*vertex)
            } else {
                None
            }
        })
        .collect();
    forgotten.sort_unstable();
    assert_eq!(forgotten, (0..graph.len() as u32).collect::<Vec<_>>());
}

/// Treewidth by dynamic programming over all subsets (Bodlaender et al. 2006).
fn by_subsets(graph: &Graph) -> usize {
    let n = graph.len();
    let q = |set: u32, v: u32| {
        let (mut seen, mut stack, mut out) = (1u32 << v, vec![v], 0u32);
        while let Some(x) = stack.pop() {
            for &y in graph.neighbours(x) {
                if seen >> y & 1 == 0 {
                    seen |= 1 << y;
                    if set >> y & 1 == 1 {
                        stack.push(y)
                    } else {
                        out += 1
                    }
                }
            }
        }
        out as usize
    };
    let mut best = vec![usize::MAX; 1 << n];
    best[0] = 0;
    for set in 1u32..1 << n {
        for v in (0..n as u32).filter(|v| set >> v & 1 == 1) {
            let rest = set & !(1 << v);
            best[set as usize] = best[set as usize].min(best[rest as usize].max(q(rest, v)));
        }
    }
    best[(1 << n) - 1]
}

fn grid(rows: u32, columns: u32) -> Graph {
    let at = move |r, c| r * columns + c;
    let right = (0..rows).flat_map(move |r| (1..columns).map(move |c| (at(r, c - 1), at(r, c))));
    let down = (1..rows).flat_map(move |r| (0..columns).map(move |c| (at(r - 1, c), at(r, c))));
    Graph::new((rows * columns) as usize, right.chain(down))
}

#[test]
fn known_graphs_have_their_known_width() {
    let complete = |n: u32| Graph::new(n as usize, (0..n).flat_map(|u| (0..u).map(move |v| (u, v))));
    let cycle = |n: u32| Graph::new(n as usize, (0..n).map(|u| (u, (u + 1) % n)));
    let star = Graph::new(9, (1..9).map(|v| (0, v)));
    let petersen = Graph::new(
        10,
        (0..5).flat_map(|i| [(i, (i + 1) % 5), (i, i + 5), (i + 5, (i + 2) % 5 + 5)]),
    );
    let cases = [
        (Graph::new(0, []), 0),
        (Graph::new(3, []), 0),
        (star, 1),
        (cycle(7), 2),
        (complete(6), 5),
        (grid(3, 3), 3),
        (grid(5, 5), 5),
        (grid(4, 9), 4),
        (petersen, 4),
    ];
    for (i, (graph, expected)) in cases.into_iter().enumerate() {
        let found = treewidth(&graph, &Budget::default());
        assert_eq!((found.lower, found.upper), (expected, expected), "case {i}");
    }
}

#[test]
fn parallel_edges_and_loops_are_merged_and_consumers_are_no_clique() {
    use crate::support::{builder, operator, tensor};
    let mut b = builder();
    for t in 0..4 {
        b.tensor(tensor(&format!("t{t}"), &[&[0]]));
    }
    b.operator(operator("a", &[], 0, &[(&[], 0, 0)]));
    b.operator(operator("b", &[0, 0], 1, &[(&[0, 0], 0, 0)]));
    b.operator(operator("c", &[0], 2, &[(&[0], 0, 0)]));
    b.operator(operator("d", &[0], 3, &[(&[0], 0, 0)]));
    let graph = Graph::of(&b.build().unwrap());
    assert_eq!(graph.edges().collect::<Vec<_>>(), [(0, 1), (0, 2), (0, 3)]);
    assert_eq!(
        Graph::new(2, [(0, 1), (1, 0), (1, 1)])
            .edges()
            .collect::<Vec<_>>(),
        [(0, 1)]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn bounds_orders_and_decompositions_hold(n in 1usize..11, density in 0u64..100, seed in any::<u64>()) {
        let edges = relayout_layouts::generate::random_graph(n, density, seed);
        let graph = Graph::new(n, edges.into_iter().map(|(u, v)| (u as u32, v as u32)));
        let exact = by_subsets(&graph);
        let lists: Vec<Vec<u32>> = (0..n as u32).map(|v| graph.neighbours(v).to_vec()).collect();
        prop_assert!(bounds::degeneracy(&lists) <= exact);
        prop_assert!(bounds::minor_min_width(&lists) <= exact);
        for order in [min_fill(&graph), min_degree(&graph)] {
            prop_assert_eq!(width_of(&graph, &order.order), order.width);
            prop_assert!(order.width >= exact);
            let tree = TreeDecomposition::from_order(&graph, &order.order);
            prop_assert_eq!(tree.width(), order.width);
            check_nice(&graph, &NiceDecomposition::new(&tree), order.width);
        }
        let found = treewidth(&graph, &Budget::default());
        prop_assert_eq!((found.lower, found.upper), (exact, exact));
        prop_assert_eq!(width_of(&graph, &found.order), exact);
        let mut vertices = found.order;
        vertices.sort_unstable();
        prop_assert_eq!(vertices, (0..n as u32).collect::<Vec<_>>());
    }
}

/// The suite: every shared instance's graph has a valid decomposition of the width that is reported, and bounds that meet on
/// all but the five graphs named in the README.
#[test]
fn every_shared_graph_has_a_decomposition_of_its_width() {
    let Some(folder) = shared("instances") else { return };
    let mut open = Vec::new();
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|f| f.unwrap().path())
        .collect();
    files.sort();
    for file in files
        .iter()
        .filter(|f| f.to_string_lossy().ends_with(".json.zst"))
    {
        let problem = json::read_file(file).unwrap();
        let graph = Graph::of(&problem);
        let width = treewidth(&graph, &Budget::default());
        assert!(width.lower <= width.upper, "{}", problem.name());
        let tree = TreeDecomposition::from_order(&graph, &width.order);
        assert_eq!(tree.width(), width.upper, "{}", problem.name());
        check_nice(&graph, &NiceDecomposition::new(&tree), width.upper);
        if !width.is_exact() {
            open.push((problem.name().to_owned(), width.lower, width.upper));
        }
    }
    println!("not closed: {open:?}");
    assert!(open.len() <= 5, "{open:?}");
}
