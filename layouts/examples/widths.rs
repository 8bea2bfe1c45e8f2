//! Treewidth of instances' operator graphs: `cargo run --release -p relayout-layouts --example widths -- FILE…`.
//!
//! Prints a JSON line per file: size, bounds, whether they meet, seconds, and the same of the graph without constants.

use std::time::Instant;

use relayout_layouts::decomposition::treewidth;
use relayout_layouts::graph::Graph;
use relayout_layouts::{Budget, json};
use serde_json::{Value, json};

fn width(graph: &Graph) -> Value {
    let start = Instant::now();
    let width = treewidth(graph, &Budget::default());
    json!({
        "vertices": graph.len(),
        "edges": graph.edges().count(),
        "lower": width.lower,
        "upper": width.upper,
        "exact": width.is_exact(),
        "seconds": start.elapsed().as_secs_f64(),
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for file in std::env::args().skip(1) {
        let problem = json::read_file(&file)?;
        let all = width(&Graph::of(&problem));
        let without = width(&Graph::without_constants(&problem).0);
        println!(
            "{}",
            json!({"instance": problem.name(), "file": file, "width": all, "without_constants": without})
        );
    }
    Ok(())
}
