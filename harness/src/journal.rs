//! The journal of a run: the one truth that tables, plots and resumption are derived from.
//!
//! A folder with one file per cell and phase, `<cell>.<phase>.jsonl`, each of two lines: a header with the format's version, the
//! cell, the phase and a checksum, then the [`CellRecord`] as known at the end of that phase. Files appear by rename after
//! fsync, so a kill at any moment leaves whole records and perhaps a temporary file. The last phase, `done`, makes a cell
//! complete; everything else about a cell whose `done` is missing is history.
//!
//! One process writes at a time: [`Journal::open`] holds a lock of the operating system on `lock`, which a crash releases.

pub mod atomic;
mod read;

pub use atomic::WriteError;
pub use read::{CorruptRecord, JournalContents, Resumption, read};

use crate::record::{CellRecord, Phase};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Version tag in the header of each journal file.
pub const FORMAT: &str = "relayout-journal/1";

const LOCK_FILE: &str = "lock";
const EXTENSION: &str = "jsonl";

/// First line of a journal file.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    format: String,
    cell: String,
    phase: Phase,
    /// blake3 of the second line, without its newline.
    checksum: String,
}

/// Why the journal can't be used.
#[derive(Debug, Error)]
pub enum JournalError {
    /// Another process writes to the same run.
    #[error("{} is in use by another run{}; wait for it, or choose another output folder with -o", path.display(), holder(*.pid))]
    Locked {
        /// The journal folder.
        path: PathBuf,
        /// Process id of the holder, where it could be read.
        pid: Option<u32>,
    },
    /// A record could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A cell id that can't be part of a file name.
    #[error("cell id {found:?} is not usable: expected 1 to 128 letters, digits, '-' or '_'")]
    BadCellId {
        /// The id.
        found: String,
    },
    /// The record can't be written as JSON.
    #[error("cannot encode the record of cell {cell}: {source}")]
    Encode {
        /// The cell.
        cell: String,
        /// The encoder's error.
        source: serde_json::Error,
    },
    /// The folder can't be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl JournalError {
    /// Whether the cause is a full disk, which has an exit code of its own.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, JournalError::Write(WriteError::DiskFull { .. }))
    }
}

fn holder(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}

/// A journal opened for writing. Dropping it releases the lock.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    /// Held for the lock; its contents name the holder.
    _lock: File,
}

impl Journal {
    /// Opens the journal in `folder`, creating it if need be, takes the lock and sweeps temporary files of a killed writer.
    ///
    /// # Errors
    /// [`JournalError::Locked`] at once, without waiting, when another process holds it.
    pub fn open(folder: &Path) -> Result<Journal, JournalError> {
        fs::create_dir_all(folder)
            .map_err(|source| JournalError::Write(WriteError::from_io(folder, source)))?;
        let lock = take_lock(folder)?;
        for entry in list(folder)? {
            if atomic::is_temporary(&entry.name) {
                // We hold the lock, so its writer is gone. A failure here costs a stale file and nothing else.
                let _ = fs::remove_file(&entry.path);
            }
        }
        Ok(Journal {
            folder: folder.to_owned(),
            _lock: lock,
        })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Records what is known about a cell at the end of `phase`. Durable when it returns; a record of the same cell and phase
    /// is replaced.
    ///
    /// # Errors
    /// [`JournalError::Write`], which tells a full disk apart. The previous record is then intact.
    pub fn write(&self, phase: Phase, record: &CellRecord) -> Result<(), JournalError> {
        let path = self.folder.join(file_name(&record.id, phase)?);
        let encode = |source| JournalError::Encode {
            cell: record.id.clone(),
            source,
        };
        let body = serde_json::to_string(record).map_err(encode)?;
        let header = Header {
            format: FORMAT.to_owned(),
            cell: record.id.clone(),
            phase,
            checksum: blake3::hash(body.as_bytes()).to_hex().to_string(),
        };
        let header = serde_json::to_string(&header).map_err(encode)?;
        atomic::write(&path, format!("{header}\n{body}\n").as_bytes())?;
        Ok(())
    }

    /// Reads the whole journal.
    ///
    /// # Errors
    /// [`JournalError::Io`] when the folder can't be listed. Bad records are part of the answer, not an error.
    pub fn read(&self) -> Result<JournalContents, JournalError> {
        read(&self.folder)
    }

    /// Removes all records of a cell, `done` first, so that a kill in between leaves an incomplete cell.
    ///
    /// # Errors
    /// [`JournalError::Io`] with the file that could not be removed.
    pub fn forget(&self, cell: &str) -> Result<(), JournalError> {
        for phase in Phase::ALL.into_iter().rev() {
            let path = self.folder.join(file_name(cell, phase)?);
            match fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(JournalError::Io { path, source });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Name of the file that holds a cell's record of a phase.
fn file_name(cell: &str, phase: Phase) -> Result<String, JournalError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if cell.is_empty() || cell.len() > 128 || !cell.chars().all(allowed) {
        return Err(JournalError::BadCellId {
            found: cell.to_owned(),
        });
    }
    Ok(format!("{cell}.{phase}.{EXTENSION}"))
}

fn take_lock(folder: &Path) -> Result<File, JournalError> {
    let path = folder.join(LOCK_FILE);
    let failed = |source| JournalError::Write(WriteError::from_io(&path, source));
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let pid = file
                .read_to_string(&mut text)
                .ok()
                .and_then(|_| text.trim().parse().ok());
            return Err(JournalError::Locked {
                path: folder.to_owned(),
                pid,
            });
        }
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    file.set_len(0).map_err(failed)?;
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    writeln!(file, "{}", std::process::id()).map_err(failed)?;
    Ok(file)
}

struct Entry {
    name: String,
    path: PathBuf,
}

/// The folder's files, sorted by name, so that everything derived from them has one order.
fn list(folder: &Path) -> Result<Vec<Entry>, JournalError> {
    let failed = |source| JournalError::Io {
        path: folder.to_owned(),
        source,
    };
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        entries.push(Entry {
            name: entry.file_name().to_string_lossy().into_owned(),
            path: entry.path(),
        });
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}
