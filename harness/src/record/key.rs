//! The coordinates of a cell and the identity derived from them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The coordinates of a cell in its sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CellKey {
    /// Zoo name of the model or path of its file, without overrides.
    pub model: String,
    /// Overrides of the model's sizes, as written (`layers` to `2`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, String>,
    /// Family label of the model. It groups results and is no part of the identity.
    #[serde(default)]
    pub family: String,
    /// Batch size, where the model has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// Sizes bound to further symbolic dimensions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dims: BTreeMap<String, u64>,
    /// Name of the target description.
    pub target: String,
    /// Name of the cost model.
    pub cost_model: String,
    /// Name of the strategy: the column of tables and the curve of figures.
    pub strategy: String,
    /// Solver behind the strategy, where it has a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solver: Option<String>,
    /// Threads that execute the model.
    pub threads: u32,
    /// Seed of weights, inputs and randomised strategies.
    pub seed: u64,
}

impl CellKey {
    /// Identity of the cell: 32 hex digits of a hash over the coordinates, each with its name and length.
    ///
    /// `extra` of [`CellKey::id_with`] is empty. The order in which overrides or dimensions were written plays no part (maps
    /// are sorted), nor does the family label.
    pub fn id(&self) -> String {
        self.id_with(&[])
    }

    /// Identity of the cell together with further named facts that decide its result (a budget, a measurement policy).
    /// Order in `extra` matters: callers keep it fixed.
    pub fn id_with(&self, extra: &[(&str, &str)]) -> String {
        let mut hasher = blake3::Hasher::new();
        let mut field = |name: &str, value: &str| {
            // Lengths first, so that no two different lists of fields can spell the same bytes.
            for part in [name, value] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part.as_bytes());
            }
        };
        field("model", &self.model);
        for (name, value) in &self.overrides {
            field("override", name);
            field("value", value);
        }
        if let Some(batch) = self.batch {
            field("batch", &batch.to_string());
        }
        for (name, size) in &self.dims {
            field("dim", name);
            field("size", &size.to_string());
        }
        field("target", &self.target);
        field("cost-model", &self.cost_model);
        field("strategy", &self.strategy);
        if let Some(solver) = &self.solver {
            field("solver", solver);
        }
        field("threads", &self.threads.to_string());
        field("seed", &self.seed.to_string());
        for (name, value) in extra {
            field(name, value);
        }
        hasher.finalize().to_hex()[..32].to_owned()
    }

    /// The model with its overrides and bindings, as tables print it: `llama layers=4 batch=2 seq=64`.
    pub fn model_label(&self) -> String {
        let mut label = self.model.clone();
        for (name, value) in &self.overrides {
            label.push_str(&format!(" {name}={value}"));
        }
        if let Some(batch) = self.batch {
            label.push_str(&format!(" batch={batch}"));
        }
        for (name, size) in &self.dims {
            label.push_str(&format!(" {name}={size}"));
        }
        label
    }
}
