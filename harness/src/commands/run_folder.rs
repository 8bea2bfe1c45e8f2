//! Reading a run's folder: `run.json` and the journal.

use super::{CommandError, output};
use crate::journal;
use crate::record::{CellRecord, RunManifest};
use std::path::Path;

/// What a run's folder holds.
#[derive(Clone, Debug)]
pub struct RunFolder {
    /// Provenance, where `run.json` is there.
    pub manifest: Option<RunManifest>,
    /// The final records of all complete cells, sorted by cell id.
    pub records: Vec<CellRecord>,
}

impl RunFolder {
    /// Reads `run.json` alone; a warning where it is not there.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn manifest(folder: &Path) -> Result<Option<RunManifest>, CommandError> {
        let path = folder.join("run.json");
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|e| CommandError::in_file(&path, e)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                output::warn(&format!(
                    "{}: no run.json; machine and settings are unknown",
                    folder.display()
                ));
                Ok(None)
            }
            Err(e) => Err(CommandError::in_file(&path, e)),
        }
    }
    /// Reads a run's folder. Records that are damaged or unfinished are left out, with a warning.
    ///
    /// # Errors
    /// When the folder is no run, or `run.json` is malformed.
    pub fn read(folder: &Path) -> Result<Self, CommandError> {
        let journal_folder = folder.join("journal");
        if !journal_folder.is_dir() {
            let message = format!("{}: not a run's folder: it has no `journal`", folder.display());
            let help = Some("name the folder that `relayout run` wrote, such as results/quick".to_owned());
            return Err(CommandError::Usage { message, help });
        }
        let manifest = Self::manifest(folder)?;
        let contents = journal::read(&journal_folder).map_err(CommandError::input)?;
        for corrupt in &contents.corrupt {
            output::warn(&format!(
                "{}: left out: {}",
                corrupt.path.display(),
                corrupt.reason
            ));
        }
        let records: Vec<CellRecord> = contents.done_records().cloned().collect();
        let unfinished = contents.cells.len().saturating_sub(records.len());
        if unfinished > 0 {
            output::warn(&format!(
                "{}: {unfinished} unfinished cells are left out",
                folder.display()
            ));
        }
        Ok(RunFolder { manifest, records })
    }
}
