//! `relayout diff`.

use super::{CommandError, Exit, RunFolder, output};
use crate::cli::{DiffArgs, DiffFormat};
use crate::diff::{self, EXIT_OK, EXIT_WORSE, Policy, Side};

/// Compares two runs. Code 0: the same or better; 1: worse; 2: nothing to compare.
pub fn diff(args: &DiffArgs) -> Result<Exit, CommandError> {
    let policy = match &args.policy {
        None => Policy::default(),
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|e| CommandError::in_file(path, e))?;
            serde_yaml::from_str(&text).map_err(|e| CommandError::in_file(path, e))?
        }
    };
    let (base, head) = (RunFolder::read(&args.base)?, RunFolder::read(&args.head)?);
    let result = diff::diff(side(&base), side(&head), policy);
    output::print(&match args.format {
        DiffFormat::Text => result.text(),
        DiffFormat::Md => result.markdown(),
        DiffFormat::Json => result.json().map_err(CommandError::failed)?,
        DiffFormat::Junit => result.junit(),
    })?;
    Ok(match result.exit_code() {
        EXIT_OK => Exit::Success,
        EXIT_WORSE => Exit::Failed,
        _ => Exit::Usage,
    })
}

fn side(run: &RunFolder) -> Side<'_> {
    Side {
        records: &run.records,
        manifest: run.manifest.as_ref(),
    }
}
