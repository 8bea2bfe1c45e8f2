//! Comparison of two runs: decisions exactly, latencies with respect to noise, the formats.

use crate::support::{cell, failed, latency, optimal};
use relayout::diff::{EXIT_ERROR, EXIT_OK, EXIT_WORSE, Policy, RunDiff, Side, Verdict, diff};
use relayout::record::{CellRecord, CellStatus, InstanceFacts, RunManifest};

fn compare_with(base: &[CellRecord], head: &[CellRecord], policy: Policy) -> RunDiff {
    let manifest = RunManifest::default();
    let side = |records| Side {
        records,
        manifest: Some(&manifest),
    };
    // The lifetimes of both sides end here; the result owns what it shows.
    diff(
        side(base),
        Side {
            records: head,
            manifest: Some(&manifest),
        },
        policy,
    )
}

fn compare(base: &[CellRecord], head: &[CellRecord]) -> RunDiff {
    compare_with(base, head, Policy::default())
}

#[test]
fn a_run_is_the_same_as_itself() {
    let run = [
        cell("a", "local", 10, 1.0, "p"),
        failed("b", "local", CellStatus::NoPlan),
    ];
    let result = compare(&run, &run);
    assert_eq!((result.count(Verdict::Same), result.exit_code()), (2, EXIT_OK));
    assert_eq!(result.text(), "2 cells compared: 2 same\n");
}

#[test]
fn decisions_decide() {
    let base = cell("a", "local", 100, 1.0, "p");
    let proven = optimal("a", "local", 100, 1.0, "p");
    let crash = failed("a", "local", CellStatus::Crashed { signal: 11 });
    let timeout = failed("a", "local", CellStatus::SolverTimeout);
    let skipped = failed(
        "a",
        "local",
        CellStatus::Skipped {
            reason: "no z3".to_owned(),
        },
    );
    let cases = [
        (
            &base,
            cell("a", "local", 101, 1.0, "q"),
            Verdict::Regressed,
            EXIT_WORSE,
        ),
        (
            &base,
            cell("a", "local", 99, 1.0, "q"),
            Verdict::Improved,
            EXIT_OK,
        ),
        (&base, cell("a", "local", 100, 1.0, "q"), Verdict::Same, EXIT_OK),
        (&base, crash.clone(), Verdict::Regressed, EXIT_WORSE),
        (&crash, base.clone(), Verdict::Improved, EXIT_OK),
        (&crash, timeout, Verdict::Inconclusive, EXIT_OK),
        (&base, skipped, Verdict::Incomparable, EXIT_OK),
        (&proven, base.clone(), Verdict::Regressed, EXIT_WORSE),
        (&base, proven.clone(), Verdict::Improved, EXIT_OK),
    ];
    for (base, head, verdict, code) in cases {
        let result = compare(std::slice::from_ref(base), std::slice::from_ref(&head));
        assert_eq!(
            (result.cells[0].verdict, result.exit_code()),
            (verdict, code),
            "{}",
            result.text()
        );
    }
}

#[test]
fn different_instances_are_incomparable_and_say_what_changed() {
    let base = cell("a", "local", 100, 1.0, "p");
    let mut head = cell("a", "local", 500, 1.0, "q");
    head.instance = Some(InstanceFacts {
        hash: "other".to_owned(),
        ..InstanceFacts::default()
    });
    let result = compare(&[base], &[head]);
    assert_eq!(
        (result.cells[0].verdict, result.exit_code()),
        (Verdict::Incomparable, EXIT_OK)
    );
    assert!(result.cells[0].layouts.is_empty());
    assert!(
        result
            .text()
            .contains("instance changed: instance-of-a to other, 12 to 0 operators"),
        "{}",
        result.text()
    );
}

#[test]
fn changed_layouts_are_listed() {
    let result = compare(
        &[cell("a", "local", 100, 1.0, "NCHW")],
        &[cell("a", "local", 100, 1.0, "NHWC")],
    );
    assert!(
        result.text().contains("    t0: NCHW to NHWC"),
        "{}",
        result.text()
    );
}

#[test]
fn latency_is_judged_by_processes_and_decides_only_where_the_policy_says() {
    let base = cell("a", "local", 100, 1.0, "p");
    let slow = cell("a", "local", 100, 1.5, "p");
    let latency_of = |result: &RunDiff| result.cells[0].latency.clone().unwrap();
    let result = compare(std::slice::from_ref(&base), std::slice::from_ref(&slow));
    assert_eq!(
        (latency_of(&result).verdict, result.exit_code()),
        (Verdict::Regressed, EXIT_OK)
    );
    let strict = Policy {
        latency_decides: true,
        ..Policy::default()
    };
    assert_eq!(
        compare_with(std::slice::from_ref(&base), std::slice::from_ref(&slow), strict).exit_code(),
        EXIT_WORSE
    );

    let mut few = slow.clone();
    few.latency = Some(latency(1.5)).map(|mut latency| {
        latency.processes.truncate(4);
        latency
    });
    let result = compare(std::slice::from_ref(&base), &[few]);
    assert_eq!(
        latency_of(&result).verdict,
        Verdict::Inconclusive,
        "{:?}",
        latency_of(&result)
    );

    let mut noisy = slow.clone();
    if let Some(latency) = &mut noisy.latency {
        latency.noise = Some(0.6);
    }
    assert_eq!(
        latency_of(&compare(std::slice::from_ref(&base), &[noisy])).verdict,
        Verdict::Same
    );

    let simulated = CellRecord {
        simulated: true,
        ..slow.clone()
    };
    assert_eq!(
        latency_of(&compare(std::slice::from_ref(&base), &[simulated])).verdict,
        Verdict::Incomparable
    );

    let mut other = RunManifest::default();
    other.machine.cpu = "another".to_owned();
    let (here, there) = (RunManifest::default(), other);
    let (bases, heads) = ([base], [slow]);
    let result = diff(
        Side {
            records: &bases,
            manifest: Some(&here),
        },
        Side {
            records: &heads,
            manifest: Some(&there),
        },
        Policy::default(),
    );
    assert!(
        latency_of(&result).reason.contains("machines differ: cpu"),
        "{:?}",
        latency_of(&result)
    );
}

#[test]
fn runs_without_a_common_cell_are_an_error() {
    let result = compare(
        &[cell("a", "local", 1, 1.0, "p")],
        &[cell("b", "local", 1, 1.0, "p")],
    );
    assert_eq!(result.exit_code(), EXIT_ERROR);
    assert_eq!((result.only_base.len(), result.only_head.len()), (1, 1));
}

#[test]
fn formats_are_capped_escaped_and_versioned() {
    let base: Vec<CellRecord> = (0..5)
        .map(|i| cell(&format!("m|{i}<&\">"), "local", 10, 1.0, "p"))
        .collect();
    let head: Vec<CellRecord> = (0..5)
        .map(|i| cell(&format!("m|{i}<&\">"), "local", 11, 1.0, "q"))
        .collect();
    let result = compare_with(
        &base,
        &head,
        Policy {
            max_rows: 2,
            ..Policy::default()
        },
    );
    let markdown = result.markdown();
    assert!(
        markdown.contains("And 3 more cells") && markdown.contains("m\\|0"),
        "{markdown}"
    );
    let junit = result.junit();
    assert!(
        junit.contains("tests=\"5\" failures=\"5\"") && junit.contains("m|0&lt;&amp;&quot;&gt;"),
        "{junit}"
    );
    let json: serde_json::Value = serde_json::from_str(&result.json().unwrap()).unwrap();
    assert_eq!(
        (&json["format"], &json["cells"][0]["verdict"]),
        (&"relayout-diff/1".into(), &"regressed".into())
    );
}
