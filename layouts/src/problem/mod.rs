//! The Layout Selection problem: tensors with layouts and transpose costs, operators with configurations.
//!
//! Objective (seed, section 2): the sum of the chosen configurations' costs, plus for each tensor the transpose cost
//! from its producer's layout to each *distinct* layout that its consumers request, once each. A configuration that is
//! not listed is infeasible; a transpose that is `None` is impossible.
//!
//! A [`Problem`] is valid by construction. What [`ProblemBuilder::build`] checks, in this order:
//! 1. every tensor has at least one layout, no two of one name, and a square matrix with zero diagonal;
//! 2. inputs and outputs name existing tensors, and each tensor has exactly one producer;
//! 3. every configuration names one existing layout per input and one for the output; no two are alike;
//! 4. a `constant` tensor comes from an operator without inputs and has an all-zero matrix; a `bundle` tensor cannot be
//!    converted, and its consumers are projections: that one input, zero cost, at most one configuration per layout;
//! 5. the graph is acyclic;
//! 6. the dearest conceivable choices sum to at most [`MAX_TOTAL`], so that no sum a solver forms can overflow;
//! 7. hints, if there are any, speak of the tensors, layouts, operators and configurations that there are.

mod builder;
mod fault;
mod names;
mod operator;
mod tensor;

use std::collections::BTreeMap;

pub use builder::{ConfigSpec, OperatorSpec, ProblemBuilder, TensorSpec};
pub use fault::{Fault, ProblemError};
pub(crate) use operator::Operators;
pub use operator::{Config, Operator};
pub use tensor::Tensor;
pub(crate) use tensor::Tensors;

use crate::hints::Hints;
use crate::id::{OpId, TensorId};

/// Upper limit of the worst-case objective, 2^62: a quarter of the range of `u64`, so that a few such totals can be
/// added without a check.
pub const MAX_TOTAL: u64 = 1 << 62;

/// Named terms a cost was computed from, in a target's own units; kept for reports, never read by a strategy.
pub type CostTerms = BTreeMap<String, f64>;

/// A valid instance of Layout Selection. See the module's documentation for what is guaranteed.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    name: String,
    unit: String,
    family: Option<String>,
    hints: Option<Hints>,
    tensors: Tensors,
    operators: Operators,
    producers: Vec<OpId>,
    /// Uses of all tensors, grouped by tensor: consumer and argument position.
    uses: Vec<(OpId, u32)>,
    use_starts: Vec<u32>,
    order: Vec<OpId>,
    /// In topological order.
    projections: Vec<OpId>,
    sum_of_minimum_costs: u64,
    operator_without_configs: Option<OpId>,
}

impl Problem {
    /// The instance's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The one unit of all costs.
    pub fn unit(&self) -> &str {
        &self.unit
    }

    /// The model family, if recorded.
    pub fn family(&self) -> Option<&str> {
        self.family.as_deref()
    }

    /// Hints for the rule-based strategies.
    pub fn hints(&self) -> Option<&Hints> {
        self.hints.as_ref()
    }

    /// All tensors, in file order.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = Tensor<'_>> + DoubleEndedIterator + Clone {
        self.tensors.iter()
    }

    /// All operators, in file order.
    pub fn operators(&self) -> impl ExactSizeIterator<Item = Operator<'_>> + DoubleEndedIterator + Clone {
        self.operators.iter()
    }

    /// One tensor.
    #[inline]
    pub fn tensor(&self, t: TensorId) -> Tensor<'_> {
        self.tensors.get(t)
    }

    /// One operator.
    #[inline]
    pub fn operator(&self, o: OpId) -> Operator<'_> {
        self.operators.get(o)
    }

    /// Indices of all operators.
    pub fn op_ids(&self) -> impl ExactSizeIterator<Item = OpId> + use<> {
        (0..self.operators.len() as u32).map(OpId)
    }

    /// Indices of all tensors.
    pub fn tensor_ids(&self) -> impl ExactSizeIterator<Item = TensorId> + use<> {
        (0..self.tensors.len() as u32).map(TensorId)
    }

    /// The operator that writes `t`.
    #[inline]
    pub fn producer(&self, t: TensorId) -> OpId {
        self.producers[t.index()]
    }

    /// Every use of `t`: the consumer and the argument position, ordered by both. An operator that reads `t` twice
    /// stands here twice.
    #[inline]
    pub fn uses(&self, t: TensorId) -> &[(OpId, u32)] {
        let i = t.index();
        &self.uses[self.use_starts[i] as usize..self.use_starts[i + 1] as usize]
    }

    /// The topological order: Kahn's algorithm, smallest operator index first.
    pub fn topological_order(&self) -> &[OpId] {
        &self.order
    }

    /// Whether `o` is a projection: it reads a bundle, and has no choice of its own.
    pub fn is_projection(&self, o: OpId) -> bool {
        self.operator(o)
            .inputs
            .first()
            .is_some_and(|&t| self.tensor(t).bundle)
    }

    /// Every projection, in topological order.
    pub fn projections(&self) -> &[OpId] {
        &self.projections
    }

    /// The sum of the operators' cheapest configurations, a lower bound on the objective. An operator without
    /// configurations counts zero (the problem is then infeasible).
    pub fn sum_of_minimum_costs(&self) -> u64 {
        self.sum_of_minimum_costs
    }

    /// The first operator that has no configuration; one such proves infeasibility.
    pub fn operator_without_configs(&self) -> Option<OpId> {
        self.operator_without_configs
    }

    /// Stable hash (BLAKE3, 128 bits, 32 hexadecimal digits) of everything a strategy can read: structure, layouts by
    /// number, costs, marks, unit and hints. Names, family and cost terms are left out, so that renaming changes nothing.
    pub fn hash(&self) -> String {
        crate::hash::of(self)
    }
}
