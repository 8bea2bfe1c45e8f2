//! A place in a graph function under construction: the builder, the seed and the path that names are under.

use crate::weights::{self, Role};
use relayout_ir::annotation::DType;
use relayout_ir::builder::{BuildError, FunctionBuilder};
use relayout_ir::graph::{Attr, Attrs, Constant, ConstantData, ValueId};
use relayout_ir::sym::SymExpr;

/// The builder of a function with the path of the block being built.
pub struct Scope<'a, 'm> {
    builder: &'a mut FunctionBuilder<'m>,
    seed: u64,
    path: String,
}

impl<'a, 'm> Scope<'a, 'm> {
    /// The root: names are not prefixed.
    pub fn root(builder: &'a mut FunctionBuilder<'m>, seed: u64) -> Self {
        Scope {
            builder,
            seed,
            path: String::new(),
        }
    }
    /// The scope of a named part.
    pub fn child(&mut self, name: &str) -> Scope<'_, 'm> {
        let path = self.name(name);
        Scope {
            builder: self.builder,
            seed: self.seed,
            path,
        }
    }
    /// The full name of something in this scope.
    pub fn name(&self, name: &str) -> String {
        match (self.path.is_empty(), name.is_empty()) {
            (true, _) => name.to_owned(),
            (false, true) => self.path.clone(),
            (false, false) => format!("{}.{name}", self.path),
        }
    }
    /// An `f32` weight drawn from the seed.
    pub fn weight(&mut self, name: &str, shape: &[usize], role: Role) -> ValueId {
        let name = self.name(name);
        self.builder
            .constant(weights::weight(self.seed, &name, shape, DType::F32, role))
    }
    /// An `f32` constant with given values; `values` has as many elements as `shape`.
    pub fn values(&mut self, name: &str, shape: &[usize], values: &[f32]) -> ValueId {
        debug_assert_eq!(shape.iter().product::<usize>(), values.len());
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let constant = Constant {
            name: self.name(name),
            shape: shape.to_vec(),
            dtype: DType::F32,
            data: ConstantData::Inline(bytes.into()),
        };
        self.builder.constant(constant)
    }
    /// Calls an operator. An empty name stands for the scope itself.
    ///
    /// # Errors
    /// When deduction refuses the operands.
    pub fn op(
        &mut self,
        name: &str,
        op: &str,
        args: &[ValueId],
        attrs: Attrs,
    ) -> Result<ValueId, BuildError> {
        let name = self.name(name);
        self.builder.op(&name, op, args, attrs)
    }
    /// Calls an operator without attributes.
    ///
    /// # Errors
    /// When deduction refuses the operands.
    pub fn plain(&mut self, name: &str, op: &str, args: &[ValueId]) -> Result<ValueId, BuildError> {
        self.op(name, op, args, Attrs::new())
    }
    /// `a · b` over the last two axes, `b` transposed on request.
    ///
    /// # Errors
    /// When the shapes don't fit.
    pub fn matmul(
        &mut self,
        name: &str,
        a: ValueId,
        b: ValueId,
        transpose_b: bool,
    ) -> Result<ValueId, BuildError> {
        let attrs = relayout_ir::builder::attrs([
            ("transpose_a", Attr::Bool(false)),
            ("transpose_b", Attr::Bool(transpose_b)),
        ]);
        self.op(name, "matmul", &[a, b], attrs)
    }
    /// A reshape.
    ///
    /// # Errors
    /// When the number of elements differs.
    pub fn reshape(&mut self, name: &str, x: ValueId, shape: Vec<SymExpr>) -> Result<ValueId, BuildError> {
        self.op(
            name,
            "reshape",
            &[x],
            relayout_ir::builder::attrs([("shape", Attr::Shape(shape))]),
        )
    }
    /// A permutation of axes.
    ///
    /// # Errors
    /// When `perm` is no permutation of the operand's axes.
    pub fn permute(&mut self, name: &str, x: ValueId, perm: &[i64]) -> Result<ValueId, BuildError> {
        self.op(
            name,
            "permute",
            &[x],
            relayout_ir::builder::attrs([("perm", Attr::Ints(perm.to_vec()))]),
        )
    }
    /// Inserts axes of extent 1 (positions in the result).
    ///
    /// # Errors
    /// When an axis is out of range.
    pub fn expand_dims(&mut self, name: &str, x: ValueId, axes: &[i64]) -> Result<ValueId, BuildError> {
        self.op(
            name,
            "expand_dims",
            &[x],
            relayout_ir::builder::attrs([("axes", Attr::Ints(axes.to_vec()))]),
        )
    }
    /// A slice `begin..end` of one axis.
    ///
    /// # Errors
    /// When the bounds leave the axis.
    pub fn slice(
        &mut self,
        name: &str,
        x: ValueId,
        axis: i64,
        begin: usize,
        end: usize,
    ) -> Result<ValueId, BuildError> {
        let attrs = relayout_ir::builder::attrs([
            ("axes", Attr::Ints(vec![axis])),
            ("begin", Attr::Shape(vec![SymExpr::from(begin)])),
            ("end", Attr::Shape(vec![SymExpr::from(end)])),
            ("steps", Attr::Ints(vec![1])),
        ]);
        self.op(name, "slice", &[x], attrs)
    }
    /// Softmax over the last axis of a rank-`rank` tensor.
    ///
    /// # Errors
    /// When the operand is no floating-point tensor of that rank.
    pub fn softmax(&mut self, name: &str, x: ValueId, rank: usize) -> Result<ValueId, BuildError> {
        let axis = i64::try_from(rank).unwrap_or(1) - 1;
        self.op(
            name,
            "softmax",
            &[x],
            relayout_ir::builder::attrs([("axis", Attr::Int(axis))]),
        )
    }
}
