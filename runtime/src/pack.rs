//! Packing of constants: a dense row-major array is laid out by pieces of its axes, once, when a module is loaded.
//!
//! The physical index of an element is, per axis, its coordinate written in the mixed radix of the axis' inner pieces. Lanes of
//! the last block of an axis that lie beyond the axis are zeros.

use crate::module::{MAX_RANK, PackStep, Split};

/// Why a pack step does not apply to an array.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// An axis that the array does not have.
    #[error("axis {axis} of an array of rank {rank}")]
    Axis {
        /// The axis.
        axis: u8,
        /// The array's rank.
        rank: usize,
    },
    /// An axis without exactly one outer piece before its inner pieces.
    #[error("axis {axis} has {outer} outer pieces; exactly one is needed, before its inner pieces")]
    Outer {
        /// The axis.
        axis: usize,
        /// How many outer pieces.
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
    /// A rank above [`MAX_RANK`].
    #[error("rank {rank}; at most {MAX_RANK} dimensions are supported")]
    Rank {
        /// The rank.
        rank: usize,
    },
    /// A reshape to another number of elements.
    #[error("reshape of {from:?} to {to:?} changes the number of elements")]
    Reshape {
        /// The shape before.
        from: Vec<u64>,
        /// The shape asked for.
        to: Vec<u64>,
    },
    /// More bytes than an address space has.
    #[error("shape {shape:?} has too many elements")]
    TooLarge {
        /// The shape.
        shape: Vec<u64>,
    },
    /// The data is not as long as its shape says.
    #[error("{found} bytes of data for a shape of {expected} bytes")]
    Length {
        /// Bytes given.
        found: usize,
        /// Bytes of the shape.
        expected: usize,
    },
}

/// The number of elements of a shape, when they fit in an address space.
pub fn elements(shape: &[u64]) -> Option<u64> {
    // A zero anywhere makes the array empty, however large the other extents are.
    if shape.contains(&0) {
        return Some(0);
    }
    shape
        .iter()
        .try_fold(1u64, |n, &d| n.checked_mul(d))
        .filter(|n| *n <= (isize::MAX as u64) / 16)
}

/// The shape after the steps.
///
/// # Errors
/// The first step that does not apply.
pub fn packed_shape(shape: &[u64], steps: &[PackStep]) -> Result<Vec<u64>, PackError> {
    let mut shape = shape.to_vec();
    check_size(&shape)?;
    for step in steps {
        shape = step_shape(&shape, step)?;
        check_size(&shape)?;
    }
    Ok(shape)
}

fn check_size(shape: &[u64]) -> Result<(), PackError> {
    if shape.len() > MAX_RANK {
        return Err(PackError::Rank { rank: shape.len() });
    }
    elements(shape).map(|_| ()).ok_or_else(|| PackError::TooLarge {
        shape: shape.to_vec(),
    })
}

fn step_shape(shape: &[u64], step: &PackStep) -> Result<Vec<u64>, PackError> {
    match step {
        PackStep::Reshape(to) => {
            if elements(to) != elements(shape) {
                return Err(PackError::Reshape {
                    from: shape.to_vec(),
                    to: to.clone(),
                });
            }
            Ok(to.clone())
        }
        PackStep::Layout(splits) => Ok(pieces(shape, splits)?.into_iter().map(|p| p.extent).collect()),
    }
}

/// One physical dimension of a layout.
struct Piece {
    extent: u64,
    axis: usize,
    /// How much of the axis' coordinate one step of this dimension is.
    step: u64,
}

fn pieces(shape: &[u64], splits: &[Split]) -> Result<Vec<Piece>, PackError> {
    let rank = shape.len();
    if splits.len() > MAX_RANK {
        return Err(PackError::Rank { rank: splits.len() });
    }
    for split in splits {
        if usize::from(split.axis) >= rank {
            return Err(PackError::Axis {
                axis: split.axis,
                rank,
            });
        }
        if let Some(factor) = split.factor.filter(|f| *f < 2) {
            return Err(PackError::Factor {
                axis: split.axis,
                factor,
            });
        }
    }
    let too_large = || PackError::TooLarge {
        shape: shape.to_vec(),
    };
    let mut pieces: Vec<Piece> = splits
        .iter()
        .map(|s| Piece {
            extent: s.factor.map_or(0, u64::from),
            axis: usize::from(s.axis),
            step: 1,
        })
        .collect();
    for (axis, &extent) in shape.iter().enumerate() {
        let own: Vec<usize> = (0..splits.len()).filter(|&i| pieces[i].axis == axis).collect();
        let outer = own.iter().filter(|&&i| splits[i].factor.is_none()).count();
        match own.split_first() {
            Some((&first, inner)) if outer == 1 && splits[first].factor.is_none() => {
                let mut block = 1u64;
                for &i in inner.iter().rev() {
                    pieces[i].step = block;
                    block = block.checked_mul(pieces[i].extent).ok_or_else(too_large)?;
                }
                pieces[first].step = block;
                pieces[first].extent = extent.div_ceil(block);
            }
            _ => return Err(PackError::Outer { axis, outer }),
        }
    }
    Ok(pieces)
}

/// Applies the steps to `data` (dense, row-major, `element` bytes each), on up to `threads` threads.
/// Returns the packed bytes; their shape is [`packed_shape`].
///
/// # Errors
/// A step that does not apply, or data of the wrong length.
pub fn pack(
    data: Vec<u8>,
    element: usize,
    shape: &[u64],
    steps: &[PackStep],
    threads: usize,
) -> Result<Vec<u8>, PackError> {
    check_size(shape)?;
    let expected = byte_length(shape, element)?;
    if data.len() != expected {
        return Err(PackError::Length {
            found: data.len(),
            expected,
        });
    }
    let (mut data, mut shape) = (data, shape.to_vec());
    for step in steps {
        let next = step_shape(&shape, step)?;
        check_size(&next)?;
        if let PackStep::Layout(splits) = step {
            data = lay_out(&data, element, &shape, splits, threads)?;
        }
        shape = next;
    }
    Ok(data)
}

fn byte_length(shape: &[u64], element: usize) -> Result<usize, PackError> {
    elements(shape)
        .and_then(|n| usize::try_from(n).ok()?.checked_mul(element))
        .ok_or_else(|| PackError::TooLarge {
            shape: shape.to_vec(),
        })
}

fn lay_out(
    data: &[u8],
    element: usize,
    shape: &[u64],
    splits: &[Split],
    threads: usize,
) -> Result<Vec<u8>, PackError> {
    let pieces = pieces(shape, splits)?;
    let physical: Vec<u64> = pieces.iter().map(|p| p.extent).collect();
    let mut out = vec![0u8; byte_length(&physical, element)?];
    let Some(last) = pieces.last() else {
        // Rank 0: one element.
        out.copy_from_slice(data);
        return Ok(out);
    };
    if out.is_empty() {
        return Ok(out);
    }
    let mut strides = vec![1u64; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis].max(1);
    }
    let row_bytes = last.extent as usize * element;
    let rows = out.len() / row_bytes;
    let rows_per_part = rows.div_ceil(threads.max(1)).max(1);
    // A small array is not worth a thread.
    if threads <= 1 || out.len() < (1 << 20) {
        lay_out_rows(data, element, shape, &strides, &pieces, 0, &mut out);
    } else {
        std::thread::scope(|scope| {
            for (part, chunk) in out.chunks_mut(rows_per_part * row_bytes).enumerate() {
                let (pieces, strides) = (&pieces, &strides);
                scope.spawn(move || {
                    lay_out_rows(data, element, shape, strides, pieces, part * rows_per_part, chunk)
                });
            }
        });
    }
    Ok(out)
}

/// Fills `out`, the rows (runs of the innermost physical dimension) from `first_row` on.
fn lay_out_rows(
    data: &[u8],
    element: usize,
    shape: &[u64],
    strides: &[u64],
    pieces: &[Piece],
    first_row: usize,
    out: &mut [u8],
) {
    let Some((last, outer)) = pieces.split_last() else {
        return;
    };
    // Digits of the outer physical dimensions and the logical coordinates that they give.
    let mut digits = vec![0u64; outer.len()];
    let mut coordinates = vec![0u64; shape.len()];
    let mut row = first_row as u64;
    for (digit, piece) in digits.iter_mut().zip(outer).rev() {
        *digit = row % piece.extent;
        row /= piece.extent;
        coordinates[piece.axis] += *digit * piece.step;
    }
    let lane_step = (last.step * strides[last.axis]) as usize;
    for chunk in out.chunks_exact_mut(last.extent as usize * element) {
        let inside = coordinates.iter().zip(shape).all(|(c, d)| c < d);
        if inside {
            let room = shape[last.axis] - coordinates[last.axis];
            let lanes = room.div_ceil(last.step).min(last.extent) as usize;
            let base: u64 = coordinates.iter().zip(strides).map(|(c, s)| c * s).sum();
            let source = &data[base as usize * element..];
            copy_lanes(source, lane_step, lanes, element, chunk);
        }
        for (digit, piece) in digits.iter_mut().zip(outer).rev() {
            *digit += 1;
            coordinates[piece.axis] += piece.step;
            if *digit < piece.extent {
                break;
            }
            coordinates[piece.axis] -= *digit * piece.step;
            *digit = 0;
        }
    }
}

fn copy_lanes(source: &[u8], step: usize, lanes: usize, element: usize, out: &mut [u8]) {
    if step == 1 {
        out[..lanes * element].copy_from_slice(&source[..lanes * element]);
        return;
    }
    // A constant element size turns each copy into one move.
    match element {
        1 => copy_strided::<1>(source, step, lanes, out),
        2 => copy_strided::<2>(source, step, lanes, out),
        4 => copy_strided::<4>(source, step, lanes, out),
        8 => copy_strided::<8>(source, step, lanes, out),
        _ => {
            for (lane, to) in out.chunks_exact_mut(element).take(lanes).enumerate() {
                to.copy_from_slice(&source[lane * step * element..][..element]);
            }
        }
    }
}

fn copy_strided<const N: usize>(source: &[u8], step: usize, lanes: usize, out: &mut [u8]) {
    for (lane, to) in out.chunks_exact_mut(N).take(lanes).enumerate() {
        to.copy_from_slice(&source[lane * step * N..][..N]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(axis: u8, factor: u32) -> Split {
        Split {
            axis,
            factor: (factor > 1).then_some(factor),
        }
    }

    #[test]
    fn oihw_to_blocked_output_channels_pads_with_zeros() {
        // [3, 2] → [⌈3/2⌉, 2, 2 lanes of axis 0].
        let data: Vec<u8> = (1..=6).collect();
        let steps = [PackStep::Layout(vec![split(0, 1), split(1, 1), split(0, 2)])];
        assert_eq!(packed_shape(&[3, 2], &steps), Ok(vec![2, 2, 2]));
        assert_eq!(
            pack(data, 1, &[3, 2], &steps, 1),
            Ok(vec![1, 3, 2, 4, 5, 0, 6, 0])
        );
    }

    #[test]
    fn faults_are_named() {
        let fault = |splits: Vec<Split>| packed_shape(&[4, 4], &[PackStep::Layout(splits)]).unwrap_err();
        assert_eq!(
            fault(vec![split(0, 1), split(2, 1)]),
            PackError::Axis { axis: 2, rank: 2 }
        );
        assert_eq!(fault(vec![split(0, 1)]), PackError::Outer { axis: 1, outer: 0 });
        assert_eq!(
            fault(vec![split(0, 2), split(0, 1), split(1, 1)]),
            PackError::Outer { axis: 0, outer: 1 }
        );
        assert!(matches!(
            packed_shape(&[4], &[PackStep::Reshape(vec![3])]),
            Err(PackError::Reshape { .. })
        ));
        assert!(matches!(
            packed_shape(&[u64::MAX, 2], &[]),
            Err(PackError::TooLarge { .. })
        ));
    }

    /// The definition, element by element.
    fn naive(data: &[u8], element: usize, shape: &[u64], splits: &[Split]) -> Vec<u8> {
        let physical = packed_shape(shape, &[PackStep::Layout(splits.to_vec())]).unwrap();
        let total: u64 = physical.iter().product();
        let mut out = vec![0; total as usize * element];
        for flat in 0..total {
            let mut rest = flat;
            let mut digits = vec![0; physical.len()];
            for (digit, extent) in digits.iter_mut().zip(&physical).rev() {
                *digit = rest % extent;
                rest /= extent;
            }
            let mut index = vec![0; shape.len()];
            for (digit, split) in digits.iter().zip(splits) {
                let axis = split.axis as usize;
                index[axis] = match split.factor {
                    None => *digit,
                    Some(f) => index[axis] * u64::from(f) + digit,
                };
            }
            if index.iter().zip(shape).all(|(i, d)| i < d) {
                let from = index.iter().zip(shape).fold(0, |o, (i, d)| o * d + i) as usize;
                let to = flat as usize * element;
                out[to..to + element].copy_from_slice(&data[from * element..][..element]);
            }
        }
        out
    }

    proptest! {
        #[test]
        fn equals_the_definition(
            shape in prop::collection::vec(1u64..6, 1..4),
            blocks in prop::collection::vec((0u8..3, 2u32..5), 0..3),
            order in any::<u64>(),
            element in prop::sample::select(vec![1usize, 2, 3, 4, 8]),
            threads in 1usize..4,
        ) {
            let mut outer: Vec<Split> = (0..shape.len() as u8).map(|a| split(a, 1)).collect();
            let by = (order % outer.len() as u64) as usize;
            outer.rotate_left(by);
            if order & 64 != 0 { outer.reverse(); }
            let mut splits = outer;
            splits.extend(blocks.into_iter().map(|(a, f)| split(a % shape.len() as u8, f)));
            let total: u64 = shape.iter().product();
            let data: Vec<u8> = (0..total as usize * element).map(|i| (i % 251) as u8 + 1).collect();
            let expected = naive(&data, element, &shape, &splits);
            let steps = [PackStep::Layout(splits)];
            prop_assert_eq!(pack(data, element, &shape, &steps, threads).unwrap(), expected);
        }
    }

    #[test]
    fn threads_do_not_change_a_large_pack() {
        let shape = [37, 129, 81];
        let data: Vec<u8> = (0..37 * 129 * 81 * 4u32)
            .map(|i| (i * 2654435761 >> 24) as u8)
            .collect();
        let steps = [PackStep::Layout(vec![
            split(2, 1),
            split(0, 1),
            split(1, 1),
            split(0, 8),
            split(1, 16),
        ])];
        let one = pack(data.clone(), 4, &shape, &steps, 1).unwrap();
        assert!(one.len() > 1 << 20);
        assert_eq!(pack(data.clone(), 4, &shape, &steps, 3).unwrap(), one);
        if let PackStep::Layout(splits) = &steps[0] {
            assert_eq!(naive(&data, 4, &shape, splits), one);
        }
    }
}
