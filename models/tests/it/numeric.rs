//! Imported graphs evaluated by the reference semantics against onnxruntime: recorded results for the small ones, and
//! (`RELAYOUT_SLOW=1`, after `scripts/setup_onnx.sh`) `scripts/compare_onnx.py` for the shared ones.

use super::evaluate::evaluate;
use super::shared;
use relayout_ir::annotation::DType;
use relayout_ir::tensor::{Tensor, TensorData};
use relayout_models::Model;
use relayout_models::onnx::{ImportOptions, import};
use std::path::Path;
use std::process::Command;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");

fn values(tensor: &Tensor) -> Vec<f32> {
    match &tensor.data {
        TensorData::Float(v) => v.clone(),
        TensorData::Int(v) => v.iter().map(|v| *v as f32).collect(),
    }
}

/// Recorded results: for each output a little-endian count and that many `f32`.
fn golden(name: &str) -> Vec<Vec<f32>> {
    let bytes = std::fs::read(format!("{DATA}/{name}.golden")).expect("recorded results");
    let (words, rest) = bytes.as_chunks::<4>();
    assert!(rest.is_empty());
    let mut words = words.iter();
    let mut outputs = Vec::new();
    while let Some(count) = words.next() {
        let count = u32::from_le_bytes(*count) as usize;
        outputs.push(
            words
                .by_ref()
                .take(count)
                .map(|w| f32::from_le_bytes(*w))
                .collect(),
        );
    }
    outputs
}

fn check(model: &Model, name: &str, binding: &[(&str, i64)]) {
    let bound = |v: &relayout_ir::sym::SymVar| binding.iter().find(|(n, _)| *n == v.name()).map(|(_, x)| *x);
    let ours = evaluate(model, 1, &bound);
    let reference = golden(name);
    assert_eq!(ours.len(), reference.len(), "number of outputs");
    let mut wrong = Vec::new();
    for ((ours, reference), output) in ours.iter().zip(&reference).zip(&model.outputs) {
        let ours = values(ours);
        assert_eq!(ours.len(), reference.len(), "{output}: elements");
        let largest = reference.iter().fold(0f32, |a, v| a.max(v.abs())).max(1e-20);
        let error = ours.iter().zip(reference).fold(0f32, |a, (o, r)| {
            // NaN and infinity must agree exactly.
            a.max(if o == r || (o.is_nan() && r.is_nan()) {
                0.0
            } else {
                ((o - r) / largest).abs()
            })
        });
        if error.is_nan() || error > 1e-5 {
            wrong.push(format!(
                "{output}: {error:e}\n  ours      {:?}\n  reference {:?}",
                &ours[..ours.len().min(8)],
                &reference[..reference.len().min(8)]
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn fixture(name: &str) -> Model {
    let bytes = std::fs::read(format!("{DATA}/{name}.onnx")).expect("fixture");
    import(&bytes, &ImportOptions::new(name, 1)).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn each_operator_computes_what_onnxruntime_does() {
    check(&fixture("operators"), "operators", &[]);
}

#[test]
fn named_dimensions_stay_symbolic_through_shape_arithmetic() {
    let model = fixture("dynamic");
    let names: Vec<&str> = model.dims.iter().map(|d| d.decl.var.name()).collect();
    assert_eq!(names, ["batch", "seq"]);
    check(&model, "dynamic", &[("batch", 3), ("seq", 5)]);
}

#[test]
fn small_cnn_computes_what_onnxruntime_does() {
    let Some(bytes) = shared::graph("small-cnn") else {
        return;
    };
    let model = import(&bytes, &ImportOptions::new("small-cnn", 1)).expect("imports");
    check(&model, "small-cnn", &[]);
}

/// Writes a tensor as NumPy's `.npy`, version 1.
fn write_npy(path: &Path, tensor: &Tensor) {
    let code = match tensor.dtype {
        DType::F32 => "<f4",
        DType::F16 => "<f2",
        DType::I64 => "<i8",
        DType::I32 => "<i4",
        DType::I8 => "|i1",
        DType::U8 => "|u1",
        DType::Bool => "|b1",
        DType::BF16 => panic!("NumPy has no bf16"),
    };
    let shape: String = tensor.shape.iter().map(|d| format!("{d},")).collect();
    let mut header = format!("{{'descr': '{code}', 'fortran_order': False, 'shape': ({shape}), }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(header.len()).expect("short").to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(tensor.to_bytes());
    std::fs::write(path, bytes).expect("writable");
}

#[test]
fn shared_graphs_compute_what_onnxruntime_does() {
    if !shared::slow("shared graphs against onnxruntime") {
        return;
    }
    let Some(dir) = shared::graphs() else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/compare_onnx.py");
    let chosen =
        std::env::var("RELAYOUT_GRAPHS").unwrap_or_else(|_| "small-cnn,resnet50,bert-base".to_owned());
    for name in chosen.split(',') {
        let path = dir.join(format!("{name}.onnx"));
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let model = import(&bytes, &ImportOptions::new(name, 7)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let out = tempfile::tempdir().expect("a folder");
        let start = std::time::Instant::now();
        for (tensor, output) in evaluate(&model, 7, &|_| None).iter().zip(&model.outputs) {
            let clean: String = output
                .chars()
                .map(|c| {
                    if c.is_ascii_alphanumeric() || "_.-".contains(c) {
                        c
                    } else {
                        '_'
                    }
                })
                .collect();
            write_npy(&out.path().join(format!("{clean}.npy")), tensor);
        }
        println!("{name}: evaluated in {:.1?}", start.elapsed());
        let python = std::env::var("RELAYOUT_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let run = Command::new(python)
            .args([
                script.as_ref(),
                path.as_os_str(),
                "--seed".as_ref(),
                "7".as_ref(),
                "--ours".as_ref(),
                out.path().as_os_str(),
            ])
            .output()
            .expect("python3 starts");
        println!("{name}: {}", String::from_utf8_lossy(&run.stdout).trim());
        assert!(
            run.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&run.stderr)
        );
    }
}
