//! Between logical tensors and the physical tensors of a layout.

use super::error::InterpretError;
use super::index::{IndexCode, advance};
use super::memory::{check_well_formed, filled};
use crate::layout::Layout;
use crate::sym::{SymExpr, SymVar};
use crate::tensor::{Tensor, TensorData};

/// A tensor as memory holds it.
#[derive(Clone, PartialEq, Debug)]
pub struct Physical {
    /// The elements in the order of the layout; `tensor.shape` is the physical shape.
    pub tensor: Tensor,
    /// The logical shape.
    pub logical: Vec<usize>,
    /// The layout.
    pub layout: Layout,
}

/// The physical extents of a logical shape in a layout.
pub(super) fn physical_extents(logical: &[usize], layout: &Layout) -> Vec<usize> {
    layout
        .splits()
        .iter()
        .map(|s| match s.factor {
            Some(f) => f as usize,
            None => logical[usize::from(s.axis)].div_ceil(layout.block_of(s.axis) as usize),
        })
        .collect()
}

/// Arranges a logical tensor in a layout. Padding lanes are poison (NaN, or 85 for integers): their content is unspecified, and
/// a program that lets it reach its result is wrong.
///
/// # Errors
/// When the layout is of another rank or the tensor is malformed.
pub fn pack(tensor: &Tensor, layout: &Layout) -> Result<Tensor, InterpretError> {
    pack_over(tensor, layout, f32::NAN, 85)
}

/// As [`pack`] with zeros in the padding lanes, for configurations that ask for them.
///
/// # Errors
/// As [`pack`].
pub fn pack_zero_padded(tensor: &Tensor, layout: &Layout) -> Result<Tensor, InterpretError> {
    pack_over(tensor, layout, 0.0, 0)
}

/// Packs over memory that holds one value everywhere.
fn pack_over(tensor: &Tensor, layout: &Layout, float: f32, int: i64) -> Result<Tensor, InterpretError> {
    let place = || format!("packing into layout {layout}");
    check_rank(tensor.shape.len(), layout, &place)?;
    check_well_formed(tensor, &place)?;
    if layout.splits() == Layout::row_major(tensor.shape.len()).splits() {
        return Ok(tensor.clone());
    }
    let mut out = filled(physical_extents(&tensor.shape, layout), tensor.dtype, float, int, &place)?;
    let offsets = Offsets::new(&tensor.shape, layout);
    match (&tensor.data, &mut out.data) {
        (TensorData::Float(from), TensorData::Float(to)) => {
            offsets.for_each(|logical, physical| to[physical] = from[logical])
        }
        (TensorData::Int(from), TensorData::Int(to)) => {
            offsets.for_each(|logical, physical| to[physical] = from[logical])
        }
        _ => {}
    }
    Ok(out)
}

/// The logical tensor of shape `logical` that `physical` holds in a layout.
///
/// # Errors
/// When the physical shape is not that of the logical shape in the layout.
pub fn unpack(physical: &Tensor, logical: &[usize], layout: &Layout) -> Result<Tensor, InterpretError> {
    let place = || format!("unpacking from layout {layout}");
    check_rank(logical.len(), layout, &place)?;
    check_well_formed(physical, &place)?;
    let expected = physical_extents(logical, layout);
    if physical.shape != expected {
        return Err(InterpretError::Mismatch {
            place: place(),
            expected: format!("physical shape {expected:?} of logical {logical:?}"),
            found: format!("{:?}", physical.shape),
        });
    }
    if layout.splits() == Layout::row_major(logical.len()).splits() {
        return Ok(physical.clone());
    }
    let mut out = filled(logical.to_vec(), physical.dtype, 0.0, 0, &place)?;
    let offsets = Offsets::new(logical, layout);
    match (&physical.data, &mut out.data) {
        (TensorData::Float(from), TensorData::Float(to)) => {
            offsets.for_each(|logical, physical| to[logical] = from[physical])
        }
        (TensorData::Int(from), TensorData::Int(to)) => {
            offsets.for_each(|logical, physical| to[logical] = from[physical])
        }
        _ => {}
    }
    Ok(out)
}

fn check_rank(rank: usize, layout: &Layout, place: &dyn Fn() -> String) -> Result<(), InterpretError> {
    match Layout::new(rank, layout.splits().to_vec()) {
        Ok(_) => Ok(()),
        Err(e) => Err(InterpretError::Malformed {
            place: place(),
            problem: e.to_string(),
        }),
    }
}

/// The offset of every logical element in physical order of a layout. The physical offset is a sum of one term per axis, so a
/// table per axis serves all elements.
struct Offsets {
    extents: Vec<i64>,
    /// Per axis, the physical offset of each index.
    tables: Vec<Vec<usize>>,
}

impl Offsets {
    fn new(logical: &[usize], layout: &Layout) -> Offsets {
        let physical = physical_extents(logical, layout);
        let mut strides = vec![1usize; physical.len()];
        for i in (0..physical.len().saturating_sub(1)).rev() {
            strides[i] = strides[i + 1] * physical[i + 1];
        }
        let var = SymVar::new("i");
        let mut tables = Vec::new();
        for (axis, &extent) in logical.iter().enumerate() {
            let mut index = vec![SymExpr::zero(); logical.len()];
            index[axis] = SymExpr::var(&var);
            let offset = layout
                .physical_index(&index)
                .into_iter()
                .zip(&strides)
                .fold(SymExpr::zero(), |sum, (e, s)| sum + e * SymExpr::from(*s));
            // The only variable is `i`, and every offset lies inside the allocated buffer.
            let code = IndexCode::compile(&offset, &|_| Some(0)).unwrap_or(IndexCode::General(Vec::new()));
            tables.push(
                (0..extent)
                    .map(|i| code.eval(&[i as i64]).map_or(0, |v| v as usize))
                    .collect(),
            );
        }
        Offsets {
            extents: logical.iter().map(|&d| d as i64).collect(),
            tables,
        }
    }
    /// Calls `f(logical offset, physical offset)` for every element, in logical order.
    fn for_each(&self, mut f: impl FnMut(usize, usize)) {
        let Some((inner, outer)) = self.tables.split_last() else {
            return f(0, 0);
        };
        if self.extents.contains(&0) {
            return;
        }
        let slots: Vec<usize> = (0..outer.len()).collect();
        let mut index = vec![0i64; outer.len()];
        let mut logical = 0;
        loop {
            let base: usize = outer
                .iter()
                .zip(&index)
                .map(|(table, i)| table[*i as usize])
                .sum();
            for offset in inner {
                f(logical, base + offset);
                logical += 1;
            }
            if !advance(&mut index, &slots, &self.extents) {
                return;
            }
        }
    }
}
