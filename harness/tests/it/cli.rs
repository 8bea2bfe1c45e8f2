//! The command line as a user meets it: results, exit codes, messages.

use crate::support::cell;
use assert_cmd::Command;
use relayout::config::Config;
use relayout::frontend;
use relayout::journal::Journal;
use relayout::record::{CellRecord, Phase, RunManifest};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// What a command did.
struct Done {
    code: i32,
    out: String,
    err: String,
}

impl Done {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("not JSON: {e}: {}", self.out))
    }
    /// Fails with both streams unless the command ended with this code.
    #[track_caller]
    fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.out, self.err);
        self
    }
}

fn relayout(arguments: &[&str]) -> Done {
    relayout_in(Path::new("."), arguments)
}

fn relayout_in(folder: &Path, arguments: &[&str]) -> Done {
    let output = Command::new(env!("CARGO_BIN_EXE_relayout"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the program starts");
    Done {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A folder with `instance.json`: thirty operators.
fn with_instance() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let arguments = [
        "generate",
        "random",
        "--operators",
        "30",
        "--seed",
        "5",
        "-o",
        "instance.json",
    ];
    let done = relayout_in(folder.path(), &arguments).expect(0);
    assert_eq!(done.out, "", "the result went to a file");
    let path = folder.path().join("instance.json");
    (folder, path)
}

fn shared(name: &str) -> Option<PathBuf> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared")).join(name);
    if !path.exists() {
        eprintln!("skipped: ../shared/{name} is not there");
        return None;
    }
    Some(path)
}

#[test]
fn help_documents_the_exit_codes() {
    let help = relayout(&["--help"]).expect(0).out;
    for line in ["  0 ", "  1 ", "  2 ", "  3 ", "  130 "] {
        assert!(help.contains(line), "{line} in {help}");
    }
    assert!(!help.contains("worker"), "the worker is not for users");
    assert!(relayout(&["--version"]).expect(0).out.starts_with("relayout "));
    relayout(&["no-such-command"]).expect(2);
    relayout(&["solve"]).expect(2);
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
fn names_that_do_not_exist_get_the_nearest_one() {
    let (folder, _) = with_instance();
    let solve = |more: &[&str]| relayout_in(folder.path(), &[&["solve", "instance.json"], more].concat());
    for (arguments, expected) in [
        (&["--strategy", "greddy"][..], "`greedy`"),
        (&["--strategy", "maxsat", "--solver", "rustsatt"], "`rustsat`"),
        (&["--strategy", "maxsat", "--solver", "z3"], "not built in"),
        (
            &["--strategy", "local", "--solver", "rustsat"],
            "no choice of solvers",
        ),
        (&["--strategy", "exact", "--time-limit", "soon"], "600s"),
        (&["--strategy", "exact", "--memory-limit", "much"], "8GiB"),
        (&["--strategy", "exact", "-k", "0"], "at least 1"),
    ] {
        let done = solve(arguments).expect(2);
        assert!(done.err.contains(expected), "{arguments:?}: {}", done.err);
        assert_eq!(done.out, "", "{arguments:?}");
    }
    for (arguments, expected) in [
        (&["instance", "resnet5"][..], "`resnet50`"),
        (&["instance", "small-cnn", "chanels=4"], "small-cnn"),
        (&["instance", "small-cnn", "--target", "cpuu"], "`cpu`"),
        (&["instance", "small-cnn", "--set", "q=3"], "q"),
        (
            &["instance", "small-cnn", "--cost-model", "analytical"],
            "`analytic`",
        ),
        (
            &["instance", "small-cnn", "--cost-model", "profiled"],
            "--profile",
        ),
        (&["compile", "small-cnn", "--strategy", "exakt"], "`exact`"),
        (&["compile", "small-cnn", "--dump-ir", "fuse-op"], "`fuse-ops`"),
        (
            &["compile", "small-cnn", "--without", "legalise"],
            "can't be left out",
        ),
    ] {
        let done = relayout_in(folder.path(), &[arguments, &["-o", "out"]].concat()).expect(2);
        assert!(done.err.contains(expected), "{arguments:?}: {}", done.err);
        assert!(!folder.path().join("out").exists(), "{arguments:?}");
    }
    let done = relayout_in(folder.path(), &["exec", "small-cnn", "--input", "x=no-such.npy"]).expect(2);
    assert!(done.err.contains("no-such.npy"), "{}", done.err);
}

#[test]
fn unreadable_input_names_the_place() {
    let folder = TempDir::new().unwrap();
    let solve = |text: &str| {
        fs::write(folder.path().join("bad.json"), text).unwrap();
        relayout_in(folder.path(), &["solve", "bad.json", "--strategy", "local"])
            .expect(2)
            .err
    };
    assert!(solve("{").contains("bad.json"));
    let format = solve(r#"{"format":"layout-selection/9","tensors":[],"operators":[]}"#);
    assert!(format.contains("layout-selection/1"), "{format}");
    let place = solve(
        r#"{"format":"layout-selection/1","tensors":[{"layouts":["a"],"transpose":[[0]]}],
            "operators":[{"inputs":[],"output":0,"configs":[{"in":[],"out":0,"cost":"x"}]}]}"#,
    );
    assert!(place.contains("operators[0].configs[0].cost"), "{place}");
    fs::write(folder.path().join("bad.rlm"), "not a module").unwrap();
    let module = relayout_in(folder.path(), &["exec", "bad.rlm"]).expect(2).err;
    assert!(module.contains("bad.rlm"), "{module}");
    fs::write(folder.path().join("bad.onnx"), [0x08, 0x07, 0xff]).unwrap();
    let onnx = relayout_in(folder.path(), &["instance", "bad.onnx", "-o", "x.json"])
        .expect(2)
        .err;
    assert!(onnx.contains("bad.onnx"), "{onnx}");
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

#[test]
fn results_go_to_stdout_and_progress_to_stderr() {
    let (folder, _) = with_instance();
    let arguments = [
        "solve",
        "instance.json",
        "--strategy",
        "exact",
        "--json",
        "--verbose",
    ];
    let done = relayout_in(folder.path(), &arguments).expect(0);
    done.json();
    assert!(done.err.contains("incumbent"), "{}", done.err);
    let plain = relayout_in(
        folder.path(),
        &["export", "instance.json", "--to", "gr", "-o", "-"],
    )
    .expect(0);
    assert!(plain.out.contains("p tw 30 "), "{}", plain.out);
    assert!(
        !plain.err.contains('\u{1b}'),
        "no colours where there is no terminal"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_apart() {
    let (folder, _) = with_instance();
    if !Path::new("/dev/full").exists() {
        eprintln!("skipped: this system has no /dev/full");
        return;
    }
    let done = relayout_in(
        folder.path(),
        &["export", "instance.json", "--to", "wcnf", "-o", "/dev/full"],
    )
    .expect(3);
    assert!(done.err.contains("no space"), "{}", done.err);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let status = std::process::Command::new(env!("CARGO_BIN_EXE_relayout"))
        .args(["solve", "instance.json", "--strategy", "local"])
        .current_dir(folder.path())
        .stdout(full)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(3));
    relayout_in(
        folder.path(),
        &[
            "export",
            "instance.json",
            "--to",
            "wcnf",
            "-o",
            "no/such/folder/x",
        ],
    )
    .expect(3);
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

#[test]
fn lists_are_there_in_both_forms() {
    for (command, name) in [
        ("models", "resnet50"),
        ("strategies", "exact"),
        ("targets", "cpu"),
    ] {
        assert!(relayout(&[command]).expect(0).out.contains(name));
        let list = relayout(&[command, "--json"]).expect(0).json();
        assert!(
            list.as_array().unwrap().iter().any(|e| e["name"] == name),
            "{list}"
        );
    }
    let parts = relayout(&["doctor", "--json"]).expect(0).json();
    let compiler = parts
        .as_array()
        .unwrap()
        .iter()
        .find(|p| p["name"] == "C compiler")
        .unwrap();
    assert_eq!(compiler["required"], true);
    for part in parts.as_array().unwrap() {
        assert!(
            part["found"] == true || !part["how"].is_null() || !part["detail"].is_null(),
            "{part}"
        );
    }
    relayout(&["doctor"]).expect(0);
    assert!(
        relayout(&["completions", "bash"])
            .expect(0)
            .out
            .contains("relayout")
    );
}

#[test]
fn the_cache_is_shown_and_cleared() {
    let folder = TempDir::new().unwrap();
    let cache = |more: &[&str]| -> Value {
        let output = Command::new(env!("CARGO_BIN_EXE_relayout"))
            .args([&["cache", "--json"], more].concat())
            .env("RELAYOUT_CACHE", folder.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    assert_eq!(cache(&[])["kernels"], 0);
    let kernels = folder.path().join("kernels");
    fs::create_dir_all(&kernels).unwrap();
    fs::write(kernels.join("a.so"), [0; 10]).unwrap();
    fs::write(kernels.join("note.txt"), "kept").unwrap();
    assert_eq!(
        (&cache(&[])["kernels"], &cache(&[])["bytes"]),
        (&1.into(), &10.into())
    );
    cache(&["--clear"]);
    assert_eq!(cache(&[])["kernels"], 0);
    assert!(kernels.join("note.txt").exists());
}

/// Every key that the configuration knows, in one file that is valid.
const EVERY_KEY: &str = "
name: all
seed: 1
models:
  - small-cnn
  - { model: llama layers=1, family: F, batch: [1, 2], dims: { s: [8, 16] } }
targets: [cpu]
cost_models: [analytic, profiled]
strategies:
  - local
  - { strategy: maxsat, label: m, solver: rustsat }
solver_based: m
domain: full
budget: { time: 10s, memory: 1GiB }
measure: { warmup: 1, samples: 3, min_time: 10ms, max_time: 1s, rounds: 2, threads: [1, 2], profile_samples: 3 }
limits: { instance: 1s, solve: 1s, compile: 1min, run: 1h, reference: 90, memory: 512MiB }
tolerance: 0.001
";

/// The properties of a schema node, through references and choices.
fn properties<'a>(schema: &'a Value, node: &'a Value, found: &mut Vec<(&'a String, &'a Value)>) {
    if let Some(reference) = node["$ref"].as_str() {
        properties(
            schema,
            &schema["$defs"][reference.rsplit('/').next().unwrap()],
            found,
        );
    }
    for choices in ["anyOf", "oneOf", "allOf"] {
        node[choices]
            .as_array()
            .into_iter()
            .flatten()
            .for_each(|n| properties(schema, n, found));
    }
    if node["items"].is_object() {
        properties(schema, &node["items"], found);
    }
    found.extend(node["properties"].as_object().into_iter().flatten());
}

/// Keys of a document that the schema lacks, and where `exactly`, keys of the schema that the document lacks.
fn compare(schema: &Value, node: &Value, document: &[&Value], exactly: bool, place: &str) {
    let mut known = Vec::new();
    properties(schema, node, &mut known);
    // `dims` has keys of the user's.
    if known.is_empty() {
        return;
    }
    let maps: Vec<&serde_json::Map<String, Value>> = document.iter().filter_map(|d| d.as_object()).collect();
    let used: BTreeSet<&String> = maps.iter().flat_map(|m| m.keys()).collect();
    for key in &used {
        assert!(
            known.iter().any(|k| k.0 == *key),
            "the schema lacks {place}.{key}"
        );
    }
    for (key, inner) in known {
        let values: Vec<&Value> = maps
            .iter()
            .filter_map(|m| m.get(key))
            .flat_map(|v| {
                v.as_array()
                    .map_or_else(|| vec![v], |items| items.iter().collect())
            })
            .collect();
        assert!(
            !exactly || used.contains(key),
            "the configuration does not know {place}.{key}"
        );
        compare(schema, inner, &values, exactly, &format!("{place}.{key}"));
    }
}

#[test]
fn the_schema_says_what_the_configuration_reads() {
    let schema = relayout(&["schema"]).expect(0).json();
    assert!(schema["$schema"].as_str().unwrap().contains("2020-12"));
    Config::read("all.yaml", EVERY_KEY, &[], &frontend::known()).unwrap();
    let document: Value = serde_yaml::from_str(EVERY_KEY).unwrap();
    compare(&schema, &schema, &[&document], true, "");
    let strategies = schema["$defs"]["StrategyName"]["enum"].as_array().unwrap();
    assert!(strategies.contains(&"exact".into()));
    assert_eq!(schema["additionalProperties"], false);
    assert!(
        !schema.to_string().contains("\"null\""),
        "the reader refuses null"
    );
}

#[test]
fn the_schema_knows_every_key_of_the_shipped_configurations() {
    let schema = relayout(&["schema"]).expect(0).json();
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../configs"));
    let mut files = 0;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|e| e == "yaml") {
            let text = fs::read_to_string(&path).unwrap();
            let document: Value = serde_yaml::from_str(&text).unwrap();
            compare(&schema, &schema, &[&document], false, &path.display().to_string());
            let name = path.display().to_string();
            Config::read(&name, &text, &[], &frontend::known()).unwrap_or_else(|e| panic!("{e}"));
            files += 1;
        }
    }
    if files == 0 {
        eprintln!("skipped: configs/ has no experiments");
    }
}

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

#[test]
fn an_extracted_instance_is_solved_and_checked() {
    let folder = TempDir::new().unwrap();
    let extract = |more: &[&str]| {
        let arguments = [&["instance", "small-cnn", "--batch", "2", "-o", "cnn.json"], more].concat();
        relayout_in(folder.path(), &arguments).expect(0);
        fs::read(folder.path().join("cnn.json")).unwrap()
    };
    let full = extract(&["--domain", "full"]);
    let spread = extract(&[]);
    assert_eq!(spread, extract(&[]), "extraction is deterministic");
    assert_ne!(spread, full);
    let done = relayout_in(
        folder.path(),
        &["solve", "cnn.json", "--strategy", "exact", "--json"],
    )
    .expect(0);
    assert_eq!(done.json()["status"], "optimal");
    fs::write(folder.path().join("solution.json"), &done.out).unwrap();
    relayout_in(folder.path(), &["check", "cnn.json", "solution.json"]).expect(0);
    let arguments = [
        "instance",
        "small-cnn",
        "--cost-model",
        "profiled",
        "--profile",
        "p.json",
        "-o",
        "x.json",
    ];
    let missing = relayout_in(folder.path(), &arguments).expect(2);
    assert!(missing.err.contains("p.json"), "{}", missing.err);
    fs::write(folder.path().join("p.json"), r#"{"units":[]}"#).unwrap();
    let empty = relayout_in(folder.path(), &arguments).expect(1);
    assert!(empty.err.contains("the profile has no entry"), "{}", empty.err);
}

/// The one output of an `exec` as f32.
fn output(folder: &Path, done: &Done) -> Vec<f32> {
    let file = done.json()["outputs"][0]["file"].as_str().unwrap().to_owned();
    let bytes = fs::read(folder.join(file)).unwrap();
    npyz::NpyFile::new(&bytes[..]).unwrap().into_vec().unwrap()
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max)
}

#[test]
fn models_and_modules_execute() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let exec = |arguments: &[&str]| relayout_in(here, &[&["exec", "--json"], arguments].concat());
    let exact = exec(&["small-cnn", "--repeat", "3", "-o", "a", "--threads", "1"]).expect(0);
    let answer = exact.json();
    let latency = &answer["latency_ms"];
    assert_eq!(latency["samples"], 3);
    assert!(latency["min"].as_f64() <= latency["median"].as_f64());
    assert!(latency["median"].as_f64() <= latency["p90"].as_f64());
    assert_eq!(answer["outputs"][0]["dtype"], "f32");
    let first = output(here, &exact);
    assert!(first.iter().all(|v| v.is_finite()) && first.iter().any(|v| *v != 0.0));

    // Another strategy computes the same.
    let local = exec(&["small-cnn", "--strategy", "local", "-o", "b"]).expect(0);
    let scale = first.iter().fold(0f32, |m, v| m.max(v.abs()));
    assert!(largest_difference(&first, &output(here, &local)) <= 1e-3 * scale);
    // Another seed does not.
    let other = exec(&["small-cnn", "--seed", "1", "-o", "c"]).expect(0);
    assert!(largest_difference(&first, &output(here, &other)) > 1e-3 * scale);

    // A module file, on an input of the model's and on one of ours.
    let compile = [
        "compile",
        "small-cnn",
        "--dump-ir",
        "select-layouts",
        "--dump-ir",
        "schedule",
        "-o",
        "m.rlm",
    ];
    let compiled = relayout_in(here, &compile).expect(0);
    assert!(compiled.out.contains("# after select-layouts") && compiled.out.contains("# after schedule"));
    assert!(compiled.err.contains("kernels"), "{}", compiled.err);
    exec(&["m.rlm", "-o", "d"]).expect(0);
    exec(&["m.rlm", "layers=2"]).expect(2);
    let name = relayout::frontend::load("small-cnn", 0, 1).unwrap().model.inputs[0].clone();
    let shape: Vec<u64> = name.dims.iter().map(|d| d.to_string().parse().unwrap()).collect();
    let count = shape.iter().product::<u64>();
    let mut file = Vec::new();
    {
        use npyz::WriterBuilder;
        let mut writer = npyz::WriteOptions::new()
            .default_dtype()
            .shape(&shape)
            .writer(&mut file)
            .begin_nd()
            .unwrap();
        writer.extend((0..count).map(|i| (i % 17) as f32 / 17.0)).unwrap();
        writer.finish().unwrap();
    }
    fs::write(here.join("x.npy"), file).unwrap();
    let input = format!("{}=x.npy", name.name);
    let by_model = exec(&["small-cnn", "--input", &input, "-o", "e"]).expect(0);
    let by_module = exec(&["m.rlm", "--input", &input, "-o", "f"]).expect(0);
    assert!(largest_difference(&output(here, &by_model), &output(here, &by_module)) <= 1e-3 * scale);
    assert!(largest_difference(&first, &output(here, &by_model)) > 1e-3 * scale);
    let unknown = exec(&["m.rlm", "--input", "nothing=x.npy"]).expect(2);
    assert!(unknown.err.contains("unknown input `nothing`"), "{}", unknown.err);
}

#[test]
fn symbolic_dimensions_are_set_at_run_time() {
    let folder = TempDir::new().unwrap();
    let known = [
        "llama",
        "layers=1",
        "hidden=64",
        "heads=4",
        "kv_heads=2",
        "intermediate=128",
        "vocab=97",
    ];
    let shape_of = |done: &Done| done.json()["outputs"][0]["shape"].clone();
    let exec = |head: &[&str], more: &[&str]| {
        relayout_in(folder.path(), &[&["exec", "--json"], head, more].concat())
    };
    let small = exec(&known, &["--set", "n=1", "--set", "s=3"]).expect(0);
    let large = exec(&known, &["--set", "n=2", "--set", "s=5"]).expect(0);
    assert_ne!(shape_of(&small), shape_of(&large));
    let compile = [&["compile"], &known[..], &["--set", "s=4", "-o", "l.rlm"]].concat();
    relayout_in(folder.path(), &compile).expect(0);
    let again = exec(&["l.rlm"], &["--set", "n=2", "--set", "s=5"]).expect(0);
    assert_eq!(shape_of(&again), shape_of(&large));
    let unset = exec(&["l.rlm"], &["--set", "n=2"]).expect(2);
    assert!(unset.err.contains("`s` has no value"), "{}", unset.err);
    exec(&["l.rlm"], &["--set", "q=2"]).expect(2);
    let twice = exec(&known, &["--set", "n=2", "--set", "n=3"]).expect(2);
    assert!(twice.err.contains("twice"), "{}", twice.err);
}
