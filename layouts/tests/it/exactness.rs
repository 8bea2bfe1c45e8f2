//! Every exact strategy equals brute force, on problems with everything that trips an encoding.

use relayout_layouts::exact::{Exact, SWITCHES};
use relayout_layouts::generate::{Random, random};
use relayout_layouts::{Budget, Problem, STRATEGIES, Status, Strategy, Trace, strategy_by_name};

use crate::support::{brute_force, slow, small_problems};

fn check_exact(seed: u64, problem: &Problem) {
    let optimum = brute_force(problem);
    for info in STRATEGIES.iter().filter(|s| s.exact && s.missing.is_none()) {
        let place = format!("{}, seed {seed}", info.name);
        let mut points = Vec::new();
        let mut trace = Trace::new(|p| points.push(p));
        let s = strategy_by_name(info.name)
            .unwrap()
            .solve(problem, &Budget::default(), &mut trace)
            .expect(&place);
        drop(trace);
        assert_eq!(
            s.status,
            if optimum.is_some() {
                Status::Optimal
            } else {
                Status::Infeasible
            },
            "{place}"
        );
        assert_eq!(s.best().map(|b| b.cost), optimum, "{place}");
        assert!(!s.proof.is_empty(), "{place}");
        if let Some(optimum) = optimum {
            assert_eq!(s.lower_bound, optimum, "{place}");
            assert!(
                points.iter().all(|p| p.bound.is_none_or(|b| b <= optimum)),
                "{place}: {points:?}"
            );
            assert!(
                points.iter().all(|p| p.incumbent.is_none_or(|i| i >= optimum)),
                "{place}: {points:?}"
            );
        }
    }
}

#[test]
fn exact_strategies_equal_brute_force() {
    let (mut infeasible, mut bundles, mut twice) = (0, 0, 0);
    for (seed, problem) in small_problems(400) {
        check_exact(seed, &problem);
        infeasible += usize::from(brute_force(&problem).is_none());
        bundles += usize::from(problem.tensors().iter().any(|t| t.bundle));
        twice += usize::from(
            problem
                .operators()
                .iter()
                .any(|o| o.inputs.len() == 2 && o.inputs[0] == o.inputs[1]),
        );
    }
    // The generator must keep producing what the test is about.
    assert!(
        infeasible >= 5 && bundles > 50 && twice >= 20,
        "{infeasible} {bundles} {twice}"
    );
}

#[test]
fn exact_strategies_equal_brute_force_on_many() {
    if slow("10,000 random problems against brute force") {
        small_problems(10_000).for_each(|(seed, problem)| check_exact(seed, &problem));
    }
}

#[test]
fn answers_do_not_depend_on_chance() {
    for (_, problem) in small_problems(20) {
        for info in STRATEGIES {
            let solve = || {
                let s = strategy_by_name(info.name).unwrap();
                s.solve(&problem, &Budget::default(), &mut Trace::silent())
                    .unwrap()
            };
            assert_eq!(solve(), solve(), "{}", info.name);
        }
    }
}

#[test]
fn every_switch_of_exact_can_be_off() {
    for (seed, problem) in small_problems(150) {
        let optimum = brute_force(&problem);
        let alone = SWITCHES.iter().map(|&(name, _)| vec![name]);
        let all = std::iter::once(SWITCHES.iter().map(|&(name, _)| name).collect());
        for off in alone.chain(all) {
            let exact = off
                .iter()
                .try_fold(Exact::default(), |e, name| e.without(name))
                .unwrap();
            let s = exact
                .solve(&problem, &Budget::default(), &mut Trace::silent())
                .unwrap();
            assert_eq!(s.best().map(|b| b.cost), optimum, "seed {seed} without {off:?}");
        }
    }
    let unknown = Exact::default().without("dominence").unwrap_err();
    assert_eq!(unknown.nearest, "dominance");
}

/// Beyond brute force: two encodings and the seed's dynamic program agree.
#[test]
fn exact_strategies_agree_on_medium_problems() {
    for seed in 0..40 {
        let p = Random {
            operators: 30,
            window: 4,
            layouts: (1, 3),
            odd: seed % 2 == 0,
            seed,
            ..Random::default()
        };
        let problem = random(&p).unwrap();
        let solve = |s: &dyn Strategy| {
            let s = s
                .solve(&problem, &Budget::default(), &mut Trace::silent())
                .unwrap();
            assert!(
                matches!(s.status, Status::Optimal | Status::Infeasible),
                "seed {seed}: {}",
                s.status
            );
            s.best().map(|b| b.cost)
        };
        let expected = solve(&Exact::default());
        assert_eq!(
            expected,
            solve(&Exact::default().without("subsets").unwrap()),
            "seed {seed}"
        );
        assert_eq!(
            expected,
            solve(&*strategy_by_name("maxsat").unwrap()),
            "seed {seed}"
        );
        let budget = Budget::default().with_memory_limit(1 << 28);
        let s = strategy_by_name("treewidth")
            .unwrap()
            .solve(&problem, &budget, &mut Trace::silent())
            .unwrap();
        if s.status == Status::Optimal {
            assert_eq!(expected, s.best().map(|b| b.cost), "seed {seed}");
        }
    }
}

/// What an assignment makes a compiler emit: every tensor's produced layout, and its conversions.
fn program(problem: &Problem, assignment: &[relayout_layouts::ConfigId]) -> (Vec<u32>, Vec<(u32, u32)>) {
    let produced = problem
        .operators()
        .iter()
        .zip(assignment)
        .map(|(op, &c)| (op.output, op.config(c).output.0));
    let mut produced: Vec<_> = produced.collect();
    produced.sort_unstable();
    let conversions = relayout_layouts::check(problem, assignment).unwrap().conversions;
    (
        produced.into_iter().map(|(_, l)| l).collect(),
        conversions.into_iter().map(|c| (c.tensor.0, c.to.0)).collect(),
    )
}

#[test]
fn the_k_best_are_the_cheapest_of_different_programs() {
    for (seed, problem) in small_problems(120) {
        let mut cheapest = std::collections::BTreeMap::new();
        for assignment in crate::support::all_assignments(&problem) {
            if let Ok(c) = relayout_layouts::check(&problem, &assignment) {
                let cost = cheapest.entry(program(&problem, &assignment)).or_insert(c.cost);
                *cost = c.cost.min(*cost);
            }
        }
        let mut expected: Vec<u64> = cheapest.into_values().collect();
        expected.sort_unstable();
        expected.truncate(8);
        let budget = Budget {
            k: 8,
            ..Budget::default()
        };
        let s = Exact::default()
            .solve(&problem, &budget, &mut Trace::silent())
            .unwrap();
        let found: Vec<u64> = s.ranked.iter().map(|r| r.cost).collect();
        assert_eq!(found, expected, "seed {seed}");
        let programs: std::collections::BTreeSet<_> = s
            .ranked
            .iter()
            .map(|r| program(&problem, &r.assignment))
            .collect();
        assert_eq!(
            programs.len(),
            found.len(),
            "seed {seed}: two of the k best are one program"
        );
    }
}
