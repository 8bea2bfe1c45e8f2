//! The elimination: which variable next, what happens around it, and what is left when the tables would not fit.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Stop;
use super::cores;
use super::decompose;
use super::dominance;
use super::eliminate;
use super::model::{Builder, Modelling};
use super::network::{Network, Table, Var};
use super::queue::{Buckets, Logarithms, key};
use super::read_ahead::{STRIDE, read_ahead};
use super::records::Records;
use super::repeats::Repeats;
use super::replay::Replay;
use crate::id::OpId;
use crate::problem::Problem;
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

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub dominated: u64,
    pub fixed: u64,
    pub eliminated: u64,
    pub entries: u64,
    pub largest_table: u64,
    /// Most neighbours of an eliminated variable.
    pub width: u64,
    pub split: u64,
    /// Variables that a message says to have nothing to do with the others.
    pub decomposed: u64,
    /// Operators that were not eliminated, being copies of others.
    pub repeated: u64,
}

impl Counters {
    /// Adds what another elimination counted.
    pub fn add(&mut self, other: &Self) {
        self.dominated += other.dominated;
        self.fixed += other.fixed;
        self.eliminated += other.eliminated;
        self.entries += other.entries;
        self.largest_table = self.largest_table.max(other.largest_table);
        self.width = self.width.max(other.width);
        self.split += other.split;
        self.decomposed += other.decomposed;
        self.repeated += other.repeated;
    }

    /// Adds what was counted from one moment to another, so many times.
    pub fn repeat(&mut self, from: &Self, to: &Self, times: u64) {
        self.dominated += times * (to.dominated - from.dominated);
        self.fixed += times * (to.fixed - from.fixed);
        self.eliminated += times * (to.eliminated - from.eliminated);
        self.entries += times * (to.entries - from.entries);
        self.decomposed += times * (to.decomposed - from.decomposed);
    }
}

/// Largest table of the relaxation that bounds what does not fit: small, since it runs when time or memory is short.
const SPLIT_ENTRIES: usize = 1 << 16;

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

/// Variables that had to wait for that long, in operators, are eliminated all the same if their messages have at most
/// 2^([`RIPE_LOG`] / 64) entries: what could make them smaller has been met by then. Without that, half of a model of
/// repeated blocks waits to the end, out of the cache.
const RIPE_AFTER: usize = 128;
const RIPE_LOG: u32 = 64 * 8;

/// Before a message of more entries than this, the neighbours' dominated values are removed, so that it is smaller. For
/// smaller messages that costs more than it saves: each variable's own are removed when its turn comes.
const EAGER_ENTRIES: usize = 64;

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
    most: usize,
    pub records: Records,
    pub flags: Vec<u8>,
    pub keys: Vec<u64>,
    /// Within a run: the variables that lost values since the last border.
    pub reduced: Option<Vec<Var>>,
    heap: BinaryHeap<Reverse<(u64, Var)>>,
    /// While operators are still to come: in place of the heap, variables of small messages by size, finely enough, in
    /// time that does not depend on how many there are.
    small: Option<Buckets>,
    /// Variables whose messages were too large while operators were still to come; those before `waited` were so already
    /// when the last ones ripened.
    waiting: Vec<Var>,
    waited: usize,
    touched: Vec<Var>,
    neighbours: Vec<Var>,
    tables: Vec<Table>,
    scratch: (dominance::Scratch, eliminate::Scratch, decompose::Scratch),
    /// To count distinct neighbours: the round in which a variable was last met.
    met: Vec<u32>,
    round: u32,
    logarithms: Logarithms,
    steps: u32,
}

/// What an elimination behind a builder came to.
pub(super) struct Streamed {
    /// The variable of each operator.
    pub variables: Vec<Var>,
    /// Set when a limit was met before all tensors were there: the elimination cannot go on, and the bound lacks this.
    pub missing: Option<u64>,
    pub outcome: Outcome,
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
            logarithms: Logarithms::default(),
            steps: 0,
        };
        elimination.grow();
        for v in 0..elimination.net.len() as Var {
            elimination.touch(v);
        }
        elimination
    }

    /// Builds the network of `problem` operator by operator in this topological order (of the whole or of some of its
    /// components) and eliminates behind: what is alive at a time is a few
    /// operators' tables, so that they stay in the cache and the whole network never exists. Then as [`Self::run`], whose
    /// limit does not touch the small tables until then.
    pub fn stream(
        &mut self,
        problem: &Problem,
        order: &[OpId],
        modelling: Modelling,
        repeats: Repeats,
        most: usize,
    ) -> Streamed {
        let mut builder = Builder::new(problem, modelling);
        let mut complete = false;
        let result = self
            .stream_all(problem, order, &mut builder, repeats)
            .and_then(|()| {
                complete = true;
                self.most = most;
                self.advance(false)
            });
        let missing = (!complete).then_some(builder.to_come);
        Streamed {
            variables: builder.into_variables(),
            missing,
            outcome: self.outcome(result),
        }
    }

    fn stream_all(
        &mut self,
        problem: &Problem,
        order: &[OpId],
        builder: &mut Builder<'_>,
        repeats: Repeats,
    ) -> Result<(), Stop> {
        self.small = Some(Buckets::default());
        let mut replay = Replay::new(repeats);
        let (mut i, mut next_read) = (0, 0);
        while i < order.len() {
            if replay.is_border(i, &self.net) {
                self.waited = self.waiting.len();
                self.ripen();
                self.advance(false)?;
                let next = self.at_border(&mut replay, builder, order, i)?;
                if next > i {
                    i = next;
                    continue;
                }
            }
            if i >= next_read {
                if self.budget.exhausted() {
                    return Err(Stop::Time);
                }
                read_ahead(problem, order, i);
                next_read = i + STRIDE;
            }
            let o = order[i];
            let known = self.net.len() as Var;
            let others = builder.tensor(&mut self.net, problem.operator(o).output)?;
            replay.met(others..self.net.len() as Var);
            self.grow();
            for v in known..others {
                self.flags[v as usize] |= flag::OPEN;
            }
            // Its inputs came before, so that all its tables are there.
            let own = builder.variable(&mut self.net, o)?;
            self.flags[own as usize] &= !flag::OPEN;
            self.touch(own);
            for v in others..self.net.len() as Var {
                self.touch(v);
            }
            self.advance(false)?;
            i += 1;
            if (i - replay.phase()).is_multiple_of(RIPE_AFTER) {
                self.ripen();
                self.advance(false)?;
            }
        }
        self.small = None;
        self.waiting = Vec::new();
        for v in 0..self.net.len() as Var {
            self.keys[v as usize] = u64::MAX;
            self.touch(v);
        }
        Ok(())
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

    /// Gives up exactness: a variable whose table is too large is split into copies, each with some of its tables
    /// (mini-buckets, Dechter and Rish 2003). The constant stays a lower bound and grows.
    pub fn relax(&mut self) -> Outcome {
        self.most = SPLIT_ENTRIES;
        match self.advance(true) {
            Ok(()) => Outcome::OutOfMemory { wanted: 0 },
            stopped => self.outcome(stopped),
        }
    }

    fn outcome(&self, result: Result<(), Stop>) -> Outcome {
        match result {
            Ok(()) => Outcome::Solved(self.records.backtrack(&self.net, &[])),
            Err(Stop::Contradiction) => Outcome::Infeasible,
            Err(Stop::Time) => Outcome::Timeout,
            Err(Stop::Memory(wanted)) => Outcome::OutOfMemory { wanted },
        }
    }

    /// Those that waited through a whole round may be eliminated at a higher price.
    fn ripen(&mut self) {
        for v in self.waiting.drain(..self.waited).collect::<Vec<_>>() {
            let flags = &mut self.flags[v as usize];
            *flags &= !flag::WAITING;
            if *flags & flag::GONE == 0 {
                *flags |= flag::RIPE;
                self.keys[v as usize] = u64::MAX;
                self.touch(v);
            }
        }
        self.waited = self.waiting.len();
    }

    /// Room for the variables that are new.
    pub fn grow(&mut self) {
        let n = self.net.len();
        self.flags.resize(n, flag::STALE);
        self.keys.resize(n, u64::MAX);
        self.met.resize(n, 0);
    }

    /// Eliminates variables, least keys first, until there is none (or none that is small, while operators are to come).
    fn advance(&mut self, relaxed: bool) -> Result<(), Stop> {
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
                            0 => self.logarithms.of(before.clamp(SMALL_ENTRIES, STREAM_ENTRIES)),
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
                    size += u64::from(self.logarithms.of(values));
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
    fn touch_neighbours(&mut self) {
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
            let decomposed = &mut self.counters.decomposed;
            decompose::decompose(
                &mut self.net,
                &mut message,
                &mut self.scratch.2,
                |net, u, costs| {
                    *decomposed += 1;
                    let mut scope = net.scope();
                    scope.push(u);
                    net.add(scope, costs)
                },
            )?;
        }
        self.net.add(message.scope, message.data)
    }

    /// Eliminates copies of `v`, each with as many tables as fit. Only for bounds: no choices are kept.
    fn eliminate_split(&mut self, v: Var) -> Result<(), Stop> {
        self.take_tables(v);
        let mut tables = std::mem::take(&mut self.tables);
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
        let mut messages = Vec::with_capacity(groups.len());
        for (i, (scope, tables)) in groups.into_iter().enumerate() {
            self.counters.split += 1;
            let mut data = Vec::new();
            let message = eliminate::eliminate(
                &self.net,
                v,
                &tables,
                i == 0,
                &scope,
                &mut data,
                None,
                &mut self.scratch.1,
                self.budget,
            );
            message.map_err(|_| Stop::Time)?;
            messages.push(Table { scope, data });
        }
        self.flags[v as usize] |= flag::GONE;
        self.net.forget(v);
        messages
            .into_iter()
            .try_for_each(|m| self.net.add(m.scope, m.data))
    }

    /// Takes the tables of `v` out of the network into `tables`.
    fn take_tables(&mut self, v: Var) {
        while let Some(&t) = self.net.of[v as usize].last() {
            let table = self.net.take(t);
            self.tables.push(table);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::{Hubs, build};
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
