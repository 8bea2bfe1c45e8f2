//! Writing a file so that a reader sees the old contents or the new ones, never a part.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Suffix of files that are being written. Readers ignore them.
pub const TEMPORARY_SUFFIX: &str = ".tmp";

/// Why a file could not be replaced. The previous contents are intact in every case.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The file system or the user's quota is full.
    #[error("no space left to write {}; the previous contents are kept. Free some space and run the same command again", path.display())]
    DiskFull {
        /// The file that was to be written.
        path: PathBuf,
    },
    /// Any other failure of the operating system.
    #[error("cannot write {}: {source}", path.display())]
    Io {
        /// The file that was to be written.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl WriteError {
    /// Tells a full disk apart from other failures.
    pub fn from_io(path: &Path, source: io::Error) -> WriteError {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => WriteError::DiskFull {
                path: path.to_owned(),
            },
            _ => WriteError::Io {
                path: path.to_owned(),
                source,
            },
        }
    }
}

/// Replaces the contents of `path` by `bytes`: a temporary file in the same folder, fsync, rename, fsync of the folder.
///
/// # Errors
/// [`WriteError`]; what stood at `path` before is then still there and the temporary file is removed.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    write_with(path, |file| file.write_all(bytes))
}

/// As [`write()`], with the contents written by `fill`.
///
/// # Errors
/// [`WriteError`], also for an error that `fill` returns.
pub fn write_with(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), WriteError> {
    let temporary = temporary_path(path);
    let replace = || -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&temporary)?;
        fill(&mut file)?;
        file.flush()?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        sync_folder(path)
    };
    replace().map_err(|source| {
        // Best effort: a temporary file left behind is ignored by readers and swept by the next writer.
        let _ = fs::remove_file(&temporary);
        WriteError::from_io(path, source)
    })
}

/// Whether a file name is one that [`write()`] uses before the rename.
pub fn is_temporary(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(TEMPORARY_SUFFIX)
}

fn temporary_path(path: &Path) -> PathBuf {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    path.with_file_name(format!(".{name}.{}{TEMPORARY_SUFFIX}", std::process::id()))
}

/// Makes a rename durable: on Unix that needs an fsync of the folder.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    File::open(folder)?.sync_all()
}
