//! Reading instances.

use super::CommandError;
use relayout_layouts::Problem;
use relayout_layouts::json::{ReadError, read_file};
use std::path::Path;

/// Reads a layout selection instance.
///
/// # Errors
/// With the file and the place in it.
pub fn read_instance(path: &Path) -> Result<Problem, CommandError> {
    read_file(path).map_err(|error| match error {
        // These name the file themselves.
        ReadError::Io { .. } => CommandError::input(error),
        error => CommandError::in_file(path, error),
    })
}
