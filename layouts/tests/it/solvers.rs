//! The choice of a solver, and z3 where it is built in.

use relayout_layouts::{ChoiceError, STRATEGIES, strategy_with_solver};

#[test]
fn every_solver_is_made_or_says_how_to_get_it() {
    for info in STRATEGIES {
        assert_eq!(strategy_with_solver(info.name, None).unwrap().name(), info.name);
        for solver in info.solvers {
            match (strategy_with_solver(info.name, Some(solver.name)), solver.missing) {
                (Ok(strategy), None) => assert_eq!(strategy.name(), info.name),
                (Err(ChoiceError::SolverNotBuilt { how_to_get, .. }), Some(missing)) => {
                    assert_eq!(how_to_get, missing);
                }
                (made, missing) => panic!("{}: {:?}, {missing:?}", solver.name, made.map(|_| ())),
            }
        }
    }
    let maxsat = STRATEGIES.iter().find(|s| s.name == "maxsat").unwrap();
    let z3 = maxsat.solvers.iter().find(|s| s.name == "z3").unwrap();
    assert_eq!(z3.missing.is_none(), cfg!(feature = "z3"));
}

#[test]
fn a_wrong_choice_names_the_nearest() {
    let error = |name, solver| strategy_with_solver(name, Some(solver)).err().unwrap();
    assert!(matches!(error("maxsta", "z3"), ChoiceError::UnknownStrategy(e) if e.nearest == "maxsat"));
    assert!(matches!(
        error("maxsat", "rust-sat"),
        ChoiceError::UnknownSolver {
            nearest: "rustsat",
            ..
        }
    ));
    assert!(matches!(
        error("greedy", "z3"),
        ChoiceError::NoChoice {
            strategy: "greedy",
            ..
        }
    ));
}

#[cfg(feature = "z3")]
mod z3 {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use relayout_layouts::generate::{Random, random};
    use relayout_layouts::{
        Budget, Problem, Solutions, Status, Trace, check, strategy_by_name, strategy_with_solver,
    };

    use crate::support::{brute_force, small_problems};

    fn solve(problem: &Problem, budget: &Budget, trace: &mut Trace<'_>) -> Solutions {
        let z3 = strategy_with_solver("maxsat", Some("z3")).unwrap();
        z3.solve(problem, budget, trace).unwrap()
    }

    fn hard() -> Problem {
        random(&Random {
            operators: 1000,
            window: 12,
            layouts: (3, 5),
            seed: 1,
            ..Random::default()
        })
        .unwrap()
    }

    fn check_stopped(problem: &Problem, s: &Solutions) {
        assert_eq!(s.status, Status::Timeout);
        assert!(s.lower_bound >= problem.sum_of_minimum_costs());
        let best = s.best().expect("an incumbent");
        assert_eq!(check(problem, &best.assignment).unwrap().cost, best.cost);
        assert!(best.cost >= s.lower_bound);
    }

    #[test]
    fn z3_equals_brute_force() {
        let mut infeasible = 0;
        for (seed, problem) in small_problems(80) {
            let optimum = brute_force(&problem);
            let mut points = Vec::new();
            let mut trace = Trace::new(|p| points.push(p));
            let s = solve(&problem, &Budget::default(), &mut trace);
            drop(trace);
            let status = if optimum.is_some() {
                Status::Optimal
            } else {
                Status::Infeasible
            };
            assert_eq!(
                (s.status, s.best().map(|b| b.cost)),
                (status, optimum),
                "seed {seed}"
            );
            assert!(!s.proof.is_empty(), "seed {seed}");
            infeasible += u32::from(optimum.is_none());
            if let Some(optimum) = optimum {
                assert_eq!(s.lower_bound, optimum, "seed {seed}");
                assert!(
                    points.iter().all(|p| p.bound.is_none_or(|b| b <= optimum)),
                    "{points:?}"
                );
                assert!(
                    points.iter().all(|p| p.incumbent.is_none_or(|i| i >= optimum)),
                    "{points:?}"
                );
            }
        }
        assert!(
            infeasible > 0,
            "the generator makes no infeasible problems any more"
        );
    }

    /// A bound that the clock cut off is still below the optimum.
    #[test]
    fn a_stopped_run_bounds_the_optimum() {
        for seed in 0..6 {
            let problem = random(&Random {
                operators: 60,
                window: 3,
                odd: false,
                seed,
                ..Random::default()
            })
            .unwrap();
            let exact = strategy_by_name("exact").unwrap();
            let exact = exact
                .solve(&problem, &Budget::default(), &mut Trace::silent())
                .unwrap();
            assert_eq!(exact.status, Status::Optimal);
            for limit in [1, 10, 40] {
                let budget = Budget::default().with_time_limit(Duration::from_millis(limit));
                let s = solve(&problem, &budget, &mut Trace::silent());
                let optimum = exact.lower_bound;
                assert!(
                    s.lower_bound <= optimum,
                    "seed {seed}: {} > {optimum}",
                    s.lower_bound
                );
                assert!(s.best().is_none_or(|b| b.cost >= optimum), "seed {seed}");
            }
        }
    }

    #[test]
    fn a_time_limit_is_kept() {
        let problem = hard();
        for limit in [0, 500] {
            let start = Instant::now();
            let budget = Budget::default().with_time_limit(Duration::from_millis(limit));
            let s = solve(&problem, &budget, &mut Trace::silent());
            check_stopped(&problem, &s);
            assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        }
    }

    #[test]
    fn cancelling_stops_it() {
        let problem = hard();
        let cancel = Arc::new(AtomicBool::new(false));
        let budget = Budget {
            cancel: cancel.clone(),
            ..Budget::default()
        };
        let start = Instant::now();
        let s = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(500));
                cancel.store(true, Ordering::Relaxed);
            });
            solve(&problem, &budget, &mut Trace::silent())
        });
        check_stopped(&problem, &s);
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    }

    #[test]
    fn a_memory_limit_stops_it_before_it_starts() {
        let budget = Budget::default().with_memory_limit(100_000);
        let s = solve(&hard(), &budget, &mut Trace::silent());
        assert_eq!(s.status, Status::OutOfMemory);
        assert!(s.best().is_some() && s.counters["wanted_bytes"] > 100_000);
    }
}
