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

use std::ops::Range;

use super::Stop;
use super::model::Builder;
use super::network::{INF, Network, Var};
use super::repeats::{Repeats, Run};
use super::snapshot::{Border, Mixed, Moving, Name, Snapshot, goes_on, sorted};
use super::solve::{Elimination, flag};
use crate::id::OpId;

/// Borders that are looked at before a run is given up.
const TRIES: usize = 16;

/// What an elimination keeps about repeats.
pub(super) struct Replay<'a> {
    order: &'a [OpId],
    /// Where each operator stands in the order; empty when nothing repeats.
    places: Vec<u32>,
    runs: std::iter::Peekable<std::vec::IntoIter<Run>>,
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
    at: usize,
    tries: usize,
    before: Option<Snapshot>,
}

impl Current {
    fn border<'b>(&self, order: &'b [OpId], places: &'b [u32], builder: &'b Builder<'b>) -> Border<'b> {
        Border {
            run: self.run,
            first: self.first,
            at: self.at,
            order,
            places,
            builder,
        }
    }
}

impl<'a> Replay<'a> {
    pub fn new(order: &'a [OpId], repeats: Repeats) -> Self {
        Self {
            order,
            places: repeats.places,
            runs: repeats.runs.into_iter().peekable(),
            made: Vec::new(),
            current: None,
        }
    }

    /// The operator at the next place was met, and these variables were made for its result.
    pub fn met(&mut self, made: Range<Var>) {
        if !self.places.is_empty() {
            self.made.push(made);
        }
    }

    /// Whether a run begins at place `at`, or a period of the run at hand ends there.
    pub fn is_border(&mut self, at: usize, net: &Network) -> bool {
        if let Some(c) = &self.current {
            return at == c.at + c.run.period;
        }
        while self.runs.next_if(|r| r.start < at).is_some() {}
        self.current = self.runs.next_if(|r| r.start == at).map(|run| Current {
            run,
            first: net.len() as Var,
            at,
            tries: 0,
            before: None,
        });
        self.current.is_some()
    }

    /// From where on operators are counted to say when what waits is ripe: within a run, every period is to be like the last.
    pub fn phase(&self) -> usize {
        self.current.as_ref().map_or(0, |c| c.at)
    }

    /// The variable of that name, seen from the border at this place. It must be there.
    fn variable(&self, name: Name, border: usize, builder: &Builder<'_>) -> Var {
        match name {
            Name::Fixed(v) => v,
            Name::Moving(place, which) => {
                let place = (border as i64 + place) as usize;
                match which {
                    0 => builder.variable_of(self.order[place]),
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
        replay: &mut Replay<'_>,
        builder: &mut Builder<'_>,
        at: usize,
    ) -> Result<usize, Stop> {
        let reduced = self.reduced.take().unwrap_or_default();
        let Some(mut current) = replay.current.take() else {
            return Ok(at);
        };
        current.at = at;
        let border = current.border(replay.order, &replay.places, builder);
        let moving = self.moving(&border);
        // Snapshots of this border and the last, and tables to come in place of those there are.
        if self.net.meter.check(3 * self.bytes(&moving)).is_err() {
            return Ok(at);
        }
        self.separate(&border, &moving)?;
        let now = self.snapshot(&border);
        if let Some(before) = &current.before {
            // What goes on outside the run happens once, not once per period.
            let eliminated = (before.records..now.records).filter_map(|r| self.records.variables(r).next());
            let only_moving = eliminated.chain(reduced).all(|v| border.is_moving(v));
            if only_moving && goes_on(before, &now, current.run.end - at) {
                let periods = self.periods_to_leave_out(&border, [before, &now]);
                if periods > 0 {
                    return self.leave_out(replay, builder, &current, [before, &now], periods);
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

    /// Bytes of the tables of these variables.
    fn bytes(&self, variables: &[Var]) -> u64 {
        let tables = variables.iter().flat_map(|&v| &self.net.of[v as usize]);
        let entries = tables.map(|&t| self.net.tables[t as usize].data.len() as u64);
        entries.sum::<u64>() * 8
    }

    /// Takes out of tables with moving variables of this period what depends on contacts alone, or on one moving variable alone. What
    /// contacts pay grows from period to period, while what is left soon does not change; and the same costs are no longer told in
    /// several ways.
    fn separate(&mut self, border: &Border<'_>, moving: &[Var]) -> Result<(), Stop> {
        let next = border.at + border.run.period;
        for &v in moving.iter().filter(|&&v| border.place(v) < next) {
            for t in self.net.of[v as usize].clone() {
                let table = &self.net.tables[t as usize];
                let is_fixed: Vec<bool> = table.scope.iter().map(|&u| !border.is_moving(u)).collect();
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

    /// How many periods may be left out, so that nothing that the last period met or left has its copy beyond the end of the run.
    /// That does not go for what was there before the run and is as it was, readers of a mask for instance: their copies are there too.
    fn periods_to_leave_out(&self, border: &Border<'_>, [before, now]: [&Snapshot; 2]) -> usize {
        let Run { start, end, period } = border.run;
        let is_idle_table = |t: &Mixed| {
            let later: Vec<Name> = t.scope.iter().map(|n| n.later(period)).collect();
            let at = before.tables.binary_search_by(|b| b.scope.cmp(&later));
            t.is_older && at.is_ok_and(|i| before.tables[i].costs == t.costs)
        };
        let is_idle = |m: &Moving| {
            let later = m.name.later(period);
            let at = before.moving.binary_search_by_key(&later, |b| b.name);
            m.is_older && at.is_ok_and(|i| before.moving[i].is_like(m))
        };
        let tables = now.tables.iter().filter(|t| !is_idle_table(t)).map(Mixed::reach);
        let moving = now.moving.iter().filter(|m| !is_idle(m)).map(Moving::place);
        let left = tables.chain(moving).map(|place| place + border.at as i64);
        let met = (before.records..now.records)
            .flat_map(|r| self.records.variables(r))
            .map(|v| border.place(v))
            .filter(|place| (start..end).contains(place));
        let last = left.chain(met.map(|place| place as i64)).max().unwrap_or(0);
        (end as i64 - 1 - last).max(0) as usize / period
    }

    /// Leaves out so many periods from the border of `now` on; the place after them.
    fn leave_out(
        &mut self,
        replay: &mut Replay<'_>,
        builder: &mut Builder<'_>,
        current: &Current,
        [before, now]: [&Snapshot; 2],
        periods: usize,
    ) -> Result<usize, Stop> {
        let Run { end, period, .. } = current.run;
        let (from, to) = (current.at, current.at + periods * period);
        let records = before.records..now.records;
        let bytes = self.records.copied_bytes(records.clone());
        self.net.meter.take(bytes.saturating_mul(periods as u64))?;

        // Room for the copies of all variables, which are gone, unless they are found to be left at the last border.
        let left = |place: i64| to as i64 + place < end as i64;
        for (place, &o) in replay.order.iter().enumerate().take(to).skip(from) {
            let made = replay.made[from - period + (place - from) % period].len() as Var;
            let first = builder.pass(&mut self.net, o, made)?;
            replay.made.push(first..first + made);
        }
        for m in now.moving.iter().filter(|m| left(m.place())) {
            if let Name::Moving(place @ 0.., 0) = m.name {
                builder.pass(&mut self.net, replay.order[to + place as usize], 0)?;
            }
        }
        let known = self.flags.len();
        self.grow();
        self.flags[known..].fill(flag::GONE);

        let (replay, builder) = (&*replay, &*builder);
        self.copy_records(
            replay,
            &current.border(replay.order, &replay.places, builder),
            records,
            periods,
        )?;

        // What moves goes to the last border.
        let copy = |n: &Name, border: usize| replay.variable(*n, border, builder);
        for t in &now.tables {
            let table = self.net.take(t.table);
            self.net.recycle(table);
        }
        for m in now.moving.iter().filter(|m| m.place() < (to - from) as i64) {
            let v = copy(&m.name, from);
            self.net.forget(v);
            self.flags[v as usize] |= flag::GONE;
        }
        for m in now.moving.iter().filter(|m| left(m.place())) {
            let v = copy(&m.name, to);
            self.net.revive(v, m.domain, &m.costs)?;
            self.flags[v as usize] = flag::STALE | if m.open { flag::OPEN } else { 0 };
            self.keys[v as usize] = u64::MAX;
            self.touch(v);
        }
        for t in now.tables.iter().filter(|t| left(t.reach())) {
            let scope: Vec<Var> = t.scope.iter().map(|n| copy(n, to)).collect();
            let sizes: Vec<usize> = scope.iter().map(|&v| self.net.size(v)).collect();
            let (scope, costs) = sorted(&scope, &sizes, &t.costs);
            self.net.add(scope, costs)?;
        }

        self.pay_contacts([before, now], periods)?;
        self.counters
            .repeat(&before.counters, &now.counters, periods as u64);
        self.counters.repeated += (to - from) as u64;
        Ok(to)
    }

    /// Copies the last period's records for each period that is left out.
    fn copy_records(
        &mut self,
        replay: &Replay<'_>,
        border: &Border<'_>,
        records: Range<usize>,
        periods: usize,
    ) -> Result<(), Stop> {
        let names = |r| self.records.variables(r).map(|v| border.name(v)).collect();
        let names: Vec<Vec<Name>> = records.clone().map(names).collect();
        for at in (1..=periods).map(|p| border.at + p * border.run.period) {
            if self.budget.exhausted() {
                return Err(Stop::Time);
            }
            for (record, names) in records.clone().zip(&names) {
                let variables = names.iter().map(|&n| replay.variable(n, at, border.builder));
                self.records.copy(record, variables);
            }
        }
        Ok(())
    }

    /// The constant and the costs over contacts grow by what they grew in the last period, so many times.
    fn pay_contacts(&mut self, [before, now]: [&Snapshot; 2], periods: usize) -> Result<(), Stop> {
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
