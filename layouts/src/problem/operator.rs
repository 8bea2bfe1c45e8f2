//! Operators and their configurations, in a few flat vectors: what belongs to one lies together, and next to it what belongs to its
//! neighbour in the file.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::CostTerms;
use super::builder::OperatorSpec;
use super::fault::{Fault, ProblemError, error};
use super::names::Names;
use super::tensor::Tensors;
use crate::id::{ConfigId, LayoutId, OpId, TensorId};

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
#[derive(Clone, Copy, Debug)]
pub struct Operator<'a> {
    /// The tensors it reads, in argument order; one tensor may stand here twice.
    pub inputs: &'a [TensorId],
    /// The tensor it writes.
    pub output: TensorId,
    /// Per configuration, the layout of each input, then that of the output.
    layouts: &'a [LayoutId],
    costs: &'a [u64],
    all: &'a Operators,
    id: OpId,
}

impl<'a> Operator<'a> {
    /// Name, for people. Not necessarily unique.
    pub fn name(&self) -> &'a str {
        self.all.names.get(self.id.index())
    }

    /// Number of configurations.
    #[inline]
    pub fn num_configs(&self) -> usize {
        self.costs.len()
    }

    /// The configuration with index `c`.
    #[inline]
    pub fn config(&self, c: ConfigId) -> Config<'a> {
        let (i, n) = (c.index(), self.inputs.len());
        let layouts = &self.layouts[i * (n + 1)..][..n + 1];
        Config {
            inputs: &layouts[..n],
            output: layouts[n],
            cost: self.costs[i],
        }
    }

    /// All configurations with their indices.
    pub fn configs(self) -> impl ExactSizeIterator<Item = (ConfigId, Config<'a>)> + Clone {
        (0..self.num_configs()).map(move |c| (ConfigId(c as u32), self.config(ConfigId(c as u32))))
    }

    /// Whether both have the same configurations, in the same order.
    pub(crate) fn same_configs(&self, other: Operator<'_>) -> bool {
        self.costs == other.costs && self.layouts == other.layouts
    }

    /// What each configuration costs.
    pub fn costs(&self) -> &'a [u64] {
        self.costs
    }

    /// The terms that the cost of configuration `c` was computed from, if the problem recorded them.
    pub fn terms(&self, c: ConfigId) -> Option<&'a CostTerms> {
        self.all.terms.get(&self.id)?.get(c.index())?.as_ref()
    }

    /// Cost of its cheapest configuration; `None` when it has none.
    pub fn min_cost(&self) -> Option<u64> {
        self.costs.iter().copied().min()
    }
}

/// All operators of a problem.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Operators {
    records: Vec<Record>,
    names: Names,
    inputs: Vec<TensorId>,
    layouts: Vec<LayoutId>,
    costs: Vec<u64>,
    terms: BTreeMap<OpId, Vec<Option<CostTerms>>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Record {
    /// Where its layouts, its costs and its inputs start.
    layouts: usize,
    costs: usize,
    inputs: u32,
    arity: u32,
    configs: u32,
    output: TensorId,
}

impl Operators {
    /// The operators that the specifications describe; the tensors they name must be there.
    ///
    /// # Errors
    /// The first fault of an operator by itself.
    pub fn new(specs: Vec<OperatorSpec>, tensors: &Tensors) -> Result<Self, ProblemError> {
        let mut all = Self::default();
        for (i, spec) in specs.into_iter().enumerate() {
            all.push(i, spec, tensors)?;
        }
        Ok(all)
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    #[inline]
    pub fn get(&self, id: OpId) -> Operator<'_> {
        let r = self.records[id.index()];
        let (arity, configs) = (r.arity as usize, r.configs as usize);
        Operator {
            inputs: &self.inputs[r.inputs as usize..][..arity],
            output: r.output,
            layouts: &self.layouts[r.layouts..][..(arity + 1) * configs],
            costs: &self.costs[r.costs..][..configs],
            all: self,
            id,
        }
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = Operator<'_>> + DoubleEndedIterator + Clone {
        (0..self.records.len()).map(|i| self.get(OpId(i as u32)))
    }

    fn push(&mut self, i: usize, spec: OperatorSpec, tensors: &Tensors) -> Result<(), ProblemError> {
        let arity = spec.inputs.len();
        let too_many = |path: &str, what| error(format!("operators[{i}].{path}"), Fault::TooMany { what });
        if spec.configs.len() >= u32::MAX as usize {
            return Err(too_many("configs", "configurations"));
        }
        if self.inputs.len() + arity >= u32::MAX as usize {
            return Err(too_many("inputs", "inputs"));
        }
        // Paths are written for faults only: for a million operators they took longer than the checks.
        let layout = |path: &dyn Fn() -> String, tensor: usize, found: usize| {
            let layouts = tensors.get(TensorId::new(tensor)).layouts.len();
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
        self.names.push(&spec.name);
        self.records.push(Record {
            layouts: self.layouts.len(),
            costs: self.costs.len(),
            inputs: self.inputs.len() as u32,
            arity: arity as u32,
            configs: spec.configs.len() as u32,
            output: TensorId::new(spec.output),
        });
        self.inputs.extend(spec.inputs.iter().map(|&t| TensorId::new(t)));
        let has_terms = spec.configs.iter().any(|c| c.terms.is_some());
        let mut terms = Vec::new();
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
                self.layouts
                    .push(layout(&|| format!("{}.in[{j}]", path()), t, l)?);
            }
            self.layouts
                .push(layout(&|| format!("{}.out", path()), spec.output, config.output)?);
            self.costs.push(config.cost);
            if has_terms {
                terms.push(config.terms);
            }
            if let Some(first) = seen.insert((config.inputs, config.output), k) {
                return Err(error(path(), Fault::DuplicateConfig { first }));
            }
        }
        if has_terms {
            self.terms.insert(OpId::new(i), terms);
        }
        Ok(())
    }
}
