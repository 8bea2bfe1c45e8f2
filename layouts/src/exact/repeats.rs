//! Where an order of operators repeats itself: models are stacks of identical layers.
//!
//! A *run* with period d is a stretch of the order in which every operator is like the one d places before: the same configurations, a
//! result with the same conversions, and readers that are alike and stand at the same distance. So whatever meets the operators in order
//! meets the same again and again, up to what lies outside the run.

use std::hash::Hasher;

use rustc_hash::{FxHashMap, FxHasher};

use crate::id::OpId;
use crate::problem::{Operator, Problem};

/// Operators `start..end` of an order, each like the one `period` places before it, from `start + period` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub start: usize,
    pub end: usize,
    /// A multiple of the shortest period.
    pub period: usize,
}

impl Run {
    /// Operators that need not be eliminated one by one, if all goes well.
    fn gain(&self) -> usize {
        ((self.end - self.start) / self.period).saturating_sub(COPIES) * self.period
    }
}

/// The runs of an order, apart from each other and ascending.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    pub runs: Vec<Run>,
    /// Where each operator stands in the order; empty when there is no run.
    pub places: Vec<u32>,
}

/// Shorter orders are eliminated faster than searched for runs.
const LEAST_OPERATORS: usize = 128;

/// Shorter periods are taken several times: at the border of a period all that waits is eliminated.
const LEAST_PERIOD: usize = 16;

/// A run has more copies than this: so many it takes to see that what they leave does not change any more.
const COPIES: usize = 3;

/// Periods are the distances at which so many operators look the same, one after the other.
const WINDOW: usize = 8;

/// The most frequent distances are tried as periods, so many.
const CANDIDATES: usize = 8;

/// Finds the runs. Time is linear in the size of the problem, and within runs quadratic in the number of an operator's readers.
pub(super) fn find(problem: &Problem, order: &[OpId]) -> Repeats {
    if order.len() < LEAST_OPERATORS {
        return Repeats::default();
    }
    let mut places = vec![0; problem.operators().len()];
    for (i, o) in (0..).zip(order) {
        places[o.index()] = i;
    }
    let looks: Vec<u64> = (0..order.len())
        .map(|i| look(problem, order, &places, i))
        .collect();
    let mut candidates: Vec<Run> = distances(&looks)
        .into_iter()
        .flat_map(|d| alike_at(&looks, d))
        .filter(|r| r.gain() > 0)
        .collect();
    candidates.sort_by_key(|r| (std::cmp::Reverse(r.gain()), r.period));
    let mut runs: Vec<Run> = Vec::new();
    for run in candidates {
        if runs.iter().all(|r| r.end <= run.start || run.end <= r.start) {
            let run = proven(problem, order, &places, run);
            runs.extend((run.gain() > 0).then_some(run));
        }
    }
    runs.sort_unstable_by_key(|r| r.start);
    if runs.is_empty() {
        places.clear();
    }
    Repeats { runs, places }
}

/// A number that operators have in common that are alike.
fn look(problem: &Problem, order: &[OpId], places: &[u32], at: usize) -> u64 {
    let op = problem.operator(order[at]);
    let mut hasher = FxHasher::default();
    hasher.write_usize(op.inputs.len());
    op.costs().iter().for_each(|&c| hasher.write_u64(c));
    // Readers in any order.
    let readers = problem
        .uses(op.output)
        .iter()
        .fold(0u64, |sum, &(reader, position)| {
            let distance = u64::from(places[reader.index()] - at as u32);
            let mut hasher = FxHasher::default();
            hasher.write_u64(distance << 32 | u64::from(position));
            sum.wrapping_add(hasher.finish())
        });
    hasher.write_u64(readers);
    hasher.finish()
}

/// The most frequent distances between windows that look the same, longest first among equals.
fn distances(looks: &[u64]) -> Vec<usize> {
    let mut last = FxHashMap::default();
    let mut frequencies: FxHashMap<usize, usize> = FxHashMap::default();
    // A polynomial in the looks of the window.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let gone = FACTOR.wrapping_pow(WINDOW as u32);
    let mut window = 0u64;
    for (i, &look) in looks.iter().enumerate() {
        window = window.wrapping_mul(FACTOR).wrapping_add(look);
        if i >= WINDOW {
            window = window.wrapping_sub(looks[i - WINDOW].wrapping_mul(gone));
        }
        if let Some(before) = last.insert(window, i) {
            *frequencies.entry(i - before).or_default() += 1;
        }
    }
    let mut distances: Vec<(usize, usize)> = frequencies.into_iter().collect();
    distances.sort_unstable_by_key(|&(d, n)| (std::cmp::Reverse(n), d));
    distances.truncate(CANDIDATES);
    distances.into_iter().map(|(d, _)| d).collect()
}

/// The longest stretches that look the same at distance `d`.
fn alike_at(looks: &[u64], d: usize) -> Vec<Run> {
    let period = d * LEAST_PERIOD.div_ceil(d);
    let mut runs = Vec::new();
    let mut start = 0;
    for i in 0..looks.len() {
        let alike = i + d < looks.len() && looks[i] == looks[i + d];
        if !alike {
            if i > start {
                let end = i + d;
                runs.push(Run { start, end, period });
            }
            start = i + 1;
        }
    }
    runs
}

/// The longest part of a run whose operators are alike and do not only look so.
fn proven(problem: &Problem, order: &[OpId], places: &[u32], run: Run) -> Run {
    let d = run.period;
    let (mut best, mut start) = (
        Run {
            end: run.start,
            ..run
        },
        run.start,
    );
    for i in run.start..=run.end.saturating_sub(d) {
        if i + d < run.end && alike(problem, order, places, i, i + d) {
            continue;
        }
        let end = if i > start { i + d } else { start };
        if end - start > best.end - best.start {
            best = Run { start, end, ..run };
        }
        start = i + 1;
    }
    best
}

/// Whether the operators at places `i` and `j` are alike.
fn alike(problem: &Problem, order: &[OpId], places: &[u32], i: usize, j: usize) -> bool {
    let [a, b] = [i, j].map(|at| problem.operator(order[at]));
    let [uses_of_a, uses_of_b] = [a, b].map(|op| problem.uses(op.output));
    let matrix = |op: Operator<'_>| problem.tensor(op.output).transpose;
    if !a.same_configs(b) || matrix(a) != matrix(b) || uses_of_a.len() != uses_of_b.len() {
        return false;
    }
    uses_of_a.iter().all(|&(reader, position)| {
        let distance = places[reader.index()] as usize - i;
        let other = order.get(j + distance).copied();
        other.is_some_and(|other| {
            uses_of_b.contains(&(other, position))
                && problem.operator(reader).same_configs(problem.operator(other))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::order::by_depth;
    use super::*;
    use crate::generate::{Blocks, Random, blocks, random};
    use crate::strategy::Budget;

    fn order(problem: &Problem) -> Vec<OpId> {
        by_depth(problem, &Budget::default()).expect("there is no limit")
    }

    #[test]
    fn identical_layers_are_one_run() {
        let problem = blocks(&Blocks {
            layers: 40,
            ..Blocks::default()
        })
        .expect("parameters are in range");
        let runs = find(&problem, &order(&problem)).runs;
        assert_eq!(runs.len(), 1, "{runs:?}");
        let layer = Blocks::default().layer.operators + 1;
        assert_eq!(runs[0].period % layer, 0, "{runs:?}");
        assert!(runs[0].end - runs[0].start > 37 * layer, "{runs:?}");
    }

    #[test]
    fn a_changed_cost_ends_a_run() {
        let problem = blocks(&Blocks {
            layers: 40,
            perturb: 1,
            ..Blocks::default()
        })
        .expect("parameters are in range");
        assert_eq!(find(&problem, &order(&problem)).runs, []);
    }

    #[test]
    fn random_graphs_have_no_runs() {
        for seed in 0..10 {
            let problem = random(&Random {
                operators: 1000,
                seed,
                ..Random::default()
            })
            .expect("parameters are in range");
            assert_eq!(find(&problem, &order(&problem)).runs, []);
        }
    }
}
