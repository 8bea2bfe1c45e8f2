//! The Parquet and CSV data set: round trip, nulls for failures, version, atomicity.

use crate::support::{cell, failed, study};
use relayout::record::{CellStatus, Failure, Phase, SCHEMA};
use relayout::records::{self, RecordsError};
use serde_json::Value;
use std::fs;

#[test]
fn cells_and_samples_come_back_as_written() {
    let dir = tempfile::tempdir().unwrap();
    let good = cell("a", "local", 123_456_789_012_345, 0.1 + 0.2, "p");
    let mut bad = failed("a", "greedy", CellStatus::Crashed { signal: 11 });
    bad.failure = Some(Failure {
        phase: Phase::Compile,
        message: "quote \" comma , newline\n".to_owned(),
        stderr_tail: String::new(),
    });
    records::derive(dir.path(), &[good.clone(), bad.clone()]).unwrap();

    let cells = records::read(&dir.path().join("cells.parquet")).unwrap();
    assert_eq!(
        (cells.schema, cells.table.as_str(), cells.rows.len()),
        (SCHEMA, "cells", 2)
    );
    let row_of = |id: &str| {
        cells
            .column("cell")
            .unwrap()
            .iter()
            .position(|value| value.as_str() == Some(id))
            .unwrap()
    };
    let value = |name: &str, row: usize| cells.column(name).unwrap()[row].clone();
    let (good_row, bad_row) = (row_of(&good.id), row_of(&bad.id));
    assert_eq!(value("predicted_cost", good_row), 123_456_789_012_345u64);
    assert_eq!(value("latency_median_ms", good_row), 0.1 + 0.2);
    assert_eq!(value("status", bad_row), "crashed");
    assert_eq!(value("status_detail", bad_row), "signal 11");
    assert_eq!(value("failure_message", bad_row), "quote \" comma , newline\n");
    for (name, row) in cells.columns.iter().zip(&cells.rows[bad_row]) {
        if name.starts_with("latency") || (name.contains("cost") && name != "cost_model") || name == "samples"
        {
            assert_eq!(*row, Value::Null, "{name} of a failed cell");
        }
    }

    let samples = records::read(&dir.path().join("samples.parquet")).unwrap();
    assert_eq!((samples.table.as_str(), samples.rows.len()), ("samples", 15));
    let expected: Vec<f64> = good
        .latency
        .iter()
        .flat_map(|l| l.processes.iter().flat_map(|p| p.samples_ms.clone()))
        .collect();
    let read: Vec<f64> = samples
        .column("value")
        .unwrap()
        .iter()
        .filter_map(|value| value.as_f64())
        .collect();
    assert_eq!(read, expected);
    assert!(
        samples
            .column("unit")
            .unwrap()
            .iter()
            .all(|unit| unit.as_str() == Some("ms"))
    );

    let csv = fs::read_to_string(dir.path().join("cells.csv")).unwrap();
    assert!(csv.starts_with("schema,cell,model,"), "{csv}");
    assert!(csv.contains("\"quote \"\" comma , newline\n\""), "{csv}");
}

#[test]
fn deriving_is_repeatable_and_ignores_order() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut data = study(4);
    records::derive(first.path(), &data).unwrap();
    data.reverse();
    records::derive(second.path(), &data).unwrap();
    records::derive(second.path(), &data).unwrap();
    for name in ["cells.parquet", "cells.csv", "samples.parquet"] {
        assert!(
            fs::read(first.path().join(name)).unwrap() == fs::read(second.path().join(name)).unwrap(),
            "{name}"
        );
    }
    assert_eq!(
        fs::read_dir(second.path()).unwrap().count(),
        3,
        "no temporary files are left"
    );
}

#[test]
fn an_empty_run_has_empty_tables() {
    let dir = tempfile::tempdir().unwrap();
    records::derive(dir.path(), &[]).unwrap();
    for name in ["cells.parquet", "samples.parquet"] {
        let rows = records::read(&dir.path().join(name)).unwrap();
        assert!(rows.rows.is_empty() && !rows.columns.is_empty(), "{name}");
    }
}

#[test]
fn bad_files_are_errors_that_name_the_file() {
    let dir = tempfile::tempdir().unwrap();
    records::derive(dir.path(), &study(2)).unwrap();
    let path = dir.path().join("cells.parquet");
    let bytes = fs::read(&path).unwrap();
    for cut in [0, 3, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&path, &bytes[..cut]).unwrap();
        let error = records::read(&path).unwrap_err().to_string();
        assert!(error.contains("cells.parquet"), "{error}");
    }
    let missing = records::read(&dir.path().join("nothing.parquet")).unwrap_err();
    assert!(matches!(missing, RecordsError::Io { .. }), "{missing}");
    // The version is text in the footer's metadata: a later one is refused.
    let at = bytes
        .windows(15)
        .position(|window| window == b"relayout.schema")
        .unwrap();
    let mut later = bytes.clone();
    let digit = (at + 15..later.len())
        .find(|&index| later[index] == b'1')
        .unwrap();
    later[digit] = b'9';
    fs::write(&path, later).unwrap();
    assert!(matches!(records::read(&path), Err(RecordsError::Version { found, .. }) if found == "9"));
}
