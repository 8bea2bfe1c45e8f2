//! The shared instances, whose optima were proven by an outside solver.

use std::time::Duration;

use relayout_layouts::{Budget, STRATEGIES, Status, Trace, json, strategy_by_name};

use crate::support::{shared, slow};

/// Solves every shared instance that `wanted` picks with every exact strategy, within `limit` each; an answer that was
/// reached must be the known optimum. Returns how many were reached per strategy.
fn run(limit: Duration, wanted: impl Fn(&str, u64) -> bool) -> Vec<(&'static str, usize, usize)> {
    let Some(folder) = shared("instances") else {
        return Vec::new();
    };
    let optima: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("optima.json")).unwrap()).unwrap();
    let mut reached: Vec<_> = STRATEGIES
        .iter()
        .filter(|s| s.exact)
        .map(|s| (s.name, 0, 0))
        .collect();
    for (name, facts) in optima.as_object().unwrap() {
        if !wanted(name, facts["operators"].as_u64().unwrap()) {
            continue;
        }
        let problem = json::read_file(folder.join(format!("{name}.json.zst"))).unwrap();
        assert_eq!(
            problem.operators().len() as u64,
            facts["operators"].as_u64().unwrap()
        );
        let optimum = facts["optimum"].as_u64();
        for (strategy, solved, tried) in &mut reached {
            let budget = Budget::default()
                .with_time_limit(limit)
                .with_memory_limit(1 << 30);
            let s = strategy_by_name(strategy)
                .unwrap()
                .solve(&problem, &budget, &mut Trace::silent())
                .unwrap();
            *tried += 1;
            match s.status {
                Status::Optimal => {
                    assert_eq!(s.best().map(|b| b.cost), optimum, "{strategy} on {name}");
                    *solved += 1;
                }
                Status::Infeasible => {
                    assert_eq!(optimum, None, "{strategy} on {name}");
                    *solved += 1;
                }
                Status::Timeout | Status::OutOfMemory => {
                    let Some(optimum) = optimum else { continue };
                    assert!(
                        s.lower_bound <= optimum,
                        "{strategy} on {name}: bound {} > {optimum}",
                        s.lower_bound
                    );
                    assert!(s.best().is_none_or(|b| b.cost >= optimum), "{strategy} on {name}");
                    println!(
                        "{strategy} on {name}: {} with bound {} of {optimum}",
                        s.status, s.lower_bound
                    );
                }
                other => panic!("{strategy} on {name}: {other}"),
            }
        }
    }
    reached
}

#[test]
fn exact_strategies_reach_the_small_shared_optima() {
    for (strategy, solved, tried) in run(Duration::from_secs(1), |_, operators| operators <= 60) {
        assert!(tried >= 10);
        assert!(solved * 10 >= tried * 8, "{strategy} reached {solved} of {tried}");
    }
}

#[test]
fn exact_strategies_reach_the_shared_optima() {
    if slow("all shared instances within a minute each") {
        for (strategy, solved, tried) in run(Duration::from_secs(60), |_, _| true) {
            println!("{strategy} reached {solved} of {tried}");
        }
    }
}
