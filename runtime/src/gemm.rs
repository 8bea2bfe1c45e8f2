//! `gemm.matmul`: batched matrix multiplication of `f32` through the gemm crate.
//!
//! Arguments `a`, `b`; output `out`; batch dimensions (all but the last two) broadcast as in NumPy to those of `out`, which has them in full.
//! Attributes, all optional:
//! - `transpose_a`, `transpose_b`, `transpose_out` (Boolean): the operand is stored with its last two dimensions exchanged, that is `a` as
//!   `[…, k, m]`, `b` as `[…, n, k]`, `out` as `[…, n, m]`;
//! - `m`, `n`, `k` (integer): logical extents, where a buffer is padded: its stored dimensions may be larger. Padding is not read, and in the
//!   output not written. By default the extents come from the shapes.
//!
//! The product is cut into a grid of tiles that depends on the extents alone, so the result is bit-identical for any number of threads.

use crate::library::{LibraryCall, LibraryError};
use gemm::Parallelism;

/// Multiply-adds that are worth a tile of their own: about 0.1 ms on one core.
const TILE_WORK: usize = 1 << 22;
/// Tiles per matrix at most: enough for the cores of a desktop machine; more would pack the operands too often.
const MAX_TILES: usize = 32;
/// Rows and columns of a tile are multiples of this, so that only the last tile has ragged microkernels.
const TILE_STEP: usize = 48;

/// One operand: its stored shape as a strided matrix per batch.
struct Matrix {
    rows: usize,
    cols: usize,
    row_stride: isize,
    col_stride: isize,
}

/// The routine. Time `O(batch · m · n · k)`.
///
/// # Errors
/// When operands, shapes or attributes don't fit.
pub(crate) fn matmul(call: &mut LibraryCall<'_>) -> Result<(), LibraryError> {
    call.arity(2, 1)?;
    call.known_attributes(&["transpose_a", "transpose_b", "transpose_out", "m", "n", "k"])?;
    let (a_dims, b_dims) = (call.args[0].dims().to_vec(), call.args[1].dims().to_vec());
    let out_dims = call.outs[0].dims().to_vec();
    let a = matrix(call, "a", &a_dims, "m", "k", "transpose_a")?;
    let b = matrix(call, "b", &b_dims, "k", "n", "transpose_b")?;
    let out = matrix(call, "out", &out_dims, "m", "n", "transpose_out")?;
    let (m, n, k) = (out.rows, out.cols, a.cols);
    if a.rows != m {
        return Err(shape_error("a", &a_dims, format!("{m} rows as in the output")));
    }
    if b.rows != k || b.cols != n {
        return Err(shape_error("b", &b_dims, format!("{k} rows and {n} columns")));
    }
    let batch = &out_dims[..out_dims.len() - 2];
    let a_steps = batch_steps("a", &a_dims, batch)?;
    let b_steps = batch_steps("b", &b_dims, batch)?;

    let lhs = call.args[0].as_f32("a")?;
    let rhs = call.args[1].as_f32("b")?;
    let result = call.outs[0].as_f32_mut("out")?;
    if m == 0 || n == 0 || batch.contains(&0) {
        return Ok(());
    }
    if k == 0 {
        // An empty sum, padding included.
        result.fill(0.0);
        return Ok(());
    }
    let mut batches: usize = batch.iter().product::<i64>() as usize;
    let (mut m, mut batch) = (m, batch);
    // One matrix on the right for all batches, and batches of the left one under the other: one tall product.
    let tall = b_steps.iter().zip(batch).all(|(s, d)| *s == 0 || *d == 1)
        && a.row_stride as usize * m == a_steps.last().map_or(0, |s| *s)
        && out.row_stride as usize * m == matrix_elements(&out_dims)
        && contiguous(&a_steps, batch);
    if tall {
        m *= batches;
        batches = 1;
        batch = &[];
    }
    let (tile_rows, tile_cols) = tile(m, n, k);
    let (grid_rows, grid_cols) = (m.div_ceil(tile_rows), n.div_ceil(tile_cols));
    let out_step = matrix_elements(&out_dims);
    let target = SharedOutput(result.as_mut_ptr());
    let chunk = |_: usize, index: usize| {
        let (which, cell) = (index / (grid_rows * grid_cols), index % (grid_rows * grid_cols));
        let (row, col) = (cell / grid_cols * tile_rows, cell % grid_cols * tile_cols);
        let (rows, cols) = (tile_rows.min(m - row), tile_cols.min(n - col));
        let lhs = &lhs[offset(which, batch, &a_steps)..];
        let rhs = &rhs[offset(which, batch, &b_steps)..];
        let (row, col) = (row as isize, col as isize);
        // SAFETY: shapes and strides were checked against the buffers' sizes above, so every element addressed lies inside; the tiles
        // of the output are disjoint, and the output overlaps neither argument.
        unsafe {
            gemm::gemm(
                rows,
                cols,
                k,
                target
                    .get()
                    .add(which * out_step)
                    .offset(row * out.row_stride + col * out.col_stride),
                out.col_stride,
                out.row_stride,
                false,
                lhs.as_ptr().offset(row * a.row_stride),
                a.col_stride,
                a.row_stride,
                rhs.as_ptr().offset(col * b.col_stride),
                b.col_stride,
                b.row_stride,
                0.0,
                1.0,
                false,
                false,
                false,
                Parallelism::None,
            );
        }
    };
    call.pool
        .run(batches * grid_rows * grid_cols, &chunk)
        .map_err(|_| LibraryError::Panicked)
}

/// The output, written by several threads in disjoint tiles.
struct SharedOutput(*mut f32);

// SAFETY: see the use: tiles are disjoint.
unsafe impl Sync for SharedOutput {}

impl SharedOutput {
    /// A method, so that closures capture the wrapper and not the pointer.
    fn get(&self) -> *mut f32 {
        self.0
    }
}

fn shape_error(operand: &'static str, dims: &[i64], expected: String) -> LibraryError {
    LibraryError::Shape {
        operand,
        found: dims.to_vec(),
        expected,
    }
}

/// The last two dimensions of an operand as a logical matrix.
fn matrix(
    call: &LibraryCall<'_>,
    operand: &'static str,
    dims: &[i64],
    rows: &str,
    cols: &str,
    transpose: &str,
) -> Result<Matrix, LibraryError> {
    let [.., stored_rows, stored_cols] = *dims else {
        return Err(shape_error(operand, dims, "at least two dimensions".to_owned()));
    };
    let transposed = call.flag(transpose)?;
    let (row_name, col_name) = if transposed { (cols, rows) } else { (rows, cols) };
    // A logical extent may be smaller than the stored one, never larger.
    let extent = |name: &str, stored: i64| -> Result<usize, LibraryError> {
        match call.int(name)? {
            None => Ok(stored as usize),
            Some(e) if (0..=stored).contains(&e) => Ok(e as usize),
            Some(e) => Err(shape_error(operand, dims, format!("room for {name} = {e}"))),
        }
    };
    let (inner_rows, inner_cols) = (extent(row_name, stored_rows)?, extent(col_name, stored_cols)?);
    let stride = stored_cols as isize;
    Ok(if transposed {
        Matrix {
            rows: inner_cols,
            cols: inner_rows,
            row_stride: 1,
            col_stride: stride,
        }
    } else {
        Matrix {
            rows: inner_rows,
            cols: inner_cols,
            row_stride: stride,
            col_stride: 1,
        }
    })
}

fn matrix_elements(dims: &[i64]) -> usize {
    dims.iter().rev().take(2).product::<i64>() as usize
}

/// Elements to advance per step of each batch dimension of the output; 0 where the operand is broadcast.
fn batch_steps(operand: &'static str, dims: &[i64], batch: &[i64]) -> Result<Vec<usize>, LibraryError> {
    let own = &dims[..dims.len() - 2];
    let mut steps = vec![0usize; batch.len()];
    if own.len() > batch.len() {
        return Err(shape_error(operand, dims, format!("batch dimensions {batch:?}")));
    }
    let mut step = matrix_elements(dims);
    for (i, &d) in own.iter().enumerate().rev() {
        let at = batch.len() - own.len() + i;
        if d != 1 && d != batch[at] {
            return Err(shape_error(operand, dims, format!("batch dimensions {batch:?}")));
        }
        steps[at] = if d == 1 && batch[at] != 1 { 0 } else { step };
        step *= d as usize;
    }
    Ok(steps)
}

/// Whether batches follow each other in memory without gaps or repetition.
fn contiguous(steps: &[usize], batch: &[i64]) -> bool {
    (1..steps.len()).all(|i| steps[i - 1] == steps[i] * batch[i] as usize)
}

/// Where the operand of the `which`-th batch starts.
fn offset(which: usize, batch: &[i64], steps: &[usize]) -> usize {
    let mut rest = which;
    let mut offset = 0;
    for (&d, &step) in batch.iter().zip(steps).rev() {
        offset += rest % d as usize * step;
        rest /= d as usize;
    }
    offset
}

/// Rows and columns per tile: close to square, so that each tile packs little of the operands.
fn tile(m: usize, n: usize, k: usize) -> (usize, usize) {
    let work = m.saturating_mul(n).saturating_mul(k);
    let tiles = (work / TILE_WORK).clamp(1, MAX_TILES) as f64;
    let side = ((m as f64 * n as f64) / tiles).sqrt();
    let snap = |extent: usize, parts: f64| {
        let parts = (parts.round() as usize).clamp(1, extent);
        extent.div_ceil(parts).next_multiple_of(TILE_STEP).min(extent)
    };
    let rows = snap(m, m as f64 / side);
    let cols = snap(n, (tiles / m.div_ceil(rows) as f64).max(1.0));
    (rows, cols)
}
