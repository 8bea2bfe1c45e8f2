//! Nice tree decompositions (seed, section 3.2.1): the root's bag is empty, and each step changes the bag by one vertex.

use super::tree::TreeDecomposition;

/// A node; children are indices into [`NiceDecomposition::nodes`] and always come before their parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NiceNode {
    /// No children, empty bag.
    Leaf,
    /// The child's bag and `vertex`.
    Introduce {
        /// The new vertex.
        vertex: u32,
        /// The child.
        child: u32,
    },
    /// The child's bag without `vertex`.
    Forget {
        /// The vertex that leaves for good.
        vertex: u32,
        /// The child.
        child: u32,
    },
    /// Two children with the same bag.
    Join {
        /// One.
        left: u32,
        /// The other.
        right: u32,
    },
}

/// A nice tree decomposition in post-order; the root is last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NiceDecomposition {
    /// The nodes.
    pub nodes: Vec<NiceNode>,
}

impl NiceDecomposition {
    /// The nice form of `tree`, of the same width, with O(width · vertices) nodes.
    pub fn new(tree: &TreeDecomposition) -> Self {
        let mut nodes = Vec::new();
        let mut push = |node| {
            nodes.push(node);
            nodes.len() as u32 - 1
        };
        // Results that wait for their parent: the node whose bag is the child's bag without the forgotten vertex.
        let mut waiting: Vec<Vec<(u32, u32)>> = vec![Vec::new(); tree.bags.len()];
        let mut roots = Vec::new();
        for i in tree.post_order() {
            let bag = &tree.bags[i as usize];
            let mut whole = None;
            for (node, from) in std::mem::take(&mut waiting[i as usize]) {
                let has = |v: &u32| tree.bags[from as usize].binary_search(v).is_ok();
                let node = bag
                    .iter()
                    .filter(|v| !has(v))
                    .fold(node, |child, &vertex| push(NiceNode::Introduce { vertex, child }));
                whole = Some(whole.map_or(node, |left| push(NiceNode::Join { left, right: node })));
            }
            let whole = whole.unwrap_or_else(|| {
                let leaf = push(NiceNode::Leaf);
                bag.iter()
                    .fold(leaf, |child, &vertex| push(NiceNode::Introduce { vertex, child }))
            });
            let done = push(NiceNode::Forget {
                vertex: tree.forgets[i as usize],
                child: whole,
            });
            match tree.parents[i as usize] {
                Some(p) => waiting[p as usize].push((done, i)),
                None => roots.push(done),
            }
        }
        match roots.split_first() {
            Some((&first, rest)) => {
                rest.iter()
                    .fold(first, |left, &right| push(NiceNode::Join { left, right }));
            }
            None => {
                push(NiceNode::Leaf);
            }
        }
        nodes.shrink_to_fit(); // it stays as long as the program over it runs
        Self { nodes }
    }
}
