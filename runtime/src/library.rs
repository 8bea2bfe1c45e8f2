//! The kernel-library registry of the CPU device: routines in destination-passing style, by name.
//!
//! A module names routines in its library calls; loading it resolves every name. A routine gets its operands as typed views (outputs
//! overlap nothing), attributes, integers, and the device's thread pool. Its result must not depend on the number of threads: work is
//! cut by the operands' shapes alone.

use crate::device::{DeviceError, RoutineId, nearest, nearest_hint};
use crate::dtype::DType;
use crate::module::Attr;
use crate::pool::ThreadPool;
use crate::tensor::Dims;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

/// A routine.
pub type Routine = Arc<dyn Fn(&mut LibraryCall<'_>) -> Result<(), LibraryError> + Send + Sync>;

/// Routines by name.
#[derive(Clone, Default)]
pub struct Library {
    names: Vec<String>,
    routines: Vec<Routine>,
}

impl Library {
    /// No routines.
    pub fn new() -> Self {
        Self::default()
    }

    /// The routines that this build has: `gemm.matmul` with feature `gemm`.
    pub fn standard() -> Self {
        #[allow(unused_mut)]
        let mut library = Library::new();
        #[cfg(feature = "gemm")]
        library.register("gemm.matmul", Arc::new(crate::gemm::matmul));
        library
    }

    /// Adds a routine, or replaces the one of that name.
    pub fn register(&mut self, name: &str, routine: Routine) {
        match self.names.iter().position(|n| n == name) {
            Some(i) => self.routines[i] = routine,
            None => {
                self.names.push(name.to_owned());
                self.routines.push(routine);
            }
        }
    }

    /// The names, in order of registration.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Finds a routine.
    ///
    /// # Errors
    /// When there is none; names the nearest.
    pub fn find(&self, name: &str) -> Result<RoutineId, DeviceError> {
        match self.names.iter().position(|n| n == name) {
            Some(i) => Ok(RoutineId(i as u32)),
            None => Err(DeviceError::Routine {
                name: name.to_owned(),
                nearest: nearest(name, self.names.iter().map(String::as_str)),
            }),
        }
    }

    pub(crate) fn get(&self, id: RoutineId) -> Option<(&str, &Routine)> {
        let i = id.0 as usize;
        Some((self.names.get(i)?, self.routines.get(i)?))
    }
}

/// Why a routine refuses a call.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LibraryError {
    /// A wrong number of operands.
    #[error("{found} {what}, expected {expected}")]
    Arity {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many are expected.
        expected: usize,
    },
    /// An operand of the wrong element type.
    #[error("operand {operand} is {found}, expected {expected}")]
    DType {
        /// Which operand.
        operand: &'static str,
        /// Its type.
        found: DType,
        /// The type expected.
        expected: DType,
    },
    /// Operands whose shapes don't fit.
    #[error("operand {operand} has shape {found:?}, expected {expected}")]
    Shape {
        /// Which operand.
        operand: &'static str,
        /// Its shape.
        found: Vec<i64>,
        /// What was expected.
        expected: String,
    },
    /// An attribute that the routine does not know.
    #[error("unknown attribute `{name}`{}", nearest_hint(.nearest))]
    Attribute {
        /// The name.
        name: String,
        /// The nearest that it knows.
        nearest: Option<String>,
    },
    /// An attribute of the wrong type or value.
    #[error("attribute `{name}` is {found:?}, expected {expected}")]
    AttributeValue {
        /// The name.
        name: String,
        /// What it is.
        found: Attr,
        /// What is expected.
        expected: String,
    },
    /// A worker panicked.
    #[error("the routine panicked on a worker thread")]
    Panicked,
}

/// A call of a routine.
pub struct LibraryCall<'a> {
    /// Tensors read.
    pub args: &'a [Input<'a>],
    /// Tensors written. They overlap neither each other nor any argument.
    pub outs: &'a mut [Output<'a>],
    /// Attributes.
    pub attrs: &'a BTreeMap<String, Attr>,
    /// Further integers.
    pub syms: &'a [i64],
    /// The device's threads.
    pub pool: &'a mut ThreadPool,
}

/// An argument in host memory.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    dtype: DType,
    dims: Dims,
    bytes: &'a [u8],
}

/// A result in host memory.
pub struct Output<'a> {
    dtype: DType,
    dims: Dims,
    data: *mut u8,
    bytes: usize,
    borrow: PhantomData<&'a mut [u8]>,
}

impl<'a> Input<'a> {
    pub(crate) fn new(dtype: DType, dims: Dims, bytes: &'a [u8]) -> Self {
        Input { dtype, dims, bytes }
    }
    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// Dimensions.
    pub fn dims(&self) -> &[i64] {
        &self.dims
    }
    /// The bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
    /// The elements.
    ///
    /// # Errors
    /// When they are not `f32`.
    pub fn as_f32(&self, operand: &'static str) -> Result<&'a [f32], LibraryError> {
        expect_dtype(operand, self.dtype, DType::F32)?;
        // SAFETY: the bytes are initialised, 64-byte aligned, and every bit pattern is an f32.
        Ok(unsafe { std::slice::from_raw_parts(self.bytes.as_ptr().cast(), self.bytes.len() / 4) })
    }
}

impl<'a> Output<'a> {
    /// # Safety
    /// `data` is valid for reads and writes of `bytes` bytes for `'a`, 64-byte aligned, and nothing else accesses them.
    pub(crate) unsafe fn new(dtype: DType, dims: Dims, data: *mut u8, bytes: usize) -> Self {
        Output {
            dtype,
            dims,
            data,
            bytes,
            borrow: PhantomData,
        }
    }
    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// Dimensions.
    pub fn dims(&self) -> &[i64] {
        &self.dims
    }
    /// The bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: by the constructor's contract; `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.bytes) }
    }
    /// The elements.
    ///
    /// # Errors
    /// When they are not `f32`.
    pub fn as_f32_mut(&mut self, operand: &'static str) -> Result<&mut [f32], LibraryError> {
        expect_dtype(operand, self.dtype, DType::F32)?;
        // SAFETY: as above; the data is aligned and every bit pattern is an f32.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.data.cast(), self.bytes / 4) })
    }
}

fn expect_dtype(operand: &'static str, found: DType, expected: DType) -> Result<(), LibraryError> {
    if found == expected {
        Ok(())
    } else {
        Err(LibraryError::DType {
            operand,
            found,
            expected,
        })
    }
}

impl LibraryCall<'_> {
    /// Checks that every attribute is one of `known`.
    ///
    /// # Errors
    /// The first that is not, with the nearest known name.
    pub fn known_attributes(&self, known: &[&str]) -> Result<(), LibraryError> {
        match self.attrs.keys().find(|k| !known.contains(&k.as_str())) {
            None => Ok(()),
            Some(name) => Err(LibraryError::Attribute {
                name: name.clone(),
                nearest: nearest(name, known.iter().copied()),
            }),
        }
    }
    /// A Boolean attribute, `false` when absent.
    ///
    /// # Errors
    /// When it is of another type.
    pub fn flag(&self, name: &str) -> Result<bool, LibraryError> {
        match self.attrs.get(name) {
            None => Ok(false),
            Some(Attr::Bool(value)) => Ok(*value),
            Some(found) => Err(LibraryError::AttributeValue {
                name: name.to_owned(),
                found: found.clone(),
                expected: "a Boolean".to_owned(),
            }),
        }
    }
    /// An integer attribute.
    ///
    /// # Errors
    /// When it is of another type.
    pub fn int(&self, name: &str) -> Result<Option<i64>, LibraryError> {
        match self.attrs.get(name) {
            None => Ok(None),
            Some(Attr::Int(value)) => Ok(Some(*value)),
            Some(found) => Err(LibraryError::AttributeValue {
                name: name.to_owned(),
                found: found.clone(),
                expected: "an integer".to_owned(),
            }),
        }
    }
    /// Checks the number of operands.
    ///
    /// # Errors
    /// When there are more or fewer.
    pub fn arity(&self, args: usize, outs: usize) -> Result<(), LibraryError> {
        for (what, found, expected) in [
            ("arguments", self.args.len(), args),
            ("outputs", self.outs.len(), outs),
        ] {
            if found != expected {
                return Err(LibraryError::Arity {
                    what,
                    found,
                    expected,
                });
            }
        }
        Ok(())
    }
}
