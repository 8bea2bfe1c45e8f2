//! The forbidden tuples of a table as few boxes: sets of values, one per variable, of which no combination is allowed.

use super::network::INF;

/// Per variable, its values in the box.
pub(super) type Box = Vec<Vec<usize>>;

/// Boxes of forbidden tuples only, which together hold all of them. Greedy: each starts at a tuple that no box has yet and takes in
/// value by value what it can. O(entries) per value tried; meant for tables of some hundred entries.
pub(super) fn cover(data: &[u64], sizes: &[usize]) -> Vec<Box> {
    let strides = strides(sizes);
    let mut boxes = Vec::new();
    let mut covered = vec![false; data.len()];
    for tuple in 0..data.len() {
        if data[tuple] < INF || covered[tuple] {
            continue;
        }
        let digits = sizes.iter().zip(&strides);
        let mut grown: Box = digits.map(|(&n, &stride)| vec![tuple / stride % n]).collect();
        for (i, &size) in sizes.iter().enumerate() {
            let mut members = std::mem::take(&mut grown[i]);
            let first = members[0];
            for value in (0..size).filter(|&v| v != first) {
                // Only the slice that the value would add has to be looked at.
                grown[i].clear();
                grown[i].push(value);
                if every(&grown, &strides, 0, &mut |t| data[t] >= INF) {
                    members.push(value);
                }
            }
            grown[i] = members;
        }
        every(&grown, &strides, 0, &mut |t| {
            covered[t] = true;
            true
        });
        boxes.push(grown);
    }
    boxes
}

/// The distance in a table between two values of each variable that follow each other; the last variable varies fastest.
pub(super) fn strides(sizes: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; sizes.len()];
    for i in (1..sizes.len()).rev() {
        strides[i - 1] = strides[i] * sizes[i];
    }
    strides
}

/// Whether the test holds for all tuples of a box, which are given by their places in the table.
fn every(of: &[Vec<usize>], strides: &[usize], at: usize, test: &mut impl FnMut(usize) -> bool) -> bool {
    match (of, strides) {
        ([members, of @ ..], [stride, strides @ ..]) => members
            .iter()
            .all(|value| every(of, strides, at + value * stride, test)),
        _ => test(at),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tables() -> impl Strategy<Value = (Vec<usize>, Vec<u64>)> {
        proptest::collection::vec(1usize..5, 1..5).prop_flat_map(|sizes| {
            let entries = sizes.iter().product::<usize>();
            let cost = prop_oneof![Just(0), Just(INF)];
            (Just(sizes), proptest::collection::vec(cost, entries))
        })
    }

    proptest! {
        #[test]
        fn boxes_hold_the_forbidden_tuples_and_no_other((sizes, data) in tables()) {
            let strides = strides(&sizes);
            let mut held = vec![false; data.len()];
            for of in cover(&data, &sizes) {
                every(&of, &strides, 0, &mut |t| { held[t] = true; true });
            }
            let forbidden: Vec<bool> = data.iter().map(|&c| c >= INF).collect();
            prop_assert_eq!(held, forbidden);
        }
    }

    #[test]
    fn what_is_a_box_is_one_box() {
        // The first variable at 1 or 2 and the second at 0.
        let data = [0, 0, INF, 0, INF, 0];
        assert_eq!(cover(&data, &[3, 2]), [vec![vec![1, 2], vec![0]]]);
    }
}
