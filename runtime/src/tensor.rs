//! Tensors: shapes without allocation, tensors on the host, and tensors on a device.

use crate::device::TensorArg;
use crate::dtype::DType;
use crate::module::MAX_RANK;
use crate::storage::Storage;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The dimensions of a tensor of rank up to [`MAX_RANK`], inline.
#[derive(Clone, Copy, Default)]
pub struct Dims {
    len: u8,
    dims: [i64; MAX_RANK],
}

impl Dims {
    /// Rank 0.
    pub fn scalar() -> Self {
        Self::default()
    }
    /// The dimensions of a slice; `None` when there are more than [`MAX_RANK`].
    pub fn new(dims: &[i64]) -> Option<Self> {
        let mut out = Dims::default();
        dims.iter().try_for_each(|&d| out.push(d))?;
        Some(out)
    }
    /// Appends a dimension; `None` when there are [`MAX_RANK`] already.
    pub fn push(&mut self, dim: i64) -> Option<()> {
        *self.dims.get_mut(usize::from(self.len))? = dim;
        self.len += 1;
        Some(())
    }
    /// The number of elements; `None` when a dimension is negative or the count does not fit. Zeros count as ones in that test, so
    /// that products of some of the dimensions fit whenever the count does.
    pub fn elements(&self) -> Option<usize> {
        let count = self.iter().try_fold(1usize, |n, &d| {
            let d = usize::try_from(d).ok()?;
            n.checked_mul(d.max(1)).filter(|n| *n <= isize::MAX as usize / 16)
        })?;
        Some(if self.contains(&0) { 0 } else { count })
    }
    /// The number of bytes of a dense tensor; `None` as for [`Dims::elements`].
    pub fn bytes(&self, dtype: DType) -> Option<usize> {
        Some(self.elements()? * dtype.bytes())
    }
}

impl Deref for Dims {
    type Target = [i64];
    fn deref(&self) -> &[i64] {
        &self.dims[..usize::from(self.len)]
    }
}

impl PartialEq for Dims {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl Eq for Dims {}

impl fmt::Debug for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}

/// A dense row-major tensor in host memory, little-endian.
#[derive(Clone, PartialEq, Debug)]
pub struct HostTensor {
    /// Element type.
    pub dtype: DType,
    /// Dimensions.
    pub shape: Vec<i64>,
    /// The elements.
    pub bytes: Vec<u8>,
}

impl HostTensor {
    /// A tensor of `f32` values. The caller gives as many as the shape has elements; running refuses other tensors.
    pub fn from_f32(shape: &[i64], values: &[f32]) -> Self {
        HostTensor {
            dtype: DType::F32,
            shape: shape.to_vec(),
            bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        }
    }
    /// A tensor of `i64` values. The caller gives as many as the shape has elements; running refuses other tensors.
    pub fn from_i64(shape: &[i64], values: &[i64]) -> Self {
        HostTensor {
            dtype: DType::I64,
            shape: shape.to_vec(),
            bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        }
    }
    /// The elements as `f32`; `None` for other types.
    pub fn to_f32(&self) -> Option<Vec<f32>> {
        (self.dtype == DType::F32).then(|| {
            let (words, _) = self.bytes.as_chunks::<4>();
            words.iter().map(|b| f32::from_le_bytes(*b)).collect()
        })
    }
    /// The elements as `i64`; `None` for other types.
    pub fn to_i64(&self) -> Option<Vec<i64>> {
        (self.dtype == DType::I64).then(|| {
            let (words, _) = self.bytes.as_chunks::<8>();
            words.iter().map(|b| i64::from_le_bytes(*b)).collect()
        })
    }
}

/// A dense row-major tensor in device memory. Clones share the memory; the last one gives it back to its pool.
#[derive(Clone, Debug)]
pub struct DeviceTensor {
    pub(crate) storage: Arc<Storage>,
    pub(crate) offset: usize,
    pub(crate) dtype: DType,
    pub(crate) dims: Dims,
    pub(crate) bytes: usize,
}

impl DeviceTensor {
    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// Dimensions.
    pub fn shape(&self) -> &[i64] {
        &self.dims
    }
    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// What a device is given.
    pub(crate) fn arg(&self) -> TensorArg {
        TensorArg {
            buffer: self.storage.buffer(),
            offset: self.offset,
            bytes: self.bytes,
            dtype: self.dtype,
            dims: self.dims,
        }
    }
}
