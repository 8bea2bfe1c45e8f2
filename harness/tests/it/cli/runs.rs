//! Runs: `diff`, `plot`.

use super::relayout_in;
use crate::support::cell;
use relayout::journal::Journal;
use relayout::record::{CellRecord, Phase, RunManifest};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn write_run(folder: &Path, records: &[CellRecord]) {
    let journal = Journal::open(&folder.join("journal")).unwrap();
    for record in records {
        journal.write(Phase::Done, record).unwrap();
    }
    fs::write(
        folder.join("run.json"),
        serde_json::to_string(&RunManifest::default()).unwrap(),
    )
    .unwrap();
}

#[test]
fn diff_exits_by_verdict_in_every_format() {
    let folder = TempDir::new().unwrap();
    let run = |name: &str, cost: u64, layout: &str| {
        write_run(
            &folder.path().join(name),
            &[cell("m", "local", cost, 1.0, layout)],
        );
    };
    run("base", 100, "NCHW");
    run("worse", 101, "NHWC");
    run("better", 99, "NHWC");
    write_run(
        &folder.path().join("other"),
        &[cell("n", "local", 1, 1.0, "NCHW")],
    );
    let diff =
        |head: &str, more: &[&str]| relayout_in(folder.path(), &[&["diff", "base", head], more].concat());
    assert_eq!(diff("base", &[]).expect(0).out, "1 cells compared: 1 same\n");
    assert!(diff("worse", &[]).expect(1).out.contains("cost: 100 to 101"));
    diff("better", &[]).expect(0);
    diff("other", &[]).expect(2);
    assert_eq!(
        diff("worse", &["--format", "json"]).expect(1).json()["cells"][0]["verdict"],
        "regressed"
    );
    assert!(
        diff("worse", &["--format", "junit"])
            .expect(1)
            .out
            .starts_with("<?xml")
    );
    assert!(
        diff("worse", &["--format", "md"])
            .expect(1)
            .out
            .contains("| regressed |")
    );
    let missing = diff("no-such-run", &[]).expect(2);
    assert!(missing.err.contains("no-such-run"), "{}", missing.err);
    fs::write(folder.path().join("policy.yaml"), "alfa: 0.1\n").unwrap();
    let policy = diff("worse", &["--policy", "policy.yaml"]).expect(2);
    assert!(
        policy.err.contains("policy.yaml") && policy.err.contains("alfa"),
        "{}",
        policy.err
    );
    fs::write(
        folder.path().join("policy.yaml"),
        "alpha: 0.05\nlatency_decides: true\n",
    )
    .unwrap();
    diff("worse", &["--policy", "policy.yaml"]).expect(1);
}

#[test]
fn plot_writes_what_it_prints() {
    let folder = TempDir::new().unwrap();
    write_run(&folder.path().join("run"), &crate::support::study(4));
    let done = relayout_in(folder.path(), &["plot", "run", "-o", "figures"]).expect(0);
    let files: Vec<&str> = done.out.lines().collect();
    assert!(
        files.iter().any(|f| f.ends_with(".svg")) && files.iter().any(|f| f.ends_with("latency.md")),
        "{files:?}"
    );
    for file in files {
        assert!(folder.path().join(file).is_file(), "{file}");
    }
    relayout_in(folder.path(), &["plot", "run"]).expect(0);
    assert!(folder.path().join("run/plots/README.md").is_file());
    relayout_in(folder.path(), &["plot", "figures"]).expect(2);
}
