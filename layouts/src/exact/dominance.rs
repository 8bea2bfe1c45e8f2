//! Dead-end elimination: a value that another can replace without loss, whatever the neighbours do, is removed
//! (Goldstein 1994). Messages are tables like any other, so the rule bites after every elimination.
//!
//! `b` replaces `a` when its cost minus that of `a`, summed over all tables and each taken at its worst tuple, is at most
//! zero. Any tuple gives a lower bound of a table's worst, so that a few of each table refuse most pairs: reading whole
//! tables for every pair took two thirds of the time on wide problems.

use super::Stop;
use super::network::{INF, Network, Var};
use crate::strategy::Budget;

/// Values that each value is compared with. Comparing all pairs would be quadratic in domains that can have tens of
/// thousands of values.
const RIVALS: usize = 64;

/// Tuples of a table that are looked at first.
const SAMPLES: usize = 6;

/// Comparing two values of this many entries or more is worth a look at the clock.
const CLOCK_ENTRIES: usize = 1 << 16;

/// Reused between calls.
#[derive(Default)]
pub(super) struct Scratch {
    keep: Vec<bool>,
    order: Vec<u32>,
    shapes: Vec<Shape>,
    /// Per value and table, the costs at the sampled tuples.
    samples: Vec<u64>,
    /// Per table, the best lower bound of its worst difference for the pair at hand.
    least: Vec<i64>,
}

/// Where a table keeps the costs of one value: `outer` runs of `inner` entries.
#[derive(Clone, Copy)]
struct Shape {
    table: u32,
    outer: usize,
    inner: usize,
}

/// Removes values of `v` that are dominated; how many.
pub(super) fn dominate(net: &mut Network, v: Var, s: &mut Scratch, budget: &Budget) -> Result<usize, Stop> {
    let size = net.size(v);
    s.shapes.clear();
    for &t in &net.of[v as usize] {
        let table = &net.tables[t as usize];
        let at = table.scope.iter().position(|&u| u == v).unwrap_or(0);
        let inner: usize = table.scope[at + 1..].iter().map(|&u| net.size(u)).product();
        s.shapes.push(Shape {
            table: t,
            outer: table.data.len() / (inner * size),
            inner,
        });
    }
    // Small tables first: the large ones are then rarely read.
    s.shapes.sort_unstable_by_key(|h| (h.outer * h.inner, h.table));
    s.keep.clear();
    s.keep.resize(size, true);
    s.order.clear();
    s.order.extend(0..size as u32);
    let unary = &net.unary[v as usize];
    s.order.sort_unstable_by_key(|&a| (unary[a as usize], a));
    s.samples.clear();
    s.samples.resize(size * s.shapes.len() * SAMPLES, 0);
    for (k, h) in s.shapes.iter().enumerate() {
        let data = &net.tables[h.table as usize].data;
        let tuples = h.outer * h.inner;
        for j in 0..SAMPLES {
            // Spread over the table, and not all at the same value of the fastest variable.
            let at = (j * tuples / SAMPLES + j) % tuples;
            let row = (at / h.inner) * size * h.inner + at % h.inner;
            for value in 0..size {
                s.samples[(value * s.shapes.len() + k) * SAMPLES + j] = data[row + value * h.inner];
            }
        }
    }
    let entries: usize = s.shapes.iter().map(|h| h.outer * h.inner).sum();
    for i in (0..size).rev() {
        if entries > CLOCK_ENTRIES && budget.exhausted() {
            return Err(Stop::Time);
        }
        // The dearest first, so that chains of equal values keep their cheapest and lowest.
        let a = s.order[i] as usize;
        for k in (0..size.min(RIVALS)).filter(|&k| k != i) {
            let b = s.order[k] as usize;
            if s.keep[b] && replaces(net, v, b, a, &s.shapes, &s.samples, &mut s.least) {
                s.keep[a] = false;
                break;
            }
        }
    }
    let removed = s.keep.iter().filter(|k| !**k).count();
    if removed > 0 {
        net.restrict(v, &s.keep)?;
        net.settle_unary(v)?;
    }
    Ok(removed)
}

/// Whether `b` in place of `a` never costs more.
fn replaces(
    net: &Network,
    v: Var,
    b: usize,
    a: usize,
    shapes: &[Shape],
    samples: &[u64],
    least: &mut Vec<i64>,
) -> bool {
    let unary = &net.unary[v as usize];
    let size = unary.len();
    if unary[a] >= INF {
        return true;
    }
    if unary[b] >= INF {
        return false;
    }
    // What is certain to be lost: the sum of `least` and the unary difference.
    let mut lost = i128::from(unary[b]) - i128::from(unary[a]);
    least.clear();
    let of = |value: usize| {
        let all = &samples[value * shapes.len() * SAMPLES..][..shapes.len() * SAMPLES];
        all.chunks_exact(SAMPLES)
    };
    for (sb, sa) in of(b).zip(of(a)) {
        let mut worst = NEVER;
        for (&cb, &ca) in sb.iter().zip(sa) {
            if ca < INF {
                if cb >= INF {
                    return false;
                }
                worst = worst.max(cb as i64 - ca as i64);
            }
        }
        least.push(worst);
        // A table whose samples say nothing may still forbid `a` altogether: nothing is certain then.
        lost += i128::from(worst);
    }
    if lost > 0 {
        return false;
    }
    for (h, &known) in shapes.iter().zip(&*least) {
        let data = &net.tables[h.table as usize].data;
        let mut worst = known;
        for rows in data.chunks_exact(size * h.inner) {
            let (rb, ra) = (&rows[b * h.inner..][..h.inner], &rows[a * h.inner..][..h.inner]);
            for (&cb, &ca) in rb.iter().zip(ra) {
                if ca >= INF {
                    continue;
                }
                if cb >= INF {
                    return false;
                }
                worst = worst.max(cb as i64 - ca as i64);
            }
            if worst > known && lost + i128::from(worst) - i128::from(known) > 0 {
                return false;
            }
        }
        if worst == NEVER {
            return true; // `a` is forbidden with everything
        }
        lost += i128::from(worst) - i128::from(known);
    }
    lost <= 0
}

/// The worst difference over no tuple at all: no other costs make up for it.
const NEVER: i64 = i64::MIN;
