//! Targets: what code is generated for, read from `configs/targets/*.yaml`.

mod layout_rules;

pub use layout_rules::{LayoutRules, Preference};
pub use relayout_runtime::module::Isa;
use serde::Deserialize;
use std::path::Path;

/// The instruction-set level that a target description asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IsaChoice {
    /// The best level that this machine has.
    Native,
    /// Whatever the C compiler makes by default (any architecture).
    Generic,
    /// x86-64.
    Baseline,
    /// x86-64-v3.
    Avx2,
    /// x86-64-v4.
    Avx512,
}

/// Sizes of the data caches of one core, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caches {
    /// First level.
    pub l1: u64,
    /// Second level.
    pub l2: u64,
    /// Last level.
    pub l3: u64,
}

/// A description as it stands in the file.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetDescription {
    /// The target's name.
    pub name: String,
    /// The instruction-set level.
    pub isa: IsaChoice,
    /// Threads that kernels run on.
    pub threads: usize,
    /// Data caches.
    pub caches: Caches,
    /// Block factors that blocked layouts may use.
    pub blocks: Vec<u32>,
    /// Library routines that implementations may name.
    pub libraries: Vec<String>,
    /// Multiply-adds from which a matmul goes to the library.
    pub library_threshold: u64,
    /// What the target knows about layouts, for the rule-based strategies.
    #[serde(default)]
    pub layout_rules: LayoutRules,
}

/// A target with everything about the host resolved.
#[derive(Clone, PartialEq, Debug)]
pub struct Target {
    /// The target's name.
    pub name: String,
    /// The instruction-set level.
    pub isa: Isa,
    /// Threads that kernels run on.
    pub threads: usize,
    /// Data caches.
    pub caches: Caches,
    /// Block factors that blocked layouts may use.
    pub blocks: Vec<u32>,
    /// Library routines that implementations may name, such as `gemm.matmul`.
    pub libraries: Vec<String>,
    /// Multiply-adds from which a matmul goes to the library.
    pub library_threshold: u64,
    /// What the target knows about layouts, for the rule-based strategies.
    pub layout_rules: LayoutRules,
}

/// Why a target description can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The file can't be read.
    #[error("target description {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not a target description.
    #[error("target description {path}: {message}")]
    Parse {
        /// The file, or `<text>`.
        path: String,
        /// What is wrong and where.
        message: String,
    },
    /// A value that makes no sense.
    #[error("target {name}: `{key}`: {problem}")]
    Value {
        /// The target.
        name: String,
        /// The key.
        key: &'static str,
        /// What is wrong, with what is expected.
        problem: String,
    },
}

/// The best level that this machine has.
pub fn host_isa() -> Isa {
    #[cfg(target_arch = "x86_64")]
    {
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512cd")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        let avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("movbe");
        match (avx2, avx512) {
            (true, true) => Isa::Avx512,
            (true, false) => Isa::Avx2,
            _ => Isa::Baseline,
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        Isa::Generic
    }
}

impl TargetDescription {
    /// Resolves what depends on the host.
    ///
    /// # Errors
    /// When a value makes no sense.
    pub fn resolve(self) -> Result<Target, TargetError> {
        let bad = |key, problem: String| TargetError::Value {
            name: self.name.clone(),
            key,
            problem,
        };
        if self.threads == 0 || self.threads > 1024 {
            return Err(bad(
                "threads",
                format!("expected 1 to 1024, found {}", self.threads),
            ));
        }
        if let Some(b) = self.blocks.iter().find(|b| **b < 2 || **b > 256) {
            return Err(bad(
                "blocks",
                format!("expected factors from 2 to 256, found {b}"),
            ));
        }
        if self.caches.l1 == 0 || self.caches.l2 == 0 || self.caches.l3 == 0 {
            return Err(bad("caches", "a cache size of 0 bytes".to_owned()));
        }
        self.layout_rules
            .validate()
            .map_err(|problem| bad("layout_rules", problem))?;
        let isa = match self.isa {
            IsaChoice::Native => host_isa(),
            IsaChoice::Generic => Isa::Generic,
            IsaChoice::Baseline => Isa::Baseline,
            IsaChoice::Avx2 => Isa::Avx2,
            IsaChoice::Avx512 => Isa::Avx512,
        };
        Ok(Target {
            name: self.name,
            isa,
            threads: self.threads,
            caches: self.caches,
            blocks: self.blocks,
            libraries: self.libraries,
            library_threshold: self.library_threshold,
            layout_rules: self.layout_rules,
        })
    }
}

impl Target {
    /// Reads and resolves a description from a file.
    ///
    /// # Errors
    /// When the file can't be read, is not a description, or has a value that makes no sense.
    pub fn load(path: &Path) -> Result<Target, TargetError> {
        let text = std::fs::read_to_string(path).map_err(|source| TargetError::Read {
            path: path.display().to_string(),
            source,
        })?;
        Self::parse(&text, &path.display().to_string())
    }
    /// Reads and resolves a description from text; `path` names it in errors.
    ///
    /// # Errors
    /// As [`Target::load`].
    pub fn parse(text: &str, path: &str) -> Result<Target, TargetError> {
        let description: TargetDescription = serde_yaml::from_str(text).map_err(|e| TargetError::Parse {
            path: path.to_owned(),
            message: e.to_string(),
        })?;
        description.resolve()
    }
    /// The target of `configs/targets/cpu.yaml`, compiled in.
    ///
    /// # Errors
    /// Never for the description that is shipped (a test reads it).
    pub fn cpu() -> Result<Target, TargetError> {
        Self::parse(
            include_str!("../../../configs/targets/cpu.yaml"),
            "configs/targets/cpu.yaml",
        )
    }
    /// f32 lanes of the widest vector.
    pub fn lanes(&self) -> usize {
        match self.isa {
            Isa::Generic | Isa::Baseline => 4,
            Isa::Avx2 => 8,
            Isa::Avx512 => 16,
        }
    }
    /// Vector registers.
    pub fn registers(&self) -> usize {
        if self.isa == Isa::Avx512 { 32 } else { 16 }
    }
}
