//! The elimination: which variable next, what happens around it, and what is left when the tables would not fit.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Stop;
use super::cores;
use super::counters::Counters;
use super::decompose;
use super::dominance;
use super::eliminate;
use super::network::{Network, Table, Var};
use super::queue::{Buckets, key, log2_64};
use super::records::Records;
use super::stream::RIPE_LOG;
use crate::strategy::{Budget, SolveError};

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

/// Variables in more tables than this have their key recomputed only when they come up: recomputing it whenever a
/// neighbour goes would be quadratic in the fan-out.
const BUSY: usize = 64;

/// A variable's own dominated values are looked for when its message has this many entries per value or more.
const OWN_ENTRIES: usize = 8;

/// While operators are still to come, a variable is eliminated if its message has no more entries than this or than the
/// tables it is made of, and at most [`STREAM_ENTRIES`]. More would take choices away from the order by size over
/// the whole network (twice the tables' entries: 20 M in place of 13 M, on 10,000 random operators of width 17), less
/// lets the network grow.
const SMALL_ENTRIES: usize = 16;
const STREAM_ENTRIES: usize = 1 << 10;

/// Before a message of more entries than this, the neighbours' dominated values are removed, so that it is smaller. For
/// smaller messages that costs more than it saves: from 64 on, random graphs of window 3 have a tenth fewer entries and take a fifth longer.
/// From 1,024 on, wide graphs do not end.
const EAGER_ENTRIES: usize = 256;

/// Per variable.
pub(super) mod flag {
    /// It is eliminated.
    pub const GONE: u8 = 1;
    /// Tables of it are still to come.
    pub const OPEN: u8 = 2;
    /// Its tables changed since dominated values were last looked for.
    pub const STALE: u8 = 4;
    /// It waits for a new key.
    pub const TOUCHED: u8 = 8;
    /// It is in the list of those that wait for being met long ago.
    pub const WAITING: u8 = 16;
    /// It was met long ago.
    pub const RIPE: u8 = 32;
}

/// What is done to make tables smaller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Remove dominated values.
    pub dominance: bool,
    /// Split messages into parts that have nothing to do with each other.
    pub decompose: bool,
}

pub(super) struct Elimination<'a> {
    pub net: Network,
    pub counters: Counters,
    pub budget: &'a Budget,
    rules: Rules,
    /// Entries that one table may have.
    pub most: usize,
    pub records: Records,
    pub flags: Vec<u8>,
    pub keys: Vec<u64>,
    /// Within a run: the variables that lost values since the last border.
    pub reduced: Option<Vec<Var>>,
    heap: BinaryHeap<Reverse<(u64, Var)>>,
    /// While operators are still to come: in place of the heap, variables of small messages by size, finely enough, in
    /// time that does not depend on how many there are.
    pub small: Option<Buckets>,
    /// Variables whose messages were too large while operators were still to come; those before `waited` were so already
    /// when the last ones ripened.
    pub waiting: Vec<Var>,
    pub waited: usize,
    touched: Vec<Var>,
    neighbours: Vec<Var>,
    pub tables: Vec<Table>,
    pub scratch: (dominance::Scratch, eliminate::Scratch, decompose::Scratch),
    /// To count distinct neighbours: the round in which a variable was last met.
    met: Vec<u32>,
    round: u32,
    steps: u32,
}

impl<'a> Elimination<'a> {
    /// Of a complete network.
    pub fn new(net: Network, budget: &'a Budget, rules: Rules) -> Self {
        let mut elimination = Self {
            net,
            counters: Counters::default(),
            budget,
            rules,
            most: usize::MAX,
            records: Records::default(),
            flags: Vec::new(),
            keys: Vec::new(),
            reduced: None,
            heap: BinaryHeap::new(),
            small: None,
            waiting: Vec::new(),
            waited: 0,
            touched: Vec::new(),
            neighbours: Vec::new(),
            tables: Vec::new(),
            scratch: Default::default(),
            met: Vec::new(),
            round: 0,
            steps: 0,
        };
        elimination.grow();
        for v in 0..elimination.net.len() as Var {
            elimination.touch(v);
        }
        elimination
    }

    /// Eliminates as long as no table has more than `most` entries. May be called again with a higher limit: the
    /// elimination goes on from where it stood.
    pub fn run(&mut self, most: usize) -> Outcome {
        self.most = most;
        let result = self.advance(false);
        self.outcome(result)
    }

    /// Solves what is left by a search for cores if that is likely to be quick: the outcome, with its counters.
    pub fn search(&mut self) -> Result<cores::Found<Outcome>, SolveError> {
        let left = (0..self.net.len() as Var).filter(|&v| self.flags[v as usize] & flag::GONE == 0);
        let Some((answer, counters)) = cores::search(&self.net, left.collect(), self.budget)? else {
            return Ok(None);
        };
        let outcome = match answer {
            cores::Answer::Infeasible => Outcome::Infeasible,
            cores::Answer::Optimal { cost, values } => {
                self.net.constant += cost;
                Outcome::Solved(self.records.backtrack(&self.net, &values))
            }
        };
        Ok(Some((outcome, counters)))
    }

    pub fn outcome(&self, result: Result<(), Stop>) -> Outcome {
        match result {
            Ok(()) => Outcome::Solved(self.records.backtrack(&self.net, &[])),
            Err(Stop::Contradiction) => Outcome::Infeasible,
            Err(Stop::Time) => Outcome::Timeout,
            Err(Stop::Memory(wanted)) => Outcome::OutOfMemory { wanted },
        }
    }

    /// Room for the variables that are new.
    pub fn grow(&mut self) {
        let n = self.net.len();
        self.flags.resize(n, flag::STALE);
        self.keys.resize(n, u64::MAX);
        self.met.resize(n, 0);
    }

    /// Eliminates variables, least keys first, until there is none (or none that is small, while operators are to come).
    pub fn advance(&mut self, relaxed: bool) -> Result<(), Stop> {
        loop {
            while let Some(v) = self.touched.pop() {
                self.flags[v as usize] &= !flag::TOUCHED;
                self.rank(v)?;
            }
            let next = match &mut self.small {
                Some(small) => small.pop(),
                None => self.heap.pop().map(|Reverse(next)| next),
            };
            let Some((key, v)) = next else {
                return Ok(());
            };
            if self.flags[v as usize] & flag::GONE != 0 || self.keys[v as usize] != key {
                continue;
            }
            self.keys[v as usize] = u64::MAX;
            if self.net.of[v as usize].len() > BUSY && self.key(v) > key {
                self.touch(v);
                continue;
            }
            self.steps += 1;
            let stopped = if self.steps.is_multiple_of(64) && self.budget.exhausted() {
                Err(Stop::Time)
            } else {
                self.turn(v, relaxed)
            };
            if let Err(stop) = stopped {
                self.touch(v); // it is still there; let it come up again
                return Err(stop);
            }
        }
    }

    /// The variable has the least key: eliminates it, unless removing dominated values around it changes its key.
    fn turn(&mut self, v: Var, relaxed: bool) -> Result<(), Stop> {
        self.net.neighbours(v, &mut self.neighbours);
        let entries = self.entries();
        if self.rules.dominance && entries > EAGER_ENTRIES {
            let scope = std::mem::take(&mut self.neighbours);
            // Its own values do not change the message, only what it costs to compute.
            let pays = entries > OWN_ENTRIES * self.net.size(v);
            let mut changed = pays && self.reduce(v)?;
            for &u in &scope {
                changed |= self.reduce(u)?;
            }
            self.neighbours = scope;
            if changed {
                self.touch(v);
                return Ok(());
            }
        }
        self.eliminate(v, relaxed)
    }

    /// Entries of a table over the neighbours at hand.
    fn entries(&self) -> usize {
        self.neighbours
            .iter()
            .fold(1, |n, &u| n.saturating_mul(self.net.size(u)))
    }

    /// A new key. A variable with one value left is taken out of its tables at once.
    fn rank(&mut self, v: Var) -> Result<(), Stop> {
        if self.flags[v as usize] & (flag::GONE | flag::OPEN) != 0 {
            return Ok(());
        }
        if self.net.size(v) == 1 {
            return self.fix(v);
        }
        if self.net.of[v as usize].len() <= BUSY || self.keys[v as usize] == u64::MAX {
            let key = self.key(v);
            if key != self.keys[v as usize] {
                self.keys[v as usize] = key;
                match &mut self.small {
                    Some(small) => {
                        let tables = self.net.of[v as usize].iter();
                        let before: usize = tables.map(|&t| self.net.tables[t as usize].data.len()).sum();
                        let flags = &mut self.flags[v as usize];
                        let most = match *flags & flag::RIPE {
                            0 => log2_64(before.clamp(SMALL_ENTRIES, STREAM_ENTRIES)),
                            _ => RIPE_LOG,
                        };
                        if key >> 20 <= u64::from(most) {
                            small.push(key, v);
                        } else if *flags & (flag::WAITING | flag::RIPE) == 0 {
                            *flags |= flag::WAITING;
                            self.waiting.push(v);
                        }
                    }
                    None => self.heap.push(Reverse((key, v))),
                }
            }
        }
        Ok(())
    }

    /// Size of the message, then the number of neighbours.
    fn key(&mut self, v: Var) -> u64 {
        self.round += 1;
        let (mut size, mut neighbours) = (0u64, 0);
        for &t in &self.net.of[v as usize] {
            for &u in &self.net.tables[t as usize].scope {
                if u != v && std::mem::replace(&mut self.met[u as usize], self.round) != self.round {
                    let values = self.net.size(u);
                    size += u64::from(log2_64(values));
                    neighbours += 1;
                }
            }
        }
        key(size, neighbours)
    }

    /// Removes dominated values if its tables changed since that was last done; whether there were any.
    fn reduce(&mut self, v: Var) -> Result<bool, Stop> {
        let flags = &mut self.flags[v as usize];
        if *flags & (flag::STALE | flag::OPEN) != flag::STALE || self.net.size(v) == 1 {
            return Ok(false);
        }
        *flags &= !flag::STALE;
        let removed = dominance::dominate(&mut self.net, v, &mut self.scratch.0, self.budget)?;
        self.counters.dominated += removed as u64;
        if removed > 0 {
            self.net.neighbours(v, &mut self.neighbours);
            self.touch_neighbours();
            self.touch(v);
            if let Some(reduced) = &mut self.reduced {
                reduced.push(v);
            }
        }
        Ok(removed > 0)
    }

    pub fn touch(&mut self, v: Var) {
        let flags = &mut self.flags[v as usize];
        if *flags & flag::TOUCHED == 0 {
            *flags |= flag::TOUCHED;
            self.touched.push(v);
        }
    }

    /// The neighbours at hand have other tables now.
    pub fn touch_neighbours(&mut self) {
        for i in 0..self.neighbours.len() {
            let u = self.neighbours[i];
            self.flags[u as usize] |= flag::STALE;
            self.touch(u);
        }
    }

    fn fix(&mut self, v: Var) -> Result<(), Stop> {
        self.net.meter.take(Records::bytes(1, 0, 1))?;
        self.net.neighbours(v, &mut self.neighbours);
        self.touch_neighbours();
        self.net.settle_unary(v)?;
        while let Some(&t) = self.net.of[v as usize].last() {
            let Table { mut scope, data } = self.net.take(t);
            scope.retain(|&u| u != v); // a variable of one value takes no room in the table
            self.net.add(scope, data)?;
        }
        self.records.open(&self.net, v, &[], 1).push(&[0]);
        self.flags[v as usize] |= flag::GONE;
        self.net.forget(v);
        self.counters.fixed += 1;
        Ok(())
    }

    /// Eliminates `v`, whose neighbours are at hand.
    fn eliminate(&mut self, v: Var, relaxed: bool) -> Result<(), Stop> {
        let entries = self.entries();
        if entries > self.most {
            if relaxed {
                self.touch_neighbours();
                return self.eliminate_split(v);
            }
            return Err(Stop::Memory((entries as u64).saturating_mul(9)));
        }
        // The message stands beside the tables it is made of; the choices stay.
        let bytes = (entries as u64).saturating_mul(8);
        let record = Records::bytes(self.net.size(v), self.neighbours.len(), entries);
        self.net.meter.take(bytes.saturating_add(record))?;
        self.touch_neighbours();
        self.take_tables(v);
        let mut into = self.net.scope();
        into.extend_from_slice(&self.neighbours);
        let mut data = self.net.buffer(entries);
        let choices = self.records.open(&self.net, v, &into, entries);
        let message = eliminate::eliminate(
            &self.net,
            v,
            &self.tables,
            true,
            &into,
            &mut data,
            Some(choices),
            &mut self.scratch.1,
            self.budget,
        );
        if message.is_err() {
            // The network is as before, so that its constant stays a bound and a relaxation may follow.
            self.records.pop();
            self.net.meter.give(bytes + record);
            while let Some(table) = self.tables.pop() {
                self.net.add(table.scope, table.data)?;
            }
            return Err(Stop::Time);
        }
        while let Some(table) = self.tables.pop() {
            self.net.recycle(table);
        }
        self.net.meter.give(bytes);
        self.counters.eliminated += 1;
        self.counters.entries += entries as u64;
        self.counters.largest_table = self.counters.largest_table.max(entries as u64);
        self.counters.width = self.counters.width.max(self.neighbours.len() as u64);
        self.flags[v as usize] |= flag::GONE;
        self.net.forget(v);
        let mut message = Table { scope: into, data };
        if self.rules.decompose {
            self.counters.decomposed +=
                decompose::decompose(&mut self.net, &mut message, &mut self.scratch.2)?;
        }
        self.net.add(message.scope, message.data)
    }

    /// Takes the tables of `v` out of the network into `tables`.
    pub fn take_tables(&mut self, v: Var) {
        while let Some(&t) = self.net.of[v as usize].last() {
            let table = self.net.take(t);
            self.tables.push(table);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::{Hubs, Modelling, build};
    use super::super::network::INF;
    use super::*;
    use crate::generate::{Random, random, random_3sat, sat};
    use crate::meter::Meter;

    const RULES: Rules = Rules {
        dominance: true,
        decompose: true,
    };

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
        (0..40).filter_map(move |seed| build(&problem(seed), modelling, Network::new(Meter::new(None))).ok())
    }

    fn optimum(net: &Network) -> Option<u64> {
        let budget = Budget::default();
        let mut elimination = Elimination::new(net.clone(), &budget, RULES);
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
            let mut elimination = Elimination::new(net.clone(), &budget, RULES);
            stopped += usize::from(matches!(elimination.run(20), Outcome::OutOfMemory { .. }));
            let found = match elimination.run(usize::MAX) {
                Outcome::Solved(_) => Some(elimination.net.constant),
                _ => None,
            };
            assert_eq!(found, optimum(&net));
        }
        assert!(stopped > 10, "{stopped}");
    }

    /// Satisfiability problems, every other one with what costs something forbidden.
    fn satisfiability() -> impl Iterator<Item = Network> {
        (0..40).filter_map(|seed| {
            let clauses = random_3sat(12, 60, seed).expect("parameters are in range");
            let problem = sat("sat", 12, &clauses).expect("parameters are in range");
            let modelling = Modelling {
                hubs: Hubs::Subsets(3),
                produced_from: 16,
                requests_from: 16,
            };
            let mut net = build(&problem, modelling, Network::new(Meter::new(None))).ok()?;
            if seed % 2 == 1 {
                let costs = net
                    .unary
                    .iter_mut()
                    .chain(net.tables.iter_mut().map(|t| &mut t.data));
                costs.flatten().filter(|c| **c > 0).for_each(|c| *c = INF);
            }
            Some(net)
        })
    }

    #[test]
    fn cores_in_what_is_left_give_the_same_optimum() {
        let (mut solved, mut infeasible) = (0, 0);
        for net in satisfiability() {
            let budget = Budget::default();
            let expected = optimum(&net);
            let priced = net.clone();
            let mut elimination = Elimination::new(net, &budget, RULES);
            if !matches!(elimination.run(64), Outcome::OutOfMemory { .. }) {
                continue;
            }
            match elimination.search().expect("no solver fails") {
                Some((Outcome::Solved(values), _)) => {
                    solved += 1;
                    assert_eq!(Some(elimination.net.constant), expected);
                    assert_eq!(Some(priced.price(&values)), expected);
                }
                Some((Outcome::Infeasible, _)) => {
                    infeasible += 1;
                    assert_eq!(None, expected);
                }
                _ => {}
            }
        }
        assert!(solved > 10 && infeasible > 2, "{solved} {infeasible}");
    }

    #[test]
    fn splitting_gives_a_lower_bound() {
        let mut split = 0;
        for net in networks() {
            let Some(optimum) = optimum(&net) else { continue };
            let budget = Budget::default();
            let mut elimination = Elimination::new(net, &budget, RULES);
            elimination.most = 8;
            let before = elimination.net.constant;
            assert!(elimination.advance(true).is_ok());
            assert!(before <= elimination.net.constant && elimination.net.constant <= optimum);
            split += elimination.counters.split;
        }
        assert!(split > 10, "{split}");
    }
}
