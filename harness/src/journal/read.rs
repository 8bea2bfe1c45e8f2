//! Reading a journal: tolerant of what a kill leaves behind, exact about what is wrong.

use super::{EXTENSION, FORMAT, Header, JournalError, LOCK_FILE, atomic, list};
use crate::record::{CellRecord, CellStatus, Phase, SCHEMA};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A file of the journal that can't be used, and why. Its cell counts as incomplete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorruptRecord {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// Everything a journal holds.
#[derive(Clone, Debug, Default)]
pub struct JournalContents {
    /// Per cell, its record after each phase. Sorted by cell id.
    pub cells: BTreeMap<String, BTreeMap<Phase, CellRecord>>,
    /// Files that could not be used.
    pub corrupt: Vec<CorruptRecord>,
    /// Temporary files that a killed writer left.
    pub temporaries: Vec<PathBuf>,
}

/// What a plan still has to do, each list in the order of the plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resumption {
    /// Cells that are done and need no rerun.
    pub complete: Vec<String>,
    /// Cells that are done, and are to be run again by the caller's choice.
    pub rerun: Vec<String>,
    /// Cells that were begun and not finished, with the last phase that is recorded.
    pub interrupted: Vec<(String, Phase)>,
    /// Cells without any usable record.
    pub missing: Vec<String>,
    /// Cells that the journal has and the plan has not, sorted.
    pub foreign: Vec<String>,
}

impl JournalContents {
    /// The final record of a cell, when it is complete.
    pub fn done(&self, cell: &str) -> Option<&CellRecord> {
        self.cells.get(cell)?.get(&Phase::Done)
    }

    /// The final records of all complete cells, sorted by cell id.
    pub fn done_records(&self) -> impl Iterator<Item = &CellRecord> {
        self.cells.values().filter_map(|phases| phases.get(&Phase::Done))
    }

    /// Splits a plan into what is complete and what is not. `rerun` tells which of the complete cells to run again, by their
    /// status (`--rerun-failed` passes [`CellStatus::is_failure`]).
    pub fn resume<'a>(
        &self,
        plan: impl IntoIterator<Item = &'a str>,
        rerun: impl Fn(&CellStatus) -> bool,
    ) -> Resumption {
        let mut resumption = Resumption::default();
        let mut planned = std::collections::BTreeSet::new();
        for cell in plan {
            planned.insert(cell);
            let phases = self.cells.get(cell);
            match (
                phases.and_then(|p| p.get(&Phase::Done)),
                phases.and_then(|p| p.last_key_value()),
            ) {
                (Some(record), _) if rerun(&record.status) => resumption.rerun.push(cell.to_owned()),
                (Some(_), _) => resumption.complete.push(cell.to_owned()),
                (None, Some((&phase, _))) => resumption.interrupted.push((cell.to_owned(), phase)),
                (None, None) => resumption.missing.push(cell.to_owned()),
            }
        }
        resumption.foreign = self
            .cells
            .keys()
            .filter(|cell| !planned.contains(cell.as_str()))
            .cloned()
            .collect();
        resumption
    }
}

/// Reads all records in a journal's folder. No lock is needed: files appear whole or not at all.
///
/// # Errors
/// [`JournalError::Io`] when the folder can't be listed. Bad files are listed in [`JournalContents::corrupt`].
pub fn read(folder: &Path) -> Result<JournalContents, JournalError> {
    let mut contents = JournalContents::default();
    for entry in list(folder)? {
        if entry.name == LOCK_FILE {
            continue;
        }
        if atomic::is_temporary(&entry.name) {
            contents.temporaries.push(entry.path);
            continue;
        }
        match read_file(&entry.name, &entry.path) {
            Ok((phase, record)) => {
                contents
                    .cells
                    .entry(record.id.clone())
                    .or_default()
                    .insert(phase, record);
            }
            Err(reason) => contents.corrupt.push(CorruptRecord {
                path: entry.path,
                reason,
            }),
        }
    }
    Ok(contents)
}

/// Reads and checks one file; the error is the reason in words.
fn read_file(name: &str, path: &Path) -> Result<(Phase, CellRecord), String> {
    let mut parts = name.rsplitn(3, '.');
    let (extension, phase, cell) = (parts.next(), parts.next(), parts.next());
    let (Some(EXTENSION), Some(phase), Some(cell)) = (extension, phase, cell) else {
        return Err(format!("the name is not of the form CELL.PHASE.{EXTENSION}"));
    };
    let Some(phase) = Phase::from_name(phase) else {
        let known: Vec<&str> = Phase::ALL.iter().map(|phase| phase.name()).collect();
        return Err(format!(
            "unknown phase {phase:?}; expected one of {}",
            known.join(", ")
        ));
    };
    let text = fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    let Some((header, rest)) = text.split_once('\n') else {
        return Err("truncated: the header's line has no end".to_owned());
    };
    let header: Header =
        serde_json::from_str(header).map_err(|error| format!("the header is not readable: {error}"))?;
    if header.format != FORMAT {
        return Err(format!("format {:?}; expected {FORMAT:?}", header.format));
    }
    if header.cell != cell || header.phase != phase {
        return Err(format!(
            "the header says cell {} phase {}, the name says otherwise",
            header.cell, header.phase
        ));
    }
    let Some(body) = rest.strip_suffix('\n') else {
        return Err("truncated: the record's line has no end".to_owned());
    };
    let checksum = blake3::hash(body.as_bytes()).to_hex();
    if header.checksum != checksum.as_str() {
        return Err(format!(
            "checksum {checksum}; the header says {}",
            header.checksum
        ));
    }
    let record: CellRecord =
        serde_json::from_str(body).map_err(|error| format!("the record is not readable: {error}"))?;
    if record.schema > SCHEMA {
        return Err(format!(
            "schema version {}; this build reads up to {SCHEMA}",
            record.schema
        ));
    }
    if record.id != cell {
        return Err(format!(
            "the record is of cell {}, the name says {cell}",
            record.id
        ));
    }
    Ok((phase, record))
}
