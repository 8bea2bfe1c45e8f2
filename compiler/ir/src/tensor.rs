//! Concrete tensors of the reference interpreters: logical row-major values, no layout.

use crate::annotation::DType;
use crate::layout::Layout;
use half::{bf16, f16};

/// Elements of one type. 16-bit floats are held as `f32` values already rounded to their type.
#[derive(Clone, PartialEq, Debug)]
pub enum TensorData {
    /// `F32`, `F16` and `BF16`.
    Float(Vec<f32>),
    /// `I64`, `I32`, `I8`, `U8` and `Bool` (0 or 1).
    Int(Vec<i64>),
}

/// A dense tensor in logical row-major order.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    /// Extents.
    pub shape: Vec<usize>,
    /// Element type.
    pub dtype: DType,
    /// Elements; the variant follows from `dtype`.
    pub data: TensorData,
}

/// A value of the reference interpreters.
#[derive(Clone, PartialEq, Debug)]
pub enum RefValue {
    /// A tensor.
    Tensor(std::sync::Arc<Tensor>),
    /// A shape.
    Shape(Vec<i64>),
    /// A tuple.
    Tuple(Vec<RefValue>),
}

/// Why elements can't be read as a tensor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// The number of elements or bytes does not fit the shape.
    #[error("a tensor of shape {shape:?} and type {dtype} takes {expected} {unit}, found {found}")]
    Length {
        /// The shape.
        shape: Vec<usize>,
        /// The element type.
        dtype: DType,
        /// What was counted: `elements` or `bytes`.
        unit: &'static str,
        /// How many it takes.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// A layout that does not fit the shape.
    #[error("layout {layout} does not fit shape {shape:?}: {problem}")]
    Layout {
        /// The layout.
        layout: Layout,
        /// The logical shape.
        shape: Vec<usize>,
        /// What does not fit.
        problem: &'static str,
    },
}

/// Rounds a value to a floating-point type; other types leave it.
pub fn round_to(dtype: DType, value: f32) -> f32 {
    match dtype {
        DType::F16 => f16::from_f32(value).to_f32(),
        DType::BF16 => bf16::from_f32(value).to_f32(),
        _ => value,
    }
}

/// Wraps a value into an integer type; `Bool` is 1 for everything but 0, floating-point types leave it.
pub fn wrap_to(dtype: DType, value: i64) -> i64 {
    match dtype {
        DType::I32 => i64::from(value as i32),
        DType::I8 => i64::from(value as i8),
        DType::U8 => i64::from(value as u8),
        DType::Bool => i64::from(value != 0),
        _ => value,
    }
}

/// Converts a float to an integer type: truncated towards zero, saturating, NaN is 0; `Bool` is 1 for everything but 0.
pub fn float_to_int(dtype: DType, value: f32) -> i64 {
    match dtype {
        DType::I32 => i64::from(value as i32),
        DType::I8 => i64::from(value as i8),
        DType::U8 => i64::from(value as u8),
        DType::Bool => i64::from(value != 0.0),
        _ => value as i64,
    }
}

/// The row-major strides of a shape, in elements.
pub fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i];
    }
    strides
}

impl Tensor {
    /// A tensor of these elements, converted to `dtype` (floats rounded, integers wrapped).
    ///
    /// # Errors
    /// When the number of elements is not that of the shape.
    pub fn new(shape: Vec<usize>, dtype: DType, data: TensorData) -> Result<Self, TensorError> {
        let (expected, found) = (shape.iter().product(), data.len());
        if found != expected {
            return Err(TensorError::Length {
                shape,
                dtype,
                unit: "elements",
                expected,
                found,
            });
        }
        let data = data.convert(dtype);
        Ok(Tensor { shape, dtype, data })
    }
    /// A tensor of one value; integers beyond 2^53 are not exact here.
    pub fn full(shape: Vec<usize>, dtype: DType, value: f64) -> Self {
        let count = shape.iter().product();
        let data = if dtype.is_float() {
            TensorData::Float(vec![round_to(dtype, value as f32); count])
        } else if dtype == DType::Bool {
            TensorData::Int(vec![i64::from(value != 0.0); count])
        } else {
            TensorData::Int(vec![wrap_to(dtype, value as i64); count])
        };
        Tensor { shape, dtype, data }
    }
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.data.len()
    }
    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The elements of a floating-point tensor.
    pub fn floats(&self) -> Option<&[f32]> {
        match &self.data {
            TensorData::Float(values) => Some(values),
            TensorData::Int(_) => None,
        }
    }
    /// The elements of an integer or Boolean tensor.
    pub fn ints(&self) -> Option<&[i64]> {
        match &self.data {
            TensorData::Int(values) => Some(values),
            TensorData::Float(_) => None,
        }
    }
    /// The same values in another element type.
    pub fn cast(&self, dtype: DType) -> Self {
        Tensor {
            shape: self.shape.clone(),
            dtype,
            data: self.data.clone().convert(dtype),
        }
    }
    /// A tensor of `shape` whose element at an index is the element of `self` at the flat position that `place` names, or `fill`.
    pub fn rearranged(
        &self,
        shape: Vec<usize>,
        fill: f64,
        place: impl FnMut(&[usize]) -> Option<usize>,
    ) -> Self {
        fn pick<T: Copy>(
            from: &[T],
            shape: &[usize],
            fill: T,
            mut place: impl FnMut(&[usize]) -> Option<usize>,
        ) -> Vec<T> {
            let mut out = Vec::with_capacity(shape.iter().product());
            for_each_index(shape, |index| {
                out.push(place(index).and_then(|p| from.get(p)).copied().unwrap_or(fill));
            });
            out
        }
        let dtype = self.dtype;
        let data = match &self.data {
            TensorData::Float(v) => TensorData::Float(pick(v, &shape, round_to(dtype, fill as f32), place)),
            TensorData::Int(v) => TensorData::Int(pick(v, &shape, wrap_to(dtype, fill as i64), place)),
        };
        Tensor { shape, dtype, data }
    }
    /// The physical tensor that holds this one in a layout, row-major over the physical shape; padding lanes are zero.
    ///
    /// # Errors
    /// When the ranks differ.
    pub fn pack(&self, layout: &Layout) -> Result<Tensor, TensorError> {
        let shape = physical_extents(layout, &self.shape)?;
        let own = strides(&self.shape);
        Ok(self.rearranged(shape, 0.0, |physical| {
            let logical = logical_place(layout, physical);
            let inside = logical.iter().zip(&self.shape).all(|(i, d)| i < d);
            inside.then(|| logical.iter().zip(&own).map(|(i, s)| i * s).sum())
        }))
    }
    /// The logical tensor of shape `logical` that this physical one holds in a layout.
    ///
    /// # Errors
    /// When the ranks differ or this is not the physical shape.
    pub fn unpack(&self, layout: &Layout, logical: &[usize]) -> Result<Tensor, TensorError> {
        if physical_extents(layout, logical)? != self.shape {
            return Err(TensorError::Layout {
                layout: layout.clone(),
                shape: logical.to_vec(),
                problem: "the physical tensor has another shape",
            });
        }
        let own = strides(&self.shape);
        let places = self.rearranged(logical.to_vec(), 0.0, |index| {
            let mut rest = index.to_vec();
            let pieces = layout.splits().iter().zip(&own).rev();
            Some(pieces.map(|(s, stride)| stride * take_piece(&mut rest, s)).sum())
        });
        Ok(places)
    }
    /// Little-endian elements, as constants and files hold them.
    pub fn to_bytes(&self) -> Vec<u8> {
        match &self.data {
            TensorData::Float(values) => values.iter().flat_map(|v| float_bytes(self.dtype, *v)).collect(),
            TensorData::Int(values) => {
                let width = self.dtype.bytes();
                values
                    .iter()
                    .flat_map(|v| v.to_le_bytes().into_iter().take(width))
                    .collect()
            }
        }
    }
    /// Reads little-endian elements.
    ///
    /// # Errors
    /// When the number of bytes is not that of the shape.
    pub fn from_bytes(shape: Vec<usize>, dtype: DType, bytes: &[u8]) -> Result<Self, TensorError> {
        let width = dtype.bytes();
        let expected = shape.iter().product::<usize>() * width;
        if bytes.len() != expected {
            return Err(TensorError::Length {
                shape,
                dtype,
                unit: "bytes",
                expected,
                found: bytes.len(),
            });
        }
        let words = bytes.chunks_exact(width);
        let data = if dtype.is_float() {
            TensorData::Float(words.map(|w| float_of(dtype, w)).collect())
        } else {
            // Missing bytes take the sign of the last one.
            let int = |w: &[u8]| {
                let negative = dtype != DType::U8 && w.last().is_some_and(|b| *b >= 0x80);
                let mut all = if negative { [0xff; 8] } else { [0; 8] };
                all[..w.len()].copy_from_slice(w);
                wrap_to(dtype, i64::from_le_bytes(all))
            };
            TensorData::Int(words.map(int).collect())
        };
        Ok(Tensor { shape, dtype, data })
    }
}

fn float_bytes(dtype: DType, value: f32) -> Vec<u8> {
    match dtype {
        DType::F16 => f16::from_f32(value).to_le_bytes().to_vec(),
        DType::BF16 => bf16::from_f32(value).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    }
}

fn float_of(dtype: DType, word: &[u8]) -> f32 {
    match (dtype, word) {
        (DType::F16, [a, b]) => f16::from_le_bytes([*a, *b]).to_f32(),
        (DType::BF16, [a, b]) => bf16::from_le_bytes([*a, *b]).to_f32(),
        (_, [a, b, c, d]) => f32::from_le_bytes([*a, *b, *c, *d]),
        // Words are cut to the width of the type.
        _ => 0.0,
    }
}

fn physical_extents(layout: &Layout, shape: &[usize]) -> Result<Vec<usize>, TensorError> {
    if layout.rank() != shape.len() {
        return Err(TensorError::Layout {
            layout: layout.clone(),
            shape: shape.to_vec(),
            problem: "the ranks differ",
        });
    }
    let extent = |s: &crate::layout::Split| match s.factor {
        Some(f) => f as usize,
        None => shape[usize::from(s.axis)].div_ceil(layout.block_of(s.axis) as usize),
    };
    Ok(layout.splits().iter().map(extent).collect())
}

/// The logical index of a physical one.
fn logical_place(layout: &Layout, physical: &[usize]) -> Vec<usize> {
    let mut logical = vec![0; layout.rank()];
    let mut scale = vec![1; layout.rank()];
    for (s, index) in layout.splits().iter().zip(physical).rev() {
        let axis = usize::from(s.axis);
        logical[axis] += index * scale[axis];
        scale[axis] *= s.factor.unwrap_or(1) as usize;
    }
    logical
}

/// The physical index of one piece, pieces being taken innermost first; what is left of the axis stays in `rest`.
fn take_piece(rest: &mut [usize], piece: &crate::layout::Split) -> usize {
    let left = &mut rest[usize::from(piece.axis)];
    match piece.factor {
        None => *left,
        Some(f) => {
            let lane = *left % f as usize;
            *left /= f as usize;
            lane
        }
    }
}

/// Calls `visit` with every index of a shape in row-major order.
pub fn for_each_index(shape: &[usize], mut visit: impl FnMut(&[usize])) {
    if shape.contains(&0) {
        return;
    }
    let mut index = vec![0; shape.len()];
    loop {
        visit(&index);
        let Some(axis) = (0..shape.len()).rev().find(|a| index[*a] + 1 < shape[*a]) else {
            return;
        };
        index[axis] += 1;
        index[axis + 1..].fill(0);
    }
}

impl TensorData {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            TensorData::Float(v) => v.len(),
            TensorData::Int(v) => v.len(),
        }
    }
    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The elements in the representation and range of a type.
    fn convert(self, dtype: DType) -> Self {
        match (self, dtype.is_float()) {
            (TensorData::Float(v), true) if dtype == DType::F32 => TensorData::Float(v),
            (TensorData::Float(v), true) => {
                TensorData::Float(v.into_iter().map(|x| round_to(dtype, x)).collect())
            }
            (TensorData::Float(v), false) => {
                TensorData::Int(v.into_iter().map(|x| float_to_int(dtype, x)).collect())
            }
            (TensorData::Int(v), true) => {
                TensorData::Float(v.into_iter().map(|x| round_to(dtype, x as f32)).collect())
            }
            (TensorData::Int(v), false) if dtype == DType::I64 => TensorData::Int(v),
            (TensorData::Int(v), false) => {
                TensorData::Int(v.into_iter().map(|x| wrap_to(dtype, x)).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Split;

    fn counting(shape: Vec<usize>) -> Tensor {
        let n = shape.iter().product::<usize>() as i64;
        Tensor::new(shape, DType::I64, TensorData::Int((0..n).collect())).unwrap()
    }

    #[test]
    fn packing_is_undone_by_unpacking() {
        let piece = |axis, factor| Split { axis, factor };
        let twice = vec![
            piece(1, None),
            piece(0, None),
            piece(1, Some(2)),
            piece(1, Some(3)),
        ];
        let layouts = [
            Layout::permuted(&[1, 0]),
            Layout::blocked(2, 1, 4),
            Layout::blocked(2, 0, 2),
            Layout::new(2, twice).unwrap(),
        ];
        let t = counting(vec![3, 7]);
        for layout in layouts {
            let packed = t.pack(&layout).unwrap();
            assert_eq!(packed.unpack(&layout, &[3, 7]).unwrap(), t, "{layout}");
        }
        let nchw2c = counting(vec![1, 4, 2]).pack(&Layout::blocked(3, 1, 2)).unwrap();
        assert_eq!(nchw2c.shape, [1, 2, 2, 2]);
        assert_eq!(nchw2c.ints().unwrap(), [0, 2, 1, 3, 4, 6, 5, 7]);
        assert!(t.pack(&Layout::row_major(3)).is_err());
    }

    #[test]
    fn bytes_are_little_endian_and_come_back() {
        for dtype in DType::ALL {
            let values = vec![0, 1, 2, 100, -3];
            let t = Tensor::new(vec![5], dtype, TensorData::Int(values)).unwrap();
            let back = Tensor::from_bytes(vec![5], dtype, &t.to_bytes()).unwrap();
            assert_eq!(back, t, "{dtype}");
        }
        assert_eq!(Tensor::full(vec![1], DType::F16, 1.0).to_bytes(), [0x00, 0x3c]);
        assert!(Tensor::from_bytes(vec![2], DType::F32, &[0; 7]).is_err());
    }

    #[test]
    fn conversions_saturate_round_and_wrap() {
        let floats = |v: Vec<f32>| Tensor::new(vec![v.len()], DType::F32, TensorData::Float(v)).unwrap();
        let t = floats(vec![-1.9, 300.0, f32::NAN, 0.25]);
        assert_eq!(t.cast(DType::I8).ints().unwrap(), [-1, 127, 0, 0]);
        assert_eq!(t.cast(DType::U8).ints().unwrap(), [0, 255, 0, 0]);
        assert_eq!(t.cast(DType::Bool).ints().unwrap(), [1, 1, 1, 1]);
        assert_eq!(
            floats(vec![1.0 + 1e-4]).cast(DType::BF16).floats().unwrap(),
            [1.0]
        );
        let ints = Tensor::new(vec![2], DType::I64, TensorData::Int(vec![257, -129])).unwrap();
        assert_eq!(ints.cast(DType::U8).ints().unwrap(), [1, 127]);
        assert_eq!(ints.cast(DType::I8).ints().unwrap(), [1, 127]);
    }
}
