//! `relayout generate`.

use super::{CommandError, Exit, output};
use crate::cli::{GenerateCommand, RandomParameters};
use relayout_layouts::generate::{
    Blocks, GenerateError, Random, blocks, oct, random, random_3sat, random_graph, sat,
};
use relayout_layouts::json;

/// Generates an instance. A pure function of its arguments: the same file everywhere.
pub fn generate(command: &GenerateCommand) -> Result<Exit, CommandError> {
    let (problem, out) = match command {
        GenerateCommand::Random(a) => (
            random(&parameters(a.operators, &a.graph, a.output.seed)?),
            &a.output,
        ),
        GenerateCommand::Blocks(a) => {
            let blocks_of = Blocks {
                layers: a.layers,
                layer: parameters(a.operators, &a.graph, a.output.seed)?,
                skip: !a.no_skip,
                perturb: a.perturb,
                share: a.share,
                shuffle: a.shuffle,
            };
            (blocks(&blocks_of), &a.output)
        }
        GenerateCommand::Sat(a) => {
            let clauses = a
                .clauses
                .unwrap_or_else(|| a.variables.saturating_mul(426).div_ceil(100));
            let name = format!("sat-{}-{}-{}", a.variables, clauses, a.output.seed);
            let formula = random_3sat(a.variables, clauses, a.output.seed);
            (formula.and_then(|f| sat(&name, a.variables, &f)), &a.output)
        }
        GenerateCommand::Oct(a) => {
            let name = format!("oct-{}-{}-{}", a.vertices, a.percent, a.output.seed);
            let edges = random_graph(a.vertices, a.percent, a.output.seed);
            (oct(&name, a.vertices, &edges), &a.output)
        }
    };
    let problem = problem.map_err(refused)?;
    output::write_file(&out.output, |file| json::write(&problem, file))?;
    output::message(&format!(
        "{}: {} operators, {} tensors",
        problem.name(),
        problem.operators().len(),
        problem.tensors().len()
    ));
    Ok(Exit::Success)
}

fn parameters(operators: usize, graph: &RandomParameters, seed: u64) -> Result<Random, CommandError> {
    let layouts = |n: u64| {
        usize::try_from(n).map_err(|_| CommandError::Usage {
            message: format!("--layouts: found {n}, expected at most 8"),
            help: None,
        })
    };
    Ok(Random {
        operators,
        window: graph.window,
        arity: graph.arity,
        layouts: (layouts(graph.layouts.0)?, layouts(graph.layouts.1)?),
        feasible: graph.feasible,
        costs: graph.costs,
        transposes: graph.transposes,
        odd: graph.odd,
        seed,
    })
}

fn refused(error: GenerateError) -> CommandError {
    CommandError::Usage {
        message: error.to_string(),
        help: None,
    }
}
