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
    /// A table would not fit (or, after [`Elimination::relax`], something was split): the constant is a lower bound.
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
    /// Entries that one table may have.
    most: usize,
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
            most: usize::MAX,
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

    /// Eliminates as long as no table has more than `most` entries. May be called again with a higher limit: the
    /// elimination goes on from where it stood.
    pub fn run(&mut self, most: usize) -> Outcome {
        self.most = most;
        match self.eliminate_all(false) {
            Ok(()) => Outcome::Solved(self.backtrack()),
            Err(stop) => self.outcome(stop),
        }
    }

    /// Gives up exactness: a variable whose table is too large is split into copies, each with some of its tables
    /// (mini-buckets, Dechter and Rish 2003). The constant stays a lower bound and grows.
    pub fn relax(&mut self) -> Outcome {
        self.most = SPLIT_ENTRIES;
        match self.eliminate_all(true) {
            Ok(()) => Outcome::OutOfMemory { wanted: 0 },
            Err(stop) => self.outcome(stop),
        }
    }

    fn outcome(&self, stop: Stop) -> Outcome {
        match stop {
            Stop::Contradiction => Outcome::Infeasible,
            Stop::Time => Outcome::Timeout,
            Stop::Memory(wanted) => Outcome::OutOfMemory { wanted },
        }
    }

    fn eliminate_all(&mut self, relaxed: bool) -> Result<(), Stop> {
        self.meter_tables()?;
        let (mut steps, mut settled) = (0u32, 0u32);
        loop {
            while let Some(v) = self.dirty.pop() {
                self.is_dirty[v as usize] = false;
                if !self.gone[v as usize] {
                    self.settle(v)?;
                }
                settled += 1;
                if settled.is_multiple_of(64) && self.budget.exhausted() {
                    return Err(Stop::Time);
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
            if steps.is_multiple_of(64) && self.budget.exhausted() {
                return Err(Stop::Time);
            }
            if let Err(stop) = self.eliminate(v, relaxed) {
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

    fn eliminate(&mut self, v: Var, relaxed: bool) -> Result<(), Stop> {
        self.touch_neighbours(v);
        let scope = self.neighbours.clone();
        let entries = scope
            .iter()
            .fold(1usize, |n, &u| n.saturating_mul(self.net.size(u)));
        if entries > self.most {
            return if relaxed {
                self.eliminate_split(v)
            } else {
                Err(Stop::Memory((entries as u64).saturating_mul(9)))
            };
        }
        let choice = choice_bytes(&self.net.values[v as usize]);
        // The message stands beside the tables it is made of; the choices stay.
        let bytes = (entries as u64).saturating_mul(8 + choice);
        self.meter.take(bytes).map_err(|e| Stop::Memory(e.wanted))?;
        let tables = self.take_tables(v);
        let (mut into, mut data) = self.net.buffers();
        into.extend_from_slice(&scope);
        let scratch = &mut self.scratch.1;
        let message = eliminate::eliminate(
            &self.net,
            v,
            &tables,
            true,
            &scope,
            &mut data,
            scratch,
            self.budget,
        );
        let Some(choices) = message else {
            return Err(Stop::Time);
        };
        tables.into_iter().for_each(|t| self.net.recycle(t.scope, t.data));
        self.meter.give(entries as u64 * 8);
        self.counters.eliminated += 1;
        self.counters.entries += entries as u64;
        self.counters.largest_table = self.counters.largest_table.max(entries as u64);
        self.gone[v as usize] = true;
        self.records.push(Record {
            variable: v,
            scope,
            choices,
        });
        self.net.add(into, data)?;
        self.meter_tables()
    }

    /// Eliminates copies of `v`, each with as many tables as fit. Only for bounds: no choices are kept.
    fn eliminate_split(&mut self, v: Var) -> Result<(), Stop> {
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
                    <= self.most
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
            let (_, mut data) = self.net.buffers();
            let scratch = &mut self.scratch.1;
            let unary = i == 0;
            let message = eliminate::eliminate(
                &self.net,
                v,
                &tables,
                unary,
                &scope,
                &mut data,
                scratch,
                self.budget,
            );
            message.ok_or(Stop::Time)?;
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

#[cfg(test)]
mod tests {
    use super::super::model::{Hubs, Modelling, build};
    use super::*;
    use crate::generate::{Random, random};

    fn networks() -> impl Iterator<Item = Network> {
        let modelling = Modelling {
            hubs: Hubs::Subsets(3),
            produced_from: 16,
            requests_from: 16,
        };
        let problem = |seed| {
            let p = Random {
                operators: 40,
                window: 5,
                odd: seed % 2 == 0,
                seed,
                ..Random::default()
            };
            random(&p).expect("parameters are in range")
        };
        (0..40).filter_map(move |seed| build(&problem(seed), modelling).ok())
    }

    fn optimum(net: &Network) -> Option<u64> {
        let budget = Budget::default();
        let mut elimination = Elimination::new(net.clone(), &budget, true);
        match elimination.run(usize::MAX) {
            Outcome::Solved(_) => Some(elimination.net.constant),
            Outcome::Infeasible => None,
            _ => panic!("there is no limit"),
        }
    }

    #[test]
    fn an_elimination_that_was_stopped_goes_on_to_the_same_optimum() {
        let mut stopped = 0;
        for net in networks() {
            let budget = Budget::default();
            let mut elimination = Elimination::new(net.clone(), &budget, true);
            stopped += usize::from(matches!(elimination.run(20), Outcome::OutOfMemory { .. }));
            let found = match elimination.run(usize::MAX) {
                Outcome::Solved(_) => Some(elimination.net.constant),
                _ => None,
            };
            assert_eq!(found, optimum(&net));
        }
        assert!(stopped > 10, "{stopped}");
    }

    #[test]
    fn splitting_gives_a_lower_bound() {
        let mut split = 0;
        for net in networks() {
            let Some(optimum) = optimum(&net) else { continue };
            let budget = Budget::default();
            let mut elimination = Elimination::new(net, &budget, true);
            elimination.most = 8;
            let before = elimination.net.constant;
            assert!(elimination.eliminate_all(true).is_ok());
            assert!(before <= elimination.net.constant && elimination.net.constant <= optimum);
            split += elimination.counters.split;
        }
        assert!(split > 10, "{split}");
    }
}
