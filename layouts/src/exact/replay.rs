//! Copies of a block are eliminated once.
//!
//! In a *run* ([`super::repeats`]) the operators of one period after the other bring the same variables and the same tables. At every
//! *border* between periods all that waits is eliminated, and what is alive is looked at:
//!
//! - *Moving* variables are those of operators of the run. Their *copies* a period later are those of the operators a period later.
//! - All others are *fixed*. Some of them share tables with moving ones, as the layouts of a mask that all layers read do: the *contacts*.
//!
//! Eliminating a variable reads the tables it stands in and nothing else, and so does removing its dominated values. So as long as that
//! happens to moving variables, what a period leaves depends on its operators and on the
//! tables with moving variables alone: new tables with moving variables, costs over contacts, and a constant. When the tables with
//! moving variables at one border are copies of those at the border before, the same goes on to the end of the run. What is left of it is
//! then not eliminated: its records are the last period's, with copied variables; the constant and the costs over contacts grow by
//! as much per period as in the last; and the tables with moving variables go where their copies belong.
//!
//! What has no counterpart within the run is left out of the comparison, and the last periods, from where tables reach over the
//! end, are eliminated as usual. Time is linear in what is alive at a border, and in the records.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Stop;
use super::model::{Builder, NONE};
use super::network::{Domain, INF, Network, Var};
use super::repeats::{Repeats, Run};
use super::solve::{Counters, Elimination, flag};
use crate::id::OpId;

/// Borders that are looked at before a run is given up.
const TRIES: usize = 16;

/// What an elimination keeps about repeats.
#[derive(Default)]
pub(super) struct Replay {
    runs: std::vec::IntoIter<Run>,
    places: Vec<u32>,
    /// Per place that was met, the variables made for its result.
    made: Vec<Range<Var>>,
    current: Option<Current>,
}

/// The run at hand.
struct Current {
    run: Run,
    /// How many variables there were when it began.
    first: Var,
    /// The last border.
    border: usize,
    tries: usize,
    before: Option<Snapshot>,
}

/// A variable, under one name for all its copies, each seen from the border it is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Fixed(Var),
    /// Place relative to the border, and which variable of that place.
    Moving(i64, u32),
}

impl Name {
    fn later(self, by: usize) -> Self {
        match self {
            Self::Moving(place, which) => Self::Moving(place + by as i64, which),
            Self::Fixed(_) => self,
        }
    }

    fn place(self) -> Option<i64> {
        match self {
            Self::Moving(place, _) => Some(place),
            Self::Fixed(_) => None,
        }
    }
}

/// What was alive at a border.
struct Snapshot {
    border: usize,
    /// By name.
    moving: Vec<Moving>,
    /// Those with moving variables, by scope.
    tables: Vec<Mixed>,
    contacts: Vec<Contact>,
    /// Those with contacts and without moving variables, by scope: costs over contacts may have been added to any of them.
    shared: BTreeMap<Vec<Var>, (u32, Vec<u64>)>,
    constant: u64,
    counters: Counters,
    records: usize,
}

struct Moving {
    name: Name,
    /// Made before the run began.
    is_older: bool,
    domain: Domain,
    values: Vec<u32>,
    costs: Vec<u64>,
    open: bool,
}

/// A table with moving variables; the names ascend, and the costs are in their order.
struct Mixed {
    scope: Vec<Name>,
    /// Of variables made before the run began.
    is_older: bool,
    costs: Vec<u64>,
    table: u32,
}

impl Moving {
    fn place(&self) -> i64 {
        self.name.place().unwrap_or(i64::MIN)
    }

    fn is_like(&self, other: &Self) -> bool {
        self.values == other.values && self.costs == other.costs && self.open == other.open
    }
}

impl Mixed {
    fn places(&self) -> impl Iterator<Item = i64> {
        self.scope.iter().filter_map(|n| n.place())
    }

    /// The last place it has to do with.
    fn reach(&self) -> i64 {
        self.places().max().unwrap_or(i64::MIN)
    }
}

struct Contact {
    variable: Var,
    domain: Domain,
    costs: Vec<u64>,
}

impl Replay {
    pub fn new(repeats: Repeats) -> Self {
        Self {
            runs: repeats.runs.into_iter(),
            places: repeats.places,
            ..Self::default()
        }
    }

    /// The operator at this place was met, and these variables were made for its result.
    pub fn met(&mut self, made: Range<Var>) {
        if !self.places.is_empty() {
            self.made.push(made);
        }
    }

    /// Whether a run begins at place `at`, or a period ends there.
    pub fn is_border(&mut self, at: usize, net: &Network) -> bool {
        if let Some(c) = &self.current {
            return at == c.border + c.run.period;
        }
        let passed = self.runs.as_slice().iter().take_while(|r| r.start < at).count();
        self.runs.by_ref().take(passed).for_each(drop);
        if self.runs.as_slice().first().is_none_or(|r| r.start != at) {
            return false;
        }
        self.current = self.runs.next().map(|run| Current {
            run,
            first: net.len() as Var,
            border: at,
            tries: 0,
            before: None,
        });
        true
    }

    /// From where on operators are counted to say when what waits is ripe: within a run, every period is to be like the last.
    pub fn phase(&self) -> usize {
        self.current.as_ref().map_or(0, |c| c.border)
    }

    /// The variable of that name, seen from this border. It must be there.
    fn variable(&self, name: Name, border: usize, order: &[OpId], builder: &Builder<'_>) -> Var {
        match name {
            Name::Fixed(v) => v,
            Name::Moving(place, which) => {
                let place = (border as i64 + place) as usize;
                match which {
                    0 => builder.variable_of(order[place]),
                    _ => self.made[place].start + which - 1,
                }
            }
        }
    }
}

impl Elimination<'_> {
    /// Looks at what is alive at a border, place `at` of the order, and leaves out as many periods as it may; the place where
    /// the elimination is to go on.
    pub fn at_border(
        &mut self,
        replay: &mut Replay,
        builder: &mut Builder<'_>,
        order: &[OpId],
        at: usize,
    ) -> Result<usize, Stop> {
        let Some(mut current) = replay.current.take() else {
            return Ok(at);
        };
        current.border = at;
        self.separate(&current, replay, builder, order)?;
        let now = self.snapshot(&current, replay, builder, order);
        let reduced = self.reduced.take().unwrap_or_default();
        if let Some(before) = &current.before {
            // What goes on outside the run happens once, not once per period.
            let eliminated = (before.records..now.records).filter_map(|r| self.records.variables(r).next());
            let is_moving = |v| matches!(self.name(v, &current, replay, builder), Name::Moving(..));
            if eliminated.chain(reduced).all(is_moving) && goes_on(before, &now, &current.run) {
                let periods = self.periods_to_leave_out(&current, before, &now, replay, builder);
                if periods > 0 {
                    return self.leave_out(replay, builder, order, &current, [before, &now], periods);
                }
            }
        }
        current.tries += 1;
        current.before = Some(now);
        if current.tries < TRIES && at + 2 * current.run.period <= current.run.end {
            self.reduced = Some(Vec::new());
            replay.current = Some(current);
        }
        Ok(at)
    }

    fn name(&self, v: Var, current: &Current, replay: &Replay, builder: &Builder<'_>) -> Name {
        let (o, which) = builder.origin(v);
        let place = replay.places[o.index()] as usize;
        if (current.run.start..current.run.end).contains(&place) {
            Name::Moving(place as i64 - current.border as i64, which)
        } else {
            Name::Fixed(v)
        }
    }

    fn is_gone(&self, v: Var) -> bool {
        self.flags[v as usize] & flag::GONE != 0
    }

    /// The variables of operators of the run that are alive.
    fn moving(&self, current: &Current, builder: &Builder<'_>, order: &[OpId]) -> Vec<Var> {
        // Operators' variables may be older than the run.
        let operators = order[current.run.start..current.run.end].iter();
        let operators = operators.map(|&o| builder.variable_of(o)).filter(|&v| v != NONE);
        let others = (current.first..self.net.len() as Var).filter(|&v| builder.origin(v).1 > 0);
        operators.chain(others).filter(|&v| !self.is_gone(v)).collect()
    }

    /// Takes out of tables with moving variables of this period what depends on contacts alone, or on one moving variable alone. What
    /// contacts pay grows from period to period, while what is left soon does not change; and the same costs are no longer told in several ways.
    fn separate(
        &mut self,
        current: &Current,
        replay: &Replay,
        builder: &Builder<'_>,
        order: &[OpId],
    ) -> Result<(), Stop> {
        let far = (current.border + current.run.period) as u32;
        let is_near = |v: &Var| replay.places[builder.origin(*v).0.index()] < far;
        for v in self.moving(current, builder, order).into_iter().filter(is_near) {
            for t in self.net.of[v as usize].clone() {
                let table = &self.net.tables[t as usize];
                let is_fixed: Vec<bool> = table
                    .scope
                    .iter()
                    .map(|&u| matches!(self.name(u, current, replay, builder), Name::Fixed(_)))
                    .collect();
                let first_moving = is_fixed.iter().position(|f| !f);
                if first_moving.map(|i| table.scope[i]) != Some(v) {
                    continue; // once, not once per moving variable
                }
                let mut parts = Vec::with_capacity(is_fixed.len() + 1);
                parts.extend(is_fixed.contains(&true).then(|| is_fixed.clone()));
                for i in (0..is_fixed.len()).filter(|&i| !is_fixed[i]) {
                    parts.push((0..is_fixed.len()).map(|k| k == i).collect());
                }
                let sizes: Vec<usize> = table.scope.iter().map(|&u| self.net.size(u)).collect();
                let mut costs = table.data.clone();
                let mut taken = Vec::new();
                for part in parts {
                    if let Some(least) = take_out(&mut costs, &sizes, &part) {
                        let scope = table.scope.iter().zip(&part).filter(|(_, p)| **p);
                        taken.push((scope.map(|(&u, _)| u).collect(), least));
                    }
                }
                if taken.is_empty() {
                    continue;
                }
                let table = self.net.take(t);
                taken.push((table.scope, costs));
                for (scope, costs) in taken {
                    self.net.add(scope, costs)?;
                }
            }
        }
        Ok(())
    }

    fn snapshot(
        &self,
        current: &Current,
        replay: &Replay,
        builder: &Builder<'_>,
        order: &[OpId],
    ) -> Snapshot {
        let net = &self.net;
        let name = |v| self.name(v, current, replay, builder);
        let (mut moving, mut tables, mut touched) = (Vec::new(), Vec::new(), Vec::new());
        for v in self.moving(current, builder, order) {
            let own = name(v);
            moving.push(Moving {
                name: own,
                is_older: v < current.first,
                domain: net.domain(v),
                values: net.values(net.domain(v)).collect(),
                costs: net.unary[v as usize].clone(),
                open: self.flags[v as usize] & flag::OPEN != 0,
            });
            for &t in &net.of[v as usize] {
                let table = &net.tables[t as usize];
                let names: Vec<Name> = table.scope.iter().map(|&u| name(u)).collect();
                touched.extend(names.iter().filter_map(|n| match n {
                    Name::Fixed(v) => Some(*v),
                    Name::Moving(..) => None,
                }));
                // Once, not once per moving variable.
                if names.iter().find(|n| matches!(n, Name::Moving(..))) == Some(&own) {
                    let sizes: Vec<usize> = table.scope.iter().map(|&u| net.size(u)).collect();
                    let (scope, costs) = sorted(&names, &sizes, &table.data);
                    tables.push(Mixed {
                        scope,
                        is_older: table.scope.iter().all(|&u| u < current.first),
                        costs,
                        table: t,
                    });
                }
            }
        }
        moving.sort_unstable_by_key(|m| m.name);
        tables.sort_unstable_by(|a, b| a.scope.cmp(&b.scope));
        touched.sort_unstable();
        touched.dedup();
        let contact = |&v: &Var| Contact {
            variable: v,
            domain: net.domain(v),
            costs: net.unary[v as usize].clone(),
        };
        let is_fixed = |&u: &Var| matches!(name(u), Name::Fixed(_));
        let shared = touched
            .iter()
            .flat_map(|&v| &net.of[v as usize])
            .map(|&t| (t, &net.tables[t as usize]))
            .filter(|(_, table)| table.scope.iter().all(is_fixed))
            .map(|(t, table)| (table.scope.clone(), (t, table.data.clone())))
            .collect();
        Snapshot {
            border: current.border,
            moving,
            tables,
            contacts: touched.iter().map(contact).collect(),
            shared,
            constant: net.constant,
            counters: self.counters,
            records: self.records.len(),
        }
    }

    /// How many periods may be left out, so that nothing that the last period met or left has its copy beyond the end of the run.
    /// That does not go for what was there before the run and is as it was, readers of a mask for instance: their copies are there too.
    fn periods_to_leave_out(
        &self,
        current: &Current,
        before: &Snapshot,
        now: &Snapshot,
        replay: &Replay,
        builder: &Builder<'_>,
    ) -> usize {
        let Run { start, end, period } = current.run;
        let idle_table = |t: &Mixed| {
            let later: Vec<Name> = t.scope.iter().map(|n| n.later(period)).collect();
            let at = before.tables.binary_search_by(|b| b.scope.cmp(&later));
            t.is_older && at.is_ok_and(|i| before.tables[i].costs == t.costs)
        };
        let idle = |m: &Moving| {
            let later = m.name.later(period);
            let at = before.moving.binary_search_by_key(&later, |b| b.name);
            m.is_older && at.is_ok_and(|i| before.moving[i].is_like(m))
        };
        let tables = now.tables.iter().filter(|t| !idle_table(t)).map(Mixed::reach);
        let moving = now.moving.iter().filter(|m| !idle(m)).map(Moving::place);
        let left = tables.chain(moving).map(|place| place + now.border as i64);
        let met = (before.records..now.records)
            .flat_map(|r| self.records.variables(r))
            .map(|v| replay.places[builder.origin(v).0.index()] as usize)
            .filter(|place| (start..end).contains(place));
        let last = left.chain(met.map(|place| place as i64)).max().unwrap_or(0);
        (end as i64 - 1 - last).max(0) as usize / period
    }

    /// Leaves out so many periods from the border of `now` on; the place after them.
    fn leave_out(
        &mut self,
        replay: &mut Replay,
        builder: &mut Builder<'_>,
        order: &[OpId],
        run: &Current,
        [before, now]: [&Snapshot; 2],
        periods: usize,
    ) -> Result<usize, Stop> {
        let Run { end, period, .. } = run.run;
        let (from, to) = (now.border, now.border + periods * period);
        let records = before.records..now.records;
        let bytes = self.records.copied_bytes(records.clone());
        self.net.meter.take(bytes.saturating_mul(periods as u64))?;

        // Room for the copies of all variables, which are gone, unless they are found to be left at the last border.
        let left: Vec<&Moving> = now
            .moving
            .iter()
            .filter(|m| to as i64 + m.place() < end as i64)
            .collect();
        for (place, &o) in order.iter().enumerate().take(to).skip(from) {
            let made = replay.made[before.border + (place - from) % period].len() as Var;
            let first = builder.pass(&mut self.net, o, made)?;
            replay.made.push(first..first + made);
        }
        for m in &left {
            if let Name::Moving(place @ 0.., 0) = m.name {
                builder.pass(&mut self.net, order[to + place as usize], 0)?;
            }
        }
        let known = self.flags.len();
        self.grow();
        self.flags[known..].fill(flag::GONE);

        let names: Vec<Vec<Name>> = records
            .clone()
            .map(|r| {
                let variables = self.records.variables(r);
                variables.map(|v| self.name(v, run, replay, builder)).collect()
            })
            .collect();
        let copy = |n: &Name, border: usize| replay.variable(*n, border, order, builder);
        for p in 1..=periods {
            if self.budget.exhausted() {
                return Err(Stop::Time);
            }
            for (record, names) in records.clone().zip(&names) {
                self.records
                    .copy(record, names.iter().map(|n| copy(n, from + p * period)));
            }
        }

        // What moves goes to the last border.
        let distance = (to - from) as i64;
        for t in &now.tables {
            let table = self.net.take(t.table);
            self.net.recycle(table);
        }
        for m in now.moving.iter().filter(|m| m.place() < distance) {
            let v = copy(&m.name, from);
            self.net.forget(v);
            self.flags[v as usize] |= flag::GONE;
        }
        for m in &left {
            let v = copy(&m.name, to);
            self.net.revive(v, m.domain, &m.costs)?;
            self.flags[v as usize] = flag::STALE | if m.open { flag::OPEN } else { 0 };
            self.keys[v as usize] = u64::MAX;
            self.touch(v);
        }
        for t in now.tables.iter().filter(|t| to as i64 + t.reach() < end as i64) {
            let scope: Vec<Var> = t.scope.iter().map(|n| copy(n, to)).collect();
            let sizes: Vec<usize> = scope.iter().map(|&v| self.net.size(v)).collect();
            let (scope, costs) = sorted(&scope, &sizes, &t.costs);
            self.net.add(scope, costs)?;
        }

        self.pay_contacts(before, now, periods)?;
        self.counters
            .repeat(&before.counters, &now.counters, periods as u64);
        self.counters.repeated += (to - from) as u64;
        Ok(to)
    }

    /// The constant and the costs over contacts grow by what they grew in the last period, so many times.
    fn pay_contacts(&mut self, before: &Snapshot, now: &Snapshot, periods: usize) -> Result<(), Stop> {
        let grown = |before: u64, now: u64| {
            let (before, now) = (i128::from(before), i128::from(now));
            now + periods as i128 * (now - before)
        };
        let mut constant = grown(before.constant, now.constant);
        // Costs whose least is zero again; the rest goes to the constant.
        let mut all_grown = |before: &[u64], now: &[u64]| -> Result<Vec<u64>, Stop> {
            let costs = before.iter().zip(now);
            let costs: Vec<Option<i128>> = costs.map(|(&b, &n)| (n < INF).then(|| grown(b, n))).collect();
            let least = *costs.iter().flatten().min().ok_or(Stop::Contradiction)?;
            constant += least;
            let settled = |c: Option<i128>| c.and_then(|c| u64::try_from(c - least).ok()).unwrap_or(INF);
            Ok(costs.into_iter().map(settled).collect())
        };
        for (before, now) in before.contacts.iter().zip(&now.contacts) {
            self.net.unary[now.variable as usize] = all_grown(&before.costs, &now.costs)?;
            self.flags[now.variable as usize] |= flag::STALE;
            self.touch(now.variable);
        }
        for (scope, (table, costs)) in &now.shared {
            let none = vec![0; costs.len()];
            let before = before.shared.get(scope).map_or(&none, |(_, costs)| costs);
            self.net.tables[*table as usize].data = all_grown(before, costs)?;
        }
        self.net.constant = u64::try_from(constant).unwrap_or(INF).min(INF);
        Ok(())
    }
}

/// Whether what is alive at one border is the copy of what was alive at the border before, as far as it lies within the run.
fn goes_on(before: &Snapshot, now: &Snapshot, run: &Run) -> bool {
    let end = (run.end - now.border) as i64;
    let moving: Vec<&Moving> = before.moving.iter().filter(|m| m.place() < end).collect();
    let tables: Vec<&Mixed> = before.tables.iter().filter(|t| t.reach() < end).collect();
    let same = |(b, n): (&Contact, &Contact)| b.variable == n.variable && b.domain == n.domain;
    moving.len() == now.moving.len()
        && tables.len() == now.tables.len()
        && before.contacts.len() == now.contacts.len()
        && before.contacts.iter().zip(&now.contacts).all(same)
        && before.shared.keys().all(|scope| now.shared.contains_key(scope))
        && moving
            .iter()
            .zip(&now.moving)
            .all(|(b, n)| b.name == n.name && b.is_like(n))
        && tables
            .iter()
            .zip(&now.tables)
            .all(|(b, n)| b.scope == n.scope && b.costs == n.costs)
}

/// Subtracts from a table, whose variables have these sizes, the least cost for each tuple of the variables of a part; these least costs, or
/// nothing if all are zero. Where a tuple is forbidden altogether, that is taken out too.
fn take_out(costs: &mut [u64], sizes: &[usize], part: &[bool]) -> Option<Vec<u64>> {
    let mut tuple_of = vec![0];
    let mut tuples = 1;
    for (&size, &is_in) in sizes.iter().zip(part) {
        let step = |at: usize| (0..size).map(move |d| if is_in { at * size + d } else { at });
        tuple_of = tuple_of.into_iter().flat_map(step).collect();
        tuples *= if is_in { size } else { 1 };
    }
    let mut least = vec![INF; tuples];
    for (&cost, &tuple) in costs.iter().zip(&tuple_of) {
        least[tuple] = least[tuple].min(cost);
    }
    if least.iter().all(|&c| c == 0) {
        return None;
    }
    for (cost, &tuple) in costs.iter_mut().zip(&tuple_of) {
        *cost = match (*cost, least[tuple]) {
            (_, INF) => 0,
            (INF, _) => INF,
            (cost, least) => cost - least,
        };
    }
    Some(least)
}

/// A table with its scope ascending.
fn sorted<T: Ord + Copy>(scope: &[T], sizes: &[usize], costs: &[u64]) -> (Vec<T>, Vec<u64>) {
    if scope.is_sorted() {
        return (scope.to_vec(), costs.to_vec());
    }
    let mut strides = vec![1; sizes.len()];
    for i in (1..sizes.len()).rev() {
        strides[i - 1] = strides[i] * sizes[i];
    }
    let mut by: Vec<usize> = (0..scope.len()).collect();
    by.sort_unstable_by_key(|&i| scope[i]);
    // Where each entry comes from: the slowest variable first, every offset so far is followed by those of the next one's values.
    let mut from = vec![0];
    for &i in &by {
        from = from
            .iter()
            .flat_map(|&at| (0..sizes[i]).map(move |d| (at, d)))
            .map(|(at, d)| at + d * strides[i])
            .collect();
    }
    let scope = by.iter().map(|&i| scope[i]).collect();
    (scope, from.into_iter().map(|at| costs[at]).collect())
}
