//! Matrix products by the `gemm` crate, behind a checked interface.

/// A strided view of a matrix.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix<'a> {
    /// The elements, beginning with the first.
    pub(super) data: &'a [f32],
    /// Rows.
    pub(super) rows: usize,
    /// Columns.
    pub(super) cols: usize,
    /// Elements between rows.
    pub(super) row_stride: usize,
    /// Elements between columns.
    pub(super) col_stride: usize,
}

impl<'a> Matrix<'a> {
    /// A row-major matrix.
    pub(super) fn row_major(data: &'a [f32], rows: usize, cols: usize) -> Self {
        Matrix {
            data,
            rows,
            cols,
            row_stride: cols,
            col_stride: 1,
        }
    }
    /// The transpose.
    pub(super) fn transposed(self) -> Self {
        Matrix {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }
    /// The transpose, if asked for.
    pub(super) fn transposed_if(self, transpose: bool) -> Self {
        if transpose { self.transposed() } else { self }
    }
    fn is_inside(&self) -> bool {
        self.rows == 0
            || self.cols == 0
            || (self.rows - 1) * self.row_stride + (self.cols - 1) * self.col_stride < self.data.len()
    }
}

/// `dst = a · b`, with `dst` row-major and contiguous.
///
/// # Panics
/// When the extents do not agree or a matrix reaches beyond its elements; callers derive all of them from checked shapes.
pub(super) fn multiply(dst: &mut [f32], a: Matrix<'_>, b: Matrix<'_>) {
    assert!(a.cols == b.rows && a.is_inside() && b.is_inside() && dst.len() == a.rows * b.cols);
    if dst.is_empty() {
        return;
    }
    if a.cols == 0 {
        dst.fill(0.0);
        return;
    }
    // SAFETY: the assertion shows that every element that the extents and strides name lies inside its slice; `dst` is
    // borrowed mutably, so it overlaps neither factor; `read_dst` is false, so its old content is not read.
    unsafe {
        gemm::gemm(
            a.rows,
            b.cols,
            a.cols,
            dst.as_mut_ptr(),
            1,
            b.cols as isize,
            false,
            a.data.as_ptr(),
            a.col_stride as isize,
            a.row_stride as isize,
            b.data.as_ptr(),
            b.col_stride as isize,
            b.row_stride as isize,
            0.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}
