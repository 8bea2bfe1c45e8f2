//! Strategies and their solvers by name.

use super::CommandError;
use crate::config::suggest;
use relayout_layouts::maxsat::{MaxSat, SatSolver};
use relayout_layouts::{STRATEGIES, Strategy, strategy_by_name};

/// A solver that a strategy can run on.
#[derive(Clone, Copy, Debug)]
pub struct SolverInfo {
    /// The name.
    pub name: &'static str,
    /// One line.
    pub description: &'static str,
    /// `None` when this build has it, else how to get it.
    pub missing: Option<&'static str>,
}

const MAXSAT_SOLVERS: &[SolverInfo] = &[
    SolverInfo {
        name: "rustsat",
        description: if cfg!(feature = "cadical") {
            "core-guided search of ours on CaDiCaL; the default"
        } else {
            "core-guided search of ours on BatSat; the default"
        },
        missing: None,
    },
    SolverInfo {
        name: "batsat",
        description: "the same search on BatSat (pure Rust)",
        missing: None,
    },
    SolverInfo {
        name: "cadical",
        description: "the same search on CaDiCaL (C++)",
        missing: if cfg!(feature = "cadical") {
            None
        } else {
            Some("build with `--features cadical` (wants a C++ compiler and libclang)")
        },
    },
    SolverInfo {
        name: "z3",
        description: "the optimiser of Z3",
        missing: Some("no release has it yet; `rustsat` solves the same encoding"),
    },
];

/// The solvers of a strategy, the default first; empty for those that have no choice.
pub fn solvers(strategy: &str) -> &'static [SolverInfo] {
    if strategy == "maxsat" { MAXSAT_SOLVERS } else { &[] }
}

/// A strategy with its solver (`None`: the default).
///
/// # Errors
/// For unknown names, with the nearest; for a solver that this build lacks, with how to get it.
pub fn strategy_with_solver(name: &str, solver: Option<&str>) -> Result<Box<dyn Strategy>, CommandError> {
    let Some(info) = STRATEGIES.iter().find(|s| s.name == name) else {
        let help = suggest(name, STRATEGIES.iter().map(|s| s.name));
        return Err(CommandError::Unknown {
            what: "strategy",
            found: name.to_owned(),
            help,
        });
    };
    if let Some(how) = info.missing {
        return Err(CommandError::NotBuiltIn {
            what: format!("strategy `{name}`"),
            help: how.to_owned(),
        });
    }
    let Some(solver) = solver else {
        return strategy_by_name(name).map_err(CommandError::input);
    };
    let choices = solvers(name);
    let Some(found) = choices.iter().find(|s| s.name == solver) else {
        if choices.is_empty() {
            let message = format!("strategy `{name}` has no choice of solvers; found `--solver {solver}`");
            return Err(CommandError::Usage {
                message,
                help: Some("leave `--solver` out".to_owned()),
            });
        }
        let help = suggest(solver, choices.iter().map(|s| s.name));
        return Err(CommandError::Unknown {
            what: "solver",
            found: solver.to_owned(),
            help,
        });
    };
    if let Some(how) = found.missing {
        return Err(CommandError::NotBuiltIn {
            what: format!("solver `{solver}` of `{name}`"),
            help: how.to_owned(),
        });
    }
    let solver = match solver {
        "batsat" => SatSolver::Batsat,
        #[cfg(feature = "cadical")]
        "cadical" => SatSolver::Cadical,
        _ => SatSolver::default(),
    };
    Ok(Box::new(MaxSat { solver }))
}
