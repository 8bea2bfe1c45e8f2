//! Bad files: a clear error, never a panic.

use super::shared;
use proptest::prelude::*;
use relayout_models::onnx::{ImportOptions, OnnxError, import};

fn options() -> ImportOptions {
    ImportOptions::new("file", 1)
}

fn base() -> Vec<u8> {
    std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/operators.onnx")).expect("fixture")
}

#[test]
fn a_file_cut_anywhere_is_refused_with_the_place() {
    let bytes = base();
    let mut places = 0;
    for length in 0..bytes.len() {
        match import(&bytes[..length], &options()) {
            // A cut between two top-level fields leaves a well-formed message that lacks something.
            Ok(_) => panic!("the first {length} bytes of {} were accepted", bytes.len()),
            Err(OnnxError::Wire { offset, .. }) => {
                assert!(offset <= length);
                places += 1;
            }
            Err(_) => {}
        }
    }
    assert!(
        places > bytes.len() * 9 / 10,
        "{places} of {} cuts were placed",
        bytes.len()
    );
}

#[test]
fn the_place_of_a_cut_is_readable() {
    let bytes = base();
    let error = import(&bytes[..3000], &options()).expect_err("cut").to_string();
    expect_test::expect![
        "not a valid ONNX file: at byte 2, in the file: a field of 8952 bytes, where 2995 are left"
    ]
    .assert_eq(&error);
    assert!(import(b"", &options()).is_err());
    let error = import(b"this is no ONNX file", &options())
        .expect_err("text")
        .to_string();
    expect_test::expect![[
        r#"not a valid ONNX file: at byte 0, in the file: wire type 4, which protobuf does not use here"#
    ]]
    .assert_eq(&error);
}

#[test]
fn every_unsupported_operator_is_listed_at_once() {
    let Some(bytes) = shared::graph("qwen3-vl-4b") else {
        return;
    };
    let error = import(&bytes, &options()).expect_err("3-D convolution and scatters");
    expect_test::expect![[r#"
        4 of the file's operators can't be imported:
          1 × Conv: 3 spatial axes; supported are 1 and 2 (node `node_conv3d`)
          1 × NonZero: no such operator here (node `node_NonZero_3112`)
          4 × ScatterElements: no such operator here (node `node_select_scatter`)
          4 × ScatterND: no such operator here (node `node_ScatterND_2874`)"#]]
    .assert_eq(&error.to_string());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Some bytes replaced, some removed, some inserted: any result but a panic.
    #[test]
    fn a_mutated_file_never_panics(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 1..12)) {
        let mut bytes = base();
        for (at, byte, kind) in edits {
            let at = at.index(bytes.len());
            match kind {
                0 => { bytes.remove(at); }
                1 => bytes.insert(at, byte),
                _ => bytes[at] = byte,
            }
        }
        let _ = import(&bytes, &options());
    }
}
