//! Elimination of one variable: the sum of its tables, minimised over its values, becomes a table over its neighbours.

use super::network::{INF, Network, Table, Var, plus};
use crate::strategy::Budget;

/// The best value of an eliminated variable per tuple of its neighbours, as original indices.
#[derive(Clone, Debug)]
pub(super) enum Choices {
    Bytes(Vec<u8>),
    Words(Vec<u32>),
}

impl Choices {
    pub fn get(&self, i: usize) -> u32 {
        match self {
            Self::Bytes(b) => u32::from(b[i]),
            Self::Words(w) => w[i],
        }
    }
}

/// Bytes per entry of [`Choices`] for a variable with these current values.
pub(super) fn choice_bytes(values: &[u32]) -> u64 {
    if values.last().is_some_and(|&v| v > 255) {
        4
    } else {
        1
    }
}

/// Entries that one pass of the inner loop computes: enough to spread the cost of stepping the outer variables, few
/// enough to stay in the first-level cache.
const BLOCK: usize = 128;

/// Reused between eliminations.
#[derive(Default)]
pub(super) struct Scratch {
    sums: Vec<u64>,
    best: Vec<u64>,
    argbest: Vec<u32>,
    /// Per table, the offset of each entry of a block.
    offsets: Vec<u32>,
    digits: Vec<usize>,
}

/// How one table is walked.
struct Walk<'a> {
    data: &'a [u64],
    /// Step of the eliminated variable.
    own: usize,
    /// Step of each outer variable.
    steps: Vec<usize>,
    at: usize,
    block: Block,
}

#[derive(Clone, Copy, PartialEq)]
enum Block {
    /// The table has none of the block's variables.
    Constant,
    /// The block's entries lie next to each other.
    Contiguous,
    /// They lie at offsets, starting here in the scratch.
    Scattered(usize),
}

/// Eliminates `v` from `tables` (all of which have it) and, if `unary`, its own costs. The result is over `scope`, which
/// must be the union of the tables' scopes without `v`, and goes to `data`. `None` when the budget ran out.
#[allow(clippy::too_many_arguments)] // private, and a struct would only rename them
pub(super) fn eliminate(
    net: &Network,
    v: Var,
    tables: &[Table],
    unary: bool,
    scope: &[Var],
    data: &mut Vec<u64>,
    scratch: &mut Scratch,
    budget: &Budget,
) -> Option<Choices> {
    let sizes: Vec<usize> = scope.iter().map(|&u| net.size(u)).collect();
    let total: usize = sizes.iter().product();
    if let Some(choices) = eliminate_functional(net, v, tables, unary, &sizes, data) {
        return Some(choices);
    }
    let mut inner_from = scope.len();
    let mut block = 1;
    while inner_from > 0 && block * sizes[inner_from - 1] <= BLOCK {
        inner_from -= 1;
        block *= sizes[inner_from];
    }
    scratch.offsets.clear();
    let mut walks: Vec<Walk<'_>> = tables
        .iter()
        .map(|t| walk(net, v, t, scope, &sizes, inner_from, block, &mut scratch.offsets))
        .collect();
    // Constant ones first: their sum may already forbid the value.
    walks.sort_by_key(|w| w.block != Block::Constant);
    let constants = walks.iter().take_while(|w| w.block == Block::Constant).count();

    let values = &net.values[v as usize];
    data.reserve_exact(total);
    let mut choices = if choice_bytes(values) == 1 {
        Choices::Bytes(Vec::with_capacity(total))
    } else {
        Choices::Words(Vec::with_capacity(total))
    };
    scratch.digits.clear();
    scratch.digits.resize(inner_from, 0);
    scratch.sums.resize(block.max(scratch.sums.len()), 0);
    let mut blocks = 0u32;
    loop {
        scratch.best.clear();
        scratch.best.resize(block, INF);
        scratch.argbest.clear();
        scratch.argbest.resize(block, values[0]);
        for (i, &value) in values.iter().enumerate() {
            let mut base = if unary { net.unary[v as usize][i] } else { 0 };
            for w in &walks[..constants] {
                base = plus(base, w.data[w.at + i * w.own]);
            }
            if base >= INF {
                continue;
            }
            let sums = &mut scratch.sums[..block];
            let mut rest = walks[constants..].iter();
            match rest.next() {
                None => sums.fill(base),
                Some(w) => {
                    let data = &w.data[w.at + i * w.own..];
                    match w.block {
                        Block::Scattered(from) => {
                            let offsets = &scratch.offsets[from..from + block];
                            sums.iter_mut()
                                .zip(offsets)
                                .for_each(|(s, &o)| *s = plus(base, data[o as usize]));
                        }
                        _ => sums
                            .iter_mut()
                            .zip(&data[..block])
                            .for_each(|(s, &c)| *s = plus(base, c)),
                    }
                }
            }
            for w in rest {
                let data = &w.data[w.at + i * w.own..];
                match w.block {
                    Block::Scattered(from) => {
                        let offsets = &scratch.offsets[from..from + block];
                        sums.iter_mut()
                            .zip(offsets)
                            .for_each(|(s, &o)| *s = plus(*s, data[o as usize]));
                    }
                    _ => sums
                        .iter_mut()
                        .zip(&data[..block])
                        .for_each(|(s, &c)| *s = plus(*s, c)),
                }
            }
            for ((&sum, best), arg) in sums.iter().zip(&mut scratch.best).zip(&mut scratch.argbest) {
                let better = sum < *best;
                *best = if better { sum } else { *best };
                *arg = if better { value } else { *arg };
            }
        }
        data.extend_from_slice(&scratch.best);
        match &mut choices {
            Choices::Bytes(b) => b.extend(scratch.argbest.iter().map(|&a| a as u8)),
            Choices::Words(w) => w.extend_from_slice(&scratch.argbest),
        }
        blocks += 1;
        if blocks.is_multiple_of(1024) && budget.exhausted() {
            return None;
        }
        if !step(&mut scratch.digits, &sizes[..inner_from], &mut walks) {
            return Some(choices);
        }
    }
}

/// The case in which each value of `v` allows one value of each neighbour, as between a configuration and the layouts it
/// stands for: one entry per value is then touched, not one per value and tuple. `None` when that is not the case.
fn eliminate_functional(
    net: &Network,
    v: Var,
    tables: &[Table],
    unary: bool,
    sizes: &[usize],
    data: &mut Vec<u64>,
) -> Option<Choices> {
    if tables.len() != sizes.len() || tables.iter().any(|t| t.scope.len() != 2) {
        return None;
    }
    let values = &net.values[v as usize];
    // One table per neighbour; brought into the scope's order, which is that of the variables.
    let other = |t: &Table| if t.scope[0] == v { t.scope[1] } else { t.scope[0] };
    let mut ordered: Vec<&Table> = tables.iter().collect();
    ordered.sort_by_key(|t| other(t));
    let mut at = vec![0usize; values.len()];
    let mut costs: Vec<u64> = if unary {
        net.unary[v as usize].clone()
    } else {
        vec![0; values.len()]
    };
    for (table, &size) in ordered.into_iter().zip(sizes) {
        let first = table.scope[0] == v;
        for (i, (at, cost)) in at.iter_mut().zip(&mut costs).enumerate() {
            let entry = |j: usize| {
                if first {
                    table.data[i * size + j]
                } else {
                    table.data[j * values.len() + i]
                }
            };
            let mut allowed = (0..size).filter(|&j| entry(j) < INF);
            let only = allowed.next();
            if allowed.next().is_some() {
                return None;
            }
            *cost = plus(*cost, only.map_or(INF, entry));
            *at = *at * size + only.unwrap_or(0);
        }
    }
    let total = sizes.iter().product();
    data.clear();
    data.resize(total, INF);
    let mut best = vec![values.first().copied().unwrap_or(0); total];
    for ((&at, &cost), &value) in at.iter().zip(&costs).zip(values) {
        if cost < data[at] {
            data[at] = cost;
            best[at] = value;
        }
    }
    Some(match choice_bytes(values) {
        1 => Choices::Bytes(best.into_iter().map(|b| b as u8).collect()),
        _ => Choices::Words(best),
    })
}

/// Advances the outer variables; whether there was a next tuple.
fn step(digits: &mut [usize], sizes: &[usize], walks: &mut [Walk<'_>]) -> bool {
    for i in (0..digits.len()).rev() {
        digits[i] += 1;
        if digits[i] < sizes[i] {
            walks.iter_mut().for_each(|w| w.at += w.steps[i]);
            return true;
        }
        digits[i] = 0;
        walks.iter_mut().for_each(|w| w.at -= w.steps[i] * (sizes[i] - 1));
    }
    false
}

#[allow(clippy::too_many_arguments)] // private, and a struct would only rename them
fn walk<'a>(
    net: &Network,
    v: Var,
    table: &'a Table,
    scope: &[Var],
    sizes: &[usize],
    inner_from: usize,
    block: usize,
    offsets: &mut Vec<u32>,
) -> Walk<'a> {
    let mut steps = vec![0; scope.len()];
    let (mut own, mut stride) = (0, 1);
    for &u in table.scope.iter().rev() {
        if u == v {
            own = stride;
        } else if let Ok(at) = scope.binary_search(&u) {
            steps[at] = stride;
        }
        stride *= net.size(u);
    }
    let inner = &steps[inner_from..];
    let kind = if inner.iter().all(|&s| s == 0) {
        Block::Constant
    } else {
        let mut expected = 1;
        let contiguous = inner.iter().zip(&sizes[inner_from..]).rev().all(|(&s, &size)| {
            let fits = s == expected;
            expected *= size;
            fits
        });
        if contiguous {
            Block::Contiguous
        } else {
            let from = offsets.len();
            offsets.push(0);
            for (&s, &size) in inner.iter().zip(&sizes[inner_from..]) {
                // Every offset so far times every value of this variable, this one varying faster.
                let known = offsets[from..].to_vec();
                offsets.truncate(from);
                offsets.extend(
                    known
                        .iter()
                        .flat_map(|&o| (0..size).map(move |d| o + (d * s) as u32)),
                );
            }
            debug_assert_eq!(offsets.len(), from + block);
            Block::Scattered(from)
        }
    };
    steps.truncate(inner_from);
    Walk {
        data: &table.data,
        own,
        steps,
        at: 0,
        block: kind,
    }
}
