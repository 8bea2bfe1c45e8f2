//! The contest's instances.

use std::time::Duration;

use relayout_layouts::import::{UsageLimits, iopddl};
use relayout_layouts::{Budget, Status, Trace, strategy_by_name};

use crate::support::{brute_force, shared, slow};

const TRIANGLE: &str = r#"{"problem":{"name":"triangle","nodes":{"intervals":[[0,1],[0,1],[0,1]],
    "costs":[[0,3],[1,1],[2,1000000000000000000]],"usages":[[1,1],[1,1],[1,1]]},
    "edges":{"nodes":[[0,1],[1,2],[0,2],[2]],"costs":[[5,0,1,7],[0,9,4,4],[6,0,2,8],[1,0]]}}}"#;

#[test]
fn an_imported_instance_has_the_optimum_of_its_definition() {
    let problem = iopddl(TRIANGLE.as_bytes(), UsageLimits::Refuse).unwrap();
    // Node 2 must take its first strategy (2, and 1 for its own edge). Node 0: 0 or 3; node 1: 1.
    let by_hand = |a: usize, b: usize| [0, 3][a] + 1 + 2 + [[5, 0], [1, 7]][a][b] + [0, 4][b] + [6, 2][a] + 1;
    let least = (0..2).flat_map(|a| (0..2).map(move |b| by_hand(a, b))).min();
    assert_eq!(brute_force(&problem), least);
    let exact = strategy_by_name("exact").unwrap();
    let s = exact
        .solve(&problem, &Budget::default(), &mut Trace::silent())
        .unwrap();
    assert_eq!(s.best().map(|b| b.cost), least);
}

#[test]
fn faults_are_named() {
    let broken = |from: &str, to: &str| {
        assert!(TRIANGLE.contains(from));
        iopddl(TRIANGLE.replacen(from, to, 1).as_bytes(), UsageLimits::Refuse)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        broken("[5,0,1,7]", "[5,0,1]"),
        "problem.edges.costs[0]: found 3, expected the product of [2, 2]"
    );
    assert_eq!(
        broken("[1,2]", "[1,7]"),
        "problem.edges.nodes[1]: found 7, expected a node below 3"
    );
    assert!(broken("\"edges\"", "\"limits\"").starts_with("problem: missing field `edges`"));
    let limited = TRIANGLE.replacen("\"name\"", "\"usage_limit\":5,\"name\"", 1);
    assert!(
        iopddl(limited.as_bytes(), UsageLimits::Refuse)
            .unwrap_err()
            .to_string()
            .starts_with("problem.usage_limit: 5")
    );
    assert!(iopddl(limited.as_bytes(), UsageLimits::Ignore).is_ok());
}

#[test]
fn the_contest_graphs_without_limits_are_bounded_or_solved() {
    let Some(folder) = shared("iopddl") else { return };
    if !slow("the IOPDDL graphs") {
        return;
    }
    for (name, seconds) in [("V", 15), ("B", 60), ("G", 60)] {
        let problem = iopddl(
            &std::fs::read(folder.join(format!("{name}.json.gz"))).unwrap(),
            UsageLimits::Ignore,
        )
        .unwrap();
        let budget = Budget::default().with_time_limit(Duration::from_secs(seconds));
        let exact = strategy_by_name("exact").unwrap();
        let start = std::time::Instant::now();
        let s = exact.solve(&problem, &budget, &mut Trace::silent()).unwrap();
        println!(
            "{name}: {} {:?} ≥ {} in {:?}",
            s.status,
            s.best().map(|b| b.cost),
            s.lower_bound,
            start.elapsed()
        );
        assert!(matches!(
            s.status,
            Status::Optimal | Status::Timeout | Status::OutOfMemory
        ));
    }
}
