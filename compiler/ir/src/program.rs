//! Tensor programs: loop-level programs in destination-passing style.
//!
//! A program is a list of *stages*; each stage is a perfect loop nest that writes one buffer. Loop bounds, buffer shapes and
//! indices are [`SymExpr`]s over the program's symbolic parameters and the stage's loop variables. Matmul and convolution
//! share one node, [`StageBody::Contract`]. Shapes here are *physical*: legalisation has replaced layouts by index maps.

use crate::annotation::DType;
use crate::sym::{SymExpr, SymVar};

crate::define_index!(
    /// A buffer of one tensor program.
    BufferId,
    "b"
);

/// What a buffer is to its program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BufferRole {
    /// The n-th input argument.
    Input,
    /// The output argument (exactly one per program).
    Output,
    /// Global memory that the program needs between stages; workspace lifting turns it into an argument.
    Workspace,
}

/// A physical buffer, dense and row-major over `shape`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Buffer {
    /// The name in the text form, unique in the program.
    pub name: String,
    /// Physical extents.
    pub shape: Vec<SymExpr>,
    /// Element type.
    pub dtype: DType,
    /// Role.
    pub role: BufferRole,
}

/// How a loop is used by its stage.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LoopKind {
    /// Its variable occurs in the output index.
    Spatial,
    /// It is summed (or otherwise combined) over.
    Reduce,
}

/// A loop from 0 to `extent`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Loop {
    /// The loop variable, unique in the stage.
    pub var: SymVar,
    /// The extent, over the program's symbolic parameters only.
    pub extent: SymExpr,
    /// Spatial or reduction.
    pub kind: LoopKind,
}

/// A load of one element.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// The buffer.
    pub buffer: BufferId,
    /// One physical index per dimension.
    pub index: Vec<SymExpr>,
}

/// Functions of one scalar. Arithmetic is in the operand's type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum UnaryOp {
    Neg,
    Abs,
    Exp,
    Log,
    Sqrt,
    Rsqrt,
    Tanh,
    Erf,
    Sigmoid,
    Sin,
    Cos,
    Floor,
    Ceil,
    Not,
}

impl UnaryOp {
    /// Every unary function.
    pub const ALL: [UnaryOp; 14] = [
        UnaryOp::Neg,
        UnaryOp::Abs,
        UnaryOp::Exp,
        UnaryOp::Log,
        UnaryOp::Sqrt,
        UnaryOp::Rsqrt,
        UnaryOp::Tanh,
        UnaryOp::Erf,
        UnaryOp::Sigmoid,
        UnaryOp::Sin,
        UnaryOp::Cos,
        UnaryOp::Floor,
        UnaryOp::Ceil,
        UnaryOp::Not,
    ];
    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            UnaryOp::Neg => "neg",
            UnaryOp::Abs => "abs",
            UnaryOp::Exp => "exp",
            UnaryOp::Log => "log",
            UnaryOp::Sqrt => "sqrt",
            UnaryOp::Rsqrt => "rsqrt",
            UnaryOp::Tanh => "tanh",
            UnaryOp::Erf => "erf",
            UnaryOp::Sigmoid => "sigmoid",
            UnaryOp::Sin => "sin",
            UnaryOp::Cos => "cos",
            UnaryOp::Floor => "floor",
            UnaryOp::Ceil => "ceil",
            UnaryOp::Not => "not",
        }
    }
}

/// Functions of two scalars of one type; comparisons give `bool`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
    Pow,
    /// Remainder with the sign of the divisor.
    Mod,
    Less,
    LessEqual,
    Equal,
    And,
    Or,
}

impl BinaryOp {
    /// Every binary function.
    pub const ALL: [BinaryOp; 13] = [
        BinaryOp::Add,
        BinaryOp::Sub,
        BinaryOp::Mul,
        BinaryOp::Div,
        BinaryOp::Min,
        BinaryOp::Max,
        BinaryOp::Pow,
        BinaryOp::Mod,
        BinaryOp::Less,
        BinaryOp::LessEqual,
        BinaryOp::Equal,
        BinaryOp::And,
        BinaryOp::Or,
    ];
    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            BinaryOp::Add => "add",
            BinaryOp::Sub => "sub",
            BinaryOp::Mul => "mul",
            BinaryOp::Div => "div",
            BinaryOp::Min => "min",
            BinaryOp::Max => "max",
            BinaryOp::Pow => "pow",
            BinaryOp::Mod => "mod",
            BinaryOp::Less => "less",
            BinaryOp::LessEqual => "less_equal",
            BinaryOp::Equal => "equal",
            BinaryOp::And => "and",
            BinaryOp::Or => "or",
        }
    }
}

/// A scalar expression evaluated once per iteration.
#[derive(Clone, PartialEq, Debug)]
pub enum Scalar {
    /// A constant of a type.
    Const(f64, DType),
    /// An element of a buffer.
    Load(Access),
    /// An element whose index depends on data (embedding look-up). Negative indices count from the end; others out of range are
    /// clamped to the nearest element, by every implementation, so that no load leaves the buffer.
    Gather {
        /// The buffer.
        buffer: BufferId,
        /// One integer scalar per dimension.
        index: Vec<Scalar>,
    },
    /// An index expression as an `i64` value.
    Index(SymExpr),
    /// What the reduction or contraction produced; only in an epilogue.
    Reduced,
    /// A function of one value.
    Unary(UnaryOp, Box<Scalar>),
    /// A function of two values.
    Binary(BinaryOp, Box<Scalar>, Box<Scalar>),
    /// `if cond { a } else { b }`; only the chosen side is evaluated, so it may guard a load.
    Select(Box<Scalar>, Box<Scalar>, Box<Scalar>),
    /// Conversion to another element type (float to integer truncates and saturates).
    Cast(DType, Box<Scalar>),
}

/// How a reduction combines.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Combiner {
    Sum,
    Max,
    Min,
    Prod,
}

impl Combiner {
    /// Every combiner.
    pub const ALL: [Combiner; 4] = [Combiner::Sum, Combiner::Max, Combiner::Min, Combiner::Prod];
    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            Combiner::Sum => "sum",
            Combiner::Max => "max",
            Combiner::Min => "min",
            Combiner::Prod => "prod",
        }
    }
}

/// What a stage computes for each point of its spatial loops.
#[derive(Clone, PartialEq, Debug)]
pub enum StageBody {
    /// `out[index] = value`; no reduce loops.
    Map(Scalar),
    /// `out[index] = epilogue(combine over the reduce loops of value)`.
    Reduce {
        /// The combiner, starting from its identity.
        combiner: Combiner,
        /// The value combined.
        value: Scalar,
        /// Over [`Scalar::Reduced`].
        epilogue: Scalar,
    },
    /// `out[index] = epilogue(Σ over the reduce loops of a · b)`: matmul and convolution.
    Contract {
        /// First factor.
        a: Access,
        /// Second factor.
        b: Access,
        /// Over [`Scalar::Reduced`].
        epilogue: Scalar,
    },
}

/// One loop nest that writes one buffer.
#[derive(Clone, PartialEq, Debug)]
pub struct Stage {
    /// Outermost first.
    pub loops: Vec<Loop>,
    /// The buffer written.
    pub output: BufferId,
    /// The element written, over the spatial loop variables.
    pub index: Vec<SymExpr>,
    /// What is computed.
    pub body: StageBody,
}

/// Mathematical pattern of a program, found by analysis (Relax algorithm 1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum PatternKind {
    ElementWise,
    Broadcast,
    Injective,
    Reduction,
    /// A contraction into whose output elementwise programs can be fused.
    OutputEwiseFusible,
    Opaque,
}

impl PatternKind {
    /// Every pattern.
    pub const ALL: [PatternKind; 6] = [
        PatternKind::ElementWise,
        PatternKind::Broadcast,
        PatternKind::Injective,
        PatternKind::Reduction,
        PatternKind::OutputEwiseFusible,
        PatternKind::Opaque,
    ];
    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            PatternKind::ElementWise => "element_wise",
            PatternKind::Broadcast => "broadcast",
            PatternKind::Injective => "injective",
            PatternKind::Reduction => "reduction",
            PatternKind::OutputEwiseFusible => "output_ewise_fusible",
            PatternKind::Opaque => "opaque",
        }
    }
}

/// A tensor program.
#[derive(Clone, PartialEq, Debug)]
pub struct TensorProgram {
    /// Unique in the module.
    pub name: String,
    /// Symbolic parameters, passed as extra integer arguments in this order.
    pub sym_params: Vec<SymVar>,
    /// Buffers: inputs in argument order, then the output, then workspaces.
    pub buffers: crate::index::Arena<BufferId, Buffer>,
    /// Executed in order.
    pub stages: Vec<Stage>,
    /// The pattern, once analysed.
    pub kind: Option<PatternKind>,
}

impl TensorProgram {
    /// The input buffers, in argument order.
    pub fn inputs(&self) -> impl Iterator<Item = BufferId> + '_ {
        self.with_role(BufferRole::Input)
    }
    /// The output buffer.
    pub fn output(&self) -> Option<BufferId> {
        self.with_role(BufferRole::Output).next()
    }
    /// The workspaces.
    pub fn workspaces(&self) -> impl Iterator<Item = BufferId> + '_ {
        self.with_role(BufferRole::Workspace)
    }
    fn with_role(&self, role: BufferRole) -> impl Iterator<Item = BufferId> + '_ {
        self.buffers
            .iter()
            .filter(move |(_, b)| b.role == role)
            .map(|(id, _)| id)
    }
}
