//! Messages that fall apart (the unary case of pairwise decomposition: Favier, de Givry, Legarra and Schiex, IJCAI 2011).
//!
//! Where conversions are cheap or dear enough, what a neighbour does costs the same whatever the others do. The message then is a sum,
//! T(x, u) = P(x) + Q(u), and saying so keeps `u` apart from the others: the tables to come are smaller.

use super::Stop;
use super::network::{INF, Network, Table, plus};

/// Of tables with more entries than this so many are looked at before all are, a large prime number apart.
const LARGE: usize = 1 << 12;
const SAMPLES: usize = 8;
const SPREAD: usize = 15_485_863;

/// Reused between calls.
#[derive(Default)]
pub(super) struct Scratch {
    sizes: Vec<usize>,
}

/// Splits off every variable that has nothing to do with the others, as long as there are two, and adds its costs to the network; the rest
/// stays in `table`. How many there were. What does not fall apart is seldom read beyond a few entries.
pub(super) fn decompose(net: &mut Network, table: &mut Table, s: &mut Scratch) -> Result<u64, Stop> {
    let cost = table.data.iter().copied().min().unwrap_or(INF);
    let mut least = table.data.iter().position(|&c| c == cost).unwrap_or(0);
    if cost >= INF {
        return Ok(0);
    }
    let variables = table.scope.len();
    s.sizes.clear();
    s.sizes.extend(table.scope.iter().map(|&u| net.size(u)));
    let mut i = 0;
    while i < table.scope.len() && table.scope.len() > 1 {
        let (size, inner) = (s.sizes[i], s.sizes[i + 1..].iter().product::<usize>());
        let mut costs = net.buffer(size);
        if split_off(&mut table.data, size, inner, least, &mut costs) {
            let mut scope = net.scope();
            scope.push(table.scope.remove(i));
            net.add(scope, costs)?;
            s.sizes.remove(i);
            least = least / (size * inner) * inner + least % inner;
        } else {
            net.recycle_costs(costs);
            i += 1;
        }
    }
    Ok((variables - table.scope.len()) as u64)
}

/// One variable of a table, of so many values, each step of which is `inner` entries: if the table is a sum, `costs` keeps P, and `own` becomes Q, whose
/// least entry is zero. `least` is where the table's least entry stands.
fn split_off(costs: &mut Vec<u64>, size: usize, inner: usize, least: usize, own: &mut Vec<u64>) -> bool {
    let at = least / inner % size;
    let difference = |cost: u64| if cost >= INF { INF } else { cost - costs[least] };
    let start = least - at * inner;
    own.extend((0..size).map(|value| difference(costs[start + value * inner])));
    // The first and the last entry refuse most tables; where costs are few, whole rows of large ones fit by chance.
    let fits = |entry: usize, value: usize| {
        costs[entry] == plus(costs[entry - value * inner + at * inner], own[value])
    };
    if !fits(0, 0) || !fits(costs.len() - 1, size - 1) {
        return false;
    }
    let mut samples = (1..=SAMPLES).map(|i| i * SPREAD % costs.len());
    if costs.len() > LARGE && !samples.all(|entry| fits(entry, entry / inner % size)) {
        return false;
    }
    for values in costs.chunks_exact(size * inner) {
        let rest = &values[at * inner..][..inner];
        for (row, &q) in values.chunks_exact(inner).zip(&*own) {
            if row.iter().zip(rest).any(|(&t, &p)| t != plus(p, q)) {
                return false;
            }
        }
    }
    let mut kept = 0;
    for from in (at * inner..costs.len()).step_by(size * inner) {
        costs.copy_within(from..from + inner, kept);
        kept += inner;
    }
    costs.truncate(kept);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::Meter;
    use proptest::prelude::*;

    /// Each variable's own costs, and what is left, of a table over variables of these sizes.
    fn parts(sizes: &[usize], data: Vec<u64>) -> (Vec<Vec<u64>>, Table) {
        let mut net = Network::new(Meter::new(None));
        for &size in sizes {
            net.variable((0..size).map(|_| 0)).expect("there is no limit");
        }
        let scope = (0..sizes.len() as u32).collect();
        let mut table = Table { scope, data };
        let split = decompose(&mut net, &mut table, &mut Scratch::default()).expect("nothing fails");
        assert_eq!(table.scope.len() + split as usize, sizes.len());
        assert_eq!(net.constant, 0);
        (net.unary, table)
    }

    fn sizes() -> impl Strategy<Value = Vec<usize>> {
        prop::collection::vec(1..4usize, 2..5)
    }

    fn cost() -> impl Strategy<Value = u64> {
        prop_oneof![4 => 0..3u64, 1 => Just(INF)]
    }

    /// The entry of a tuple, which is the digits of `at`.
    fn digits(sizes: &[usize], mut at: usize) -> Vec<usize> {
        let mut digits: Vec<usize> = sizes
            .iter()
            .rev()
            .map(|&size| {
                let digit = at % size;
                at /= size;
                digit
            })
            .collect();
        digits.reverse();
        digits
    }

    proptest! {
        #[test]
        fn the_parts_sum_to_the_whole((sizes, data) in sizes().prop_flat_map(|sizes| {
            let entries = sizes.iter().product::<usize>();
            (Just(sizes), prop::collection::vec(cost(), entries))
        })) {
            let (parts, rest) = parts(&sizes, data.clone());
            for (at, &cost) in data.iter().enumerate() {
                let tuple = digits(&sizes, at);
                let at = rest.scope.iter().fold(0, |at, &v| at * sizes[v as usize] + tuple[v as usize]);
                let apart = parts.iter().zip(&tuple).map(|(costs, &digit)| costs[digit]);
                prop_assert_eq!(apart.fold(rest.data[at], plus), cost);
            }
        }

        #[test]
        fn a_sum_of_unary_costs_falls_apart((sizes, unary) in sizes().prop_flat_map(|sizes| {
            let unary: Vec<_> = sizes.iter().map(|&n| prop::collection::vec(0..9u64, n)).collect();
            (Just(sizes), unary)
        })) {
            let entries = sizes.iter().product::<usize>();
            let sum = |at| digits(&sizes, at).iter().zip(&unary).map(|(&d, u)| u[d]).sum();
            let (_, rest) = parts(&sizes, (0..entries).map(sum).collect());
            prop_assert_eq!(rest.scope.len(), 1);
        }
    }
}
