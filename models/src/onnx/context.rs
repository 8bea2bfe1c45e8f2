//! Lowering context: the function under construction, the values known so far, and what lowering functions share.

use super::host;
use super::node::Node;
use super::symbolic::SymVector;
use crate::weights::Role;
use relayout_ir::annotation::DType;
use relayout_ir::builder::{FunctionBuilder, attrs};
use relayout_ir::graph::{Attr, Attrs, Constant, ConstantData, Distribution, Generator, ValueId};
use relayout_ir::op;
use relayout_ir::sym::{SymExpr, product};
use relayout_ir::tensor::{RefValue, Tensor, TensorData};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Results larger than this are not folded at import: shape arithmetic is small, and data belongs to the compiler.
const FOLD_LIMIT: usize = 1 << 16;

/// A value of the ONNX graph.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// A value of the function.
    Ir(ValueId),
    /// Known values.
    Host(Arc<Tensor>),
    /// Shape arithmetic over symbolic dimensions.
    Sym(SymVector),
    /// A weight to be drawn; the shape may be another view of the one drawn.
    Weight(Arc<Weight>),
}

/// A weight that no operator has used yet under this shape.
#[derive(Clone, Debug)]
pub(super) struct Weight {
    pub(super) key: String,
    pub(super) shape: Vec<usize>,
    pub(super) dtype: DType,
    pub(super) distribution: Distribution,
}

/// Why a node can't be expressed.
#[derive(Debug, Clone)]
pub(super) struct Refusal(pub(super) String);

impl From<relayout_ir::builder::BuildError> for Refusal {
    fn from(error: relayout_ir::builder::BuildError) -> Self {
        use relayout_ir::builder::BuildError;
        Refusal(match error {
            // The binding's name would make every reason different.
            BuildError::Op { source, .. } => source.to_string(),
            other => other.to_string(),
        })
    }
}

/// Shorthand for a refusal.
pub(super) fn refuse<T>(reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal(reason.into()))
}

/// A lowering's result: one value per result of the node.
pub(super) type Lowered = Result<Vec<Value>, Refusal>;

/// The state of an import.
pub(super) struct Context<'m> {
    pub(super) builder: FunctionBuilder<'m>,
    pub(super) seed: u64,
    pub(super) opset: i64,
    pub(super) f32_only: bool,
    constants: HashMap<(String, Vec<usize>), ValueId>,
    /// Known values bound so far. Each is kept alive, so that its address goes on identifying it.
    bound: HashMap<*const Tensor, (Arc<Tensor>, ValueId)>,
    constant_names: HashSet<String>,
}

impl<'m> Context<'m> {
    pub(super) fn new(builder: FunctionBuilder<'m>, seed: u64, opset: i64, f32_only: bool) -> Self {
        Context {
            builder,
            seed,
            opset,
            f32_only,
            constants: HashMap::new(),
            bound: HashMap::new(),
            constant_names: HashSet::new(),
        }
    }

    /// The type of an ONNX type number, 16-bit floats being widened on request.
    pub(super) fn dtype_of(&self, number: i64) -> Result<DType, String> {
        let dtype = host::dtype(i32::try_from(number).unwrap_or(i32::MAX))?;
        Ok(if self.f32_only && dtype.is_float() {
            DType::F32
        } else {
            dtype
        })
    }

    // ------------------------------------------------------------ what is known of a value

    pub(super) fn dims(&self, value: &Value) -> Result<Vec<SymExpr>, Refusal> {
        let fixed = |shape: &[usize]| shape.iter().map(|d| SymExpr::from(*d)).collect();
        Ok(match value {
            Value::Ir(id) => match self.builder.dims(*id) {
                Some(dims) => dims.to_vec(),
                None => return refuse("an operand whose shape is not known"),
            },
            Value::Host(t) => fixed(&t.shape),
            Value::Weight(w) => fixed(&w.shape),
            Value::Sym(v) if v.scalar => Vec::new(),
            Value::Sym(v) => vec![v.items.len().into()],
        })
    }
    pub(super) fn rank(&self, value: &Value) -> Result<usize, Refusal> {
        self.dims(value).map(|d| d.len())
    }
    /// The extents, when all are constants.
    pub(super) fn extents(&self, value: &Value) -> Result<Vec<i64>, Refusal> {
        let constant = |d: &SymExpr| {
            d.as_const()
                .ok_or_else(|| Refusal(format!("an operand with symbolic dimension {d}")))
        };
        self.dims(value)?.iter().map(constant).collect()
    }
    pub(super) fn dtype(&self, value: &Value) -> Result<DType, Refusal> {
        match value {
            Value::Ir(id) => self
                .builder
                .dtype(*id)
                .ok_or_else(|| Refusal("an operand whose element type is not known".to_owned())),
            Value::Host(t) => Ok(t.dtype),
            Value::Weight(w) => Ok(w.dtype),
            Value::Sym(_) => Ok(DType::I64),
        }
    }
    /// An axis counted from the front.
    pub(super) fn axis(&self, axis: i64, rank: usize) -> Result<usize, Refusal> {
        let r = i64::try_from(rank).unwrap_or(i64::MAX);
        let positive = if axis < 0 { axis.saturating_add(r) } else { axis };
        match usize::try_from(positive) {
            Ok(a) if a < rank => Ok(a),
            _ => refuse(format!("axis {axis} of a rank-{rank} tensor")),
        }
    }
    /// Integers known at import.
    pub(super) fn ints(&self, value: &Value) -> Result<Vec<i64>, Refusal> {
        match value {
            Value::Host(t) => match &t.data {
                TensorData::Int(v) => Ok(v.clone()),
                TensorData::Float(_) => refuse("floats where integers are expected"),
            },
            Value::Sym(v) => v
                .constants()
                .ok_or_else(|| Refusal("a symbolic number where a constant is needed".to_owned())),
            Value::Ir(_) | Value::Weight(_) => {
                refuse("an operand that has to be known at import is computed at run time")
            }
        }
    }
    /// Floats known at import.
    pub(super) fn host_floats(&self, value: &Value) -> Result<Vec<f32>, Refusal> {
        match value {
            Value::Host(t) => match &t.data {
                TensorData::Float(v) => Ok(v.clone()),
                TensorData::Int(_) => refuse("integers where floats are expected"),
            },
            _ => refuse("an operand that has to be known at import is computed at run time"),
        }
    }
    /// Shape elements known at import, symbolic ones included.
    pub(super) fn shape_of(&self, value: &Value) -> Result<Vec<SymExpr>, Refusal> {
        match value {
            Value::Sym(v) => Ok(v.items.clone()),
            _ => Ok(self.ints(value)?.into_iter().map(SymExpr::from).collect()),
        }
    }
    /// A value as symbolic integers, if it is known integers of rank 0 or 1.
    pub(super) fn as_sym(&self, value: &Value) -> Option<SymVector> {
        match value {
            Value::Sym(v) => Some(v.clone()),
            Value::Host(t) if t.shape.len() <= 1 => match &t.data {
                TensorData::Int(v) => Some(SymVector {
                    items: v.iter().map(|i| SymExpr::from(*i)).collect(),
                    scalar: t.shape.is_empty(),
                }),
                TensorData::Float(_) => None,
            },
            _ => None,
        }
    }

    // ------------------------------------------------------------ making values

    /// Symbolic integers, as known values when no variable is left.
    pub(super) fn sym(&self, vector: SymVector) -> Value {
        match vector.constants() {
            Some(data) => {
                let shape = if vector.scalar {
                    Vec::new()
                } else {
                    vec![data.len()]
                };
                Value::Host(Arc::new(host::integers(shape, DType::I64, data)))
            }
            None => Value::Sym(vector),
        }
    }
    pub(super) fn host(&self, tensor: Tensor) -> Value {
        Value::Host(Arc::new(tensor))
    }
    /// A scalar of the type.
    pub(super) fn scalar(&self, value: f32, dtype: DType) -> Value {
        self.host(if dtype.is_float() {
            host::floats(Vec::new(), dtype, vec![value])
        } else {
            host::integers(Vec::new(), dtype, vec![value as i64])
        })
    }

    fn constant_name(&mut self, hint: &str) -> String {
        let clean: String = hint
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || "_.-/:".contains(c) {
                    c
                } else {
                    '_'
                }
            })
            .collect();
        let clean = if clean.is_empty() {
            "constant".to_owned()
        } else {
            clean
        };
        let mut name = clean.clone();
        let mut count = 1;
        while !self.constant_names.insert(name.clone()) {
            name = format!("{clean}.{count}");
            count += 1;
        }
        name
    }

    /// The value in the function; constants are bound when they are first used, once per shape.
    pub(super) fn ir(&mut self, value: &Value, hint: &str) -> Result<ValueId, Refusal> {
        match value {
            Value::Ir(id) => Ok(*id),
            Value::Weight(w) => {
                let key = (w.key.clone(), w.shape.clone());
                if let Some(id) = self.constants.get(&key) {
                    return Ok(*id);
                }
                let constant = Constant {
                    name: self.constant_name(&w.key),
                    shape: w.shape.clone(),
                    dtype: w.dtype,
                    data: ConstantData::Generated(Generator {
                        seed: self.seed,
                        key: w.key.clone(),
                        distribution: w.distribution,
                    }),
                };
                let id = self.builder.constant(constant);
                self.constants.insert(key, id);
                Ok(id)
            }
            Value::Host(t) => {
                // Two uses of one initializer share its allocation, which identifies it.
                let key = Arc::as_ptr(t);
                if let Some((_, id)) = self.bound.get(&key) {
                    return Ok(*id);
                }
                let constant = Constant {
                    name: self.constant_name(hint),
                    shape: t.shape.clone(),
                    dtype: t.dtype,
                    data: ConstantData::Inline(t.to_bytes().into()),
                };
                let id = self.builder.constant(constant);
                self.bound.insert(key, (t.clone(), id));
                Ok(id)
            }
            Value::Sym(v) => match v.constants() {
                Some(_) => {
                    let host = self.sym(v.clone());
                    self.ir(&host, hint)
                }
                None => refuse("a symbolic dimension used as data"),
            },
        }
    }

    /// Calls an operator of the registry, or evaluates it when every operand is known and the result is small.
    pub(super) fn emit(
        &mut self,
        name: &str,
        op_name: &str,
        args: &[&Value],
        attrs: Attrs,
    ) -> Result<Value, Refusal> {
        if let Some(folded) = self.fold(op_name, args, &attrs) {
            return Ok(folded);
        }
        let operands = args
            .iter()
            .enumerate()
            .map(|(i, a)| self.ir(a, &format!("{name}.operand{i}")))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Value::Ir(self.builder.op(name, op_name, &operands, attrs)?))
    }

    fn fold(&self, op_name: &str, args: &[&Value], attrs: &Attrs) -> Option<Value> {
        if args.is_empty() {
            return None;
        }
        let mut known = Vec::with_capacity(args.len());
        for arg in args {
            match arg {
                Value::Host(t) if host::elements(&t.shape)? <= FOLD_LIMIT => {
                    known.push(RefValue::Tensor(t.clone()))
                }
                _ => return None,
            }
        }
        let op = op::by_name(op_name)?.get();
        let annotations: Vec<_> = known
            .iter()
            .filter_map(|v| match v {
                RefValue::Tensor(t) => Some(relayout_ir::annotation::Annotation::tensor(
                    t.shape.iter().map(|d| SymExpr::from(*d)).collect(),
                    t.dtype,
                )),
                _ => None,
            })
            .collect();
        let inferred = op.infer(&annotations.iter().collect::<Vec<_>>(), attrs).ok()?;
        let size = product(inferred.as_tensor()?.dims()?).as_const()?;
        if usize::try_from(size).ok()? > FOLD_LIMIT {
            return None;
        }
        match op.evaluate(&known, attrs, &|e| e.as_const()).ok()? {
            RefValue::Tensor(t) => Some(Value::Host(t)),
            _ => None,
        }
    }

    // ------------------------------------------------------------ views

    /// The value under another shape with as many elements. Constants change shape for free.
    pub(super) fn reshape(&mut self, name: &str, x: &Value, shape: Vec<SymExpr>) -> Result<Value, Refusal> {
        let dims = self.dims(x)?;
        if dims == shape {
            return Ok(x.clone());
        }
        let fixed: Option<Vec<usize>> = shape
            .iter()
            .map(|d| d.as_const().and_then(|d| usize::try_from(d).ok()))
            .collect();
        if let (Value::Host(_) | Value::Weight(_), Some(fixed)) = (x, fixed) {
            let have = product(&dims);
            if host::elements(&fixed).map(SymExpr::from) != Some(have.clone()) {
                return refuse(format!("a reshape of {have} elements to {fixed:?}"));
            }
            return Ok(match x {
                Value::Weight(w) => Value::Weight(Arc::new(Weight {
                    shape: fixed,
                    ..Weight::clone(w)
                })),
                Value::Host(t) => self.host(Tensor {
                    shape: fixed,
                    ..Tensor::clone(t)
                }),
                _ => x.clone(),
            });
        }
        self.emit(name, "reshape", &[x], attrs([("shape", Attr::Shape(shape))]))
    }
    /// Inserts axes of extent 1 (positions in the result, ascending).
    pub(super) fn expand_dims(&mut self, name: &str, x: &Value, axes: &[usize]) -> Result<Value, Refusal> {
        if axes.is_empty() {
            return Ok(x.clone());
        }
        if let Value::Ir(_) = x {
            let axes = axes.iter().map(|a| *a as i64).collect();
            return self.emit(name, "expand_dims", &[x], attrs([("axes", Attr::Ints(axes))]));
        }
        let mut dims = self.dims(x)?;
        for axis in axes {
            dims.insert((*axis).min(dims.len()), SymExpr::constant(1));
        }
        self.reshape(name, x, dims)
    }
    /// Removes axes of extent 1 (ascending).
    pub(super) fn squeeze(&mut self, name: &str, x: &Value, axes: &[usize]) -> Result<Value, Refusal> {
        if axes.is_empty() {
            return Ok(x.clone());
        }
        if let Value::Ir(_) = x {
            let axes = axes.iter().map(|a| *a as i64).collect();
            return self.emit(name, "squeeze", &[x], attrs([("axes", Attr::Ints(axes))]));
        }
        let dims = self.dims(x)?;
        if axes.iter().any(|a| dims.get(*a).is_none_or(|d| !d.is_const(1))) {
            return refuse("a squeezed axis whose extent is not 1");
        }
        let kept = dims.iter().enumerate().filter(|(i, _)| !axes.contains(i));
        let kept = kept.map(|(_, d)| d.clone()).collect();
        self.reshape(name, x, kept)
    }
    /// Broadcasts to a shape; nothing happens when it is there already.
    pub(super) fn broadcast_to(
        &mut self,
        name: &str,
        x: &Value,
        shape: Vec<SymExpr>,
    ) -> Result<Value, Refusal> {
        if self.dims(x)? == shape {
            return Ok(x.clone());
        }
        self.emit(name, "broadcast_to", &[x], attrs([("shape", Attr::Shape(shape))]))
    }
    /// Converts to an element type; nothing happens when it has it already.
    pub(super) fn cast(&mut self, name: &str, x: &Value, dtype: DType) -> Result<Value, Refusal> {
        if self.dtype(x)? == dtype {
            return Ok(x.clone());
        }
        if let (Value::Sym(_), DType::I64 | DType::I32) = (x, dtype) {
            return Ok(x.clone());
        }
        self.emit(name, "cast", &[x], attrs([("dtype", Attr::DType(dtype))]))
    }
    /// Elementwise without attributes.
    pub(super) fn plain(&mut self, name: &str, op: &str, args: &[&Value]) -> Result<Value, Refusal> {
        self.emit(name, op, args, Attrs::new())
    }
    /// A slice of one axis with constant bounds.
    pub(super) fn slice_axis(
        &mut self,
        name: &str,
        x: &Value,
        axis: usize,
        begin: i64,
        end: SymExpr,
    ) -> Result<Value, Refusal> {
        let attrs = attrs([
            ("axes", Attr::Ints(vec![axis as i64])),
            ("begin", Attr::Shape(vec![SymExpr::from(begin)])),
            ("end", Attr::Shape(vec![end])),
            ("steps", Attr::Ints(vec![1])),
        ]);
        self.emit(name, "slice", &[x], attrs)
    }
    /// A look-up of constant positions along one axis.
    pub(super) fn take_constant(
        &mut self,
        name: &str,
        x: &Value,
        axis: usize,
        indices: Vec<i64>,
    ) -> Result<Value, Refusal> {
        let indices = self.host(host::integers(vec![indices.len()], DType::I64, indices));
        self.emit(
            name,
            "take",
            &[x, &indices],
            attrs([("axis", Attr::Int(axis as i64))]),
        )
    }

    /// The role of an undrawn integer weight follows when the whole graph is known; until then it is drawn as ones.
    pub(super) fn weight(&self, key: &str, shape: Vec<usize>, dtype: DType, role: Role) -> Value {
        Value::Weight(Arc::new(Weight {
            key: key.to_owned(),
            shape,
            dtype,
            distribution: role.distribution(),
        }))
    }
}

/// What a lowering function sees: the node and its operands (`None` for an absent optional one).
pub(super) struct Call<'a> {
    pub(super) node: Node<'a>,
    pub(super) args: Vec<Option<Value>>,
}

impl Call<'_> {
    /// A required operand.
    pub(super) fn arg(&self, i: usize) -> Result<&Value, Refusal> {
        match self.args.get(i) {
            Some(Some(value)) => Ok(value),
            _ => refuse(format!("operand {i} is missing")),
        }
    }
    /// An optional operand.
    pub(super) fn optional(&self, i: usize) -> Option<&Value> {
        self.args.get(i).and_then(Option::as_ref)
    }
    /// The name for the node's (first) result.
    pub(super) fn name(&self) -> &str {
        self.node.label()
    }
    /// The name for an intermediate value of the lowering.
    pub(super) fn part(&self, suffix: &str) -> String {
        format!("{}.{suffix}", self.node.label())
    }
    /// Refuses results beyond the first.
    pub(super) fn only_first(&self) -> Result<(), Refusal> {
        if (1..self.node.proto.output.len()).any(|i| self.node.has_output(i)) {
            return refuse("results beyond the first are used");
        }
        Ok(())
    }
}
