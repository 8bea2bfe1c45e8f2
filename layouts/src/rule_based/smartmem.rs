//! `smartmem`: layouts by reduction dimension, after SmartMem (ASPLOS 2024; seed, section 6).
//!
//! Operators are classified by whether their speed depends on the layout of what they read. *Layout-dependent* are those that
//! combine elements along a dimension; what they ask for is an operand in which that dimension is the one singled out.
//! *Layout-independent* are the rest; they take what comes.
//! 1. Every dependent operator takes the configuration that has most operands singled out along its reduction dimension, among
//!    its preferred ones if it has any; among equals the one whose result suits most dependent readers; then the first.
//! 2. The independent ones follow in topological order, each with the fewest conversions next to what is already fixed on
//!    both sides; among equals, again, the result that suits most dependent readers.
//!
//! Not reproduced: elimination of logical transposes and reshapes by index arithmetic (an instance says itself where one is an
//! alias), texture memory and its two-and-a-half dimensional layouts, and the tuning that follows.

use super::Plan;
use super::view::View;
use crate::id::{LayoutId, TensorId};

pub(super) fn by_reduction_dimension(view: &View<'_>) -> Plan {
    let nodes = view.nodes();
    let suits = Suits::of(view);
    let mut chosen: Vec<Option<usize>> = vec![None; nodes.len()];
    let mut dependent = 0;
    for (i, node) in nodes.iter().enumerate() {
        if !is_dependent(view, i) {
            continue;
        }
        dependent += 1;
        let all: Vec<usize> = (0..node.choices()).collect();
        let choices = if node.preferred.is_empty() {
            &all
        } else {
            &node.preferred
        };
        let merit = |&c: &usize| {
            let along = (0..node.inputs.len())
                .filter(|&k| reads_along(view, i, k, node.reads(c)[k]))
                .count();
            (along as u64, suits.result(view, i, c))
        };
        chosen[i] = first_best(choices, merit);
    }
    for i in 0..nodes.len() {
        if !is_dependent(view, i) {
            let all: Vec<usize> = (0..nodes[i].choices()).collect();
            let merit = |&c: &usize| {
                let conversions = conversions(view, &chosen, i, c);
                (std::cmp::Reverse(conversions), suits.result(view, i, c))
            };
            chosen[i] = first_best(&all, merit);
        }
    }
    Plan {
        chosen: chosen.into_iter().collect(),
        counters: vec![
            ("layout_dependent", dependent),
            ("layout_independent", nodes.len() as u64 - dependent),
        ],
        stopped: false,
    }
}

fn first_best<K: Ord>(choices: &[usize], merit: impl Fn(&usize) -> K) -> Option<usize> {
    // The last of several maxima is what `max_by_key` gives, hence the reversal.
    choices.iter().rev().max_by_key(|c| merit(c)).copied()
}

fn is_dependent(view: &View<'_>, node: usize) -> bool {
    !view.operator_hints(node).along.is_empty()
}

fn reads_along(view: &View<'_>, node: usize, input: usize, layout: LayoutId) -> bool {
    let t = view.nodes()[node].inputs[input];
    view.operator_hints(node)
        .works_along(Some(input), view.layout_hints(t, layout).dim)
}

/// How many dependent readers each layout of each tensor suits.
struct Suits(Vec<Vec<u64>>);

impl Suits {
    fn of(view: &View<'_>) -> Self {
        let count = |t: usize| {
            let t = TensorId::new(t);
            (0..view.layouts(t))
                .map(|l| {
                    let suited = |&(reader, place): &(usize, usize)| {
                        reads_along(view, reader, place, LayoutId::new(l))
                    };
                    view.readers(t).filter(suited).count() as u64
                })
                .collect()
        };
        Self((0..view.tensors()).map(count).collect())
    }

    /// Summed over what a choice of a node writes.
    fn result(&self, view: &View<'_>, node: usize, choice: usize) -> u64 {
        let n = &view.nodes()[node];
        n.outputs
            .iter()
            .zip(n.writes(choice))
            .map(|(t, l)| self.0[t.index()][l.index()])
            .sum()
    }
}

/// How many conversions a choice of a node causes next to the neighbours that have chosen.
fn conversions(view: &View<'_>, chosen: &[Option<usize>], node: usize, choice: usize) -> usize {
    let n = &view.nodes()[node];
    let moves =
        |t: TensorId, from: LayoutId, to: LayoutId| !view.is_constant(t) && !view.is_same(t, from, to);
    let read = n.inputs.iter().zip(n.reads(choice)).filter(|&(&t, &to)| {
        let p = view.producer(t);
        let produced = chosen[p].and_then(|c| {
            let k = view.nodes()[p].outputs.iter().position(|&o| o == t)?;
            Some(view.nodes()[p].writes(c)[k])
        });
        produced.is_some_and(|from| moves(t, from, to))
    });
    let written = n.outputs.iter().zip(n.writes(choice)).map(|(&t, &from)| {
        let mut requests: Vec<LayoutId> = view
            .readers(t)
            .filter_map(|(r, place)| Some(view.nodes()[r].layout(chosen[r]?, place)))
            .filter(|&to| moves(t, from, to))
            .collect();
        requests.sort_unstable();
        requests.dedup();
        requests.len()
    });
    read.count() + written.sum::<usize>()
}
