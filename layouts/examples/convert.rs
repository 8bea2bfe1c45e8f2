//! Writes an instance in another tool's format: `cargo run --release -p relayout-layouts --example convert -- FILE wcnf|cfn|gr|td|dot OUT`.

use std::io::{BufWriter, Write};

use relayout_layouts::decomposition::{TreeDecomposition, treewidth};
use relayout_layouts::graph::Graph;
use relayout_layouts::{Budget, export, json};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, format, out] = &arguments[..] else {
        return Err("usage: convert FILE wcnf|cfn|gr|td|dot OUT".into());
    };
    let problem = json::read_file(file)?;
    let mut writer = BufWriter::new(std::fs::File::create(out)?);
    match format.as_str() {
        "wcnf" => export::wcnf(&problem, &mut writer)?,
        "cfn" => export::cfn(&problem, &mut writer)?,
        "gr" => export::gr(&problem, &mut writer)?,
        "dot" => export::dot(&problem, &mut writer)?,
        "td" => {
            let graph = Graph::of(&problem);
            let order = treewidth(&graph, &Budget::default()).order;
            export::td(
                &graph,
                &TreeDecomposition::from_order(&graph, &order),
                &mut writer,
            )?;
        }
        other => return Err(format!("no format is named {other:?}").into()),
    }
    writer.flush()?;
    Ok(())
}
