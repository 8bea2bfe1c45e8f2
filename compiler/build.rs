//! A hash of the sources that decide what a kernel of a given text becomes, part of every profile key: timings of kernels
//! that another schedule, code generator or library made are never reused. And where `scripts/setup` puts the Z3 library: this
//! crate has no such feature, but its tests link it when the workspace is built with it.

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let mut hasher = blake3::Hasher::new();
    for file in kernel_sources() {
        println!("cargo:rerun-if-changed={}", file.display());
        if let Ok(text) = std::fs::read(&file) {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(&text);
        }
    }
    println!(
        "cargo:rustc-env=RELAYOUT_KERNEL_SOURCES={}",
        hasher.finalize().to_hex()
    );
    let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    if let Ok(library) = package.join("../.deps/z3/lib").canonicalize() {
        println!("cargo:rustc-link-arg-tests=-Wl,-rpath,{}", library.display());
    }
}

/// The passes below a tensor program's text, in the order of their names, and the library's routine.
fn kernel_sources() -> Vec<PathBuf> {
    let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let passes = [
        "affine.rs",
        "kernels.rs",
        "schedule.rs",
        "stage_plan.rs",
        "unit.rs",
        "workspace.rs",
    ];
    let mut sources: Vec<PathBuf> = passes.iter().map(|f| package.join("src").join(f)).collect();
    let generator: &Path = &package.join("src/codegen");
    println!("cargo:rerun-if-changed={}", generator.display());
    let files = std::fs::read_dir(generator).into_iter().flatten().flatten();
    sources.extend(
        files
            .map(|f| f.path())
            .filter(|p| p.extension().is_some_and(|e| e == "rs")),
    );
    sources.push(package.join("../runtime/src/gemm.rs"));
    sources.sort();
    sources
}
