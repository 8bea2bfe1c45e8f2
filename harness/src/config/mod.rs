//! The experiment configuration: one YAML file, `key=value` overrides, resolved and checked before anything runs.

mod fault;
mod node;
mod overrides;
mod reader;

pub use fault::{ConfigError, Fault, suggest};
pub use node::Place;
pub use reader::{parse_bytes, parse_duration};

use node::{Node, Value};
use reader::{Fields, Reader};
use relayout_compiler::cost::CostModelKind;
use relayout_compiler::extract::DomainPolicy;
use relayout_layouts::external::{self, Format, Template};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The names that a configuration may use.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Zoo models.
    pub models: Vec<String>,
    /// Built-in targets (a path to a description is accepted too).
    pub targets: Vec<String>,
    /// Strategies.
    pub strategies: Vec<String>,
    /// Solvers by strategy.
    pub solvers: BTreeMap<String, Vec<String>>,
}

/// A resolved experiment. Two files that resolve to the same value are the same experiment.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Config {
    /// The name, by default the file's stem; names the run directory.
    pub name: String,
    /// The seed of weights, inputs and randomised solvers.
    pub seed: u64,
    /// Models.
    pub models: Vec<ModelEntry>,
    /// Targets: built-in names or paths.
    pub targets: Vec<String>,
    /// Cost models.
    pub cost_models: Vec<CostModelKind>,
    /// Strategies, in column order.
    pub strategies: Vec<StrategyEntry>,
    /// The label of the strategy that plays the papers' `solver-based` column.
    pub solver_based: Option<String>,
    /// Candidate layouts.
    pub domain: DomainPolicy,
    /// Limits of a solver.
    pub budget: SolveBudget,
    /// How latencies are measured.
    pub measure: Measure,
    /// Wall-clock limits of the phases of a cell, after which its process is killed.
    pub limits: Limits,
    /// Largest error of an output relative to the reference's largest value.
    pub tolerance: f64,
}

/// A model with the shapes it is run at.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ModelEntry {
    /// Zoo name with overrides, or path of an ONNX file: `bert layers=2`.
    pub model: String,
    /// The family shown in tables; by default the zoo's.
    pub family: Option<String>,
    /// Batch sizes.
    pub batch: Vec<u64>,
    /// Values of symbolic dimensions; every combination is a cell.
    pub dims: BTreeMap<String, Vec<i64>>,
}

/// A strategy of the sweep.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StrategyEntry {
    /// The column; by default the strategy's name.
    pub label: String,
    /// The strategy.
    pub strategy: String,
    /// Its solver, for those that have several.
    pub solver: Option<String>,
    /// The program, when the strategy is `external`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalProgram>,
}

/// An outside solver.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ExternalProgram {
    /// Its command, with placeholders.
    pub command: String,
    /// What it reads.
    pub format: Format,
}

/// Limits of a solver.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct SolveBudget {
    /// Seconds.
    pub time: f64,
    /// Bytes.
    pub memory: u64,
}

/// How latencies are measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Measure {
    /// Runs before the first sample.
    pub warmup: u32,
    /// Samples, at least.
    pub samples: u32,
    /// Seconds that the samples take together, at least.
    pub min_time: f64,
    /// Seconds after which no further sample is taken.
    pub max_time: f64,
    /// Processes per cell, interleaved over the strategies of a model.
    pub rounds: u32,
    /// Threads.
    pub threads: Vec<u32>,
    /// Samples per kernel of a profile.
    pub profile_samples: u32,
}

/// Wall-clock limits per phase, in seconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Limits {
    /// Building and extracting the instance.
    pub instance: f64,
    /// Solving; above the solver's own budget.
    pub solve: f64,
    /// Compiling.
    pub compile: f64,
    /// Checking and measuring.
    pub run: f64,
    /// The reference output.
    pub reference: f64,
    /// Bytes of address space of a cell's process; none when absent.
    pub memory: Option<u64>,
}

impl Config {
    /// Reads, overrides and checks a configuration.
    ///
    /// # Errors
    /// All faults at once.
    pub fn read(file: &str, text: &str, arguments: &[String], known: &Known) -> Result<Self, ConfigError> {
        let error = |faults| ConfigError {
            file: file.to_owned(),
            text: text.to_owned(),
            faults,
        };
        let mut root = match node::parse(text) {
            Ok(root) => root,
            Err(e) => {
                let place = e
                    .location()
                    .map_or(Place::File { line: 1, column: 1 }, Place::from);
                return Err(error(vec![Fault {
                    place,
                    message: format!("not valid YAML: {e}"),
                    help: None,
                }]));
            }
        };
        let mut reader = Reader::default();
        overrides::apply(&mut root, arguments, &mut reader);
        let stem = std::path::Path::new(file)
            .file_stem()
            .map_or("run".into(), |s| s.to_string_lossy().into_owned());
        let config = resolve(&mut reader, &root, &stem, known);
        match config {
            Some(config) if reader.faults.is_empty() => Ok(config),
            _ => {
                // In the order of the file, then of the arguments, whatever the order of reading was.
                reader.faults.sort_by_key(|f| match f.place {
                    Place::File { line, column } => (0, line, column),
                    Place::Argument(_) => (1, 0, 0),
                });
                Err(error(reader.faults))
            }
        }
    }

    /// The hash of the resolved configuration: independent of key order, white space and comments.
    pub fn hash(&self) -> String {
        // Serialisation of these types can't fail: no map has keys other than text.
        let canonical = serde_json::to_vec(self).unwrap_or_default();
        blake3::hash(&canonical).to_hex()[..16].to_owned()
    }
}

/// A name that is also that of a folder in `results`.
fn folder_name(reader: &mut Reader, node: &Node) -> Option<String> {
    let name = reader.text(node, "name")?;
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | ' ');
    if name.starts_with('.') || name.trim() != name || name.is_empty() || !name.chars().all(plain) {
        let help = "it names the folder results/NAME: letters, digits, `-`, `_`, `.`, `+` and inner spaces";
        reader.fault(
            &node.place,
            format!("`{name}` is no name for a run"),
            Some(help.to_owned()),
        );
        return None;
    }
    Some(name)
}

fn resolve(reader: &mut Reader, root: &Node, stem: &str, known: &Known) -> Option<Config> {
    let mut fields = reader.fields(root, "a configuration")?;
    let name = fields
        .take("name")
        .and_then(|n| folder_name(reader, n))
        .unwrap_or_else(|| stem.to_owned());
    let seed = fields
        .take("seed")
        .and_then(|n| reader.int(n, "seed", 0, i64::MAX))
        .unwrap_or(0) as u64;
    let mut models = Vec::new();
    if let Some(list) = fields.require(reader, "models", root) {
        for node in reader.list(list) {
            models.extend(model(reader, node, known));
        }
        non_empty(reader, list, models.len(), "models");
    }
    let mut targets = Vec::new();
    match fields.take("targets") {
        None => targets.push("cpu".to_owned()),
        Some(list) => {
            for node in reader.list(list) {
                targets.extend(target(reader, node, known));
            }
            non_empty(reader, list, targets.len(), "targets");
        }
    }
    let mut cost_models = Vec::new();
    match fields.take("cost_models") {
        None => cost_models.push(CostModelKind::Analytic),
        Some(list) => {
            let names = CostModelKind::ALL.map(|(_, n)| n);
            for node in reader.list(list) {
                let name = reader.name(node, "cost model", &names);
                cost_models.extend(
                    CostModelKind::ALL
                        .iter()
                        .find(|(_, n)| Some(*n) == name)
                        .map(|(k, _)| *k),
                );
            }
            non_empty(reader, list, cost_models.len(), "cost_models");
        }
    }
    let mut strategies: Vec<StrategyEntry> = Vec::new();
    if let Some(list) = fields.require(reader, "strategies", root) {
        for node in reader.list(list) {
            let Some(entry) = strategy(reader, node, known) else {
                continue;
            };
            if strategies.iter().any(|s| s.label == entry.label) {
                let help = Some("give one of them another `label`".into());
                reader.fault(
                    &node.place,
                    format!("two strategies have the label `{}`", entry.label),
                    help,
                );
            }
            strategies.push(entry);
        }
        non_empty(reader, list, strategies.len(), "strategies");
    }
    let solver_based = fields.take("solver_based").and_then(|node| {
        let labels: Vec<&str> = strategies.iter().map(|s| s.label.as_str()).collect();
        reader.name(node, "strategy label", &labels).map(str::to_owned)
    });
    let domain = fields
        .take("domain")
        .and_then(|n| reader.name(n, "domain", &["spread", "full"]));
    let budget = budget(reader, &mut fields);
    let measure = measure(reader, &mut fields);
    let limits = limits(reader, &mut fields, budget.time);
    let tolerance = fields
        .take("tolerance")
        .and_then(|n| reader.number(n, "tolerance", 0.0))
        .unwrap_or(1e-3);
    fields.finish(reader);
    Some(Config {
        name,
        seed,
        models,
        targets,
        cost_models,
        strategies,
        solver_based,
        domain: if domain == Some("full") {
            DomainPolicy::Full
        } else {
            DomainPolicy::Spread
        },
        budget,
        measure,
        limits,
        tolerance,
    })
}

fn non_empty(reader: &mut Reader, list: &Node, found: usize, key: &str) {
    let given = match &list.value {
        Value::List(items) => items.len(),
        Value::Null => 0,
        _ => 1,
    };
    if found == 0 && given == 0 {
        reader.fault(&list.place, format!("`{key}` is empty"), None);
    }
}

fn model(reader: &mut Reader, node: &Node, known: &Known) -> Option<ModelEntry> {
    let mut entry = ModelEntry {
        model: String::new(),
        family: None,
        batch: vec![1],
        dims: BTreeMap::new(),
    };
    if let Value::Map(_) = node.value {
        let mut fields = reader.fields(node, "a model")?;
        if let Some(n) = fields.require(reader, "model", node) {
            entry.model = model_name(reader, n, known)?;
        }
        entry.family = fields.take("family").and_then(|n| reader.text(n, "family"));
        if let Some(list) = fields.take("batch") {
            entry.batch = reader
                .list(list)
                .into_iter()
                .filter_map(|n| reader.int(n, "batch", 1, 1 << 20))
                .map(i64::unsigned_abs)
                .collect();
            non_empty(reader, list, entry.batch.len(), "batch");
        }
        if let Some(dims) = fields.take("dims")
            && reader.fields(dims, "dims").is_some()
            && let Value::Map(entries) = &dims.value
        {
            for (name, _, list) in entries {
                let values: Vec<i64> = reader
                    .list(list)
                    .into_iter()
                    .filter_map(|n| reader.int(n, "dimension", 1, 1 << 30))
                    .collect();
                non_empty(reader, list, values.len(), name);
                entry.dims.insert(name.clone(), values);
            }
        }
        fields.finish(reader);
    } else {
        entry.model = model_name(reader, node, known)?;
    }
    Some(entry)
}

/// A zoo model with overrides, or a path that ends in `.onnx`. Overrides are checked when the model is built.
fn model_name(reader: &mut Reader, node: &Node, known: &Known) -> Option<String> {
    let text = reader.text(node, "a model")?;
    let first = text.split_whitespace().next().unwrap_or_default();
    if first.ends_with(".onnx") {
        return Some(text);
    }
    if known.models.iter().any(|m| m == first) {
        return Some(text.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    reader.fault(
        &node.place,
        format!("unknown model `{first}`"),
        suggest(first, known.models.iter().map(String::as_str)),
    );
    None
}

fn target(reader: &mut Reader, node: &Node, known: &Known) -> Option<String> {
    let text = reader.text(node, "a target")?;
    if text.ends_with(".yaml") || known.targets.contains(&text) {
        return Some(text);
    }
    reader.fault(
        &node.place,
        format!("unknown target `{text}`"),
        suggest(&text, known.targets.iter().map(String::as_str)),
    );
    None
}

fn strategy(reader: &mut Reader, node: &Node, known: &Known) -> Option<StrategyEntry> {
    let names: Vec<&str> = known.strategies.iter().map(String::as_str).collect();
    let Value::Map(entries) = &node.value else {
        let name = strategy_name(reader, node, &names)?;
        return Some(StrategyEntry {
            label: name.to_owned(),
            strategy: name.to_owned(),
            solver: None,
            external: None,
        });
    };
    let mut fields = reader.fields(node, "a strategy")?;
    if entries.iter().any(|(key, ..)| key == external::NAME) {
        return external_program(reader, node, fields);
    }
    let name = fields
        .require(reader, "strategy", node)
        .and_then(|n| strategy_name(reader, n, &names));
    let label = fields.take("label").and_then(|n| reader.text(n, "label"));
    let solver = fields.take("solver").and_then(|n| {
        let choices: Vec<&str> = name
            .and_then(|s| known.solvers.get(s))
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect();
        reader.name(n, "solver", &choices).map(str::to_owned)
    });
    fields.finish(reader);
    let name = name?;
    Some(StrategyEntry {
        label: label.unwrap_or_else(|| name.to_owned()),
        strategy: name.to_owned(),
        solver,
        external: None,
    })
}

/// A strategy that needs nothing beside its name.
fn strategy_name<'c>(reader: &mut Reader, node: &Node, names: &[&'c str]) -> Option<&'c str> {
    if matches!(&node.value, Value::Text(name) if name == external::NAME) {
        let help = "write `{ external: LABEL, command: \"… {instance} …\", format: wcnf or cfn }`";
        let message = "`external` needs a command and a format";
        reader.fault(&node.place, message, Some(help.into()));
        return None;
    }
    reader.name(node, "strategy", names)
}

/// An outside solver: the label stands where others have the strategy's name.
fn external_program(reader: &mut Reader, node: &Node, mut fields: Fields<'_>) -> Option<StrategyEntry> {
    let label = fields
        .take(external::NAME)
        .and_then(|n| reader.text(n, "external (a label)"));
    let command = fields.require(reader, "command", node).and_then(|n| {
        let command = reader.text(n, "a command")?;
        match Template::parse(&command) {
            Ok(_) => Some(command),
            Err(e) => {
                let help = format!("placeholders are {}", external::placeholders());
                reader.fault(
                    &n.place,
                    format!("the command of an external solver: {e}"),
                    Some(help),
                );
                None
            }
        }
    });
    let format = fields.require(reader, "format", node).and_then(|n| {
        let name = reader.name(n, "format", &Format::ALL.map(|(_, name)| name))?;
        Format::from_name(name).ok()
    });
    fields.finish(reader);
    Some(StrategyEntry {
        label: label?,
        strategy: external::NAME.to_owned(),
        solver: None,
        external: Some(ExternalProgram {
            command: command?,
            format: format?,
        }),
    })
}

fn budget(reader: &mut Reader, fields: &mut Fields<'_>) -> SolveBudget {
    let mut budget = SolveBudget {
        time: 60.0,
        memory: 4 << 30,
    };
    let Some(node) = fields.take("budget") else {
        return budget;
    };
    let Some(mut inner) = reader.fields(node, "a budget") else {
        return budget;
    };
    if let Some(time) = inner.take("time").and_then(|n| reader.duration(n, "time")) {
        budget.time = time.as_secs_f64();
    }
    if let Some(memory) = inner.take("memory").and_then(|n| reader.bytes(n, "memory")) {
        budget.memory = memory;
    }
    inner.finish(reader);
    budget
}

fn measure(reader: &mut Reader, fields: &mut Fields<'_>) -> Measure {
    let mut measure = Measure {
        warmup: 3,
        samples: 20,
        min_time: 0.2,
        max_time: 10.0,
        rounds: 1,
        threads: vec![1],
        profile_samples: 5,
    };
    let Some(node) = fields.take("measure") else {
        return measure;
    };
    let Some(mut inner) = reader.fields(node, "measure") else {
        return measure;
    };
    let count = |reader: &mut Reader, node: Option<&Node>, what: &str, low: i64, slot: &mut u32| {
        if let Some(value) = node.and_then(|n| reader.int(n, what, low, 1 << 20)) {
            *slot = u32::try_from(value).unwrap_or(u32::MAX);
        }
    };
    count(reader, inner.take("warmup"), "warmup", 0, &mut measure.warmup);
    count(reader, inner.take("samples"), "samples", 1, &mut measure.samples);
    count(reader, inner.take("rounds"), "rounds", 1, &mut measure.rounds);
    count(
        reader,
        inner.take("profile_samples"),
        "profile_samples",
        1,
        &mut measure.profile_samples,
    );
    if let Some(time) = inner
        .take("min_time")
        .and_then(|n| reader.duration(n, "min_time"))
    {
        measure.min_time = time.as_secs_f64();
    }
    if let Some(time) = inner
        .take("max_time")
        .and_then(|n| reader.duration(n, "max_time"))
    {
        measure.max_time = time.as_secs_f64();
    }
    if let Some(list) = inner.take("threads") {
        measure.threads = reader
            .list(list)
            .into_iter()
            .filter_map(|n| reader.int(n, "threads", 1, 1024))
            .filter_map(|t| u32::try_from(t).ok())
            .collect();
        non_empty(reader, list, measure.threads.len(), "threads");
    }
    inner.finish(reader);
    measure
}

fn limits(reader: &mut Reader, fields: &mut Fields<'_>, solve: f64) -> Limits {
    let mut limits = Limits {
        instance: 120.0,
        solve: solve * 2.0 + 30.0,
        compile: 600.0,
        run: 300.0,
        reference: 600.0,
        memory: None,
    };
    let Some(node) = fields.take("limits") else {
        return limits;
    };
    let Some(mut inner) = reader.fields(node, "limits") else {
        return limits;
    };
    for (key, slot) in [
        ("instance", &mut limits.instance),
        ("solve", &mut limits.solve),
        ("compile", &mut limits.compile),
        ("run", &mut limits.run),
        ("reference", &mut limits.reference),
    ] {
        if let Some(time) = inner.take(key).and_then(|n| reader.duration(n, key)) {
            *slot = time.as_secs_f64();
        }
    }
    limits.memory = inner.take("memory").and_then(|n| reader.bytes(n, "memory"));
    inner.finish(reader);
    limits
}
