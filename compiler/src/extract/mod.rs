//! Layout extraction: from a graph function to a Layout Selection instance for a target and weighted shape bindings.
//!
//! Parameters are sources with the ABI layout, constants free sources whose conversions cost nothing (they are repacked ahead
//! of time), results are sinks pinned to the ABI layout. A configuration is a combination of layouts that the operator's
//! layout rule allows, the imported (row-major) one first; its cost is the cost of the implementation that lowering will
//! use for exactly that combination.

pub mod configs;
pub mod domain;
pub mod hints;
mod price;
pub mod project;
pub mod view;

pub use configs::LayoutConfig;
pub use domain::{DomainPolicy, Domains};
pub use price::{CallSpec, CostModel, Pricing};

use crate::alias;
use crate::cost::{Terms, UnitRequest};
use price::Priced;
use relayout_ir::graph::{Module, ValueId};
use relayout_ir::index::Idx;
use relayout_ir::layout::Layout;
use relayout_layouts::hints::{Hints, OperatorHints, TensorHints};
use relayout_layouts::{ConfigSpec, OperatorSpec, Problem, ProblemBuilder, ProblemError, TensorSpec};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use view::{GraphView, Producer};

/// Values of the symbolic dimensions, with the weight of this binding in the objective.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ShapeBinding {
    /// How much this binding counts; at least 1.
    pub weight: u64,
    /// Value per symbolic variable.
    pub values: BTreeMap<String, i64>,
}

/// Why an instance can't be extracted.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    /// The module has no function `main`.
    #[error("the module has no entry function `main`")]
    NoEntry,
    /// No binding was given.
    #[error("no shape binding was given; a static model has one empty binding")]
    NoBinding,
    /// A binding that selection does not work on; canonicalisation removes them.
    #[error("binding `{binding}`: layout selection works on operators and constants, found {found}")]
    Binding {
        /// The binding.
        binding: String,
        /// What it is.
        found: String,
    },
    /// A tensor whose shape or type deduction left open.
    #[error("binding `{binding}`: shape and element type must be known for layout selection")]
    UnknownShape {
        /// The binding.
        binding: String,
    },
    /// A symbolic dimension without a value, or with one that makes an extent negative.
    #[error("tensor `{tensor}`: dimension `{dim}` has no valid value under the shape binding {binding}")]
    Unbound {
        /// The tensor.
        tensor: String,
        /// The dimension.
        dim: String,
        /// The binding.
        binding: String,
    },
    /// A kernel that the profile does not have.
    #[error("the profile has no entry for {description} (key {key})")]
    Unprofiled {
        /// What.
        description: String,
        /// Its key.
        key: String,
    },
    /// A kernel that can't be generated.
    #[error("{description}: {problem}")]
    Unit {
        /// What.
        description: String,
        /// Why.
        problem: String,
    },
    /// Costs beyond 2^64.
    #[error("the cost of `{0}` overflows")]
    Overflow(String),
    /// The instance is not valid, which is a fault of extraction.
    #[error("extraction built an invalid instance: {0}")]
    Problem(#[from] ProblemError),
}

/// What an operator of the instance stands for.
#[derive(Clone, PartialEq, Debug)]
pub enum Role {
    /// The source of a parameter.
    Parameter(ValueId),
    /// The source of a constant.
    Constant(ValueId),
    /// An operator call, with the layouts and the implementation of each configuration.
    Call {
        /// The value it binds.
        value: ValueId,
        /// Per configuration.
        configs: Vec<LayoutConfig>,
        /// Per configuration.
        implementations: Vec<String>,
    },
    /// The sink of a result.
    Result(ValueId),
}

/// An instance with the way back to the graph.
#[derive(Clone, Debug)]
pub struct Extraction {
    /// The instance.
    pub problem: Problem,
    /// Per operator of the instance.
    pub roles: Vec<Role>,
    /// Per tensor of the instance that stands for a value: the value and its layouts in order.
    pub tensors: Vec<(ValueId, Vec<Layout>)>,
    /// Operator cost per operator, configuration and binding, unweighted.
    pub operator_costs: Vec<Vec<Vec<u64>>>,
    /// Transpose cost per tensor, from, to and binding, unweighted.
    pub transpose_costs: Vec<Vec<Vec<Vec<u64>>>>,
    /// Terms per operator and configuration, summed over bindings.
    pub terms: Vec<Vec<Terms>>,
    /// The candidate policy that was used.
    pub policy: DomainPolicy,
}

/// Extracts the instance of a canonicalised module.
///
/// # Errors
/// See [`ExtractError`].
pub fn extract(
    module: &Module,
    name: &str,
    family: Option<&str>,
    pricing: &Pricing<'_>,
    bindings: &[ShapeBinding],
    policy: DomainPolicy,
) -> Result<Extraction, ExtractError> {
    if bindings.is_empty() {
        return Err(ExtractError::NoBinding);
    }
    let view = GraphView::new(module)?;
    let domains = domain::domains(&view, &pricing.target.blocks, policy);
    Builder {
        view: &view,
        domains: &domains,
        pricing,
        bindings,
        policy,
    }
    .build(name, family)
}

/// Every kernel that the profiled model needs for a module, each once, in a deterministic order.
///
/// # Errors
/// See [`ExtractError`].
pub fn unit_requests(
    module: &Module,
    pricing: &Pricing<'_>,
    bindings: &[ShapeBinding],
    policy: DomainPolicy,
) -> Result<Vec<UnitRequest>, ExtractError> {
    let view = GraphView::new(module)?;
    let domains = domain::domains(&view, &pricing.target.blocks, policy);
    let mut requests = BTreeMap::new();
    let mut add = |spec: CallSpec,
                   terms: &dyn Fn(&CallSpec, &ShapeBinding) -> Result<Terms, ExtractError>|
     -> Result<(), ExtractError> {
        for binding in bindings {
            if let Entry::Vacant(entry) = requests.entry(pricing.key(&spec, binding)?) {
                let key = entry.key().clone();
                entry.insert(UnitRequest {
                    key,
                    description: spec.describe(),
                    binding: binding.values.clone(),
                    spec: spec.clone(),
                    terms: terms(&spec, binding)?,
                });
            }
        }
        Ok(())
    };
    for call in view.calls() {
        let fused = price::is_fused(&view, call, pricing);
        for config in configs::configurations(&view, &domains, &pricing.target.blocks, call) {
            let spec = pricing.spec(&view, call, &config);
            if !fused && !spec.alias {
                let name = &view.function.values[call.value].name;
                add(spec, &|spec, binding| {
                    pricing.terms(call, spec, fused, binding, name)
                })?;
            }
        }
    }
    for (tensor, domain) in view.tensors.iter().zip(&domains) {
        if matches!(tensor.producer, Producer::Constant) {
            continue;
        }
        for from in domain {
            for to in domain {
                if !alias::conversion_is_alias(&tensor.dims, from, to) {
                    let spec = CallSpec::conversion(&view, tensor, from, to);
                    add(spec, &|_, binding| {
                        pricing.conversion_terms(tensor, from, to, binding)
                    })?;
                }
            }
        }
    }
    Ok(requests.into_values().collect())
}

/// Transpose costs of a tensor over all bindings: row = producer's layout, column = requested layout.
type WeightedMatrix = Vec<Vec<Option<u64>>>;
/// The same per binding, unweighted.
type SplitMatrix = Vec<Vec<Vec<u64>>>;

struct Builder<'a, 'm> {
    view: &'a GraphView<'m>,
    domains: &'a Domains,
    pricing: &'a Pricing<'a>,
    bindings: &'a [ShapeBinding],
    policy: DomainPolicy,
}

impl Builder<'_, '_> {
    fn build(&self, name: &str, family: Option<&str>) -> Result<Extraction, ExtractError> {
        let mut problem = ProblemBuilder::new(name, "ns");
        problem.family = family.map(str::to_owned);
        let mut out = Parts::default();
        for (index, tensor) in self.view.tensors.iter().enumerate() {
            let layouts = &self.domains[index];
            let constant = matches!(tensor.producer, Producer::Constant);
            let (weighted, per_binding) = self.transposes(index)?;
            problem.tensor(TensorSpec {
                name: tensor.name.to_owned(),
                layouts: layouts.iter().map(Layout::to_string).collect(),
                transpose: weighted,
                constant,
                bundle: false,
                transpose_terms: Vec::new(),
            });
            out.hints
                .tensors
                .push(hints::tensor(tensor, layouts, self.bindings));
            out.transpose_costs.push(per_binding);
            out.tensors.push((tensor.value, layouts.clone()));
        }
        for (index, tensor) in self.view.tensors.iter().enumerate() {
            let (inputs, configs, role, hints) = match &tensor.producer {
                Producer::Parameter => (
                    Vec::new(),
                    vec![out.free(0, self.bindings)],
                    Role::Parameter(tensor.value),
                    hints::source(),
                ),
                Producer::Constant => {
                    let configs = (0..self.domains[index].len())
                        .map(|l| out.free(l, self.bindings))
                        .collect();
                    let role = Role::Constant(tensor.value);
                    (Vec::new(), configs, role, hints::source())
                }
                Producer::Call(call) => self.call(call, index, &mut out)?,
            };
            problem.operator(OperatorSpec {
                name: tensor.name.to_owned(),
                inputs,
                output: index,
                configs,
            });
            out.finish_operator(role, hints);
        }
        for (number, &value) in self.view.results.iter().enumerate() {
            let Some(source) = self.view.position[value.index()] else {
                continue;
            };
            let sink = problem.tensor(TensorSpec {
                name: format!("result{number}"),
                layouts: vec!["abi".into()],
                transpose: vec![vec![Some(0)]],
                constant: false,
                bundle: false,
                transpose_terms: Vec::new(),
            });
            let tensor = hints::sink_tensor(&out.hints.tensors[source]);
            let hints = hints::sink(tensor.rank);
            out.hints.tensors.push(tensor);
            out.transpose_costs.push(vec![vec![vec![0; self.bindings.len()]]]);
            let config = ConfigSpec {
                inputs: vec![0],
                ..out.free(0, self.bindings)
            };
            let name = format!("result{number}");
            problem.operator(OperatorSpec {
                name,
                inputs: vec![source],
                output: sink,
                configs: vec![config],
            });
            out.finish_operator(Role::Result(value), hints);
        }
        out.hints
            .rules
            .clone_from(&self.pricing.target.layout_rules.rules);
        problem.hints = Some(out.hints);
        Ok(Extraction {
            problem: problem.build()?,
            roles: out.roles,
            tensors: out.tensors,
            operator_costs: out.operator_costs,
            transpose_costs: out.transpose_costs,
            terms: out.terms,
            policy: self.policy,
        })
    }

    fn call(
        &self,
        call: &view::Call<'_>,
        index: usize,
        out: &mut Parts,
    ) -> Result<(Vec<usize>, Vec<ConfigSpec>, Role, OperatorHints), ExtractError> {
        let position = |value: ValueId| self.view.position[value.index()];
        let inputs: Vec<usize> = call.args.iter().filter_map(|a| position(*a)).collect();
        let configs = configs::configurations(self.view, self.domains, &self.pricing.target.blocks, call);
        let fused = price::is_fused(self.view, call, self.pricing);
        let mut specs = Vec::new();
        let mut facts = Vec::new();
        for config in &configs {
            let spec = self.pricing.spec(self.view, call, config);
            let priced = self.pricing.call(self.view, call, &spec, fused, self.bindings)?;
            let number = |value: ValueId, layout: &Layout| {
                position(value)
                    .and_then(|p| self.domains[p].iter().position(|l| l == layout))
                    .unwrap_or(0)
            };
            specs.push(ConfigSpec {
                inputs: call
                    .args
                    .iter()
                    .zip(&config.args)
                    .filter(|(a, _)| position(**a).is_some())
                    .filter_map(|(a, l)| l.as_ref().map(|l| number(*a, l)))
                    .collect(),
                output: self.domains[index]
                    .iter()
                    .position(|l| *l == config.out)
                    .unwrap_or(0),
                cost: self.weighted(&priced.costs, &self.view.function.values[call.value].name)?,
                terms: Some(
                    priced
                        .terms
                        .iter()
                        .map(|(n, a)| (n.to_owned(), a as f64))
                        .collect(),
                ),
            });
            facts.push((spec.implementation, spec.alias));
            out.config(priced);
        }
        let kept: Vec<bool> = call.args.iter().map(|a| position(*a).is_some()).collect();
        let mut hints = hints::call(call, &kept);
        let tensors = &out.hints.tensors;
        let operands: Vec<&TensorHints> = inputs.iter().map(|&i| &tensors[i]).collect();
        let rules = &self.pricing.target.layout_rules;
        hints.preferred = hints::preferred(rules, &hints, &operands, &tensors[index], &specs, &facts);
        let role = Role::Call {
            value: call.value,
            configs,
            implementations: facts
                .into_iter()
                .map(|(implementation, _)| implementation)
                .collect(),
        };
        Ok((inputs, specs, role, hints))
    }

    fn transposes(&self, index: usize) -> Result<(WeightedMatrix, SplitMatrix), ExtractError> {
        let tensor = &self.view.tensors[index];
        let layouts = &self.domains[index];
        let mut weighted = vec![vec![Some(0); layouts.len()]; layouts.len()];
        let mut split = vec![vec![vec![0; self.bindings.len()]; layouts.len()]; layouts.len()];
        if matches!(tensor.producer, Producer::Constant) {
            return Ok((weighted, split));
        }
        for (i, from) in layouts.iter().enumerate() {
            for (j, to) in layouts.iter().enumerate() {
                if !alias::conversion_is_alias(&tensor.dims, from, to) {
                    let costs = self
                        .pricing
                        .conversion(self.view, tensor, from, to, self.bindings)?
                        .costs;
                    weighted[i][j] = Some(self.weighted(&costs, tensor.name)?);
                    split[i][j] = costs;
                }
            }
        }
        Ok((weighted, split))
    }

    fn weighted(&self, costs: &[u64], what: &str) -> Result<u64, ExtractError> {
        self.bindings
            .iter()
            .zip(costs)
            .try_fold(0u64, |sum, (b, c)| {
                b.weight.checked_mul(*c).and_then(|c| sum.checked_add(c))
            })
            .ok_or_else(|| ExtractError::Overflow(what.to_owned()))
    }
}

#[derive(Default)]
struct Parts {
    roles: Vec<Role>,
    tensors: Vec<(ValueId, Vec<Layout>)>,
    operator_costs: Vec<Vec<Vec<u64>>>,
    transpose_costs: Vec<Vec<Vec<Vec<u64>>>>,
    terms: Vec<Vec<Terms>>,
    pending: Vec<Priced>,
    hints: Hints,
}

impl Parts {
    /// A configuration without operands or cost.
    fn free(&mut self, output: usize, bindings: &[ShapeBinding]) -> ConfigSpec {
        self.pending.push(Priced {
            costs: vec![0; bindings.len()],
            terms: Terms::none(),
        });
        ConfigSpec {
            inputs: Vec::new(),
            output,
            cost: 0,
            terms: None,
        }
    }
    fn config(&mut self, priced: Priced) {
        self.pending.push(priced);
    }
    fn finish_operator(&mut self, role: Role, hints: OperatorHints) {
        self.hints.operators.push(hints);
        let (costs, terms) = self.pending.drain(..).map(|p| (p.costs, p.terms)).unzip();
        self.operator_costs.push(costs);
        self.terms.push(terms);
        self.roles.push(role);
    }
}

impl Extraction {
    /// Operator cost and transpose cost of an assignment under each binding, unweighted.
    pub fn cost_per_binding(
        &self,
        assignment: &[relayout_layouts::ConfigId],
        bindings: usize,
    ) -> Vec<(u64, u64)> {
        let mut sums = vec![(0u64, 0u64); bindings];
        let Ok(check) = relayout_layouts::check(&self.problem, assignment) else {
            return sums;
        };
        for (op, config) in assignment.iter().enumerate() {
            for (sum, cost) in sums.iter_mut().zip(&self.operator_costs[op][config.index()]) {
                sum.0 = sum.0.saturating_add(*cost);
            }
        }
        for c in &check.conversions {
            let costs = &self.transpose_costs[c.tensor.index()][c.from.index()][c.to.index()];
            for (sum, cost) in sums.iter_mut().zip(costs) {
                sum.1 = sum.1.saturating_add(*cost);
            }
        }
        sums
    }
}
