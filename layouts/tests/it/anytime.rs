//! Stopped searches report the best pair they streamed.

use std::time::Duration;

use relayout_layouts::generate::{Random, random};
use relayout_layouts::{Budget, Problem, STRATEGIES, Status, Trace, TracePoint, check, strategy_with_solver};

/// Too much for the solver within the limit here, easy enough for many incumbents and cores.
fn hard(solver: &str) -> Problem {
    let (operators, window, layouts) = if solver == "z3" {
        (60, 3, (2, 3))
    } else {
        (150, 8, (3, 4))
    };
    random(&Random {
        operators,
        window,
        layouts,
        seed: 1,
        ..Random::default()
    })
    .unwrap()
}

#[test]
fn every_maxsat_solver_reports_the_best_pair_it_streamed() {
    let maxsat = STRATEGIES.iter().find(|s| s.name == "maxsat").unwrap();
    for solver in maxsat.solvers.iter().filter(|s| s.missing.is_none()) {
        let strategy = strategy_with_solver("maxsat", Some(solver.name)).unwrap();
        let problem = hard(solver.name);
        let mut points: Vec<TracePoint> = Vec::new();
        let mut trace = Trace::new(|p| points.push(p));
        let budget = Budget::default().with_time_limit(Duration::from_secs(4));
        let s = strategy.solve(&problem, &budget, &mut trace).unwrap();
        drop(trace);
        let name = solver.name;
        assert_eq!(s.status, Status::Timeout, "{name}");
        let best = s.best().expect("greedy's plan at least");
        assert_eq!(
            check(&problem, &best.assignment).unwrap().cost,
            best.cost,
            "{name}"
        );
        let last = points.last().expect("something was streamed");
        assert_eq!(
            (last.incumbent, last.bound),
            (Some(best.cost), Some(s.lower_bound)),
            "{name}"
        );
        let bounds = points
            .iter()
            .filter_map(|p| p.bound)
            .collect::<std::collections::BTreeSet<_>>();
        assert!(bounds.len() >= 3, "{name} streamed the bounds {bounds:?}");
        assert!(
            s.lower_bound > problem.sum_of_minimum_costs(),
            "{name} has not improved on the first bound"
        );
        for pair in points.windows(2) {
            assert!(pair[0].seconds <= pair[1].seconds, "{name}");
            assert!(pair[0].bound <= pair[1].bound, "{name}");
            let (before, after) = (pair[0].incumbent, pair[1].incumbent);
            assert!(
                before.is_none() || after <= before,
                "{name}: {before:?} then {after:?}"
            );
        }
    }
}
