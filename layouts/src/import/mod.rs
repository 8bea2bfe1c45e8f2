//! Readers for the instances of other tools, and one that tells them apart: [`read_file`].

pub mod cfn;
mod iopddl;

use std::path::Path;

pub use iopddl::{EdgeError, UsageLimits, iopddl};

use crate::json::{self, ReadError};
use crate::problem::Problem;

/// Why an instance could not be read or imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Not JSON, of another form, or not a valid problem.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Of the contest's instances: an edge does not fit its nodes.
    #[error(transparent)]
    Edge(#[from] EdgeError),
    /// The instance limits memory over time, which Layout Selection does not model.
    #[error("problem.usage_limit: {0} is not supported; ignore the limit to solve the instance without it")]
    UsageLimit(u64),
    /// The instance's layouts would need more conversion costs than can be held.
    #[error(
        "{path}: {strategies} strategies here would make the conversion matrices of all nodes larger than {MAX_MATRICES} entries"
    )]
    Matrices {
        /// Path to the strategies.
        path: String,
        /// How many there are.
        strategies: usize,
    },
    /// Not a cost function network that maps back.
    #[error(transparent)]
    Cfn(#[from] cfn::CfnError),
}

/// Matrices that a reader makes up have at most this many entries together (some hundred MiB): what a file says in a line must not take
/// all memory.
const MAX_MATRICES: usize = 1 << 24;

/// Reads an instance of any form, compressed (zstd, gzip) or not: a cost function network when the name says `.cfn`, the
/// contest's when the file begins like one (its first key is `problem`), else `layout-selection/1`.
///
/// # Errors
/// See [`ImportError`].
pub fn read_file(path: impl AsRef<Path>, limits: UsageLimits) -> Result<Problem, ImportError> {
    let path = path.as_ref();
    let bytes = std::fs::read(path).map_err(|source| ReadError::Io {
        file: path.display().to_string(),
        source,
    })?;
    let expanded = json::expand(&bytes)?;
    let text = expanded.as_deref().unwrap_or(&bytes);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = [".zst", ".gz"]
        .iter()
        .find_map(|e| name.strip_suffix(e))
        .unwrap_or(&name);
    if name.ends_with(".cfn") {
        Ok(cfn::cfn(text)?)
    } else if begins_with_problem(text) {
        iopddl(text, limits)
    } else {
        Ok(json::read(text)?)
    }
}

/// Whether a JSON object's first key is `problem`.
fn begins_with_problem(text: &[u8]) -> bool {
    let trimmed = text.trim_ascii_start().strip_prefix(b"{").unwrap_or_default();
    trimmed.trim_ascii_start().starts_with(b"\"problem\"")
}
