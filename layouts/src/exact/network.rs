//! The cost function network that `exact` eliminates: variables with finite domains, and tables over small scopes whose
//! sum is the objective.
//!
//! Invariants: scopes ascend; every table holds one cost per tuple of *current* values, the last variable varying
//! fastest; the least entry of a table is 0, what was subtracted being in `constant`, so that `constant` is a lower
//! bound at any moment; costs of [`INF`] or more are forbidden tuples.

use crate::problem::MAX_TOTAL;

/// A variable.
pub(super) type Var = u32;

/// Forbidden. Above every finite total; three of them can be added without overflow.
pub(super) const INF: u64 = MAX_TOTAL + 1;

/// `a + b`, where forbidden stays forbidden.
#[inline(always)]
pub(super) fn plus(a: u64, b: u64) -> u64 {
    (a + b).min(INF)
}

/// Costs over the tuples of a scope. Dead when the scope is empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub scope: Vec<Var>,
    pub data: Vec<u64>,
}

/// Buffers above this many entries go back to the allocator.
const SPARE_ENTRIES: usize = 4096;

/// The network.
#[derive(Clone, Debug, Default)]
pub(super) struct Network {
    /// A lower bound on every assignment; the optimum once nothing else is left.
    pub constant: u64,
    /// Current values of each variable, as original indices, ascending.
    pub values: Vec<Vec<u32>>,
    /// Cost of each current value.
    pub unary: Vec<Vec<u64>>,
    pub tables: Vec<Table>,
    /// Live tables of each variable.
    pub of: Vec<Vec<u32>>,
    /// For each original value, the stamp at which it was removed (`u32::MAX`: never); empty when none was.
    removed: Vec<Vec<u32>>,
    free: Vec<u32>,
    /// Buffers of tables that are gone, for tables to come: allocation was a quarter of the time without.
    spare: Vec<(Vec<Var>, Vec<u64>)>,
    /// Bytes of all live tables.
    pub bytes: u64,
}

/// Some variable has no value left, or every tuple of a table is forbidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contradiction;

impl Network {
    pub fn variable(&mut self, unary: Vec<u64>) -> Var {
        self.values.push((0..unary.len() as u32).collect());
        self.unary.push(unary);
        self.of.push(Vec::new());
        self.removed.push(Vec::new());
        self.values.len() as Var - 1
    }

    pub fn size(&self, v: Var) -> usize {
        self.values[v as usize].len()
    }

    /// Adds a table; its least entry moves to `constant`. A table over a scope that another covers is merged into that.
    pub fn add(&mut self, scope: Vec<Var>, mut data: Vec<u64>) -> Result<(), Contradiction> {
        let least = data.iter().copied().min().unwrap_or(0);
        if least >= INF {
            return Err(Contradiction);
        }
        self.constant = plus(self.constant, least);
        let mut nothing = true;
        for cost in &mut data {
            if *cost < INF {
                *cost -= least;
            }
            nothing &= *cost == 0;
        }
        if nothing || scope.is_empty() {
            self.recycle(scope, data);
            return Ok(());
        }
        if let [v] = scope[..] {
            let unary = &mut self.unary[v as usize];
            unary.iter_mut().zip(&data).for_each(|(u, &c)| *u = plus(*u, c));
            self.recycle(scope, data);
            return self.settle_unary(v);
        }
        let rarest = scope
            .iter()
            .copied()
            .min_by_key(|&v| self.of[v as usize].len())
            .unwrap_or(scope[0]);
        let covers = |&t: &u32| covers(&self.tables[t as usize].scope, &scope);
        if let Some(t) = self.of[rarest as usize].iter().copied().find(covers) {
            self.merge(t, &scope, &data);
            self.recycle(scope, data);
            return Ok(());
        }
        self.bytes += data.len() as u64 * 8;
        let id = self.free.pop().unwrap_or_else(|| {
            self.tables.push(Table::default());
            self.tables.len() as u32 - 1
        });
        scope.iter().for_each(|&v| self.of[v as usize].push(id));
        self.tables[id as usize] = Table { scope, data };
        Ok(())
    }

    /// Adds `data` over `scope` to table `t`, whose scope covers it.
    fn merge(&mut self, t: u32, scope: &[Var], data: &[u64]) {
        let mut table = std::mem::take(&mut self.tables[t as usize]);
        if table.scope == scope {
            table
                .data
                .iter_mut()
                .zip(data)
                .for_each(|(a, &b)| *a = plus(*a, b));
        } else {
            // Stride of each of the table's variables in `data`.
            let mut strides = vec![0; table.scope.len()];
            let mut stride = 1;
            for &v in scope.iter().rev() {
                if let Some(at) = table.scope.iter().position(|&u| u == v) {
                    strides[at] = stride;
                }
                stride *= self.size(v);
            }
            let sizes: Vec<usize> = table.scope.iter().map(|&v| self.size(v)).collect();
            let (mut digits, mut at) = (vec![0; sizes.len()], 0);
            for cost in &mut table.data {
                *cost = plus(*cost, data[at]);
                for i in (0..sizes.len()).rev() {
                    digits[i] += 1;
                    at += strides[i];
                    if digits[i] < sizes[i] {
                        break;
                    }
                    at -= strides[i] * sizes[i];
                    digits[i] = 0;
                }
            }
        }
        self.tables[t as usize] = table;
    }

    /// Takes a table out of the network.
    pub fn take(&mut self, t: u32) -> Table {
        let table = std::mem::take(&mut self.tables[t as usize]);
        for &v in &table.scope {
            self.of[v as usize].retain(|&u| u != t);
        }
        self.free.push(t);
        self.bytes -= table.data.len() as u64 * 8;
        table
    }

    /// Empty buffers for a table.
    pub fn buffers(&mut self) -> (Vec<Var>, Vec<u64>) {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes buffers back.
    pub fn recycle(&mut self, mut scope: Vec<Var>, mut data: Vec<u64>) {
        if data.capacity() <= SPARE_ENTRIES {
            scope.clear();
            data.clear();
            self.spare.push((scope, data));
        }
    }

    /// Subtracts the least unary cost and removes forbidden values.
    pub fn settle_unary(&mut self, v: Var) -> Result<(), Contradiction> {
        let unary = &mut self.unary[v as usize];
        let least = unary.iter().copied().min().unwrap_or(INF);
        if least >= INF {
            return Err(Contradiction);
        }
        unary.iter_mut().filter(|c| **c < INF).for_each(|c| *c -= least);
        self.constant = plus(self.constant, least);
        Ok(())
    }

    /// Removes the values whose flag is false from the domain and from all tables. `stamp` is the number of variables
    /// eliminated so far, see [`Self::position`].
    pub fn restrict(&mut self, v: Var, keep: &[bool], stamp: u32) {
        let i = v as usize;
        if self.removed[i].is_empty() {
            let originals = self.values[i].last().map_or(0, |&last| last as usize + 1);
            self.removed[i] = vec![u32::MAX; originals];
        }
        for (&value, _) in self.values[i].iter().zip(keep).filter(|(_, kept)| !**kept) {
            self.removed[i][value as usize] = stamp;
        }
        let old = keep.len();
        retain(&mut self.values[i], keep);
        retain(&mut self.unary[i], keep);
        for k in 0..self.of[i].len() {
            let t = self.of[i][k] as usize;
            let table = &self.tables[t];
            let at = table.scope.iter().position(|&u| u == v).unwrap_or(0);
            let inner: usize = table.scope[at + 1..].iter().map(|&u| self.size(u)).product();
            let table = &mut self.tables[t];
            let before = table.data.len();
            let (mut read, mut write) = (0, 0);
            for _ in 0..before / (old * inner) {
                for &kept in keep {
                    if kept {
                        table.data.copy_within(read..read + inner, write);
                        write += inner;
                    }
                    read += inner;
                }
            }
            table.data.truncate(write);
            self.bytes -= (before - write) as u64 * 8;
        }
    }

    /// Where the original value `value` of `v` stood in the domain when `stamp` variables had been eliminated.
    pub fn position(&self, v: Var, value: u32, stamp: u32) -> usize {
        let removed = &self.removed[v as usize];
        if removed.is_empty() {
            return value as usize;
        }
        removed[..value as usize].iter().filter(|&&r| r > stamp).count()
    }

    /// How many values `v` had when `stamp` variables had been eliminated.
    pub fn count(&self, v: Var, stamp: u32) -> usize {
        let removed = &self.removed[v as usize];
        if removed.is_empty() {
            self.size(v)
        } else {
            removed.iter().filter(|&&r| r > stamp).count()
        }
    }

    /// The variables that share a table with `v`, ascending.
    pub fn neighbours(&self, v: Var, out: &mut Vec<Var>) {
        out.clear();
        for &t in &self.of[v as usize] {
            out.extend(self.tables[t as usize].scope.iter().copied().filter(|&u| u != v));
        }
        out.sort_unstable();
        out.dedup();
    }
}

fn retain<T: Copy>(items: &mut Vec<T>, keep: &[bool]) {
    let mut i = 0;
    items.retain(|_| {
        i += 1;
        keep[i - 1]
    });
}

/// Whether the ascending list `wide` holds all of the ascending list `narrow`.
fn covers(wide: &[Var], narrow: &[Var]) -> bool {
    let mut rest = wide.iter();
    wide.len() >= narrow.len() && narrow.iter().all(|v| rest.any(|u| u == v))
}
