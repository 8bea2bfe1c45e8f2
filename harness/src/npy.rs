//! NumPy's `.npy` files: tensors in and out. Headers are read by `npyz`, the data by us, so that every element type of the runtime is
//! covered; files in Fortran order or big-endian are brought into row-major little-endian order.

use npyz::{DType as Descr, Endianness, NpyHeader, Order, TypeChar};
use relayout_runtime::{DType, HostTensor};
use std::io::{self, Read, Write};

/// The most dimensions that a tensor may have here.
const MAX_RANK: usize = 16;

/// Why an array can't be used.
#[derive(Debug, thiserror::Error)]
pub enum NpyError {
    /// Not an `.npy` file, or cut short.
    #[error("not a readable .npy file: {0}")]
    Format(io::Error),
    /// An element type that no tensor has.
    #[error("element type {found}; expected float32, float16, int64, int32, int8, uint8 or bool")]
    ElementType {
        /// NumPy's name of it.
        found: String,
    },
    /// A shape that no tensor has.
    #[error("the shape {found:?} has no size that fits")]
    Shape {
        /// The shape.
        found: Vec<u64>,
    },
    /// Fewer bytes than the shape says.
    #[error("the file ends after {found} of {expected} bytes of data")]
    Truncated {
        /// Bytes there.
        found: usize,
        /// Bytes that the shape says.
        expected: usize,
    },
    /// More bytes than the shape says.
    #[error("the file goes on after the {expected} bytes of its data")]
    Trailing {
        /// Bytes that the shape says.
        expected: usize,
    },
}

/// Reads an array as a dense row-major tensor.
///
/// # Errors
/// See [`NpyError`].
pub fn read(mut input: impl Read) -> Result<HostTensor, NpyError> {
    let header = NpyHeader::from_reader(&mut input).map_err(NpyError::Format)?;
    let (dtype, big) = element(&header)?;
    let bad_shape = || NpyError::Shape {
        found: header.shape().to_vec(),
    };
    let shape: Vec<i64> = header
        .shape()
        .iter()
        .map(|&d| i64::try_from(d))
        .collect::<Result<_, _>>()
        .map_err(|_| bad_shape())?;
    let expected = shape
        .iter()
        .try_fold(dtype.bytes(), |bytes, &d| {
            bytes.checked_mul(usize::try_from(d).ok()?)
        })
        .filter(|bytes| shape.len() <= MAX_RANK && isize::try_from(*bytes).is_ok())
        .ok_or_else(bad_shape)?;
    // Read by what is there, not by what the header promises: a wrong header must not allocate.
    let mut bytes = Vec::new();
    input
        .by_ref()
        .take(expected as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(NpyError::Format)?;
    match bytes.len() {
        found if found < expected => return Err(NpyError::Truncated { found, expected }),
        found if found > expected => return Err(NpyError::Trailing { expected }),
        _ => {}
    }
    if big {
        bytes.chunks_exact_mut(dtype.bytes()).for_each(<[u8]>::reverse);
    }
    if header.order() == Order::Fortran && shape.len() > 1 {
        bytes = row_major(&bytes, &shape, dtype.bytes());
    }
    if dtype == DType::Bool {
        bytes.iter_mut().for_each(|b| *b = u8::from(*b != 0));
    }
    Ok(HostTensor { dtype, shape, bytes })
}

/// The element type, and whether it is big-endian.
fn element(header: &NpyHeader) -> Result<(DType, bool), NpyError> {
    let descr = header.dtype();
    let unknown = || NpyError::ElementType { found: descr.descr() };
    let Descr::Plain(text) = &descr else {
        return Err(unknown());
    };
    let dtype = match (text.type_char(), text.size_field()) {
        (TypeChar::Float, 4) => DType::F32,
        (TypeChar::Float, 2) => DType::F16,
        (TypeChar::Int, 8) => DType::I64,
        (TypeChar::Int, 4) => DType::I32,
        (TypeChar::Int, 1) => DType::I8,
        (TypeChar::Uint, 1) => DType::U8,
        (TypeChar::Bool, 1) => DType::Bool,
        _ => return Err(unknown()),
    };
    Ok((dtype, text.endianness() == Endianness::Big))
}

/// Column-major data in row-major order.
fn row_major(bytes: &[u8], shape: &[i64], element: usize) -> Vec<u8> {
    let extents: Vec<usize> = shape.iter().map(|&d| d as usize).collect();
    let strides: Vec<usize> = extents
        .iter()
        .scan(1usize, |stride, &d| {
            let own = *stride;
            *stride *= d;
            Some(own)
        })
        .collect();
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = vec![0usize; extents.len()];
    for _ in 0..bytes.len() / element {
        let at: usize = index.iter().zip(&strides).map(|(i, s)| i * s).sum();
        out.extend_from_slice(&bytes[at * element..(at + 1) * element]);
        for axis in (0..extents.len()).rev() {
            index[axis] += 1;
            if index[axis] < extents[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    out
}

/// NumPy's type string; `None` for bfloat16, which NumPy lacks.
fn descr(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::F32 => "<f4",
        DType::F16 => "<f2",
        DType::BF16 => return None,
        DType::I64 => "<i8",
        DType::I32 => "<i4",
        DType::I8 => "|i1",
        DType::U8 => "|u1",
        DType::Bool => "|b1",
    })
}

/// Writes a tensor (format 1.0, row-major). A bfloat16 tensor is widened to float32, which holds its values exactly.
///
/// # Errors
/// Those of the writer.
pub fn write(tensor: &HostTensor, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    let Some(descr) = descr(tensor.dtype) else {
        let (halves, _) = tensor.bytes.as_chunks::<2>();
        let wide = HostTensor {
            dtype: DType::F32,
            shape: tensor.shape.clone(),
            bytes: halves.iter().flat_map(|h| [0, 0, h[0], h[1]]).collect(),
        };
        return write(&wide, out);
    };
    let dims: Vec<String> = tensor.shape.iter().map(i64::to_string).collect();
    let comma = if dims.len() == 1 { "," } else { "" };
    let text = format!(
        "{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}{comma}), }}",
        dims.join(", ")
    );
    // Magic, version and length take 10 bytes; the header ends in a newline at a multiple of 64.
    let length = (10 + text.len() + 1).next_multiple_of(64) - 10;
    let length16 = u16::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    out.write_all(b"\x93NUMPY\x01\x00")?;
    out.write_all(&length16.to_le_bytes())?;
    writeln!(out, "{text:width$}", width = length - 1)?;
    out.write_all(&tensor.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(tensor: &HostTensor) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(tensor, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn tensors_come_back() {
        for dtype in DType::ALL.into_iter().filter(|d| *d != DType::BF16) {
            for shape in [vec![], vec![3], vec![0, 4], vec![2, 3, 5]] {
                let count = shape.iter().product::<i64>() as usize;
                let one = |i: usize| {
                    if dtype == DType::Bool {
                        (i % 2) as u8
                    } else {
                        (i * 7 % 251) as u8
                    }
                };
                let bytes = (0..count * dtype.bytes()).map(one).collect();
                let tensor = HostTensor { dtype, shape, bytes };
                assert_eq!(read(&file(&tensor)[..]).unwrap(), tensor);
            }
        }
    }

    #[test]
    fn another_reader_agrees() {
        let tensor = HostTensor::from_f32(&[2, 2], &[1.0, -2.5, 3.0, 4.0]);
        let bytes = file(&tensor);
        let read = npyz::NpyFile::new(&bytes[..]).unwrap();
        assert_eq!((read.shape(), read.order()), (&[2, 2][..], Order::C));
        assert_eq!(read.into_vec::<f32>().unwrap(), [1.0, -2.5, 3.0, 4.0]);
    }

    #[test]
    fn bfloat16_is_widened() {
        let tensor = HostTensor {
            dtype: DType::BF16,
            shape: vec![1],
            bytes: vec![0x80, 0x3f],
        };
        assert_eq!(
            read(&file(&tensor)[..]).unwrap(),
            HostTensor::from_f32(&[1], &[1.0])
        );
    }

    /// A file as NumPy writes it, by hand.
    fn by_hand(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
        let order = if fortran { "True" } else { "False" };
        let text = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn other_orders_are_brought_into_ours() {
        let columns = by_hand("|u1", true, "(2, 3)", &[1, 4, 2, 5, 3, 6]);
        assert_eq!(read(&columns[..]).unwrap().bytes, [1, 2, 3, 4, 5, 6]);
        let big = by_hand(">i4", false, "(2,)", &[0, 0, 0, 1, 0, 0, 1, 0]);
        assert_eq!(read(&big[..]).unwrap().bytes, [1, 0, 0, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn faults_are_errors() {
        assert!(matches!(read(&b"not an array"[..]), Err(NpyError::Format(_))));
        let short = by_hand("<f4", false, "(2,)", &[0; 7]);
        assert!(matches!(
            read(&short[..]),
            Err(NpyError::Truncated {
                found: 7,
                expected: 8
            })
        ));
        let long = by_hand("<f4", false, "(2,)", &[0; 9]);
        assert!(matches!(read(&long[..]), Err(NpyError::Trailing { expected: 8 })));
        let huge = by_hand("<f4", false, "(4611686018427387904, 4)", &[]);
        assert!(read(&huge[..]).is_err());
        let double = by_hand("<f8", false, "(1,)", &[0; 8]);
        assert!(matches!(read(&double[..]), Err(NpyError::ElementType { .. })));
    }
}
