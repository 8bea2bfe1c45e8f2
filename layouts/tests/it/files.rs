//! The file format: round trips, and what malformed files are answered.

use proptest::prelude::*;
use relayout_layouts::generate::{Random, random};
use relayout_layouts::json::{self, ReadError};

use crate::support::{builder, operator, small_problems, tensor};

const VALID: &str = r#"{"format":"layout-selection/1","name":"n","unit":"cycles","tensors":[
    {"name":"t","layouts":["p","q"],"transpose":[[0,9],[null,0]]}],
    "operators":[{"name":"x","inputs":[],"output":0,"configs":[{"in":[],"out":0,"cost":3}]}]}"#;

#[test]
fn a_problem_survives_writing_and_reading() {
    for (_, problem) in small_problems(60) {
        let mut bytes = Vec::new();
        json::write(&problem, &mut bytes).unwrap();
        assert_eq!(json::read(&bytes).unwrap(), problem);
    }
}

#[test]
fn optional_keys_survive_and_unknown_ones_are_ignored() {
    let mut b = builder();
    b.family = Some("cnn".into());
    let mut t = tensor("t", &[&[0, 2], &[3, 0]]);
    t.transpose_terms = vec![
        vec![None, Some([("bytes".to_string(), 2.5)].into())],
        vec![None, None],
    ];
    b.tensor(t);
    b.operator(operator("x", &[], 0, &[(&[], 0, 1), (&[], 1, 1)]));
    b.operators[0].configs[1].terms = Some([("compute".to_string(), 1.0)].into());
    b.hints = Some(crate::support::bare_hints(&b));
    let problem = b.build().unwrap();
    let mut bytes = Vec::new();
    json::write(&problem, &mut bytes).unwrap();
    assert_eq!(json::read(&bytes).unwrap(), problem);
    let extended = VALID.replacen(r#""name":"x""#, r#""name":"x","colour":[1,{"a":null}]"#, 1);
    assert_eq!(
        json::read(extended.as_bytes()).unwrap(),
        json::read(VALID.as_bytes()).unwrap()
    );
}

#[test]
fn compressed_files_are_read_and_written() {
    let problem = json::read(VALID.as_bytes()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.json.zst");
    json::write_file(&problem, &file).unwrap();
    assert_eq!(json::read_file(&file).unwrap(), problem);
    let mut bytes = std::fs::read(&file).unwrap();
    assert!(!bytes.starts_with(b"{"));
    bytes.truncate(bytes.len() / 2);
    assert!(matches!(json::read(&bytes), Err(ReadError::Compression(_))));
    let missing = json::read_file(folder.path().join("nowhere.json"))
        .unwrap_err()
        .to_string();
    assert!(missing.contains("nowhere.json"), "{missing}");
}

#[test]
fn faults_are_reported_with_their_path() {
    let broken = |from: &str, to: &str| {
        assert!(VALID.contains(from));
        json::read(VALID.replacen(from, to, 1).as_bytes())
            .unwrap_err()
            .to_string()
    };
    let cases = [
        (
            "\"cost\":3",
            "\"cost\":-3",
            "operators[0].configs[0].cost: invalid value: integer `-3`, expected u64",
        ),
        (
            "\"cost\":3",
            "\"cost\":3.5",
            "operators[0].configs[0].cost: invalid type: floating point `3.5`, expected u64",
        ),
        (
            "\"cost\":3",
            "\"cost\":99999999999999999999",
            "operators[0].configs[0].cost: ",
        ),
        (
            "\"cost\":3",
            "\"price\":3",
            "operators[0].configs[0]: missing field `cost`",
        ),
        (
            "[0,9]",
            "[0,\"9\"]",
            "tensors[0].transpose[0][1]: invalid type: string \"9\", expected u64",
        ),
        (
            "[null,0]",
            "[0]",
            "tensors[0].transpose[1]: the transpose matrix has 1 rows",
        ),
        (
            "\"out\":0",
            "\"out\":5",
            "operators[0].configs[0].out: no layout has index 5",
        ),
        (
            "\"inputs\":[]",
            "\"inputs\":[0,1]",
            "operators[0].inputs[1]: no tensor has index 1; there are 1",
        ),
        (
            "selection/1",
            "selection/2",
            "format: found \"layout-selection/2\", expected \"layout-selection/1\"",
        ),
        (
            "\"unit\":\"cycles\"",
            "\"unit\":\"cycles\"}",
            "top level: missing field `tensors`",
        ),
        ("\"unit\":\"cycles\"", "\"unit\":cycles", "not JSON: "),
    ];
    for (from, to, expected) in cases {
        let found = broken(from, to);
        assert!(
            found.starts_with(expected),
            "{to}: found {found:?}, expected {expected:?}"
        );
    }
    assert!(matches!(json::read(b""), Err(ReadError::Syntax { .. })));
    assert!(matches!(
        json::read(&VALID.as_bytes()[..VALID.len() / 2]),
        Err(ReadError::Syntax { .. })
    ));
    let deep = "[".repeat(100_000);
    assert!(json::read(deep.as_bytes()).is_err());
}

#[test]
fn assignments_are_read() {
    let read = |s: &str| json::read_assignment(s.as_bytes());
    assert_eq!(
        read(r#"{"assignment":[1,0],"cost":5}"#).unwrap(),
        Some([1, 0].map(relayout_layouts::ConfigId).into())
    );
    assert_eq!(read(r#"{"assignment":null}"#).unwrap(), None);
    assert_eq!(
        read(r#"{"assignment":[1,-1]}"#).unwrap_err().to_string(),
        "assignment[1]: invalid value: integer `-1`, expected u32 at line 1 column 19"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any byte of a valid file may be replaced: the answer is a problem or an error, never a panic.
    #[test]
    fn damaged_files_never_panic(seed in 0u64..50, at in 0usize..10_000, byte in any::<u8>(), cut in any::<bool>()) {
        let problem = random(&Random { operators: 5, odd: true, seed, ..Random::default() }).unwrap();
        let mut bytes = Vec::new();
        json::write(&problem, &mut bytes).unwrap();
        let at = at % bytes.len();
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        if let Ok(problem) = json::read(&bytes) {
            prop_assert!(problem.topological_order().len() == problem.operators().len());
        }
    }
}
