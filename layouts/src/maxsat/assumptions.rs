//! What the search assumes: literals, what it costs to give each up, and where in the problem they are.
//!
//! A literal's place is the position of its operator in the topological order; a sum of others stands where the first of them
//! does. Cores of a dataflow graph are local, so that literals of near places are asked for together.

use std::collections::{BTreeMap, BTreeSet};

use rustsat::types::Lit;

/// Assumptions with weights and places. B-trees, so that every run assumes in the same order.
#[derive(Default)]
pub(super) struct Assumptions {
    /// Weight and place.
    of: BTreeMap<Lit, (u64, u32)>,
    by_place: BTreeSet<(u32, Lit)>,
}

impl Assumptions {
    /// Raises the price of giving up `l`; its place is kept when it has one.
    pub fn add(&mut self, l: Lit, weight: u64, place: u32) {
        let entry = self.of.entry(l).or_insert((0, place));
        entry.0 += weight;
        self.by_place.insert((entry.1, l));
    }

    /// Lowers the price; a literal that costs nothing is gone.
    pub fn spend(&mut self, l: Lit, weight: u64) {
        if let Some(entry) = self.of.get_mut(&l) {
            entry.0 -= weight;
            if entry.0 == 0 {
                self.remove(l);
            }
        }
    }

    pub fn remove(&mut self, l: Lit) {
        if let Some((_, place)) = self.of.remove(&l) {
            self.by_place.remove(&(place, l));
        }
    }

    pub fn weight(&self, l: Lit) -> Option<u64> {
        self.of.get(&l).map(|&(weight, _)| weight)
    }

    pub fn place(&self, l: Lit) -> Option<u32> {
        self.of.get(&l).map(|&(_, place)| place)
    }

    pub fn weights(&self) -> impl Iterator<Item = u64> + '_ {
        self.of.values().map(|&(weight, _)| weight)
    }

    /// Literals of at least this weight, in order.
    pub fn at_least(&self, weight: u64) -> Vec<Lit> {
        self.of
            .iter()
            .filter(|(_, (w, _))| *w >= weight)
            .map(|(l, _)| *l)
            .collect()
    }

    /// Literals of at least this weight with their places, by place.
    pub fn by_place(&self, weight: u64) -> Vec<(u32, Lit)> {
        let heavy = |l: &Lit| self.of.get(l).is_some_and(|(w, _)| *w >= weight);
        self.by_place.iter().filter(|(_, l)| heavy(l)).copied().collect()
    }

    /// Literals of at least this weight whose place is in `first..=last`.
    pub fn between(&self, first: u32, last: u32, weight: u64) -> Vec<Lit> {
        let heavy = |l: &Lit| self.of.get(l).is_some_and(|(w, _)| *w >= weight);
        let range = (first, Lit::new(0, false))..;
        self.by_place
            .range(range)
            .take_while(|(place, _)| *place <= last)
            .map(|(_, l)| *l)
            .filter(heavy)
            .collect()
    }
}
