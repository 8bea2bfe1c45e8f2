//! `schema` and the configuration that it describes.

use super::relayout;
use relayout::config::Config;
use relayout::frontend;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

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
  - { external: toulbar2, command: 'toulbar2 {instance} -s', format: cfn }
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
