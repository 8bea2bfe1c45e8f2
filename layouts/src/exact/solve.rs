//! The elimination: which variable next, what happens around it, and what is left when the tables would not fit.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::dominance;
use super::eliminate::{self, Choices, choice_bytes};
use super::network::{Contradiction, Network, Table, Var};
use crate::meter::Meter;
use crate::strategy::Budget;

/// How an elimination ended.
pub(super) enum Outcome {
    /// Every variable is gone: the constant is the optimum, and these are the best original values.
    Solved(Vec<u32>),
    Infeasible,
    /// A table would not fit: the constant is a lower bound.
    OutOfMemory {
        wanted: u64,
    },
    Timeout,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub dominated: u64,
    pub fixed: u64,
    pub eliminated: u64,
    pub entries: u64,
    pub largest_table: u64,
    pub split: u64,
}

/// Largest table of the relaxation that bounds what does not fit: small, since it runs when time or memory is short.
const SPLIT_ENTRIES: usize = 1 << 16;

/// Variables in more tables than this have their key recomputed only when they come up: recomputing it whenever a
/// neighbour goes would be quadratic in the fan-out.
const BUSY: usize = 64;

struct Record {
    variable: Var,
    scope: Vec<Var>,
    choices: Choices,
}

pub(super) struct Elimination<'a> {
    pub net: Network,
    pub counters: Counters,
    pub meter: Meter,
    budget: &'a Budget,
    dominance: bool,
    records: Vec<Record>,
    gone: Vec<bool>,
    keys: Vec<u64>,
    heap: BinaryHeap<Reverse<(u64, Var)>>,
    /// Variables whose surroundings changed.
    dirty: Vec<Var>,
    is_dirty: Vec<bool>,
    scratch: (dominance::Scratch, eliminate::Scratch),
    neighbours: Vec<Var>,
    /// Bytes of tables last told to the meter.
    metered: u64,
}

enum Stop {
    Contradiction,
    Memory(u64),
    Time,
}

impl From<Contradiction> for Stop {
    fn from(_: Contradiction) -> Self {
        Self::Contradiction
    }
}

impl<'a> Elimination<'a> {
    pub fn new(net: Network, budget: &'a Budget, dominance: bool) -> Self {
        let n = net.values.len();
        Self {
            meter: Meter::new(budget.memory_limit),
            counters: Counters::default(),
            budget,
            dominance,
            records: Vec::with_capacity(n),
            gone: vec![false; n],
            keys: vec![u64::MAX; n],
            heap: BinaryHeap::with_capacity(2 * n),
            dirty: (0..n as Var).rev().collect(),
            is_dirty: vec![true; n],
            scratch: Default::default(),
            neighbours: Vec::new(),
            metered: 0,
            net,
        }
    }

    pub fn run(&mut self) -> Outcome {
        match self.eliminate_all(None) {
            Ok(()) => Outcome::Solved(self.backtrack()),
            Err(Stop::Contradiction) => Outcome::Infeasible,
            Err(Stop::Time) => Outcome::Timeout,
            Err(Stop::Memory(wanted)) => {
                // What is left is relaxed: a variable whose table is too large is split into copies, each with some of
                // its tables (mini-buckets, Dechter and Rish 2003). The constant stays a lower bound and grows.
                match self.eliminate_all(Some(SPLIT_ENTRIES)) {
                    Err(Stop::Contradiction) => Outcome::Infeasible,
                    _ => Outcome::OutOfMemory { wanted },
                }
            }
        }
    }

    fn eliminate_all(&mut self, split: Option<usize>) -> Result<(), Stop> {
        self.meter_tables()?;
        let mut steps = 0u32;
        loop {
            while let Some(v) = self.dirty.pop() {
                self.is_dirty[v as usize] = false;
                if !self.gone[v as usize] {
                    self.settle(v)?;
                }
            }
            let Some(Reverse((key, v))) = self.heap.pop() else {
                return Ok(());
            };
            if self.gone[v as usize] || self.keys[v as usize] != key {
                continue;
            }
            if self.net.of[v as usize].len() > BUSY {
                let now = self.key(v);
                if now > key {
                    self.keys[v as usize] = now;
                    self.heap.push(Reverse((now, v)));
                    continue;
                }
            }
            steps += 1;
            if steps % 64 == 0 && self.budget.exhausted() {
                return Err(Stop::Time);
            }
            if let Err(stop) = self.eliminate(v, split) {
                // The variable is still there; let it come up again.
                self.heap.push(Reverse((key, v)));
                return Err(stop);
            }
        }
    }

    /// Dominance, then the key. A variable with one value left is taken out of its tables at once.
    fn settle(&mut self, v: Var) -> Result<(), Stop> {
        if self.dominance && self.net.size(v) > 1 {
            let removed =
                dominance::dominate(&mut self.net, v, self.records.len() as u32, &mut self.scratch.0)?;
            if removed > 0 {
                self.counters.dominated += removed as u64;
                self.touch_neighbours(v);
            }
        }
        if self.net.size(v) == 1 {
            return self.fix(v);
        }
        if self.net.of[v as usize].len() <= BUSY || self.keys[v as usize] == u64::MAX {
            let key = self.key(v);
            if key != self.keys[v as usize] {
                self.keys[v as usize] = key;
                self.heap.push(Reverse((key, v)));
            }
        }
        Ok(())
    }

    /// Size of the message (log2, in 1/64), then the number of neighbours.
    fn key(&mut self, v: Var) -> u64 {
        self.net.neighbours(v, &mut self.neighbours);
        let bits: f64 = self
            .neighbours
            .iter()
            .map(|&u| (self.net.size(u) as f64).log2())
            .sum();
        ((bits * 64.0) as u64) << 20 | (self.neighbours.len() as u64).min((1 << 20) - 1)
    }

    fn touch_neighbours(&mut self, v: Var) {
        self.net.neighbours(v, &mut self.neighbours);
        for &u in &self.neighbours {
            if !self.is_dirty[u as usize] {
                self.is_dirty[u as usize] = true;
                self.dirty.push(u);
            }
        }
    }

    fn fix(&mut self, v: Var) -> Result<(), Stop> {
        self.touch_neighbours(v);
        self.net.settle_unary(v)?;
        while let Some(&t) = self.net.of[v as usize].last() {
            let Table { mut scope, data } = self.net.take(t);
            scope.retain(|&u| u != v); // a variable of one value takes no room in the table
            self.net.add(scope, data)?;
        }
        let value = self.net.values[v as usize][0];
        self.gone[v as usize] = true;
        self.counters.fixed += 1;
        self.records.push(Record {
            variable: v,
            scope: Vec::new(),
            choices: Choices::Words(vec![value]),
        });
        Ok(())
    }

    fn eliminate(&mut self, v: Var, split: Option<usize>) -> Result<(), Stop> {
        self.touch_neighbours(v);
        let scope = self.neighbours.clone();
        let entries = scope
            .iter()
            .fold(1usize, |n, &u| n.saturating_mul(self.net.size(u)));
        if split.is_some_and(|most| entries > most) {
            return self.eliminate_split(v, split.unwrap_or(entries));
        }
        let choice = choice_bytes(&self.net.values[v as usize]);
        // The message stands beside the tables it is made of; the choices stay.
        let bytes = (entries as u64).saturating_mul(8 + choice);
        self.meter.take(bytes).map_err(|e| Stop::Memory(e.wanted))?;
        let tables = self.take_tables(v);
        let message = eliminate::eliminate(
            &self.net,
            v,
            &tables,
            true,
            &scope,
            &mut self.scratch.1,
            self.budget,
        );
        let Some((data, choices)) = message else {
            return Err(Stop::Time);
        };
        self.meter.give(entries as u64 * 8);
        self.counters.eliminated += 1;
        self.counters.entries += entries as u64;
        self.counters.largest_table = self.counters.largest_table.max(entries as u64);
        self.gone[v as usize] = true;
        self.records.push(Record {
            variable: v,
            scope: scope.clone(),
            choices,
        });
        self.net.add(scope, data)?;
        self.meter_tables()
    }

    /// Eliminates copies of `v`, each with as many tables as fit. Only for bounds: no choices are kept.
    fn eliminate_split(&mut self, v: Var, most: usize) -> Result<(), Stop> {
        let mut tables = self.take_tables(v);
        tables.sort_by_key(|t| Reverse(t.data.len()));
        let mut groups: Vec<(Vec<Var>, Vec<Table>)> = Vec::new();
        for table in tables {
            let union = |scope: &[Var]| {
                let mut all: Vec<Var> = scope
                    .iter()
                    .chain(&table.scope)
                    .copied()
                    .filter(|&u| u != v)
                    .collect();
                all.sort_unstable();
                all.dedup();
                all
            };
            let fits = |scope: &[Var]| {
                scope
                    .iter()
                    .fold(1usize, |n, &u| n.saturating_mul(self.net.size(u)))
                    <= most
            };
            match groups
                .iter_mut()
                .map(|g| (union(&g.0), g))
                .find(|(scope, _)| fits(scope))
            {
                Some((scope, group)) => {
                    group.0 = scope;
                    group.1.push(table);
                }
                None => groups.push((union(&[]), vec![table])),
            }
        }
        self.gone[v as usize] = true;
        for (i, (scope, tables)) in groups.into_iter().enumerate() {
            self.counters.split += 1;
            let message = eliminate::eliminate(
                &self.net,
                v,
                &tables,
                i == 0,
                &scope,
                &mut self.scratch.1,
                self.budget,
            );
            let Some((data, _)) = message else {
                return Err(Stop::Time);
            };
            self.net.add(scope, data)?;
        }
        Ok(())
    }

    fn take_tables(&mut self, v: Var) -> Vec<Table> {
        let mut tables = Vec::with_capacity(self.net.of[v as usize].len());
        while let Some(&t) = self.net.of[v as usize].last() {
            tables.push(self.net.take(t));
        }
        tables
    }

    /// Tells the meter how the network's tables grew or shrank.
    fn meter_tables(&mut self) -> Result<(), Stop> {
        let now = self.net.bytes;
        if now > self.metered {
            self.meter
                .take(now - self.metered)
                .map_err(|e| Stop::Memory(e.wanted))?;
        } else {
            self.meter.give(self.metered - now);
        }
        self.metered = now;
        Ok(())
    }

    /// Variables in the reverse order of elimination, each at its best given those that outlived it.
    fn backtrack(&self) -> Vec<u32> {
        let mut best = vec![0; self.gone.len()];
        for (stamp, record) in self.records.iter().enumerate().rev() {
            let mut index = 0;
            for &u in &record.scope {
                index = index * self.net.count(u, stamp as u32)
                    + self.net.position(u, best[u as usize], stamp as u32);
            }
            best[record.variable as usize] = record.choices.get(index);
        }
        best
    }
}
