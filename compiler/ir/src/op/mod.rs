//! The operator registry: for each operator its shape deduction, its reference semantics, its legalisation and its layout
//! rule. One file per family of operators; `README.md` beside this file is the table of names, operands and attributes.

mod axes;
mod binary;
mod check;
mod conv;
mod create;
mod gather;
mod matmul;
mod normalise;
mod pieces;
mod pool;
mod reduce;
mod relayout;
mod reshape;
mod scan;
mod select;
mod softmax;
mod unary;

use crate::annotation::{Annotation, TensorInfo};
use crate::graph::Attrs;
use crate::program::TensorProgram;
use crate::sym::SymExpr;
use crate::tensor::{RefValue, Tensor};
use std::sync::LazyLock;

/// An operator of the registry; an index into [`all`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(u16);

/// Why an operator does not accept its operands or attributes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpError {
    /// Wrong number of operands.
    #[error("{op} takes {expected} operands, found {found}")]
    Arity {
        /// The operator.
        op: &'static str,
        /// What it takes, in words.
        expected: String,
        /// What was given.
        found: usize,
    },
    /// An operand of the wrong kind, rank, type or shape.
    #[error("{op}: operand {operand}: expected {expected}, found {found}")]
    Operand {
        /// The operator.
        op: &'static str,
        /// Position.
        operand: usize,
        /// Expected.
        expected: String,
        /// Found.
        found: String,
    },
    /// A missing, unknown or ill-typed attribute.
    #[error("{op}: attribute `{attr}`: {problem}")]
    Attribute {
        /// The operator.
        op: &'static str,
        /// The attribute.
        attr: String,
        /// What is wrong, with what is expected.
        problem: String,
    },
    /// Something a reference or a legalisation can't do.
    #[error("{op}: {problem}")]
    Unsupported {
        /// The operator.
        op: &'static str,
        /// What.
        problem: String,
    },
}

/// How the layouts of an operator's operands and result hang together. Extraction enumerates configurations from this; any
/// combination that the rule allows can be legalised.
#[derive(Clone, PartialEq, Debug)]
pub enum LayoutRule {
    /// Result dimension i is dimension i of every operand, aligned to the right; broadcast operands take the projection
    /// of the result's layout (drop missing axes; extent-1 axes unblocked). Fusible into a producer when elementwise.
    Elementwise,
    /// Operand dimension i is result dimension i, except the axes named, which are read whole (softmax, normalisation, cumulative
    /// sum). Operands after the first are per-axis parameters in the ABI layout.
    AlongAxes(Vec<u8>),
    /// Axes are removed (`keep` false) or become extent 1 (`keep` true).
    Reduce {
        /// Reduced axes.
        axes: Vec<u8>,
        /// Whether they stay as extent 1.
        keep: bool,
    },
    /// Result axis i is operand axis `perm[i]`: an alias under the permuted layout.
    Permute(Vec<u8>),
    /// A reshape: an alias where the layouts are compatible.
    Reshape,
    /// Two-dimensional convolution: x NCHW, weight OIHW, result NCHW (logical).
    Conv2d {
        /// Groups.
        groups: i64,
    },
    /// Two-dimensional pooling over the last two axes of NCHW.
    Pool2d,
    /// Batched matmul `[..., m, k] × [..., k, n]`.
    Matmul,
    /// Pieces or look-ups along one axis (concat, slice, take, split): other axes as in `Elementwise`.
    AxisPieces(u8),
    /// Every operand and the result in the ABI layout.
    AbiOnly,
}

/// The operands and result of a call whose layouts have been chosen.
#[derive(Clone, PartialEq, Debug)]
pub struct LegaliseCall<'a> {
    /// Operands with logical shapes, types and layouts.
    pub args: Vec<TensorInfo>,
    /// The result.
    pub out: TensorInfo,
    /// Attributes.
    pub attrs: &'a Attrs,
    /// The name the program shall have.
    pub name: String,
    /// The symbolic variables in scope; the program takes those it uses, in this order.
    pub syms: Vec<crate::graph::SymDecl>,
}

/// An operator.
pub trait Operator: Sync {
    /// The name in the text form, such as `conv2d`.
    fn name(&self) -> &'static str;
    /// Forward shape deduction (Relax §3.4.3): the annotation of the result, as precise as the operands allow.
    ///
    /// # Errors
    /// When the operands or attributes are not acceptable.
    fn infer(&self, args: &[&Annotation], attrs: &Attrs) -> Result<Annotation, OpError>;
    /// Plain reference semantics on logical values, written for clarity. Shape attributes are evaluated with `eval`.
    ///
    /// # Errors
    /// When the operands are not acceptable at run time.
    fn evaluate(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        let _ = (args, attrs, eval);
        Err(check::unsupported(self.name(), "no reference"))
    }
    /// The same semantics by fast means (contractions by library); tested against [`Operator::evaluate`].
    ///
    /// # Errors
    /// As `evaluate`.
    fn evaluate_fast(
        &self,
        args: &[RefValue],
        attrs: &Attrs,
        eval: &dyn Fn(&SymExpr) -> Option<i64>,
    ) -> Result<RefValue, OpError> {
        self.evaluate(args, attrs, eval)
    }
    /// The tensor program that computes the call on physical buffers. Operands that are shape values are not buffers.
    ///
    /// # Errors
    /// When a layout is not one that the layout rule allows, or a shape is not known.
    fn legalise(&self, call: &LegaliseCall<'_>) -> Result<TensorProgram, OpError> {
        let _ = call;
        Err(check::unsupported(self.name(), "no legalisation"))
    }
    /// How layouts hang together for these operands.
    fn layout_rule(&self, args: &[&Annotation], attrs: &Attrs) -> LayoutRule;
}

/// Shorthand used by operator files.
pub type TensorArg = std::sync::Arc<Tensor>;

/// Every operator, sorted by name.
pub fn all() -> &'static [&'static dyn Operator] {
    static ALL: LazyLock<Vec<&'static dyn Operator>> = LazyLock::new(|| {
        let single: [&'static dyn Operator; 29] = [
            &select::Cast,
            &select::Where,
            &matmul::Matmul,
            &conv::Conv2d,
            &pool::Pool2d::Max,
            &pool::Pool2d::Avg,
            &softmax::Softmax::Plain,
            &softmax::Softmax::Log,
            &normalise::LayerNorm,
            &normalise::RmsNorm,
            &normalise::BatchNorm,
            &normalise::GroupNorm,
            &reshape::Reshape,
            &axes::Permute,
            &axes::ExpandDims,
            &axes::Squeeze,
            &axes::BroadcastTo,
            &pieces::Concat,
            &pieces::Slice,
            &pieces::Split,
            &pieces::Pad,
            &gather::Take,
            &gather::Resize2d,
            &create::Arange,
            &create::Full,
            &create::TrilMask,
            &scan::Cumsum,
            &scan::Argmax,
            &relayout::LayoutTransform,
        ];
        let mut all: Vec<_> = single.into_iter().collect();
        all.extend(unary::operators());
        all.extend(binary::operators());
        all.extend(reduce::operators());
        all.sort_unstable_by_key(|op| op.name());
        all
    });
    &ALL
}

/// The operator of a name.
pub fn by_name(name: &str) -> Option<OpId> {
    all()
        .binary_search_by(|op| op.name().cmp(name))
        .ok()
        .and_then(|i| u16::try_from(i).ok())
        .map(OpId)
}

impl OpId {
    /// The operator.
    pub fn get(self) -> &'static dyn Operator {
        all()[usize::from(self.0)]
    }
    /// The name.
    pub fn name(self) -> &'static str {
        self.get().name()
    }
}

impl std::fmt::Debug for OpId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
