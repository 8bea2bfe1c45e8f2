//! The plan of a sweep: every cell with its identity, in the order in which they run.
//!
//! Invariant: planned = rows + skipped. A cell's identity covers everything that decides its result and nothing else, so
//! that cosmetic edits of a configuration keep finished cells and every other edit makes new ones.

use crate::config::{Config, Measure, ModelEntry, StrategyEntry};
use crate::record::CellKey;
use relayout_compiler::cost::CostModelKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What cells share that differ only in their strategy: the same instance, kernels and reference output.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Group {
    /// The model entry.
    pub entry: ModelEntry,
    /// Batch size.
    pub batch: u64,
    /// Values of the symbolic dimensions.
    pub dims: BTreeMap<String, i64>,
    /// The target.
    pub target: String,
    /// The cost model.
    pub cost_model: CostModelKind,
    /// Threads.
    pub threads: u32,
    /// Hash of the model file's bytes; empty for a zoo model, which its name determines.
    #[serde(default)]
    pub model_content: String,
    /// Hash of the target's description and coefficients.
    #[serde(default)]
    pub target_content: String,
}

/// One cell.
#[derive(Clone, PartialEq, Debug)]
pub struct PlannedCell {
    /// Identity.
    pub id: String,
    /// Coordinates.
    pub key: CellKey,
    /// Index into [`Plan::groups`].
    pub group: usize,
    /// The strategy.
    pub strategy: StrategyEntry,
}

/// All cells of a configuration, grouped.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Groups, in configuration order.
    pub groups: Vec<Group>,
    /// Cells, group by group, strategies in column order.
    pub cells: Vec<PlannedCell>,
}

/// Version of what a cell's result means; it goes up when a change of the tool makes old results incomparable.
const RESULT_VERSION: &str = "1";

impl Plan {
    /// Expands a configuration. `family` gives the family label of a model text, `content` the hash of what a model text or target
    /// name stands for; where it says nothing (a zoo model), the name is all there is.
    pub fn new(
        config: &Config,
        family: &dyn Fn(&str) -> Option<String>,
        content: &dyn Fn(&str) -> Option<String>,
    ) -> Self {
        let mut plan = Plan {
            groups: Vec::new(),
            cells: Vec::new(),
        };
        let policy = policy_of(config);
        for entry in &config.models {
            let model_content = content(&entry.model).unwrap_or_default();
            let label = entry
                .family
                .clone()
                .or_else(|| family(&entry.model))
                .unwrap_or_default();
            for &batch in &entry.batch {
                for dims in combinations(&entry.dims) {
                    for target in &config.targets {
                        let target_content = content(target).unwrap_or_default();
                        for &cost_model in &config.cost_models {
                            for &threads in &config.measure.threads {
                                let group = plan.groups.len();
                                plan.groups.push(Group {
                                    entry: entry.clone(),
                                    batch,
                                    dims: dims.clone(),
                                    target: target.clone(),
                                    cost_model,
                                    threads,
                                    model_content: model_content.clone(),
                                    target_content: target_content.clone(),
                                });
                                for strategy in &config.strategies {
                                    let key = cell_key(config, &plan.groups[group], strategy, &label);
                                    let contents = [
                                        ("model-content", &model_content),
                                        ("target-content", &target_content),
                                    ];
                                    let facts = policy.iter().map(|(n, v)| (*n, v.as_str()));
                                    let facts = facts.chain(contents.map(|(n, v)| (n, v.as_str())));
                                    let facts = facts.chain(program_facts(strategy));
                                    let id = key.id_with(&facts.collect::<Vec<_>>());
                                    plan.cells.push(PlannedCell {
                                        id,
                                        key,
                                        group,
                                        strategy: strategy.clone(),
                                    });
                                }
                            }
                        }
                    }
                }
            }
        }
        // The same point reached twice (a model listed twice) is one cell.
        let mut seen = std::collections::HashSet::new();
        plan.cells.retain(|c| seen.insert(c.id.clone()));
        plan
    }

    /// Keeps the cells of shard `index` of `count` (by position of the group, so that strategies stay together).
    pub fn shard(&mut self, index: usize, count: usize) {
        self.cells.retain(|c| c.group % count == index);
    }
}

/// Facts beside the coordinates that decide a cell's result.
fn policy_of(config: &Config) -> Vec<(&'static str, String)> {
    vec![
        ("result-version", RESULT_VERSION.to_owned()),
        ("domain", json(&config.domain)),
        ("budget", json(&config.budget)),
        (
            "measure",
            json(&Measure {
                threads: Vec::new(),
                ..config.measure.clone()
            }),
        ),
        ("tolerance", config.tolerance.to_string()),
    ]
}

/// What an outside solver is beside its label: another command is another cell.
fn program_facts(strategy: &StrategyEntry) -> impl Iterator<Item = (&'static str, &str)> {
    strategy.external.iter().flat_map(|program| {
        [
            ("external-command", program.command.as_str()),
            ("external-format", program.format.name()),
        ]
    })
}

/// Canonical JSON: field order is the type's.
fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn cell_key(config: &Config, group: &Group, strategy: &StrategyEntry, family: &str) -> CellKey {
    let mut words = group.entry.model.split_whitespace();
    let model = words.next().unwrap_or_default().to_owned();
    let overrides = words
        .filter_map(|w| w.split_once('='))
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect();
    CellKey {
        model,
        overrides,
        family: family.to_owned(),
        batch: Some(group.batch),
        dims: group
            .dims
            .iter()
            .map(|(k, v)| (k.clone(), v.unsigned_abs()))
            .collect(),
        target: group.target.clone(),
        cost_model: group.cost_model.name().to_owned(),
        strategy: strategy.label.clone(),
        solver: strategy.solver.clone(),
        threads: group.threads,
        seed: config.seed,
    }
}

/// Every combination of one value per dimension.
fn combinations(dims: &BTreeMap<String, Vec<i64>>) -> Vec<BTreeMap<String, i64>> {
    dims.iter()
        .fold(vec![BTreeMap::new()], |partial, (name, values)| {
            partial
                .iter()
                .flat_map(|p| {
                    values.iter().map(move |v| {
                        let mut p = p.clone();
                        p.insert(name.clone(), *v);
                        p
                    })
                })
                .collect()
        })
}
