//! The layout of a tensor: how its logical elements are arranged in memory.
//!
//! A layout is an ordered list (outermost first) of pieces of logical axes. A plain dimension order has one piece per axis
//! (`0,2,3,1` is NHWC for a logical NCHW tensor); a blocked layout splits an axis into an outer piece and inner pieces of
//! fixed factors (`0,1,2,3,1:16` is NCHW16c). The outer piece of an axis of extent `d` split by `f` has extent ⌈d/f⌉; the
//! lanes beyond `d` are padding, whose content is unspecified unless a configuration asks for zeros.

use crate::sym::SymExpr;
use std::fmt;

/// One piece of a logical axis.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Split {
    /// The logical axis.
    pub axis: u8,
    /// `None`: what the inner pieces leave of the axis. `Some(f)`: an inner piece of `f` elements.
    pub factor: Option<u32>,
}

/// Where a tensor lives, for targets that have several memories.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum MemorySpace {
    /// Ordinary device memory.
    #[default]
    Global,
    /// A software-managed on-chip buffer (SBUF of a NeuronCore).
    OnChip,
}

/// An ordered list of axis pieces, and for targets that have them a partition axis and a memory space.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Layout {
    splits: Vec<Split>,
    partition: Option<u8>,
    space: MemorySpace,
}

/// Why a list of splits is not a layout of a tensor of the given rank.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// An axis that the tensor does not have.
    #[error("axis {axis} in a layout of a rank-{rank} tensor")]
    Axis {
        /// The axis named.
        axis: u8,
        /// The rank.
        rank: usize,
    },
    /// An axis without, or with more than one, outer piece.
    #[error("axis {axis} has {outer} outer pieces; exactly one is needed, before its inner pieces")]
    Outer {
        /// The axis.
        axis: u8,
        /// How many outer pieces it has.
        outer: usize,
    },
    /// A block of fewer than two elements.
    #[error("block factor {factor} of axis {axis}; a factor is at least 2")]
    Factor {
        /// The axis.
        axis: u8,
        /// The factor.
        factor: u32,
    },
}

impl Layout {
    /// The ABI layout: logical order, no blocks.
    pub fn row_major(rank: usize) -> Self {
        Self::permuted(&(0..rank as u8).collect::<Vec<_>>())
    }
    /// A plain dimension order, outermost axis first. The caller gives a permutation.
    pub fn permuted(order: &[u8]) -> Self {
        Layout {
            splits: order.iter().map(|&axis| Split { axis, factor: None }).collect(),
            partition: None,
            space: MemorySpace::Global,
        }
    }
    /// A checked layout of a rank-`rank` tensor.
    ///
    /// # Errors
    /// When an axis is out of range, has not exactly one outer piece before its inner pieces, or a factor is below 2.
    pub fn new(rank: usize, splits: Vec<Split>) -> Result<Self, LayoutError> {
        for s in &splits {
            if usize::from(s.axis) >= rank {
                return Err(LayoutError::Axis { axis: s.axis, rank });
            }
            if let Some(factor) = s.factor.filter(|f| *f < 2) {
                return Err(LayoutError::Factor { axis: s.axis, factor });
            }
        }
        for axis in 0..rank as u8 {
            let mut pieces = splits.iter().filter(|s| s.axis == axis);
            let first_is_outer = pieces.next().is_some_and(|s| s.factor.is_none());
            let outer = splits
                .iter()
                .filter(|s| s.axis == axis && s.factor.is_none())
                .count();
            if outer != 1 || !first_is_outer {
                return Err(LayoutError::Outer { axis, outer });
            }
        }
        Ok(Layout {
            splits,
            partition: None,
            space: MemorySpace::Global,
        })
    }
    /// Row-major with one axis blocked innermost: `blocked(4, 1, 16)` is NCHW16c.
    pub fn blocked(rank: usize, axis: u8, factor: u32) -> Self {
        let mut layout = Self::row_major(rank);
        layout.splits.push(Split {
            axis,
            factor: Some(factor),
        });
        layout
    }
    /// The same arrangement with a partition axis.
    pub fn with_partition(mut self, axis: Option<u8>) -> Self {
        self.partition = axis;
        self
    }
    /// The same arrangement in another memory.
    pub fn with_space(mut self, space: MemorySpace) -> Self {
        self.space = space;
        self
    }
    /// The pieces, outermost first.
    pub fn splits(&self) -> &[Split] {
        &self.splits
    }
    /// The partition axis, for targets that have one.
    pub fn partition(&self) -> Option<u8> {
        self.partition
    }
    /// The memory.
    pub fn space(&self) -> MemorySpace {
        self.space
    }
    /// The logical rank.
    pub fn rank(&self) -> usize {
        self.splits.iter().filter(|s| s.factor.is_none()).count()
    }
    /// Whether this is logical order, unblocked, in global memory.
    pub fn is_row_major(&self) -> bool {
        *self == Layout::row_major(self.rank())
    }
    /// Whether any axis is blocked.
    pub fn is_blocked(&self) -> bool {
        self.splits.iter().any(|s| s.factor.is_some())
    }
    /// The dimension order if there are no blocks.
    pub fn as_permutation(&self) -> Option<Vec<u8>> {
        (!self.is_blocked()).then(|| self.splits.iter().map(|s| s.axis).collect())
    }
    /// The product of an axis's inner factors (1 when it is not blocked).
    pub fn block_of(&self, axis: u8) -> i64 {
        self.inner_product(axis, 0)
    }
    /// The product of the inner factors of `axis` at positions ≥ `from`.
    fn inner_product(&self, axis: u8, from: usize) -> i64 {
        self.splits[from..]
            .iter()
            .filter(|s| s.axis == axis)
            .filter_map(|s| s.factor)
            .map(i64::from)
            .product()
    }
    /// The physical shape of a tensor of this logical shape.
    pub fn physical_shape(&self, logical: &[SymExpr]) -> Vec<SymExpr> {
        let extent = |s: &Split| match s.factor {
            Some(f) => SymExpr::constant(i64::from(f)),
            None => logical[usize::from(s.axis)].ceil_div(self.block_of(s.axis)),
        };
        self.splits.iter().map(extent).collect()
    }
    /// The physical index of a logical index.
    pub fn physical_index(&self, logical: &[SymExpr]) -> Vec<SymExpr> {
        let component = |(position, s): (usize, &Split)| {
            let inner = self.inner_product(s.axis, position + 1);
            let quotient = logical[usize::from(s.axis)].floor_div(inner);
            match s.factor {
                Some(f) => quotient.modulo(i64::from(f)),
                None => quotient,
            }
        };
        self.splits.iter().enumerate().map(component).collect()
    }
    /// The logical index of a physical index (one expression per piece).
    pub fn logical_index(&self, physical: &[SymExpr]) -> Vec<SymExpr> {
        let mut logical = vec![SymExpr::zero(); self.rank()];
        for (position, (s, index)) in self.splits.iter().zip(physical).enumerate() {
            let stride = SymExpr::constant(self.inner_product(s.axis, position + 1));
            let axis = usize::from(s.axis);
            logical[axis] = logical[axis].clone() + index.clone() * stride;
        }
        logical
    }
}

/// `(0,2,3,1)`, `(0,1,2,3,1:16)`, `(0,1)@p1`, `(0,1)@p0@onchip`.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (i, s) in self.splits.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{}", s.axis)?;
            if let Some(factor) = s.factor {
                write!(f, ":{factor}")?;
            }
        }
        f.write_str(")")?;
        if let Some(p) = self.partition {
            write!(f, "@p{p}")?;
        }
        if self.space == MemorySpace::OnChip {
            f.write_str("@onchip")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
