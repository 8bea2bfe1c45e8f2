//! What the operators with known preferences ask of each logical dimension, over the whole graph.

use rustc_hash::FxHashMap;

use super::groups::Groups;
use super::propagate::Propagation;
use super::view::View;
use crate::id::{LayoutId, TensorId};

/// How often each group is singled out, by form, wherever an operator with known preferences has decided.
pub struct Demand<'a> {
    view: &'a View<'a>,
    groups: &'a Groups,
    times: FxHashMap<(u32, &'a str), u64>,
}

impl<'a> Demand<'a> {
    /// Counts over the nodes `anchors`.
    pub fn of(
        view: &'a View<'a>,
        groups: &'a Groups,
        state: &Propagation<'_>,
        anchors: impl Iterator<Item = usize>,
    ) -> Self {
        let mut demand = Self {
            view,
            groups,
            times: FxHashMap::default(),
        };
        for anchor in anchors {
            let n = &view.nodes()[anchor];
            for place in 0..n.places() {
                let layout = state.agreed(anchor, place);
                if let Some(key) = layout.and_then(|l| demand.key(n.tensor(place), l)) {
                    *demand.times.entry(key).or_default() += 1;
                }
            }
        }
        demand
    }

    fn key(&self, t: TensorId, l: LayoutId) -> Option<(u32, &'a str)> {
        let group = self.groups.of_layout(self.view, t, l)?;
        Some((group, &self.view.layout_hints(t, l).form))
    }

    fn times(&self, t: TensorId, l: LayoutId) -> u64 {
        self.key(t, l)
            .and_then(|k| self.times.get(&k).copied())
            .unwrap_or(0)
    }

    /// Whether some other layout of `t` singles out a dimension that is asked for more often.
    pub fn is_against(&self, t: TensorId, l: LayoutId) -> bool {
        let own = self.times(t, l);
        (0..self.view.layouts(t)).any(|other| self.times(t, LayoutId::new(other)) > own)
    }
}
