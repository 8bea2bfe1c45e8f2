//! Operators without operands: `arange`, `full`, `tril_mask`.

use super::check::{Reader, arity, attribute_error, result};
use super::lower::Lowering;
use super::reference::{checked, value};
use super::scalar::{convert, index_le};
use super::{LayoutRule, LegaliseCall, OpError, Operator};
use crate::annotation::{Annotation, DType, ShapeInfo};
use crate::graph::Attrs;
use crate::program::{Scalar, TensorProgram};
use crate::sym::SymExpr;
use crate::tensor::{RefValue, Tensor};

/// `start, start + 1, …`.
pub(super) struct Arange;
/// One value everywhere.
pub(super) struct Full;
/// True on and below a diagonal: element (i, j) is j ≤ i + offset.
pub(super) struct TrilMask;

impl Arange {
    fn attributes(attrs: &Attrs) -> Result<(&SymExpr, i64, DType), OpError> {
        let reader = Reader::new("arange", attrs, &["n", "start", "dtype"])?;
        Ok((
            reader.dim("n")?,
            reader.int_or("start", 0)?,
            reader.dtype("dtype")?,
        ))
    }
}

impl Operator for Arange {
    fn name(&self) -> &'static str {
        "arange"
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name(), args.len(), 0..=0)?;
        let (n, _, dtype) = Self::attributes(attrs)?;
        if dtype == DType::Bool {
            return Err(attribute_error(
                self.name(),
                "dtype",
                "expected a number type, found bool",
            ));
        }
        Ok(result(ShapeInfo::Known(vec![n.clone()]), Some(dtype)))
    }
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        let (_, start, _) = Self::attributes(&call.attrs)?;
        call.ints(
            (0..call.shape()[0])
                .map(|i| start.wrapping_add(i as i64))
                .collect(),
        )
    }
    fn legalise(&self, call: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        let (_, start, _) = Self::attributes(call.attrs)?;
        Lowering::new(self.name(), call, 0..=0)?.map(|l, _, index| {
            let sum = index
                .iter()
                .fold(SymExpr::constant(start), |acc, i| acc + i.clone());
            Ok(convert(Scalar::Index(sum), DType::I64, l.out.dtype))
        })
    }
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::AbiOnly
    }
}

impl Full {
    fn attributes(attrs: &Attrs) -> Result<(&[SymExpr], f64, DType), OpError> {
        let reader = Reader::new("full", attrs, &["shape", "value", "dtype"])?;
        Ok((
            reader.shape("shape")?,
            reader.float("value")?,
            reader.dtype("dtype")?,
        ))
    }
}

impl Operator for Full {
    fn name(&self) -> &'static str {
        "full"
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name(), args.len(), 0..=0)?;
        let (shape, _, dtype) = Self::attributes(attrs)?;
        Ok(result(ShapeInfo::Known(shape.to_vec()), Some(dtype)))
    }
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        let (_, fill, dtype) = Self::attributes(&call.attrs)?;
        Ok(value(Tensor::full(call.shape().to_vec(), dtype, fill)))
    }
    fn legalise(&self, call: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        let (_, fill, dtype) = Self::attributes(call.attrs)?;
        let fill = if dtype == DType::Bool {
            f64::from(u8::from(fill != 0.0))
        } else {
            fill
        };
        Lowering::new(self.name(), call, 0..=0)?.map(|_, _, _| Ok(Scalar::Const(fill, dtype)))
    }
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::Elementwise
    }
}

impl TrilMask {
    fn attributes(attrs: &Attrs) -> Result<[&SymExpr; 3], OpError> {
        let reader = Reader::new("tril_mask", attrs, &["rows", "cols", "offset"])?;
        Ok([reader.dim("rows")?, reader.dim("cols")?, reader.dim("offset")?])
    }
}

impl Operator for TrilMask {
    fn name(&self) -> &'static str {
        "tril_mask"
    }
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError> {
        arity(self.name(), args.len(), 0..=0)?;
        let [rows, cols, _] = Self::attributes(attrs)?;
        Ok(result(
            ShapeInfo::Known(vec![rows.clone(), cols.clone()]),
            Some(DType::Bool),
        ))
    }
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let call = checked(self, args, attrs, eval)?;
        let [.., offset] = Self::attributes(&call.attrs)?;
        let offset = offset
            .as_const()
            .ok_or_else(|| attribute_error(self.name(), "offset", "not a constant"))?;
        let (rows, cols) = (call.shape()[0] as i64, call.shape()[1] as i64);
        let pairs = (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j)));
        call.ints(
            pairs
                .map(|(i, j)| i64::from(j <= i.saturating_add(offset)))
                .collect(),
        )
    }
    fn legalise(&self, call: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        let [.., offset] = Self::attributes(call.attrs)?;
        Lowering::new(self.name(), call, 0..=0)?.map(|_, _, index| match index {
            [i, j] => Ok(index_le(j.clone(), i.clone() + offset.clone())),
            _ => Err(super::check::unsupported(self.name(), "the result has rank 2")),
        })
    }
    fn layout_rule(&self, _: &[&Annotation], _: &Attrs) -> LayoutRule {
        LayoutRule::Elementwise
    }
}
