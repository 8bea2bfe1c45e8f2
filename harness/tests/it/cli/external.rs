//! `solve --strategy external`, and instances of other forms.

use super::{Done, relayout, relayout_in, with_instance};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// What toulbar2 would print for an answer of ours: the operators' values, then zeros for the requests, which only cost there.
fn as_toulbar2(folder: &Path, answer: &Value) -> String {
    relayout_in(folder, &["export", "instance.json", "--to", "cfn", "-o", "i.cfn"]).expect(0);
    let network: Value = serde_json::from_slice(&fs::read(folder.join("i.cfn")).unwrap()).unwrap();
    let variables = network["variables"].as_object().unwrap().len();
    let mut values: Vec<u64> = answer["assignment"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_u64().unwrap())
        .collect();
    values.resize(variables, 0);
    let values: Vec<String> = values.iter().map(u64::to_string).collect();
    let cost = &answer["cost"];
    format!(
        "New solution: {cost} (0)\n {}\nOptimum: {cost} in 0 backtracks\n",
        values.join(" ")
    )
}

fn solve(folder: &Path, arguments: &[&str]) -> Done {
    relayout_in(folder, &[&["solve", "instance.json"], arguments].concat())
}

#[test]
fn an_outside_solver_answers_like_one_of_ours() {
    let (folder, _) = with_instance();
    let folder = folder.path();
    let exact = solve(folder, &["--strategy", "exact", "--json"]).expect(0).json();
    fs::write(folder.join("out"), as_toulbar2(folder, &exact)).unwrap();
    let command = "sh -c 'cat out; test -s \"$0\"' {instance}";
    let arguments = [
        "--strategy",
        "external",
        "--format",
        "cfn",
        "--command",
        command,
        "--json",
    ];
    let outside = solve(folder, &arguments).expect(0).json();
    for key in [
        "cost",
        "assignment",
        "status",
        "lower_bound",
        "instance_hash",
        "transposes",
    ] {
        assert_eq!(outside[key], exact[key], "{key}");
    }
    assert_eq!(outside["strategy"], "external");
    assert_eq!(outside["command"], command);
    assert!(outside["peak_bytes"].as_u64().unwrap() > 0);
    assert!(!outside["trace"].as_array().unwrap().is_empty());
    // A wrong claim is a failure, not an answer.
    let wrong = as_toulbar2(folder, &exact).replace("Optimum: ", "Optimum: 1");
    fs::write(folder.join("out"), wrong).unwrap();
    let refused = solve(folder, &arguments).expect(1);
    assert!(refused.err.contains("the checker computes"), "{}", refused.err);
    let crash = [
        "--strategy",
        "external",
        "--format",
        "wcnf",
        "--command",
        "sh -c 'echo woe >&2; exit 3' {instance}",
    ];
    let crashed = solve(folder, &crash).expect(1);
    assert!(
        crashed.err.contains("sh died (exit status: 3)") && crashed.err.contains("woe"),
        "{}",
        crashed.err
    );
}

#[test]
fn a_program_that_runs_on_is_stopped_at_the_limit() {
    let (folder, _) = with_instance();
    let limited = [
        "--strategy",
        "external",
        "--format",
        "wcnf",
        "--command",
        "sleep 1000 {instance}",
        "--time-limit",
        "200ms",
        "--json",
    ];
    // (`sleep` refuses the file's name as a duration; a shell sleeps.)
    let answer = solve(folder.path(), &limited).expect(1);
    assert!(answer.err.contains("sleep died"), "{}", answer.err);
    let limited = [
        "--strategy",
        "external",
        "--format",
        "wcnf",
        "--command",
        "sh -c 'sleep 1000' {instance}",
        "--time-limit",
        "200ms",
        "--json",
    ];
    let answer = solve(folder.path(), &limited).expect(1).json();
    assert_eq!(answer["status"], "timeout");
    assert_eq!(answer["cost"], Value::Null);
    assert!(answer["seconds"].as_f64().unwrap() < 5.0);
}

#[test]
fn what_does_not_belong_together_is_said() {
    let (folder, _) = with_instance();
    let refused = |arguments: &[&str]| solve(folder.path(), arguments).expect(2).err;
    for (arguments, expected) in [
        (
            &["--strategy", "external"][..],
            "strategy `external` needs a command and a format",
        ),
        (
            &["--strategy", "external", "--command", "s {instance}"],
            "strategy `external` needs a command and a format",
        ),
        (
            &["--strategy", "external", "--command", "s", "--format", "cfn"],
            "the command does not say where {instance} goes",
        ),
        (
            &[
                "--strategy",
                "external",
                "--command",
                "s {instance} {timelimit}",
                "--format",
                "cfn",
            ],
            "did you mean {time_limit}?",
        ),
        (
            &[
                "--strategy",
                "external",
                "--command",
                "s {instance}",
                "--format",
                "cnf",
            ],
            "[possible values: wcnf, cfn]",
        ),
        (
            &["--strategy", "exact", "--command", "s {instance}"],
            "`--command` is for the strategy `external`, not `exact`",
        ),
        (
            &["--strategy", "greedy", "--without", "dominance"],
            "`--without` is for the strategy `exact`, not `greedy`",
        ),
        (
            &["--strategy", "exact", "--without", "dominance,subset"],
            "did you mean `subsets`?",
        ),
    ] {
        let error = refused(arguments);
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
    let compile = relayout(&[
        "compile",
        "example-reduce",
        "--strategy",
        "external",
        "-o",
        "x.rlm",
    ])
    .expect(2);
    assert!(
        compile.err.contains("needs a command and a format"),
        "{}",
        compile.err
    );
    assert!(relayout(&["strategies"]).expect(0).out.contains("external"));
    let listed = relayout(&["strategies", "--json"]).expect(0).json();
    assert_eq!(
        listed.as_array().unwrap().last().unwrap()["formats"],
        json!(["wcnf", "cfn"])
    );
}

#[test]
fn reductions_can_be_left_out() {
    let (folder, _) = with_instance();
    let all = solve(folder.path(), &["--strategy", "exact", "--json"])
        .expect(0)
        .json();
    let without = ["--strategy", "exact", "--without", "decompose,subsets", "--json"];
    let some = solve(folder.path(), &without).expect(0).json();
    assert_eq!(all["cost"], some["cost"]);
    assert_eq!(some["without"], json!(["decompose", "subsets"]));
    let decomposed = |answer: &Value| answer["counters"]["decomposed_variables"].as_u64().unwrap();
    assert!(decomposed(&all) > 0 && decomposed(&some) == 0);
}

#[test]
fn instances_of_other_forms_are_read() {
    let (folder, _) = with_instance();
    let folder = folder.path();
    let run = |arguments: &[&str]| relayout_in(folder, arguments);
    run(&["export", "instance.json", "--to", "cfn", "-o", "i.cfn"]).expect(0);
    let cost = |file: &str| {
        run(&["solve", file, "--strategy", "exact", "--json"])
            .expect(0)
            .json()["cost"]
            .clone()
    };
    assert_eq!(cost("i.cfn"), cost("instance.json"));
    let solved = run(&["solve", "i.cfn", "--strategy", "exact", "--json"]).expect(0);
    fs::write(folder.join("s.json"), &solved.out).unwrap();
    // The assignment is the same in both forms.
    for file in ["i.cfn", "instance.json"] {
        run(&["check", file, "s.json"]).expect(0);
    }
    run(&["export", "i.cfn", "--to", "cfn", "-o", "again.cfn"]).expect(0);
    assert_eq!(cost("again.cfn"), cost("i.cfn"));
    fs::write(folder.join("bad.cfn"), "{\n \"problem\": 3}").unwrap();
    let bad = run(&["solve", "bad.cfn", "--strategy", "exact"]).expect(2);
    assert!(
        bad.err.contains("bad.cfn: line 1, column 1: missing key"),
        "{}",
        bad.err
    );
    let contest = r#"{"problem":{"name":"c","nodes":{"costs":[[4,2],[0,9]]},"edges":{"nodes":[[0,1]],"costs":[[0,1,5,6]]},"usage_limit":7}}"#;
    fs::write(folder.join("c.json"), contest).unwrap();
    let refused = run(&["solve", "c.json", "--strategy", "exact"]).expect(2);
    assert!(refused.err.contains("--ignore-usage-limit"), "{}", refused.err);
    let solved = run(&[
        "solve",
        "c.json",
        "--strategy",
        "exact",
        "--ignore-usage-limit",
        "--json",
    ])
    .expect(0);
    // 4 + 0 + 0 is cheaper than 2 + 0 + 5.
    assert_eq!(solved.json()["cost"], 4);
}
