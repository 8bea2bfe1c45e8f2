//! What is alive at a border between two periods of a run (see [`super::replay`]).

use std::collections::BTreeMap;

use super::counters::Counters;
use super::model::{Builder, NONE};
use super::network::{Domain, Var};
use super::repeats::Run;
use super::solve::{Elimination, flag};
use crate::id::OpId;

/// A border of a run.
#[derive(Clone, Copy)]
pub(super) struct Border<'a> {
    pub run: Run,
    /// How many variables there were when the run began.
    pub first: Var,
    /// Its place in the order.
    pub at: usize,
    pub order: &'a [OpId],
    /// Where each operator stands in the order.
    pub places: &'a [u32],
    pub builder: &'a Builder<'a>,
}

impl Border<'_> {
    /// Where the operator stands that a variable belongs to.
    pub fn place(&self, v: Var) -> usize {
        self.places[self.builder.origin(v).0.index()] as usize
    }

    pub fn name(&self, v: Var) -> Name {
        let place = self.place(v);
        if (self.run.start..self.run.end).contains(&place) {
            Name::Moving(place as i64 - self.at as i64, self.builder.origin(v).1)
        } else {
            Name::Fixed(v)
        }
    }

    pub fn is_moving(&self, v: Var) -> bool {
        matches!(self.name(v), Name::Moving(..))
    }
}

/// A variable, under one name for all its copies, each seen from the border it is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    Fixed(Var),
    /// Place relative to the border, and which variable of that place.
    Moving(i64, u32),
}

impl Name {
    pub fn later(self, by: usize) -> Self {
        match self {
            Self::Moving(place, which) => Self::Moving(place + by as i64, which),
            Self::Fixed(_) => self,
        }
    }

    pub fn place(self) -> Option<i64> {
        match self {
            Self::Moving(place, _) => Some(place),
            Self::Fixed(_) => None,
        }
    }
}

/// What was alive at a border.
pub(super) struct Snapshot {
    /// By name.
    pub moving: Vec<Moving>,
    /// Those with moving variables, by scope.
    pub tables: Vec<Mixed>,
    pub contacts: Vec<Contact>,
    /// Those with contacts and without moving variables, by scope: costs over contacts may have been added to any of them.
    pub shared: BTreeMap<Vec<Var>, (u32, Vec<u64>)>,
    pub constant: u64,
    pub counters: Counters,
    pub records: usize,
}

pub(super) struct Moving {
    pub name: Name,
    /// Made before the run began.
    pub is_older: bool,
    pub domain: Domain,
    pub values: Vec<u32>,
    pub costs: Vec<u64>,
    pub open: bool,
}

/// A table with moving variables; the names ascend, and the costs are in their order.
pub(super) struct Mixed {
    pub scope: Vec<Name>,
    /// Of variables made before the run began.
    pub is_older: bool,
    pub costs: Vec<u64>,
    pub table: u32,
}

impl Moving {
    pub fn place(&self) -> i64 {
        self.name.place().unwrap_or(i64::MIN)
    }

    pub fn is_like(&self, other: &Self) -> bool {
        self.values == other.values && self.costs == other.costs && self.open == other.open
    }
}

impl Mixed {
    fn places(&self) -> impl Iterator<Item = i64> {
        self.scope.iter().filter_map(|n| n.place())
    }

    /// The last place it has to do with.
    pub fn reach(&self) -> i64 {
        self.places().max().unwrap_or(i64::MIN)
    }
}

pub(super) struct Contact {
    pub variable: Var,
    pub domain: Domain,
    pub costs: Vec<u64>,
}

impl Elimination<'_> {
    /// The variables of operators of the run that are alive.
    pub fn moving(&self, border: &Border<'_>) -> Vec<Var> {
        // Operators' variables may be older than the run.
        let operators = border.order[border.run.start..border.run.end].iter();
        let operators = operators.map(|&o| border.builder.variable_of(o));
        let others = (border.first..self.net.len() as Var).filter(|&v| border.builder.origin(v).1 > 0);
        operators
            .filter(|&v| v != NONE)
            .chain(others)
            .filter(|&v| self.flags[v as usize] & flag::GONE == 0)
            .collect()
    }

    pub fn snapshot(&self, border: &Border<'_>) -> Snapshot {
        let net = &self.net;
        let name = |v| border.name(v);
        let (mut moving, mut tables, mut touched) = (Vec::new(), Vec::new(), Vec::new());
        for v in self.moving(border) {
            let own = name(v);
            moving.push(Moving {
                name: own,
                is_older: v < border.first,
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
                        is_older: table.scope.iter().all(|&u| u < border.first),
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
        let shared = touched
            .iter()
            .flat_map(|&v| &net.of[v as usize])
            .map(|&t| (t, &net.tables[t as usize]))
            .filter(|(_, table)| !table.scope.iter().any(|&u| border.is_moving(u)))
            .map(|(t, table)| (table.scope.clone(), (t, table.data.clone())))
            .collect();
        Snapshot {
            moving,
            tables,
            contacts: touched.iter().map(contact).collect(),
            shared,
            constant: net.constant,
            counters: self.counters,
            records: self.records.len(),
        }
    }
}

/// Whether what is alive at one border is the copy of what was alive at the border before, as far as it lies within the
/// so many places of the run that are left.
pub(super) fn goes_on(before: &Snapshot, now: &Snapshot, left: usize) -> bool {
    let end = left as i64;
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

/// A table with its scope ascending.
pub(super) fn sorted<T: Ord + Copy>(scope: &[T], sizes: &[usize], costs: &[u64]) -> (Vec<T>, Vec<u64>) {
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
