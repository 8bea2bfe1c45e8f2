//! What rules see of a problem: structure, feasibility and hints. There is no cost in here.
//!
//! This is the only file of the folder that opens a [`Problem`], so that "rules never read costs" can be checked by reading
//! it: of a configuration it takes the layouts, of a transpose matrix whether an entry is there.
//!
//! Projections are folded into the operator whose bundle they read: a [`Node`] is an operator with all tensors that come of
//! it, and a choice of it fixes the layouts of all of these. A choice that leaves some projection without a configuration is no
//! choice.

use crate::hints::{Condition, DimMap, Hints, LayoutHints, OperatorHints, Rule, TensorHints};
use crate::id::{ConfigId, LayoutId, OpId, TensorId};
use crate::problem::Problem;
use crate::projection::{Units, follow};

/// An operator with the projections of its bundle. Nodes are numbered in topological order.
pub struct Node {
    op: OpId,
    /// The tensors it reads, in argument order.
    pub inputs: Vec<TensorId>,
    /// The tensors it writes: its own result, or what its projections make of its bundle.
    pub outputs: Vec<TensorId>,
    /// Per choice: the layouts of `inputs`, then those of `outputs`.
    layouts: Vec<LayoutId>,
    /// Per choice: the configurations of the node's operators.
    configs: Vec<ConfigId>,
    members: Vec<OpId>,
    /// Choices that the hints prefer, best first.
    pub preferred: Vec<usize>,
}

impl Node {
    /// Number of its choices.
    pub fn choices(&self) -> usize {
        self.configs.len() / self.members.len()
    }

    /// The layouts that choice `c` gives the tensors it reads.
    pub fn reads(&self, c: usize) -> &[LayoutId] {
        let (start, n) = (c * self.places(), self.inputs.len());
        &self.layouts[start..start + n]
    }

    /// The layouts that choice `c` gives the tensors it writes.
    pub fn writes(&self, c: usize) -> &[LayoutId] {
        let n = self.places();
        &self.layouts[c * n + self.inputs.len()..(c + 1) * n]
    }

    /// Where it touches tensors: its inputs, then its outputs.
    pub fn places(&self) -> usize {
        self.inputs.len() + self.outputs.len()
    }

    /// The tensor at a place.
    pub fn tensor(&self, place: usize) -> TensorId {
        match place.checked_sub(self.inputs.len()) {
            None => self.inputs[place],
            Some(out) => self.outputs[out],
        }
    }

    /// The layout of choice `c` at a place.
    pub fn layout(&self, c: usize, place: usize) -> LayoutId {
        self.layouts[c * self.places() + place]
    }
}

/// A tensor, as far as rules may know it.
struct Edge {
    convertible: Vec<bool>,
    layouts: usize,
    constant: bool,
    producer: u32,
    /// Readers and the places at which they read, ordered by both.
    readers: Vec<(u32, u32)>,
}

/// The problem without its costs.
pub struct View<'a> {
    hints: &'a Hints,
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    /// Inputs and output of every operator, projections among them, by operator.
    operators: Vec<(Vec<TensorId>, TensorId)>,
}

impl<'a> View<'a> {
    /// Takes from a problem what rules may know.
    pub fn of(problem: &Problem, hints: &'a Hints) -> Self {
        let mut edges: Vec<Edge> = problem
            .tensors()
            .map(|t| Edge {
                convertible: t.transpose.iter().map(Option::is_some).collect(),
                layouts: t.layouts.len(),
                constant: t.constant,
                producer: 0,
                readers: Vec::new(),
            })
            .collect();
        let mut assignment = vec![ConfigId(0); problem.operators().len()];
        let mut nodes = Vec::new();
        for members in Units::new(problem).iter() {
            let node = node(problem, hints, members.to_vec(), &mut assignment);
            let number = nodes.len() as u32;
            for t in &node.outputs {
                edges[t.index()].producer = number;
            }
            for (place, t) in node.inputs.iter().enumerate() {
                edges[t.index()].readers.push((number, place as u32));
            }
            nodes.push(node);
        }
        let operators = problem
            .operators()
            .map(|op| (op.inputs.to_vec(), op.output))
            .collect();
        Self {
            hints,
            nodes,
            edges,
            operators,
        }
    }

    /// All nodes, in topological order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Number of tensors.
    pub fn tensors(&self) -> usize {
        self.edges.len()
    }

    /// Number of layouts of a tensor.
    pub fn layouts(&self, t: TensorId) -> usize {
        self.edges[t.index()].layouts
    }

    /// The node that writes `t`.
    pub fn producer(&self, t: TensorId) -> usize {
        self.edges[t.index()].producer as usize
    }

    /// Every use of `t`: node and place.
    pub fn readers(&self, t: TensorId) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.edges[t.index()]
            .readers
            .iter()
            .map(|&(n, p)| (n as usize, p as usize))
    }

    /// Whether `t` is known at compile time, so that nothing is moved when it is converted.
    pub fn is_constant(&self, t: TensorId) -> bool {
        self.edges[t.index()].constant
    }

    /// Whether `t` can be converted between two layouts.
    pub fn is_convertible(&self, t: TensorId, from: LayoutId, to: LayoutId) -> bool {
        let edge = &self.edges[t.index()];
        edge.convertible[from.index() * edge.layouts + to.index()]
    }

    /// Whether two layouts of `t` are the same bytes.
    pub fn is_same(&self, t: TensorId, a: LayoutId, b: LayoutId) -> bool {
        let first = |l: LayoutId| {
            let mut at = l.index();
            while let Some(earlier) = self.tensor_hints(t).layouts[at].same_as {
                at = earlier;
            }
            at
        };
        a == b || first(a) == first(b)
    }

    /// The hints on a tensor.
    pub fn tensor_hints(&self, t: TensorId) -> &'a TensorHints {
        &self.hints.tensors[t.index()]
    }

    /// The hints on a layout of a tensor.
    pub fn layout_hints(&self, t: TensorId, l: LayoutId) -> &'a LayoutHints {
        &self.hints.tensors[t.index()].layouts[l.index()]
    }

    /// The hints on a node's operator.
    pub fn operator_hints(&self, node: usize) -> &'a OperatorHints {
        &self.hints.operators[self.nodes[node].op.index()]
    }

    /// For every operator, projections among them: its inputs, its output and the map between their dimensions.
    pub fn maps(&self) -> impl Iterator<Item = (&[TensorId], TensorId, &'a DimMap)> + '_ {
        self.operators
            .iter()
            .zip(&self.hints.operators)
            .filter_map(|((inputs, output), h)| Some((&inputs[..], *output, h.dims.as_ref()?)))
    }

    /// The domain rules, in order.
    pub fn rules(&self) -> &'a [Rule] {
        &self.hints.rules
    }

    /// Whether a choice of a node is as all `conditions` say.
    pub fn matches(&self, node: usize, choice: usize, conditions: &[Condition]) -> bool {
        let n = &self.nodes[node];
        conditions.iter().all(|condition| {
            // The result of an operator with projections is a bundle, which singles out nothing; the first output stands for it.
            let place = condition.input.unwrap_or(n.inputs.len());
            if condition.input.is_some_and(|i| i >= n.inputs.len()) || place >= n.places() {
                return false;
            }
            let (t, l) = (n.tensor(place), n.layout(choice, place));
            condition.holds(
                self.operator_hints(node),
                self.tensor_hints(t),
                self.layout_hints(t, l),
            )
        })
    }

    /// The configurations that one choice per node stands for, in the problem's order.
    pub fn assignment(&self, chosen: &[usize]) -> Vec<ConfigId> {
        let mut assignment = vec![ConfigId(0); self.operators.len()];
        for (node, &c) in self.nodes.iter().zip(chosen) {
            let n = node.members.len();
            for (o, &config) in node.members.iter().zip(&node.configs[c * n..(c + 1) * n]) {
                assignment[o.index()] = config;
            }
        }
        assignment
    }
}

fn node(problem: &Problem, hints: &Hints, members: Vec<OpId>, assignment: &mut [ConfigId]) -> Node {
    let op = members[0];
    let outputs: Vec<OpId> = members
        .iter()
        .copied()
        .filter(|&o| !problem.tensor(problem.operator(o).output).bundle)
        .collect();
    let mut node = Node {
        op,
        inputs: problem.operator(op).inputs.to_vec(),
        outputs: outputs.iter().map(|&o| problem.operator(o).output).collect(),
        layouts: Vec::new(),
        configs: Vec::new(),
        members,
        preferred: Vec::new(),
    };
    let mut choice_of = vec![None; problem.operator(op).num_configs()];
    for (c, config) in problem.operator(op).configs() {
        assignment[op.index()] = c;
        let followed = node.members[1..].iter().all(|&o| {
            let found = follow(problem, o, assignment);
            assignment[o.index()] = found.unwrap_or_default();
            found.is_some()
        });
        if !followed {
            continue;
        }
        choice_of[c.index()] = Some(node.choices());
        node.layouts.extend(config.inputs);
        let written = |&o: &OpId| problem.operator(o).config(assignment[o.index()]).output;
        node.layouts.extend(outputs.iter().map(written));
        node.configs
            .extend(node.members.iter().map(|o| assignment[o.index()]));
    }
    node.preferred = hints.operators[op.index()]
        .preferred
        .iter()
        .filter_map(|&c| choice_of[c])
        .collect();
    node
}
