//! With the `z3` feature, binaries and tests find the Z3 library where `scripts/setup` puts it.

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_Z3").is_none() {
        return;
    }
    let Some(package) = std::env::var_os("CARGO_MANIFEST_DIR") else {
        return;
    };
    let library = Path::new(&package).join("../.deps/z3/lib");
    // Absolute, since binaries are run from anywhere; a Z3 of the system needs no path.
    if let Ok(library) = library.canonicalize() {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{}", library.display());
    }
    println!("cargo:rerun-if-changed={}", library.display());
}
