//! What programs do when all is not well.

use relayout_layouts::external::{Fault, TemplateError, read_answer};

use super::*;

#[test]
fn a_claim_that_the_checker_refutes_is_a_mismatch() {
    let (problem, best) = solved_problems(4).last().unwrap();
    let (cost, list) = (best.cost, literals(&model(&problem, &best.assignment)));
    let line = joined(&values(&problem, &best.assignment));
    assert!(cost > 0);
    let (less, more) = (cost - 1, cost + 1);
    for (format, output, said) in [
        (
            Format::Wcnf,
            format!("o {less}\ns OPTIMUM FOUND\nv {list}\n"),
            less,
        ),
        (
            Format::Wcnf,
            format!("o {more}\ns OPTIMUM FOUND\nv {list}\n"),
            more,
        ),
        (Format::Wcnf, format!("o {less}\ns SATISFIABLE\nv {list}\n"), less),
        (Format::Cfn, format!("New solution: {less} (1)\n{line}\n"), less),
        (
            Format::Cfn,
            format!("New solution: {more} (1)\n{line}\nOptimum: {more} in\n"),
            more,
        ),
        (
            Format::Cfn,
            format!("New solution: {cost} (1)\n{line}\nOptimum: {less} in\n"),
            less,
        ),
    ] {
        match read_answer(&problem, format, &output) {
            Err(SolveError::Mismatch { claimed, recomputed }) => {
                assert_eq!((claimed, recomputed), (said, cost), "{output}");
            }
            other => panic!("{output}: {other:?}"),
        }
    }
    // A model may ask for layouts that nobody reads: it costs more than its assignment.
    let loose = read_answer(
        &problem,
        Format::Wcnf,
        &format!("o {more}\ns SATISFIABLE\nv {list}\n"),
    )
    .unwrap();
    assert_eq!(loose.best(), Some(&best));
}

#[test]
fn an_assignment_that_the_checker_refuses_is_an_error() {
    let refused = small_problems(200)
        .find_map(|(_, problem)| {
            let wrong = crate::support::all_assignments(&problem)
                .into_iter()
                .find(|a| Solution::new(&problem, a.clone()).is_err())?;
            Some((problem, wrong))
        })
        .unwrap();
    let (problem, assignment) = refused;
    let line = joined(&values(&problem, &assignment));
    let said = read_answer(&problem, Format::Cfn, &format!("New solution: 5\n{line}\n"));
    assert!(
        matches!(said, Err(SolveError::Invalid { claimed: 5, .. })),
        "{said:?}"
    );
    let silent = message(read_answer(&problem, Format::Cfn, &format!("{line}\n")));
    assert!(
        silent.starts_with("the program printed a model that is no assignment: "),
        "{silent}"
    );
}

#[test]
fn malformed_output_is_named_with_its_line() {
    let (problem, best) = solved_problems(6).last().unwrap();
    let n = model(&problem, &best.assignment).len();
    let variables = values(&problem, &best.assignment).len();
    let (cost, list) = (best.cost, literals(&model(&problem, &best.assignment)));
    let line = joined(&values(&problem, &best.assignment));
    let zeros = "0".repeat(n + 1);
    let cases = [
        (
            Format::Wcnf,
            "c x\no -3\n".into(),
            "printed, in line 2, \"o -3\"; expected a cost (an integer from 0) after `o`".into(),
        ),
        (
            Format::Wcnf,
            "o 1.5\n".into(),
            "printed, in line 1, \"o 1.5\"; expected a cost".into(),
        ),
        (
            Format::Wcnf,
            "s MAYBE\n".into(),
            "printed, in line 1, \"s MAYBE\"; expected `s` with OPTIMUM FOUND".to_owned(),
        ),
        (
            Format::Wcnf,
            "v one\n".into(),
            "printed, in line 1, \"v one\"; expected literals or a string of zeros and ones".into(),
        ),
        (
            Format::Wcnf,
            format!("v {}\n", n + 1),
            format!(
                "printed, in line 1, \"v {}\"; expected literals of the variables 1 to {n}",
                n + 1
            ),
        ),
        (
            Format::Wcnf,
            "v -9223372036854775808\n".into(),
            "printed, in line 1".into(),
        ),
        (
            Format::Wcnf,
            format!("v {zeros}\n"),
            format!(
                "printed, in line 1, \"v {}\"; expected one value for each of the {n} variables",
                &zeros[..78.min(n + 1)]
            ),
        ),
        (
            Format::Wcnf,
            "o 1\nv -1 0\n".into(),
            "printed a model that is no assignment: operator 0 takes no configuration".into(),
        ),
        (
            Format::Wcnf,
            format!(
                "v {}\n",
                (1..=n).map(|v| v.to_string()).collect::<Vec<_>>().join(" ")
            ),
            "printed a model that is no assignment: operator ".into(),
        ),
        (
            Format::Wcnf,
            format!("s OPTIMUM FOUND\nv {list}\n"),
            "says that it found the optimum, but not what it costs (an `o` line)".into(),
        ),
        (
            Format::Wcnf,
            format!("s OPTIMUM FOUND\no {cost}\n"),
            "says that it found the optimum, but printed no assignment (`v` lines)".into(),
        ),
        (
            Format::Wcnf,
            "s SATISFIABLE\n".into(),
            "says that it found an assignment, but printed no assignment (`v` lines)".into(),
        ),
        (
            Format::Wcnf,
            format!("o {cost}\n"),
            "says that it found an assignment, but printed no assignment".into(),
        ),
        (
            Format::Wcnf,
            format!("o {cost}\nv {list}\ns UNSATISFIABLE\n"),
            format!("says that there is no assignment, after one of cost {cost}"),
        ),
        (
            Format::Wcnf,
            "hello\nworld\n".into(),
            "ended (end of the output) without an answer".into(),
        ),
        (
            Format::Wcnf,
            String::new(),
            "ended (end of the output) without an answer".into(),
        ),
        (
            Format::Cfn,
            "New solution: many\n".into(),
            "printed, in line 1, \"New solution: many\"; expected a cost".into(),
        ),
        (
            Format::Cfn,
            "New solution: 4.500 (1)\n".into(),
            "printed, in line 1".into(),
        ),
        (
            Format::Cfn,
            "New solution: 18446744073709551616\n".into(),
            "printed, in line 1".into(),
        ),
        (
            Format::Cfn,
            format!("New solution: {cost}\n{line} 0\n"),
            format!(
                "printed, in line 2, {:?}; expected one value for each of the {variables} variables",
                format!("{line} 0").chars().take(80).collect::<String>()
            ),
        ),
        (
            Format::Cfn,
            format!("New solution: {cost}\nOptimum: {cost} in 3 backtracks\n"),
            "says that it found the optimum, but printed no assignment (toulbar2 prints it with `-s`)".into(),
        ),
        (
            Format::Cfn,
            format!("New solution: {cost}\n{line}\nNo solution in\n"),
            format!("says that there is no assignment, after one of cost {cost}"),
        ),
        (
            Format::Cfn,
            format!("Dual bound: {}\nNew solution: {cost}\n{line}\n", cost + 1),
            format!(
                "claims that nothing is cheaper than {}, after an assignment of cost {cost}",
                cost + 1
            ),
        ),
        // What MaxSAT solvers print is nothing to toulbar2's reader, and the other way round.
        (
            Format::Cfn,
            format!("o {cost}\ns OPTIMUM FOUND\n"),
            "ended (end of the output) without an answer".into(),
        ),
        (
            Format::Wcnf,
            format!("New solution: {cost}\n{line}\n"),
            "ended (end of the output) without an answer".into(),
        ),
    ];
    for (format, output, expected) in cases {
        let found = message(read_answer(&problem, format, &output));
        assert!(
            found.starts_with(&format!("the program {expected}")),
            "{output:?}\nfound {found:?}\nexpected {expected:?}"
        );
    }
}

#[test]
fn a_missing_program_is_named() {
    let (problem, _) = solved_problems(1).next().unwrap();
    let strategy = External::new("nosuch", "/nowhere/solver {instance}", Format::Wcnf).unwrap();
    let result = strategy.solve(&problem, &Budget::default(), &mut Trace::silent());
    assert!(matches!(&result, Err(SolveError::External(e)) if matches!(e.fault, Fault::Start(_))));
    assert!(message(result).starts_with("nosuch could not be started: No such file"));
    assert_eq!(
        External::new("x", "solver", Format::Cfn).unwrap_err(),
        TemplateError::NoInstance
    );
}

#[test]
fn a_crash_shows_the_end_of_its_standard_error() {
    let (problem, best) = solved_problems(2).last().unwrap();
    let line = joined(&values(&problem, &best.assignment));
    let solve = |script: &str| Fake::new(script).solve(Format::Cfn, &problem, &Budget::default());
    let crash = solve("echo one >&2; echo 'assertion failed: x > 0' >&2; kill -SEGV $$");
    assert!(matches!(&crash, Err(SolveError::External(e)) if matches!(e.fault, Fault::Died { .. })));
    let text = message(crash);
    assert!(text.starts_with("fake died (signal: 11"), "{text}");
    assert!(text.ends_with("\none\nassertion failed: x > 0"), "{text}");
    // With an assignment in hand, a crash is still one.
    let late = message(solve(&format!(
        "echo 'New solution: {}'; echo '{line}'; echo late >&2; exit 3",
        best.cost
    )));
    assert!(
        late.starts_with("fake died (exit status: 3) without a complete answer"),
        "{late}"
    );
    assert!(late.ends_with("late"), "{late}");
    // Results have exit codes of their own in the competitions.
    let result = solve(&format!(
        "echo 'New solution: {0}'; echo '{line}'; echo 'Optimum: {0} in'; exit 30",
        best.cost
    ));
    assert_eq!(result.unwrap().best(), Some(&best));
    let garbage = message(solve("head -c 100000 /dev/urandom; exit 0"));
    assert!(garbage.starts_with("fake "), "{garbage}");
    // The tail is cut at a few KiB, its end kept.
    let loud = message(solve(
        "i=0; while [ $i -lt 2000 ]; do echo \"line $i\" >&2; i=$((i+1)); done; exit 1",
    ));
    assert!(loud.ends_with("line 1999") && loud.len() < 5000, "{}", loud.len());
}
