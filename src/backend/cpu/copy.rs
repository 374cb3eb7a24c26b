//! Copies and casts between layouts: gather into a block, scatter from a block, fill.

mod gather;
mod interleave;
mod runs;
mod walk;
mod write;

use bytemuck::{Zeroable, bytes_of_mut, cast_slice_mut};

use super::casts::{is_compiled, through};
use super::output::{Cells, Output, write_one};
use super::parallel::{for_ranges_mut, parallel_for};
use super::transpose::{copy_transposed, is_transposed};
pub use crate::backend::View;
use crate::backend::cpu::simd::{Isa, IsaDispatch};
use crate::dtype::{DType, Element, Scalar};
use crate::error::{Error, Result};
use crate::layout::{Odometer, collapse};
use crate::{bail, multiversion, with_dtype};
pub(super) use gather::repeat_each;
use gather::{MOVED, VECTORS, gather, gather_offsets, gather_plane};
pub use interleave::interleave;
pub(super) use runs::cast_run;
use smallvec::SmallVec;
use walk::Walk;
pub use write::Writer;

/// Elements per staged block: both operands and the result of a float32 block fit in the L1 cache.
pub const BLOCK: usize = 1024;
/// Elements per chunk of parallel work.
pub const GRAIN: usize = 1 << 15;
/// Runs of at most so many elements are gathered several at a time.
const SHORT: usize = 128;
/// Elements gathered at a time before a cast.
pub(super) const STAGE: usize = 256;

/// Reads a strided operand in row-major order, a block at a time.
pub struct StridedCursor<'a> {
    walk: Walk,
    small_plane: Option<Box<[isize]>>,
    aligned: bool,
    view: View<'a>,
}

impl<'a> StridedCursor<'a> {
    /// Whether contiguous runs are long enough to process them one by one.
    pub fn has_long_runs(view: &View) -> bool {
        const LONG: usize = 256;
        let (shape, [strides]) = collapse(&view.layout.shape, [&view.layout.strides]);
        view.is_aligned() && strides.last() == Some(&1) && shape.last().is_some_and(|&n| n >= LONG)
    }

    /// Starts at linear position `at`.
    pub fn new(view: View<'a>, at: usize) -> Self {
        let walk = Walk::new(view.layout, at);
        StridedCursor { small_plane: walk.small_plane(), walk, aligned: view.is_aligned(), view }
    }

    /// Number of elements left in the run, including the current one.
    #[inline]
    pub fn run_left(&self) -> usize {
        self.walk.run_left()
    }

    /// The next `n` elements as a slice of the storage: they must be contiguous, aligned and of type `T`.
    #[inline]
    pub fn lend<T: Element>(&self, n: usize) -> &'a [T] {
        &self.view.storage.slice::<T>()[self.walk.at() as usize..][..n]
    }

    /// Skips `n` elements of a run.
    #[inline]
    pub fn skip(&mut self, n: usize) {
        self.walk.odometer.advance(n);
    }

    /// Sets the next position to linear position `at`.
    #[inline]
    pub fn seek(&mut self, at: usize) {
        self.walk.odometer.seek(at);
    }

    /// Reads the next elements as `T` into `out`.
    pub fn read<T: Element>(&mut self, out: &mut [T]) {
        if self.view.dtype == T::DTYPE {
            return self.read_same(out);
        }
        if T::DTYPE.is_limited() {
            return self.read_through(out);
        }
        with_dtype!(common self.view.dtype, S => {
            if const { !is_compiled(S::DTYPE, T::DTYPE) } {
                return self.read_through(out);
            }
            if self.aligned && self.walk.stride == 1 && self.run_left() >= out.len() {
                cast_run(self.lend::<S>(out.len()), out);
                return self.skip(out.len());
            }
            let mut block = [S::zeroed(); STAGE];
            for out in out.chunks_mut(STAGE) {
                if self.aligned && self.walk.stride == 1 && self.run_left() >= out.len() {
                    cast_run(self.lend::<S>(out.len()), out);
                    self.skip(out.len());
                } else {
                    let block = &mut block[..out.len()];
                    self.read_same(block);
                    cast_run(block, out);
                }
            }
        }, else self.read_through(out));
    }

    #[inline]
    pub(super) fn dtype(&self) -> DType {
        self.view.dtype
    }

    /// As [`StridedCursor::read`], without a cast.
    pub(super) fn read_same<T: Element>(&mut self, out: &mut [T]) {
        match size_of::<T>() {
            1 => self.read_bits::<u8>(cast_slice_mut(out)),
            2 => self.read_bits::<i16>(cast_slice_mut(out)),
            4 => self.read_bits::<i32>(cast_slice_mut(out)),
            _ => self.read_bits::<i64>(cast_slice_mut(out)),
        }
    }

    fn read_bits<T: Element>(&mut self, out: &mut [T]) {
        if !self.aligned {
            return self.read_bytes(out);
        }
        let src = self.view.storage.slice::<T>();
        if let Some(offsets) = &self.small_plane {
            return self.walk.small_planes(offsets, out.len(), |at, step, offsets, run| {
                gather_offsets(src, at, step, offsets, &mut out[run]);
            });
        }
        if self.walk.inner <= SHORT {
            return self
                .walk
                .planes(out.len(), |at, strides, run| gather_plane(src, at, strides, &mut out[run]));
        }
        self.walk.runs(out.len(), |at, stride, run| gather(src, at, stride, &mut out[run]));
    }

    /// As [`StridedCursor::read_bits`], for misaligned elements.
    #[cold]
    fn read_bytes<T: Element>(&mut self, out: &mut [T]) {
        let (src, size) = (self.view.storage.slice::<u8>(), size_of::<T>());
        self.walk.runs(out.len(), |mut at, stride, run| {
            for o in &mut out[run] {
                bytes_of_mut(o).copy_from_slice(&src[at as usize * size..][..size]);
                at += stride;
            }
        });
    }
}

/// Sets every element of `out`.
///
/// # Errors
/// `RuntimeError` when the memory is read-only; likewise for all functions that write.
pub fn fill(out: View, value: Scalar) -> Result<()> {
    let bits = value.bytes(out.dtype);
    let [a, b, c, d, ..] = bits;
    match out.dtype.size() {
        1 => fill_bits(out, a),
        2 => fill_bits(out, i16::from_ne_bytes([a, b])),
        4 => fill_bits(out, i32::from_ne_bytes([a, b, c, d])),
        _ => fill_bits(out, i64::from_ne_bytes(bits)),
    }
}

fn fill_bits<T: Element>(out: View, value: T) -> Result<()> {
    let n = out.layout.numel();
    if n <= 1 {
        return if n == 0 { Ok(()) } else { write_one(out, value) };
    }
    if out.layout.is_contiguous() && out.is_aligned() {
        for_ranges_mut(&mut Output::<T>::of(out)?, GRAIN * 4, |_, out| fill_run(out, value));
        return Ok(());
    }
    let cells = Cells::of(out)?;
    if let ([_], [stride]) = (&out.layout.shape[..], &out.layout.strides[..])
        && n <= GRAIN
    {
        let mut at = out.layout.offset as isize;
        for _ in 0..n {
            cells.set(at as usize, value);
            at += stride;
        }
        return Ok(());
    }
    parallel_for(n, GRAIN, |r| {
        Walk::new(out.layout, r.start).runs(r.len(), |mut at, stride, run| {
            if stride == 1 {
                return cells.fill(at as usize, run.len(), value);
            }
            for _ in run {
                cells.set(at as usize, value);
                at += stride;
            }
        });
    });
    Ok(())
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    pub fn fill_run[T: Element](out: &mut [T], value: T) {
        out.fill(value);
    }
}

/// Copies `src` to `out`, which has the same shape, with a cast if the dtypes differ. The two may only overlap if they
/// are the same view.
pub fn copy(src: View, out: View) -> Result<()> {
    debug_assert_eq!(src.layout.shape, out.layout.shape);
    let n = out.layout.numel();
    if n == 0 {
        return Ok(());
    }
    let (src, out) = if src.dtype == out.dtype { (src.bits(), out.bits()) } else { (src, out) };
    let same = src.storage.overlaps(out.storage) && src.storage.address() == out.storage.address();
    if same && src.dtype == out.dtype && src.layout == out.layout {
        return Ok(());
    }
    let apart = !src.overlaps(&out) && src.is_aligned() && out.is_aligned();
    let dense = apart && src.layout.is_contiguous() && out.layout.is_contiguous();
    if dense && is_compiled(src.dtype, out.dtype) {
        copy_dense(src, out)
    } else if let Some(runs) = Runs::of(&src, &out).filter(|_| apart && src.dtype == out.dtype) {
        match src.dtype {
            DType::U8 => runs.copy::<u8>(src, out),
            DType::I16 => runs.copy::<i16>(src, out),
            DType::I32 => runs.copy::<i32>(src, out),
            _ => runs.copy::<i64>(src, out),
        }
    } else if apart && src.dtype == out.dtype && is_transposed(src.layout, out.layout) {
        match src.dtype {
            DType::U8 => copy_transposed::<u8>(src, out),
            DType::I16 => copy_transposed::<i16>(src, out),
            DType::I32 => copy_transposed::<i32>(src, out),
            _ => copy_transposed::<i64>(src, out),
        }
    } else {
        match through(src.dtype, out.dtype) {
            DType::U8 => copy_strided::<u8>(src, out),
            DType::I16 => copy_strided::<i16>(src, out),
            DType::I32 => copy_strided::<i32>(src, out),
            DType::I64 => copy_strided::<i64>(src, out),
            DType::F64 => copy_strided::<f64>(src, out),
            _ => copy_strided::<f32>(src, out),
        }
    }
}

fn copy_dense(src: View, out: View) -> Result<()> {
    with_dtype!(common out.dtype, D => {
        for_ranges_mut(&mut Output::<D>::of(out)?, GRAIN * 4, |r, to| {
            let at = src.layout.offset + r.start;
            if src.dtype == D::DTYPE {
                return to.copy_from_slice(&src.storage.slice::<D>()[at..at + r.len()]);
            }
            with_dtype!(common src.dtype, S => if const { is_compiled(S::DTYPE, D::DTYPE) } {
                cast_run(&src.storage.slice::<S>()[at..at + r.len()], to);
            }, else {});
        });
    }, else {});
    Ok(())
}

/// Where the target of a copy is a little ahead of its source modulo a page, the copy takes many times as long, as if each load waited for a
/// store whose address has the same low bits (docs/design/0006-kernels.md has the figures).
const PAGE: usize = 1 << 12;
const ALIASED: usize = 512;

/// Runs that are contiguous in both views, as in slices of columns: they are copied without a block between, but where that would stall.
struct Runs {
    shape: SmallVec<[usize; 6]>,
    strides: [SmallVec<[isize; 6]>; 2],
    length: usize,
}

impl Runs {
    fn of(src: &View, out: &View) -> Option<Runs> {
        let (mut shape, mut strides) =
            collapse(&out.layout.shape, [&src.layout.strides, &out.layout.strides]);
        let length = shape.pop()?;
        let dense = strides.iter_mut().all(|s| s.pop() == Some(1));
        (dense && length > VECTORS).then_some(Runs { shape, strides, length })
    }

    fn copy<T: Element>(&self, src: View, out: View) -> Result<()> {
        let (cells, from) = (Cells::of(out)?, src.storage.slice::<T>());
        let (rows, length) = (self.shape.iter().product::<usize>(), self.length);
        // Long runs are divided.
        let piece = length.min(GRAIN);
        let pieces = length.div_ceil(piece);
        let base = [src.layout.offset as isize, out.layout.offset as isize];
        let addresses = [src.storage.address(), out.storage.address()];
        parallel_for(rows * pieces, (GRAIN / piece).max(1), |range| {
            let (first, strides) = (range.start / pieces, self.strides.each_ref().map(|s| &s[..]));
            let mut at = Odometer::new(&self.shape, strides, base, first);
            let copy = |s: usize, d: usize, n: usize| {
                let [f, t] = [addresses[0] + s * size_of::<T>(), addresses[1] + d * size_of::<T>()];
                if (1..ALIASED).contains(&(t.wrapping_sub(f) % PAGE)) {
                    let mut block = [T::zeroed(); STAGE];
                    for i in (0..n).step_by(STAGE) {
                        let block = &mut block[..STAGE.min(n - i)];
                        block.copy_from_slice(&from[s + i..][..block.len()]);
                        cells.write(d + i, block);
                    }
                } else if let Ok(run) = <&[T; MOVED]>::try_from(&from[s..s + n]) {
                    cells.write(d, run);
                } else {
                    cells.write(d, &from[s..s + n]);
                }
            };
            if pieces == 1 {
                let [by_s, by_d] = strides.map(|s| s.last().copied().unwrap_or(0));
                let (mut left, wide) = (range.len(), self.shape.last().copied().unwrap_or(1));
                while left > 0 {
                    let (rows, [mut s, mut d]) = ((wide - at.last()).min(left), at.offsets);
                    for _ in 0..rows {
                        copy(s as usize, d as usize, length);
                        (s, d) = (s + by_s, d + by_d);
                    }
                    at.advance(rows);
                    left -= rows;
                }
                return;
            }
            for i in range {
                let start = i % pieces * piece;
                let n = piece.min(length - start);
                let [s, d] = at.offsets.map(|offset| offset as usize + start);
                copy(s, d, n);
                if start + n == length {
                    at.step();
                }
            }
        });
        Ok(())
    }
}

/// Copies in blocks of `W`: see [`through`].
fn copy_strided<W: Element>(src: View, out: View) -> Result<()> {
    let cells = Cells::of(out)?;
    parallel_for(out.layout.numel(), GRAIN, |r| {
        let mut reader = StridedCursor::new(src, r.start);
        let mut writer = Writer::new(&cells, out, r.start);
        let mut block = [W::zeroed(); BLOCK];
        let mut left = r.len();
        while left > 0 {
            let k = left.min(BLOCK);
            reader.read(&mut block[..k]);
            writer.write(&block[..k]);
            left -= k;
        }
    });
    Ok(())
}

/// Adds `src` to `out`, in which several indices may refer to one element. Single-threaded, for a deterministic order.
pub fn accumulate(src: View, out: View) -> Result<()> {
    with_dtype!(float out.dtype, T => accumulate_typed::<T, T>(src, out), else
        with_dtype!(common out.dtype, D => accumulate_typed::<D, f64>(src, out),
            else bail!(Error::DtypeNotImplemented { op: "add_stub", dtype: out.dtype })))
}

fn accumulate_typed<D: Element, S: Element>(src: View, out: View) -> Result<()> {
    let mut reader = StridedCursor::new(src, 0);
    let mut at = Odometer::new(&out.layout.shape, [&out.layout.strides], [out.layout.offset as isize], 0);
    let mut block = [S::from_i64(0); BLOCK];
    let cells = Cells::of(out)?;
    let mut left = out.layout.numel();
    while left > 0 {
        let k = left.min(BLOCK);
        reader.read(&mut block[..k]);
        for v in &block[..k] {
            cells.update(at.offsets[0] as usize, |d: D| {
                if D::DTYPE.is_float() {
                    D::from_f64(d.to_f64() + v.to_f64())
                } else {
                    D::from_i64(d.to_i64().wrapping_add(v.to_i64()))
                }
            });
            at.step();
        }
        left -= k;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Dims;
    use crate::layout::Layout;
    use crate::storage::Storage;

    /// Copies elements numbered by their position, and compares each with where it should come from.
    fn check(source: &Layout, target: &Layout, room: usize) {
        let from: Vec<i32> = (0..room as i32).collect();
        let (from, to) =
            (Storage::from_slice(&from).unwrap(), Storage::from_slice(&vec![-1i32; room]).unwrap());
        let view = |storage, layout| View { storage, layout, dtype: DType::I32 };
        copy(view(&from, source), view(&to, target)).unwrap();
        let offsets = [source, target].map(|l| l.offset as isize);
        let mut at = Odometer::new(&source.shape, [&source.strides, &target.strides], offsets, 0);
        for _ in 0..source.numel() {
            let [s, t] = at.offsets;
            assert_eq!(to.slice::<i32>()[t as usize], s as i32, "{source:?} to {target:?}");
            at.step();
        }
    }

    #[test]
    fn a_target_a_little_ahead_of_its_source_within_a_page_gets_every_element() {
        let room = 1 << 16;
        let (from, to) = (
            Storage::from_slice(&(0..room).collect::<Vec<i32>>()).unwrap(),
            Storage::from_slice(&vec![-1i32; room as usize]).unwrap(),
        );
        for ahead in [4, 12, 508, 512] {
            let source = Layout { strides: [1030, 1].into(), ..Layout::contiguous([30, 700].into()) };
            let offset = (from.address() + ahead).wrapping_sub(to.address()) % PAGE / 4;
            let target = Layout { strides: [1024, 1].into(), offset, ..source.clone() };
            let view = |storage, layout| View { storage, layout, dtype: DType::I32 };
            copy(view(&from, &source), view(&to, &target)).unwrap();
            let written = to.slice::<i32>();
            assert!((0..30 * 700).all(|i| {
                written[offset + i / 700 * 1024 + i % 700] == (i / 700 * 1030 + i % 700) as i32
            }));
        }
    }

    #[test]
    fn copies_of_any_layout_move_each_element_to_its_place() {
        let dense = |shape: &[usize]| Layout::contiguous(Dims::from(shape));
        let strided = |shape: &[usize], strides: &[isize], offset: usize| Layout {
            strides: strides.iter().copied().collect(),
            offset,
            ..dense(shape)
        };
        let room = 1 << 18;
        // Runs in both views, one of them longer than a task.
        for (rows, length) in [(1000, 100), (3, 70_000), (40, 17)] {
            let columns = strided(&[rows, length], &[length as isize + 5, 1], 3);
            check(&columns, &dense(&[rows, length]), room);
            check(&dense(&[rows, length]), &columns, room);
        }
        // Short runs, repeated elements, and reversed ones.
        check(&strided(&[30, 40, 3], &[200, 4, 1], 1), &dense(&[30, 40, 3]), room);
        check(&strided(&[5, 70, 2], &[70, 1, 0], 0), &dense(&[5, 70, 2]), room);
        for n in [2, 3, 4, 8, 16, 32] {
            check(&strided(&[7, 150, n], &[9000, 45, 1], 2), &dense(&[7, 150, n]), room);
            check(&strided(&[7, 150, n], &[900, 3, 0], 2), &dense(&[7, 150, n]), room);
            check(&dense(&[7, 150, n]), &strided(&[7, 150, n], &[9000, 45, 1], 2), room);
        }
        check(
            &strided(&[2, 3, 4, 2, 4, 2], &[1000, 32, 8, 96, 2, 300], 7),
            &dense(&[2, 3, 4, 2, 4, 2]),
            room,
        );
        // Small planes, of which blocks hold no whole number.
        check(&strided(&[900, 3, 3], &[3, 0, 1], 1), &dense(&[900, 3, 3]), room);
        check(&strided(&[4, 700, 2, 5], &[9000, 12, 6, -1], 4), &dense(&[4, 700, 2, 5]), room);
        check(&strided(&[700, 4, 4], &[1, 800, 3200], 9), &dense(&[700, 4, 4]), room);
        check(&strided(&[50, 60], &[60, -1], 59), &dense(&[50, 60]), room);
        check(&strided(&[700], &[-1], 699), &dense(&[700]), room);
        check(&strided(&[9, 9], &[-9, -1], 80), &strided(&[9, 9], &[20, 2], 5), room);
    }
}
