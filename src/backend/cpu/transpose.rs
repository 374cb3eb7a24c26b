//! Transposing by bands of rows, between memory and memory or on the way into a kernel.
//!
//! Note [Bands]: a row of a transposed matrix is a column of memory, and its elements lie in as many cache lines. So
//! rows are made [`SIDE`] at a time: the columns of a band fill whole lines, which are read once. Within a band, square
//! blocks go through vector registers, column by column of blocks; the few lines in use stay in the first-level cache even
//! where the stride is a power of two and all of them fall into one set.

use smallvec::SmallVec;

use super::copy::{self, GRAIN};
use super::microkernel::{GemmElem, View};
use super::output::{Cells, Output};
use super::parallel::{for_parts_mut, parallel_for};
use super::simd::isa;
use crate::dtype::Element;
use crate::error::Result;
use crate::layout::{Layout, Odometer, collapse};

/// Rows of a band: a cache line of 4-byte elements.
pub const SIDE: usize = 16;
/// Widest rows that a band is held of.
const WIDEST: usize = 1 << 15;

/// Writes `rows` rows of `cols` elements, `pitch` apart in `out`: element (i, j) is `src[i + j * stride]`.
///
/// Rows are a band's, or else all that they touch should fit into the first-level cache.
pub fn transpose<T: Element>(
    src: &[T],
    stride: usize,
    rows: usize,
    cols: usize,
    out: &mut [T],
    pitch: usize,
) {
    // Bits are moved, whatever they mean.
    match size_of::<T>() {
        4 => {
            let band = View { data: bytemuck::cast_slice(src), rs: stride, cs: 1 };
            f32::kernels(isa()).pack(cols, rows, band, bytemuck::cast_slice_mut(out), pitch);
        }
        8 => {
            let band = View { data: bytemuck::cast_slice(src), rs: stride, cs: 1 };
            f64::kernels(isa()).pack(cols, rows, band, bytemuck::cast_slice_mut(out), pitch);
        }
        _ => {
            for start in (0..cols).step_by(SIDE) {
                let columns = start..cols.min(start + SIDE);
                for i in 0..rows {
                    for j in columns.clone() {
                        out[i * pitch + j] = src[j * stride + i];
                    }
                }
            }
        }
    }
}

/// Whether [`copy_transposed`] does this copy: the last two dimensions swap places between source and result.
pub fn is_transposed(src: &Layout, out: &Layout) -> bool {
    let Some(r) = src.rank().checked_sub(2) else { return false };
    let (rows, cols) = (src.shape[r], src.shape[r + 1]);
    rows >= 8
        && cols >= 8
        && src.strides[r] == 1
        && src.strides[r + 1] > 0
        && out.strides[r + 1] == 1
        && out.strides[r] >= cols as isize
}

/// Copies between layouts of one shape and dtype for which [`is_transposed`] holds; both are aligned and apart.
pub fn copy_transposed<T: Element>(src: copy::View, out: copy::View) -> Result<()> {
    let r = src.layout.rank() - 2;
    let (rows, cols, stride) = (src.layout.shape[r], src.layout.shape[r + 1], src.layout.strides[r + 1]);
    let (bands, outer): (usize, usize) = (rows.div_ceil(SIDE), src.layout.shape[..r].iter().product());
    let (bands, grain) = (bands.max(1), GRAIN.div_ceil(SIDE * cols));
    // Where a band lies, in both, and its first row.
    let band_at = |band: usize| {
        let lead = Odometer::new(
            &src.layout.shape[..r],
            [&src.layout.strides[..r], &out.layout.strides[..r]],
            [src.layout.offset as isize, out.layout.offset as isize],
            band / bands,
        );
        let row = band % bands * SIDE;
        (lead.offsets[0] as usize + row, lead.offsets[1] + row as isize * out.layout.strides[r], row)
    };
    let from = src.storage.slice::<T>();
    let band_of = |band: usize, to: &mut [T]| {
        let (at, _, row) = band_at(band);
        transpose(&from[at..], stride as usize, SIDE.min(rows - row), cols, to, cols);
    };
    if out.layout.is_contiguous() {
        let first = |band: usize| (band / bands * rows + band % bands * SIDE) * cols;
        let total = outer * bands;
        let bounds: Vec<usize> =
            (0..total.div_ceil(grain)).map(|c| first(c * grain)).chain([outer * rows * cols]).collect();
        for_parts_mut(&mut Output::<T>::of(out)?, &bounds, |c, to| {
            for band in c * grain..total.min((c + 1) * grain) {
                band_of(band, &mut to[first(band) - first(c * grain)..]);
            }
        });
        return Ok(());
    }
    // Between the rows may lie what belongs to others.
    let cells = Cells::of(out)?;
    parallel_for(outer * bands, grain, |range| {
        let mut block = vec![T::from_i64(0); SIDE * cols];
        for band in range {
            let (_, mut to, row) = band_at(band);
            band_of(band, &mut block);
            for values in block.chunks_exact(cols).take(SIDE.min(rows - row)) {
                cells.write(to as usize, values);
                to += out.layout.strides[r];
            }
        }
    });
    Ok(())
}

/// The rows of a strided operand whose columns are contiguous, a band at a time. See Note [Bands].
pub struct Bands<'a, T> {
    view: copy::View<'a>,
    lead: SmallVec<[usize; 6]>,
    lead_strides: SmallVec<[isize; 6]>,
    rows: usize,
    cols: usize,
    stride: usize,
    /// Rows are counted through all matrices; none from `end` on is asked for.
    end: usize,
    held: std::ops::Range<usize>,
    band: Vec<T>,
}

/// The columns of the matrices that [`Bands`] can make the rows of, None where it cannot.
pub fn banded_columns(layout: &Layout) -> Option<usize> {
    let (shape, [strides]) = collapse(&layout.shape, [&layout.strides]);
    let r = shape.len().checked_sub(2)?;
    let fits = strides[r] == 1 && strides[r + 1] > 1 && shape[r] >= SIDE;
    (fits && (4 * SIDE..=WIDEST).contains(&shape[r + 1])).then_some(shape[r + 1])
}

impl<'a, T: Element> Bands<'a, T> {
    /// For a layout that has [`banded_columns`], and elements before position `end`.
    pub fn new(view: copy::View<'a>, end: usize) -> Self {
        let (mut shape, [mut strides]) = collapse(&view.layout.shape, [&view.layout.strides]);
        let (cols, rows) = (shape.pop().unwrap_or(1), shape.pop().unwrap_or(1));
        let stride = strides.pop().unwrap_or(1) as usize;
        strides.pop();
        Bands {
            view,
            lead: shape,
            lead_strides: strides,
            rows,
            cols,
            stride,
            end: end.div_ceil(cols),
            held: 0..0,
            band: Vec::new(),
        }
    }

    /// Elements between rows of the band: one more line, so that not all rows begin in the same cache set.
    fn pitch(&self) -> usize {
        self.cols + SIDE
    }

    /// How many elements follow position `at` in its row, itself included.
    pub fn left(&self, at: usize) -> usize {
        self.cols - at % self.cols
    }

    /// Makes the row of position `at`, if it is not there.
    pub fn reach(&mut self, at: usize) {
        let row = at / self.cols;
        if self.held.contains(&row) {
            return;
        }
        let within = row % self.rows;
        let count = SIDE.min(self.rows - within).min(self.end - row);
        let base = [self.view.layout.offset as isize];
        let start = Odometer::new(&self.lead, [&self.lead_strides], base, row / self.rows).offsets[0];
        let pitch = self.pitch();
        self.band.resize(SIDE * pitch, T::from_i64(0));
        let src = &self.view.storage.slice::<T>()[start as usize + within..];
        transpose(src, self.stride, count, self.cols, &mut self.band, pitch);
        self.held = row..row + count;
    }

    /// The `n` elements from position `at` on, of a row that was [reached](Self::reach).
    pub fn get(&self, at: usize, n: usize) -> &[T] {
        let start = (at / self.cols - self.held.start) * self.pitch() + at % self.cols;
        &self.band[start..start + n]
    }
}
