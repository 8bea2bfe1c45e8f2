//! Strategies and their solvers by name: the registry's answer in this command line's errors.

use super::CommandError;
use crate::config::suggest;
use relayout_layouts::{ChoiceError, STRATEGIES, SolverInfo, Strategy};

/// The solvers of a strategy, the default first; empty for those that have no choice and for unknown names.
pub fn solvers(strategy: &str) -> &'static [SolverInfo] {
    STRATEGIES
        .iter()
        .find(|s| s.name == strategy)
        .map_or(&[], |s| s.solvers)
}

/// A strategy with its solver (`None`: the default).
///
/// # Errors
/// For unknown names, with the nearest; for a solver that this build lacks, with how to get it.
pub fn strategy_with_solver(name: &str, solver: Option<&str>) -> Result<Box<dyn Strategy>, CommandError> {
    relayout_layouts::strategy_with_solver(name, solver).map_err(|e| match e {
        ChoiceError::UnknownStrategy(e) => CommandError::Unknown {
            what: "strategy",
            help: suggest(&e.name, STRATEGIES.iter().map(|s| s.name)),
            found: e.name,
        },
        ChoiceError::NoChoice { strategy, solver } => CommandError::Usage {
            message: format!("strategy `{strategy}` has no choice of solvers; found `--solver {solver}`"),
            help: Some("leave `--solver` out".to_owned()),
        },
        ChoiceError::UnknownSolver { strategy, solver, .. } => CommandError::Unknown {
            what: "solver",
            help: suggest(&solver, solvers(strategy).iter().map(|s| s.name)),
            found: solver,
        },
        ChoiceError::SolverNotBuilt { solver, how_to_get } => CommandError::NotBuiltIn {
            what: format!("solver `{solver}` of `{name}`"),
            help: how_to_get.to_owned(),
        },
    })
}
