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
        bundles += usize::from(problem.tensors().any(|t| t.bundle));
        twice += usize::from(
            problem
                .operators()
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
        for (seed, problem) in small_problems(10_000) {
            check_exact(seed, &problem);
            check_switches(seed, &problem);
            check_ranking(seed, &problem, 8, 1);
            check_ranking(seed, &problem, 4, 2 + seed as usize % 2);
        }
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

/// Each switch off, and all of them: subset hubs and Boolean ones among others agree.
fn check_switches(seed: u64, problem: &Problem) {
    let optimum = brute_force(problem);
    let alone = SWITCHES.iter().map(|&(name, _)| vec![name]);
    let all = std::iter::once(SWITCHES.iter().map(|&(name, _)| name).collect());
    for off in alone.chain(all) {
        let exact = off
            .iter()
            .try_fold(Exact::default(), |e, name| e.without(name))
            .unwrap();
        let s = exact
            .solve(problem, &Budget::default(), &mut Trace::silent())
            .unwrap();
        assert_eq!(s.best().map(|b| b.cost), optimum, "seed {seed} without {off:?}");
    }
}

#[test]
fn every_switch_of_exact_can_be_off() {
    small_problems(150).for_each(|(seed, problem)| check_switches(seed, &problem));
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

type Program = (Vec<u32>, Vec<(u32, u32)>);

/// In how many tensors' parts two programs differ.
fn distance(a: &Program, b: &Program) -> usize {
    let part = |p: &Program, t: usize| -> (u32, Vec<u32>) {
        let to = p.1.iter().filter(|c| c.0 as usize == t).map(|c| c.1);
        (p.0[t], to.collect())
    };
    (0..a.0.len()).filter(|&t| part(a, t) != part(b, t)).count()
}

/// The k best are the cheapest programs, in order; with a minimum distance, all that were left out are near to one that
/// is no dearer.
fn check_ranking(seed: u64, problem: &Problem, k: usize, min_distance: usize) {
    let mut cheapest = std::collections::BTreeMap::new();
    for assignment in crate::support::all_assignments(problem) {
        if let Ok(c) = relayout_layouts::check(problem, &assignment) {
            let cost = cheapest.entry(program(problem, &assignment)).or_insert(c.cost);
            *cost = c.cost.min(*cost);
        }
    }
    let budget = Budget {
        k,
        min_distance,
        ..Budget::default()
    };
    let s = Exact::default()
        .solve(problem, &budget, &mut Trace::silent())
        .unwrap();
    let found: Vec<(Program, u64)> = s
        .ranked
        .iter()
        .map(|r| (program(problem, &r.assignment), r.cost))
        .collect();
    assert!(found.len() <= k && found.is_sorted_by_key(|f| f.1), "seed {seed}");
    for (i, (a, cost)) in found.iter().enumerate() {
        assert_eq!(
            *cost, cheapest[a],
            "seed {seed}: a program has a cheaper assignment"
        );
        for (b, _) in &found[..i] {
            assert!(distance(a, b) >= min_distance, "seed {seed}");
        }
    }
    let last = if found.len() < k {
        u64::MAX
    } else {
        found.last().map_or(0, |f| f.1)
    };
    for (left_out, &cost) in cheapest.iter().filter(|c| *c.1 < last) {
        assert!(
            found
                .iter()
                .any(|(f, c)| *c <= cost && distance(f, left_out) < min_distance),
            "seed {seed}: a program of cost {cost} is missing from {found:?}"
        );
    }
}

#[test]
fn the_k_best_are_the_cheapest_of_different_programs() {
    for (seed, problem) in small_problems(120) {
        check_ranking(seed, &problem, 8, 1);
    }
}

#[test]
fn the_k_best_keep_a_minimum_distance() {
    for (seed, problem) in small_problems(80) {
        check_ranking(seed, &problem, 4, 2);
        check_ranking(seed, &problem, 3, 3);
    }
}

#[test]
fn threads_change_nothing() {
    for seed in 0..6 {
        let piece = |i: u64| {
            let p = Random {
                operators: 12 + i as usize,
                window: 4,
                odd: seed % 2 == 1,
                seed: 100 * seed + i,
                ..Random::default()
            };
            random(&p).unwrap()
        };
        let problem = crate::support::side_by_side(&(0..9).map(piece).collect::<Vec<_>>());
        let solve = |threads| {
            let budget = Budget {
                threads,
                ..Budget::default()
            };
            Exact::default()
                .solve(&problem, &budget, &mut Trace::silent())
                .unwrap()
        };
        let (one, two, eight) = (solve(1), solve(2), solve(8));
        assert_eq!(one.status, two.status, "seed {seed}");
        assert_eq!(
            one.best().map(|b| b.cost),
            two.best().map(|b| b.cost),
            "seed {seed}"
        );
        assert_eq!(two.ranked, eight.ranked, "seed {seed}");
    }
}
