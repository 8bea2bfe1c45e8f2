//! Measures by examples worked out by hand, and by properties.

use crate::support::{cell, failed, optimal, study};
use proptest::prelude::*;
use relayout::analysis::{
    Accuracy, Column, Facet, Outcome, Settings, compare, conversion_ratios, distinct_plans, facets, group,
    heat_map, optimality_gaps, pairwise_accuracy, profiled_over_measured, relative_performance,
    solver_runtimes, summarise, treewidth_histogram, verdicts,
};
use relayout::record::{CellRecord, CellStatus, InstanceFacts};
use relayout::stats;
use relayout::table::latency_table;
use std::cmp::Ordering;

/// Runs `check` on the one facet of the records.
fn with_facet(records: &[CellRecord], check: impl FnOnce(&Facet<'_>)) {
    let grouped = group(records);
    let facets = facets(&grouped.cases, &Settings::default());
    assert_eq!(facets.len(), 1);
    check(&facets[0]);
}

fn labels(columns: &[Column]) -> Vec<&str> {
    columns.iter().map(|column| column.label.as_str()).collect()
}

#[test]
fn columns_are_the_heuristics_and_one_exact_strategy() {
    with_facet(&study(2), |facet| {
        assert_eq!(
            labels(&facet.columns),
            ["local", "greedy", "rule-based", "solver-based"]
        );
        assert_eq!(facet.solver_based(), Some("maxsat"));
    });
    let records = study(2);
    let grouped = group(&records);
    let settings = Settings {
        solver_based: Some("treewidth".to_owned()),
        ..Settings::default()
    };
    assert_eq!(
        facets(&grouped.cases, &settings)[0].solver_based(),
        Some("treewidth")
    );
}

#[test]
fn cases_of_different_instances_are_left_out() {
    let mut other = cell("a", "greedy", 5, 1.0, "q");
    other.instance = Some(InstanceFacts {
        hash: "another".to_owned(),
        ..InstanceFacts::default()
    });
    let records = [
        cell("a", "local", 5, 1.0, "p"),
        other,
        cell("b", "local", 5, 1.0, "p"),
    ];
    let grouped = group(&records);
    assert_eq!(
        (grouped.mixed_instances, grouped.cases.len()),
        (vec!["a batch=1".to_owned()], 1)
    );
}

#[test]
fn relative_performance_by_hand() {
    let records = [
        cell("a", "local", 1, 4.0, "p"),
        cell("a", "greedy", 1, 2.0, "q"),
        cell("b", "local", 1, 1.0, "p"),
        cell("b", "greedy", 1, 1.25, "q"),
        cell("c", "local", 1, 1.0, "p"),
        failed("c", "greedy", CellStatus::Mismatch),
    ];
    with_facet(&records, |facet| {
        let result = relative_performance(&facet.cases, &facet.columns);
        assert_eq!((result.cases, result.left_out), (2, vec!["c batch=1".to_owned()]));
        let values: Vec<Vec<f64>> = result
            .curves
            .iter()
            .map(|curve| curve.points.iter().map(|point| point.percent).collect())
            .collect();
        assert_eq!(values, [[50.0, 100.0], [80.0, 100.0]]);
    });
}

#[test]
fn gaps_by_hand() {
    let records = [
        cell("a", "local", 125, 1.0, "p"),
        optimal("a", "treewidth", 100, 1.0, "q"),
    ];
    with_facet(&records, |facet| {
        let result = optimality_gaps(&facet.cases, &facet.columns);
        let percents: Vec<f64> = result.curves.iter().map(|curve| curve.gaps[0].percent).collect();
        assert_eq!((percents, result.unproven), (vec![25.0, 0.0], 0));
    });
    let wrong = [
        cell("a", "local", 90, 1.0, "p"),
        optimal("a", "treewidth", 100, 1.0, "q"),
    ];
    with_facet(&wrong, |facet| {
        assert_eq!(
            optimality_gaps(&facet.cases, &facet.columns).contradictions.len(),
            1
        );
    });
}

#[test]
fn pairwise_accuracy_by_hand() {
    // Predicted: local > greedy > solver. Measured: local > greedy = solver (0.4% apart).
    let records = [
        cell("a", "local", 120, 3.0, "p"),
        cell("a", "greedy", 110, 2.0, "q"),
        optimal("a", "maxsat", 100, 2.008, "r"),
    ];
    with_facet(&records, |facet| {
        let result = pairwise_accuracy(&facet.cases, &facet.columns, &Settings::default());
        assert_eq!(result.all, Accuracy { pairs: 3, agree: 2 });
        assert_eq!(result.disagreements.len(), 1);
        assert_eq!(
            (
                result.disagreements[0].predicted,
                result.disagreements[0].measured
            ),
            ("worse", "equal")
        );
        assert_eq!(result.cases_without_noise, 1);
    });
    // Identical plans agree for free, and are left out of the second variant.
    let same = [
        cell("a", "local", 100, 2.0, "p"),
        cell("a", "greedy", 100, 2.0, "p"),
    ];
    with_facet(&same, |facet| {
        let result = pairwise_accuracy(&facet.cases, &facet.columns, &Settings::default());
        assert_eq!(
            (result.all, result.distinct_plans),
            (Accuracy { pairs: 1, agree: 1 }, Accuracy::default())
        );
    });
    // With 20% noise all three are equal in both respects, but for the first pair's measured 50%.
    let mut noisy = records.to_vec();
    if let Some(latency) = &mut noisy[0].latency {
        latency.noise = Some(0.21);
    }
    with_facet(&noisy, |facet| {
        let result = pairwise_accuracy(&facet.cases, &facet.columns, &Settings::default());
        assert_eq!(result.noise_aware, Accuracy { pairs: 3, agree: 1 });
    });
}

#[test]
fn equality_is_relative_to_the_smaller_value() {
    assert_eq!(compare(1000.0, 1004.9, 0.005), Ordering::Equal);
    assert_eq!(compare(1000.0, 1005.1, 0.005), Ordering::Less);
    assert_eq!(compare(0.0, 0.0, 0.005), Ordering::Equal);
    assert_eq!(compare(1.0, 0.0, 0.005), Ordering::Greater);
}

#[test]
fn heat_map_by_hand() {
    let records = [
        cell("a", "local", 200, 3.0, "p"),
        cell("a", "greedy", 150, 1.0, "q"),
        optimal("a", "maxsat", 100, 2.0, "r"),
        cell("flat", "local", 7, 1.0, "p"),
        cell("flat", "greedy", 7, 2.0, "q"),
    ];
    with_facet(&records, |facet| {
        let map = heat_map(&facet.cases, &facet.columns);
        assert_eq!((map.cases, map.degenerate), (1, vec!["flat batch=1".to_owned()]));
        // [time][cost]: the dearest is the slowest, the middle one the fastest, the cheapest in the middle.
        assert_eq!((map.counts[4][4], map.counts[0][2], map.counts[2][0]), (1, 1, 1));
        assert_eq!(map.counts.iter().flatten().sum::<u64>(), 3);
    });
}

#[test]
fn conversions_need_a_reference_and_say_which() {
    let with = |strategy: &str, conversions: u64| {
        let mut record = cell("a", strategy, 10, 1.0, strategy);
        if let Some(plan) = &mut record.plan {
            plan.conversions = conversions;
        }
        record
    };
    let records = [with("local", 6), with("greedy", 3), with("rule-based", 4)];
    with_facet(&records, |facet| {
        let ratios = conversion_ratios(&facet.cases, &facet.columns, &Settings::default()).unwrap();
        let means: Vec<f64> = ratios
            .columns
            .iter()
            .map(|column| column.1.unwrap().mean)
            .collect();
        assert_eq!((means, ratios.note), (vec![1.5, 0.75, 1.0], None));
    });
    with_facet(&records[..2], |facet| {
        assert!(conversion_ratios(&facet.cases, &facet.columns, &Settings::default()).is_err());
        let settings = Settings {
            fallback_reference: Some("greedy".to_owned()),
            ..Settings::default()
        };
        let ratios = conversion_ratios(&facet.cases, &facet.columns, &settings).unwrap();
        assert_eq!(ratios.columns[0].1.unwrap().p90, 2.0);
        assert!(ratios.note.unwrap().contains("relative to greedy"));
    });
}

#[test]
fn plans_profiles_widths_and_runtimes() {
    let mut records = vec![
        cell("a", "local", 12, 2.0, "p"),
        cell("a", "greedy", 11, 2.0, "q"),
        optimal("a", "maxsat", 10, 2.0, "q"),
        failed("b", "maxsat", CellStatus::SolverOutOfMemory),
    ];
    records[0].profiled_sum_ms = Some(1.5);
    with_facet(&records, |facet| {
        let plans = distinct_plans(&facet.cases);
        assert_eq!((plans[0].plans, plans[0].distinct), (3, 2));
        let profiled = profiled_over_measured(&facet.cases, &facet.columns);
        assert_eq!(profiled[0].ratios, [("local".to_owned(), 0.75)]);
        let widths = treewidth_histogram(&facet.cases);
        assert_eq!((widths.bars, widths.left_out.len()), (vec![(2, 1, 0)], 1));
        let runtimes = solver_runtimes(&facet.cases);
        assert_eq!((runtimes.len(), runtimes[0].tried()), (1, 2));
        assert_eq!(
            runtimes[0].unsolved,
            [("b batch=1".to_owned(), "solver-out-of-memory".to_owned())]
        );
    });
}

#[test]
fn verdicts_by_hand() {
    let outcome = |heuristic: (u64, f64, &str), solver: (u64, f64, &str)| {
        let records = [
            cell("a", "greedy", heuristic.0, heuristic.1, heuristic.2),
            optimal("a", "maxsat", solver.0, solver.1, solver.2),
        ];
        let mut found = Vec::new();
        with_facet(&records, |facet| {
            found = verdicts(&facet.cases, &facet.columns, &Settings::default())
        });
        assert_eq!((found.len(), found[1].is_family), (2, true));
        assert_eq!(found[0].outcome, found[1].outcome);
        found[0].outcome
    };
    // Gap 50%, error 0; gap 10% while the optimum measures slower; gap 0.
    assert_eq!(outcome((150, 3.0, "p"), (100, 2.0, "q")), Outcome::SolverPays);
    assert_eq!(
        outcome((110, 2.0, "p"), (100, 2.5, "q")),
        Outcome::ModelErrorDominates
    );
    assert_eq!(outcome((100, 2.0, "p"), (100, 2.5, "p")), Outcome::NothingToGain);
}

#[test]
fn the_table_bolds_the_best_and_all_close_to_it() {
    let records = [
        cell("a", "local", 1, 2.0, "p"),
        cell("a", "greedy", 1, 2.019, "q"),
        failed("a", "rule-based", CellStatus::MissingHints),
        optimal("a", "maxsat", 1, 2.03, "r"),
    ];
    with_facet(&records, |facet| {
        let table = latency_table(facet, &Settings::default());
        let markdown = table.markdown();
        let row = markdown.lines().last().unwrap();
        assert_eq!(
            row,
            "| test family | a batch=1 | **2.00** | **2.02** | *missing-hints* | 2.03 |"
        );
        let csv = table.csv();
        assert_eq!(
            csv.lines().last(),
            Some("test family,a batch=1,2,ok,2.019,ok,,missing-hints,2.03,ok")
        );
    });
}

#[test]
fn the_summary_covers_an_empty_and_a_whole_run() {
    assert!(
        summarise(&[], &Settings::default())
            .markdown()
            .contains("Cells: none.")
    );
    let text = summarise(&study(12), &Settings::default()).markdown();
    for part in [
        "Cells: 60 ok.",
        "| solver-based | maxsat |",
        "Pairwise accuracy",
        "model error",
        "*vision*",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
}

#[test]
fn mann_whitney_by_hand() {
    let low = [1.0, 2.0, 3.0, 4.0, 5.0];
    let high = [6.0, 7.0, 8.0, 9.0, 10.0];
    // Complete separation of 5 and 5: two of the 252 splits.
    assert!((stats::mann_whitney(&low, &high).unwrap() - 2.0 / 252.0).abs() < 1e-12);
    assert!((stats::mann_whitney(&low, &low).unwrap() - 1.0).abs() < 1e-12);
    assert_eq!(stats::mann_whitney(&[], &low), None);
    let many = |offset: f64| (0..30).map(|i| f64::from(i) + offset).collect::<Vec<_>>();
    assert!(stats::mann_whitney(&many(0.0), &many(100.0)).unwrap() < 1e-9);
    assert!(stats::mann_whitney(&many(0.0), &many(0.0)).unwrap() > 0.99);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn mann_whitney_is_symmetric_and_a_probability(
        a in prop::collection::vec(0u8..6, 1..25), b in prop::collection::vec(0u8..6, 1..25)
    ) {
        let (a, b): (Vec<f64>, Vec<f64>) = (a.into_iter().map(f64::from).collect(), b.into_iter().map(f64::from).collect());
        let (p, q) = (stats::mann_whitney(&a, &b).unwrap(), stats::mann_whitney(&b, &a).unwrap());
        prop_assert!((0.0..=1.0).contains(&p));
        prop_assert!((p - q).abs() < 1e-9);
    }

    #[test]
    fn measures_do_not_depend_on_the_unit_of_cost(models in 1usize..6, factor in 2u64..1000) {
        let records = study(models);
        let mut scaled = records.clone();
        for record in &mut scaled {
            if let Some(solve) = &mut record.solve {
                solve.lower_bound = solve.lower_bound.map(|bound| bound * factor);
                if let Some(cost) = &mut solve.cost {
                    cost.operator_cost *= factor;
                    cost.transpose_cost *= factor;
                }
            }
        }
        let settings = Settings::default();
        let (one, other) = (summarise(&records, &settings), summarise(&scaled, &settings));
        prop_assert_eq!(&one.facets[0].pairwise, &other.facets[0].pairwise);
        prop_assert_eq!(&one.facets[0].heat_map.counts, &other.facets[0].heat_map.counts);
        let best = one.facets[0].relative.curves.iter().flat_map(|c| &c.points).map(|p| p.percent).fold(0.0, f64::max);
        prop_assert_eq!(best, 100.0);
    }
}

#[test]
fn kernel_variants_by_hand() {
    use relayout::analysis::{kernel_classes, kernel_operations};
    use relayout::profiler::UnitTiming;
    let unit = |operation: &str, variant: &str, nanoseconds: u64| UnitTiming {
        key: format!("{operation}/{variant}"),
        operation: operation.to_owned(),
        variant: variant.to_owned(),
        terms: Default::default(),
        nanoseconds,
        samples: 5,
        rotation: 1,
    };
    let units = [
        unit("conv2d a", "nchw", 300),
        unit("conv2d a", "nhwc", 100),
        unit("conv2d a", "blocked", 150),
        unit("conv2d b", "nchw", 80),
        unit("conv2d b", "nhwc", 100),
        unit("conv2d c", "nchw", 7),
        unit("layout_transform d", "nchw", 7),
        unit("layout_transform d", "nhwc", 9),
    ];
    let operations = kernel_operations(&units);
    assert_eq!(
        operations.len(),
        2,
        "one variant alone and conversions compete with nothing"
    );
    assert_eq!(operations[0].variants[0].variant, "nhwc");
    assert_eq!(operations[0].lead(), 1.5);
    let classes = kernel_classes(&operations);
    let row = |variant: &str| classes.iter().find(|c| c.variant == variant).expect("a class");
    assert_eq!((row("nchw").compared, row("nchw").fastest), (2, 1));
    assert_eq!(row("nchw").best, Some((1.25, "conv2d b".to_owned())));
    assert_eq!(row("nhwc").best, Some((1.5, "conv2d a".to_owned())));
    assert_eq!((row("blocked").compared, row("blocked").best.clone()), (1, None));
}
