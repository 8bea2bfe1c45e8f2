//! The journal: durability, tolerance, corruption, the lock, resumption.

use crate::support::{cell, failed, uniform};
use proptest::prelude::*;
use relayout::journal::{self, Journal, JournalError, WriteError};
use relayout::record::{CellRecord, CellStatus, Failure, MemoryKind, Phase};
use std::fs;
use std::path::{Path, PathBuf};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// A cell all of whose numbers are short in binary: reading JSON may move the last bit of a long fraction.
fn exact(model: &str) -> CellRecord {
    CellRecord {
        latency: Some(uniform(2.5)),
        correctness: None,
        ..cell(model, "local", 12345, 2.5, "p")
    }
}

fn done_file(folder: &Path, record: &CellRecord) -> PathBuf {
    folder.join(format!("{}.done.jsonl", record.id))
}

#[test]
fn what_is_written_is_read_back() {
    let dir = folder();
    let journal = Journal::open(dir.path()).unwrap();
    let mut record = exact("a");
    record.failure = Some(Failure {
        phase: Phase::Run,
        message: "line one\nline \"two\"".to_owned(),
        stderr_tail: "ünïcode\u{0}\u{1b}[31m".to_owned(),
    });
    for phase in Phase::ALL {
        journal.write(phase, &record).unwrap();
    }
    let contents = journal.read().unwrap();
    assert!(contents.corrupt.is_empty() && contents.temporaries.is_empty());
    assert_eq!(contents.cells[&record.id].len(), 5);
    assert_eq!(contents.done(&record.id), Some(&record));
}

#[test]
fn every_status_survives_the_journal() {
    let statuses = [
        CellStatus::Pending,
        CellStatus::Mismatch,
        CellStatus::InstanceFailed,
        CellStatus::SolveFailed,
        CellStatus::Infeasible,
        CellStatus::NoPlan,
        CellStatus::MissingHints,
        CellStatus::SolverTimeout,
        CellStatus::SolverOutOfMemory,
        CellStatus::CheckFailed,
        CellStatus::CompileError,
        CellStatus::RunError,
        CellStatus::Crashed { signal: 11 },
        CellStatus::Exited { code: 3 },
        CellStatus::Timeout {
            phase: Phase::Compile,
        },
        CellStatus::OutOfMemory {
            memory: MemoryKind::Device,
        },
        CellStatus::Skipped {
            reason: "solver z3 is not built in".to_owned(),
        },
    ];
    let dir = folder();
    let journal = Journal::open(dir.path()).unwrap();
    for (index, status) in statuses.iter().enumerate() {
        journal
            .write(
                Phase::Done,
                &failed(&format!("m{index}"), "local", status.clone()),
            )
            .unwrap();
    }
    let contents = journal.read().unwrap();
    assert_eq!(contents.done_records().count(), statuses.len());
    for (index, status) in statuses.iter().enumerate() {
        let id = failed(&format!("m{index}"), "local", status.clone()).id;
        let record = contents.done(&id).unwrap();
        assert_eq!(&record.status, status);
        assert_eq!((record.median_ms(), record.predicted_cost()), (None, None));
    }
}

#[test]
fn records_of_later_versions_are_read_as_far_as_they_go() {
    let text = serde_json::to_string(&failed("a", "local", CellStatus::Pending)).unwrap();
    let later = text
        .replace(r#"{"kind":"pending"}"#, r#"{"kind":"melted","degrees":3000}"#)
        .replace(r#"{"schema":1"#, r#"{"invented_later":[1,2],"schema":1"#);
    assert_ne!(text, later);
    let record: CellRecord = serde_json::from_str(&later).unwrap();
    assert_eq!(record.status, CellStatus::Unrecognised);
}

#[test]
fn temporary_files_are_reported_by_readers_and_swept_by_the_next_writer() {
    let dir = folder();
    let record = cell("a", "local", 1, 1.0, "p");
    Journal::open(dir.path())
        .unwrap()
        .write(Phase::Solve, &record)
        .unwrap();
    let partial = dir.path().join(format!(".{}.done.jsonl.4242.tmp", record.id));
    fs::write(&partial, "{\"format\":\"relayout-jour").unwrap();

    let contents = journal::read(dir.path()).unwrap();
    assert_eq!(contents.temporaries, std::slice::from_ref(&partial));
    assert!(contents.corrupt.is_empty());
    assert!(contents.done(&record.id).is_none());

    let journal = Journal::open(dir.path()).unwrap();
    assert!(!partial.exists());
    assert!(journal.read().unwrap().temporaries.is_empty());
}

#[test]
fn a_record_cut_anywhere_is_corrupt_and_its_cell_incomplete() {
    let dir = folder();
    let record = exact("a");
    let journal = Journal::open(dir.path()).unwrap();
    journal.write(Phase::Run, &record).unwrap();
    journal.write(Phase::Done, &record).unwrap();
    let path = done_file(dir.path(), &record);
    let whole = fs::read(&path).unwrap();
    for cut in (0..whole.len()).step_by(37).chain([whole.len() - 1]) {
        fs::write(&path, &whole[..cut]).unwrap();
        let contents = journal.read().unwrap();
        assert_eq!(contents.corrupt.len(), 1, "cut at {cut} of {}", whole.len());
        assert_eq!(contents.corrupt[0].path, path);
        let resumption = contents.resume([record.id.as_str()], |_| false);
        assert_eq!(resumption.interrupted, [(record.id.clone(), Phase::Run)]);
    }
    // Writing again heals it.
    journal.write(Phase::Done, &record).unwrap();
    assert_eq!(journal.read().unwrap().done(&record.id), Some(&record));
}

#[test]
fn each_kind_of_corruption_has_its_reason() {
    let record = cell("a", "local", 1, 1.0, "p");
    let other = cell("b", "local", 1, 1.0, "p");
    let dir = folder();
    let journal = Journal::open(dir.path()).unwrap();
    journal.write(Phase::Done, &record).unwrap();
    let path = done_file(dir.path(), &record);
    let text = fs::read_to_string(&path).unwrap();
    let newer = CellRecord {
        schema: 99,
        ..record.clone()
    };
    let reason_of = |contents: &str| {
        fs::write(&path, contents).unwrap();
        let read = journal.read().unwrap();
        assert!(read.done(&record.id).is_none());
        read.corrupt[0].reason.clone()
    };
    assert!(reason_of(&text.replace("\"model\":\"a\"", "\"model\":\"c\"")).starts_with("checksum"));
    assert!(
        reason_of(&text.replace("relayout-journal/1", "relayout-journal/9")).contains("relayout-journal/9")
    );
    assert!(reason_of(&text.replacen(&record.id, &other.id, 1)).contains("the name says otherwise"));
    assert!(reason_of("").contains("truncated"));
    assert!(reason_of("not json\n{}\n").contains("header is not readable"));

    journal.write(Phase::Done, &newer).unwrap();
    assert!(
        journal.read().unwrap().corrupt[0]
            .reason
            .contains("schema version 99")
    );
    fs::remove_file(&path).unwrap();

    for (name, expected) in [
        ("notes.txt", "form CELL.PHASE"),
        ("x.polish.jsonl", "unknown phase \"polish\""),
    ] {
        let stray = dir.path().join(name);
        fs::write(&stray, "").unwrap();
        let read = journal.read().unwrap();
        assert!(read.corrupt[0].reason.contains(expected), "{:?}", read.corrupt);
        fs::remove_file(&stray).unwrap();
    }
}

#[test]
fn a_second_writer_is_refused_and_told_who_holds_the_lock() {
    let dir = folder();
    let first = Journal::open(dir.path()).unwrap();
    match Journal::open(dir.path()) {
        Err(error @ JournalError::Locked { pid, .. }) => {
            assert_eq!(pid, Some(std::process::id()));
            assert!(
                error.to_string().contains(&std::process::id().to_string()),
                "{error}"
            );
        }
        other => panic!("expected Locked, found {other:?}"),
    }
    // Reading needs no lock, and the lock goes with its holder.
    assert!(journal::read(dir.path()).is_ok());
    drop(first);
    assert!(Journal::open(dir.path()).is_ok());
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_its_own_error_and_keeps_the_prior_contents() {
    use std::io::Write;
    let dir = folder();
    let path = dir.path().join("kept");
    journal::atomic::write(&path, b"prior").unwrap();
    // The kernel's always-full device gives the error a full disk gives.
    let error = journal::atomic::write_with(&path, |_| {
        fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")?
            .write_all(b"x")
    })
    .unwrap_err();
    assert!(matches!(error, WriteError::DiskFull { .. }), "{error:?}");
    assert!(JournalError::from(error).is_disk_full());
    assert_eq!(fs::read(&path).unwrap(), b"prior");
    assert_eq!(
        fs::read_dir(dir.path()).unwrap().count(),
        1,
        "the temporary file is removed"
    );
}

#[test]
fn an_unwritable_place_is_an_error_that_names_it() {
    let dir = folder();
    let blocker = dir.path().join("file");
    fs::write(&blocker, "").unwrap();
    let error = Journal::open(&blocker.join("journal")).unwrap_err();
    assert!(!error.is_disk_full());
    assert!(error.to_string().contains("journal"), "{error}");
}

#[test]
fn ids_that_would_leave_the_folder_are_refused() {
    let dir = folder();
    let journal = Journal::open(dir.path()).unwrap();
    for id in ["", "../x", "a/b", "a.b", "ä"] {
        let record = CellRecord {
            id: id.to_owned(),
            ..cell("a", "local", 1, 1.0, "p")
        };
        assert!(
            matches!(
                journal.write(Phase::Done, &record),
                Err(JournalError::BadCellId { .. })
            ),
            "{id:?}"
        );
    }
}

#[test]
fn resumption_splits_a_plan() {
    let dir = folder();
    let journal = Journal::open(dir.path()).unwrap();
    let good = cell("good", "local", 1, 1.0, "p");
    let bad = failed("bad", "local", CellStatus::Crashed { signal: 9 });
    let begun = cell("begun", "local", 1, 1.0, "p");
    let foreign = cell("foreign", "local", 1, 1.0, "p");
    for record in [&good, &bad, &foreign] {
        journal.write(Phase::Done, record).unwrap();
    }
    journal.write(Phase::Instance, &begun).unwrap();
    journal.write(Phase::Solve, &begun).unwrap();
    let plan = [bad.id.as_str(), "never-run", begun.id.as_str(), good.id.as_str()];
    let contents = journal.read().unwrap();

    let resumption = contents.resume(plan, |_| false);
    assert_eq!(resumption.complete, [bad.id.clone(), good.id.clone()]);
    assert_eq!(resumption.interrupted, [(begun.id.clone(), Phase::Solve)]);
    assert_eq!(resumption.missing, ["never-run"]);
    assert_eq!(resumption.foreign, std::slice::from_ref(&foreign.id));

    let resumption = contents.resume(plan, CellStatus::is_failure);
    assert_eq!(
        (resumption.complete, resumption.rerun),
        (vec![good.id.clone()], vec![bad.id.clone()])
    );

    journal.forget(&bad.id).unwrap();
    assert_eq!(
        journal.read().unwrap().resume(plan, |_| false).missing,
        [bad.id.as_str(), "never-run"]
    );
}

#[test]
fn the_identity_of_a_cell_ignores_spelling_and_sees_every_coordinate() {
    let base = cell("a", "local", 1, 1.0, "p").key;
    let mut same = base.clone();
    same.family = "another label".to_owned();
    assert_eq!(base.id(), same.id());
    let mut forward = base.clone();
    let mut backward = base.clone();
    for name in ["layers", "hidden"] {
        forward.overrides.insert(name.to_owned(), "2".to_owned());
    }
    for name in ["hidden", "layers"] {
        backward.overrides.insert(name.to_owned(), "2".to_owned());
    }
    assert_eq!(forward.id(), backward.id());

    let mut variants = vec![base.id(), forward.id(), base.id_with(&[("budget", "60s")])];
    for change in 0..9 {
        let mut key = base.clone();
        match change {
            0 => key.model.push('x'),
            1 => key.batch = None,
            2 => key.target.push('x'),
            3 => key.cost_model.push('x'),
            4 => key.strategy.push('x'),
            5 => key.solver = Some("rustsat".to_owned()),
            6 => key.threads = 2,
            7 => key.seed = 8,
            _ => drop(key.dims.insert("seq".to_owned(), 2)),
        }
        variants.push(key.id());
    }
    let distinct: std::collections::BTreeSet<_> = variants.iter().collect();
    assert_eq!(distinct.len(), variants.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Flipping any byte of a record never yields a record that differs from what was written.
    #[test]
    fn a_flipped_byte_is_never_read_as_another_record(position in 0usize..4096, flip in 1u8..=255) {
        let dir = folder();
        let record = exact("a");
        Journal::open(dir.path()).unwrap().write(Phase::Done, &record).unwrap();
        let path = done_file(dir.path(), &record);
        let mut bytes = fs::read(&path).unwrap();
        let position = position % bytes.len();
        bytes[position] ^= flip;
        fs::write(&path, bytes).unwrap();
        let contents = journal::read(dir.path()).unwrap();
        match contents.done(&record.id) {
            Some(read) => prop_assert_eq!(read, &record),
            None => prop_assert_eq!(contents.corrupt.len(), 1),
        }
    }
}
