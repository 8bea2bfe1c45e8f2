//! Exhaustive search in one component, by a criterion without costs.
//!
//! Compared are, in this order: impossible conversions; how much is moved by conversions (the hints' sizes; constants and
//! layouts of the same bytes move nothing); how many layouts go against what the operators with known preferences ask of the
//! same logical dimension elsewhere; how far down the chosen configurations stand in their operators' lists. What is equal
//! in all four goes to the combination that is first in the order of nodes and choices.

use std::cell::RefCell;

use super::demand::Demand;
use super::propagate::Propagation;
use super::view::View;
use crate::id::{LayoutId, TensorId};
use crate::strategy::Budget;

/// How good a partial combination is; less is better, and adding a node never makes it less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    impossible: u64,
    moved: u128,
    against: u64,
    rank: u64,
}

/// Searches components, one after another.
pub struct Search<'a> {
    view: &'a View<'a>,
    demand: &'a Demand<'a>,
    /// One choice per node: final for those that are decided, a trial for those of the component being searched.
    pub chosen: Vec<usize>,
    /// Partial combinations looked at.
    pub visited: u64,
    /// Whether the budget ended a search early.
    pub stopped: bool,
    requests: RefCell<Vec<LayoutId>>,
}

struct Component<'c> {
    nodes: &'c [usize],
    /// Per node, its candidates: the choice, how many of its layouts go against the demand, its rank.
    candidates: Vec<Vec<(usize, u64, u64)>>,
    /// Per node: the tensors whose score is known once that node has chosen.
    complete: Vec<Vec<TensorId>>,
    best: Option<(Score, Vec<usize>)>,
}

impl<'a> Search<'a> {
    /// A search that starts from these choices.
    pub fn new(view: &'a View<'a>, demand: &'a Demand<'a>, chosen: Vec<usize>) -> Self {
        Self {
            view,
            demand,
            chosen,
            visited: 0,
            stopped: false,
            requests: RefCell::default(),
        }
    }

    /// The best choice for each of `nodes`, given what all others have decided. A tensor that some other node has yet to
    /// decide about is left out of the score.
    pub fn best(&mut self, state: &Propagation<'_>, nodes: &[usize], budget: &Budget) -> Vec<usize> {
        let mut component = Component {
            nodes,
            candidates: nodes.iter().map(|&n| self.candidates(state, n)).collect(),
            complete: self.complete(state, nodes),
            best: None,
        };
        self.extend(&mut component, 0, Score::default(), budget);
        match component.best {
            Some((_, choices)) => choices,
            None => nodes.iter().map(|&n| state.candidates(n)[0] as usize).collect(),
        }
    }

    fn candidates(&self, state: &Propagation<'_>, node: usize) -> Vec<(usize, u64, u64)> {
        let n = &self.view.nodes()[node];
        let candidate = |&c: &u32| {
            let c = c as usize;
            let against = |&place: &usize| self.demand.is_against(n.tensor(place), n.layout(c, place));
            let rank = n.preferred.iter().position(|&p| p == c).unwrap_or(c);
            (c, (0..n.places()).filter(against).count() as u64, rank as u64)
        };
        state.candidates(node).iter().map(candidate).collect()
    }

    fn complete(&self, state: &Propagation<'_>, nodes: &[usize]) -> Vec<Vec<TensorId>> {
        let view = self.view;
        let mut complete = vec![Vec::new(); nodes.len()];
        let depth = |node: usize| nodes.binary_search(&node).ok();
        let mut tensors: Vec<TensorId> = nodes
            .iter()
            .flat_map(|&n| (0..view.nodes()[n].places()).map(move |p| view.nodes()[n].tensor(p)))
            .collect();
        tensors.sort_unstable();
        tensors.dedup();
        for t in tensors {
            let producer = view.producer(t);
            let outputs = &view.nodes()[producer].outputs;
            let written = outputs.iter().position(|&o| o == t).unwrap_or(0);
            let places = view
                .readers(t)
                .chain([(producer, view.nodes()[producer].inputs.len() + written)]);
            // The depth after which all of the tensor's nodes have chosen; none when one outside is open.
            let mut last = places.map(|(node, place)| match depth(node) {
                Some(d) => Some(d),
                None => state.agreed(node, place).map(|_| 0),
            });
            if let Some(last) = last.try_fold(0, |last, d| Some(usize::max(last, d?))) {
                complete[last].push(t);
            }
        }
        complete
    }

    fn extend(&mut self, component: &mut Component<'_>, depth: usize, score: Score, budget: &Budget) {
        if component.best.as_ref().is_some_and(|(best, _)| score >= *best) {
            return;
        }
        if depth == component.nodes.len() {
            let choices = component.nodes.iter().map(|&n| self.chosen[n]).collect();
            component.best = Some((score, choices));
            return;
        }
        let node = component.nodes[depth];
        for i in 0..component.candidates[depth].len() {
            self.visited += 1;
            if self.visited.is_multiple_of(1024) && budget.exhausted() {
                self.stopped = true;
            }
            if self.stopped && component.best.is_some() {
                return;
            }
            let (choice, against, rank) = component.candidates[depth][i];
            self.chosen[node] = choice;
            let mut next = Score {
                against: score.against + against,
                rank: score.rank + rank,
                ..score
            };
            for &t in &component.complete[depth] {
                self.add_tensor(&mut next, t);
            }
            self.extend(component, depth + 1, next, budget);
        }
    }

    fn add_tensor(&self, score: &mut Score, t: TensorId) {
        let view = self.view;
        let producer = &view.nodes()[view.producer(t)];
        let written = producer.outputs.iter().position(|&o| o == t).unwrap_or(0);
        let from = producer.writes(self.chosen[view.producer(t)])[written];
        let mut requests = self.requests.borrow_mut();
        requests.clear();
        for (reader, place) in view.readers(t) {
            let to = view.nodes()[reader].layout(self.chosen[reader], place);
            if to != from && !requests.contains(&to) {
                requests.push(to);
            }
        }
        for &to in requests.iter() {
            if !view.is_convertible(t, from, to) {
                score.impossible += 1;
            } else if !view.is_constant(t) && !view.is_same(t, from, to) {
                score.moved += u128::from(view.tensor_hints(t).size);
            }
        }
    }
}
