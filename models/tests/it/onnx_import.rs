//! Import of the shared graphs: structure.

use super::evaluate::histogram;
use super::shared;
use expect_test::{Expect, expect};
use relayout_models::onnx::{ImportOptions, OnnxError, import};
use relayout_models::{Family, Model};

fn model(name: &str) -> Option<Model> {
    let bytes = shared::graph(name)?;
    Some(import(&bytes, &ImportOptions::new(name, 1)).unwrap_or_else(|e| panic!("{name}: {e}")))
}

/// Everything imports but for what is listed here; a shape or type that differs from what a file records would be a refusal.
#[test]
fn every_shared_graph_imports_or_says_what_it_lacks() {
    let Some(dir) = shared::graphs() else { return };
    let mut lacking = Vec::new();
    for entry in std::fs::read_dir(dir).expect("readable") {
        let path = entry.expect("entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        match import(
            &std::fs::read(&path).expect("readable"),
            &ImportOptions::new(&name, 1),
        ) {
            Ok(model) => {
                let main = &model.module.functions[model.module.entry().expect("main")];
                assert_eq!(main.params.len(), model.inputs.len(), "{name}");
            }
            Err(OnnxError::Unsupported(list)) => {
                let mut operators: Vec<&str> = list.iter().map(|u| u.op.as_str()).collect();
                operators.dedup();
                lacking.push(format!("{name}: {}\n", operators.join(", ")));
            }
            Err(other) => panic!("{name}: {other}"),
        }
    }
    lacking.sort();
    expect![[r#"
        flexolmo-7x7b-l4: TopK
        qwen2-audio-7b-l4: NonZero
        qwen3-vl-4b: Conv, NonZero, ScatterElements, ScatterND
    "#]]
    .assert_eq(&lacking.concat());
}

fn check(name: &str, family: Family, expected: Expect) {
    let Some(model) = model(name) else { return };
    assert_eq!(model.family, family);
    expected.assert_eq(&histogram(&model));
}

#[test]
fn operators_of_small_cnn() {
    check(
        "small-cnn",
        Family::Vision,
        expect![[r#"
        add 7
        batch_norm 5
        conv2d 5
        matmul 2
        max_pool2d 2
        reduce_mean 1
        relu 6
        reshape 1
    "#]],
    );
}

#[test]
fn operators_of_resnet50() {
    check(
        "resnet50",
        Family::Vision,
        expect![[r#"
        add 17
        batch_norm 53
        conv2d 53
        matmul 1
        max_pool2d 1
        reduce_mean 1
        relu 49
        reshape 1
    "#]],
    );
}

#[test]
fn operators_of_bert_base() {
    check(
        "bert-base",
        Family::DenseTransformers,
        expect![[r#"
        add 125
        cast 1
        div 13
        erf 13
        layer_norm 26
        logical_and 1
        matmul 98
        mul 38
        permute 49
        reshape 49
        softmax 12
        take 3
        where 1
    "#]],
    );
}

/// Text prints and parses back, whatever the names in the file.
#[test]
fn text_form_of_an_imported_graph_round_trips() {
    let Some(model) = model("bert-base") else { return };
    let printed = relayout_ir::text::print(&model.module);
    let parsed = relayout_ir::text::parse(&printed).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(parsed, model.module);
}

/// 16-bit floats become `f32` on request.
#[test]
fn sixteen_bit_floats_widen_on_request() {
    use relayout_ir::annotation::DType;
    let Some(bytes) = shared::graph("llama3-8b-l4") else {
        return;
    };
    let mut options = ImportOptions::new("llama", 1);
    let narrow = import(&bytes, &options).expect("imports");
    assert!(
        narrow
            .module
            .constants
            .iter()
            .any(|(_, c)| c.dtype == DType::BF16)
    );
    options.f32_only = true;
    let wide = import(&bytes, &options).expect("imports");
    assert!(wide.module.constants.iter().all(|(_, c)| c.dtype != DType::BF16));
}
