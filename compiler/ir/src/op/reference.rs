//! What the operators' reference semantics share: checked operands, broadcasting, rounding of results.

use super::check::{OpName, operand_error, unsupported};
use super::{OpError, Operator};
use crate::annotation::{Annotation, DType};
use crate::graph::{Attr, Attrs};
use crate::sym::SymExpr;
use crate::tensor::{RefValue, Tensor, TensorData, for_each_index, strides};
use std::sync::Arc;

/// A call whose operands have been accepted by deduction on their actual shapes and types.
pub(super) struct Checked<'a> {
    op: OpName,
    /// The operands.
    pub(super) args: Vec<&'a Tensor>,
    /// The attributes, shapes evaluated to constants.
    pub(super) attrs: Attrs,
    /// Shapes and types of the results: one, or those of the tuple.
    pub(super) outs: Vec<(Vec<usize>, DType)>,
}

/// Checks a call by the operator's own deduction, with every dimension a number.
pub(super) fn checked<'a>(
    op: &dyn Operator,
    args: &'a [RefValue],
    attrs: &Attrs,
    eval: &dyn Fn(&SymExpr) -> Option<i64>,
) -> Result<Checked<'a>, OpError> {
    let name = op.name();
    let mut tensors = Vec::new();
    for (i, arg) in args.iter().enumerate() {
        match arg {
            RefValue::Tensor(t) => tensors.push(t.as_ref()),
            RefValue::Shape(_) => return Err(operand_error(name, i, "a tensor", "a shape")),
            RefValue::Tuple(_) => return Err(operand_error(name, i, "a tensor", "a tuple")),
        }
    }
    let mut concrete = attrs.clone();
    for (key, attr) in &mut concrete {
        if let Attr::Shape(dims) = attr {
            for d in dims {
                let value = eval(d).ok_or_else(|| {
                    super::check::attribute_error(name, key, format!("{d} has no value under this binding"))
                })?;
                *d = SymExpr::constant(value);
            }
        }
    }
    let annotations: Vec<Annotation> = tensors
        .iter()
        .map(|t| Annotation::tensor(t.shape.iter().map(|d| SymExpr::from(*d)).collect(), t.dtype))
        .collect();
    let results = match op.infer(&annotations.iter().collect::<Vec<_>>(), &concrete)? {
        Annotation::Tuple(items) => items,
        one => vec![one],
    };
    let outs = results
        .iter()
        .map(|r| concrete_result(name, r))
        .collect::<Result<_, _>>()?;
    Ok(Checked {
        op: name,
        args: tensors,
        attrs: concrete,
        outs,
    })
}

fn concrete_result(op: OpName, result: &Annotation) -> Result<(Vec<usize>, DType), OpError> {
    let info = result.as_tensor();
    let dtype = info.and_then(|t| t.dtype);
    let dims = info.and_then(|t| t.dims()).and_then(|dims| {
        let extent = |d: &SymExpr| d.as_const().and_then(|d| usize::try_from(d).ok());
        dims.iter().map(extent).collect::<Option<Vec<_>>>()
    });
    match (dims, dtype) {
        (Some(dims), Some(dtype)) => Ok((dims, dtype)),
        _ => Err(unsupported(
            op,
            "the shape of the result is not a list of extents of at least 0",
        )),
    }
}

impl Checked<'_> {
    /// The shape of the (first) result.
    pub(super) fn shape(&self) -> &[usize] {
        self.outs.first().map_or(&[], |o| &o.0)
    }
    /// The element type of the (first) result.
    pub(super) fn dtype(&self) -> DType {
        self.outs.first().map_or(DType::F32, |o| o.1)
    }
    /// The result, converted to its element type.
    pub(super) fn finish(&self, data: TensorData) -> Result<RefValue, OpError> {
        let tensor = Tensor::new(self.shape().to_vec(), self.dtype(), data);
        tensor.map(value).map_err(|e| unsupported(self.op, e.to_string()))
    }
    /// The result, from floats.
    pub(super) fn floats(&self, data: Vec<f32>) -> Result<RefValue, OpError> {
        self.finish(TensorData::Float(data))
    }
    /// The result, from integers.
    pub(super) fn ints(&self, data: Vec<i64>) -> Result<RefValue, OpError> {
        self.finish(TensorData::Int(data))
    }
    /// The elements of a floating-point operand.
    pub(super) fn float_arg(&self, i: usize) -> Result<&[f32], OpError> {
        let found = self.args.get(i).and_then(|t| t.floats());
        found.ok_or_else(|| operand_error(self.op, i, "a floating-point tensor", "another"))
    }
    /// The elements of an integer or Boolean operand.
    pub(super) fn int_arg(&self, i: usize) -> Result<&[i64], OpError> {
        let found = self.args.get(i).and_then(|t| t.ints());
        found.ok_or_else(|| operand_error(self.op, i, "an integer or bool tensor", "another"))
    }
}

/// A tensor as a value of the interpreters.
pub(super) fn value(tensor: Tensor) -> RefValue {
    RefValue::Tensor(Arc::new(tensor))
}

/// The stride of each result axis in an operand that is broadcast to it: 0 where it repeats.
pub(super) fn broadcast_strides(operand: &[usize], result: &[usize]) -> Vec<usize> {
    let missing = result.len().saturating_sub(operand.len());
    let own = strides(operand);
    let stride = |i: usize| match i.checked_sub(missing) {
        Some(a) if operand[a] != 1 => own[a],
        _ => 0,
    };
    (0..result.len()).map(stride).collect()
}

/// Calls `visit` once for each row (innermost axis) of the result with the operands' flat positions at its start; gives the
/// length of a row. A scalar has one row of one element.
pub(super) fn for_each_row(shape: &[usize], strides: &[Vec<usize>], mut visit: impl FnMut(&[usize], usize)) {
    let (outer, length) = match shape.split_last() {
        Some((last, outer)) => (outer, *last),
        None => (shape, 1),
    };
    let mut starts = vec![0; strides.len()];
    for_each_index(outer, |index| {
        for (start, s) in starts.iter_mut().zip(strides) {
            *start = index.iter().zip(s).map(|(i, s)| i * s).sum();
        }
        visit(&starts, length);
    });
}

/// Applies a function of two elements with broadcasting.
pub(super) fn zip_broadcast<T: Copy, R>(
    shape: &[usize],
    a: (&[T], &[usize]),
    b: (&[T], &[usize]),
    f: impl Fn(T, T) -> R,
) -> Vec<R> {
    if a.1 == shape && b.1 == shape {
        return a.0.iter().zip(b.0).map(|(x, y)| f(*x, *y)).collect();
    }
    let strides = [broadcast_strides(a.1, shape), broadcast_strides(b.1, shape)];
    let step = |s: &[usize]| s.last().copied().unwrap_or(0);
    let (step_a, step_b) = (step(&strides[0]), step(&strides[1]));
    let mut out = Vec::with_capacity(shape.iter().product());
    for_each_row(shape, &strides, |starts, length| {
        out.extend((0..length).map(|i| f(a.0[starts[0] + i * step_a], b.0[starts[1] + i * step_b])));
    });
    out
}

/// (outer, extent, inner) of an axis: the tensor as a three-dimensional one.
pub(super) fn around_axis(shape: &[usize], axis: usize) -> (usize, usize, usize) {
    (
        shape[..axis].iter().product(),
        shape[axis],
        shape[axis + 1..].iter().product(),
    )
}
