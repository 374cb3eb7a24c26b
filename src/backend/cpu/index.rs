//! Indexing with data-dependent positions: gather and scatter by a list, along a dimension, and by masks.
//!
//! All writes to one element happen on one thread in the order of the indices, so that sums over repeated indices do
//! not depend on the number of threads: work is divided by target, never by index.

mod bags;
mod positions;

use std::ops::Range;

use smallvec::SmallVec;

use super::copy::{GRAIN, View};
use super::output::{Cells, Output};
use super::parallel::{for_chunks_mut, for_parts_mut, for_ranges_mut, parallel_for};
use crate::backend::cpu::simd::IsaDispatch;
use crate::backend::elements;
use crate::backend::index::Combine;
use crate::dtype::{Bool8, DType, Element, Real, Scalar};
use crate::error::{Error, Result};
use crate::layout::{Layout, Odometer, collapse};
use crate::storage::Storage;
use crate::{bail, multiversion, with_dtype};
pub use bags::Bags;
pub use positions::{bincount, expect_in_bounds, on_host_grid, unravel};

/// The elements of a tensor selected by a list of offsets. Element `[b, i, a]` is at the offset of `b` in the
/// dimensions `before`, plus `offsets[i]`, plus the offset of `a` in the dimensions `after` (whose own storage offset
/// is 0).
pub struct HostGrid<'a> {
    pub before: &'a Layout,
    pub offsets: &'a [i64],
    pub after: &'a Layout,
}

/// Evaluates an expression with `$T` bound to the type to combine in, and `$f` to the function that combines two
/// elements.
macro_rules! with_combination {
    ($how:expr, $dtype:expr, |$T:ident, $f:ident| $body:expr) => {
        match $how {
            Combine::Set => with_dtype!(bits $dtype, $T => {
                let $f = |_: $T, new: $T| new;
                $body
            }),
            how => with_dtype!(common $dtype, $T => {
                let $f = move |old: $T, new: $T| how.apply(old, new);
                $body
            }, else {}),
        }
    };
}

/// The dtype to combine elements in: of the unsigned integers without kernels, whose sums have the same bits, the signed
/// integer of the same size.
fn combined_as(dtype: DType, how: Combine) -> Result<DType> {
    Ok(match (dtype, how) {
        (d, Combine::Set) if d.is_limited() => d,
        (DType::U16, Combine::Add) => DType::I16,
        (DType::U32, Combine::Add) => DType::I32,
        (DType::U64, Combine::Add) => DType::I64,
        (d, _) if d.is_limited() => {
            bail!(Error::DtypeNotImplemented { op: "scatter_gather_tensor_cpu", dtype })
        }
        (d, _) => d,
    })
}

/// The dimensions `after` as runs of constant stride: their starts, length and stride.
struct Runs {
    starts: Vec<isize>,
    length: usize,
    stride: isize,
}

impl Runs {
    fn new(after: &Layout) -> Runs {
        let (shape, [strides]) = collapse(&after.shape, [&after.strides]);
        let Some((&length, outer)) = shape.split_last() else {
            return Runs { starts: vec![0], length: 1, stride: 1 };
        };
        let outer_strides = &strides[..outer.len()];
        let mut at = Odometer::new(outer, [outer_strides], [0], 0);
        let starts = (0..outer.iter().product()).map(|_| {
            let start = at.offsets[0];
            at.step();
            start
        });
        Runs { starts: starts.collect(), length, stride: strides[outer.len()] }
    }

    fn elements(&self) -> usize {
        self.starts.len() * self.length
    }
}

impl HostGrid<'_> {
    fn bases(&self) -> Odometer<1> {
        Odometer::new(&self.before.shape, [&self.before.strides], [self.before.offset as isize], 0)
    }

    /// The starts of the blocks of `before`.
    fn block_starts(&self) -> SmallVec<[isize; 8]> {
        let mut at = self.bases();
        (0..self.before.numel())
            .map(|_| {
                let start = at.offsets[0];
                at.step();
                start
            })
            .collect()
    }
}

/// Gathers the selected elements into `out`, contiguously.
pub fn gather<T: Element>(x: &Storage, l: &HostGrid, out: &mut [T]) {
    let runs = Runs::new(l.after);
    let (blocks, width, n) = (l.block_starts(), runs.elements(), l.offsets.len());
    if out.is_empty() {
        return;
    }
    let x = x.slice::<T>();
    let spans = if width == 1 && blocks.len() > 1 { long_spans(l.offsets) } else { None };
    let rows = (GRAIN / width).max(1);
    for_chunks_mut(out, rows * width, |c, out| {
        let mut row = c * rows;
        let mut rest = out;
        while !rest.is_empty() {
            // The rows left in this block or in this chunk.
            let (block, i) = (blocks[row / n], row % n);
            let k = (n - i).min(rest.len() / width);
            let (part, tail) = std::mem::take(&mut rest).split_at_mut(k * width);
            match &spans {
                Some(spans) if k == n => {
                    for span in spans {
                        let from = (block + l.offsets[span.start] as isize) as usize;
                        copy_span(&x[from..from + span.len()], &mut part[span.clone()]);
                    }
                }
                _ => gather_rows(x, block, &l.offsets[i..i + k], &runs, part),
            }
            rest = tail;
            row += k;
        }
    });
}

/// The positions in a list at which each offset follows the one before, if they are long enough to be copied as runs.
/// Such are the lists of padding.
fn long_spans(offsets: &[i64]) -> Option<Vec<Range<usize>>> {
    const LEAST_MEAN: usize = 8;
    let mut spans = Vec::new();
    let mut start = 0;
    for i in 1..=offsets.len() {
        if i == offsets.len() || offsets[i] != offsets[i - 1] + 1 {
            spans.push(start..i);
            start = i;
            if spans.len() * LEAST_MEAN > offsets.len() {
                return None;
            }
        }
    }
    Some(spans)
}

/// As `copy_from_slice`, whose call takes longer than a few elements do.
#[inline(always)]
fn copy_span<T: Element>(from: &[T], to: &mut [T]) {
    if let ([x], [o]) = (from, &mut *to) { *o = *x } else { to.copy_from_slice(from) }
}

fn gather_rows<T: Element>(x: &[T], base: isize, offsets: &[i64], runs: &Runs, out: &mut [T]) {
    let width = runs.elements();
    if width == 1 {
        for (o, &i) in out.iter_mut().zip(offsets) {
            *o = x[(base + i as isize) as usize];
        }
        return;
    }
    for (row, &i) in out.chunks_exact_mut(width).zip(offsets) {
        for (part, &start) in row.chunks_exact_mut(runs.length).zip(&runs.starts) {
            let at = base + i as isize + start;
            if runs.stride == 1 {
                part.copy_from_slice(&x[at as usize..at as usize + part.len()]);
            } else {
                for (j, o) in part.iter_mut().enumerate() {
                    *o = x[(at + j as isize * runs.stride) as usize];
                }
            }
        }
    }
}

/// Number of tasks among which targets are divided; each scans the whole list, which pays off for long rows only.
const TARGET_TASKS: i64 = 16;

/// Combines dense `values` with the selected elements, in the order of the indices.
///
/// # Errors
/// `RuntimeError` when the memory is read-only; likewise for all functions that write.
pub fn scatter(x: View, l: &HostGrid, values: View, how: Combine) -> Result<()> {
    let (cells, dtype) = (Cells::of(x)?, combined_as(x.dtype, how)?);
    with_combination!(how, dtype, |T, f| scatter_with::<T>(&cells, l, elements(values), f));
    Ok(())
}

fn scatter_with<T: Element>(cells: &Cells, l: &HostGrid, values: &[T], f: impl Fn(T, T) -> T + Copy + Sync) {
    let runs = Runs::new(l.after);
    let (blocks, width, n) = (l.block_starts(), runs.elements(), l.offsets.len());
    if values.is_empty() {
        return;
    }
    if width == 1 {
        let line = |b: usize| {
            for (&new, &i) in values[b * n..(b + 1) * n].iter().zip(l.offsets) {
                cells.update((blocks[b] + i as isize) as usize, |old| f(old, new));
            }
        };
        return parallel_for(blocks.len(), (GRAIN / n).max(1), |r| r.for_each(line));
    }
    let block = |b: usize, targets: Range<i64>| {
        let values = &values[b * n * width..(b + 1) * n * width];
        for (row, &i) in values.chunks_exact(width).zip(l.offsets) {
            if targets.contains(&i) {
                for (part, &start) in row.chunks_exact(runs.length).zip(&runs.starts) {
                    combine_run(cells, blocks[b] + i as isize + start, runs.stride, part, f);
                }
            }
        }
    };
    if blocks.len() > 1 {
        let grain = (GRAIN / (n * width)).max(1);
        return parallel_for(blocks.len(), grain, |r| r.for_each(|b| block(b, i64::MIN..i64::MAX)));
    }
    if width < 8 || values.len() < GRAIN {
        return block(0, i64::MIN..i64::MAX);
    }
    let (lo, hi) = l.offsets.iter().fold((i64::MAX, i64::MIN), |(lo, hi), &i| (lo.min(i), hi.max(i)));
    let step = (hi - lo) / TARGET_TASKS + 1;
    parallel_for(TARGET_TASKS as usize, 1, |r| {
        r.for_each(|t| block(0, lo + t as i64 * step..lo + (t as i64 + 1) * step));
    });
}

fn combine_run<T: Element>(cells: &Cells, at: isize, stride: isize, values: &[T], f: impl Fn(T, T) -> T) {
    if stride == 1 {
        return cells.update_run(at as usize, values, f);
    }
    for (j, &v) in values.iter().enumerate() {
        cells.update((at + j as isize * stride) as usize, |old| f(old, v));
    }
}

// ---- one index per element, along a dimension

/// The strides with that of `dim` replaced by 0, and the replaced stride.
fn without(layout: &Layout, dim: usize) -> (SmallVec<[isize; 6]>, isize) {
    let mut strides: SmallVec<[isize; 6]> = SmallVec::from_slice(&layout.strides);
    let along = std::mem::replace(&mut strides[dim], 0);
    (strides, along)
}

/// `out[..i..] = x[..index[..i..]..]`: the dense index, of shape `shape`, replaces the coordinate in `dim`.
pub fn gather_along<T: Element>(x: View, dim: usize, shape: &[usize], index: &[i64], out: &mut [T]) {
    let last = shape.len() - 1;
    let (strides, along) = without(x.layout, dim);
    let (n, step, src) = (shape[last], strides[last], x.storage.slice::<T>());
    if out.is_empty() {
        return;
    }
    let rows = (GRAIN / n).max(1);
    for_chunks_mut(out, rows * n, |c, out| {
        let mut at = Odometer::new(&shape[..last], [&strides[..last]], [x.layout.offset as isize], c * rows);
        let index = &index[c * rows * n..];
        for (row, index) in out.chunks_exact_mut(n).zip(index.chunks_exact(n)) {
            let mut base = at.offsets[0];
            if (along, step) == (1, 0) {
                // Along dense rows.
                let src = &src[base as usize..];
                row.iter_mut().zip(index).for_each(|(o, &i)| *o = src[i as usize]);
            } else {
                for (o, &i) in row.iter_mut().zip(index) {
                    *o = src[(base + i as isize * along) as usize];
                    base += step;
                }
            }
            at.step();
        }
    });
}

/// Combines `src` with the elements of `out` whose coordinate in `dim` the index gives. `src` has the shape of the
/// index or is larger.
pub fn scatter_along(
    out: View,
    dim: usize,
    shape: &[usize],
    index: &[i64],
    src: View,
    how: Combine,
) -> Result<()> {
    if index.is_empty() {
        return Ok(());
    }
    let (cells, dtype) = (Cells::of(out)?, combined_as(out.dtype, how)?);
    // Lines along `dim` are independent, so the work is divided along the longest other dimension.
    let widest = (0..shape.len()).filter(|&d| d != dim).max_by_key(|&d| shape[d]);
    let boxed = |split: usize, range: Range<usize>| {
        with_combination!(how, dtype, |T, f| {
            scatter_box::<T>((out, &cells), dim, shape, index, src, (split, range), f)
        })
    };
    let Some(split) = widest.filter(|_| index.len() > GRAIN) else {
        boxed(dim, 0..shape[dim]);
        return Ok(());
    };
    let grain = (GRAIN * shape[split] / index.len()).max(1);
    parallel_for(shape[split], grain, |r| boxed(split, r));
    Ok(())
}

/// The part of a scatter within `range` of dimension `split`.
fn scatter_box<T: Element>(
    (out, cells): (View, &Cells),
    dim: usize,
    shape: &[usize],
    index: &[i64],
    src: View,
    (split, range): (usize, Range<usize>),
    f: impl Fn(T, T) -> T,
) {
    let last = shape.len() - 1;
    let (strides, along) = without(out.layout, dim);
    let index_strides = crate::layout::Dims::from(shape).contiguous_strides();
    let all: [&[isize]; 3] = [&strides, &index_strides, &src.layout.strides];
    let mut part: SmallVec<[usize; 6]> = SmallVec::from_slice(shape);
    part[split] = range.len();
    let start = range.start as isize;
    let base = [out.layout.offset as isize, 0, src.layout.offset as isize];
    let base = std::array::from_fn(|k| base[k] + start * all[k][split]);
    let mut at = Odometer::new(&part[..last], all.map(|s| &s[..last]), base, 0);
    let values = src.storage.slice::<T>();
    // Indices are dense along the last dimension.
    let (step, from) = (all[0][last], all[2][last]);
    for _ in 0..part[..last].iter().product() {
        let [mut d, i, s] = at.offsets;
        let index = &index[i as usize..][..part[last]];
        if from == 1 {
            for (&i, &new) in index.iter().zip(&values[s as usize..][..part[last]]) {
                cells.update((d + i as isize * along) as usize, |old| f(old, new));
                d += step;
            }
        } else {
            for (k, &i) in index.iter().enumerate() {
                let new = values[(s + k as isize * from) as usize];
                cells.update((d + i as isize * along) as usize, |old| f(old, new));
                d += step;
            }
        }
        at.step();
    }
}

// ---- sums of rows

/// Lookups sorted by row, stably: those of row `r` are `order[starts[r]..starts[r + 1]]`. One thread sums a row in the
/// order of the lookups, whatever the number of threads.
struct ByRow {
    starts: Vec<u32>,
    order: Vec<u32>,
}

impl ByRow {
    fn new(index: &[i64], count: usize) -> ByRow {
        let mut starts = vec![0u32; count + 1];
        index.iter().for_each(|&i| starts[i as usize + 1] += 1);
        for r in 0..count {
            starts[r + 1] += starts[r];
        }
        let mut next = starts.clone();
        let mut order = vec![0u32; index.len()];
        for (k, &i) in index.iter().enumerate() {
            let at = &mut next[i as usize];
            order[*at as usize] = k as u32;
            *at += 1;
        }
        ByRow { starts, order }
    }

    fn of(&self, row: usize) -> &[u32] {
        &self.order[self.starts[row] as usize..self.starts[row + 1] as usize]
    }
}

/// Sums of the rows of a matrix that share an index (the gradient of an embedding).
pub struct RowSums<'a> {
    pub index: &'a [i64],
    pub width: usize,
    /// The row that stays zero.
    pub padding: Option<usize>,
    /// Whether each sum is divided by its number of rows.
    pub by_frequency: bool,
}

impl RowSums<'_> {
    pub fn run<T: Real>(&self, g: &[T], out: &mut [T]) {
        let dim = self.width;
        if dim == 0 || out.is_empty() {
            return;
        }
        let by_row = ByRow::new(self.index, out.len() / dim);
        let rows = (GRAIN / dim).max(1);
        for_chunks_mut(out, rows * dim, |chunk, out| {
            out.fill(T::ZERO);
            for (k, sum) in out.chunks_exact_mut(dim).enumerate() {
                let row = chunk * rows + k;
                let found = by_row.of(row);
                if found.is_empty() || self.padding == Some(row) {
                    continue;
                }
                for &at in found {
                    for (s, &v) in sum.iter_mut().zip(&g[at as usize * dim..]) {
                        *s += v;
                    }
                }
                if self.by_frequency {
                    let scale = T::ONE / T::of(found.len() as f64);
                    sum.iter_mut().for_each(|s| *s = *s * scale);
                }
            }
        });
    }
}

// ---- masks

/// Mask elements that are counted, and then compressed or expanded, per chunk.
const MASK_CHUNK: usize = 1 << 15;
/// Elements that are compressed on the stack before being copied out.
const MASK_BLOCK: usize = 256;

multiversion! { version = IsaDispatch::worth::<T>();
    fn count[T: Element](mask: &[T]) -> usize {
        // In blocks of up to 255 the count fits in a byte, so it is summed in bytes.
        mask.chunks(64).map(|c| c.iter().map(|m| m.to_i64() as u8).sum::<u8>() as usize).sum()
    }
}

/// The number of true elements before each chunk of the mask; the last entry is the total.
pub fn mask_starts(mask: &[Bool8]) -> Vec<usize> {
    let mut starts = vec![0; mask.len().div_ceil(MASK_CHUNK) + 1];
    for_chunks_mut(&mut starts[1..], 1, |c, n| {
        n[0] = count(&mask[c * MASK_CHUNK..mask.len().min((c + 1) * MASK_CHUNK)])
    });
    for c in 1..starts.len() {
        starts[c] += starts[c - 1];
    }
    starts
}

/// The position and mask of a chunk.
fn mask_chunk(mask: &[Bool8], c: usize) -> (usize, &[Bool8]) {
    let at = c * MASK_CHUNK;
    (at, &mask[at..mask.len().min(at + MASK_CHUNK)])
}

/// Where the elements that a block of a mask keeps are gathered, by cache lines.
#[repr(align(64))]
struct MaskBlock<T>([T; MASK_BLOCK]);

/// Writes the elements of `x` at which the mask is true contiguously to `out`.
pub fn compress<T: Element>(x: &[T], mask: &[Bool8], starts: &[usize], out: &mut [T]) {
    for_parts_mut(out, starts, |c, mut out| {
        let (at, mask) = mask_chunk(mask, c);
        let x = &x[at..at + mask.len()];
        let mut block = MaskBlock([T::from_i64(0); MASK_BLOCK]);
        let block = &mut block.0;
        for (x, mask) in x.chunks(MASK_BLOCK).zip(mask.chunks(MASK_BLOCK)) {
            // Branchless: every element is written, but the position advances only past those that are kept.
            let mut kept = 0;
            for (&v, m) in x.iter().zip(mask) {
                block[kept & (MASK_BLOCK - 1)] = v;
                kept += m.is_true() as usize;
            }
            // Another thread may have changed the mask since it was counted.
            let kept = kept.min(out.len());
            let (part, rest) = std::mem::take(&mut out).split_at_mut(kept);
            part.copy_from_slice(&block[..kept]);
            out = rest;
        }
    });
}

/// Writes the positions at which the mask is true contiguously to `out`.
pub fn positions(mask: &[Bool8], starts: &[usize], out: &mut [i64]) {
    for_parts_mut(out, starts, |c, mut out| {
        let (at, mask) = mask_chunk(mask, c);
        let mut block = MaskBlock([0; MASK_BLOCK]);
        let block = &mut block.0;
        for (c, mask) in mask.chunks(MASK_BLOCK).enumerate() {
            let mut kept = 0;
            for (i, m) in mask.iter().enumerate() {
                block[kept & (MASK_BLOCK - 1)] = (at + c * MASK_BLOCK + i) as i64;
                kept += m.is_true() as usize;
            }
            // Another thread may have changed the mask since it was counted.
            let kept = kept.min(out.len());
            let (part, rest) = std::mem::take(&mut out).split_at_mut(kept);
            part.copy_from_slice(&block[..kept]);
            out = rest;
        }
    });
}

/// Writes contiguous `values` to the elements at which the mask is true: the inverse of [`compress`].
pub fn expand<T: Element>(values: &[T], mask: &[Bool8], starts: &[usize], out: &mut [T]) {
    for_ranges_mut(out, MASK_CHUNK, |range, out| {
        let c = range.start / MASK_CHUNK;
        let mut values = values[starts[c]..starts[c + 1]].iter();
        for (o, m) in out.iter_mut().zip(&mask[range]) {
            if m.is_true()
                && let Some(&v) = values.next()
            {
                *o = v;
            }
        }
    });
}

/// Fills the elements of dense `out` at which the mask is true.
pub fn fill_masked(out: View, mask: &[Bool8], value: Scalar) -> Result<()> {
    let bits = value.bytes(out.dtype);
    with_dtype!(bits out.dtype, T => {
        let value: T = bytemuck::pod_read_unaligned(&bits[..size_of::<T>()]);
        for_ranges_mut(&mut Output::<T>::of(out)?, GRAIN, |r, out| {
            for (o, m) in out.iter_mut().zip(&mask[r]) {
                *o = if m.is_true() { value } else { *o };
            }
        });
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Dims;

    fn storage(values: &[f32]) -> Storage {
        let mut s = Storage::new(size_of_val(values)).unwrap();
        s.slice_mut::<f32>().unwrap().copy_from_slice(values);
        s
    }

    #[test]
    fn repeated_targets_add_up_in_every_division_of_the_work() {
        let (rows, width, picks) = (40, 32, 4096);
        let offsets: Vec<i64> = (0..picks).map(|i| (i * i % rows * width) as i64).collect();
        let after = Layout::contiguous(Dims::from([width]));
        let l = HostGrid { before: &Layout::default(), offsets: &offsets, after: &after };
        let x = storage(&vec![0.0; rows * width]);
        let (layout, values) =
            (Layout::contiguous(Dims::from([rows, width])), storage(&vec![1.0; picks * width]));
        let flat = Layout::contiguous(Dims::from([picks, width]));
        let view = |storage, layout| View { storage, layout, dtype: crate::dtype::DType::F32 };
        scatter(view(&x, &layout), &l, view(&values, &flat), Combine::Add).unwrap();
        for row in 0..rows {
            let times = offsets.iter().filter(|&&o| o as usize == row * width).count() as f32;
            assert!(x.slice::<f32>()[row * width..][..width].iter().all(|&v| v == times));
        }
    }

    #[test]
    fn expanding_what_was_compressed_restores_the_masked_elements() {
        let n = 3 * MASK_CHUNK + 77;
        let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let mask: Vec<Bool8> = (0..n).map(|i| Bool8((i * 7 % 5 < 2) as u8)).collect();
        let starts = mask_starts(&mask);
        let kept = *starts.last().unwrap();
        assert_eq!(kept, mask.iter().filter(|m| m.0 != 0).count());
        let mut small = vec![0.0; kept];
        compress(&x, &mask, &starts, &mut small);
        let mut back = vec![-1.0; n];
        expand(&small, &mask, &starts, &mut back);
        for i in 0..n {
            assert_eq!(back[i], if mask[i].0 != 0 { x[i] } else { -1.0 });
        }
    }

    #[test]
    fn a_scatter_shared_between_threads_equals_one_done_in_order() {
        let shape = [50, 900];
        let index: Vec<i64> = (0..45_000).map(|i| i * 31 % 50).collect();
        let src = storage(&(0..45_000).map(|i| (i % 13) as f32).collect::<Vec<_>>());
        let layout = Layout::contiguous(Dims::from(shape));
        let view = |s| View { storage: s, layout: &layout, dtype: crate::dtype::DType::F32 };
        let (a, b) = (storage(&vec![0.0; 45_000]), storage(&vec![0.0; 45_000]));
        scatter_along(view(&a), 0, &shape, &index, view(&src), Combine::Set).unwrap();
        let out = (view(&b), &Cells::of(view(&b)).unwrap());
        scatter_box::<f32>(out, 0, &shape, &index, view(&src), (0, 0..50), |_, new| new);
        assert_eq!(a.slice::<f32>(), b.slice::<f32>());
    }
}
