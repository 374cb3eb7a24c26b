//! Transposition by bands of rows, from memory to memory or into a kernel's input.
//!
//! Note [Bands]: a row of a transposed matrix is a column in memory, each element of which is in another cache line.
//! So [`SIDE`] rows, a band, are transposed at a time: the columns of a band fill whole cache lines, each of which is
//! read once. Within a band, square blocks are transposed in vector registers, one column of blocks after another; the
//! few cache lines in use stay in the L1 cache even when a power-of-two stride maps all of them to one set.

use smallvec::SmallVec;

use super::copy::{self, GRAIN};
use super::microkernel::{GemmElem, View};
use super::output::{Cells, Output};
use super::parallel::{for_parts_mut, parallel_for};
use super::simd::isa;
use crate::dtype::Element;
use crate::error::Result;
use crate::layout::{Layout, Odometer, collapse};

/// Rows per band: a cache line of 4-byte elements.
pub const SIDE: usize = 16;
/// Maximum row length for which a band is buffered.
const WIDEST: usize = 1 << 15;

/// Writes `rows` rows of `cols` elements to `out`, with stride `pitch`: element (i, j) is `src[i + j * stride]`.
///
/// There should be at most one band of rows, or else all accessed memory should fit in the L1 cache.
pub fn transpose<T: Element>(
    src: &[T],
    stride: usize,
    rows: usize,
    cols: usize,
    out: &mut [T],
    pitch: usize,
) {
    // Elements are moved as bits.
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

/// Whether [`copy_transposed`] handles this copy: the last two dimensions are exchanged between source and result.
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

/// Copies between layouts of one shape and dtype for which [`is_transposed`] holds; both are aligned and do not
/// overlap.
pub fn copy_transposed<T: Element>(src: copy::View, out: copy::View) -> Result<()> {
    let r = src.layout.rank() - 2;
    let (rows, cols, stride) = (src.layout.shape[r], src.layout.shape[r + 1], src.layout.strides[r + 1]);
    let (bands, outer): (usize, usize) = (rows.div_ceil(SIDE), src.layout.shape[..r].iter().product());
    let (bands, grain) = (bands.max(1), GRAIN.div_ceil(SIDE * cols));
    // The offsets of a band in source and result, and its first row.
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
    // The memory between the rows may belong to other tensors.
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

/// Reads the rows of a strided operand whose columns are contiguous, a band at a time. See Note [Bands].
pub struct Bands<'a, T> {
    view: copy::View<'a>,
    lead: SmallVec<[usize; 6]>,
    lead_strides: SmallVec<[isize; 6]>,
    rows: usize,
    cols: usize,
    stride: usize,
    /// Rows are numbered through all matrices; rows from `end` on are never requested.
    end: usize,
    held: std::ops::Range<usize>,
    band: Vec<T>,
}

/// The number of columns of the matrices whose rows [`Bands`] can read; None for other layouts.
pub fn banded_columns(layout: &Layout) -> Option<usize> {
    let (shape, [strides]) = collapse(&layout.shape, [&layout.strides]);
    let r = shape.len().checked_sub(2)?;
    let fits = strides[r] == 1 && strides[r + 1] > 1 && shape[r] >= SIDE;
    (fits && (4 * SIDE..=WIDEST).contains(&shape[r + 1])).then_some(shape[r + 1])
}

impl<'a, T: Element> Bands<'a, T> {
    /// For a layout with [`banded_columns`]; only elements before position `end` are requested.
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

    /// Row stride of the band, one cache line longer so that not all rows start in the same cache set.
    fn pitch(&self) -> usize {
        self.cols + SIDE
    }

    /// Number of elements from position `at` to the end of its row.
    pub fn left(&self, at: usize) -> usize {
        self.cols - at % self.cols
    }

    /// Transposes the band that contains position `at`, unless it is buffered.
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

    /// The `n` elements from position `at` on, in a row that was [reached](Self::reach).
    pub fn get(&self, at: usize, n: usize) -> &[T] {
        let start = (at / self.cols - self.held.start) * self.pitch() + at % self.cols;
        &self.band[start..start + n]
    }
}
