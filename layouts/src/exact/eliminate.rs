//! Elimination of one variable: the sum of its tables, minimised over its values, becomes a table over its neighbours.

use super::network::{INF, Network, Table, Var, plus};
use super::records::Choices;
use crate::strategy::Budget;

/// Entries that one pass of the inner loop computes: enough to spread the cost of stepping the outer variables, few
/// enough to stay in the first-level cache.
const BLOCK: usize = 256;

/// After so many entries the instructions of the machine are used. Asking which there are takes 30 µs the first time, in which a small
/// problem is solved.
const FEW: usize = 1 << 13;

/// Reused between eliminations: nothing here allocates once it has grown.
#[derive(Default)]
pub(super) struct Scratch {
    /// Entries so far.
    computed: usize,
    sizes: Vec<usize>,
    sums: Vec<u64>,
    best: Vec<u64>,
    argbest: Vec<u32>,
    /// Per scattered table, the offset of each entry of a block.
    offsets: Vec<u32>,
    digits: Vec<usize>,
    /// Per table and variable of the scope, the step in the table.
    steps: Vec<usize>,
    walks: Vec<Walk>,
}

/// How one table is walked.
#[derive(Clone, Copy, Debug)]
struct Walk {
    table: u32,
    /// Step of the eliminated variable.
    own: usize,
    /// Where its steps start in the scratch.
    steps: usize,
    at: usize,
    block: Block,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Block {
    /// The table has none of the block's variables.
    Constant,
    /// The block's entries lie next to each other.
    Contiguous,
    /// They lie at offsets, starting here in the scratch.
    Scattered(usize),
}

/// The budget ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interrupted;

/// Eliminates `v` from `tables` (all of which have it) and, if `unary`, its own costs. The result is over `scope`, which
/// must be the union of the tables' scopes without `v`, and goes to `data`; `choices` gets the best position of `v`'s
/// domain for each entry.
#[allow(clippy::too_many_arguments)] // private, and a struct would only rename them
pub(super) fn eliminate(
    net: &Network,
    v: Var,
    tables: &[Table],
    unary: bool,
    scope: &[Var],
    data: &mut Vec<u64>,
    mut choices: Option<Choices<'_>>,
    s: &mut Scratch,
    budget: &Budget,
) -> Result<(), Interrupted> {
    s.sizes.clear();
    s.sizes.extend(scope.iter().map(|&u| net.size(u)));
    let total: usize = s.sizes.iter().product();
    if functional(net, v, tables, unary, total, data, s) {
        if let Some(choices) = &mut choices {
            choices.push(&s.argbest);
        }
        return Ok(());
    }
    let mut inner_from = scope.len();
    let mut block = 1;
    while inner_from > 0 && block * s.sizes[inner_from - 1] <= BLOCK {
        inner_from -= 1;
        block *= s.sizes[inner_from];
    }
    s.offsets.clear();
    s.steps.clear();
    s.walks.clear();
    for (i, table) in tables.iter().enumerate() {
        walk(net, v, i, table, scope, inner_from, s);
    }
    // Constant ones first: their sum may already forbid the value.
    s.walks
        .sort_unstable_by_key(|w| (w.block != Block::Constant, w.table));
    let constants = s.walks.iter().take_while(|w| w.block == Block::Constant).count();
    let own = &net.unary[v as usize];
    data.reserve_exact(total);
    s.digits.clear();
    s.digits.resize(inner_from, 0);
    s.sums.resize(block.max(s.sums.len()), 0);
    s.computed += total;
    let minimise = if s.computed > FEW { minimise_wide } else { minimise };
    let mut blocks = 0u32;
    loop {
        s.best.clear();
        s.best.resize(block, INF);
        s.argbest.clear();
        s.argbest.resize(block, 0);
        minimise(
            if unary { own } else { &[] },
            net.size(v),
            tables,
            s.walks.split_at(constants),
            &s.offsets,
            &mut s.sums[..block],
            &mut s.best,
            &mut s.argbest,
        );
        data.extend_from_slice(&s.best);
        if let Some(choices) = &mut choices {
            choices.push(&s.argbest);
        }
        blocks += 1;
        if blocks.is_multiple_of(1024) && budget.exhausted() {
            return Err(Interrupted);
        }
        if !step(&mut s.digits, &s.sizes[..inner_from], &mut s.walks, &s.steps) {
            return Ok(());
        }
    }
}

/// [`minimise`] compiled for several instruction sets, the best of which is taken at run time: this is where wide problems spend
/// their time.
#[multiversion::multiversion(targets("x86_64+avx512f+avx512dq+avx512vl+avx512bw", "x86_64+avx2"))]
#[allow(clippy::too_many_arguments)] // private, and a struct would only rename them
fn minimise_wide(
    own: &[u64],
    values: usize,
    tables: &[Table],
    walks: (&[Walk], &[Walk]),
    offsets: &[u32],
    sums: &mut [u64],
    best: &mut [u64],
    argbest: &mut [u32],
) {
    minimise(own, values, tables, walks, offsets, sums, best, argbest);
}

/// Per entry of a block, the least over the values of the sum of the tables, and the value it is at.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // private, and a struct would only rename them
fn minimise(
    own: &[u64],
    values: usize,
    tables: &[Table],
    (constant, varying): (&[Walk], &[Walk]),
    offsets: &[u32],
    sums: &mut [u64],
    best: &mut [u64],
    argbest: &mut [u32],
) {
    let block = sums.len();
    for i in 0..values {
        let costs = |w: &Walk| &tables[w.table as usize].data[w.at + i * w.own..];
        let mut base = own.get(i).copied().unwrap_or(0);
        for w in constant {
            base = plus(base, costs(w)[0]);
        }
        if base >= INF {
            continue;
        }
        sums.fill(base);
        for w in varying {
            match w.block {
                Block::Scattered(from) => {
                    let (costs, offsets) = (costs(w), &offsets[from..from + block]);
                    for (sum, &o) in sums.iter_mut().zip(offsets) {
                        *sum = plus(*sum, costs[o as usize]);
                    }
                }
                _ => {
                    for (sum, &c) in sums.iter_mut().zip(&costs(w)[..block]) {
                        *sum = plus(*sum, c);
                    }
                }
            }
        }
        for ((&sum, best), arg) in sums.iter().zip(&mut *best).zip(&mut *argbest) {
            let better = sum < *best;
            *best = if better { sum } else { *best };
            *arg = if better { i as u32 } else { *arg };
        }
    }
}

/// The case in which each value of `v` allows one value of each neighbour, as between a configuration and the layouts it
/// stands for: one entry per value is then touched, not one per value and tuple. False when that is not the case.
fn functional(
    net: &Network,
    v: Var,
    tables: &[Table],
    unary: bool,
    total: usize,
    data: &mut Vec<u64>,
    s: &mut Scratch,
) -> bool {
    let own = &net.unary[v as usize];
    // As many binary tables as neighbours: one each.
    if tables.len() != s.sizes.len() || tables.iter().any(|t| t.scope.len() != 2) {
        return false;
    }
    s.walks.clear();
    s.walks.extend((0..tables.len()).map(|i| Walk {
        table: i as u32,
        own: 0,
        steps: 0,
        at: 0,
        block: Block::Constant,
    }));
    // In the scope's order, which is that of the variables.
    let other = |t: &Table| if t.scope[0] == v { t.scope[1] } else { t.scope[0] };
    s.walks.sort_unstable_by_key(|w| other(&tables[w.table as usize]));
    s.digits.clear();
    s.digits.resize(own.len(), 0);
    s.sums.clear();
    s.sums.extend(own.iter().map(|&c| if unary { c } else { 0 }));
    for (w, &size) in s.walks.iter().zip(&s.sizes) {
        let table = &tables[w.table as usize];
        let (row, column) = if table.scope[0] == v {
            (size, 1)
        } else {
            (1, own.len())
        };
        for (i, (at, sum)) in s.digits.iter_mut().zip(&mut s.sums).enumerate() {
            let mut allowed = (0..size).filter(|&j| table.data[i * row + j * column] < INF);
            let only = allowed.next();
            if allowed.next().is_some() {
                return false;
            }
            *sum = plus(*sum, only.map_or(INF, |j| table.data[i * row + j * column]));
            *at = *at * size + only.unwrap_or(0);
        }
    }
    data.clear();
    data.resize(total, INF);
    s.argbest.clear();
    s.argbest.resize(total, 0);
    for (i, (&at, &cost)) in s.digits.iter().zip(&s.sums[..own.len()]).enumerate() {
        if cost < data[at] {
            data[at] = cost;
            s.argbest[at] = i as u32;
        }
    }
    true
}

/// Advances the outer variables; whether there was a next tuple.
fn step(digits: &mut [usize], sizes: &[usize], walks: &mut [Walk], steps: &[usize]) -> bool {
    for i in (0..digits.len()).rev() {
        digits[i] += 1;
        if digits[i] < sizes[i] {
            walks.iter_mut().for_each(|w| w.at += steps[w.steps + i]);
            return true;
        }
        digits[i] = 0;
        walks
            .iter_mut()
            .for_each(|w| w.at -= steps[w.steps + i] * (sizes[i] - 1));
    }
    false
}

fn walk(net: &Network, v: Var, i: usize, table: &Table, scope: &[Var], inner_from: usize, s: &mut Scratch) {
    let first = s.steps.len();
    s.steps.resize(first + scope.len(), 0);
    let steps = &mut s.steps[first..];
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
    let block = if inner.iter().all(|&s| s == 0) {
        Block::Constant
    } else {
        let mut expected = 1;
        let contiguous = inner
            .iter()
            .zip(&s.sizes[inner_from..])
            .rev()
            .all(|(&step, &size)| {
                let fits = step == expected;
                expected *= size;
                fits
            });
        if contiguous {
            Block::Contiguous
        } else {
            let from = s.offsets.len();
            s.offsets.push(0);
            // The slowest variable first: every offset so far is followed by its copies for the values of the next one.
            for (&step, &size) in inner.iter().zip(&s.sizes[inner_from..]) {
                let known = s.offsets.len() - from;
                s.offsets.resize(from + known * size, 0);
                for k in (0..known).rev() {
                    let offset = s.offsets[from + k];
                    for d in 0..size {
                        s.offsets[from + k * size + d] = offset + (d * step) as u32;
                    }
                }
            }
            Block::Scattered(from)
        }
    };
    s.walks.push(Walk {
        table: i as u32,
        own,
        steps: first,
        at: 0,
        block,
    });
}
