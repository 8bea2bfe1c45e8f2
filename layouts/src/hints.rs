//! Hints: what an instance tells the rule-based strategies instead of costs.
//!
//! Per layout the logical dimension that it singles out (the partition dimension, the contiguous dimension), per operator
//! its kind, which dimensions of its operands and its result are one logical dimension, and which configurations its kind is
//! known to want; and the domain rules of the target. `layouts/README.md` has the schema as a table.
//!
//! [`crate::ProblemBuilder::build`] validates them; every fault has the path it would have in the file.

use serde::{Deserialize, Serialize};

use crate::problem::{Fault, Operator, Operators, ProblemError, Tensor, Tensors};

/// The hints of one instance: the value of its `hints` key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hints {
    /// One per tensor, in file order.
    pub tensors: Vec<TensorHints>,
    /// One per operator, in file order.
    pub operators: Vec<OperatorHints>,
    /// Domain rules; an earlier one outranks a later one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
}

/// What is known about a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorHints {
    /// Number of its logical dimensions.
    pub rank: usize,
    /// How much there is to move when it is converted, in a unit common to the instance's tensors. A fact about the
    /// shape, not a price: the same for every pair of layouts.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub size: u64,
    /// One per layout, in the tensor's order.
    pub layouts: Vec<LayoutHints>,
}

fn one() -> u64 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature serde asks for
fn is_one(size: &u64) -> bool {
    *size == 1
}

/// What is known about a layout of a tensor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutHints {
    /// The logical dimension that the layout singles out, numbered within the tensor; none for bundles and scalars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dim: Option<usize>,
    /// A word of the target's that tells layouts apart which single out one dimension, like `block16`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub form: String,
    /// An earlier layout of the tensor that is the same bytes, so that converting between the two does nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as: Option<usize>,
}

/// What is known about an operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorHints {
    /// What it computes, in the target's words; rules name kinds.
    pub kind: String,
    /// Which dimensions around it are one logical dimension; absent when nothing is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dims: Option<DimMap>,
    /// Labels of the dimensions along which it combines elements: contracted, reduced, normalised, under a window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub along: Vec<u32>,
    /// Configurations that are known to suit it, best first; empty when it is indifferent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preferred: Vec<usize>,
}

/// The map between the dimensions of an operator's operands and result: equal labels are one logical dimension. Labels mean
/// nothing outside the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DimMap {
    /// Per input, a label per dimension; `null` for a dimension that corresponds to none.
    #[serde(rename = "in")]
    pub inputs: Vec<Vec<Option<u32>>>,
    /// The same for the output.
    pub out: Vec<Option<u32>>,
}

/// A domain rule: which configurations of some kinds of operators to take, or to keep off, where there is a choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// For people.
    #[serde(default)]
    pub name: String,
    /// What the rule says about the configurations that match.
    pub verdict: Verdict,
    /// The kinds of operators it is about.
    pub kinds: Vec<String>,
    /// What a configuration must look like to match: all of these.
    pub when: Vec<Condition>,
}

/// What a rule says about the configurations that match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Take one of them if there is one.
    Prefer,
    /// Take another if there is one.
    Avoid,
}

/// A condition on the layout that a configuration has at one operand or at the result. What is absent is not asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// The operand looked at; the result when absent. An operator without such an operand does not match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<usize>,
    /// The singled-out dimension; negative numbers count from the last dimension, −1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dim: Option<i64>,
    /// Whether the singled-out dimension is one that the operator works along.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub along: Option<bool>,
    /// The layout's form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<String>,
}

impl Condition {
    /// Whether the condition asks anything.
    pub fn asks_nothing(&self) -> bool {
        self.dim.is_none() && self.along.is_none() && self.form.is_none()
    }

    /// Whether the condition holds where `operator` has a tensor in one of its layouts, at the place the condition names.
    pub fn holds(&self, operator: &OperatorHints, tensor: &TensorHints, layout: &LayoutHints) -> bool {
        let from_end = |d: i64| usize::try_from(if d < 0 { d + tensor.rank as i64 } else { d }).ok();
        let dim = self
            .dim
            .is_none_or(|d| layout.dim.is_some() && layout.dim == from_end(d));
        let along = self
            .along
            .is_none_or(|a| a == operator.works_along(self.input, layout.dim));
        dim && along && self.form.as_ref().is_none_or(|f| *f == layout.form)
    }
}

impl OperatorHints {
    /// Whether `dim` of operand `input` (of the result when `None`) is one that the operator works along.
    pub fn works_along(&self, input: Option<usize>, dim: Option<usize>) -> bool {
        self.label(input, dim).is_some_and(|l| self.along.contains(&l))
    }

    /// The label of `dim` of operand `input` (of the result when `None`).
    pub fn label(&self, input: Option<usize>, dim: Option<usize>) -> Option<u32> {
        let map = self.dims.as_ref()?;
        let labels = match input {
            Some(i) => map.inputs.get(i)?,
            None => &map.out,
        };
        labels.get(dim?).copied().flatten()
    }
}

/// The ways in which hints can be invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // each message says what the fields are
pub enum HintFault {
    #[error("found {found} entries, expected {expected} (one per {what})")]
    Count {
        found: usize,
        expected: usize,
        what: &'static str,
    },
    #[error("no dimension has index {found}; the tensor has {rank}")]
    NoSuchDimension { found: usize, rank: usize },
    #[error("expected an earlier layout of the tensor, found {found} in layout {layout}")]
    NotEarlier { found: usize, layout: usize },
    #[error("label {label} stands twice in one operand")]
    RepeatedLabel { label: u32 },
    #[error("no dimension of this operator has label {label}")]
    NoSuchLabel { label: u32 },
    #[error("no configuration has index {found}; the operator has {configs}")]
    NoSuchConfig { found: usize, configs: usize },
    #[error("configuration {found} is already listed")]
    RepeatedConfig { found: usize },
    #[error("a rule needs at least one {what}")]
    EmptyRule { what: &'static str },
    #[error("a condition needs at least one of `dim`, `along`, `form`")]
    EmptyCondition,
}

impl Hints {
    /// Checks the hints against the tensors and operators they are about.
    ///
    /// # Errors
    /// The first fault, with its path.
    pub(crate) fn validate(&self, tensors: &Tensors, operators: &Operators) -> Result<(), ProblemError> {
        count("hints.tensors", self.tensors.len(), tensors.len(), "tensor")?;
        count(
            "hints.operators",
            self.operators.len(),
            operators.len(),
            "operator",
        )?;
        for (i, (hints, tensor)) in self.tensors.iter().zip(tensors.iter()).enumerate() {
            hints.validate(&format!("hints.tensors[{i}]"), tensor)?;
        }
        for (i, (hints, op)) in self.operators.iter().zip(operators.iter()).enumerate() {
            self.validate_operator(&format!("hints.operators[{i}]"), hints, op)?;
        }
        for (i, rule) in self.rules.iter().enumerate() {
            rule.validate(&format!("hints.rules[{i}]"))?;
        }
        Ok(())
    }

    fn validate_operator(
        &self,
        path: &str,
        hints: &OperatorHints,
        op: Operator<'_>,
    ) -> Result<(), ProblemError> {
        if let Some(map) = &hints.dims {
            let inputs = format!("{path}.dims.in");
            count(&inputs, map.inputs.len(), op.inputs.len(), "input")?;
            for (k, (labels, t)) in map.inputs.iter().zip(op.inputs).enumerate() {
                check_labels(&format!("{inputs}[{k}]"), labels, self.tensors[t.index()].rank)?;
            }
            let rank = self.tensors[op.output.index()].rank;
            check_labels(&format!("{path}.dims.out"), &map.out, rank)?;
        }
        for (k, &label) in hints.along.iter().enumerate() {
            let known = hints
                .dims
                .as_ref()
                .is_some_and(|m| m.inputs.iter().chain([&m.out]).any(|l| l.contains(&Some(label))));
            if !known {
                return Err(error(
                    format!("{path}.along[{k}]"),
                    HintFault::NoSuchLabel { label },
                ));
            }
        }
        for (k, &found) in hints.preferred.iter().enumerate() {
            let path = || format!("{path}.preferred[{k}]");
            let configs = op.num_configs();
            if found >= configs {
                return Err(error(path(), HintFault::NoSuchConfig { found, configs }));
            }
            if hints.preferred[..k].contains(&found) {
                return Err(error(path(), HintFault::RepeatedConfig { found }));
            }
        }
        Ok(())
    }
}

impl TensorHints {
    fn validate(&self, path: &str, tensor: Tensor<'_>) -> Result<(), ProblemError> {
        let layouts = format!("{path}.layouts");
        count(&layouts, self.layouts.len(), tensor.layouts.len(), "layout")?;
        for (k, layout) in self.layouts.iter().enumerate() {
            if let Some(found) = layout.dim.filter(|&d| d >= self.rank) {
                let rank = self.rank;
                return Err(error(
                    format!("{layouts}[{k}].dim"),
                    HintFault::NoSuchDimension { found, rank },
                ));
            }
            if let Some(found) = layout.same_as.filter(|&s| s >= k) {
                return Err(error(
                    format!("{layouts}[{k}].same_as"),
                    HintFault::NotEarlier { found, layout: k },
                ));
            }
        }
        Ok(())
    }
}

impl Rule {
    /// Checks the rule by itself; `path` is where it stands.
    ///
    /// # Errors
    /// The first fault, with its path.
    pub fn validate(&self, path: &str) -> Result<(), ProblemError> {
        if self.kinds.is_empty() {
            return Err(error(
                format!("{path}.kinds"),
                HintFault::EmptyRule { what: "kind" },
            ));
        }
        if self.when.is_empty() {
            return Err(error(
                format!("{path}.when"),
                HintFault::EmptyRule { what: "condition" },
            ));
        }
        match self.when.iter().position(Condition::asks_nothing) {
            Some(k) => Err(error(format!("{path}.when[{k}]"), HintFault::EmptyCondition)),
            None => Ok(()),
        }
    }
}

fn check_labels(path: &str, labels: &[Option<u32>], rank: usize) -> Result<(), ProblemError> {
    count(path, labels.len(), rank, "dimension")?;
    for (k, label) in labels.iter().enumerate() {
        if let Some(label) = label.filter(|_| labels[..k].contains(label)) {
            return Err(error(format!("{path}[{k}]"), HintFault::RepeatedLabel { label }));
        }
    }
    Ok(())
}

fn count(path: &str, found: usize, expected: usize, what: &'static str) -> Result<(), ProblemError> {
    if found == expected {
        return Ok(());
    }
    let fault = HintFault::Count {
        found,
        expected,
        what,
    };
    Err(error(path.to_owned(), fault))
}

fn error(path: String, fault: HintFault) -> ProblemError {
    ProblemError {
        path,
        fault: Fault::Hints(fault),
    }
}
