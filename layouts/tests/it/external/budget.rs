//! Programs that take too long, print too much or want too much.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use relayout_layouts::Status;

use super::*;

/// Whether a process runs (one that was killed and not yet reaped does not).
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|s| !s.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'))
}

fn gone(pid: &str) -> bool {
    (0..200).any(|_| {
        let gone = !runs(pid);
        if !gone {
            std::thread::sleep(Duration::from_millis(10));
        }
        gone
    })
}

fn limited(milliseconds: u64) -> Budget {
    Budget::default().with_time_limit(Duration::from_millis(milliseconds))
}

#[test]
fn at_the_deadline_the_program_and_its_children_are_killed_and_the_best_so_far_is_given() {
    if cfg!(not(target_os = "linux")) {
        println!("skipped: looks into /proc");
        return;
    }
    let (problem, best) = solved_problems(5).last().unwrap();
    let line = joined(&values(&problem, &best.assignment));
    // Deaf to the request to stop, in the program and in its child.
    let fake = Fake::new(
        "trap '' TERM\ncat {folder}/out\nsleep 1000 &\necho $! > {folder}/child\necho $$ > {folder}/self\nwhile :; do sleep 1; done",
    );
    let bound = best.cost.saturating_sub(1).max(problem.sum_of_minimum_costs());
    let out = format!(
        "New solution: {} (1)\n {line}\nOptimality gap: [{bound}, {}] 1 %\nNew sol",
        best.cost, best.cost
    );
    std::fs::write(fake.path("out"), out).unwrap();
    let start = Instant::now();
    let answer = fake.solve(Format::Cfn, &problem, &limited(700)).unwrap();
    let took = start.elapsed();
    assert_eq!(answer.status, Status::Timeout);
    assert_eq!(answer.best(), Some(&best));
    assert_eq!(answer.lower_bound, bound);
    assert!(
        took >= Duration::from_millis(700) && took < Duration::from_secs(5),
        "{took:?}"
    );
    for name in ["self", "child"] {
        let pid = fake.wrote(name);
        assert!(gone(&pid), "{name} {pid} runs on");
    }
}

#[test]
fn a_program_that_is_asked_to_stop_may_print_its_best() {
    let (problem, best) = solved_problems(5).last().unwrap();
    let model = bits(&model(&problem, &best.assignment));
    let script = "trap 'echo \"s SATISFIABLE\"; cat {folder}/out; exit 10' TERM\nsleep 1000 & wait";
    let fake = Fake::new(script);
    std::fs::write(fake.path("out"), format!("o {}\nv {model}\n", best.cost)).unwrap();
    let start = Instant::now();
    let answer = fake.solve(Format::Wcnf, &problem, &limited(300)).unwrap();
    assert_eq!((answer.status, answer.best()), (Status::Timeout, Some(&best)));
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_model_that_was_cut_short_is_none() {
    let (problem, best) = solved_problems(5).last().unwrap();
    let list = literals(&model(&problem, &best.assignment));
    let fake = Fake::new("cat {folder}/out; exec sleep 1000");
    for out in [
        format!("o {}\nv {list}", best.cost),
        format!("o {}\nv -1\n", best.cost),
        String::new(),
    ] {
        std::fs::write(fake.path("out"), &out).unwrap();
        let answer = fake.solve(Format::Wcnf, &problem, &limited(200)).unwrap();
        assert_eq!((answer.status, answer.best()), (Status::Timeout, None), "{out}");
        assert_eq!(answer.lower_bound, problem.sum_of_minimum_costs());
    }
}

#[test]
fn cancelling_stops_the_program() {
    let (problem, _) = solved_problems(1).next().unwrap();
    let cancel = Arc::new(AtomicBool::new(false));
    let budget = Budget {
        cancel: cancel.clone(),
        ..Budget::default()
    };
    let start = Instant::now();
    let answer = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            cancel.store(true, Ordering::Relaxed);
        });
        Fake::new("exec sleep 1000")
            .solve(Format::Wcnf, &problem, &budget)
            .unwrap()
    });
    assert_eq!(answer.status, Status::Timeout);
    assert!(start.elapsed() < Duration::from_secs(5));
    // Before it begins, nothing is run.
    let answer = Fake::new("exit 3")
        .solve(Format::Wcnf, &problem, &budget)
        .unwrap();
    assert_eq!(answer.status, Status::Timeout);
}

#[test]
fn floods_and_silence_do_not_hang() {
    let (problem, best) = solved_problems(2).last().unwrap();
    let start = Instant::now();
    let flood = Fake::new("yes 'c a comment'")
        .solve(Format::Wcnf, &problem, &limited(300))
        .unwrap();
    assert_eq!(flood.status, Status::Timeout);
    assert!(flood.counters["output_lines"] > 1000);
    let endless = message(Fake::new("yes | tr -d '\\n'").solve(Format::Wcnf, &problem, &limited(20_000)));
    assert!(
        endless.starts_with("fake printed a line of more than "),
        "{endless}"
    );
    let mute = Fake::new("exec >&- ; exec sleep 1000")
        .solve(Format::Wcnf, &problem, &limited(300))
        .unwrap();
    assert_eq!(mute.status, Status::Timeout);
    // A child that holds the pipes open does not keep us waiting for it.
    let line = joined(&values(&problem, &best.assignment));
    let orphan = Fake::new("sleep 1000 & cat {folder}/out");
    std::fs::write(
        orphan.path("out"),
        format!("New solution: {0}\n{line}\nOptimum: {0} in\n", best.cost),
    )
    .unwrap();
    let answer = orphan.solve(Format::Cfn, &problem, &limited(60_000)).unwrap();
    assert_eq!((answer.status, answer.best()), (Status::Optimal, Some(&best)));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn memory_is_limited() {
    if cfg!(not(target_os = "linux")) {
        println!("skipped: the address space is limited on Linux");
        return;
    }
    let (problem, best) = solved_problems(2).last().unwrap();
    let line = joined(&values(&problem, &best.assignment));
    let fake = Fake::new("cat {folder}/out; exec dd if=/dev/zero of=/dev/null bs=300M count=1");
    std::fs::write(fake.path("out"), format!("New solution: {}\n{line}\n", best.cost)).unwrap();
    let budget = limited(60_000).with_memory_limit(64 << 20);
    let answer = fake.solve(Format::Cfn, &problem, &budget);
    let answer = answer.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((answer.status, answer.best()), (Status::OutOfMemory, Some(&best)));
    assert!(answer.peak_bytes <= 64 << 20, "{}", answer.peak_bytes);
}
