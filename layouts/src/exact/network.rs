//! The cost function network that `exact` eliminates: variables with finite domains, and tables over small scopes whose
//! sum is the objective.
//!
//! Invariants: scopes ascend; every table holds one cost per tuple of *current* values, the last variable varying
//! fastest; the least entry of a table is 0, what was subtracted being in `constant`, so that `constant` is a lower
//! bound at any moment; costs of [`INF`] or more are forbidden tuples.
//!
//! What the network holds is counted by its meter before it is allocated. Buffers of tables that are gone serve tables to
//! come, by powers of two: half the time went into the allocator without that.

use super::Stop;
use crate::meter::Meter;
use crate::problem::MAX_TOTAL;

/// A variable.
pub(super) type Var = u32;

/// Forbidden. Above every finite total; three of them can be added without overflow.
pub(super) const INF: u64 = MAX_TOTAL + 1;

/// `a + b`, where forbidden stays forbidden. Neither is above [`INF`], so that the sum does not wrap; saying that it may lets
/// loops over tables be vectorised.
#[inline(always)]
pub(super) fn plus(a: u64, b: u64) -> u64 {
    a.wrapping_add(b).min(INF)
}

/// Costs over the tuples of a scope. Dead when the scope is empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub scope: Vec<Var>,
    pub data: Vec<u64>,
}

/// The current values of a variable at some moment: where their list starts in [`Network::lists`] (or [`ALL`]), and how
/// many they are. A list is never changed, so that what was recorded earlier keeps its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Domain {
    start: u32,
    pub size: u32,
}

/// Every original value is there.
const ALL: u32 = u32::MAX;

/// Buffers above this many entries (a power of two) go back to the allocator.
const SPARE_CLASSES: usize = 13;

/// Bytes that a variable takes beside its costs: its entries in the lists below, in the elimination and in the records.
const VARIABLE_BYTES: u64 = 160;

/// The network.
#[derive(Clone, Debug)]
pub(super) struct Network {
    /// A lower bound on every assignment; the optimum once nothing else is left.
    pub constant: u64,
    /// Cost of each current value.
    pub unary: Vec<Vec<u64>>,
    pub tables: Vec<Table>,
    /// Live tables of each variable.
    pub of: Vec<Vec<u32>>,
    /// Start of each variable's list of values.
    starts: Vec<u32>,
    /// Lists of original values, ascending.
    lists: Vec<u32>,
    free: Vec<u32>,
    /// Buffers by the logarithm of their capacity.
    spare: [Vec<Vec<u64>>; SPARE_CLASSES],
    spare_scopes: Vec<Vec<u32>>,
    pub meter: Meter,
}

impl Network {
    pub fn new(meter: Meter) -> Self {
        Self {
            constant: 0,
            unary: Vec::new(),
            tables: Vec::new(),
            of: Vec::new(),
            starts: Vec::new(),
            lists: Vec::new(),
            free: Vec::new(),
            spare: Default::default(),
            spare_scopes: Vec::new(),
            meter,
        }
    }

    /// How many variables there ever were.
    pub fn len(&self) -> usize {
        self.unary.len()
    }

    /// A new variable; its costs are given in order of its values.
    pub fn variable(&mut self, costs: impl ExactSizeIterator<Item = u64>) -> Result<Var, Stop> {
        self.meter.take(VARIABLE_BYTES + costs.len() as u64 * 8)?;
        let mut unary = self.buffer(costs.len());
        unary.extend(costs);
        self.unary.push(unary);
        let of = self.scope();
        self.of.push(of);
        self.starts.push(ALL);
        Ok(self.unary.len() as Var - 1)
    }

    /// A new variable that is gone already.
    pub fn placeholder(&mut self) -> Result<Var, Stop> {
        self.meter.take(VARIABLE_BYTES)?;
        self.unary.push(Vec::new());
        self.of.push(Vec::new());
        self.starts.push(ALL);
        Ok(self.unary.len() as Var - 1)
    }

    /// Gives a variable another's values, and costs.
    pub fn revive(&mut self, v: Var, domain: Domain, costs: &[u64]) -> Result<(), Stop> {
        self.meter.take(costs.len() as u64 * 8)?;
        let mut unary = self.buffer(costs.len());
        unary.extend_from_slice(costs);
        let before = std::mem::replace(&mut self.unary[v as usize], unary);
        self.meter.give(before.len() as u64 * 8);
        self.recycle_costs(before);
        self.starts[v as usize] = domain.start;
        Ok(())
    }

    pub fn size(&self, v: Var) -> usize {
        self.unary[v as usize].len()
    }

    pub fn domain(&self, v: Var) -> Domain {
        Domain {
            start: self.starts[v as usize],
            size: self.unary[v as usize].len() as u32,
        }
    }

    /// The original value at a position of a domain.
    pub fn value(&self, domain: Domain, position: u32) -> u32 {
        match domain.start {
            ALL => position,
            start => self.lists[(start + position) as usize],
        }
    }

    /// The original values of a domain, ascending.
    pub fn values(&self, domain: Domain) -> impl Iterator<Item = u32> {
        (0..domain.size).map(move |position| self.value(domain, position))
    }

    /// Where an original value stands in a domain; it must be there.
    pub fn position(&self, domain: Domain, value: u32) -> usize {
        match domain.start {
            ALL => value as usize,
            start => {
                let list = &self.lists[start as usize..][..domain.size as usize];
                list.partition_point(|&v| v < value)
            }
        }
    }

    /// Adds a table; its least entry moves to `constant`. A table over a scope that another covers is merged into that.
    pub fn add(&mut self, scope: Vec<Var>, mut data: Vec<u64>) -> Result<(), Stop> {
        let (mut least, mut greatest) = (INF, 0);
        for &cost in &data {
            least = least.min(cost);
            greatest = greatest.max(cost);
        }
        if least >= INF {
            return Err(Stop::Contradiction);
        }
        if least > 0 {
            self.constant = plus(self.constant, least);
            data.iter_mut()
                .for_each(|c| *c = if *c < INF { *c - least } else { INF });
        }
        if greatest == least || scope.is_empty() {
            self.recycle(Table { scope, data });
            return Ok(());
        }
        if let [v] = scope[..] {
            let unary = &mut self.unary[v as usize];
            unary.iter_mut().zip(&data).for_each(|(u, &c)| *u = plus(*u, c));
            self.recycle(Table { scope, data });
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
            self.recycle(Table { scope, data });
            return Ok(());
        }
        self.meter.take(table_bytes(&scope, &data))?;
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
            let of = &mut self.of[v as usize];
            if let Some(at) = of.iter().position(|&u| u == t) {
                of.swap_remove(at);
            }
        }
        self.free.push(t);
        self.meter.give(table_bytes(&table.scope, &table.data));
        table
    }

    /// An empty buffer for `entries` costs.
    pub fn buffer(&mut self, entries: usize) -> Vec<u64> {
        let class = entries.next_power_of_two().trailing_zeros() as usize;
        match self.spare.get_mut(class) {
            None => Vec::with_capacity(entries),
            Some(spare) => spare.pop().unwrap_or_else(|| Vec::with_capacity(1 << class)),
        }
    }

    /// An empty buffer for a scope.
    pub fn scope(&mut self) -> Vec<Var> {
        self.spare_scopes.pop().unwrap_or_default()
    }

    /// Takes buffers back.
    pub fn recycle(&mut self, table: Table) {
        self.recycle_costs(table.data);
        let mut scope = table.scope;
        scope.clear();
        self.spare_scopes.push(scope);
    }

    pub fn recycle_costs(&mut self, mut data: Vec<u64>) {
        // A class holds buffers that have room for all of it.
        let class = data.capacity().checked_ilog2().unwrap_or(u32::MAX) as usize;
        if let Some(spare) = self.spare.get_mut(class) {
            data.clear();
            spare.push(data);
        }
    }

    /// Forgets a variable that is in no table any more; its domain stays known.
    pub fn forget(&mut self, v: Var) {
        let unary = std::mem::take(&mut self.unary[v as usize]);
        self.meter.give(unary.len() as u64 * 8);
        self.recycle_costs(unary);
        let of = std::mem::take(&mut self.of[v as usize]);
        debug_assert!(of.is_empty());
        self.spare_scopes.push(of);
    }

    /// Subtracts the least unary cost.
    pub fn settle_unary(&mut self, v: Var) -> Result<(), Stop> {
        let unary = &mut self.unary[v as usize];
        let least = unary.iter().copied().min().unwrap_or(INF);
        if least >= INF {
            return Err(Stop::Contradiction);
        }
        if least > 0 {
            unary.iter_mut().filter(|c| **c < INF).for_each(|c| *c -= least);
            self.constant = plus(self.constant, least);
        }
        Ok(())
    }

    /// Removes the values whose flag is false from the domain and from all tables.
    pub fn restrict(&mut self, v: Var, keep: &[bool]) -> Result<(), Stop> {
        let i = v as usize;
        let (old, before) = (keep.len(), self.domain(v));
        let kept = keep.iter().filter(|k| **k).count() as u64;
        self.meter.take(kept * 4)?;
        let start = self.lists.len() as u32;
        for position in (0..before.size).filter(|&p| keep[p as usize]) {
            let value = self.value(before, position);
            self.lists.push(value);
        }
        self.starts[i] = start;
        self.meter.give((old as u64 - kept) * 8);
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
                        if inner == 1 {
                            table.data[write] = table.data[read];
                        } else {
                            table.data.copy_within(read..read + inner, write);
                        }
                        write += inner;
                    }
                    read += inner;
                }
            }
            table.data.truncate(write);
            self.meter.give((before - write) as u64 * 8);
        }
        Ok(())
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

fn table_bytes(scope: &[Var], data: &[u64]) -> u64 {
    // The table's own record, its entry in each variable's list, its scope.
    48 + scope.len() as u64 * 8 + data.len() as u64 * 8
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

#[cfg(test)]
impl Network {
    /// What the network of a problem costs at these values, of which none was removed yet.
    pub fn price(&self, values: &[u32]) -> u64 {
        let unary = self.unary.iter().zip(values).map(|(costs, &v)| costs[v as usize]);
        let tables = self.tables.iter().filter(|t| !t.scope.is_empty()).map(|t| {
            let at = t
                .scope
                .iter()
                .fold(0, |at, &u| at * self.size(u) + values[u as usize] as usize);
            t.data[at]
        });
        unary.chain(tables).fold(self.constant, plus)
    }
}
