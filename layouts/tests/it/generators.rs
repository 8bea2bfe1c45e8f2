//! Generators: deterministic, of the stated structure, and the reductions mean what the seed proves.

use relayout_layouts::generate::{Blocks, Random, blocks, oct, random, random_3sat, random_graph, sat};
use relayout_layouts::{Budget, Trace, strategy_by_name};

fn optimum(problem: &relayout_layouts::Problem) -> u64 {
    let maxsat = strategy_by_name("maxsat").unwrap();
    maxsat
        .solve(problem, &Budget::default(), &mut Trace::silent())
        .unwrap()
        .best()
        .unwrap()
        .cost
}

#[test]
fn random_instances_keep_their_parameters() {
    for seed in 0..20 {
        let p = Random {
            operators: 50,
            window: 4,
            arity: 3,
            layouts: (2, 3),
            seed,
            ..Random::default()
        };
        let problem = random(&p).unwrap();
        assert_eq!(problem.hash(), random(&p).unwrap().hash());
        assert_ne!(
            problem.hash(),
            random(&Random {
                seed: seed + 1,
                ..p.clone()
            })
            .unwrap()
            .hash()
        );
        assert_eq!(problem.operators().len(), 50);
        for (o, op) in problem.operators().enumerate() {
            assert!(op.inputs.len() <= 3 && op.num_configs() > 0);
            assert!(op.inputs.iter().all(|t| t.index() < o && o - t.index() <= 4));
        }
        assert!(problem.tensors().all(|t| (2..=3).contains(&t.layouts.len())));
    }
    let wrong = random(&Random {
        window: 0,
        ..Random::default()
    })
    .unwrap_err();
    assert_eq!(wrong.to_string(), "window: found 0, expected 1 to 1000");
}

#[test]
fn the_satisfiability_reduction_is_zero_exactly_when_satisfiable() {
    let (mut yes, mut no) = (0, 0);
    for seed in 0..12 {
        let variables = 5;
        let formula = random_3sat(variables, 22 + seed as usize, seed).unwrap();
        let satisfied = |bits: u32| {
            formula
                .iter()
                .all(|c| c.iter().any(|l| (bits >> l.variable & 1 == 1) != l.negated))
        };
        let satisfiable = (0..1 << variables).any(satisfied);
        let cost = optimum(&sat("f", variables, &formula).unwrap());
        assert_eq!(cost == 0, satisfiable, "seed {seed}");
        *(if satisfiable { &mut yes } else { &mut no }) += 1;
    }
    assert!(yes > 0 && no > 0, "{yes} satisfiable, {no} not");
}

#[test]
fn the_odd_cycle_reduction_is_the_least_transversal() {
    for seed in 0..10 {
        let n = 7;
        let edges = random_graph(n, 45, seed);
        let bipartite = |gone: u32| {
            (0u32..1 << n).any(|side| {
                edges.iter().all(|&(u, v)| {
                    gone >> u & 1 == 1 || gone >> v & 1 == 1 || (side >> u & 1) != (side >> v & 1)
                })
            })
        };
        let least = (0u32..1 << n)
            .filter(|&gone| bipartite(gone))
            .map(u32::count_ones)
            .min()
            .unwrap();
        assert_eq!(
            optimum(&oct("g", n, &edges).unwrap()),
            u64::from(least),
            "seed {seed}"
        );
    }
}

#[test]
fn blocks_repeat_and_shuffling_keeps_the_optimum() {
    let p = Blocks {
        layers: 4,
        layer: Random {
            operators: 6,
            ..Random::default()
        },
        ..Blocks::default()
    };
    let plain = blocks(&p).unwrap();
    assert_eq!(plain.operators().len(), 1 + 4 * 7);
    let shuffled = blocks(&Blocks {
        shuffle: true,
        ..p.clone()
    })
    .unwrap();
    assert_ne!(plain.hash(), shuffled.hash());
    assert_eq!(optimum(&plain), optimum(&shuffled));
    let perturbed = blocks(&Blocks {
        perturb: 10,
        ..p.clone()
    })
    .unwrap();
    assert_ne!(plain.hash(), perturbed.hash());
    let p = Blocks {
        layers: 100,
        perturb: 10,
        ..p
    };
    let costs = |share| -> Vec<u64> {
        let problem = blocks(&Blocks { share, ..p.clone() }).unwrap();
        let costs = |o| {
            problem
                .operator(o)
                .configs()
                .map(|(_, c)| c.cost)
                .collect::<Vec<_>>()
        };
        problem.op_ids().flat_map(costs).collect()
    };
    let (none, some) = (costs(0), costs(30));
    let scaled = none.iter().zip(&some).filter(|(a, b)| a != b).count();
    // Factors near one leave small costs as they are.
    assert!(
        (none.len() / 20..none.len() * 2 / 5).contains(&scaled),
        "{scaled} of {}",
        none.len()
    );
}
