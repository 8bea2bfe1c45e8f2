//! Propagation: what one operator has decided about a tensor narrows the choices of the operators on the tensor's other side.
//!
//! A node has decided about a tensor when all its remaining choices have it in one layout. The tensor's producer and readers
//! then keep only the choices that agree; when none does, those whose layout singles out the same logical dimension in
//! another form; when none does either, the narrowing is dropped, and there will be a conversion. Work is first come, first
//! served, so that of two deciding nodes the nearer one wins, the topologically earlier one at equal distance.

use std::collections::VecDeque;

use super::groups::Groups;
use super::view::View;
use crate::id::LayoutId;

/// The choices that every node still has.
pub struct Propagation<'a> {
    view: &'a View<'a>,
    /// When absent, layouts of one logical dimension are not taken for each other.
    groups: Option<&'a Groups>,
    candidates: Vec<Vec<u32>>,
    queue: VecDeque<u32>,
    queued: Vec<bool>,
    /// How often a node was narrowed by a neighbour.
    pub narrowed: u64,
    /// How often nothing would have been left.
    pub conflicts: u64,
}

impl<'a> Propagation<'a> {
    /// Every choice of every node is open.
    pub fn new(view: &'a View<'a>, groups: Option<&'a Groups>) -> Self {
        Self {
            view,
            groups,
            candidates: view
                .nodes()
                .iter()
                .map(|n| (0..n.choices() as u32).collect())
                .collect(),
            queue: VecDeque::new(),
            queued: vec![false; view.nodes().len()],
            narrowed: 0,
            conflicts: 0,
        }
    }

    /// What `node` can still choose, ascending.
    pub fn candidates(&self, node: usize) -> &[u32] {
        &self.candidates[node]
    }

    /// Whether `node` has no choice left to make.
    pub fn is_decided(&self, node: usize) -> bool {
        self.candidates[node].len() <= 1
    }

    /// The layout on which all remaining choices of `node` agree at a place.
    pub fn agreed(&self, node: usize, place: usize) -> Option<LayoutId> {
        let n = &self.view.nodes()[node];
        let mut layouts = self.candidates[node].iter().map(|&c| n.layout(c as usize, place));
        let first = layouts.next()?;
        layouts.all(|l| l == first).then_some(first)
    }

    /// Has `node` start from here: its neighbours hear of what it has decided when [`Self::run`] comes to it.
    pub fn push(&mut self, node: usize) {
        if !std::mem::replace(&mut self.queued[node], true) {
            self.queue.push_back(node as u32);
        }
    }

    /// Keeps those choices of `node` that pass, if any does; whether it lost one.
    pub fn narrow(&mut self, node: usize, keep: impl Fn(usize) -> bool) -> Narrowed {
        let passing = self.candidates[node]
            .iter()
            .filter(|&&c| keep(c as usize))
            .count();
        if passing == self.candidates[node].len() {
            return Narrowed::Agreed;
        }
        if passing == 0 {
            return Narrowed::Conflict;
        }
        self.candidates[node].retain(|&c| keep(c as usize));
        self.push(node);
        Narrowed::Less
    }

    /// Propagates until nothing changes. Every visit of a node but its first follows a loss of choices, so that there are at
    /// most as many visits as choices.
    pub fn run(&mut self) {
        let view = self.view;
        while let Some(node) = self.queue.pop_front() {
            let node = node as usize;
            self.queued[node] = false;
            let n = &view.nodes()[node];
            for place in 0..n.places() {
                let Some(layout) = self.agreed(node, place) else {
                    continue;
                };
                let t = n.tensor(place);
                if place < n.inputs.len() {
                    let producer = view.producer(t);
                    let p = &view.nodes()[producer];
                    let output = p.outputs.iter().position(|&o| o == t);
                    if let Some(output) = output {
                        self.agree(producer, p.inputs.len() + output, layout);
                    }
                } else {
                    for (reader, at) in view.readers(t) {
                        self.agree(reader, at, layout);
                    }
                }
            }
        }
    }

    /// Has `node` use `layout` at a place if it can.
    fn agree(&mut self, node: usize, place: usize, layout: LayoutId) {
        let view = self.view;
        let n = &view.nodes()[node];
        if self.is_decided(node) {
            self.conflicts += u64::from(self.agreed(node, place).is_some_and(|l| l != layout));
            return;
        }
        let mut outcome = self.narrow(node, |c| n.layout(c, place) == layout);
        if let (Narrowed::Conflict, Some(groups)) = (outcome, self.groups) {
            self.conflicts += 1;
            let t = n.tensor(place);
            if let Some(group) = groups.of_layout(view, t, layout) {
                outcome = self.narrow(node, |c| {
                    groups.of_layout(view, t, n.layout(c, place)) == Some(group)
                });
            }
        } else if outcome == Narrowed::Conflict {
            self.conflicts += 1;
        }
        self.narrowed += u64::from(outcome == Narrowed::Less);
    }

    /// The first remaining choice of every node; `None` when some node never had one.
    pub fn first_choices(&self) -> Option<Vec<usize>> {
        self.candidates
            .iter()
            .map(|c| Some(*c.first()? as usize))
            .collect()
    }
}

/// What became of a narrowing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Narrowed {
    /// Every choice passes.
    Agreed,
    /// Some choices are gone.
    Less,
    /// None would have been left, so that all stay.
    Conflict,
}
