//! The seed rule on an ONNX graph: the role of every weight and data input from its consumers and its own shape (see
//! [`crate::weights`] for the table).

use super::node::Node;
use super::proto::GraphProto;
use crate::weights::Role;
use std::collections::{HashMap, HashSet};

/// Who reads each name: node index and operand position, in order.
pub(super) struct Consumers<'a> {
    graph: &'a GraphProto,
    of: HashMap<&'a str, Vec<(usize, usize)>>,
}

/// Operators that only move or retype elements of operand 0.
fn is_view(op: &str) -> bool {
    is_exact_view(op)
        || matches!(
            op,
            "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Expand" | "Slice" | "Split"
        )
}

/// Views behind which the axes are still known from the weight's own shape.
fn is_exact_view(op: &str) -> bool {
    matches!(op, "Identity" | "Cast" | "Transpose" | "Dropout")
}

impl<'a> Consumers<'a> {
    pub(super) fn new(graph: &'a GraphProto) -> Self {
        let mut of: HashMap<&str, Vec<(usize, usize)>> = HashMap::new();
        for (index, node) in graph.node.iter().enumerate() {
            for (position, name) in node.input.iter().enumerate().filter(|(_, n)| !n.is_empty()) {
                of.entry(name).or_default().push((index, position));
            }
        }
        Consumers { graph, of }
    }

    fn node(&self, index: usize) -> Node<'a> {
        Node {
            proto: &self.graph.node[index],
            index,
        }
    }

    /// The role of a floating-point weight: that of its first consumer behind views.
    pub(super) fn float_role(&self, name: &str, shape: &[usize]) -> Role {
        let (mut axes, mut exact): (Vec<usize>, bool) = ((0..shape.len()).collect(), true);
        let mut current = name;
        // Each step moves to a later node, so the walk ends.
        let (node, position) = loop {
            let Some((index, position)) = self.of.get(current).and_then(|c| c.first()).copied() else {
                return Role::Value;
            };
            let node = self.node(index);
            let op = node.proto.op_type.as_str();
            let (true, 0, Some(next)) = (is_view(op), position, node.proto.output.first()) else {
                break (node, position);
            };
            if op == "Transpose" && exact {
                let moved: Option<Vec<usize>> = match node.ints("perm") {
                    Some(perm) => perm
                        .iter()
                        .map(|p| axes.get(usize::try_from(*p).ok()?).copied())
                        .collect(),
                    None => Some(axes.iter().rev().copied().collect()),
                };
                match moved {
                    Some(moved) => axes = moved,
                    None => exact = false,
                }
            } else if !is_exact_view(op) {
                exact = false;
            }
            if self
                .of
                .get(next.as_str())
                .and_then(|c| c.first())
                .is_some_and(|(i, _)| *i <= index)
            {
                return Role::Value;
            }
            current = next;
        };
        let seen: Vec<usize> = axes.iter().map(|a| shape[*a]).collect();
        let rank = seen.len();
        let contraction = |fan_in: usize| {
            let widest = shape.iter().rev().take(2).max().copied().unwrap_or(1);
            Role::Contraction {
                fan_in: if exact { fan_in } else { widest },
            }
        };
        match (node.proto.op_type.as_str(), position) {
            ("Conv", 1) => contraction(seen.iter().skip(1).fold(1, |acc, d| acc.saturating_mul(*d))),
            ("MatMul", 0) => contraction(seen.last().copied().unwrap_or(1)),
            ("MatMul", _) => match rank {
                0 => contraction(1),
                1 => contraction(seen[0]),
                _ => contraction(seen[rank - 2]),
            },
            ("Gemm", 0 | 1) if rank == 2 => {
                let flag = node.flag(if position == 0 { "transA" } else { "transB" });
                contraction(seen[usize::from((position == 0) != flag)])
            }
            ("BatchNormalization", 1 | 4) => Role::Scale,
            (
                "LayerNormalization"
                | "InstanceNormalization"
                | "GroupNormalization"
                | "RMSNormalization"
                | "SimplifiedLayerNormalization",
                1,
            ) => Role::Scale,
            (
                "Conv"
                | "Gemm"
                | "BatchNormalization"
                | "LayerNormalization"
                | "InstanceNormalization"
                | "GroupNormalization"
                | "RMSNormalization"
                | "SimplifiedLayerNormalization",
                _,
            ) => Role::Shift,
            ("Gather" | "GatherND", 0) if rank >= 3 => contraction(seen[rank - 2]),
            ("Mul" | "Pow", _) | ("Div", 1) => Role::Scale,
            ("Add" | "Sub" | "Where", _) => Role::Shift,
            _ => Role::Value,
        }
    }

    /// The smallest axis that integers of this name index, through views, concatenations and look-ups of the integers themselves;
    /// `None` when they index nothing. `extents` gives a value's extents, 1 standing for a symbolic one.
    pub(super) fn index_bound(
        &self,
        name: &str,
        extents: &dyn Fn(&str) -> Option<Vec<usize>>,
    ) -> Option<usize> {
        let mut bound: Option<usize> = None;
        let mut seen: HashSet<&str> = HashSet::new();
        let mut pending: Vec<&str> = vec![name];
        while let Some(current) = pending.pop() {
            for (index, position) in self.of.get(current).into_iter().flatten() {
                let node = self.node(*index);
                let op = node.proto.op_type.as_str();
                let data = || {
                    node.proto
                        .input
                        .first()
                        .and_then(|n| extents(n))
                        .unwrap_or_default()
                };
                let mut lower = |extent: usize| bound = Some(bound.map_or(extent, |b| b.min(extent)));
                match (op, position) {
                    ("Gather" | "GatherElements" | "ScatterElements", 1) => {
                        let data = data();
                        let axis = node.int("axis", 0);
                        let axis = if axis < 0 { axis + data.len() as i64 } else { axis };
                        lower(
                            usize::try_from(axis)
                                .ok()
                                .and_then(|a| data.get(a))
                                .copied()
                                .unwrap_or(1),
                        );
                    }
                    ("GatherND" | "ScatterND", 1) => {
                        let data = data();
                        let start = usize::try_from(node.int("batch_dims", 0)).unwrap_or(0);
                        let depth = node
                            .proto
                            .input
                            .get(1)
                            .and_then(|n| extents(n))
                            .and_then(|e| e.last().copied());
                        let indexed = data.iter().skip(start).take(depth.unwrap_or(0));
                        lower(indexed.min().copied().unwrap_or(1));
                    }
                    _ => {
                        if op == "Concat" || (*position == 0 && (is_view(op) || op == "Gather")) {
                            pending.extend(
                                node.proto
                                    .output
                                    .iter()
                                    .map(String::as_str)
                                    .filter(|o| seen.insert(o)),
                            );
                        }
                    }
                }
            }
        }
        bound
    }
}
