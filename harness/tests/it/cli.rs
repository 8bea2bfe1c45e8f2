//! The command line as a user meets it: results, exit codes, messages.

mod external;
mod instances;
mod models;
mod runs;
mod schema;

use assert_cmd::Command;
use serde_json::Value;
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
fn names_that_do_not_exist_get_the_nearest_one() {
    let (folder, _) = with_instance();
    let solve = |more: &[&str]| relayout_in(folder.path(), &[&["solve", "instance.json"], more].concat());
    for (arguments, expected) in [
        (&["--strategy", "greddy"][..], "`greedy`"),
        (&["--strategy", "maxsat", "--solver", "rustsatt"], "`rustsat`"),
        #[cfg(not(feature = "z3"))]
        (&["--strategy", "maxsat", "--solver", "z3"], "--features z3"),
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

#[test]
fn a_profile_is_shown_in_both_forms() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profile.json");
    let unit = |variant: &str, ns: u64| {
        serde_json::json!({ "key": variant, "operation": "conv2d 1x8x4x4", "variant": variant,
            "terms": { "conv.nhwc": 1000 * ns }, "nanoseconds": ns, "samples": 5, "rotation": 1 })
    };
    let table = serde_json::json!({ "units": [unit("nchw", 300), unit("nhwc", 200)] });
    std::fs::write(&file, table.to_string()).unwrap();
    let path = folder.path().to_str().unwrap();
    let shown = relayout(&["profile", path]).expect(0).out;
    assert!(shown.contains("nhwc") && shown.contains("1.50x"), "{shown}");
    let all = relayout(&["profile", path, "--operations"]).expect(0).out;
    assert!(all.contains("nchw"), "{all}");
    let object = relayout(&["profile", file.to_str().unwrap(), "--json"])
        .expect(0)
        .json();
    assert_eq!(object["operations"][0]["variants"][0]["variant"], "nhwc");
    let fitted = relayout(&["profile", path, "--fit"]).expect(0).out;
    // The machine is that of the run, not this one.
    assert!(fitted.contains("an unknown machine"), "{fitted}");
    let coefficients = relayout_compiler::cost::Coefficients::parse(&fitted).expect("a coefficient file");
    assert!(
        (coefficients.get("conv.nhwc") * 1e3 - 1.0).abs() < 0.05,
        "{fitted}"
    );
    std::fs::write(&file, "{").unwrap();
    relayout(&["profile", path]).expect(2);
    std::fs::remove_file(&file).unwrap();
    relayout(&["profile", path]).expect(2);
}
