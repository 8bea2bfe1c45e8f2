//! `relayout cache`: the compiled kernels that are kept between runs.

use super::{CommandError, Exit, output};
use crate::cli::CacheArgs;
use relayout_compiler::codegen::toolchain::default_cache;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Shows or clears the kernel cache. Safe beside processes that use it: an entry that is gone is built again.
pub fn cache(args: &CacheArgs) -> Result<Exit, CommandError> {
    let Some(folder) = default_cache() else {
        let message = "there is no place for a cache: neither RELAYOUT_CACHE, XDG_CACHE_HOME nor HOME is set"
            .to_owned();
        return Err(CommandError::Usage { message, help: None });
    };
    let kernels = kernels(&folder)?;
    let bytes: u64 = kernels.iter().map(|k| k.1).sum();
    if args.clear {
        for (path, _) in &kernels {
            match std::fs::remove_file(path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(crate::journal::WriteError::from_io(path, e).into());
                }
                _ => {}
            }
        }
    }
    if args.json {
        let object =
            json!({ "folder": folder, "kernels": kernels.len(), "bytes": bytes, "cleared": args.clear });
        output::print_json(&object)?;
    } else {
        let done = if args.clear { "removed " } else { "" };
        output::print(&format!(
            "{}: {done}{} shared objects, {}\n",
            folder.display(),
            kernels.len(),
            output::human_bytes(bytes)
        ))?;
    }
    Ok(Exit::Success)
}

/// The cache's objects with their sizes; none where the folder does not exist yet.
fn kernels(folder: &Path) -> Result<Vec<(PathBuf, u64)>, CommandError> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(CommandError::in_file(folder, e)),
    };
    let mut found: Vec<(PathBuf, u64)> = entries
        .flatten()
        .filter(|e| e.path().extension().is_some_and(|x| x == "so"))
        .filter_map(|e| Some((e.path(), e.metadata().ok()?.len())))
        .collect();
    found.sort();
    Ok(found)
}
