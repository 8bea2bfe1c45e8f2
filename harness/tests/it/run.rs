//! `relayout run` as a user starts it: what it leaves, what it says, and how it refuses.

use assert_cmd::Command;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Two models that run in milliseconds and whose strategies choose differently.
pub const TINY: &str = "\
name: tiny
models: [example-reduce, small-cnn]
strategies: [local, greedy, exact]
budget: { time: 5s }
measure: { warmup: 0, samples: 3, min_time: 0s, max_time: 1s }
";

/// A folder with a configuration in it; the run goes to `out`.
pub fn folder(config: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("tiny.yaml"), config).expect("the configuration");
    let out = folder.path().join("out");
    (folder, out)
}

/// Name and contents of the journal's records.
pub fn journal(out: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(out.join("journal")).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".jsonl") {
            files.insert(name, fs::read(entry.path()).expect("a record"));
        }
    }
    files
}

/// Every file of a folder and of those in it.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

fn relayout(folder: &TempDir, arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_relayout"))
        .current_dir(folder.path())
        .args(arguments)
        .output()
        .expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (
        output.status.code().expect("an exit code"),
        text(output.stdout),
        text(output.stderr),
    )
}

const RUN: [&str; 4] = ["run", "tiny.yaml", "-o", "out"];

fn run_with(folder: &TempDir, more: &[&str]) -> (i32, String, String) {
    relayout(folder, &[&RUN, more].concat())
}

#[test]
fn a_run_leaves_records_a_data_set_figures_and_a_table_and_a_second_one_does_nothing() {
    let (folder, out) = folder(TINY);
    let (code, stdout, stderr) = run_with(&folder, &[]);
    assert_eq!(code, 0, "{stderr}");
    for cell in [
        "example-reduce",
        "small-cnn",
        "| family | model | local | greedy | solver-based |",
        "6 cells: 6 well, 0 failed",
    ] {
        assert!(stdout.contains(cell), "{cell} is not in\n{stdout}");
    }
    assert!(!stdout.contains('\u{1b}'), "standard output has terminal escapes");
    for file in [
        "run.json",
        "cells.parquet",
        "samples.parquet",
        "plots/fig5-relative-performance.svg",
        "plots/latency.csv",
    ] {
        assert!(fs::metadata(out.join(file)).is_ok_and(|m| m.len() > 0), "{file}");
    }
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(out.join("run.json")).unwrap()).unwrap();
    assert!(manifest["finished_unix_ms"].as_u64() >= manifest["started_unix_ms"].as_u64());
    let first = journal(&out);
    assert_eq!(first.keys().filter(|n| n.ends_with(".done.jsonl")).count(), 6);
    let contents = relayout::journal::read(&out.join("journal")).unwrap();
    for record in contents.done_records() {
        assert!(record.correctness.is_some_and(|c| c.passed()), "{record:?}");
        assert!(record.median_ms().is_some_and(|ms| ms > 0.0));
    }
    let optimum = |strategy: &str| {
        let cost =
            |r: &&relayout::record::CellRecord| r.key.model == "small-cnn" && r.key.strategy == strategy;
        contents
            .done_records()
            .find(cost)
            .and_then(|r| r.predicted_cost())
            .expect("a cost")
    };
    assert!(optimum("exact") <= optimum("greedy") && optimum("exact") < optimum("local"));

    let (code, again, stderr) = run_with(&folder, &[]);
    assert_eq!(code, 0);
    assert!(
        stderr.contains("all 6 cells are complete; nothing to do"),
        "{stderr}"
    );
    assert_eq!(again, stdout, "the same records make the same table");
    assert_eq!(journal(&out), first);

    // What is run again is what was asked for.
    let (code, _, stderr) = run_with(&folder, &["--rerun", "failed"]);
    assert!(code == 0 && stderr.contains("nothing to do"), "{stderr}");
    // A change of the configuration that decides results makes new cells, and keeps the old ones.
    let (code, _, stderr) = run_with(
        &folder,
        &["measure.samples=4", "--filter", "model=example-reduce"],
    );
    assert_eq!(code, 0, "{stderr}");
    let second = journal(&out);
    assert!(first.iter().all(|(name, bytes)| second.get(name) == Some(bytes)));
    assert_eq!(second.keys().filter(|n| n.ends_with(".done.jsonl")).count(), 9);
}

#[test]
fn a_dry_run_lists_the_cells_that_filter_and_shard_leave_and_writes_nothing() {
    let (folder, out) = folder(TINY);
    let list = |more: &[&str]| {
        let (code, stdout, stderr) = run_with(&folder, &[&["--dry-run"], more].concat());
        assert_eq!(code, 0, "{stderr}");
        let mut lines: Vec<String> = stdout.lines().map(str::to_owned).collect();
        let summary = lines.pop().expect("a summary");
        (lines, summary)
    };
    let (all, summary) = list(&[]);
    assert_eq!((all.len(), summary.as_str()), (6, "6 cells in 2 groups"));
    let (some, summary) = list(&["--filter", "model=small*,strategy!=greedy"]);
    assert_eq!((some.len(), summary.as_str()), (2, "2 cells in 1 groups"));
    assert!(
        some.iter()
            .all(|l| all.contains(l) && l.contains("small-cnn") && !l.contains("greedy"))
    );
    let (mut parts, second) = (list(&["--shard", "1/2"]).0, list(&["--shard", "2/2"]).0);
    assert!(!parts.is_empty() && !second.is_empty());
    parts.extend(second);
    parts.sort();
    let mut sorted = all.clone();
    sorted.sort();
    assert_eq!(parts, sorted, "the shards are a partition");
    let (code, stdout, _) = run_with(&folder, &["--dry-run", "--json"]);
    let plan: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!((code, plan["cells"].as_array().map(Vec::len)), (0, Some(6)));
    assert!(!out.exists());
}

#[test]
fn what_cannot_be_run_is_refused_with_code_2_before_anything_is_written() {
    let (folder, out) = folder(TINY);
    fs::write(folder.path().join("cut.onnx"), [0x08, 0x07, 0x12, 0x7f, 0x6f]).unwrap();
    fs::write(
        folder.path().join("wrong.yaml"),
        TINY.replace("small-cnn", "smal-cnn"),
    )
    .unwrap();
    fs::write(folder.path().join("binary.yaml"), [0xff, 0xfe, 0x00]).unwrap();
    for (arguments, expected) in [
        (
            vec!["run", "wrong.yaml", "-o", "out"],
            "wrong.yaml:2:26: unknown model `smal-cnn`",
        ),
        (
            vec!["run", "wrong.yaml", "-o", "out"],
            "did you mean `small-cnn`?",
        ),
        (vec!["run", "none.yaml", "-o", "out"], "none.yaml"),
        (vec!["run", "binary.yaml", "-o", "out"], "binary.yaml"),
        (
            [&RUN[..], &["--filter", "model=bert"]].concat(),
            "no cell passes the filter `model=bert`",
        ),
        (
            [&RUN[..], &["--filter", "modle=bert"]].concat(),
            "did you mean `model`?",
        ),
        ([&RUN[..], &["--filter", "bert"]].concat(), "expected FIELD=GLOB"),
        ([&RUN[..], &["--shard", "3/2"]].concat(), "1/4"),
        ([&RUN[..], &["--rerun", "melted"]].concat(), "melted"),
        ([&RUN[..], &["models=[cut.onnx]"]].concat(), "cut.onnx"),
        (
            [&RUN[..], &["models=[absent.onnx, 'small-cnn sides=3']"]].concat(),
            "absent.onnx",
        ),
        (
            [&RUN[..], &["models=[absent.onnx, 'small-cnn sides=3']"]].concat(),
            "sides",
        ),
        (
            [&RUN[..], &["models=[{model: small-cnn, dims: {s: 3}}]"]].concat(),
            "no symbolic dimension `s`",
        ),
        ([&RUN[..], &["targets=[absent.yaml]"]].concat(), "absent.yaml"),
    ] {
        let (code, stdout, stderr) = relayout(&folder, &arguments);
        assert_eq!(code, 2, "{arguments:?}: {stderr}");
        assert!(
            stdout.is_empty() && stderr.contains(expected),
            "{arguments:?}: {expected:?} is not in\n{stderr}"
        );
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
    assert!(!out.exists());
}

#[test]
fn two_runs_of_one_folder_at_a_time_are_refused() {
    let (folder, out) = folder(TINY);
    let held = relayout::journal::Journal::open(&out.join("journal")).expect("the lock");
    let (code, _, stderr) = run_with(&folder, &[]);
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("is in use by another run"), "{stderr}");
    drop(held);
}

#[test]
fn several_rounds_give_as_many_processes_and_a_noise() {
    let (folder, out) = folder(TINY);
    let (code, _, stderr) = run_with(&folder, &["measure.rounds=2", "--filter", "model=example-reduce"]);
    assert_eq!(code, 0, "{stderr}");
    let contents = relayout::journal::read(&out.join("journal")).unwrap();
    assert_eq!(contents.done_records().count(), 3);
    for record in contents.done_records() {
        let latency = record.latency.as_ref().expect("a latency");
        assert_eq!(latency.processes.len(), 2);
        assert!(latency.noise.is_some_and(|n| n >= 0.0));
    }
    assert!(
        files(&out.join("modules")).is_empty(),
        "modules are kept only while their cells are measured"
    );
}

#[test]
fn a_damaged_record_is_reported_and_its_cell_alone_runs_again() {
    let (folder, out) = folder(TINY);
    assert_eq!(run_with(&folder, &["--filter", "model=example-reduce"]).0, 0);
    let before = journal(&out);
    let name = before
        .keys()
        .find(|n| n.ends_with(".done.jsonl"))
        .expect("a record")
        .clone();
    let path = out.join("journal").join(&name);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        text.replacen("\"example-reduce\"", "\"example-reduCe\"", 1),
    )
    .unwrap();
    let (code, _, stderr) = run_with(&folder, &["--filter", "model=example-reduce"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stderr.contains(&name) && stderr.contains("runs again"),
        "{stderr}"
    );
    let cell = name.split('.').next().expect("a cell");
    let after = journal(&out);
    for (name, bytes) in &before {
        assert_eq!(after.get(name) == Some(bytes), !name.starts_with(cell), "{name}");
    }
}

/// toulbar2's output around `relayout solve`: what is under test solves, so that no other solver need be there.
const AS_TOULBAR2: &str = r#"
out=$("$1" solve "$2" --strategy exact --json | tr -d ' \n')
cost=$(echo "$out" | sed 's/.*"cost":\([0-9]*\),.*/\1/')
values=$(echo "$out" | sed 's/.*"assignment":\[\([0-9,]*\)\].*/\1/' | tr ',' ' ')
requests=$(grep -c '^"y[0-9]*_[0-9]*":2' "$2")
echo "New solution: $cost (0 backtracks)"
echo " $values $(yes 0 | head -n "$requests" | tr '\n' ' ')"
echo "Optimum: $cost in 0 backtracks"
"#;

#[test]
fn an_outside_solver_is_a_column() {
    let (folder, out) = folder("");
    fs::write(folder.path().join("solver"), AS_TOULBAR2).expect("a script");
    let script = folder.path().join("solver");
    let configuration = |options: &str| {
        let command = format!(
            "sh {} {} {{instance}} {options}",
            script.display(),
            env!("CARGO_BIN_EXE_relayout")
        );
        let entry = format!("{{ external: outside, command: '{command}', format: cfn }}");
        TINY.replace(
            "greedy, exact]",
            &format!("exact, {entry}]\nsolver_based: outside"),
        )
    };
    fs::write(folder.path().join("tiny.yaml"), configuration("")).expect("the configuration");
    let (code, stdout, stderr) = relayout(&folder, &["run", "tiny.yaml", "-o", "out"]);
    assert_eq!(code, 0, "{stdout}\n{stderr}");
    let contents = relayout::journal::read(&out.join("journal")).expect("records");
    let of = |strategy: &str| -> Vec<_> {
        let mut found: Vec<_> = contents
            .done_records()
            .filter(|r| r.key.strategy == strategy)
            .collect();
        found.sort_by_key(|r| r.key.model.clone());
        found
            .into_iter()
            .map(|r| (r.key.model.clone(), r.predicted_cost(), r.status.clone()))
            .collect()
    };
    assert_eq!(of("outside").len(), 2);
    assert_eq!(of("outside"), of("exact"));
    // The same label with another command is another cell.
    let before = journal(&out).len();
    fs::write(folder.path().join("tiny.yaml"), configuration("again")).expect("the configuration");
    let (code, _, stderr) = relayout(&folder, &["run", "tiny.yaml", "-o", "out"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(journal(&out).len() > before);
}
