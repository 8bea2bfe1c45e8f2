//! Real solvers, where they are installed: a SAT-based one on the WCNF, toulbar2 on the `.cfn`. Both must find the optimum that `exact`
//! proves, and know an infeasible problem for one.

use std::process::{Command, Stdio};
use std::time::Duration;

use relayout_layouts::Status;
use relayout_layouts::generate::{Random, random};

use super::*;
use crate::support::slow;

/// The virtual environment that `scripts/setup_solvers` makes.
const SOLVERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../.deps/solvers/bin/python");

fn works(words: &[&str]) -> bool {
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|s| s.success())
}

/// Python with the solvers, if they were set up, else the system's.
fn python() -> &'static str {
    if Path::new(SOLVERS).exists() {
        SOLVERS
    } else {
        "python3"
    }
}

/// Python, when it can import `module`; says so when it can't.
fn python_with(module: &str, package: &str) -> Option<&'static str> {
    let found = works(&[python(), "-c", &format!("import {module}")]);
    if !found {
        println!("skipped: no Python module {module} (PyPI: {package}; scripts/setup_solvers)");
    }
    found.then(python)
}

fn toulbar2() -> Option<External> {
    let command = if works(&["toulbar2", "--help"]) {
        "toulbar2 {instance} -s".to_owned()
    } else {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/solve_cfn.py");
        format!(
            "'{}' '{script}' {{instance}}",
            python_with("pytoulbar2", "pytoulbar2")?
        )
    };
    Some(External::new("toulbar2", &command, Format::Cfn).unwrap())
}

fn rc2(options: &str) -> Option<External> {
    let command = format!(
        "'{}' -m pysat.examples.rc2 -vvv {options} {{instance}}",
        python_with("pysat", "python-sat")?
    );
    Some(External::new("rc2", &command, Format::Wcnf).unwrap())
}

/// Compares with `exact`; returns how many problems were infeasible.
fn compare(solver: &External, problems: impl Iterator<Item = Problem>) -> usize {
    let mut infeasible = 0;
    for problem in problems {
        let budget = Budget::default().with_time_limit(Duration::from_secs(60));
        let exact = strategy_by_name("exact").unwrap();
        let expected = exact.solve(&problem, &budget, &mut Trace::silent()).unwrap();
        let found = solver.solve(&problem, &budget, &mut Trace::silent());
        let found = found.unwrap_or_else(|e| panic!("{}: {e}", problem.name()));
        assert_eq!(found.status, expected.status, "{}", problem.name());
        assert_eq!(
            found.best().map(|s| s.cost),
            expected.best().map(|s| s.cost),
            "{}",
            problem.name()
        );
        infeasible += usize::from(found.status == Status::Infeasible);
    }
    infeasible
}

fn medium(seed: u64) -> Problem {
    let p = Random {
        operators: 25,
        odd: seed.is_multiple_of(2),
        seed,
        ..Random::default()
    };
    random(&p).unwrap()
}

#[test]
fn toulbar2_agrees() {
    let Some(solver) = toulbar2() else { return };
    compare(&solver, small_problems(20).map(|p| p.1));
    compare(&solver, (0..6).map(medium));
}

#[test]
fn rc2_agrees() {
    for options in ["", "--vnew -x -l div"] {
        let Some(solver) = rc2(options) else { return };
        compare(&solver, small_problems(8).map(|p| p.1));
        compare(&solver, (0..2).map(medium));
    }
}

#[test]
fn many_problems_agree() {
    if !slow("toulbar2 and RC2 on hundreds of problems") {
        return;
    }
    let mut infeasible = 0;
    for solver in [toulbar2(), rc2(""), rc2("--vnew")].into_iter().flatten() {
        infeasible += compare(&solver, small_problems(100).map(|p| p.1));
        compare(&solver, (0..20).map(medium));
    }
    println!("{infeasible} of them infeasible");
}

#[test]
fn a_real_solver_is_stopped_at_the_deadline() {
    let Some(solver) = toulbar2() else { return };
    // Wide enough that no tree decomposition helps.
    let hard = random(&Random {
        operators: 400,
        window: 8,
        layouts: (3, 4),
        seed: 1,
        ..Random::default()
    })
    .unwrap();
    let budget = Budget::default().with_time_limit(Duration::from_millis(1500));
    let start = std::time::Instant::now();
    let mut incumbents = 0;
    let mut trace = Trace::new(|p| incumbents += usize::from(p.incumbent.is_some()));
    let answer = solver.solve(&hard, &budget, &mut trace).unwrap();
    drop(trace);
    let took = start.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(answer.status, Status::Timeout);
    if let Some(best) = answer.best() {
        assert!(incumbents > 0 && answer.lower_bound <= best.cost);
    }
}
