//! `relayout plot`.

use super::{CommandError, Exit, RunFolder, output};
use crate::analysis::Settings;
use crate::cli::PlotArgs;
use crate::plots::{self, PlotError};
use crate::run;

/// Draws the figures and tables of a run; prints the files written.
pub fn plot(args: &PlotArgs) -> Result<Exit, CommandError> {
    let loaded = RunFolder::read(&args.run)?;
    let settings = loaded
        .manifest
        .as_ref()
        .map_or_else(Settings::default, run::settings_of);
    let folder = args.output.clone().unwrap_or_else(|| args.run.join("plots"));
    let plotted = plots::plot(&loaded.records, &settings, &folder).map_err(|error| match error {
        PlotError::Write(error) => CommandError::Write(error),
        PlotError::Io { path, source } => crate::journal::WriteError::from_io(&path, source).into(),
        error => CommandError::failed(error),
    })?;
    for skipped in &plotted.skipped {
        output::message(&format!("not drawn: {}: {}", skipped.name, skipped.reason));
    }
    let files: String = plotted
        .files
        .iter()
        .map(|f| format!("{}\n", f.display()))
        .collect();
    output::print(&files)?;
    Ok(Exit::Success)
}
