//! `xla`: layout assignment in three phases, after XLA's pass of that name (seed, sections 2.1 and 6).
//!
//! 1. *Influential operators.* Those that combine elements along a dimension and have known preferences (convolutions,
//!    matmuls) take the first of their preferred configurations; nothing can change it any more. Computation parameters and
//!    results are in the layouts they are pinned to.
//! 2. *Propagation*, forward and backward, from all of these at once, in topological order and first come, first served: an
//!    operator that can have the tensor in the layout of its neighbour takes it.
//! 3. *Copies.* An operator that nothing reached takes its first configuration, the default layout. Where layouts disagree
//!    after that there is a copy, which is what a conversion of the problem is.
//!
//! Not reproduced: priorities among constraints beyond these, fusion-aware choices, tiled layouts and memory spaces, layouts of
//! called computations. Which layouts an influential operator prefers is data of the target here (the hints), not code.

use super::Plan;
use super::propagate::Propagation;
use super::view::View;

pub(super) fn three_phases(view: &View<'_>) -> Plan {
    let mut state = Propagation::new(view, None);
    let mut influential = 0;
    for (i, node) in view.nodes().iter().enumerate() {
        let along = &view.operator_hints(i).along;
        if let (Some(&first), false) = (node.preferred.first(), along.is_empty()) {
            influential += 1;
            state.narrow(i, |c| c == first);
        }
        if state.is_decided(i) {
            state.push(i);
        }
    }
    state.run();
    let mut defaults = 0;
    for i in 0..view.nodes().len() {
        if !state.is_decided(i) {
            defaults += 1;
            let first = state.candidates(i)[0] as usize;
            state.narrow(i, |c| c == first);
            state.run();
        }
    }
    Plan {
        chosen: state.first_choices(),
        counters: vec![
            ("influential", influential),
            ("defaults", defaults),
            ("narrowed", state.narrowed),
            ("conflicts", state.conflicts),
        ],
        stopped: false,
    }
}
