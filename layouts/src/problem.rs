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

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::hints::{HintFault, Hints};
use crate::id::{ConfigId, LayoutId, OpId, TensorId};

/// Upper limit of the worst-case objective, 2^62: a quarter of the range of `u64`, so that a few such totals can be
/// added without a check.
pub const MAX_TOTAL: u64 = 1 << 62;

/// Named terms a cost was computed from, in a target's own units; kept for reports, never read by a strategy.
pub type CostTerms = BTreeMap<String, f64>;

/// A tensor: its layouts and what it costs to convert between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Name, for people. Not necessarily unique.
    pub name: String,
    /// Names of the admissible layouts.
    pub layouts: Vec<String>,
    /// Row-major square matrix: row = producer's layout, column = requested layout, `None` = impossible.
    pub transpose: Vec<Option<u64>>,
    /// Known at compile time: repacked ahead of time, so that its conversions cost nothing.
    pub constant: bool,
    /// The tuple of a multi-output operator's results. Its conversions are impossible and never counted.
    pub bundle: bool,
    /// Terms of the conversions' costs, row-major like `transpose`; empty when there are none.
    pub transpose_terms: Vec<Option<CostTerms>>,
}

impl Tensor {
    /// Cost of converting from the producer's layout `from` to the requested layout `to`; `None` is impossible.
    #[inline]
    pub fn transpose(&self, from: LayoutId, to: LayoutId) -> Option<u64> {
        self.transpose[from.index() * self.layouts.len() + to.index()]
    }
}

/// One way to run an operator: a layout per input, one for the output, a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config<'a> {
    /// The layout in which each input is read, in input order.
    pub inputs: &'a [LayoutId],
    /// The layout in which the output is written.
    pub output: LayoutId,
    /// Its cost in the problem's unit.
    pub cost: u64,
}

/// An operator: ordered inputs, one output, and its feasible configurations.
#[derive(Clone, Debug, PartialEq)]
pub struct Operator {
    /// Name, for people. Not necessarily unique.
    pub name: String,
    /// The tensors it reads, in argument order; one tensor may stand here twice.
    pub inputs: Vec<TensorId>,
    /// The tensor it writes.
    pub output: TensorId,
    /// Per configuration, the layout of each input, then that of the output.
    config_layouts: Vec<LayoutId>,
    config_costs: Vec<u64>,
    terms: Vec<Option<CostTerms>>,
}

impl Operator {
    /// Number of configurations.
    #[inline]
    pub fn num_configs(&self) -> usize {
        self.config_costs.len()
    }

    /// The configuration with index `c`.
    #[inline]
    pub fn config(&self, c: ConfigId) -> Config<'_> {
        let (i, n) = (c.index(), self.inputs.len());
        let layouts = &self.config_layouts[i * (n + 1)..][..n + 1];
        Config {
            inputs: &layouts[..n],
            output: layouts[n],
            cost: self.config_costs[i],
        }
    }

    /// All configurations with their indices.
    pub fn configs(&self) -> impl ExactSizeIterator<Item = (ConfigId, Config<'_>)> {
        (0..self.num_configs()).map(|c| (ConfigId(c as u32), self.config(ConfigId(c as u32))))
    }

    /// The terms that the cost of configuration `c` was computed from, if the problem recorded them.
    pub fn terms(&self, c: ConfigId) -> Option<&CostTerms> {
        self.terms.get(c.index()).and_then(Option::as_ref)
    }

    /// Cost of its cheapest configuration; `None` when it has none.
    pub fn min_cost(&self) -> Option<u64> {
        self.config_costs.iter().copied().min()
    }
}

/// A valid instance of Layout Selection. See the module's documentation for what is guaranteed.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    name: String,
    unit: String,
    family: Option<String>,
    hints: Option<Hints>,
    tensors: Vec<Tensor>,
    operators: Vec<Operator>,
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
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// All operators, in file order.
    pub fn operators(&self) -> &[Operator] {
        &self.operators
    }

    /// One tensor.
    #[inline]
    pub fn tensor(&self, t: TensorId) -> &Tensor {
        &self.tensors[t.index()]
    }

    /// One operator.
    #[inline]
    pub fn operator(&self, o: OpId) -> &Operator {
        &self.operators[o.index()]
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

/// What is wrong with a problem, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {fault}")]
pub struct ProblemError {
    /// Path to the fault in the JSON form, like `operators[3].configs[0].in[1]`.
    pub path: String,
    /// The fault.
    pub fault: Fault,
}

/// The ways in which a problem can be invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // each message says what the fields are
pub enum Fault {
    #[error("a tensor needs at least one layout")]
    NoLayouts,
    #[error("layout {name:?} is listed twice in this tensor")]
    DuplicateLayout { name: String },
    #[error("the transpose matrix has {found} rows or columns here, expected {expected} (one per layout)")]
    MatrixShape { found: usize, expected: usize },
    #[error("the diagonal of a transpose matrix must be 0, found {}", show(*.found))]
    Diagonal { found: Option<u64> },
    #[error("no tensor has index {found}; there are {tensors}")]
    NoSuchTensor { found: usize, tensors: usize },
    #[error("tensor {tensor} has two producers, operators {first} and {second}")]
    TwoProducers {
        tensor: usize,
        first: usize,
        second: usize,
    },
    #[error("no operator produces this tensor")]
    NoProducer,
    #[error("found {found} input layouts, expected {expected} (one per input)")]
    InputCount { found: usize, expected: usize },
    #[error("no layout has index {found} in tensor {tensor}; it has {layouts}")]
    NoSuchLayout {
        found: usize,
        tensor: usize,
        layouts: usize,
    },
    #[error("the same layouts are already listed in configuration {first}")]
    DuplicateConfig { first: usize },
    #[error("a constant must come from an operator without inputs; operator {operator} has {inputs}")]
    ConstantWithInputs { operator: usize, inputs: usize },
    #[error("the transpose matrix of a constant must be all zero, found {}", show(*.found))]
    ConstantTranspose { found: Option<u64> },
    #[error("a bundle cannot be converted: expected null, found {found}")]
    BundleTranspose { found: u64 },
    #[error(
        "an operator that reads bundle {tensor} is a projection and must have that one input, found {inputs}"
    )]
    ProjectionInputs { tensor: usize, inputs: usize },
    #[error("a projection costs nothing, found {found}")]
    ProjectionCost { found: u64 },
    #[error(
        "a projection has one configuration per layout of its bundle; configuration {first} reads the same layout"
    )]
    ProjectionChoice { first: usize },
    #[error("operator {operator} depends on its own output")]
    Cycle { operator: usize },
    #[error("the dearest choices sum to more than {MAX_TOTAL} here; use a coarser unit")]
    CostOverflow,
    #[error("more than 2^32 {what}")]
    TooMany { what: &'static str },
    #[error(transparent)]
    Hints(HintFault),
}

fn show(cost: Option<u64>) -> String {
    cost.map_or_else(|| "null".into(), |c| c.to_string())
}

/// A tensor to be added to a [`ProblemBuilder`].
#[derive(Clone, Debug, Default)]
pub struct TensorSpec {
    /// See [`Tensor::name`].
    pub name: String,
    /// See [`Tensor::layouts`].
    pub layouts: Vec<String>,
    /// One row per producer's layout, one column per requested layout.
    pub transpose: Vec<Vec<Option<u64>>>,
    /// See [`Tensor::constant`].
    pub constant: bool,
    /// See [`Tensor::bundle`].
    pub bundle: bool,
    /// Empty, or a matrix of the same shape as `transpose`.
    pub transpose_terms: Vec<Vec<Option<CostTerms>>>,
}

/// A configuration to be added to a [`ProblemBuilder`]; indices are checked by [`ProblemBuilder::build`].
#[derive(Clone, Debug, Default)]
pub struct ConfigSpec {
    /// Layout index per input.
    pub inputs: Vec<usize>,
    /// Layout index of the output.
    pub output: usize,
    /// Cost in the problem's unit.
    pub cost: u64,
    /// What the cost was computed from, if recorded.
    pub terms: Option<CostTerms>,
}

/// An operator to be added to a [`ProblemBuilder`].
#[derive(Clone, Debug, Default)]
pub struct OperatorSpec {
    /// See [`Operator::name`].
    pub name: String,
    /// Tensor index per argument; a tensor may be added after the operator that reads it.
    pub inputs: Vec<usize>,
    /// Tensor index of the output.
    pub output: usize,
    /// The feasible configurations.
    pub configs: Vec<ConfigSpec>,
}

/// Collects tensors and operators in any order and turns them into a [`Problem`].
#[derive(Clone, Debug, Default)]
pub struct ProblemBuilder {
    /// Instance name.
    pub name: String,
    /// Unit of all costs.
    pub unit: String,
    /// Model family.
    pub family: Option<String>,
    /// Hints for the rule-based strategies.
    pub hints: Option<Hints>,
    /// The tensors so far.
    pub tensors: Vec<TensorSpec>,
    /// The operators so far.
    pub operators: Vec<OperatorSpec>,
}

impl ProblemBuilder {
    /// An empty problem.
    pub fn new(name: impl Into<String>, unit: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            unit: unit.into(),
            ..Self::default()
        }
    }

    /// Adds a tensor and returns its index.
    pub fn tensor(&mut self, tensor: TensorSpec) -> usize {
        self.tensors.push(tensor);
        self.tensors.len() - 1
    }

    /// Adds an operator and returns its index.
    pub fn operator(&mut self, operator: OperatorSpec) -> usize {
        self.operators.push(operator);
        self.operators.len() - 1
    }

    /// Validates everything.
    ///
    /// # Errors
    /// The first fault in the order of the module's documentation, with its path.
    pub fn build(self) -> Result<Problem, ProblemError> {
        if self.tensors.len() >= u32::MAX as usize || self.operators.len() >= u32::MAX as usize {
            return Err(error(
                String::new(),
                Fault::TooMany {
                    what: "tensors or operators",
                },
            ));
        }
        let tensors = self
            .tensors
            .into_iter()
            .enumerate()
            .map(|(i, t)| tensor(i, t))
            .collect::<Result<Vec<_>, _>>()?;
        let producers = producers(&tensors, &self.operators)?;
        let operators = self
            .operators
            .into_iter()
            .enumerate()
            .map(|(i, o)| operator(i, o, &tensors))
            .collect::<Result<Vec<_>, _>>()?;
        check_constants(&tensors, &producers, &operators)?;
        check_projections(&tensors, &operators)?;
        let (uses, use_starts) = uses(tensors.len(), &operators);
        let order = topological_order(&operators, &producers, &uses, &use_starts)?;
        check_total(&tensors, &operators)?;
        if let Some(hints) = &self.hints {
            hints.validate(&tensors, &operators)?;
        }
        let reads_bundle = |o: &OpId| {
            let mut inputs = operators[o.index()].inputs.iter();
            inputs.any(|t| tensors[t.index()].bundle)
        };
        let projections = order.iter().copied().filter(reads_bundle).collect();
        let without_configs = operators.iter().position(|op| op.num_configs() == 0);
        Ok(Problem {
            projections,
            sum_of_minimum_costs: operators.iter().filter_map(Operator::min_cost).sum(),
            operator_without_configs: without_configs.map(OpId::new),
            name: self.name,
            unit: self.unit,
            family: self.family,
            hints: self.hints,
            tensors,
            operators,
            producers,
            uses,
            use_starts,
            order,
        })
    }
}

fn error(path: String, fault: Fault) -> ProblemError {
    ProblemError { path, fault }
}

fn tensor(i: usize, spec: TensorSpec) -> Result<Tensor, ProblemError> {
    let n = spec.layouts.len();
    if n == 0 {
        return Err(error(format!("tensors[{i}].layouts"), Fault::NoLayouts));
    }
    let mut seen = FxHashSet::default();
    for (k, name) in spec.layouts.iter().enumerate() {
        if !seen.insert(name.as_str()) {
            let fault = Fault::DuplicateLayout { name: name.clone() };
            return Err(error(format!("tensors[{i}].layouts[{k}]"), fault));
        }
    }
    let matrix_shape = |path: String, found| error(path, Fault::MatrixShape { found, expected: n });
    if spec.transpose.len() != n {
        return Err(matrix_shape(
            format!("tensors[{i}].transpose"),
            spec.transpose.len(),
        ));
    }
    let mut transpose = Vec::with_capacity(n * n);
    for (r, row) in spec.transpose.into_iter().enumerate() {
        if row.len() != n {
            return Err(matrix_shape(format!("tensors[{i}].transpose[{r}]"), row.len()));
        }
        if row[r] != Some(0) {
            return Err(error(
                format!("tensors[{i}].transpose[{r}][{r}]"),
                Fault::Diagonal { found: row[r] },
            ));
        }
        for (c, &cost) in row.iter().enumerate() {
            let path = || format!("tensors[{i}].transpose[{r}][{c}]");
            if spec.constant && cost != Some(0) {
                return Err(error(path(), Fault::ConstantTranspose { found: cost }));
            }
            if let (true, true, Some(found)) = (spec.bundle, r != c, cost) {
                return Err(error(path(), Fault::BundleTranspose { found }));
            }
        }
        transpose.extend(row);
    }
    let mut transpose_terms = Vec::new();
    if !spec.transpose_terms.is_empty() {
        if spec.transpose_terms.len() != n {
            return Err(matrix_shape(
                format!("tensors[{i}].transpose_terms"),
                spec.transpose_terms.len(),
            ));
        }
        for (r, row) in spec.transpose_terms.into_iter().enumerate() {
            if row.len() != n {
                return Err(matrix_shape(
                    format!("tensors[{i}].transpose_terms[{r}]"),
                    row.len(),
                ));
            }
            transpose_terms.extend(row);
        }
    }
    Ok(Tensor {
        name: spec.name,
        layouts: spec.layouts,
        transpose,
        constant: spec.constant,
        bundle: spec.bundle,
        transpose_terms,
    })
}

fn producers(tensors: &[Tensor], operators: &[OperatorSpec]) -> Result<Vec<OpId>, ProblemError> {
    let no_such = |path, found| {
        error(
            path,
            Fault::NoSuchTensor {
                found,
                tensors: tensors.len(),
            },
        )
    };
    let mut producers: Vec<Option<OpId>> = vec![None; tensors.len()];
    for (i, op) in operators.iter().enumerate() {
        for (k, &t) in op.inputs.iter().enumerate() {
            if t >= tensors.len() {
                return Err(no_such(format!("operators[{i}].inputs[{k}]"), t));
            }
        }
        let path = || format!("operators[{i}].output");
        let t = op.output;
        if t >= tensors.len() {
            return Err(no_such(path(), t));
        }
        if let Some(first) = producers[t].replace(OpId::new(i)) {
            return Err(error(
                path(),
                Fault::TwoProducers {
                    tensor: t,
                    first: first.index(),
                    second: i,
                },
            ));
        }
    }
    producers
        .into_iter()
        .enumerate()
        .map(|(t, p)| p.ok_or_else(|| error(format!("tensors[{t}]"), Fault::NoProducer)))
        .collect()
}

fn operator(i: usize, spec: OperatorSpec, tensors: &[Tensor]) -> Result<Operator, ProblemError> {
    let arity = spec.inputs.len();
    if spec.configs.len() >= u32::MAX as usize {
        return Err(error(
            format!("operators[{i}].configs"),
            Fault::TooMany {
                what: "configurations",
            },
        ));
    }
    // Paths are written for faults only: for a million operators they took longer than the checks.
    let layout = |path: &dyn Fn() -> String, tensor: usize, found: usize| {
        let layouts = tensors[tensor].layouts.len();
        if found < layouts {
            Ok(LayoutId(found as u32))
        } else {
            Err(error(
                path(),
                Fault::NoSuchLayout {
                    found,
                    tensor,
                    layouts,
                },
            ))
        }
    };
    let mut op = Operator {
        name: spec.name,
        inputs: spec.inputs.iter().map(|&t| TensorId::new(t)).collect(),
        output: TensorId::new(spec.output),
        config_layouts: Vec::with_capacity((arity + 1) * spec.configs.len()),
        config_costs: Vec::with_capacity(spec.configs.len()),
        terms: Vec::new(),
    };
    let has_terms = spec.configs.iter().any(|c| c.terms.is_some());
    let mut seen = FxHashMap::with_capacity_and_hasher(spec.configs.len(), Default::default());
    for (k, config) in spec.configs.into_iter().enumerate() {
        let path = || format!("operators[{i}].configs[{k}]");
        if config.inputs.len() != arity {
            let fault = Fault::InputCount {
                found: config.inputs.len(),
                expected: arity,
            };
            return Err(error(format!("{}.in", path()), fault));
        }
        for (j, (&l, &t)) in config.inputs.iter().zip(&spec.inputs).enumerate() {
            op.config_layouts
                .push(layout(&|| format!("{}.in[{j}]", path()), t, l)?);
        }
        op.config_layouts
            .push(layout(&|| format!("{}.out", path()), spec.output, config.output)?);
        op.config_costs.push(config.cost);
        if has_terms {
            op.terms.push(config.terms);
        }
        if let Some(first) = seen.insert((config.inputs, config.output), k) {
            return Err(error(path(), Fault::DuplicateConfig { first }));
        }
    }
    Ok(op)
}

fn check_constants(
    tensors: &[Tensor],
    producers: &[OpId],
    operators: &[Operator],
) -> Result<(), ProblemError> {
    for (t, &p) in producers.iter().enumerate() {
        let inputs = operators[p.index()].inputs.len();
        if tensors[t].constant && inputs > 0 {
            let fault = Fault::ConstantWithInputs {
                operator: p.index(),
                inputs,
            };
            return Err(error(format!("tensors[{t}].constant"), fault));
        }
    }
    Ok(())
}

fn check_projections(tensors: &[Tensor], operators: &[Operator]) -> Result<(), ProblemError> {
    for (i, op) in operators.iter().enumerate() {
        let Some(t) = op.inputs.iter().find(|t| tensors[t.index()].bundle) else {
            continue;
        };
        if op.inputs.len() != 1 {
            let fault = Fault::ProjectionInputs {
                tensor: t.index(),
                inputs: op.inputs.len(),
            };
            return Err(error(format!("operators[{i}].inputs"), fault));
        }
        let mut by_layout = vec![None; tensors[t.index()].layouts.len()];
        for (c, config) in op.configs() {
            let path = || format!("operators[{i}].configs[{c}]");
            if config.cost != 0 {
                return Err(error(
                    format!("{}.cost", path()),
                    Fault::ProjectionCost { found: config.cost },
                ));
            }
            if let Some(first) = by_layout[config.inputs[0].index()].replace(c.index()) {
                return Err(error(path(), Fault::ProjectionChoice { first }));
            }
        }
    }
    Ok(())
}

fn uses(tensors: usize, operators: &[Operator]) -> (Vec<(OpId, u32)>, Vec<u32>) {
    let mut starts = vec![0u32; tensors + 1];
    for t in operators.iter().flat_map(|op| &op.inputs) {
        starts[t.index() + 1] += 1;
    }
    for t in 0..tensors {
        starts[t + 1] += starts[t];
    }
    let mut next = starts.clone();
    let mut uses = vec![(OpId(0), 0); starts[tensors] as usize];
    for (i, op) in operators.iter().enumerate() {
        for (position, t) in op.inputs.iter().enumerate() {
            uses[next[t.index()] as usize] = (OpId::new(i), position as u32);
            next[t.index()] += 1;
        }
    }
    (uses, starts)
}

fn topological_order(
    operators: &[Operator],
    producers: &[OpId],
    uses: &[(OpId, u32)],
    starts: &[u32],
) -> Result<Vec<OpId>, ProblemError> {
    let mut missing: Vec<usize> = operators.iter().map(|op| op.inputs.len()).collect();
    let mut ready: BinaryHeap<_> = (0..operators.len())
        .filter(|&i| missing[i] == 0)
        .map(Reverse)
        .collect();
    let mut order = Vec::with_capacity(operators.len());
    while let Some(Reverse(i)) = ready.pop() {
        order.push(OpId::new(i));
        let t = operators[i].output.index();
        for &(consumer, _) in &uses[starts[t] as usize..starts[t + 1] as usize] {
            let c = consumer.index();
            missing[c] -= 1;
            if missing[c] == 0 {
                ready.push(Reverse(c));
            }
        }
    }
    if order.len() == operators.len() {
        return Ok(order);
    }
    // An operator left over need not lie on a cycle; walking to a left-over producer again and again reaches one.
    let mut at = missing.iter().position(|&m| m > 0).unwrap_or(0);
    let mut visited = vec![false; operators.len()];
    while !std::mem::replace(&mut visited[at], true) {
        let back = operators[at]
            .inputs
            .iter()
            .map(|t| producers[t.index()].index())
            .find(|&p| missing[p] > 0);
        at = back.unwrap_or(at);
    }
    Err(error(format!("operators[{at}]"), Fault::Cycle { operator: at }))
}

fn check_total(tensors: &[Tensor], operators: &[Operator]) -> Result<(), ProblemError> {
    let mut total = 0u64;
    let mut add = |cost: u64, path: &dyn Fn() -> String| {
        total = total
            .checked_add(cost)
            .filter(|&t| t <= MAX_TOTAL)
            .ok_or_else(|| error(path(), Fault::CostOverflow))?;
        Ok(())
    };
    for (i, op) in operators.iter().enumerate() {
        add(op.config_costs.iter().copied().max().unwrap_or(0), &|| {
            format!("operators[{i}].configs")
        })?;
    }
    for (i, t) in tensors.iter().enumerate() {
        let path = || format!("tensors[{i}].transpose");
        let mut dearest = 0u64;
        for row in t.transpose.chunks(t.layouts.len()) {
            let sum = row.iter().flatten().try_fold(0u64, |a, &c| a.checked_add(c));
            dearest = dearest.max(sum.ok_or_else(|| error(path(), Fault::CostOverflow))?);
        }
        add(dearest, &path)?;
    }
    Ok(())
}
