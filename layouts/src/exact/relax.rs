//! A bound where tables would not fit: mini-buckets (Dechter and Rish 2003).

use std::cmp::Reverse;

use super::Stop;
use super::eliminate;
use super::network::{Table, Var};
use super::solve::{Elimination, Outcome, flag};

/// Largest table of the relaxation that bounds what does not fit: small, since it runs when time or memory is short.
const SPLIT_ENTRIES: usize = 1 << 16;

impl Elimination<'_> {
    /// Gives up exactness: a variable whose table is too large is split into copies, each with some of its tables. The constant
    /// stays a lower bound and grows.
    pub fn relax(&mut self) -> Outcome {
        self.most = SPLIT_ENTRIES;
        match self.advance(true) {
            Ok(()) => Outcome::OutOfMemory { wanted: 0 },
            stopped => self.outcome(stopped),
        }
    }

    /// Eliminates copies of `v`, each with as many tables as fit. Only for bounds: no choices are kept.
    pub fn eliminate_split(&mut self, v: Var) -> Result<(), Stop> {
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
}
