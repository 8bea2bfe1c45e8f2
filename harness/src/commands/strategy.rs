//! Strategies and their solvers by name: the registry's answer in this command line's errors.

use super::CommandError;
use crate::config::{StrategyEntry, suggest};
use relayout_layouts::exact::{Exact, SWITCHES};
use relayout_layouts::external::{self, External, Format};
use relayout_layouts::{ChoiceError, STRATEGIES, SolverInfo, Strategy};

/// The solvers of a strategy, the default first; empty for those that have no choice and for unknown names.
pub fn solvers(strategy: &str) -> &'static [SolverInfo] {
    STRATEGIES
        .iter()
        .find(|s| s.name == strategy)
        .map_or(&[], |s| s.solvers)
}

/// The strategy of a configuration's column.
///
/// # Errors
/// As of [`strategy_with_solver`]; those of an outside solver's command.
pub fn strategy_of(entry: &StrategyEntry) -> Result<Box<dyn Strategy>, CommandError> {
    match &entry.external {
        Some(program) => external_program(&entry.label, &program.command, program.format),
        None => strategy_with_solver(&entry.strategy, entry.solver.as_deref()),
    }
}

/// An outside solver.
///
/// # Errors
/// Those of its command.
pub fn external_program(
    label: &str,
    command: &str,
    format: Format,
) -> Result<Box<dyn Strategy>, CommandError> {
    match External::new(label, command, format) {
        Ok(program) => Ok(Box::new(program)),
        Err(e) => Err(CommandError::Usage {
            message: format!("the command of an external solver: {e}"),
            help: Some(format!("placeholders are {}", external::placeholders())),
        }),
    }
}

/// `exact` with reductions switched off.
///
/// # Errors
/// For unknown switches, with the nearest.
pub fn exact_without(switches: &[String]) -> Result<Box<dyn Strategy>, CommandError> {
    let mut exact = Exact::default();
    for switch in switches {
        exact = exact.without(switch).map_err(|e| CommandError::Unknown {
            what: "switch",
            help: suggest(&e.name, SWITCHES.iter().map(|s| s.0)),
            found: e.name,
        })?;
    }
    Ok(Box::new(exact))
}

/// A strategy with its solver (`None`: the default).
///
/// # Errors
/// For unknown names, with the nearest; for a solver that this build lacks, with how to get it.
pub fn strategy_with_solver(name: &str, solver: Option<&str>) -> Result<Box<dyn Strategy>, CommandError> {
    if name == external::NAME {
        return Err(CommandError::Usage {
            message: "strategy `external` needs a command and a format".to_owned(),
            help: Some(
                "`solve` takes `--command` and `--format`, a configuration `{ external: LABEL, command: …, format: … }`"
                    .to_owned(),
            ),
        });
    }
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
