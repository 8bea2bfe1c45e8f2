//! Builds a graph function binding by binding; every operator call is annotated by deduction as it is added.

use crate::annotation::{Annotation, DType};
use crate::graph::{
    Attr, Attrs, Binding, Block, BlockKind, ConstId, Constant, Expr, GraphFunction, Module, SymDecl, Value,
    ValueId,
};
use crate::index::Arena;
use crate::op::{self, OpError};
use crate::sym::{SymExpr, SymVar};

/// Why a binding can't be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// No operator of this name.
    #[error("no operator `{0}`")]
    UnknownOperator(String),
    /// Deduction refused the call.
    #[error("binding `{binding}`: {source}")]
    Op {
        /// The name that the binding would have had.
        binding: String,
        /// Why.
        source: OpError,
    },
    /// A tuple element that isn't there, or an element of something that is no tuple.
    #[error("binding `{0}`: not a tuple with that element")]
    Tuple(String),
}

/// A graph function under construction, with the module that receives its constants.
pub struct FunctionBuilder<'m> {
    module: &'m mut Module,
    function: GraphFunction,
    used: std::collections::HashMap<String, u32>,
}

impl<'m> FunctionBuilder<'m> {
    /// Starts a function.
    pub fn new(module: &'m mut Module, name: &str) -> Self {
        FunctionBuilder {
            module,
            function: GraphFunction {
                name: name.to_owned(),
                syms: Vec::new(),
                params: Vec::new(),
                values: Arena::new(),
                blocks: vec![Block {
                    kind: BlockKind::Dataflow,
                    bindings: Vec::new(),
                }],
                // Replaced by `finish`.
                result: crate::index::Idx::from_u32(0),
            },
            used: std::collections::HashMap::new(),
        }
    }
    /// Declares a symbolic dimension with its range and returns it as an expression.
    pub fn sym(&mut self, name: &str, low: i64, high: Option<i64>) -> SymExpr {
        let var = SymVar::new(name);
        if !self.function.syms.iter().any(|d| d.var == var) {
            self.function.syms.push(SymDecl {
                var: var.clone(),
                low,
                high,
            });
        }
        SymExpr::var(&var)
    }
    /// A name not used before in this function: `hint`, then `hint_1`, ….
    fn fresh(&mut self, hint: &str) -> String {
        let mut clean: String = hint
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '_' {
                    c
                } else {
                    '_'
                }
            })
            .collect();
        if clean.is_empty() || clean.starts_with(|c: char| c.is_ascii_digit()) {
            clean.insert(0, 'v');
        }
        loop {
            let count = self.used.entry(clean.clone()).or_insert(0);
            let name = if *count == 0 {
                clean.clone()
            } else {
                format!("{clean}_{count}")
            };
            *count += 1;
            if name == clean || !self.used.contains_key(&name) {
                self.used.entry(name.clone()).or_insert(1);
                return name;
            }
        }
    }
    fn value(&mut self, name: &str, annotation: Annotation) -> ValueId {
        let name = self.fresh(name);
        self.function.values.push(Value { name, annotation })
    }
    /// Adds a parameter.
    pub fn param(&mut self, name: &str, annotation: Annotation) -> ValueId {
        let id = self.value(name, annotation);
        self.function.params.push(id);
        id
    }
    /// Adds a constant to the module and binds it.
    pub fn constant(&mut self, constant: Constant) -> ValueId {
        let dims = constant.shape.iter().map(|&d| SymExpr::from(d)).collect();
        let (name, annotation) = (constant.name.clone(), Annotation::tensor(dims, constant.dtype));
        let id: ConstId = self.module.constants.push(constant);
        self.bind(&name, annotation, Expr::Constant(id))
    }
    /// Binds an expression with a given annotation.
    pub fn bind(&mut self, name: &str, annotation: Annotation, expr: Expr) -> ValueId {
        let value = self.value(name, annotation);
        if let Some(block) = self.function.blocks.last_mut() {
            block.bindings.push(Binding { value, expr });
        }
        value
    }
    /// Calls an operator; the result is annotated by deduction.
    ///
    /// # Errors
    /// When there is no such operator or deduction refuses the operands.
    pub fn op(
        &mut self,
        name: &str,
        op_name: &str,
        args: &[ValueId],
        attrs: Attrs,
    ) -> Result<ValueId, BuildError> {
        let op = op::by_name(op_name).ok_or_else(|| BuildError::UnknownOperator(op_name.to_owned()))?;
        let annotations: Vec<&Annotation> = args.iter().map(|a| self.annotation(*a)).collect();
        let annotation = op
            .get()
            .infer(&annotations, &attrs)
            .map_err(|source| BuildError::Op {
                binding: name.to_owned(),
                source,
            })?;
        Ok(self.bind(
            name,
            annotation,
            Expr::Op {
                op,
                args: args.to_vec(),
                attrs,
                implementation: None,
            },
        ))
    }
    /// Binds an element of a tuple.
    ///
    /// # Errors
    /// When the value is no tuple or has no such element.
    pub fn tuple_get(&mut self, name: &str, tuple: ValueId, index: usize) -> Result<ValueId, BuildError> {
        let annotation = match self.annotation(tuple) {
            Annotation::Tuple(items) => items.get(index).cloned(),
            _ => None,
        };
        let annotation = annotation.ok_or_else(|| BuildError::Tuple(name.to_owned()))?;
        Ok(self.bind(name, annotation, Expr::TupleGet(tuple, index)))
    }
    /// The annotation of a value.
    pub fn annotation(&self, value: ValueId) -> &Annotation {
        &self.function.values[value].annotation
    }
    /// The dimensions of a tensor value, when known.
    pub fn dims(&self, value: ValueId) -> Option<&[SymExpr]> {
        self.annotation(value).as_tensor().and_then(|t| t.dims())
    }
    /// The element type of a tensor value, when known.
    pub fn dtype(&self, value: ValueId) -> Option<DType> {
        self.annotation(value).as_tensor().and_then(|t| t.dtype)
    }
    /// Ends the function with its result and adds it to the module. Several results are returned as one tuple.
    pub fn finish(mut self, results: &[ValueId]) -> crate::graph::FuncId {
        let result = match results {
            [one] => *one,
            _ => {
                let items = results.iter().map(|r| self.annotation(*r).clone()).collect();
                self.bind("results", Annotation::Tuple(items), Expr::Tuple(results.to_vec()))
            }
        };
        self.function.result = result;
        self.module.functions.push(self.function)
    }
}

/// Attributes from pairs: `attrs([("axis", Attr::Int(1))])`.
pub fn attrs<const N: usize>(pairs: [(&str, Attr); N]) -> Attrs {
    pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
}
