//! Runs that are killed at arbitrary moments, and interrupted ones: nothing is lost, nothing is done twice.

use crate::run::{TINY, files, folder, journal};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Deterministic moments: a linear congruential generator (Knuth's MMIX constants).
struct Moments(u64);

impl Moments {
    fn next(&mut self, below: Duration) -> Duration {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        below.mul_f64((self.0 >> 40) as f64 / (1u64 << 24) as f64)
    }
}

fn start(folder: &Path, more: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_relayout"))
        .current_dir(folder)
        .args(["run", "tiny.yaml", "-o", "out"])
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts")
}

fn planned(folder: &Path, more: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_relayout"))
        .current_dir(folder)
        .args(["run", "tiny.yaml", "-o", "out", "--dry-run", "--json"])
        .args(more)
        .output()
        .expect("the program starts");
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a plan");
    let id = |c: &serde_json::Value| c["id"].as_str().expect("an id").to_owned();
    plan["cells"].as_array().expect("cells").iter().map(id).collect()
}

fn done(out: &Path) -> BTreeMap<String, Vec<u8>> {
    journal(out)
        .into_iter()
        .filter_map(|(n, b)| Some((n.strip_suffix(".done.jsonl")?.to_owned(), b)))
        .collect()
}

/// Waits for the end of a run; one that never ends fails the test and is not left behind.
fn finish(mut child: Child) -> Option<i32> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().expect("a status") {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("the run did not end");
}

/// Kills `kills` times within `window` of the start, then lets the run finish; returns how many kills left it incomplete.
fn killed_run(seed: u64, kills: usize, window: Duration, more: &[&str]) -> usize {
    let (folder, out) = folder(TINY);
    let planned = planned(folder.path(), more);
    assert_eq!(planned.len(), 6);
    let mut moments = Moments(seed);
    let mut complete: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut incomplete = 0;
    for _ in 0..kills {
        let mut child = start(folder.path(), more);
        std::thread::sleep(moments.next(window));
        child.kill().expect("the run is ours to kill");
        child.wait().expect("a status");
        let now = done(&out);
        for (cell, bytes) in &complete {
            assert_eq!(
                now.get(cell),
                Some(bytes),
                "cell {cell} was complete and was touched again"
            );
        }
        assert!(now.keys().all(|c| planned.contains(c)));
        incomplete += usize::from(now.len() < planned.len());
        complete = now;
    }
    assert_eq!(finish(start(folder.path(), more)), Some(0));
    let last = done(&out);
    assert_eq!(
        last.keys().cloned().collect::<BTreeSet<_>>(),
        planned,
        "each planned cell has exactly one final record"
    );
    for (cell, bytes) in &complete {
        assert_eq!(
            last.get(cell),
            Some(bytes),
            "cell {cell} was complete and was touched again"
        );
    }
    let contents = relayout::journal::read(&out.join("journal")).expect("the journal");
    assert!(contents.corrupt.is_empty() && contents.done_records().all(|r| !r.status.is_failure()));
    let stale: Vec<_> = files(&out)
        .into_iter()
        .filter(|f| f.to_string_lossy().ends_with(".tmp"))
        .collect();
    assert!(stale.is_empty(), "{stale:?}");
    assert!(files(&out.join("modules")).is_empty());
    incomplete
}

#[test]
fn killed_runs_lose_no_cell_and_do_none_twice() {
    // Early kills hit references and first cells, late ones the derived files; the windows cover a whole run of this size.
    let incomplete =
        killed_run(1, 6, Duration::from_millis(350), &[]) + killed_run(2, 4, Duration::from_millis(900), &[]);
    assert!(
        incomplete > 0,
        "no kill came before the end, so that nothing was tested"
    );
}

#[test]
fn killed_runs_of_several_rounds_lose_no_cell_and_do_none_twice() {
    let incomplete = killed_run(3, 5, Duration::from_millis(500), &["measure.rounds=3"]);
    assert!(
        incomplete > 0,
        "no kill came before the end, so that nothing was tested"
    );
}

#[test]
fn files_that_a_killed_writer_left_are_swept() {
    let (folder, out) = folder(TINY);
    let leftovers = [
        ".run.json.1.tmp",
        "reference/.a.bin.1.tmp",
        "plots/.fig.svg.1.tmp",
        "journal/.c.done.jsonl.1.tmp",
        "modules/c.rlm",
    ];
    for name in leftovers {
        let path = out.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).unwrap();
        std::fs::write(path, "part").unwrap();
    }
    assert_eq!(
        finish(start(
            folder.path(),
            &["--filter", "model=example-reduce,strategy=local"]
        )),
        Some(0)
    );
    for name in leftovers {
        assert!(!out.join(name).exists(), "{name}");
    }
}

fn interrupt(child: &Child) {
    let pid = i32::try_from(child.id()).expect("a process id");
    // SAFETY: kill only sends a signal, to our own child that has not been waited for.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
}

/// Interrupts `times` times after the first cell is complete; the exit code and what was complete then.
fn interrupted_run(times: usize) {
    // Each cell takes at least 600 ms, so that the interrupts come in the middle of the second.
    let more = [
        "measure.min_time=600ms",
        "measure.max_time=5s",
        "--filter",
        "model=small-cnn",
    ];
    let (folder, out) = folder(TINY);
    let planned = planned(folder.path(), &more);
    let child = start(folder.path(), &more);
    let deadline = Instant::now() + Duration::from_secs(20);
    while done(&out).is_empty() {
        assert!(Instant::now() < deadline, "no cell was completed");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(200));
    for _ in 0..times {
        interrupt(&child);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(finish(child), Some(130));
    let complete = done(&out);
    // One interrupt lets the running cell finish; two stop it.
    assert_eq!(complete.len(), if times == 1 { 2 } else { 1 });
    assert_eq!(finish(start(folder.path(), &more)), Some(0));
    let last = done(&out);
    assert_eq!(last.keys().cloned().collect::<BTreeSet<_>>(), planned);
    assert!(complete.iter().all(|(cell, bytes)| last.get(cell) == Some(bytes)));
}

#[test]
fn one_interrupt_drains_and_the_run_can_go_on() {
    interrupted_run(1);
}

#[test]
fn two_interrupts_stop_the_running_cell_and_the_run_can_go_on() {
    interrupted_run(2);
}
