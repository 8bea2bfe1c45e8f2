//! Import of the shared graphs: structure.

use super::evaluate::histogram;
use super::shared;
use relayout_models::Family;
use relayout_models::onnx::{ImportOptions, import};

#[test]
fn every_shared_graph() {
    let Some(dir) = shared::graphs() else { return };
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .expect("readable")
        .map(|e| e.expect("entry").path())
        .collect();
    names.sort();
    for path in names {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let t = std::time::Instant::now();
        match import(&std::fs::read(&path).unwrap(), &ImportOptions::new(&name, 1)) {
            Ok(m) => println!(
                "{name}: ok {:?} {} in {:?}: {}",
                m.family,
                m.module.constants.len(),
                t.elapsed(),
                histogram(&m).replace('\n', ", ")
            ),
            Err(e) => println!("{name}: {e}"),
        }
    }
    let _ = Family::ALL;
}
