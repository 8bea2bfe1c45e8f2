//! Dead-end elimination: a value that another can replace without loss, whatever the neighbours do, is removed
//! (Goldstein 1994). Removing a value may let others go, so neighbours are looked at again; messages are tables like any
//! other, so the rule bites after every elimination.

use super::Stop;
use super::network::{INF, Network, Var, plus};
use crate::strategy::Budget;

/// Values that each value is compared with: those of least cost, which dominate most. Comparing all pairs would be
/// quadratic in domains that can have tens of thousands of values.
const RIVALS: usize = 64;

/// Comparing two values of this many entries or more is worth a look at the clock.
const CLOCK_ENTRIES: usize = 1 << 16;

/// Reused between calls.
#[derive(Default)]
pub(super) struct Scratch {
    keep: Vec<bool>,
    /// Per value: least and greatest cost over all tables, added up.
    low: Vec<u64>,
    high: Vec<u64>,
    /// The same for one table.
    extremes: Vec<(u64, u64)>,
    order: Vec<u32>,
    /// Per table: values of the variables before and after this one in the scope, multiplied.
    shapes: Vec<(u32, usize, usize)>,
}

/// Removes values of `v` that are forbidden or dominated; how many.
pub(super) fn dominate(
    net: &mut Network,
    v: Var,
    s: &mut Scratch,
    budget: &Budget,
) -> Result<usize, Stop> {
    let size = net.size(v);
    s.low.clear();
    s.low.extend_from_slice(&net.unary[v as usize]);
    s.high.clear();
    s.high.extend_from_slice(&net.unary[v as usize]);
    s.shapes.clear();
    for &t in &net.of[v as usize] {
        let table = &net.tables[t as usize];
        let at = table.scope.iter().position(|&u| u == v).unwrap_or(0);
        let inner: usize = table.scope[at + 1..].iter().map(|&u| net.size(u)).product();
        let outer = table.data.len() / (inner * size);
        s.shapes.push((t, outer, inner));
        s.extremes.clear();
        s.extremes.resize(size, (INF, 0));
        let mut rows = table.data.chunks_exact(inner);
        for _ in 0..outer {
            for extreme in &mut s.extremes {
                for &cost in rows.next().unwrap_or_default() {
                    *extreme = (extreme.0.min(cost), extreme.1.max(cost));
                }
            }
        }
        for (value, &(low, high)) in s.extremes.iter().enumerate() {
            s.low[value] = plus(s.low[value], low);
            s.high[value] = plus(s.high[value], high);
        }
    }
    s.keep.clear();
    s.keep.extend(s.low.iter().map(|&low| low < INF));
    s.order.clear();
    s.order.extend((0..size as u32).filter(|&a| s.keep[a as usize]));
    if s.order.is_empty() {
        return Err(Stop::Contradiction);
    }
    let low = &s.low;
    s.order.sort_unstable_by_key(|&a| (low[a as usize], a));
    let entries: usize = s.shapes.iter().map(|&(_, outer, inner)| outer * inner).sum();
    for i in 1..s.order.len() {
        if entries > CLOCK_ENTRIES && budget.exhausted() {
            return Err(Stop::Time);
        }
        let a = s.order[i] as usize;
        // A dominating value has no greater extremes: at the tuple where the one takes its extreme, the other must not
        // be worse.
        let dominated = s.order[..i.min(RIVALS)].iter().map(|&b| b as usize).any(|b| {
            s.keep[b]
                && s.high[b] <= s.high[a]
                && (s.high[b] <= s.low[a] || replaces(net, v, b, a, &s.shapes))
        });
        s.keep[a] = !dominated;
    }
    let removed = s.keep.iter().filter(|k| !**k).count();
    if removed > 0 {
        net.restrict(v, &s.keep)?;
        net.settle_unary(v)?;
    }
    Ok(removed)
}

/// Whether `b` in place of `a` never costs more.
fn replaces(net: &Network, v: Var, b: usize, a: usize, shapes: &[(u32, usize, usize)]) -> bool {
    let unary = &net.unary[v as usize];
    let size = unary.len();
    let (Ok(ca), Ok(cb)) = (i64::try_from(unary[a]), i64::try_from(unary[b])) else {
        return false;
    };
    let mut worst = cb - ca;
    for &(t, outer, inner) in shapes {
        let data = &net.tables[t as usize].data;
        let mut most = i64::MIN;
        for o in 0..outer {
            let row = |value: usize| &data[(o * size + value) * inner..(o * size + value + 1) * inner];
            for (&fb, &fa) in row(b).iter().zip(row(a)) {
                if fa >= INF {
                    continue;
                }
                if fb >= INF {
                    return false;
                }
                most = most.max(fb as i64 - fa as i64);
            }
        }
        if most == i64::MIN {
            return true; // `a` is forbidden with everything
        }
        worst = worst.saturating_add(most);
    }
    worst <= 0
}
