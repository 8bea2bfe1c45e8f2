//! The Layout Selection problem, its file formats, its strategies, and the checker that trusts none of them.
//!
//! No tensors, no hardware: layouts are numbered and costs are integers. A caller builds or reads a [`Problem`], asks a
//! [`Strategy`] under a [`Budget`], and gets ranked [`Solutions`] whose costs [`check::check`] has recomputed.

pub mod check;
pub mod decomposition;
pub mod encoding;
pub mod exact;
pub mod export;
pub mod external;
pub mod generate;
pub mod graph;
pub mod greedy;
mod hash;
pub mod hints;
pub mod id;
pub mod import;
pub mod json;
pub mod local;
pub mod maxsat;
mod meter;
mod nearest;
pub mod problem;
mod projection;
pub mod registry;
pub mod rng;
pub mod rule_based;
pub mod strategy;
pub mod treewidth;

pub use check::{CheckError, Checked, Conversion, check};
pub use id::{ConfigId, LayoutId, OpId, TensorId};
pub use problem::{ConfigSpec, CostTerms, OperatorSpec, Problem, ProblemBuilder, ProblemError, TensorSpec};
pub use registry::{
    ChoiceError, STRATEGIES, SolverInfo, StrategyInfo, UnknownStrategy, strategy_by_name,
    strategy_with_solver,
};
pub use strategy::{Budget, Solution, Solutions, SolveError, Status, Strategy, Trace, TracePoint};
