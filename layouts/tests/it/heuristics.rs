//! `local` and `greedy` by the letter of their rules.

use relayout_layouts::{
    Budget, ConfigId, ProblemBuilder, Solutions, Status, TensorSpec, Trace, strategy_by_name,
};

use crate::support::{X, builder, operator, small_problems, tensor};

fn solve(strategy: &str, b: ProblemBuilder) -> Solutions {
    let problem = b.build().unwrap();
    strategy_by_name(strategy)
        .unwrap()
        .solve(&problem, &Budget::default(), &mut Trace::silent())
        .unwrap()
}

fn assignment(solutions: &Solutions) -> Vec<u32> {
    solutions.best().unwrap().assignment.iter().map(|c| c.0).collect()
}

#[test]
fn local_takes_the_lowest_index_and_counts_ties() {
    let mut b = builder();
    b.tensor(tensor("a", &[&[0, 5], &[6, 0]]));
    b.tensor(tensor("b", &[&[0]]));
    b.operator(operator("tied", &[], 0, &[(&[], 1, 2), (&[], 0, 2)]));
    b.operator(operator("sink", &[0], 1, &[(&[0], 0, 9), (&[1], 0, 1)]));
    let s = solve("local", b);
    assert_eq!(
        (s.status, assignment(&s), s.best().unwrap().cost),
        (Status::Feasible, vec![0, 1], 3)
    );
    assert_eq!(s.counters["tied_operators"], 1);
    // Ties to the highest index: produced in layout 0, converted to 1 at cost 5.
    assert_eq!(s.counters["cost_under_reversed_ties"], 8);
    assert_eq!(s.lower_bound, 3);
}

#[test]
fn a_heuristic_that_ends_in_an_impossible_conversion_has_no_plan() {
    let mut b = builder();
    b.tensor(tensor("a", &[&[0, X], &[X, 0]]));
    b.tensor(tensor("b", &[&[0]]));
    b.operator(operator("source", &[], 0, &[(&[], 0, 0), (&[], 1, 9)]));
    b.operator(operator("sink", &[0], 1, &[(&[1], 0, 4)]));
    let local = solve("local", b.clone());
    assert_eq!(
        (local.status, local.ranked.len(), local.lower_bound),
        (Status::NoPlan, 0, 4)
    );
    // Greedy leaves the dead end in its first sweep.
    let greedy = solve("greedy", b);
    assert_eq!(
        (greedy.status, assignment(&greedy)),
        (Status::Feasible, vec![1, 0])
    );
}

#[test]
fn an_operator_without_configurations_is_proof_of_infeasibility() {
    let mut b = builder();
    b.tensor(tensor("a", &[&[0]]));
    b.operator(operator("none", &[], 0, &[]));
    for strategy in relayout_layouts::STRATEGIES {
        let s = solve(strategy.name, b.clone());
        assert_eq!(s.status, Status::Infeasible, "{}", strategy.name);
        assert!(s.ranked.is_empty() && !s.proof.is_empty());
    }
}

/// `split` writes a bundle, cheapest as the tuple (1, 1); two projections read it.
fn with_bundle() -> ProblemBuilder {
    let mut b = builder();
    b.tensor(TensorSpec {
        bundle: true,
        ..tensor("pair", &[&[0, X], &[X, 0]])
    });
    b.tensor(tensor("first", &[&[0, 8], &[8, 0]]));
    b.tensor(tensor("second", &[&[0, 8], &[8, 0]]));
    b.tensor(tensor("end", &[&[0]]));
    b.operator(operator("split", &[], 0, &[(&[], 0, 5), (&[], 1, 3)]));
    b.operator(operator("p0", &[0], 1, &[(&[0], 0, 0), (&[1], 1, 0)]));
    b.operator(operator("p1", &[0], 2, &[(&[0], 0, 0), (&[1], 1, 0)]));
    b.operator(operator("use", &[1, 2], 3, &[(&[0, 0], 0, 1)]));
    b
}

#[test]
fn projections_move_with_their_operator() {
    let local = solve("local", with_bundle());
    assert_eq!(
        (local.status, assignment(&local)),
        (Status::Feasible, vec![1, 1, 1, 0])
    );
    assert_eq!(local.best().unwrap().cost, 3 + 1 + 16);
    // One move of the unit saves both conversions; no member could move alone.
    let greedy = solve("greedy", with_bundle());
    assert_eq!(
        (assignment(&greedy), greedy.best().unwrap().cost),
        (vec![0, 0, 0, 0], 6)
    );
    assert_eq!(greedy.counters["moves"], 1);
}

#[test]
fn greedy_construction_pays_only_for_new_requests() {
    // The second consumer finds layout 1 already requested: free for it, though its own cost there is higher by 2.
    let mut b = builder();
    b.tensor(tensor("a", &[&[0, 3], &[3, 0]]));
    b.tensor(tensor("b", &[&[0]]));
    b.tensor(tensor("c", &[&[0]]));
    b.operator(operator("source", &[], 0, &[(&[], 0, 0)]));
    b.operator(operator("first", &[0], 1, &[(&[0], 0, 10), (&[1], 0, 6)]));
    b.operator(operator("second", &[0], 2, &[(&[0], 0, 10), (&[1], 0, 9)]));
    let s = solve("greedy", b);
    assert_eq!(
        (assignment(&s), s.best().unwrap().cost),
        (vec![0, 1, 1], 6 + 3 + 9)
    );
    assert_eq!((s.counters["sweeps"], s.counters["moves"]), (1, 0));
}

#[test]
fn greedy_moves_on_strict_improvement_only() {
    let mut b = builder();
    b.tensor(tensor("a", &[&[0, 4], &[4, 0]]));
    b.tensor(tensor("b", &[&[0]]));
    b.operator(operator("source", &[], 0, &[(&[], 0, 0), (&[], 1, 4)]));
    b.operator(operator("sink", &[0], 1, &[(&[1], 0, 0)]));
    let s = solve("greedy", b);
    assert_eq!((assignment(&s), s.counters["moves"]), (vec![0, 0], 0));
}

#[test]
fn heuristics_never_beat_the_optimum_and_greedy_is_locally_optimal() {
    for (seed, problem) in small_problems(150) {
        let optimum = crate::support::brute_force(&problem);
        for name in ["local", "greedy"] {
            let s = strategy_by_name(name)
                .unwrap()
                .solve(&problem, &Budget::default(), &mut Trace::silent())
                .unwrap();
            match (s.status, optimum) {
                (Status::Feasible, Some(optimum)) => {
                    assert!(s.best().unwrap().cost >= optimum, "{name}, seed {seed}");
                    assert!(s.lower_bound <= optimum, "{name}, seed {seed}");
                }
                (Status::NoPlan, _) => assert!(s.ranked.is_empty()),
                other => panic!("{name}, seed {seed}: {other:?}"),
            }
            let Some(best) = s.best().filter(|_| name == "greedy") else {
                continue;
            };
            // No operator that is neither projection nor followed by one improves by moving alone.
            for o in problem.op_ids() {
                for c in 0..problem.operator(o).num_configs() as u32 {
                    let mut moved = best.assignment.clone();
                    moved[o.index()] = ConfigId(c);
                    if let Ok(c) = relayout_layouts::check(&problem, &moved) {
                        assert!(
                            c.cost >= best.cost,
                            "seed {seed}: operator {o} improves greedy's plan"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn unknown_strategies_are_answered_with_the_nearest() {
    let error = strategy_by_name("tree-width").err().unwrap();
    assert_eq!(error.nearest, "treewidth");
    assert!(
        error
            .to_string()
            .starts_with("no strategy is named \"tree-width\"; did you mean \"treewidth\"?")
    );
}
