//! Strategies by name.

use crate::exact::Exact;
use crate::greedy::Greedy;
use crate::local::Local;
use crate::maxsat::MaxSat;
use crate::nearest::nearest;
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
    make: fn() -> Box<dyn Strategy>,
}

/// Every strategy, in the order in which tables list them.
pub const STRATEGIES: &[StrategyInfo] = &[
    StrategyInfo {
        name: "local",
        description: "each operator's cheapest configuration, blind to conversions",
        exact: false,
        missing: None,
        make: || Box::new(Local),
    },
    StrategyInfo {
        name: "greedy",
        description: "topological construction by marginal cost, then sweeps of strict improvements",
        exact: false,
        missing: None,
        make: || Box::new(Greedy),
    },
    StrategyInfo {
        name: "treewidth",
        description: "dynamic program over a nice tree decomposition; all or nothing",
        exact: true,
        missing: None,
        make: || Box::new(Treewidth),
    },
    StrategyInfo {
        name: "maxsat",
        description: "weighted MaxSAT encoding under a core-guided search (OLL); anytime",
        exact: true,
        missing: None,
        make: || Box::new(MaxSat::default()),
    },
    StrategyInfo {
        name: "exact",
        description: "variable elimination in a cost function network; proven optimum in linear time at bounded width",
        exact: true,
        missing: None,
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
