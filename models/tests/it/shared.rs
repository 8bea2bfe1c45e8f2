//! Shared graphs, found beside the repository.

use std::path::{Path, PathBuf};

/// The folder of shared graphs, or `None` with a printed reason.
pub fn graphs() -> Option<PathBuf> {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/graphs"));
    if dir.is_dir() {
        return Some(dir.to_owned());
    }
    println!("skipped: {} is not there", dir.display());
    None
}

/// The bytes of a shared graph.
pub fn graph(name: &str) -> Option<Vec<u8>> {
    let path = graphs()?.join(format!("{name}.onnx"));
    Some(std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
}

/// Whether slow tests are asked for; prints why not otherwise.
pub fn slow(what: &str) -> bool {
    let asked = std::env::var_os("RELAYOUT_SLOW").is_some_and(|v| v == "1");
    if !asked {
        println!("skipped: {what} (set RELAYOUT_SLOW=1)");
    }
    asked
}
