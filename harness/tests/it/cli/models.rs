//! Models: `instance`, `compile`, `exec`.

use super::{Done, relayout_in};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

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

    // The reference interpreter, another path through the same model, agrees.
    let model = relayout::frontend::load("small-cnn", 0, 1).unwrap().model;
    let binding = relayout::frontend::bind(&model, &Default::default()).unwrap();
    let expected = relayout::reference::run(&model, 0, &binding).unwrap()[0]
        .to_f32()
        .unwrap();
    let scale = expected.iter().fold(0f32, |m, v| m.max(v.abs()));
    assert!(largest_difference(&first, &expected) <= 1e-3 * scale);

    // Another strategy computes the same.
    let local = exec(&["small-cnn", "--strategy", "local", "-o", "b"]).expect(0);
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
    let name = model.inputs[0].clone();
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
