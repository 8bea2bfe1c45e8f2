//! Graph functions and the module: dataflow over annotated values, with calls to operators, graph functions, tensor programs
//! and library routines in one representation (Relax §3.3).

use crate::annotation::{Annotation, DType};
use crate::index::Arena;
use crate::layout::Layout;
use crate::op::OpId;
use crate::program::TensorProgram;
use crate::sym::{SymExpr, SymVar};
use std::collections::BTreeMap;
use std::sync::Arc;

crate::define_index!(
    /// A value of one graph function.
    ValueId,
    "%"
);
crate::define_index!(
    /// A graph function of a module.
    FuncId,
    "@f"
);
crate::define_index!(
    /// A tensor program of a module.
    ProgramId,
    "@p"
);
crate::define_index!(
    /// A constant of a module.
    ConstId,
    "#"
);

/// An operator attribute.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum Attr {
    Int(i64),
    Ints(Vec<i64>),
    Float(f64),
    Bool(bool),
    Str(String),
    DType(DType),
    Shape(Vec<SymExpr>),
    Layout(Layout),
}

/// Attributes by name; the registry says which an operator takes.
pub type Attrs = BTreeMap<String, Attr>;

/// Where a constant's values come from.
#[derive(Clone, PartialEq, Debug)]
pub enum ConstantData {
    /// Little-endian elements in logical row-major order.
    Inline(Arc<[u8]>),
    /// Drawn from the seed by the generator rule (see `generate.rs`).
    Generated(Generator),
}

/// The rule that draws a tensor from a seed; element i depends only on (seed, key, i).
#[derive(Clone, PartialEq, Debug)]
pub struct Generator {
    /// The seed of the run.
    pub seed: u64,
    /// The name that separates this tensor's stream from all others.
    pub key: String,
    /// The distribution.
    pub distribution: Distribution,
}

/// Distributions of generated tensors.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Distribution {
    /// Uniform in `[low, high)`, for floating-point tensors.
    Uniform {
        /// Inclusive lower end.
        low: f32,
        /// Exclusive upper end.
        high: f32,
    },
    /// Uniform over the integers `low..high`, for integer and Boolean tensors.
    Integers {
        /// Inclusive lower end.
        low: i64,
        /// Exclusive upper end.
        high: i64,
    },
}

/// A weight or folded constant.
#[derive(Clone, PartialEq, Debug)]
pub struct Constant {
    /// Unique in the module.
    pub name: String,
    /// Logical shape.
    pub shape: Vec<usize>,
    /// Element type.
    pub dtype: DType,
    /// The values.
    pub data: ConstantData,
}

/// A symbolic variable with its declared range.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SymDecl {
    /// The variable.
    pub var: SymVar,
    /// Inclusive lower bound (dimensions are at least 1 unless declared otherwise).
    pub low: i64,
    /// Inclusive upper bound, when there is one; memory planning plans for it.
    pub high: Option<i64>,
}

/// A named, annotated value: a parameter or the result of a binding.
#[derive(Clone, PartialEq, Debug)]
pub struct Value {
    /// The name in the text form, unique in the function.
    pub name: String,
    /// The annotation.
    pub annotation: Annotation,
}

/// An expression that a binding gives a name to. Operands are values: the form is flat (A-normal).
#[derive(Clone, PartialEq, Debug)]
pub enum Expr {
    /// A registered operator. `implementation` is set by layout selection: the library routine or generated kernel that the
    /// chosen configuration was priced with and that lowering must use.
    Op {
        /// The operator.
        op: OpId,
        /// Operands.
        args: Vec<ValueId>,
        /// Attributes.
        attrs: Attrs,
        /// The implementation named by the chosen configuration.
        implementation: Option<String>,
    },
    /// A call to another graph function of the module.
    CallGraph {
        /// Callee.
        func: FuncId,
        /// Arguments.
        args: Vec<ValueId>,
    },
    /// `call_tir`: allocate the output (its annotation is the binding's) and call a tensor program in destination-passing style.
    CallTir {
        /// The program.
        program: ProgramId,
        /// Input tensors.
        args: Vec<ValueId>,
        /// One expression per symbolic parameter of the program.
        sym_args: Vec<SymExpr>,
    },
    /// `call_dps_library`: the same for a routine of the kernel-library registry.
    CallDpsLibrary {
        /// Registry name, such as `gemm.matmul`.
        routine: String,
        /// Input tensors.
        args: Vec<ValueId>,
        /// Static parameters of the routine.
        attrs: Attrs,
        /// Symbolic parameters of the routine.
        sym_args: Vec<SymExpr>,
    },
    /// A constant of the module.
    Constant(ConstId),
    /// A shape value.
    Shape(Vec<SymExpr>),
    /// A tuple.
    Tuple(Vec<ValueId>),
    /// An element of a tuple.
    TupleGet(ValueId, usize),
    /// Asserts an annotation at run time and may bind new symbolic variables.
    MatchCast(ValueId, Annotation),
    /// The same bytes under another logical shape or layout (the binding's annotation): a reshape or transpose that is an alias.
    View(ValueId),
    /// Storage of a size in bytes (after memory planning).
    AllocStorage {
        /// Size.
        bytes: SymExpr,
    },
    /// A tensor (the binding's annotation) inside a storage (after memory planning).
    AllocTensor {
        /// The storage value.
        storage: ValueId,
        /// Byte offset.
        offset: SymExpr,
    },
    /// Destination-passing call after memory planning: the same as `CallTir`/`CallDpsLibrary` with explicit destinations. The bound
    /// value is an empty tuple.
    Invoke {
        /// What is called.
        callee: Callee,
        /// Input tensors.
        args: Vec<ValueId>,
        /// The destination, then workspaces.
        outs: Vec<ValueId>,
        /// Symbolic arguments.
        sym_args: Vec<SymExpr>,
    },
    /// Ends a storage's or tensor's life (after memory planning).
    Kill(ValueId),
}

impl Expr {
    /// The values used, in order, with repetitions.
    pub fn operands(&self) -> Vec<ValueId> {
        match self {
            Expr::Op { args, .. }
            | Expr::CallGraph { args, .. }
            | Expr::CallTir { args, .. }
            | Expr::CallDpsLibrary { args, .. }
            | Expr::Tuple(args) => args.clone(),
            Expr::Constant(_) | Expr::Shape(_) | Expr::AllocStorage { .. } => Vec::new(),
            Expr::TupleGet(v, _) | Expr::MatchCast(v, _) | Expr::View(v) | Expr::Kill(v) => vec![*v],
            Expr::AllocTensor { storage, .. } => vec![*storage],
            Expr::Invoke { args, outs, .. } => args.iter().chain(outs).copied().collect(),
        }
    }
}

/// What an [`Expr::Invoke`] calls.
#[derive(Clone, PartialEq, Debug)]
pub enum Callee {
    /// A tensor program.
    Program(ProgramId),
    /// A library routine with its static parameters.
    Library(String, Attrs),
}

/// One binding.
#[derive(Clone, PartialEq, Debug)]
pub struct Binding {
    /// The value defined.
    pub value: ValueId,
    /// How.
    pub expr: Expr,
}

/// Whether a block is free of side effects.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BlockKind {
    /// Pure: bindings may be reordered and removed.
    Dataflow,
    /// Executed in order.
    Plain,
}

/// A straight-line list of bindings.
#[derive(Clone, PartialEq, Debug)]
pub struct Block {
    /// Dataflow or plain.
    pub kind: BlockKind,
    /// In order; a binding uses parameters and earlier bindings only.
    pub bindings: Vec<Binding>,
}

/// A graph function: straight-line blocks over values.
#[derive(Clone, PartialEq, Debug)]
pub struct GraphFunction {
    /// Unique in the module.
    pub name: String,
    /// Symbolic variables with declared ranges. Bound by the parameters' annotations, or by a `match_cast`.
    pub syms: Vec<SymDecl>,
    /// Parameters.
    pub params: Vec<ValueId>,
    /// All values.
    pub values: Arena<ValueId, Value>,
    /// The body.
    pub blocks: Vec<Block>,
    /// The value returned: a tensor or a tuple.
    pub result: ValueId,
}

impl GraphFunction {
    /// Every binding, in order.
    pub fn bindings(&self) -> impl Iterator<Item = &Binding> {
        self.blocks.iter().flat_map(|b| &b.bindings)
    }
}

/// Graph functions, tensor programs and constants: the unit of compilation.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Module {
    /// Graph functions; the entry is named `main`.
    pub functions: Arena<FuncId, GraphFunction>,
    /// Tensor programs.
    pub programs: Arena<ProgramId, TensorProgram>,
    /// Constants.
    pub constants: Arena<ConstId, Constant>,
}

impl Module {
    /// The entry function `main`.
    pub fn entry(&self) -> Option<FuncId> {
        self.functions
            .iter()
            .find(|(_, f)| f.name == "main")
            .map(|(id, _)| id)
    }
}
