//! Instances: `generate`, `solve`, `check`, `export`.

use super::{relayout, relayout_in, with_instance};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn shared(name: &str) -> Option<PathBuf> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared")).join(name);
    if !path.exists() {
        eprintln!("skipped: ../shared/{name} is not there");
        return None;
    }
    Some(path)
}

#[test]
fn generate_is_reproducible_and_compresses() {
    let folder = TempDir::new().unwrap();
    for kind in [
        &["random", "--odd", "--layouts", "1..4"][..],
        &["sat", "--variables", "12"],
        &["oct", "--vertices", "9", "--percent", "40"],
        &["blocks", "--layers", "3", "--perturb", "5", "--shuffle"],
    ] {
        let write = |seed: &str, file: &str| {
            let arguments = [&["generate"], kind, &["--seed", seed, "-o", file]].concat();
            relayout_in(folder.path(), &arguments).expect(0);
            fs::read(folder.path().join(file)).unwrap()
        };
        let plain = write("1", "a.json");
        assert_eq!(plain, write("1", "b.json"), "{kind:?}");
        assert_ne!(plain, write("2", "b.json"), "{kind:?}");
        let packed = write("1", "a.json.zst");
        assert!(packed.len() < plain.len());
        let solve =
            |file: &str| relayout_in(folder.path(), &["solve", file, "--strategy", "exact", "--json"]).json();
        assert_eq!(
            solve("a.json")["instance_hash"],
            solve("a.json.zst")["instance_hash"]
        );
    }
    let refused = relayout_in(
        folder.path(),
        &["generate", "random", "--layouts", "1..40", "-o", "c.json"],
    )
    .expect(2);
    assert!(
        refused.err.contains("layouts") && refused.err.contains("at most 8"),
        "{}",
        refused.err
    );
    assert!(!folder.path().join("c.json").exists());
    relayout_in(
        folder.path(),
        &["generate", "random", "--layouts", "3..2", "-o", "c.json"],
    )
    .expect(2);
}

#[test]
fn solve_and_check_agree() {
    let (folder, _) = with_instance();
    let mut optima = BTreeSet::new();
    for strategy in ["local", "greedy", "treewidth", "maxsat", "exact"] {
        let done = relayout_in(
            folder.path(),
            &["solve", "instance.json", "--strategy", strategy, "--json"],
        )
        .expect(0);
        let answer = done.json();
        for key in [
            "strategy",
            "status",
            "cost",
            "operator_cost",
            "transpose_cost",
            "transposes",
            "lower_bound",
            "seconds",
            "peak_bytes",
            "assignment",
            "unit",
            "counters",
            "proof",
        ] {
            assert!(!answer[key].is_null(), "{strategy}: {key} in {answer}");
        }
        assert_eq!(answer["assignment"].as_array().unwrap().len(), 30);
        let number = |key: &str| answer[key].as_u64().unwrap();
        assert_eq!(number("cost"), number("operator_cost") + number("transpose_cost"));
        assert!(number("lower_bound") <= number("cost"));
        if answer["status"] == "optimal" {
            optima.insert(number("cost"));
        }
        fs::write(folder.path().join("solution.json"), &done.out).unwrap();
        let checked = relayout_in(
            folder.path(),
            &["check", "instance.json", "solution.json", "--json"],
        )
        .expect(0)
        .json();
        for key in ["cost", "operator_cost", "transpose_cost", "transposes"] {
            assert_eq!(checked[key], answer[key], "{strategy}: {key}");
        }
        let text = relayout_in(folder.path(), &["solve", "instance.json", "--strategy", strategy])
            .expect(0)
            .out;
        assert!(text.contains(&format!("{} cycles", number("cost"))), "{text}");
    }
    assert_eq!(optima.len(), 1, "the exact strategies report one optimum");
}

#[test]
fn check_finds_what_is_wrong() {
    let (folder, _) = with_instance();
    let done = relayout_in(
        folder.path(),
        &["solve", "instance.json", "--strategy", "exact", "--json"],
    )
    .expect(0);
    let answer = done.json();
    let cost = answer["cost"].as_u64().unwrap();
    let check = |solution: &Value| {
        fs::write(folder.path().join("solution.json"), solution.to_string()).unwrap();
        relayout_in(folder.path(), &["check", "instance.json", "solution.json"])
    };
    let bare = check(&serde_json::json!({ "assignment": answer["assignment"] })).expect(0);
    assert!(
        bare.out.contains(&format!("cost            {cost} cycles")),
        "{}",
        bare.out
    );

    let mut lies = answer.clone();
    lies["cost"] = (cost - 1).into();
    let found = check(&lies).expect(1);
    assert!(
        found
            .out
            .contains(&format!("claims cost {}, recomputed {cost}", cost - 1)),
        "{}",
        found.out
    );

    let mut invalid = answer.clone();
    invalid["assignment"][3] = 4_000_000.into();
    assert!(check(&invalid).expect(1).out.contains("assignment[3]"));

    let mut short = answer.clone();
    short["assignment"].as_array_mut().unwrap().pop();
    assert!(check(&short).expect(1).out.contains("29 entries, expected 30"));

    let mut bound = answer.clone();
    bound["lower_bound"] = (cost + 1).into();
    assert!(check(&bound).expect(1).out.contains("lower_bound"));

    check(&serde_json::json!({ "assignment": null })).expect(1);
    check(&serde_json::json!({ "cost": 3 })).expect(1);
    check(&serde_json::json!({ "assignment": "x" })).expect(2);
    relayout_in(folder.path(), &["check", "instance.json", "no-such-file.json"]).expect(2);
}

#[test]
fn answers_without_an_assignment() {
    let (folder, _) = with_instance();
    let starved = [
        "solve",
        "instance.json",
        "--strategy",
        "treewidth",
        "--memory-limit",
        "1",
        "--json",
    ];
    let answer = relayout_in(folder.path(), &starved).expect(1).json();
    assert_eq!(
        (&answer["status"], &answer["assignment"]),
        (&"out-of-memory".into(), &Value::Null)
    );
    assert!(answer["cost"].is_null() && answer["lower_bound"].is_u64());
    // An impossible conversion between the only two layouts.
    let text = r#"{"format":"layout-selection/1","tensors":[
        {"layouts":["a","b"],"transpose":[[0,null],[null,0]]},{"layouts":["a"],"transpose":[[0]]}],
        "operators":[{"inputs":[],"output":0,"configs":[{"in":[],"out":0,"cost":0}]},
        {"inputs":[0],"output":1,"configs":[{"in":[1],"out":0,"cost":0}]}]}"#;
    fs::write(folder.path().join("infeasible.json"), text).unwrap();
    let solve = |strategy| {
        relayout_in(
            folder.path(),
            &["solve", "infeasible.json", "--strategy", strategy, "--json"],
        )
    };
    assert_eq!(solve("exact").expect(0).json()["status"], "infeasible");
    assert_eq!(solve("local").expect(1).json()["status"], "no-plan");
}

#[test]
fn several_solutions_are_ranked() {
    let (folder, _) = with_instance();
    let done = relayout_in(
        folder.path(),
        &[
            "solve",
            "instance.json",
            "--strategy",
            "exact",
            "-k",
            "3",
            "--json",
        ],
    );
    if done.code == 2 {
        assert!(done.err.contains("does not support"), "{}", done.err);
        return;
    }
    let answer = done.expect(0).json();
    let costs: Vec<u64> = answer["solutions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["cost"].as_u64().unwrap())
        .collect();
    assert!(
        !costs.is_empty() && costs.is_sorted() && costs[0] == answer["cost"].as_u64().unwrap(),
        "{costs:?}"
    );
}

#[cfg(unix)]
#[test]
fn an_interrupt_gives_the_best_answer_so_far() {
    let folder = TempDir::new().unwrap();
    let arguments = ["generate", "sat", "--variables", "400", "-o", "hard.json"];
    relayout_in(folder.path(), &arguments).expect(0);
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_relayout"))
        .args([
            "solve",
            "hard.json",
            "--strategy",
            "maxsat",
            "--json",
            "--verbose",
        ])
        .current_dir(folder.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // The first line of progress says that the strategy runs, hence that interrupts are handled.
    let mut line = String::new();
    let mut err = std::io::BufReader::new(child.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut err, &mut line).unwrap();
    assert!(line.contains("bound"), "{line}");
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: sends a signal to a child of ours that has not been waited for.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
    let drain = std::thread::spawn(move || std::io::copy(&mut err, &mut std::io::sink()));
    let output = child.wait_with_output().unwrap();
    drain.join().unwrap().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["status"], "timeout");
}

#[test]
fn exports_have_the_headers_of_their_formats() {
    let (folder, _) = with_instance();
    let export = |to: &str| {
        relayout_in(
            folder.path(),
            &["export", "instance.json", "--to", to, "-o", "out"],
        )
        .expect(0);
        fs::read_to_string(folder.path().join("out")).unwrap()
    };
    assert!(export("wcnf").lines().any(|l| l.starts_with("h ")));
    let network: Value = serde_json::from_str(&export("cfn")).unwrap();
    assert!(network["variables"].as_object().unwrap().len() >= 30);
    assert!(export("gr").contains("p tw 30 "));
    assert!(export("dot").starts_with("digraph"));
    let td = export("td");
    assert!(
        td.starts_with("s td ") && td.lines().any(|l| l.starts_with("b 1")),
        "{td}"
    );
    relayout_in(
        folder.path(),
        &["export", "instance.json", "--to", "cnf", "-o", "out"],
    )
    .expect(2);
}

#[test]
fn shared_instances_reach_their_optima() {
    let Some(instances) = shared("instances") else {
        return;
    };
    let optima: Value = serde_json::from_slice(&fs::read(instances.join("optima.json")).unwrap()).unwrap();
    let folder = TempDir::new().unwrap();
    for name in [
        "random-8-w3-l3-1",
        "random-30-w3-l3-1",
        "odd-20-102",
        "odd-60-103",
        "small-cnn",
        "resnet50",
    ] {
        let instance = instances.join(format!("{name}.json.zst"));
        let file = instance.to_str().unwrap();
        let Some(optimum) = optima[name]["optimum"].as_u64() else {
            panic!("{name} is not in optima.json")
        };
        for strategy in ["greedy", "maxsat", "exact"] {
            let done = relayout(&["solve", file, "--strategy", strategy, "--json"]).expect(0);
            let answer = done.json();
            let cost = answer["cost"].as_u64().unwrap();
            match strategy {
                "greedy" => assert!(cost >= optimum, "{name}"),
                _ => assert_eq!(
                    (cost, &answer["status"]),
                    (optimum, &"optimal".into()),
                    "{name} by {strategy}"
                ),
            }
            let solution = folder.path().join("solution.json");
            fs::write(&solution, &done.out).unwrap();
            relayout(&["check", file, solution.to_str().unwrap()]).expect(0);
        }
    }
}
