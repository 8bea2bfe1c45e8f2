//! Symbolic variables of one call, and annotations matched against runtime values.

use super::error::InterpretError;
use crate::annotation::{Annotation, ShapeInfo, TensorInfo};
use crate::sym::{SymExpr, SymVar};
use crate::tensor::RefValue;
use std::collections::HashMap;

/// The values of symbolic variables in one call.
#[derive(Default)]
pub(super) struct Binding {
    values: HashMap<SymVar, i64>,
}

impl Binding {
    pub(super) fn get(&self, var: &SymVar) -> Option<i64> {
        self.values.get(var).copied()
    }
    pub(super) fn contains(&self, var: &SymVar) -> bool {
        self.values.contains_key(var)
    }
    pub(super) fn eval(&self, e: &SymExpr, place: &dyn Fn() -> String) -> Result<i64, InterpretError> {
        e.eval(&|v| self.get(v)).ok_or_else(|| {
            let problem = match e.vars().into_iter().find(|v| !self.contains(v)) {
                Some(unbound) => format!("nothing binds `{unbound}`"),
                None => "it leaves 64 bits".to_owned(),
            };
            InterpretError::Symbolic {
                place: place(),
                expr: e.to_string(),
                problem,
            }
        })
    }
    pub(super) fn extents(
        &self,
        dims: &[SymExpr],
        place: &dyn Fn() -> String,
    ) -> Result<Vec<usize>, InterpretError> {
        dims.iter()
            .map(|d| {
                let value = self.eval(d, place)?;
                usize::try_from(value).map_err(|_| InterpretError::Symbolic {
                    place: place(),
                    expr: d.to_string(),
                    problem: format!("an extent of {value}"),
                })
            })
            .collect()
    }

    /// Binds every variable that is alone in a dimension of the annotation and has no value yet.
    pub(super) fn bind(&mut self, annotation: &Annotation, value: &RefValue) {
        let mut dims = |shape: &ShapeInfo, actual: &mut dyn Iterator<Item = i64>| {
            for (dim, actual) in shape.dims().unwrap_or(&[]).iter().zip(actual) {
                if let Some(var) = dim.as_var() {
                    self.values.entry(var.clone()).or_insert(actual);
                }
            }
        };
        match (annotation, value) {
            (Annotation::Shape(shape), RefValue::Shape(actual)) => dims(shape, &mut actual.iter().copied()),
            (Annotation::Tensor(t), RefValue::Tensor(actual)) => {
                dims(&t.shape, &mut actual.shape.iter().map(|&d| d as i64));
            }
            (Annotation::Tuple(items), RefValue::Tuple(values)) => {
                items.iter().zip(values).for_each(|(a, v)| self.bind(a, v));
            }
            _ => {}
        }
    }

    /// Checks a value against an annotation whose variables are all bound.
    pub(super) fn check(
        &self,
        annotation: &Annotation,
        value: &RefValue,
        place: &dyn Fn() -> String,
    ) -> Result<(), InterpretError> {
        let mismatch = |expected: String, found: String| {
            Err(InterpretError::Mismatch {
                place: place(),
                expected,
                found,
            })
        };
        match (annotation, value) {
            (Annotation::Object, _) => Ok(()),
            (Annotation::Shape(shape), RefValue::Shape(actual)) => {
                if !self.fits(shape, actual, place)? {
                    return mismatch(
                        crate::text::print_annotation(annotation),
                        format!("a shape {actual:?}"),
                    );
                }
                Ok(())
            }
            (Annotation::Tensor(TensorInfo { shape, dtype, .. }), RefValue::Tensor(t)) => {
                let extents: Vec<i64> = t.shape.iter().map(|&d| d as i64).collect();
                if dtype.is_some_and(|d| d != t.dtype) || !self.fits(shape, &extents, place)? {
                    let expected = crate::text::print_annotation(annotation);
                    return mismatch(self.explained(expected, shape), format!("{}{extents:?}", t.dtype));
                }
                Ok(())
            }
            (Annotation::Tuple(items), RefValue::Tuple(values)) if items.len() == values.len() => items
                .iter()
                .zip(values)
                .try_for_each(|(a, v)| self.check(a, v, place)),
            (_, value) => {
                let found = match value {
                    RefValue::Tensor(t) => format!("a tensor {}{:?}", t.dtype, t.shape),
                    RefValue::Shape(s) => format!("a shape {s:?}"),
                    RefValue::Tuple(items) => format!("a tuple of {}", items.len()),
                };
                mismatch(crate::text::print_annotation(annotation), found)
            }
        }
    }

    fn fits(
        &self,
        shape: &ShapeInfo,
        actual: &[i64],
        place: &dyn Fn() -> String,
    ) -> Result<bool, InterpretError> {
        match shape {
            ShapeInfo::Unknown => Ok(true),
            ShapeInfo::Rank(rank) => Ok(*rank == actual.len()),
            ShapeInfo::Known(dims) if dims.len() != actual.len() => Ok(false),
            ShapeInfo::Known(dims) => {
                for (dim, actual) in dims.iter().zip(actual) {
                    if self.eval(dim, place)? != *actual {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    /// Adds the values of the variables to an expectation: `f32[n, 4] where n = 3`.
    fn explained(&self, expected: String, shape: &ShapeInfo) -> String {
        let mut vars = std::collections::BTreeSet::new();
        shape
            .dims()
            .unwrap_or(&[])
            .iter()
            .for_each(|d| d.collect_vars(&mut vars));
        let known: Vec<String> = vars
            .iter()
            .filter_map(|v| Some(format!("{v} = {}", self.get(v)?)))
            .collect();
        if known.is_empty() {
            expected
        } else {
            format!("{expected} where {}", known.join(", "))
        }
    }
}
