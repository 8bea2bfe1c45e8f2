//! Measures over a run's records, as the layout study defines them (its section 4). Pure functions over `&[CellRecord]`.
//!
//! The unit of comparison is a [`Case`]: a model under one binding, target, cost model, thread count and seed, with one cell per
//! strategy. Three rules hold for every measure:
//!
//! * cells of one case whose instances differ solved different problems; such a case is left out and reported;
//! * a cell that failed has no value: it is counted as absent and never enters as a number;
//! * figures and shares are over *columns*: `local`, `greedy`, `rule-based` and the one strategy that plays `solver-based`.

mod cases;
mod conversions;
mod gap;
mod heatmap;
mod kernels;
mod pairwise;
mod relative;
mod solvers;
mod summary;
mod verdict;

pub use cases::{Case, Cases, Column, Facet, HEURISTICS, Settings, facets, group};
pub use conversions::{
    ConversionRatios, Distribution, PlanCount, ProfiledRatio, conversion_cost_share, conversion_ratios,
    distinct_plans, profiled_over_measured, solver_time_share,
};
pub use gap::{Gap, GapCurve, OptimalityGaps, optimality_gaps};
pub use heatmap::{HeatMap, heat_map};
pub use kernels::{KernelClass, KernelOperation, KernelVariant, kernel_classes, kernel_operations};
pub use pairwise::{Accuracy, BASELINE, Disagreement, PairwiseAccuracy, compare, pairwise_accuracy};
pub use relative::{RelativeCurve, RelativePerformance, RelativePoint, relative_performance};
pub use solvers::{RuntimeCurve, TreewidthHistogram, solver_runtimes, treewidth_histogram};
pub use summary::{FacetSummary, Summary, summarise};
pub use verdict::{Outcome, Verdict, verdicts};
