//! How one stage is computed, as data: the loop order, the register tile, the vector loop and the order of its reductions.
//!
//! Rules, after the analysis-based scheduling of Relax (§4.6 there), in order:
//! 1. The vector loop is the one that is contiguous in the output. If a factor of a contraction is not contiguous along it but both are
//!    along a reduction, lanes are partial sums of that reduction (*dot* form).
//! 2. Register tile: of all pairs of spatial loops and counts that fit the register file, the one with the best modelled
//!    multiply-adds per cycle (two FMA, two loads per cycle, latency four) times its coverage of the extents.
//! 3. Loops outside the tile: the order with the least modelled traffic of the two factors.

use crate::affine::{self, Ranges, stride};
use crate::target::Target;
use relayout_ir::annotation::DType;
use relayout_ir::index::Arena;
use relayout_ir::program::{
    Access, BinaryOp, Buffer, BufferId, Loop, LoopKind, Scalar, Stage, StageBody, UnaryOp,
};
use relayout_ir::sym::{SymExpr, SymVar};

/// What an unknown extent is taken for.
pub(crate) const UNKNOWN_EXTENT: i64 = 128;

/// A loop outside the register tile: `var` takes the values 0, step, 2·step, …. Where the extent is constant and at least
/// `step`, the last value is `extent − step`, so that the last tile overlaps its neighbour instead of needing a remainder: both
/// write the same values.
#[derive(Clone, PartialEq, Debug)]
pub struct Item {
    /// The loop variable.
    pub var: SymVar,
    /// Its extent.
    pub extent: SymExpr,
    /// Elements per iteration.
    pub step: i64,
}

/// A loop of the register tile: the tile has elements at these distances from the tile's start.
#[derive(Clone, PartialEq, Debug)]
pub struct RegisterDim {
    /// The loop variable; its value is the tile's start.
    pub var: SymVar,
    /// Distances, the first is 0.
    pub offsets: Vec<i64>,
}

/// How a stage uses vectors.
#[derive(Clone, PartialEq, Debug)]
pub enum Vectors {
    /// One scalar at a time.
    None,
    /// Lanes are consecutive values of a spatial loop that is contiguous in the output; `dim` gives the vectors of the tile.
    Spatial {
        /// Vectors of the tile.
        dim: RegisterDim,
        /// Lanes of a vector.
        lanes: usize,
    },
    /// A copy that exchanges the contiguous loops of both sides: squares of `lanes` × `lanes` elements are transposed in registers.
    Transpose {
        /// The loop that is contiguous in the output.
        along_output: SymVar,
        /// The loop that is contiguous in what is read.
        along_input: SymVar,
        /// Side of the square.
        lanes: usize,
    },
    /// Lanes are partial results of a reduction loop that is contiguous in what is read.
    Reduction {
        /// The reduction loop's variable.
        var: SymVar,
        /// Lanes of a vector.
        lanes: usize,
        /// Vectors per iteration, each with its own accumulator.
        unroll: usize,
    },
}

/// A stage with everything that the printer needs.
#[derive(Clone, PartialEq, Debug)]
pub struct StagePlan {
    /// The stage in normal form (flat offsets, loops merged); its loops are those of `outer`, the tile and `reduce` together.
    pub stage: Stage,
    /// Loops outside the tile, outermost first; the first `parallel` of them may be the phase's range.
    pub outer: Vec<Item>,
    /// The register tile's scalar loops.
    pub dims: Vec<RegisterDim>,
    /// The vector loop.
    pub vectors: Vectors,
    /// Reduction loops, outermost first.
    pub reduce: Vec<Loop>,
}

/// Plans one stage: normal form, vectors, register tile, loop order.
pub fn plan_stage(
    stage: &Stage,
    buffers: &Arena<BufferId, Buffer>,
    ranges: &Ranges,
    target: &Target,
) -> StagePlan {
    let stage = affine::normalise(stage, buffers, ranges);
    let typed = Typing {
        buffers,
        stage: &stage,
    };
    if typed.is_f32() {
        if let Some(plan) = spatial_plan(&stage, buffers, target) {
            return plan;
        }
        if let Some(plan) = reduction_plan(&stage, target) {
            return plan;
        }
        if let Some(plan) = transpose_plan(&stage, target) {
            return plan;
        }
    }
    scalar_plan(stage)
}

/// Types of the scalars of a stage.
pub struct Typing<'a> {
    /// The program's buffers.
    pub buffers: &'a Arena<BufferId, Buffer>,
    /// The stage.
    pub stage: &'a Stage,
}

impl Typing<'_> {
    /// The type of what a reduction or contraction produces: floats accumulate in `f32`, integer contractions in `i32`, or in
    /// `i64` when a factor is.
    pub fn reduced(&self) -> DType {
        match &self.stage.body {
            StageBody::Map(_) => DType::F32,
            StageBody::Reduce { value, .. } => match self.of(value) {
                t if t.is_float() => DType::F32,
                t => t,
            },
            StageBody::Contract { a, b, .. } => {
                let (a, b) = (self.buffers[a.buffer].dtype, self.buffers[b.buffer].dtype);
                if a.is_float() {
                    DType::F32
                } else if a == DType::I64 || b == DType::I64 {
                    DType::I64
                } else {
                    DType::I32
                }
            }
        }
    }
    /// The type of a scalar.
    pub fn of(&self, s: &Scalar) -> DType {
        match s {
            Scalar::Const(_, t) | Scalar::Cast(t, _) => *t,
            Scalar::Load(a) => self.buffers[a.buffer].dtype,
            Scalar::Gather { buffer, .. } => self.buffers[*buffer].dtype,
            Scalar::Index(_) => DType::I64,
            Scalar::Reduced => self.reduced(),
            Scalar::Unary(UnaryOp::Not, _) => DType::Bool,
            Scalar::Unary(_, a) => self.of(a),
            Scalar::Binary(
                BinaryOp::Less | BinaryOp::LessEqual | BinaryOp::Equal | BinaryOp::And | BinaryOp::Or,
                _,
                _,
            ) => DType::Bool,
            Scalar::Binary(_, a, _) | Scalar::Select(_, a, _) => self.of(a),
        }
    }
    fn is_f32(&self) -> bool {
        let body = match &self.stage.body {
            StageBody::Map(v) => self.of(v) == DType::F32,
            StageBody::Reduce { value, epilogue, .. } => {
                self.of(value) == DType::F32 && self.of(epilogue) == DType::F32
            }
            StageBody::Contract { a, b, epilogue } => {
                self.buffers[a.buffer].dtype == DType::F32
                    && self.buffers[b.buffer].dtype == DType::F32
                    && self.of(epilogue) == DType::F32
            }
        };
        body && self.buffers[self.stage.output].dtype == DType::F32
    }
}

fn spatial(stage: &Stage) -> impl Iterator<Item = &Loop> {
    stage.loops.iter().filter(|l| l.kind == LoopKind::Spatial)
}

fn reduce_loops(stage: &Stage) -> Vec<Loop> {
    stage
        .loops
        .iter()
        .filter(|l| l.kind == LoopKind::Reduce)
        .cloned()
        .collect()
}

/// Nested scalar loops in the order given. A map that only rearranges memory is blocked so that both sides are walked by
/// cache lines.
fn scalar_plan(stage: Stage) -> StagePlan {
    let mut outer: Vec<Item> = spatial(&stage)
        .map(|l| Item {
            var: l.var.clone(),
            extent: l.extent.clone(),
            step: 1,
        })
        .collect();
    // The loop that is contiguous in the output goes innermost.
    if let Some(i) = outer
        .iter()
        .position(|i| stride(&stage.index[0], &i.var).is_some_and(|s| s.is_const(1)))
    {
        let item = outer.remove(i);
        outer.push(item);
    }
    StagePlan {
        outer,
        dims: Vec::new(),
        vectors: Vectors::None,
        reduce: reduce_loops(&stage),
        stage,
    }
}

/// Whether a scalar can be computed on vectors along `v` better than lane by lane.
fn vectorises(s: &Scalar, v: &SymVar, buffers: &Arena<BufferId, Buffer>) -> bool {
    if !depends(s, v) {
        return true;
    }
    match s {
        Scalar::Const(..) | Scalar::Reduced => true,
        Scalar::Load(a) => {
            buffers[a.buffer].dtype == DType::F32
                && stride(&a.index[0], v).is_some_and(|s| s.as_const().is_some())
        }
        Scalar::Gather { .. } | Scalar::Index(_) | Scalar::Cast(..) => false,
        Scalar::Unary(op, a) => *op != UnaryOp::Not && vectorises(a, v, buffers),
        Scalar::Binary(op, a, b) => {
            !matches!(op, BinaryOp::And | BinaryOp::Or)
                && vectorises(a, v, buffers)
                && vectorises(b, v, buffers)
        }
        Scalar::Select(c, a, b) => {
            let guards_loads = depends(c, v) && (has_load(a) || has_load(b));
            let condition = !depends(c, v)
                || matches!(&**c, Scalar::Binary(BinaryOp::Less | BinaryOp::LessEqual | BinaryOp::Equal, x, y)
                    if vectorises(x, v, buffers) && vectorises(y, v, buffers) && !is_index(x) && !is_index(y));
            !guards_loads && condition && vectorises(a, v, buffers) && vectorises(b, v, buffers)
        }
    }
}

fn is_index(s: &Scalar) -> bool {
    matches!(s, Scalar::Index(_))
}

fn has_load(s: &Scalar) -> bool {
    let mut found = false;
    affine::visit_scalar(s, &mut |s| {
        found |= matches!(s, Scalar::Load(_) | Scalar::Gather { .. })
    });
    found
}

/// Whether a scalar has a part that varies with `v` (what a reduction produced does).
pub fn depends(s: &Scalar, v: &SymVar) -> bool {
    let mut found = false;
    affine::visit_scalar(s, &mut |s| {
        found |= match s {
            Scalar::Reduced => true,
            Scalar::Index(e) => affine::mentions(e, v),
            Scalar::Load(a) => a.index.iter().any(|e| affine::mentions(e, v)),
            _ => false,
        };
    });
    found
}

/// The strides along `v` of everything that a stage reads for every iteration of its reductions.
fn reads(stage: &Stage) -> Vec<Access> {
    match &stage.body {
        StageBody::Contract { a, b, .. } => vec![a.clone(), b.clone()],
        StageBody::Map(v) | StageBody::Reduce { value: v, .. } => {
            let mut out = Vec::new();
            affine::visit_loads(v, &mut |a| out.push(a.clone()));
            out
        }
    }
}

fn const_stride(a: &Access, v: &SymVar) -> Option<i64> {
    stride(&a.index[0], v).and_then(|s| s.as_const())
}

/// Vectors along the loop that is contiguous in the output.
fn spatial_plan(stage: &Stage, buffers: &Arena<BufferId, Buffer>, target: &Target) -> Option<StagePlan> {
    let v = spatial(stage)
        .find(|l| stride(&stage.index[0], &l.var).is_some_and(|s| s.is_const(1)))?
        .clone();
    let values = affine::body_scalars(&stage.body);
    if !values.iter().all(|s| vectorises(s, &v.var, buffers)) {
        return None;
    }
    let reads = reads(stage);
    let strides: Option<Vec<i64>> = reads.iter().map(|a| const_stride(a, &v.var)).collect();
    let strides = strides?;
    let contraction = matches!(stage.body, StageBody::Contract { .. });
    let reducing = !matches!(stage.body, StageBody::Map(_));
    let good = |s: &i64| (0..=2).contains(s);
    if contraction && (!strides.iter().all(good) || !strides.contains(&1) && !strides.contains(&2)) {
        return None;
    }
    if reducing && !contraction && !strides.iter().all(good) {
        return None;
    }
    if !reducing && strides.iter().any(|s| !good(s)) && !strides.contains(&1) {
        // A map that only gathers: the scalar form with blocked loops is better.
        return None;
    }
    let extent = v.extent.as_const();
    let lanes = match extent {
        Some(e) if e < 4 => return None,
        Some(e) => (target.lanes() as i64).min(if e >= 16 {
            16
        } else if e >= 8 {
            8
        } else {
            4
        }),
        None => target.lanes() as i64,
    };
    let tile = choose_tile(stage, &v, lanes, reducing, target);
    let reduce = order_reductions(stage, &v.var);
    let outer = order_outer(stage, &v.var, &tile, target);
    Some(StagePlan {
        stage: stage.clone(),
        outer,
        dims: tile.dims,
        vectors: Vectors::Spatial {
            dim: tile.vector,
            lanes: usize::try_from(lanes).ok()?,
        },
        reduce,
    })
}

struct Tile {
    vector: RegisterDim,
    dims: Vec<RegisterDim>,
    /// Elements that the tile covers of each tiled loop.
    cover: Vec<(SymVar, i64)>,
}

/// Vectors of `lanes` that cover `count` of them within `extent`: equally spaced, the last one moved back into the extent.
fn vector_offsets(extent: Option<i64>, lanes: i64, count: i64) -> Vec<i64> {
    (0..count)
        .map(|i| match extent {
            Some(e) if count * lanes > e => (i * lanes).min(e - lanes),
            _ => i * lanes,
        })
        .collect()
}

/// Fraction of useful work when an extent is covered by tiles of `size`.
fn coverage(extent: Option<i64>, size: i64) -> f64 {
    match extent {
        Some(e) => e as f64 / ((e + size - 1) / size * size) as f64,
        None => 1.0,
    }
}

fn choose_tile(stage: &Stage, v: &Loop, lanes: i64, reducing: bool, target: &Target) -> Tile {
    let registers = target.registers() as f64;
    let extent = v.extent.as_const();
    let most_vectors = extent.map_or(4, |e| (e + lanes - 1) / lanes).clamp(1, 4);
    // Tiling pays where an accumulator is reused; a map only unrolls its vector loop.
    let others: Vec<&Loop> = if reducing {
        spatial(stage)
            .filter(|l| l.var != v.var && l.extent.as_const() != Some(1))
            .collect()
    } else {
        Vec::new()
    };
    let reads = reads(stage);
    let varies = |a: &Access, l: &Loop| affine::mentions(&a.index[0], &l.var);
    let mut best: (f64, i64, Vec<(usize, i64)>) = (0.0, 1, Vec::new());
    let counts = |l: &Loop| -> Vec<i64> {
        let most = l.extent.as_const().unwrap_or(14).min(14);
        (1..=most).collect()
    };
    let contraction = matches!(stage.body, StageBody::Contract { .. });
    let consider = |best: &mut (f64, i64, Vec<(usize, i64)>), u: i64, dims: &[(usize, i64)]| {
        let tile: i64 = dims.iter().map(|d| d.1).product::<i64>() * u;
        // Distinct loads per reduction step, and registers that they occupy.
        let mut loads = 0.0;
        let mut held = 0.0f64;
        let mut streamed = 0.0f64;
        for a in &reads {
            let mut n = dims
                .iter()
                .filter(|(i, _)| varies(a, others[*i]))
                .map(|d| d.1)
                .product::<i64>() as f64;
            let along = const_stride(a, &v.var).unwrap_or(0);
            if along != 0 {
                n *= u as f64;
                held += if contraction { n } else { 1.0 };
                streamed = streamed.max(n);
            } else {
                held += 1.0;
            }
            loads += if along == 2 { 2.5 * n } else { n };
        }
        // One register stays free for broadcasts in flight and addresses' temporaries.
        if tile as f64 + held.min(registers / 2.0) > registers - f64::from(u8::from(contraction)) {
            return;
        }
        let covered = coverage(extent, u * lanes).max(if u == most_vectors && extent.is_some() {
            extent.map_or(1.0, |e| e as f64 / ((e + lanes - 1) / lanes * lanes) as f64)
        } else {
            0.0
        });
        let covered = dims.iter().fold(covered, |c, (i, n)| {
            c * coverage(others[*i].extent.as_const(), *n)
        });
        // Two multiply-adds and two loads per cycle, a latency of four, vectors of the packed factor from the second-level
        // cache, and the loop itself.
        let cycles = (tile as f64 / 2.0).max(loads / 2.0).max(4.0).max(streamed * 1.5) + 0.5;
        let rate = tile as f64 / cycles * covered;
        // Rows of vectors cost more than vectors side by side (measured on NCHW 3×3: 36 against 66 GFLOP/s).
        let rows = dims.iter().any(|(i, n)| {
            *n > 1
                && reads
                    .iter()
                    .any(|a| const_stride(a, &v.var) != Some(0) && varies(a, others[*i]))
        });
        let rate = if contraction && rows && u < most_vectors {
            0.7 * rate
        } else {
            rate
        };
        // A larger tile only for a real gain: it costs code and remainder.
        if rate > best.0 * 1.02 {
            *best = (rate, u, dims.iter().copied().filter(|d| d.1 > 1).collect());
        }
    };
    for u in 1..=most_vectors {
        consider(&mut best, u, &[]);
        for i in (0..others.len()).rev() {
            for n in counts(others[i]) {
                consider(&mut best, u, &[(i, n)]);
                for j in (0..i).rev() {
                    if others[i].extent.as_const().is_none() && others[j].extent.as_const().is_none() {
                        continue;
                    }
                    for m in counts(others[j]) {
                        if n > 1 && m > 1 {
                            consider(&mut best, u, &[(i, n), (j, m)]);
                        }
                    }
                }
            }
        }
    }
    let (_, u, dims) = best;
    let size = extent.map_or(u * lanes, |e| (u * lanes).min(e));
    let mut cover = vec![(v.var.clone(), size)];
    cover.extend(dims.iter().map(|(i, n)| (others[*i].var.clone(), *n)));
    Tile {
        vector: RegisterDim {
            var: v.var.clone(),
            offsets: vector_offsets(extent, lanes, u),
        },
        dims: dims
            .iter()
            .map(|(i, n)| RegisterDim {
                var: others[*i].var.clone(),
                offsets: (0..*n).collect(),
            })
            .collect(),
        cover,
    }
}

/// Reductions with the largest stride of the vector factor outermost, so that packed weights are read in order.
fn order_reductions(stage: &Stage, v: &SymVar) -> Vec<Loop> {
    let mut loops = reduce_loops(stage);
    let reads = reads(stage);
    let factor = reads
        .iter()
        .find(|a| const_stride(a, v).is_some_and(|s| s != 0))
        .or(reads.first());
    if let Some(a) = factor {
        let strides: Option<Vec<i64>> = loops.iter().map(|l| const_stride(a, &l.var)).collect();
        if strides.is_some() {
            loops.sort_by_key(|l| std::cmp::Reverse(const_stride(a, &l.var).unwrap_or(0)));
        }
    }
    loops
}

/// Loops outside the tile, ordered by the traffic of a contraction's two factors.
fn order_outer(stage: &Stage, v: &SymVar, tile: &Tile, target: &Target) -> Vec<Item> {
    let items: Vec<Item> = spatial(stage)
        .filter_map(|l| {
            let step = tile.cover.iter().find(|c| c.0 == l.var).map_or(1, |c| c.1);
            (l.extent.as_const() != Some(step)).then(|| Item {
                var: l.var.clone(),
                extent: l.extent.clone(),
                step,
            })
        })
        .collect();
    let StageBody::Contract { a, b, .. } = &stage.body else {
        // The contiguous loop innermost.
        let (last, mut first): (Vec<Item>, Vec<Item>) = items.into_iter().partition(|i| i.var == *v);
        first.extend(last);
        return first;
    };
    let (weights, other) = if const_stride(a, v).is_some_and(|s| s != 0) {
        (a, b)
    } else {
        (b, a)
    };
    let in_weights = |i: &Item| affine::mentions(&weights.index[0], &i.var);
    let in_other = |i: &Item| affine::mentions(&other.index[0], &i.var);
    let both: Vec<Item> = items
        .iter()
        .filter(|i| in_weights(i) && in_other(i))
        .cloned()
        .collect();
    let only_w: Vec<Item> = items
        .iter()
        .filter(|i| in_weights(i) && !in_other(i))
        .cloned()
        .collect();
    let only_o: Vec<Item> = items.iter().filter(|i| !in_weights(i)).cloned().collect();
    let extent = |e: &SymExpr| e.as_const().unwrap_or(UNKNOWN_EXTENT);
    let size = |a: &Access| -> f64 {
        stage
            .loops
            .iter()
            .filter(|l| affine::mentions(&a.index[0], &l.var))
            .map(|l| extent(&l.extent) as f64)
            .product::<f64>()
            * 4.0
    };
    let count = |items: &[Item]| {
        items
            .iter()
            .map(|i| (extent(&i.extent) as f64 / i.step as f64).ceil())
            .product::<f64>()
    };
    let l2 = target.caches.l2 as f64 / 2.0;
    let again = |bytes: f64| if bytes <= l2 { 0.25 } else { 1.0 };
    // Weights outside: the other factor is read once per weight tile. Weights inside all but the innermost other loop.
    let outside = size(weights) + size(other) * count(&only_w) * again(size(other));
    let rows = &only_o[..only_o.len().saturating_sub(1)];
    let inside = size(other) + size(weights) * count(rows).max(1.0) * again(size(weights));
    let mut out = both;
    if outside <= inside || rows.is_empty() {
        out.extend(only_w);
        out.extend(only_o);
    } else {
        let (rows, last) = only_o.split_at(only_o.len() - 1);
        out.extend(rows.iter().cloned());
        out.extend(only_w);
        out.extend(last.iter().cloned());
    }
    out
}

/// Squares of a copy whose two sides are contiguous along different loops.
fn transpose_plan(stage: &Stage, target: &Target) -> Option<StagePlan> {
    let StageBody::Map(Scalar::Load(a)) = &stage.body else {
        return None;
    };
    let contiguous = |e: &SymExpr| {
        spatial(stage)
            .find(|l| stride(e, &l.var).is_some_and(|s| s.is_const(1)))
            .cloned()
    };
    let (v, w) = (contiguous(&stage.index[0])?, contiguous(&a.index[0])?);
    let affine =
        |l: &Loop| stride(&stage.index[0], &l.var).is_some() && stride(&a.index[0], &l.var).is_some();
    if v.var == w.var || !affine(&v) || !affine(&w) {
        return None;
    }
    let shortest = [&v, &w].iter().filter_map(|l| l.extent.as_const()).min();
    let lanes = [8usize, 4]
        .into_iter()
        .find(|l| *l <= target.lanes().max(4) && shortest.is_none_or(|e| e >= *l as i64))?;
    let item = |l: &Loop, step: i64| Item {
        var: l.var.clone(),
        extent: l.extent.clone(),
        step,
    };
    let mut outer: Vec<Item> = spatial(stage)
        .filter(|l| l.var != v.var && l.var != w.var)
        .map(|l| item(l, 1))
        .collect();
    // The shorter loop inside: its lines stay in the cache until their other half is needed.
    let mut tiles = [item(&v, lanes as i64), item(&w, lanes as i64)];
    tiles.sort_by_key(|i| std::cmp::Reverse(i.extent.as_const().unwrap_or(UNKNOWN_EXTENT)));
    outer.extend(tiles);
    Some(StagePlan {
        outer,
        dims: Vec::new(),
        vectors: Vectors::Transpose {
            along_output: v.var,
            along_input: w.var,
            lanes,
        },
        reduce: Vec::new(),
        stage: stage.clone(),
    })
}

/// Lanes along a reduction that is contiguous in everything that varies with it.
fn reduction_plan(stage: &Stage, target: &Target) -> Option<StagePlan> {
    let reads = reads(stage);
    let value = match &stage.body {
        StageBody::Map(_) => return None,
        StageBody::Reduce { value, .. } => Some(value),
        StageBody::Contract { .. } => None,
    };
    let lanes = target.lanes() as i64;
    let r = stage.loops.iter().find(|l| {
        l.kind == LoopKind::Reduce
            && l.extent.as_const().is_none_or(|e| e >= 2 * lanes)
            && reads.iter().any(|a| const_stride(a, &l.var) == Some(1))
            && reads
                .iter()
                .all(|a| matches!(const_stride(a, &l.var), Some(0 | 1)))
    })?;
    if let Some(value) = value {
        let mut plain = true;
        affine::visit_scalar(value, &mut |s| {
            plain &= !matches!(
                s,
                Scalar::Gather { .. } | Scalar::Index(_) | Scalar::Cast(..) | Scalar::Select(..)
            );
        });
        if !plain {
            return None;
        }
    }
    // Rows and columns of dot products in registers: each load serves several products.
    let contraction = value.is_none();
    let mut dims = Vec::new();
    if contraction {
        let StageBody::Contract { a, b, .. } = &stage.body else {
            return None;
        };
        let only = |x: &Access, y: &Access| {
            spatial(stage)
                .filter(|l| affine::mentions(&x.index[0], &l.var) && !affine::mentions(&y.index[0], &l.var))
                .last()
                .cloned()
        };
        for (l, most) in [(only(a, b), 3), (only(b, a), 4)] {
            let Some(l) = l else { continue };
            let n = match l.extent.as_const() {
                Some(e) => e.min(most),
                None => most,
            };
            // One symbolic loop at most, since each needs remainder code.
            let symbolic = l.extent.as_const().is_none();
            let another = dims.iter().any(|d: &(Loop, i64)| d.0.extent.as_const().is_none());
            if n > 1 && !(symbolic && another) {
                dims.push((l, n));
            }
        }
    }
    let tile: i64 = dims.iter().map(|d| d.1).product();
    let unroll = if tile >= 4 {
        1
    } else if tile >= 2 {
        2
    } else {
        4
    };
    let outer = spatial(stage)
        .filter_map(|l| {
            let step = dims.iter().find(|d| d.0.var == l.var).map_or(1, |d| d.1);
            (l.extent.as_const() != Some(step)).then(|| Item {
                var: l.var.clone(),
                extent: l.extent.clone(),
                step,
            })
        })
        .collect();
    let mut reduce = reduce_loops(stage);
    reduce.retain(|l| l.var != r.var);
    reduce.push(r.clone());
    Some(StagePlan {
        outer,
        dims: dims
            .into_iter()
            .map(|(l, n)| RegisterDim {
                var: l.var,
                offsets: (0..n).collect(),
            })
            .collect(),
        vectors: Vectors::Reduction {
            var: r.var.clone(),
            lanes: target.lanes(),
            unroll,
        },
        reduce,
        stage: stage.clone(),
    })
}
