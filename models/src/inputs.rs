//! Data inputs of a model and how they are drawn from the seed.

use crate::model::Model;
use relayout_ir::annotation::DType;
use relayout_ir::graph::{Distribution, Generator};
use relayout_ir::sym::{SymExpr, SymVar};

/// A data input: a parameter of the entry function.
#[derive(Clone, PartialEq, Debug)]
pub struct DataInput {
    /// The name in the model's own world (for an ONNX file, the graph input's).
    pub name: String,
    /// The logical shape.
    pub dims: Vec<SymExpr>,
    /// The element type.
    pub dtype: DType,
    /// How it is drawn when nothing is given.
    pub distribution: Distribution,
}

/// A data input under a binding of the symbolic dimensions.
#[derive(Clone, PartialEq, Debug)]
pub struct InputTensor {
    /// The input's name.
    pub name: String,
    /// Extents.
    pub shape: Vec<usize>,
    /// The element type.
    pub dtype: DType,
    /// The rule that draws it.
    pub generator: Generator,
}

/// Why inputs can't be drawn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// A symbolic dimension without a value.
    #[error("input `{input}`: dimension {axis} is `{dim}`, which the binding does not determine")]
    Unbound {
        /// The input.
        input: String,
        /// The axis.
        axis: usize,
        /// The expression.
        dim: String,
    },
    /// A value outside of a dimension's declared range.
    #[error("dimension `{dim}` is {found}; expected {low} or more{}", .high.map_or(String::new(), |h| format!(", at most {h}")))]
    Range {
        /// The variable.
        dim: String,
        /// The bound value.
        found: i64,
        /// Inclusive lower end.
        low: i64,
        /// Inclusive upper end.
        high: Option<i64>,
    },
}

/// The model's inputs as drawn from the seed: shapes under the binding (a dimension that it does not bind has its default) and the
/// generator of each. The key of an input's stream is its name.
///
/// # Errors
/// When a dimension has no value, or one outside of its declared range.
pub fn draw_inputs(
    model: &Model,
    seed: u64,
    binding: &dyn Fn(&SymVar) -> Option<i64>,
) -> Result<Vec<InputTensor>, InputError> {
    let value = |var: &SymVar| binding(var).or_else(|| model.default_binding(var));
    for dim in &model.dims {
        let (low, high) = (dim.decl.low, dim.decl.high);
        let found = value(&dim.decl.var).unwrap_or(dim.default);
        if found < low || high.is_some_and(|h| found > h) {
            return Err(InputError::Range {
                dim: dim.decl.var.to_string(),
                found,
                low,
                high,
            });
        }
    }
    model
        .inputs
        .iter()
        .map(|input| {
            let extent = |(axis, dim): (usize, &SymExpr)| {
                dim.eval(&value)
                    .and_then(|v| usize::try_from(v).ok())
                    .ok_or_else(|| InputError::Unbound {
                        input: input.name.clone(),
                        axis,
                        dim: dim.to_string(),
                    })
            };
            Ok(InputTensor {
                name: input.name.clone(),
                shape: input
                    .dims
                    .iter()
                    .enumerate()
                    .map(extent)
                    .collect::<Result<_, _>>()?,
                dtype: input.dtype,
                generator: Generator {
                    seed,
                    key: input.name.clone(),
                    distribution: input.distribution,
                },
            })
        })
        .collect()
}
