//! Forward deduction over a function: one pass, each binding from the annotations of its operands (Relax §3.4.3).
//!
//! Deduction is run again after every pass that changes types. Layouts are not deduced: a layout that an existing annotation
//! has is kept. Destination-passing calls and views keep their annotations, which are part of the call.

use crate::annotation::{Annotation, TensorInfo};
use crate::graph::{Expr, FuncId, GraphFunction, Module, ValueId};
use crate::op::OpError;
use crate::prove::Prover;
use crate::signature::{RelationError, Signature, compatible};
use crate::sym::SymExpr;
use crate::text::print_annotation;

/// Why a binding has no annotation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeduceError {
    /// An operator refuses its operands.
    #[error(transparent)]
    Op(#[from] OpError),
    /// A call does not fit the callee's signature.
    #[error("call of `{callee}`: {source}")]
    Call {
        /// The callee.
        callee: String,
        /// Why.
        source: RelationError,
    },
    /// An index of another module or function.
    #[error("{0} that does not exist")]
    Dangling(&'static str),
    /// An element of something that is no tuple, or beyond its end.
    #[error("element {index} of {of}")]
    Tuple {
        /// The element.
        index: usize,
        /// The annotation of the operand.
        of: String,
    },
    /// A cast that no value passes.
    #[error("match_cast to {to} of a value annotated {from}")]
    Cast {
        /// The operand's annotation.
        from: String,
        /// The asserted annotation.
        to: String,
    },
}

/// A deduction error with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("function `{function}`, binding `%{binding}`: {source}")]
pub struct InferError {
    /// The function.
    pub function: String,
    /// The binding.
    pub binding: String,
    /// Why.
    pub source: Box<DeduceError>,
}

/// Deduces the annotation of every binding of a function, in order, and replaces the ones it has. Callees are seen by their
/// signatures only. Linear in the number of bindings.
///
/// # Errors
/// At the first binding that has no annotation; bindings before it have been replaced.
pub fn infer_function(module: &mut Module, func: FuncId) -> Result<(), InferError> {
    let error = |function: &str, binding: &str, source| InferError {
        function: function.to_owned(),
        binding: binding.to_owned(),
        source: Box::new(source),
    };
    if module.functions.get(func).is_none() {
        return Err(error("?", "?", DeduceError::Dangling("a function")));
    }
    let prover = Prover::new(&module.functions[func].syms);
    for block in 0..module.functions[func].blocks.len() {
        for position in 0..module.functions[func].blocks[block].bindings.len() {
            let f = &module.functions[func];
            let binding = &f.blocks[block].bindings[position];
            let value = binding.value;
            let Some(existing) = f.values.get(value) else {
                return Err(error(&f.name, "?", DeduceError::Dangling("a value")));
            };
            let deduced = deduce(module, f, &prover, value, &binding.expr)
                .map_err(|source| error(&f.name, &existing.name, source))?;
            let deduced = with_layouts_of(deduced, &existing.annotation);
            module.functions[func].values[value].annotation = deduced;
        }
    }
    Ok(())
}

/// The annotation of one binding's expression from the annotations of its operands; destination-passing calls, views and
/// allocations have the annotation that the binding already has.
pub(crate) fn deduce(
    module: &Module,
    f: &GraphFunction,
    prover: &Prover,
    value: ValueId,
    expr: &Expr,
) -> Result<Annotation, DeduceError> {
    let annotation = |v: ValueId| {
        f.values
            .get(v)
            .map(|v| &v.annotation)
            .ok_or(DeduceError::Dangling("a value"))
    };
    let all = |vs: &[ValueId]| vs.iter().map(|v| annotation(*v)).collect::<Result<Vec<_>, _>>();
    match expr {
        Expr::Op { op, args, attrs, .. } => Ok(op.get().infer(&all(args)?, attrs)?),
        Expr::CallGraph { func, args } => {
            let callee = module
                .functions
                .get(*func)
                .ok_or(DeduceError::Dangling("a function"))?;
            let signature = Signature::of(callee).ok_or(DeduceError::Dangling("a value of the callee"))?;
            signature
                .call(&all(args)?, prover)
                .map_err(|source| DeduceError::Call {
                    callee: callee.name.clone(),
                    source,
                })
        }
        Expr::Constant(id) => {
            let c = module
                .constants
                .get(*id)
                .ok_or(DeduceError::Dangling("a constant"))?;
            Ok(Annotation::tensor(
                c.shape.iter().map(|d| SymExpr::from(*d)).collect(),
                c.dtype,
            ))
        }
        Expr::Shape(dims) => Ok(Annotation::Shape(crate::annotation::ShapeInfo::Known(
            dims.clone(),
        ))),
        Expr::Tuple(items) => Ok(Annotation::Tuple(all(items)?.into_iter().cloned().collect())),
        Expr::TupleGet(tuple, index) => match annotation(*tuple)? {
            Annotation::Object => Ok(Annotation::Object),
            Annotation::Tuple(items) if *index < items.len() => Ok(items[*index].clone()),
            other => Err(DeduceError::Tuple {
                index: *index,
                of: print_annotation(other),
            }),
        },
        Expr::MatchCast(of, to) => {
            let from = annotation(*of)?;
            compatible(from, to, prover).map_err(|()| DeduceError::Cast {
                from: print_annotation(from),
                to: print_annotation(to),
            })?;
            Ok(to.clone())
        }
        Expr::Invoke { .. } | Expr::Kill(_) => Ok(Annotation::Tuple(Vec::new())),
        Expr::AllocStorage { .. } => Ok(Annotation::Object),
        Expr::CallTir { .. } | Expr::CallDpsLibrary { .. } | Expr::View(_) | Expr::AllocTensor { .. } => {
            annotation(value).cloned()
        }
    }
}

/// The deduced annotation with the layouts of the existing one, where their ranks agree.
fn with_layouts_of(deduced: Annotation, existing: &Annotation) -> Annotation {
    match (deduced, existing) {
        (Annotation::Tensor(d), Annotation::Tensor(e)) => {
            let kept = e
                .layout
                .clone()
                .filter(|l| d.shape.rank().is_none_or(|r| r == l.rank()));
            Annotation::Tensor(TensorInfo {
                layout: kept.or(d.layout.clone()),
                ..d
            })
        }
        (Annotation::Tuple(d), Annotation::Tuple(e)) if d.len() == e.len() => {
            Annotation::Tuple(d.into_iter().zip(e).map(|(d, e)| with_layouts_of(d, e)).collect())
        }
        (deduced, _) => deduced,
    }
}
