//! What is known about a run as a whole: the contents of `run.json`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Provenance of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunManifest {
    /// Schema version of the writer ([`super::SCHEMA`]).
    pub schema: u32,
    /// The configuration, resolved: defaults filled in, overrides applied.
    #[serde(default)]
    pub config: serde_json::Value,
    /// Hash of the resolved configuration.
    #[serde(default)]
    pub config_hash: String,
    /// Commit of the source tree, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Whether the tree differed from the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty: Option<bool>,
    /// The machine.
    #[serde(default)]
    pub machine: MachineFingerprint,
    /// Versions of the tools by name: `relayout`, `rustc` (that built it), `cc`.
    #[serde(default)]
    pub tools: BTreeMap<String, String>,
    /// The command line.
    #[serde(default)]
    pub argv: Vec<String>,
    /// Start of the run, milliseconds since the Unix epoch.
    #[serde(default)]
    pub started_unix_ms: u64,
    /// End of the run; `None` while it goes on or after a kill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_unix_ms: Option<u64>,
    /// Which strategy plays the `solver-based` column of the figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solver_based: Option<String>,
    /// Which strategy conversions are counted against; `rule-based` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_strategy: Option<String>,
}

/// A machine, by facts that stay the same from boot to boot. Clock speeds and free memory are deliberately not here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineFingerprint {
    /// Model name of the CPU.
    #[serde(default)]
    pub cpu: String,
    /// Logical processors that the run may use.
    #[serde(default)]
    pub logical_cores: u32,
    /// Physical cores, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical_cores: Option<u32>,
    /// Bytes of each cache level by name (`L1d`, `L2`, `L3`).
    #[serde(default)]
    pub caches: BTreeMap<String, u64>,
    /// Instruction-set flags that code generation looks at, sorted.
    #[serde(default)]
    pub isa_flags: Vec<String>,
    /// Total memory in GiB, rounded down: kernels reserve a little differently at each boot.
    #[serde(default)]
    pub memory_gib: u64,
    /// Name and release of the operating system's kernel.
    #[serde(default)]
    pub kernel: String,
}

impl MachineFingerprint {
    /// Names of the fields in which two machines differ; latencies are comparable only when there are none.
    /// The kernel's release is not counted: it is recorded, and a kernel update is not another machine.
    pub fn differences(&self, other: &MachineFingerprint) -> Vec<&'static str> {
        let mut fields = Vec::new();
        if self.cpu != other.cpu {
            fields.push("cpu");
        }
        if self.logical_cores != other.logical_cores || self.physical_cores != other.physical_cores {
            fields.push("cores");
        }
        if self.caches != other.caches {
            fields.push("caches");
        }
        if self.isa_flags != other.isa_flags {
            fields.push("isa flags");
        }
        if self.memory_gib != other.memory_gib {
            fields.push("memory");
        }
        fields
    }
}
