//! Limits are kept, and what is returned then is valid.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use relayout_layouts::exact::Exact;
use relayout_layouts::generate::{Blocks, Random, blocks, random};
use relayout_layouts::{Budget, Problem, STRATEGIES, Status, Strategy, Trace, check, strategy_by_name};

fn hard() -> Problem {
    random(&Random {
        operators: 600,
        window: 8,
        layouts: (3, 4),
        seed: 1,
        ..Random::default()
    })
    .unwrap()
}

fn check_limited(problem: &Problem, name: &str, budget: &Budget, expected: &[Status]) -> Duration {
    let start = Instant::now();
    let s = strategy_by_name(name)
        .unwrap()
        .solve(problem, budget, &mut Trace::silent())
        .unwrap();
    let took = start.elapsed();
    assert!(expected.contains(&s.status), "{name}: {}", s.status);
    assert!(
        s.lower_bound >= problem.sum_of_minimum_costs(),
        "{name}: the bound got worse"
    );
    if let Some(best) = s.best() {
        assert_eq!(check(problem, &best.assignment).unwrap().cost, best.cost);
        assert!(best.cost >= s.lower_bound, "{name}");
    } else {
        assert_eq!(
            name, "treewidth",
            "an anytime strategy came back without assignment"
        );
    }
    took
}

#[test]
fn a_time_limit_is_kept() {
    let problem = hard();
    for info in STRATEGIES.iter().filter(|s| s.exact) {
        let budget = Budget::default().with_time_limit(Duration::from_millis(300));
        let took = check_limited(
            &problem,
            info.name,
            &budget,
            &[Status::Timeout, Status::OutOfMemory, Status::Optimal],
        );
        assert!(took < Duration::from_secs(5), "{}: {took:?}", info.name);
    }
}

#[test]
fn an_expired_deadline_still_gives_a_plan_and_a_bound() {
    let problem = hard();
    for name in ["greedy", "maxsat"] {
        check_limited(
            &problem,
            name,
            &Budget::default().with_time_limit(Duration::ZERO),
            &[Status::Timeout],
        );
    }
}

#[test]
fn a_memory_limit_is_kept() {
    let problem = hard();
    for info in STRATEGIES.iter().filter(|s| s.exact) {
        let budget = Budget::default()
            .with_memory_limit(100_000)
            .with_time_limit(Duration::from_secs(20));
        check_limited(&problem, info.name, &budget, &[Status::OutOfMemory]);
        let s = strategy_by_name(info.name)
            .unwrap()
            .solve(&problem, &budget, &mut Trace::silent())
            .unwrap();
        assert!(s.peak_bytes <= 100_000, "{}: {}", info.name, s.peak_bytes);
        assert!(s.counters["wanted_bytes"] > 100_000, "{}", info.name);
    }
}

#[test]
fn cancelling_stops_a_run() {
    let problem = hard();
    let cancel = Arc::new(AtomicBool::new(false));
    let budget = Budget {
        cancel: cancel.clone(),
        ..Budget::default()
    };
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            cancel.store(true, Ordering::Relaxed);
        });
        check_limited(&problem, "maxsat", &budget, &[Status::Timeout]);
    });
    assert!(start.elapsed() < Duration::from_secs(10));
}

/// A large model: building its network is most of the work, and limits must be kept there too.
#[test]
fn limits_are_kept_while_the_network_is_built() {
    let problem = blocks(&Blocks {
        layers: 1000,
        ..Blocks::default()
    })
    .unwrap();
    let unlimited = Exact::default()
        .solve(&problem, &Budget::default(), &mut Trace::silent())
        .unwrap();
    let optimum = unlimited.best().unwrap().cost;
    let limit = 1 << 20;
    assert!(unlimited.peak_bytes > 4 * limit);
    let cancelled = Budget::default();
    cancelled.cancel.store(true, Ordering::Relaxed);
    for (budget, expected) in [
        (Budget::default().with_memory_limit(limit), Status::OutOfMemory),
        (Budget::default().with_time_limit(Duration::ZERO), Status::Timeout),
        (cancelled, Status::Timeout),
    ] {
        check_limited(&problem, "exact", &budget, &[expected]);
        let s = Exact::default()
            .solve(&problem, &budget, &mut Trace::silent())
            .unwrap();
        assert!(s.lower_bound <= optimum, "{expected}");
        assert!(s.peak_bytes <= limit, "{expected}: {}", s.peak_bytes);
    }
    // What was eliminated until memory ran out has raised the bound.
    let s = Exact::default()
        .solve(
            &problem,
            &Budget::default().with_memory_limit(limit),
            &mut Trace::silent(),
        )
        .unwrap();
    assert!(s.lower_bound > problem.sum_of_minimum_costs());
}
