//! Strategies by name.

use crate::exact::Exact;
use crate::greedy::Greedy;
use crate::local::Local;
use crate::maxsat::{MaxSat, SatSolver};
use crate::nearest::nearest;
use crate::rule_based::{NEOCPU, RuleBased, SMARTMEM, XLA};
use crate::strategy::Strategy;
use crate::treewidth::Treewidth;

/// A row of the registry.
#[derive(Clone, Copy, Debug)]
pub struct StrategyInfo {
    /// The name in configurations.
    pub name: &'static str,
    /// One line on what it does.
    pub description: &'static str,
    /// Whether its answers are proven optimal when nothing stops it.
    pub exact: bool,
    /// `None` when this build has it, else how to get it.
    pub missing: Option<&'static str>,
    /// The solvers it can run on, its default first; empty when there is nothing to choose.
    pub solvers: &'static [SolverInfo],
    make: fn() -> Box<dyn Strategy>,
}

/// A solver that a strategy can run on.
#[derive(Clone, Copy, Debug)]
pub struct SolverInfo {
    /// The name in configurations.
    pub name: &'static str,
    /// One line on what it is.
    pub description: &'static str,
    /// `None` when this build has it, else how to get it.
    pub missing: Option<&'static str>,
    make: Option<fn() -> Box<dyn Strategy>>,
}

/// The solvers of `maxsat`.
const MAXSAT_SOLVERS: &[SolverInfo] = &[
    SolverInfo {
        name: "rustsat",
        description: if cfg!(feature = "cadical") {
            "core-guided search (OLL) on CaDiCaL"
        } else {
            "core-guided search (OLL) on BatSat"
        },
        missing: None,
        make: Some(|| Box::new(MaxSat::default())),
    },
    SolverInfo {
        name: "batsat",
        description: "the same search on BatSat (pure Rust)",
        missing: None,
        make: Some(|| {
            Box::new(MaxSat {
                solver: SatSolver::Batsat,
            })
        }),
    },
    #[cfg(feature = "cadical")]
    SolverInfo {
        name: "cadical",
        description: "the same search on CaDiCaL (C++)",
        missing: None,
        make: Some(|| {
            Box::new(MaxSat {
                solver: SatSolver::Cadical,
            })
        }),
    },
    #[cfg(not(feature = "cadical"))]
    SolverInfo {
        name: "cadical",
        description: "the same search on CaDiCaL (C++)",
        missing: Some("run scripts/setup and build with --features cadical"),
        make: None,
    },
    #[cfg(feature = "z3")]
    SolverInfo {
        name: "z3",
        description: "z3's optimiser",
        missing: None,
        make: Some(|| Box::new(crate::maxsat::z3::Z3)),
    },
    #[cfg(not(feature = "z3"))]
    SolverInfo {
        name: "z3",
        description: "z3's optimiser",
        missing: Some("run scripts/setup and build with --features z3"),
        make: None,
    },
];

/// Every strategy, in the order in which tables list them.
pub const STRATEGIES: &[StrategyInfo] = &[
    StrategyInfo {
        name: "local",
        description: "each operator's cheapest configuration, blind to conversions",
        exact: false,
        missing: None,
        solvers: &[],
        make: || Box::new(Local),
    },
    StrategyInfo {
        name: "greedy",
        description: "topological construction by marginal cost, then sweeps of strict improvements",
        exact: false,
        missing: None,
        solvers: &[],
        make: || Box::new(Greedy),
    },
    StrategyInfo {
        name: "rule-based",
        description: "propagation from known preferences over logical dimensions, domain rules, search in components; reads no costs",
        exact: false,
        missing: None,
        solvers: &[],
        make: || Box::new(RuleBased),
    },
    StrategyInfo {
        name: "xla",
        description: "rules after XLA: influential operators, propagation both ways, copies; reads no costs",
        exact: false,
        missing: None,
        solvers: &[],
        make: || Box::new(XLA),
    },
    StrategyInfo {
        name: "smartmem",
        description: "rules after SmartMem: layouts by reduction dimension, fewest conversions elsewhere; reads no costs",
        exact: false,
        missing: None,
        solvers: &[],
        make: || Box::new(SMARTMEM),
    },
    StrategyInfo {
        name: "neocpu",
        description: "rules after NeoCPU: one blocked format for all convolutions, kept while it flows; reads no costs",
        exact: false,
        missing: None,
        solvers: &[],
        make: || Box::new(NEOCPU),
    },
    StrategyInfo {
        name: "treewidth",
        description: "dynamic program over a nice tree decomposition; all or nothing",
        exact: true,
        missing: None,
        solvers: &[],
        make: || Box::new(Treewidth),
    },
    StrategyInfo {
        name: "maxsat",
        description: "weighted MaxSAT encoding under a core-guided search (OLL); anytime",
        exact: true,
        missing: None,
        solvers: MAXSAT_SOLVERS,
        make: || Box::new(MaxSat::default()),
    },
    StrategyInfo {
        name: "exact",
        description: "variable elimination in a cost function network; proven optimum in linear time at bounded width",
        exact: true,
        missing: None,
        solvers: &[],
        make: || Box::new(Exact::default()),
    },
];

/// No strategy has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no strategy is named {name:?}; did you mean {nearest:?}? There are: {}", names().join(", "))]
pub struct UnknownStrategy {
    /// The name asked for.
    pub name: String,
    /// The nearest name there is.
    pub nearest: &'static str,
}

fn names() -> Vec<&'static str> {
    STRATEGIES.iter().map(|s| s.name).collect()
}

/// The strategy with this name, with its default options.
///
/// # Errors
/// [`UnknownStrategy`], with the nearest name.
pub fn strategy_by_name(name: &str) -> Result<Box<dyn Strategy>, UnknownStrategy> {
    match STRATEGIES.iter().find(|s| s.name == name) {
        Some(info) => Ok((info.make)()),
        None => Err(UnknownStrategy {
            name: name.into(),
            nearest: nearest(name, &names()),
        }),
    }
}

/// There is no such strategy on such a solver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// No strategy has this name.
    #[error(transparent)]
    UnknownStrategy(#[from] UnknownStrategy),
    /// The strategy has no solver to choose.
    #[error("strategy {strategy:?} has no choice of solver, but {solver:?} was asked for")]
    NoChoice {
        /// The strategy.
        strategy: &'static str,
        /// The solver asked for.
        solver: String,
    },
    /// The strategy has no solver of this name.
    #[error("strategy {strategy:?} has no solver named {solver:?}; did you mean {nearest:?}?")]
    UnknownSolver {
        /// The strategy.
        strategy: &'static str,
        /// The solver asked for.
        solver: String,
        /// The nearest name there is.
        nearest: &'static str,
    },
    /// This build is without the solver.
    #[error("this build is without the solver {solver:?}: {how_to_get}")]
    SolverNotBuilt {
        /// The solver asked for.
        solver: &'static str,
        /// What to do about it.
        how_to_get: &'static str,
    },
}

/// The strategy with this name on this solver, else on its default one.
///
/// # Errors
/// See [`ChoiceError`].
pub fn strategy_with_solver(name: &str, solver: Option<&str>) -> Result<Box<dyn Strategy>, ChoiceError> {
    let Some(solver) = solver else {
        return Ok(strategy_by_name(name)?);
    };
    let Some(info) = STRATEGIES.iter().find(|s| s.name == name) else {
        return Ok(strategy_by_name(name)?); // the same error
    };
    if info.solvers.is_empty() {
        return Err(ChoiceError::NoChoice {
            strategy: info.name,
            solver: solver.into(),
        });
    }
    let Some(found) = info.solvers.iter().find(|s| s.name == solver) else {
        let names: Vec<&'static str> = info.solvers.iter().map(|s| s.name).collect();
        return Err(ChoiceError::UnknownSolver {
            strategy: info.name,
            solver: solver.into(),
            nearest: nearest(solver, &names),
        });
    };
    match found.make {
        Some(make) => Ok(make()),
        None => Err(ChoiceError::SolverNotBuilt {
            solver: found.name,
            how_to_get: found.missing.unwrap_or("build with its feature"),
        }),
    }
}
