//! The graph as extraction sees it: tensor values with their producers and consumers, operator calls with their layout rules.

use super::ExtractError;
use super::project::Shapes;
use relayout_ir::annotation::{Annotation, DType, TensorInfo};
use relayout_ir::graph::{Attrs, Expr, GraphFunction, Module, ValueId};
use relayout_ir::index::Idx;
use relayout_ir::op::{LayoutRule, OpId};
use relayout_ir::sym::SymExpr;

/// An operator call.
#[derive(Clone, Debug)]
pub struct Call<'m> {
    /// The value bound.
    pub value: ValueId,
    /// The operator.
    pub op: OpId,
    /// Its attributes.
    pub attrs: &'m Attrs,
    /// Operands, tensors or not.
    pub args: &'m [ValueId],
    /// Its layout rule.
    pub rule: LayoutRule,
    /// Logical shapes.
    pub shapes: Shapes,
}

/// What produces a tensor.
#[derive(Clone, Debug)]
pub enum Producer<'m> {
    /// A parameter, in the ABI layout.
    Parameter,
    /// A constant, in any layout.
    Constant,
    /// An operator.
    Call(Box<Call<'m>>),
}

/// One tensor value.
#[derive(Clone, Debug)]
pub struct TensorView<'m> {
    /// The value.
    pub value: ValueId,
    /// Its name.
    pub name: &'m str,
    /// Its logical dimensions.
    pub dims: Vec<SymExpr>,
    /// Its element type.
    pub dtype: DType,
    /// What produces it.
    pub producer: Producer<'m>,
    /// How many operand positions read it, results included.
    pub reads: usize,
}

/// The tensors of the entry function in definition order, and its results.
#[derive(Clone, Debug)]
pub struct GraphView<'m> {
    /// The function.
    pub function: &'m GraphFunction,
    /// Tensors that something reads, in definition order.
    pub tensors: Vec<TensorView<'m>>,
    /// Position in `tensors` per value.
    pub position: Vec<Option<usize>>,
    /// The values returned.
    pub results: Vec<ValueId>,
}

impl<'m> GraphView<'m> {
    /// Reads the entry function.
    ///
    /// # Errors
    /// When there is no entry, a tensor's shape or type is not known, or a binding is not one that selection works on.
    pub fn new(module: &'m Module) -> Result<Self, ExtractError> {
        let entry = module.entry().ok_or(ExtractError::NoEntry)?;
        let function = &module.functions[entry];
        let results = result_values(function);
        let mut reads = vec![0usize; function.values.len()];
        let mut count = |v: ValueId| reads[v.index()] += 1;
        for binding in function.bindings() {
            match &binding.expr {
                Expr::Op { args, .. } => args.iter().copied().for_each(&mut count),
                // The result tuple itself is not a reader; its elements are counted as results below.
                Expr::Tuple(_) if binding.value == function.result => {}
                Expr::Tuple(items) => items.iter().copied().for_each(&mut count),
                _ => {}
            }
        }
        results.iter().copied().for_each(&mut count);

        let mut view = GraphView {
            function,
            tensors: Vec::new(),
            position: vec![None; function.values.len()],
            results,
        };
        for &param in &function.params {
            if matches!(function.values[param].annotation, Annotation::Tensor(_)) {
                view.add(param, Producer::Parameter, reads[param.index()])?;
            }
        }
        for binding in function.bindings() {
            let value = binding.value;
            match &binding.expr {
                Expr::Constant(_) => view.add(value, Producer::Constant, reads[value.index()])?,
                Expr::Op { op, args, attrs, .. } => {
                    let call = view.call(value, *op, args, attrs)?;
                    view.add(value, Producer::Call(Box::new(call)), reads[value.index()])?;
                }
                Expr::Shape(_) => {}
                Expr::Tuple(_) if value == function.result => {}
                other => {
                    return Err(ExtractError::Binding {
                        binding: function.values[value].name.clone(),
                        found: expr_kind(other),
                    });
                }
            }
        }
        Ok(view)
    }

    fn add(&mut self, value: ValueId, producer: Producer<'m>, reads: usize) -> Result<(), ExtractError> {
        if reads == 0 {
            return Ok(());
        }
        let info = tensor_of(self.function, value)?;
        let (dims, dtype) = known(self.function, value, info)?;
        self.position[value.index()] = Some(self.tensors.len());
        self.tensors.push(TensorView {
            value,
            name: &self.function.values[value].name,
            dims,
            dtype,
            producer,
            reads,
        });
        Ok(())
    }

    fn call(
        &self,
        value: ValueId,
        op: OpId,
        args: &'m [ValueId],
        attrs: &'m Attrs,
    ) -> Result<Call<'m>, ExtractError> {
        let annotations: Vec<&Annotation> = args
            .iter()
            .map(|a| &self.function.values[*a].annotation)
            .collect();
        let mut shapes = Shapes {
            args: Vec::new(),
            out: known(self.function, value, tensor_of(self.function, value)?)?.0,
        };
        for &arg in args {
            shapes.args.push(match &self.function.values[arg].annotation {
                Annotation::Tensor(info) => Some(known(self.function, arg, info)?.0),
                _ => None,
            });
        }
        Ok(Call {
            value,
            op,
            attrs,
            args,
            rule: op.get().layout_rule(&annotations, attrs),
            shapes,
        })
    }

    /// The tensor of a value, if something reads it.
    pub fn tensor(&self, value: ValueId) -> Option<&TensorView<'m>> {
        self.position[value.index()].map(|p| &self.tensors[p])
    }

    /// The operator calls whose results are read, in definition order.
    pub fn calls(&self) -> impl DoubleEndedIterator<Item = &Call<'m>> {
        self.tensors.iter().filter_map(|t| match &t.producer {
            Producer::Call(call) => Some(&**call),
            _ => None,
        })
    }
}

/// The tensors that the function returns, in order.
pub fn result_values(function: &GraphFunction) -> Vec<ValueId> {
    function
        .bindings()
        .find(|b| b.value == function.result)
        .and_then(|b| match &b.expr {
            Expr::Tuple(items) => Some(items.clone()),
            _ => None,
        })
        .unwrap_or_else(|| vec![function.result])
}

fn tensor_of(function: &GraphFunction, value: ValueId) -> Result<&TensorInfo, ExtractError> {
    function.values[value]
        .annotation
        .as_tensor()
        .ok_or_else(|| ExtractError::Binding {
            binding: function.values[value].name.clone(),
            found: "a value that is not a tensor".into(),
        })
}

fn known(
    function: &GraphFunction,
    value: ValueId,
    info: &TensorInfo,
) -> Result<(Vec<SymExpr>, DType), ExtractError> {
    match (info.dims(), info.dtype) {
        (Some(dims), Some(dtype)) => Ok((dims.to_vec(), dtype)),
        _ => Err(ExtractError::UnknownShape {
            binding: function.values[value].name.clone(),
        }),
    }
}

fn expr_kind(expr: &Expr) -> String {
    match expr {
        Expr::Op { op, .. } => format!("operator {}", op.name()),
        Expr::CallGraph { .. } => "a call to a graph function".into(),
        Expr::CallTir { .. } => "call_tir".into(),
        Expr::CallDpsLibrary { .. } => "call_dps_library".into(),
        Expr::Tuple(_) => "a tuple inside the function".into(),
        Expr::TupleGet(..) => "a tuple element".into(),
        Expr::MatchCast(..) => "match_cast".into(),
        _ => "a lowered binding".into(),
    }
}
