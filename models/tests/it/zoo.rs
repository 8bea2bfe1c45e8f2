//! The zoo: every model builds, is what it says, and computes something.

use super::evaluate::{evaluate, histogram};
use expect_test::{Expect, expect};
use relayout_ir::tensor::TensorData;
use relayout_models::zoo::{build, list};
use relayout_models::{Family, Model, ModelSpec, Overrides, ZooError, draw_inputs};

fn small(text: &str) -> Model {
    let spec = ModelSpec::parse(text).expect("a spec");
    let relayout_models::ModelSource::Zoo(name) = &spec.source else {
        panic!("a zoo name")
    };
    build(name, &spec.overrides, 3, 2).unwrap_or_else(|e| panic!("{e}"))
}

fn check(model: &Model, expected: Expect) {
    expected.assert_eq(&histogram(model));
}

#[test]
fn each_model_builds_with_its_defaults() {
    for entry in list() {
        let model = build(entry.name, &Overrides::new(), 0, 1).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((model.name.as_str(), model.family), (entry.name, entry.family));
        let main = &model.module.functions[model.module.entry().expect("main")];
        assert_eq!(main.params.len(), model.inputs.len());
        let mut names: Vec<&str> = model
            .module
            .constants
            .iter()
            .map(|(_, c)| c.name.as_str())
            .collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{}: constant names are unique", entry.name);
        assert!(entry.overrides.iter().all(|o| !o.help.is_empty()) && !entry.description.is_empty());
    }
    assert!(list().is_sorted_by_key(|e| e.name));
}

#[test]
fn weights_have_the_sizes_of_the_published_models() {
    // ResNet-50 has 25,557,032 parameters and, beside them, two statistics per batch-norm channel (26,560 channels).
    let resnet = build("resnet50", &Overrides::new(), 0, 1).expect("builds");
    assert_eq!(resnet.constant_bytes(), 4 * (25_557_032 + 2 * 26_560));
}

#[test]
fn text_form_round_trips() {
    for text in [
        "small-cnn",
        "bert layers=1",
        "llama layers=1",
        "example-reduce",
        "example-fanout",
    ] {
        let model = small(text);
        let printed = relayout_ir::text::print(&model.module);
        let parsed = relayout_ir::text::parse(&printed).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(parsed, model.module, "{text}");
    }
}

#[test]
fn operators_of_each_family() {
    check(
        &small("small-cnn"),
        expect![[r#"
        add 7
        batch_norm 5
        conv2d 5
        matmul 2
        max_pool2d 2
        reduce_mean 1
        relu 6
    "#]],
    );
    check(
        &small("resnet50"),
        expect![[r#"
        add 17
        batch_norm 53
        conv2d 53
        matmul 1
        max_pool2d 1
        reduce_mean 1
        relu 49
    "#]],
    );
    check(
        &small("bert layers=2 hidden=64 heads=4 intermediate=128 vocab=100 seq=8"),
        expect![[r#"
        add 21
        cast 1
        expand_dims 1
        gelu 2
        layer_norm 5
        matmul 17
        mul 2
        permute 8
        reshape 9
        slice 1
        softmax 2
        take 2
        tanh 1
        where 1
    "#]],
    );
    check(
        &small("llama layers=2 hidden=64 heads=4 kv_heads=2 intermediate=96 vocab=50"),
        expect![[r#"
        add 8
        arange 1
        concat 4
        cos 1
        expand_dims 1
        matmul 19
        mul 21
        permute 8
        reshape 16
        rms_norm 5
        silu 2
        sin 1
        slice 8
        softmax 2
        sub 4
        take 1
        tril_mask 1
        where 2
    "#]],
    );
    check(
        &small("example-reduce"),
        expect![[r#"
        add 1
        matmul 1
        reduce_sum 1
    "#]],
    );
    check(
        &small("example-fanout"),
        expect![[r#"
        add 5
        batch_norm 3
        conv2d 3
    "#]],
    );
}

/// Every result is finite and not all the same.
fn alive(model: &Model) {
    for (tensor, name) in evaluate(model, 3, &|_| None).iter().zip(&model.outputs) {
        let TensorData::Float(values) = &tensor.data else {
            panic!("{name} is floating-point")
        };
        assert!(
            values.iter().all(|v| v.is_finite()),
            "{}: {name} is finite",
            model.name
        );
        let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / values.len() as f64;
        let variance =
            values.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / values.len() as f64;
        assert!(
            (1e-3..1e3).contains(&variance.sqrt()),
            "{}: {name} deviates by {}",
            model.name,
            variance.sqrt()
        );
    }
}

#[test]
fn results_are_alive() {
    for text in [
        "small-cnn width=8",
        "resnet50 depth=18 width=8 image=64 classes=10",
        "resnet50 width=8 image=64 classes=10",
        "bert layers=3 hidden=64 heads=4 intermediate=128 vocab=100 seq=8",
        "llama layers=3 hidden=64 heads=4 kv_heads=2 intermediate=96 vocab=50 seq=7",
        "example-reduce",
        "example-fanout channels=4 image=5",
    ] {
        alive(&small(text));
    }
}

/// The logits of a prefix do not depend on what follows: causal mask, rotary positions and grouped heads fit together.
#[test]
fn the_decoder_is_causal_at_every_length() {
    let model = small("llama layers=2 hidden=64 heads=4 kv_heads=2 intermediate=96 vocab=50");
    let logits = |length: i64| {
        let bind = move |v: &relayout_ir::sym::SymVar| Some(if v.name() == "n" { 1 } else { length });
        let out = evaluate(&model, 5, &bind);
        assert_eq!(out[0].shape, [1, length as usize, 50]);
        match &out[0].data {
            TensorData::Float(v) => v.clone(),
            TensorData::Int(_) => panic!("floating-point logits"),
        }
    };
    let (short, long) = (logits(4), logits(9));
    for (a, b) in short.iter().zip(&long) {
        assert!((a - b).abs() < 1e-4, "{a} and {b}");
    }
    // The same token at another position gives something else, or the positions would not matter.
    let rows: Vec<&[f32]> = long.chunks(50).collect();
    assert!(rows.windows(2).all(|w| w[0] != w[1]));
}

#[test]
fn wrong_names_and_values_are_answered_with_the_nearest() {
    let fail = |text: &str| {
        let spec = ModelSpec::parse(text).expect("a spec");
        let relayout_models::ModelSource::Zoo(name) = &spec.source else {
            panic!("a zoo name")
        };
        build(name, &spec.overrides, 0, 1).expect_err(text)
    };
    assert!(matches!(fail("resnet5"), ZooError::UnknownModel { nearest, .. } if nearest == "resnet50"));
    assert!(matches!(fail("bert layer=2"), ZooError::UnknownOverride { nearest, .. } if nearest == "layers"));
    expect!["bert: `layers` is `two`; expected an integer from 1 to 1024"]
        .assert_eq(&fail("bert layers=two").to_string());
    expect!["resnet50: `depth` is `51`; expected one of 18, 34, 50, 101, 152"]
        .assert_eq(&fail("resnet50 depth=51").to_string());
    expect!["bert: hidden=100 is not a multiple of heads=12"].assert_eq(&fail("bert hidden=100").to_string());
    expect!["llama: seq=5000 exceeds max_seq=4096"].assert_eq(&fail("llama seq=5000").to_string());
    assert!(matches!(fail("small-cnn image=1"), ZooError::Build { .. }));
    assert!(matches!(
        build("bert", &Overrides::new(), 0, 0),
        Err(ZooError::Batch(0))
    ));
}

#[test]
fn inputs_follow_the_binding() {
    let model = small("llama layers=1");
    assert_eq!(model.family, Family::DenseTransformers);
    let shape = |bind: &dyn Fn(&relayout_ir::sym::SymVar) -> Option<i64>| {
        draw_inputs(&model, 1, bind).map(|i| i[0].shape.clone())
    };
    assert_eq!(shape(&|_| None), Ok(vec![2, 128]));
    assert_eq!(shape(&|v| (v.name() == "s").then_some(7)), Ok(vec![2, 7]));
    let error = shape(&|v| (v.name() == "s").then_some(5000))
        .expect_err("beyond the range")
        .to_string();
    expect!["dimension `s` is 5000; expected 1 or more, at most 4096"].assert_eq(&error);
}
