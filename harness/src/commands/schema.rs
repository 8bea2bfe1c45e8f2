//! `relayout schema`: the JSON Schema of the experiment configuration, for editors.
//!
//! The types here mirror what [`crate::config`] reads; a test holds the two together.

use super::{CommandError, Exit, output};
use relayout_compiler::cost::CostModelKind;
use relayout_layouts::STRATEGIES;
use schemars::JsonSchema;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One value, or a list.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code)]
enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

/// A number of seconds, or a number with `ms`, `s`, `min` or `h`.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code)]
enum Duration {
    Seconds(f64),
    Text(#[schemars(regex(pattern = r"^\s*[0-9.]+\s*(ms|s|min|m|h)?\s*$"))] String),
}

/// A number of bytes, or a number with `KiB`, `MiB`, `GiB`, `kB`, `MB` or `GB`.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code)]
enum Size {
    Bytes(u64),
    Text(#[schemars(regex(pattern = r"^\s*[0-9.]+\s*(B|KiB|MiB|GiB|kB|MB|GB)?\s*$"))] String),
}

/// An experiment of relayout.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)]
struct Experiment {
    /// Names the run's folder; by default the file's stem.
    name: Option<String>,
    /// Seed of weights, inputs and randomised solvers; by default 0.
    #[schemars(range(min = 0))]
    seed: Option<i64>,
    /// The models.
    models: OneOrMany<ModelChoice>,
    /// Built-in targets or paths of descriptions; by default `cpu`.
    targets: Option<OneOrMany<String>>,
    /// Cost models; by default `analytic`.
    cost_models: Option<OneOrMany<CostModelName>>,
    /// Strategies, in column order.
    strategies: OneOrMany<StrategyChoice>,
    /// The label of the strategy that plays the papers' `solver-based` column.
    solver_based: Option<String>,
    /// Candidate layouts: those that spread from layout-sensitive operators (default), or all.
    domain: Option<DomainName>,
    /// Limits of a solver.
    budget: Option<Budget>,
    /// How latencies are measured.
    measure: Option<Measure>,
    /// Wall-clock limits of the phases of a cell, after which its process is killed.
    limits: Option<Limits>,
    /// Largest error of an output relative to the reference's largest value; by default 0.001.
    #[schemars(range(min = 0.0))]
    tolerance: Option<f64>,
}

/// A model, with the shapes it is run at where they are not the defaults.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code)]
enum ModelChoice {
    Text(ModelText),
    Full(ModelEntry),
}

/// A zoo name with overrides (`bert layers=2`), or a path that ends in `.onnx`.
#[derive(JsonSchema)]
#[schemars(transparent)]
#[allow(dead_code)]
struct ModelText(String);

/// A model with the shapes it is run at.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)]
struct ModelEntry {
    /// The model.
    model: ModelText,
    /// The family shown in tables; by default the zoo's.
    family: Option<String>,
    /// Batch sizes; by default 1.
    batch: Option<OneOrMany<Batch>>,
    /// Values of symbolic dimensions; every combination is a cell.
    dims: Option<BTreeMap<String, OneOrMany<Extent>>>,
}

/// A batch size.
#[derive(JsonSchema)]
#[schemars(transparent)]
#[allow(dead_code)]
struct Batch(#[schemars(range(min = 1, max = 1_048_576))] u64);

/// The value of a dimension.
#[derive(JsonSchema)]
#[schemars(transparent)]
#[allow(dead_code)]
struct Extent(#[schemars(range(min = 1, max = 1_073_741_824))] u64);

/// A strategy by name, or with a label and a solver, or an outside solver.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code)]
enum StrategyChoice {
    Name(StrategyName),
    Full(StrategyEntry),
    External(ExternalEntry),
}

/// An outside solver.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)]
struct ExternalEntry {
    /// The column.
    external: String,
    /// The program with its arguments, with placeholders in braces such as {instance}; no shell runs it.
    command: String,
    /// What the program reads, and with it how it answers.
    format: FormatName,
}

/// What an outside solver reads: weighted CNF (2022), or a cost function network.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[allow(dead_code)]
enum FormatName {
    Wcnf,
    Cfn,
}

/// A strategy with a label and a solver.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)]
struct StrategyEntry {
    /// The strategy.
    strategy: StrategyName,
    /// The column; by default the strategy's name.
    label: Option<String>,
    /// Its solver, for those that have several.
    solver: Option<String>,
}

/// Limits of a solver.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)]
struct Budget {
    /// Time; by default 60 s.
    time: Option<Duration>,
    /// Memory of its tables; by default 4 GiB.
    memory: Option<Size>,
}

/// How latencies are measured.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)]
struct Measure {
    /// Runs before the first sample; by default 3.
    warmup: Option<u32>,
    /// Samples, at least; by default 20.
    #[schemars(range(min = 1))]
    samples: Option<u32>,
    /// Time that the samples take together, at least; by default 0.2 s.
    min_time: Option<Duration>,
    /// Time after which no further sample is taken; by default 10 s.
    max_time: Option<Duration>,
    /// Processes per cell, interleaved over the strategies of a model; by default 1.
    #[schemars(range(min = 1))]
    rounds: Option<u32>,
    /// Threads; by default 1.
    threads: Option<OneOrMany<Threads>>,
    /// Samples per kernel of a profile; by default 5.
    #[schemars(range(min = 1))]
    profile_samples: Option<u32>,
}

/// A number of threads.
#[derive(JsonSchema)]
#[schemars(transparent)]
#[allow(dead_code)]
struct Threads(#[schemars(range(min = 1, max = 1024))] u32);

/// Wall-clock limits per phase.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)]
struct Limits {
    /// Building and extracting the instance.
    instance: Option<Duration>,
    /// Solving; above the solver's own budget.
    solve: Option<Duration>,
    /// Compiling.
    compile: Option<Duration>,
    /// Checking and measuring.
    run: Option<Duration>,
    /// The reference output.
    reference: Option<Duration>,
    /// Address space of a cell's process; none when absent.
    memory: Option<Size>,
}

/// The candidate layouts.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[allow(dead_code)]
enum DomainName {
    Spread,
    Full,
}

/// A cost model. (The names are filled in by [`schema`].)
#[derive(JsonSchema)]
#[schemars(transparent)]
#[allow(dead_code)]
struct CostModelName(String);

/// A strategy. (The names are filled in by [`schema`].)
#[derive(JsonSchema)]
#[schemars(transparent)]
#[allow(dead_code)]
struct StrategyName(String);

/// The JSON Schema (2020-12) of the experiment configuration.
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(Experiment).to_value();
    without_null(&mut schema);
    let strategies: Vec<&str> = STRATEGIES.iter().map(|s| s.name).collect();
    let cost_models = CostModelKind::ALL.map(|(_, name)| name);
    schema["$defs"]["StrategyName"]["enum"] = json!(strategies);
    schema["$defs"]["CostModelName"]["enum"] = json!(cost_models);
    schema["$defs"]["StrategyName"]["description"] = json!("A strategy.");
    schema["$defs"]["CostModelName"]["description"] = json!("A cost model.");
    schema
}

/// An absent key is not the same as `null`: the reader refuses the latter.
fn without_null(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|t| t != "null");
                if let [only] = &types[..] {
                    let only = only.clone();
                    object.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
                choices.retain(|c| c != &json!({ "type": "null" }));
            }
            object.values_mut().for_each(without_null);
        }
        Value::Array(items) => items.iter_mut().for_each(without_null),
        _ => {}
    }
}

/// Prints the schema.
pub fn print() -> Result<Exit, CommandError> {
    output::print_json(&schema())?;
    Ok(Exit::Success)
}
