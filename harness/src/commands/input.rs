//! Reading instances.

use super::CommandError;
use relayout_layouts::Problem;
use relayout_layouts::import::{ImportError, UsageLimits, read_file};
use relayout_layouts::json::ReadError;
use std::path::Path;

/// Reads a layout selection instance of any form.
///
/// # Errors
/// With the file and the place in it.
pub fn read_instance(path: &Path, ignore_usage_limit: bool) -> Result<Problem, CommandError> {
    let limits = if ignore_usage_limit {
        UsageLimits::Ignore
    } else {
        UsageLimits::Refuse
    };
    read_file(path, limits).map_err(|error| match error {
        // These name the file themselves.
        ImportError::Read(ReadError::Io { .. }) => CommandError::input(error),
        ImportError::UsageLimit(limit) => CommandError::Usage {
            message: format!(
                "{}: its memory limit over time ({limit}) is not supported",
                path.display()
            ),
            help: Some("`--ignore-usage-limit` leaves it out".to_owned()),
        },
        error => CommandError::in_file(path, error),
    })
}
