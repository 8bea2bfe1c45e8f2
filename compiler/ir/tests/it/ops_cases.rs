//! Random calls of operators in random layouts, and the check that all their definitions agree.

use proptest::prelude::*;
use proptest::sample::Index;
use relayout_ir::annotation::{Annotation, DType, TensorInfo};
use relayout_ir::graph::{Attr, Attrs, SymDecl};
use relayout_ir::interpret::{pack, run_program, unpack};
use relayout_ir::layout::{Layout, Split};
use relayout_ir::op::{self, LegaliseCall};
use relayout_ir::sym::{SymExpr, SymVar};
use relayout_ir::tensor::{RefValue, Tensor, TensorData};
use std::sync::Arc;

/// Attributes from pairs.
pub fn attrs<const N: usize>(pairs: [(&str, Attr); N]) -> Attrs {
    relayout_ir::builder::attrs(pairs)
}

/// Constant dimensions.
pub fn dims(extents: &[i64]) -> Vec<SymExpr> {
    extents.iter().map(|d| SymExpr::constant(*d)).collect()
}

/// Which values an operand gets.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// Multiples of 1/8 in [−2, 2], small integers, both truth values.
    Any,
    /// From 1/8 to 4.
    Positive,
}

/// One call of an operator.
#[derive(Clone, Debug)]
pub struct Case {
    pub op: &'static str,
    pub args: Vec<(Vec<SymExpr>, DType)>,
    pub attrs: Attrs,
    pub values: Values,
    /// Values of the symbolic variables.
    pub binding: Vec<(&'static str, i64)>,
    /// Axes, as (operand, axis), that may not be blocked.
    pub unblocked: Vec<(usize, usize)>,
}

impl Case {
    pub fn new(op: &'static str, args: Vec<Vec<SymExpr>>, attrs: Attrs) -> Self {
        Case {
            op,
            args: args.into_iter().map(|d| (d, DType::F32)).collect(),
            attrs,
            values: Values::Any,
            binding: Vec::new(),
            unblocked: Vec::new(),
        }
    }
    pub fn bind(mut self, binding: &[(&'static str, i64)]) -> Self {
        self.binding = binding.to_vec();
        self
    }
    pub fn typed(mut self, dtypes: &[DType]) -> Self {
        self.args.iter_mut().zip(dtypes).for_each(|(a, d)| a.1 = *d);
        self
    }
    pub fn all_of(mut self, dtype: DType) -> Self {
        self.args.iter_mut().for_each(|a| a.1 = dtype);
        self
    }
    pub fn positive(mut self) -> Self {
        self.values = Values::Positive;
        self
    }
    fn value_of(&self, e: &SymExpr) -> Option<i64> {
        e.eval(&|v: &SymVar| self.binding.iter().find(|(n, _)| *n == v.name()).map(|(_, x)| *x))
    }
    fn extents(&self, dims: &[SymExpr]) -> Vec<usize> {
        dims.iter().map(|d| self.value_of(d).unwrap() as usize).collect()
    }
    /// The annotation of the result.
    pub fn result(&self) -> TensorInfo {
        let annotations: Vec<Annotation> = self
            .args
            .iter()
            .map(|(d, t)| Annotation::tensor(d.clone(), *t))
            .collect();
        let op = op::by_name(self.op).unwrap().get();
        let result = op.infer(&annotations.iter().collect::<Vec<_>>(), &self.attrs);
        result
            .unwrap_or_else(|e| panic!("{e}"))
            .as_tensor()
            .unwrap()
            .clone()
    }
    /// Operands drawn from a seed.
    pub fn operands(&self, seed: u64) -> Vec<RefValue> {
        let tensors = self.args.iter().enumerate().map(|(i, (dims, dtype))| {
            let shape = self.extents(dims);
            let count = shape.iter().product::<usize>();
            let draw = |k: usize| mix(seed ^ mix((i * 1_000_003 + k) as u64 + 1));
            let eighths = |k: usize| match self.values {
                Values::Any => (draw(k) % 33) as f32 / 8.0 - 2.0,
                Values::Positive => (draw(k) % 32 + 1) as f32 / 8.0,
            };
            let data = if dtype.is_float() {
                TensorData::Float((0..count).map(eighths).collect())
            } else {
                TensorData::Int((0..count).map(|k| (draw(k) % 9) as i64 - 4).collect())
            };
            Tensor::new(shape, *dtype, data).unwrap()
        });
        tensors.map(|t| RefValue::Tensor(Arc::new(t))).collect()
    }
}

fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A permutation of the axes with up to two exact blocks on constant axes, anywhere after their outer piece.
pub fn layout(dims: Vec<SymExpr>, blockable: impl Fn(usize) -> bool) -> BoxedStrategy<Layout> {
    let rank = dims.len();
    let order = Just((0..rank as u8).collect::<Vec<u8>>()).prop_shuffle();
    let mut factors: Vec<(u8, u32)> = Vec::new();
    for (axis, extent) in dims.iter().enumerate().filter(|(a, _)| blockable(*a)) {
        // A symbolic extent may be a provable multiple, such as n·4.
        factors.extend(
            (2..=32)
                .filter(|f| extent.modulo(*f).is_const(0))
                .map(|f| (axis as u8, f as u32)),
        );
    }
    if factors.is_empty() {
        return order.prop_map(|o| Layout::permuted(&o)).boxed();
    }
    let blocks = prop::collection::vec((prop::sample::select(factors), any::<Index>()), 0..=2);
    (order, blocks)
        .prop_map(move |(order, blocks)| {
            let mut pieces: Vec<Split> = order.iter().map(|&axis| Split { axis, factor: None }).collect();
            for ((axis, factor), place) in blocks {
                let mut trial = pieces.clone();
                let outer = trial.iter().position(|s| s.axis == axis).unwrap();
                let at = outer + 1 + place.index(trial.len() - outer);
                let block = Split {
                    axis,
                    factor: Some(factor),
                };
                trial.insert(at, block);
                let both: i64 = trial
                    .iter()
                    .filter(|s| s.axis == axis)
                    .filter_map(|s| s.factor)
                    .map(i64::from)
                    .product();
                if dims[usize::from(axis)].modulo(both).is_const(0) {
                    pieces = trial;
                }
            }
            Layout::new(order.len(), pieces).unwrap()
        })
        .boxed()
}

/// A call with the layouts of its operands and of its result.
pub type Placed = (Case, Vec<Layout>, Layout, u64);

/// Draws layouts for a drawn call.
pub fn placed(case: impl Strategy<Value = Case> + 'static) -> impl Strategy<Value = Placed> {
    case.prop_flat_map(|case| {
        let operands = case.args.iter().enumerate();
        let operands: Vec<_> = operands
            .map(|(i, (dims, _))| {
                let fixed = case.unblocked.clone();
                layout(dims.clone(), move |axis| !fixed.contains(&(i, axis)))
            })
            .collect();
        let out = layout(case.result().dims().unwrap().to_vec(), |_| true);
        (Just(case), operands, out, any::<u64>())
    })
}

/// Largest difference allowed between two results of a type, relative to 1 + |expected|.
fn tolerance(dtype: DType) -> f32 {
    match dtype {
        DType::F32 => 2e-5,
        DType::F16 => 2e-3,
        DType::BF16 => 1.6e-2,
        _ => 0.0,
    }
}

/// Compares two tensors; integers exactly.
pub fn close(found: &Tensor, expected: &Tensor) -> Result<(), TestCaseError> {
    prop_assert_eq!(&found.shape, &expected.shape);
    prop_assert_eq!(found.dtype, expected.dtype);
    match (&found.data, &expected.data) {
        (TensorData::Float(a), TensorData::Float(b)) => {
            for (i, (x, y)) in a.iter().zip(b).enumerate() {
                let near = (x - y).abs() <= tolerance(expected.dtype) * (1.0 + y.abs());
                prop_assert!(near || x == y, "element {}: found {}, expected {}", i, x, y);
            }
            prop_assert_eq!(a.len(), b.len());
        }
        (a, b) => prop_assert_eq!(a, b),
    }
    Ok(())
}

fn tensor(value: RefValue) -> Tensor {
    match value {
        RefValue::Tensor(t) => t.as_ref().clone(),
        other => panic!("expected a tensor, found {other:?}"),
    }
}

/// The plain and the fast reference agree, and both have the deduced shape and type.
pub fn references_agree(case: &Case, seed: u64) -> Result<Tensor, TestCaseError> {
    let op = op::by_name(case.op).unwrap().get();
    let operands = case.operands(seed);
    let eval = |e: &SymExpr| case.value_of(e);
    let plain = op.evaluate(&operands, &case.attrs, &eval);
    let plain = tensor(plain.map_err(|e| TestCaseError::fail(e.to_string()))?);
    let fast = op.evaluate_fast(&operands, &case.attrs, &eval);
    let fast = tensor(fast.map_err(|e| TestCaseError::fail(e.to_string()))?);
    close(&fast, &plain)?;
    let info = case.result();
    prop_assert_eq!(&plain.shape, &case.extents(info.dims().unwrap()));
    prop_assert_eq!(Some(plain.dtype), info.dtype);
    Ok(plain)
}

/// The tensor program computes what the reference computes, in these layouts.
pub fn program_agrees((case, layouts, out_layout, seed): &Placed) -> Result<(), TestCaseError> {
    let expected = references_agree(case, *seed)?;
    let op = op::by_name(case.op).unwrap().get();
    let args = case.args.iter().zip(layouts);
    let args = args.map(|((dims, dtype), l)| TensorInfo::new(dims.clone(), *dtype).in_layout(l.clone()));
    let syms = case.binding.iter().map(|(name, _)| SymDecl {
        var: SymVar::new(name),
        low: 1,
        high: None,
    });
    let call = LegaliseCall {
        args: args.collect(),
        out: case.result().in_layout(out_layout.clone()),
        attrs: &case.attrs,
        name: "program".to_owned(),
        syms: syms.collect(),
    };
    let program = op
        .legalise(&call)
        .map_err(|e| TestCaseError::fail(e.to_string()))?;
    let inputs = case.operands(*seed).into_iter().zip(layouts);
    let inputs: Vec<Tensor> = inputs.map(|(v, l)| pack(&tensor(v), l).unwrap()).collect();
    let sym_args: Vec<i64> = program
        .sym_params
        .iter()
        .map(|p| case.value_of(&SymExpr::var(p)).unwrap())
        .collect();
    let output = run_program(&program, &inputs, &sym_args);
    let output = output.map_err(|e| TestCaseError::fail(format!("{e}\n{program:#?}")))?;
    let logical = unpack(&output, &expected.shape, out_layout).unwrap();
    close(&logical, &expected)
}
