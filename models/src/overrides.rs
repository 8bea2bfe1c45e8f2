//! Typed overrides: the `key=value` pairs that size a zoo model.

use crate::zoo::ZooError;
use std::collections::BTreeMap;
use std::fmt;

/// The value of an override as written.
#[derive(Clone, PartialEq, Debug)]
pub enum OverrideValue {
    /// An integer.
    Int(i64),
    /// A Boolean.
    Bool(bool),
    /// Anything else.
    Text(String),
}

impl OverrideValue {
    /// Reads `true`, `false`, an integer (underscores allowed), or text.
    pub fn parse(text: &str) -> Self {
        match text {
            "true" => OverrideValue::Bool(true),
            "false" => OverrideValue::Bool(false),
            _ => match text.replace('_', "").parse() {
                Ok(value) => OverrideValue::Int(value),
                Err(_) => OverrideValue::Text(text.to_owned()),
            },
        }
    }
}

impl From<i64> for OverrideValue {
    fn from(value: i64) -> Self {
        OverrideValue::Int(value)
    }
}

impl fmt::Display for OverrideValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OverrideValue::Int(v) => write!(f, "{v}"),
            OverrideValue::Bool(v) => write!(f, "{v}"),
            OverrideValue::Text(v) => f.write_str(v),
        }
    }
}

/// Overrides by name.
pub type Overrides = BTreeMap<String, OverrideValue>;

/// What an override accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OverrideKind {
    /// An integer within the inclusive range.
    Size(i64, i64),
    /// One of these integers.
    OneOf(&'static [i64]),
}

impl fmt::Display for OverrideKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OverrideKind::Size(low, high) => write!(f, "an integer from {low} to {high}"),
            OverrideKind::OneOf(values) => {
                let list: Vec<String> = values.iter().map(i64::to_string).collect();
                write!(f, "one of {}", list.join(", "))
            }
        }
    }
}

/// One override that a zoo model takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OverrideSpec {
    /// The key.
    pub name: &'static str,
    /// What it accepts.
    pub kind: OverrideKind,
    /// The value when absent.
    pub default: i64,
    /// One line of help.
    pub help: &'static str,
}

/// A size override from 1 to `high`.
pub const fn size(name: &'static str, default: i64, high: i64, help: &'static str) -> OverrideSpec {
    OverrideSpec {
        name,
        kind: OverrideKind::Size(1, high),
        default,
        help,
    }
}

/// Overrides checked against a model's list, with defaults filled in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sizes {
    model: &'static str,
    values: BTreeMap<&'static str, i64>,
}

impl Sizes {
    /// Checks every override.
    ///
    /// # Errors
    /// For an unknown key (with the nearest valid one) or a value of the wrong type or out of range (with what is expected).
    pub fn check(model: &'static str, specs: &[OverrideSpec], given: &Overrides) -> Result<Self, ZooError> {
        for key in given.keys() {
            if !specs.iter().any(|s| s.name == key) {
                return Err(ZooError::UnknownOverride {
                    model,
                    found: key.clone(),
                    nearest: crate::spec::nearest(key, specs.iter().map(|s| s.name)),
                    known: specs.iter().map(|s| s.name).collect::<Vec<_>>().join(", "),
                });
            }
        }
        let value = |spec: &OverrideSpec| {
            let Some(found) = given.get(spec.name) else {
                return Ok((spec.name, spec.default));
            };
            let accepted = match (found, spec.kind) {
                (OverrideValue::Int(v), OverrideKind::Size(low, high)) => {
                    (low..=high).contains(v).then_some(*v)
                }
                (OverrideValue::Int(v), OverrideKind::OneOf(values)) => values.contains(v).then_some(*v),
                _ => None,
            };
            accepted
                .map(|v| (spec.name, v))
                .ok_or_else(|| ZooError::OverrideValue {
                    model,
                    key: spec.name,
                    expected: spec.kind.to_string(),
                    found: found.to_string(),
                })
        };
        Ok(Sizes {
            model,
            values: specs.iter().map(value).collect::<Result<_, _>>()?,
        })
    }
    /// The value of a listed override; 0 for a name that the list lacks.
    pub fn get(&self, name: &str) -> usize {
        let value = self.values.get(name).copied();
        debug_assert!(
            value.is_some(),
            "{}: `{name}` is not in the override list",
            self.model
        );
        value.and_then(|v| usize::try_from(v).ok()).unwrap_or(0)
    }
    /// Refuses sizes that don't divide.
    ///
    /// # Errors
    /// When `whole` is not a multiple of `part`.
    pub fn divides(&self, part: &'static str, whole: &'static str) -> Result<(), ZooError> {
        let (p, w) = (self.get(part), self.get(whole));
        if p != 0 && w.is_multiple_of(p) {
            return Ok(());
        }
        Err(ZooError::Constraint {
            model: self.model,
            problem: format!("{whole}={w} is not a multiple of {part}={p}"),
        })
    }
}
