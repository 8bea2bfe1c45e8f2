//! `relayout export`.

use super::{CommandError, Exit, output, read_instance};
use crate::cli::{ExportArgs, ExportFormat};
use relayout_layouts::decomposition::{TreeDecomposition, treewidth};
use relayout_layouts::graph::Graph;
use relayout_layouts::{Budget, export as formats};

/// Writes an instance in another tool's format.
pub fn export(args: &ExportArgs) -> Result<Exit, CommandError> {
    let problem = read_instance(&args.instance, args.ignore_usage_limit)?;
    output::write_file(&args.output, |mut out| match args.to {
        ExportFormat::Wcnf => formats::wcnf(&problem, &mut out),
        ExportFormat::Cfn => formats::cfn(&problem, &mut out),
        ExportFormat::Gr => formats::gr(&problem, &mut out),
        ExportFormat::Dot => formats::dot(&problem, &mut out),
        ExportFormat::Td => {
            let graph = Graph::of(&problem);
            let width = treewidth(&graph, &Budget::default());
            let known = if width.is_exact() {
                "optimal".to_owned()
            } else {
                format!("the treewidth is at least {}", width.lower)
            };
            output::message(&format!("width {}, {known}", width.upper));
            formats::td(
                &graph,
                &TreeDecomposition::from_order(&graph, &width.order),
                &mut out,
            )
        }
    })?;
    Ok(Exit::Success)
}
