//! The table of measured kernels that the `profiled` model reads. Compilation is pure in (IR, target, table): a kernel that is
//! needed and not in the table is an error, never a guess.

use std::collections::BTreeMap;

/// A kernel to be timed in isolation: content key and the runtime module that runs it.
#[derive(Clone, Debug)]
pub struct UnitRequest {
    /// Content-addressed key (kernel hash, physical layouts, binding, threads, ISA, toolchain and flags).
    pub key: String,
    /// What it is, for people: `conv2d (0,1,2,3,1:16) …`.
    pub description: String,
    /// Values of the symbolic variables.
    pub binding: BTreeMap<String, i64>,
    /// The call.
    pub spec: crate::extract::CallSpec,
    /// Its cost terms, for a fit of coefficients.
    pub terms: super::Terms,
}

/// Measured nanoseconds by key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProfileTable(BTreeMap<String, u64>);

impl ProfileTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }
    /// Records a measurement; zero becomes one nanosecond, since a kernel that runs is never free.
    pub fn insert(&mut self, key: String, nanoseconds: u64) {
        self.0.insert(key, nanoseconds.max(1));
    }
    /// The measurement of a key.
    pub fn get(&self, key: &str) -> Option<u64> {
        self.0.get(key).copied()
    }
    /// Number of kernels measured.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
