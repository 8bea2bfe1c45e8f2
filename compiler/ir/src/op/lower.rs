//! Construction of tensor programs over physical buffers: loop nests follow the physical order of the buffer that is written, and
//! layouts become index maps, simplified under the ranges of the loops.

use super::check::{OpName, unsupported};
use super::scalar::{compute_type, convert};
use super::simplify::{Ranges, simplify};
use super::{LegaliseCall, OpError};
use crate::annotation::{DType, TensorInfo};
use crate::index::Arena;
use crate::layout::{Layout, Split};
use crate::program::{
    Access, Buffer, BufferId, BufferRole, Combiner, Loop, LoopKind, Scalar, Stage, StageBody, TensorProgram,
};
use crate::sym::{SymExpr, SymVar};
use std::collections::BTreeSet;

/// A buffer with the logical tensor that it holds.
#[derive(Clone, Debug)]
pub(super) struct View {
    buffer: BufferId,
    /// Logical extents.
    pub(super) dims: Vec<SymExpr>,
    /// The arrangement.
    pub(super) layout: Layout,
    /// Element type.
    pub(super) dtype: DType,
}

impl View {
    /// The physical place of a logical index.
    pub(super) fn access(&self, logical: &[SymExpr], ranges: &Ranges) -> Access {
        let index = self.layout.physical_index(logical);
        Access {
            buffer: self.buffer,
            index: index.iter().map(|e| simplify(e, ranges)).collect(),
        }
    }
    /// The element as stored.
    pub(super) fn load(&self, logical: &[SymExpr], ranges: &Ranges) -> Scalar {
        Scalar::Load(self.access(logical, ranges))
    }
    /// The element in the type that arithmetic is done in.
    pub(super) fn value(&self, logical: &[SymExpr], ranges: &Ranges) -> Scalar {
        convert(self.load(logical, ranges), self.dtype, compute_type(self.dtype))
    }
    /// An element whose position along `axis` is data; the axis may not be blocked.
    pub(super) fn gather(
        &self,
        op: OpName,
        logical: &[SymExpr],
        axis: usize,
        position: Scalar,
        ranges: &Ranges,
    ) -> Result<Scalar, OpError> {
        if self.layout.block_of(axis as u8) != 1 {
            let problem = format!(
                "layout {} is blocked along axis {axis}, which is looked up",
                self.layout
            );
            return Err(unsupported(op, problem));
        }
        let access = self.access(logical, ranges);
        let pieces = self.layout.splits().iter().zip(access.index);
        let index = pieces.map(|(s, e)| match usize::from(s.axis) == axis {
            true => position.clone(),
            false => Scalar::Index(e),
        });
        Ok(Scalar::Gather {
            buffer: self.buffer,
            index: index.collect(),
        })
    }
    /// The index of this tensor that broadcasting pairs with an index of the result.
    pub(super) fn broadcast_index(
        &self,
        op: OpName,
        result: &[SymExpr],
        result_dims: &[SymExpr],
    ) -> Result<Vec<SymExpr>, OpError> {
        let missing = result_dims.len().checked_sub(self.dims.len());
        let missing = missing.ok_or_else(|| unsupported(op, "an operand has more axes than the result"))?;
        let pairs = self.dims.iter().zip(result.iter().zip(result_dims).skip(missing));
        pairs
            .map(|(own, (index, extent))| match own {
                _ if own == extent => Ok(index.clone()),
                _ if own.is_const(1) => Ok(SymExpr::zero()),
                _ => {
                    let problem = format!("extent {own} is not provably 1 or the result's extent {extent}");
                    Err(unsupported(op, problem))
                }
            })
            .collect()
    }
}

/// The loops of one stage under construction.
#[derive(Clone, Debug)]
pub(super) struct Nest {
    loops: Vec<Loop>,
    /// Ranges of the loop variables and of the symbolic variables.
    pub(super) ranges: Ranges,
    taken: BTreeSet<SymVar>,
}

impl Nest {
    /// Adds a loop, named after its kind and its place among the loops of that kind.
    pub(super) fn add(&mut self, extent: SymExpr, kind: LoopKind) -> SymExpr {
        let prefix = match kind {
            LoopKind::Spatial => "i",
            LoopKind::Reduce => "r",
        };
        let place = self.loops.iter().filter(|l| l.kind == kind).count();
        let mut name = format!("{prefix}{place}");
        while self.taken.contains(&SymVar::new(&name)) {
            name.push('_');
        }
        let var = SymVar::new(&name);
        self.ranges.add_loop(&var, &extent);
        let index = SymExpr::var(&var);
        self.loops.push(Loop { var, extent, kind });
        index
    }
    /// Adds one loop for each piece of the chosen axes, in physical order. Returns the logical index (zero for other axes) and the
    /// loop variables.
    pub(super) fn over(
        &mut self,
        layout: &Layout,
        dims: &[SymExpr],
        chosen: impl Fn(usize) -> bool,
        kind: LoopKind,
    ) -> (Vec<SymExpr>, Vec<SymExpr>) {
        let pieces: Vec<Split> = layout.splits().to_vec();
        let extents = layout.physical_shape(dims);
        let physical: Vec<Option<SymExpr>> = pieces
            .iter()
            .zip(extents)
            .map(|(s, extent)| chosen(usize::from(s.axis)).then(|| self.add(extent, kind)))
            .collect();
        let filled: Vec<SymExpr> = physical.iter().map(|p| p.clone().unwrap_or_default()).collect();
        (
            layout.logical_index(&filled),
            physical.into_iter().flatten().collect(),
        )
    }
}

/// A tensor program under construction.
pub(super) struct Lowering<'a> {
    op: OpName,
    call: &'a LegaliseCall<'a>,
    buffers: Arena<BufferId, Buffer>,
    stages: Vec<Stage>,
    /// The operands, in order.
    pub(super) args: Vec<View>,
    /// The result.
    pub(super) out: View,
}

impl<'a> Lowering<'a> {
    /// Declares the buffers of a call. `operands` is the number of operands that the operator takes, as (least, most).
    pub(super) fn new(
        op: OpName,
        call: &'a LegaliseCall<'a>,
        operands: std::ops::RangeInclusive<usize>,
    ) -> Result<Self, OpError> {
        super::check::arity(op, call.args.len(), operands)?;
        let mut buffers = Arena::new();
        let mut declare = |info: &TensorInfo, name: String, role| {
            let (Some(dims), Some(dtype), Some(layout)) = (info.dims(), info.dtype, info.layout_or_abi())
            else {
                return Err(unsupported(
                    op,
                    format!("the shape or type of {name} is not known"),
                ));
            };
            add_buffer(op, &mut buffers, name, dims.to_vec(), layout, dtype, role)
        };
        let args = call.args.iter().enumerate();
        let args = args
            .map(|(i, info)| declare(info, format!("in{i}"), BufferRole::Input))
            .collect::<Result<Vec<_>, _>>()?;
        let out = declare(&call.out, "out".to_owned(), BufferRole::Output)?;
        Ok(Lowering {
            op,
            call,
            buffers,
            stages: Vec::new(),
            args,
            out,
        })
    }
    /// Declares an intermediate tensor.
    pub(super) fn workspace(
        &mut self,
        name: &str,
        dims: Vec<SymExpr>,
        layout: Layout,
        dtype: DType,
    ) -> Result<View, OpError> {
        let role = BufferRole::Workspace;
        add_buffer(
            self.op,
            &mut self.buffers,
            name.to_owned(),
            dims,
            layout,
            dtype,
            role,
        )
    }
    /// An empty loop nest.
    pub(super) fn nest(&self) -> Nest {
        Nest {
            loops: Vec::new(),
            ranges: Ranges::new(&self.call.syms),
            taken: self.call.syms.iter().map(|d| d.var.clone()).collect(),
        }
    }
    /// Adds a stage that writes every element of `target`: spatial loops in its physical order, then the loops that `body` adds.
    /// `body` gets the logical index of the element.
    pub(super) fn stage(
        &mut self,
        target: &View,
        body: impl FnOnce(&mut Nest, &[SymExpr]) -> Result<StageBody, OpError>,
    ) -> Result<(), OpError> {
        let mut nest = self.nest();
        let (logical, index) = nest.over(&target.layout, &target.dims, |_| true, LoopKind::Spatial);
        let body = body(&mut nest, &logical)?;
        self.stages.push(Stage {
            loops: nest.loops,
            output: target.buffer,
            index,
            body,
        });
        Ok(())
    }
    /// Adds a stage that combines `over` along `axes` into `target`, whose axes are the others (`keep`: with extent 1 in place of the
    /// reduced ones). Reduce loops follow the physical order of `over`. `value` gets the nest, the index into `over` and the index into
    /// `target`.
    pub(super) fn reduce(
        &mut self,
        target: &View,
        over: &View,
        axes: &[usize],
        keep: bool,
        combiner: Combiner,
        value: impl FnOnce(&Nest, &[SymExpr], &[SymExpr]) -> Scalar,
        epilogue: Scalar,
    ) -> Result<(), OpError> {
        let op = self.op;
        self.stage(target, |nest, kept| {
            let (reduced, _) = nest.over(&over.layout, &over.dims, |a| axes.contains(&a), LoopKind::Reduce);
            let mut left = kept.iter();
            let merged = reduced
                .into_iter()
                .enumerate()
                .map(|(axis, r)| match axes.contains(&axis) {
                    true => {
                        if keep {
                            left.next();
                        }
                        Ok(r)
                    }
                    false => left
                        .next()
                        .cloned()
                        .ok_or_else(|| unsupported(op, "the result has too few axes")),
                });
            let index = merged.collect::<Result<Vec<_>, _>>()?;
            Ok(StageBody::Reduce {
                combiner,
                value: value(nest, &index, kept),
                epilogue,
            })
        })
    }
    /// Declares an intermediate tensor with the axes of `like` but for some, in the order that `like`'s layout gives them.
    pub(super) fn statistic(
        &mut self,
        name: &str,
        like: &View,
        removed: &[usize],
        dtype: DType,
    ) -> Result<View, OpError> {
        let dims = like.dims.iter().enumerate().filter(|(a, _)| !removed.contains(a));
        let dims = dims.map(|(_, d)| d.clone()).collect();
        self.workspace(
            name,
            dims,
            without_axes(&like.layout, |a| removed.contains(&a)),
            dtype,
        )
    }
    /// A one-stage program of independent elements.
    pub(super) fn map(
        mut self,
        value: impl FnOnce(&Self, &Nest, &[SymExpr]) -> Result<Scalar, OpError>,
    ) -> Result<TensorProgram, OpError> {
        let mut nest = self.nest();
        let (logical, index) = nest.over(&self.out.layout, &self.out.dims, |_| true, LoopKind::Spatial);
        let value = value(&self, &nest, &logical)?;
        self.stages.push(Stage {
            loops: nest.loops,
            output: self.out.buffer,
            index,
            body: StageBody::Map(value),
        });
        self.finish()
    }
    /// The program. Its symbolic parameters are the variables in scope that it uses.
    pub(super) fn finish(self) -> Result<TensorProgram, OpError> {
        let mut used = BTreeSet::new();
        for (_, buffer) in self.buffers.iter() {
            buffer.shape.iter().for_each(|e| e.collect_vars(&mut used));
        }
        for stage in &self.stages {
            let mut inside = BTreeSet::new();
            stage
                .loops
                .iter()
                .for_each(|l| l.extent.collect_vars(&mut inside));
            stage.index.iter().for_each(|e| e.collect_vars(&mut inside));
            match &stage.body {
                StageBody::Map(value) => scalar_vars(value, &mut inside),
                StageBody::Reduce { value, epilogue, .. } => {
                    scalar_vars(value, &mut inside);
                    scalar_vars(epilogue, &mut inside);
                }
                StageBody::Contract { a, b, epilogue } => {
                    a.index
                        .iter()
                        .chain(&b.index)
                        .for_each(|e| e.collect_vars(&mut inside));
                    scalar_vars(epilogue, &mut inside);
                }
            }
            stage.loops.iter().for_each(|l| {
                inside.remove(&l.var);
            });
            used.append(&mut inside);
        }
        let declared = self.call.syms.iter().map(|d| &d.var);
        let sym_params: Vec<SymVar> = declared.filter(|v| used.remove(*v)).cloned().collect();
        if let Some(stranger) = used.first() {
            return Err(unsupported(
                self.op,
                format!("symbolic variable {stranger} is not in scope"),
            ));
        }
        Ok(TensorProgram {
            name: self.call.name.clone(),
            sym_params,
            buffers: self.buffers,
            stages: self.stages,
            kind: None,
        })
    }
}

fn add_buffer(
    op: OpName,
    buffers: &mut Arena<BufferId, Buffer>,
    name: String,
    dims: Vec<SymExpr>,
    layout: Layout,
    dtype: DType,
    role: BufferRole,
) -> Result<View, OpError> {
    if layout.rank() != dims.len() {
        return Err(unsupported(
            op,
            format!("layout {layout} on {name}, which has rank {}", dims.len()),
        ));
    }
    for (axis, extent) in dims.iter().enumerate() {
        let block = layout.block_of(axis as u8);
        if !extent.modulo(block).is_const(0) {
            let problem =
                format!("layout {layout} on {name}: block {block} does not provably divide extent {extent}");
            return Err(unsupported(op, problem));
        }
    }
    let buffer = buffers.push(Buffer {
        name,
        shape: layout.physical_shape(&dims),
        dtype,
        role,
    });
    Ok(View {
        buffer,
        dims,
        layout,
        dtype,
    })
}

fn scalar_vars(value: &Scalar, out: &mut BTreeSet<SymVar>) {
    match value {
        Scalar::Const(..) | Scalar::Reduced => {}
        Scalar::Load(access) => access.index.iter().for_each(|e| e.collect_vars(out)),
        Scalar::Gather { index, .. } => index.iter().for_each(|s| scalar_vars(s, out)),
        Scalar::Index(e) => e.collect_vars(out),
        Scalar::Unary(_, a) | Scalar::Cast(_, a) => scalar_vars(a, out),
        Scalar::Binary(_, a, b) => [a, b].into_iter().for_each(|s| scalar_vars(s, out)),
        Scalar::Select(c, a, b) => [c, a, b].into_iter().for_each(|s| scalar_vars(s, out)),
    }
}

/// The layout that is left when axes are removed from a tensor.
pub(super) fn without_axes(layout: &Layout, removed: impl Fn(usize) -> bool) -> Layout {
    let rank = layout.rank();
    let kept: Vec<usize> = (0..rank).filter(|a| !removed(*a)).collect();
    let pieces = layout.splits().iter().filter_map(|s| {
        let axis = kept.iter().position(|k| *k == usize::from(s.axis))?;
        Some(Split {
            axis: axis as u8,
            factor: s.factor,
        })
    });
    // Removing whole axes keeps exactly one outer piece for each that is left.
    Layout::new(kept.len(), pieces.collect()).unwrap_or_else(|_| Layout::row_major(kept.len()))
}

/// The layout without the blocks of axes on which `extent` says they do not fit.
pub(super) fn fitting(layout: &Layout, dims: &[SymExpr]) -> Layout {
    let fits = |axis: u8| dims[usize::from(axis)].modulo(layout.block_of(axis)).is_const(0);
    let pieces = layout
        .splits()
        .iter()
        .filter(|s| s.factor.is_none() || fits(s.axis));
    Layout::new(layout.rank(), pieces.copied().collect()).unwrap_or_else(|_| Layout::row_major(layout.rank()))
}
