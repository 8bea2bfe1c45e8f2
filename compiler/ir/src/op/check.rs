//! Checks shared by the operators' shape deductions: operand kinds, attribute types, axes, broadcasting.

use super::OpError;
use crate::annotation::{Annotation, DType, ShapeInfo, TensorInfo};
use crate::graph::{Attr, Attrs};
use crate::layout::Layout;
use crate::sym::SymExpr;
use std::ops::RangeInclusive;

/// The name of the operator that is being checked.
pub(super) type OpName = &'static str;

/// Element types that an operand may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Accepts {
    /// Floating point.
    Float,
    /// Floating point or integer.
    Number,
    /// Integer.
    Integer,
    /// Boolean.
    Bool,
    /// Anything.
    Any,
}

impl Accepts {
    fn admits(self, dtype: DType) -> bool {
        match self {
            Accepts::Float => dtype.is_float(),
            Accepts::Number => dtype != DType::Bool,
            Accepts::Integer => dtype != DType::Bool && !dtype.is_float(),
            Accepts::Bool => dtype == DType::Bool,
            Accepts::Any => true,
        }
    }
    fn words(self) -> &'static str {
        match self {
            Accepts::Float => "a floating-point tensor",
            Accepts::Number => "a floating-point or integer tensor",
            Accepts::Integer => "an integer tensor",
            Accepts::Bool => "a bool tensor",
            Accepts::Any => "a tensor",
        }
    }
    /// Refuses an element type that the operator does not take.
    pub(super) fn check(self, op: OpName, operand: usize, dtype: Option<DType>) -> Result<(), OpError> {
        match dtype {
            Some(d) if !self.admits(d) => Err(operand_error(op, operand, self.words(), d.name())),
            _ => Ok(()),
        }
    }
}

/// An operand that is not acceptable.
pub(super) fn operand_error(
    op: OpName,
    operand: usize,
    expected: impl Into<String>,
    found: impl Into<String>,
) -> OpError {
    OpError::Operand {
        op,
        operand,
        expected: expected.into(),
        found: found.into(),
    }
}

/// An attribute that is not acceptable.
pub(super) fn attribute_error(op: OpName, attr: &str, problem: impl Into<String>) -> OpError {
    OpError::Attribute {
        op,
        attr: attr.to_owned(),
        problem: problem.into(),
    }
}

/// Something that can't be done.
pub(super) fn unsupported(op: OpName, problem: impl Into<String>) -> OpError {
    OpError::Unsupported {
        op,
        problem: problem.into(),
    }
}

/// Checks the number of operands.
pub(super) fn arity(op: OpName, found: usize, expected: RangeInclusive<usize>) -> Result<(), OpError> {
    if expected.contains(&found) {
        return Ok(());
    }
    let words = match (*expected.start(), *expected.end()) {
        (a, b) if a == b => a.to_string(),
        (a, usize::MAX) => format!("at least {a}"),
        (a, b) => format!("{a} to {b}"),
    };
    Err(OpError::Arity {
        op,
        expected: words,
        found,
    })
}

/// The operand as a tensor. `Object` is a tensor of which nothing is known.
pub(super) fn tensor(
    op: OpName,
    args: &[&Annotation],
    operand: usize,
    accepts: Accepts,
) -> Result<TensorInfo, OpError> {
    let kind = match args.get(operand) {
        Some(Annotation::Tensor(t)) => {
            accepts.check(op, operand, t.dtype)?;
            return Ok(t.clone());
        }
        Some(Annotation::Object) => {
            return Ok(TensorInfo {
                shape: ShapeInfo::Unknown,
                dtype: None,
                layout: None,
            });
        }
        Some(Annotation::Shape(_)) => "a shape",
        Some(Annotation::Tuple(_)) => "a tuple",
        Some(Annotation::Callable(..)) => "a function",
        None => "nothing",
    };
    Err(operand_error(op, operand, accepts.words(), kind))
}

/// A tensor annotation without a layout.
pub(super) fn result(shape: ShapeInfo, dtype: Option<DType>) -> Annotation {
    Annotation::Tensor(TensorInfo {
        shape,
        dtype,
        layout: None,
    })
}

/// The common element type of the operands, as far as known.
pub(super) fn same_dtype(op: OpName, tensors: &[(usize, &TensorInfo)]) -> Result<Option<DType>, OpError> {
    let mut common = None;
    for (operand, t) in tensors {
        match (common, t.dtype) {
            (Some(want), Some(found)) if want != found => {
                return Err(operand_error(
                    op,
                    *operand,
                    format!("a tensor of {want}"),
                    found.name(),
                ));
            }
            (None, Some(found)) => common = Some(found),
            _ => {}
        }
    }
    Ok(common)
}

/// Checks a known rank.
pub(super) fn rank_is(
    op: OpName,
    operand: usize,
    shape: &ShapeInfo,
    expected: RangeInclusive<usize>,
) -> Result<(), OpError> {
    match shape.rank() {
        Some(r) if !expected.contains(&r) => {
            let words = match (*expected.start(), *expected.end()) {
                (a, b) if a == b => format!("rank {a}"),
                (a, _) => format!("rank at least {a}"),
            };
            Err(operand_error(op, operand, words, format!("rank {r}")))
        }
        _ => Ok(()),
    }
}

/// Whether two dimensions differ for every binding of the variables.
pub(super) fn differ(a: &SymExpr, b: &SymExpr) -> bool {
    (a.clone() - b.clone()).as_const().is_some_and(|c| c != 0)
}

/// Refuses an operand's dimension that is provably not the expected one.
pub(super) fn dim_is(
    op: OpName,
    operand: usize,
    axis: usize,
    found: &SymExpr,
    expected: &SymExpr,
) -> Result<(), OpError> {
    if differ(found, expected) {
        return Err(operand_error(
            op,
            operand,
            format!("extent {expected} along axis {axis}"),
            found.to_string(),
        ));
    }
    Ok(())
}

/// Broadcasts shapes aligned to the right, as NumPy does. Where dimensions can be neither proved equal nor 1 nor proved
/// in conflict, only the rank is known.
pub(super) fn broadcast(op: OpName, shapes: &[(usize, &ShapeInfo)]) -> Result<ShapeInfo, OpError> {
    let Some(rank) = shapes.iter().try_fold(0, |r, (_, s)| Some(s.rank()?.max(r))) else {
        return Ok(ShapeInfo::Unknown);
    };
    let mut dims = vec![SymExpr::constant(1); rank];
    let mut exact = true;
    for (operand, shape) in shapes {
        let Some(own) = shape.dims() else {
            exact = false;
            continue;
        };
        for (i, d) in own.iter().enumerate() {
            let slot = &mut dims[rank - own.len() + i];
            if slot == d || d.is_const(1) {
                continue;
            }
            if slot.is_const(1) {
                *slot = d.clone();
            } else if slot.as_const().is_some() && d.as_const().is_some() {
                let expected = format!("extent {slot} or 1 along axis {i}");
                return Err(operand_error(op, *operand, expected, d.to_string()));
            } else {
                exact = false;
            }
        }
    }
    Ok(if exact {
        ShapeInfo::Known(dims)
    } else {
        ShapeInfo::Rank(rank)
    })
}

/// Reads an operator's attributes.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    op: OpName,
    attrs: &'a Attrs,
}

impl<'a> Reader<'a> {
    /// A reader that has refused attributes which the operator does not take.
    pub(super) fn new(op: OpName, attrs: &'a Attrs, takes: &[&str]) -> Result<Self, OpError> {
        for name in attrs.keys() {
            if !takes.contains(&name.as_str()) {
                let list: Vec<_> = takes.iter().map(|t| format!("`{t}`")).collect();
                let problem = match list.is_empty() {
                    true => "unknown; this operator takes none".to_owned(),
                    false => format!("unknown; this operator takes {}", list.join(", ")),
                };
                return Err(attribute_error(op, name, problem));
            }
        }
        Ok(Reader { op, attrs })
    }
    fn find<T>(
        &self,
        name: &str,
        kind: &str,
        pick: impl FnOnce(&'a Attr) -> Option<T>,
    ) -> Result<Option<T>, OpError> {
        match self.attrs.get(name) {
            None => Ok(None),
            Some(attr) => match pick(attr) {
                Some(value) => Ok(Some(value)),
                None => Err(attribute_error(
                    self.op,
                    name,
                    format!("expected {kind}, found {attr:?}"),
                )),
            },
        }
    }
    fn need<T>(&self, name: &str, kind: &str, found: Option<T>) -> Result<T, OpError> {
        found.ok_or_else(|| attribute_error(self.op, name, format!("missing; expected {kind}")))
    }
    /// An integer, or the default.
    pub(super) fn int_or(&self, name: &str, default: i64) -> Result<i64, OpError> {
        let found = self.find(name, "an integer", |a| match a {
            Attr::Int(v) => Some(*v),
            _ => None,
        })?;
        Ok(found.unwrap_or(default))
    }
    /// An integer.
    pub(super) fn int(&self, name: &str) -> Result<i64, OpError> {
        let found = self.find(name, "an integer", |a| match a {
            Attr::Int(v) => Some(*v),
            _ => None,
        })?;
        self.need(name, "an integer", found)
    }
    /// Exactly `N` integers of at least `low`, or the default.
    pub(super) fn ints_or<const N: usize>(
        &self,
        name: &str,
        low: i64,
        default: [i64; N],
    ) -> Result<[i64; N], OpError> {
        match self.attrs.get(name) {
            None => Ok(default),
            Some(_) => self.ints_n(name, low),
        }
    }
    /// Exactly `N` integers of at least `low`.
    pub(super) fn ints_n<const N: usize>(&self, name: &str, low: i64) -> Result<[i64; N], OpError> {
        let all = self.ints(name)?;
        let fixed = <[i64; N]>::try_from(all).ok();
        fixed.filter(|v| v.iter().all(|x| *x >= low)).ok_or_else(|| {
            let problem = format!("expected {N} integers of at least {low}, found {all:?}");
            attribute_error(self.op, name, problem)
        })
    }
    /// Integers.
    pub(super) fn ints(&self, name: &str) -> Result<&'a [i64], OpError> {
        let found = self.find(name, "integers", |a| match a {
            Attr::Ints(v) => Some(v.as_slice()),
            _ => None,
        })?;
        self.need(name, "integers", found)
    }
    /// A number.
    pub(super) fn float(&self, name: &str) -> Result<f64, OpError> {
        let found = self.find(name, "a number", |a| match a {
            Attr::Float(v) => Some(*v),
            _ => None,
        })?;
        self.need(name, "a number", found)
    }
    /// A truth value, or false.
    pub(super) fn flag(&self, name: &str) -> Result<bool, OpError> {
        let found = self.find(name, "true or false", |a| match a {
            Attr::Bool(v) => Some(*v),
            _ => None,
        })?;
        Ok(found.unwrap_or(false))
    }
    /// One of some words; the first is the default.
    pub(super) fn word(&self, name: &str, words: &[&'static str]) -> Result<&'static str, OpError> {
        let kind = format!("one of {}", words.join(", "));
        let found = self.find(name, &kind, |a| match a {
            Attr::Str(v) => words.iter().find(|w| *w == v).copied(),
            _ => None,
        })?;
        Ok(found.unwrap_or(words[0]))
    }
    /// An element type.
    pub(super) fn dtype(&self, name: &str) -> Result<DType, OpError> {
        let found = self.find(name, "an element type", |a| match a {
            Attr::DType(v) => Some(*v),
            _ => None,
        })?;
        self.need(name, "an element type", found)
    }
    /// Dimensions.
    pub(super) fn shape(&self, name: &str) -> Result<&'a [SymExpr], OpError> {
        let found = self.find(name, "a shape", |a| match a {
            Attr::Shape(v) => Some(v.as_slice()),
            _ => None,
        })?;
        self.need(name, "a shape", found)
    }
    /// One dimension.
    pub(super) fn dim(&self, name: &str) -> Result<&'a SymExpr, OpError> {
        match self.shape(name)? {
            [one] => Ok(one),
            more => Err(attribute_error(
                self.op,
                name,
                format!("expected one dimension, found {}", more.len()),
            )),
        }
    }
    /// A layout.
    pub(super) fn layout(&self, name: &str) -> Result<&'a Layout, OpError> {
        let found = self.find(name, "a layout", |a| match a {
            Attr::Layout(v) => Some(v),
            _ => None,
        })?;
        self.need(name, "a layout", found)
    }
    /// Checks one axis against a rank, when that is known.
    pub(super) fn check_axis(&self, name: &str, axis: i64, rank: Option<usize>) -> Result<usize, OpError> {
        let index = usize::try_from(axis).ok().filter(|i| rank.is_none_or(|r| *i < r));
        index.ok_or_else(|| {
            let range = rank.map_or("0 or more".to_owned(), |r| format!("in 0..{r}"));
            attribute_error(self.op, name, format!("expected an axis {range}, found {axis}"))
        })
    }
    /// One axis.
    pub(super) fn axis(&self, name: &str, rank: Option<usize>) -> Result<usize, OpError> {
        self.check_axis(name, self.int(name)?, rank)
    }
    /// Distinct axes, in ascending order.
    pub(super) fn axes(&self, name: &str, rank: Option<usize>) -> Result<Vec<usize>, OpError> {
        let mut axes = Vec::new();
        for axis in self.ints(name)? {
            axes.push(self.check_axis(name, *axis, rank)?);
        }
        axes.sort_unstable();
        if axes.windows(2).any(|w| w[0] == w[1]) {
            return Err(attribute_error(self.op, name, "an axis is named twice"));
        }
        Ok(axes)
    }
}

/// Axes as the layout rules name them.
pub(super) fn as_u8(axes: &[usize]) -> Vec<u8> {
    axes.iter().filter_map(|a| u8::try_from(*a).ok()).collect()
}
