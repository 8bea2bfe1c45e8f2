//! Large problems: linear time and memory.

use std::time::Instant;

use relayout_layouts::exact::Exact;
use relayout_layouts::generate::{Blocks, Random, blocks, random};
use relayout_layouts::{Budget, Problem, Solutions, Status, Strategy, Trace};

use crate::support::slow;

fn solve(what: &str, problem: &Problem) -> Solutions {
    let start = Instant::now();
    let s = Exact::default()
        .solve(problem, &Budget::default(), &mut Trace::silent())
        .unwrap();
    println!(
        "{what}: {:?}, {} MiB, {:?}",
        start.elapsed(),
        s.peak_bytes >> 20,
        s.counters
    );
    assert_eq!(s.status, Status::Optimal, "{what}");
    s
}

fn layers(layers: usize) -> Blocks {
    Blocks {
        layers,
        layer: Random {
            operators: 19,
            seed: 3,
            ..Random::default()
        },
        ..Blocks::default()
    }
}

#[test]
fn a_long_model_is_solved_in_linear_time_whatever_its_numbering() {
    let p = layers(500);
    let plain = solve("10,000 operators", &blocks(&p).unwrap());
    let shuffled = solve(
        "10,000 operators, shuffled",
        &blocks(&Blocks {
            shuffle: true,
            ..p.clone()
        })
        .unwrap(),
    );
    assert_eq!(plain.best().unwrap().cost, shuffled.best().unwrap().cost);
    let half = solve("5,000 operators", &blocks(&layers(250)).unwrap());
    // Tables, not seconds: the machine may be busy.
    assert!(plain.counters["table_entries"] < 3 * half.counters["table_entries"]);
    assert!(plain.peak_bytes < 3 * half.peak_bytes);
}

#[test]
fn a_million_operators_are_solved() {
    if slow("a million operators") {
        let p = Blocks {
            shuffle: true,
            perturb: 10,
            share: 1,
            ..layers(50_000)
        };
        solve(
            "1,000,000 operators, shuffled, 1% of the costs perturbed",
            &blocks(&p).unwrap(),
        );
    }
}

#[test]
fn wide_random_graphs_are_solved() {
    if slow("10,000 operators of width 16 and 22") {
        for window in [6, 8] {
            let p = Random {
                operators: 10_000,
                window,
                layouts: (2, 4),
                seed: 1,
                ..Random::default()
            };
            solve(
                &format!("10,000 operators, window {window}"),
                &random(&p).unwrap(),
            );
        }
    }
}
