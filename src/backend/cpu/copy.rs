//! Moving elements between layouts and dtypes: gather into a block, scatter from one, fill, cast, copy.

use std::ops::Range;

use bytemuck::{Zeroable, bytes_of, cast_slice, cast_slice_mut};

use super::parallel::parallel_for;
use super::transpose::{copy_transposed, is_transposed};
pub use crate::backend::View;
use crate::backend::cpu::simd::{Isa, Version};
use crate::dtype::{DType, Element, Scalar, cast};
use crate::layout::{Odometer, collapse};
use crate::multiversion;
use crate::with_dtype;

impl View<'_> {
    /// The same memory as integers of the same size: copying moves bits, whatever they mean.
    fn bits(self) -> Self {
        let dtype = match self.dtype.size() {
            1 => DType::U8,
            2 => DType::I16,
            4 => DType::I32,
            _ => DType::I64,
        };
        View { dtype, ..self }
    }
}

/// Elements per staged block: both operands and the result of a float32 block stay in the first-level cache.
pub const BLOCK: usize = 1024;
/// Elements per chunk of work that threads share.
pub const GRAIN: usize = 1 << 15;
/// Elements that are gathered before they are cast.
const STAGE: usize = 256;

/// Walks a strided operand in row-major order, a block at a time.
pub struct Reader<'a> {
    odometer: Odometer<1>,
    inner: usize,
    stride: isize,
    view: View<'a>,
}

impl<'a> Reader<'a> {
    /// Whether runs of neighbours are long enough to be handed over one by one.
    pub fn has_long_runs(view: &View) -> bool {
        const LONG: usize = 256;
        let (shape, [strides]) = collapse(&view.layout.shape, [&view.layout.strides]);
        strides.last() == Some(&1) && shape.last().is_some_and(|&n| n >= LONG)
    }

    /// Starts at linear position `at`.
    pub fn new(view: View<'a>, at: usize) -> Self {
        let (shape, [strides]) = collapse(&view.layout.shape, [&view.layout.strides]);
        let inner = shape.last().copied().unwrap_or(1);
        let stride = strides.last().copied().unwrap_or(0);
        let odometer = Odometer::new(&shape, [&strides], [view.layout.offset as isize], at);
        Reader { odometer, inner, stride, view }
    }

    /// How many elements lie at a fixed stride from the present one on, itself included.
    #[inline]
    pub fn run_left(&self) -> usize {
        self.inner - self.odometer.last()
    }

    /// The next `n` elements where they lie: neighbours within a run, of the element type `T`.
    pub fn lend<T: Element>(&self, n: usize) -> &'a [T] {
        &self.view.storage.slice::<T>()[self.odometer.offsets[0] as usize..][..n]
    }

    /// Passes over `n` elements of a run.
    #[inline]
    pub fn skip(&mut self, n: usize) {
        self.odometer.advance(n);
    }

    /// The next elements as `T`, into `out`.
    pub fn read<T: Element>(&mut self, out: &mut [T]) {
        if self.view.dtype == T::DTYPE {
            return self.read_same(out);
        }
        with_dtype!(self.view.dtype, S => {
            let mut block = [S::zeroed(); STAGE];
            for out in out.chunks_mut(STAGE) {
                if self.stride == 1 && self.run_left() >= out.len() {
                    cast_run(self.lend::<S>(out.len()), out);
                    self.skip(out.len());
                } else {
                    let block = &mut block[..out.len()];
                    self.read_same(block);
                    cast_run(block, out);
                }
            }
        });
    }

    /// As [`Reader::read`], of elements of the dtype of the view: moves bits.
    fn read_same<T: Element>(&mut self, out: &mut [T]) {
        match size_of::<T>() {
            1 => self.read_bits::<u8>(cast_slice_mut(out)),
            2 => self.read_bits::<i16>(cast_slice_mut(out)),
            4 => self.read_bits::<i32>(cast_slice_mut(out)),
            _ => self.read_bits::<i64>(cast_slice_mut(out)),
        }
    }

    fn read_bits<T: Element>(&mut self, out: &mut [T]) {
        let src = self.view.storage.slice::<T>();
        let mut done = 0;
        while done < out.len() {
            let run = self.run_left().min(out.len() - done);
            gather(src, self.odometer.offsets[0], self.stride, &mut out[done..done + run]);
            self.odometer.advance(run);
            done += run;
        }
    }

    /// Scatters `values` to the next elements of the view, which is then an output.
    pub fn write<T: Element>(&mut self, values: &[T]) {
        if self.view.dtype == T::DTYPE {
            return self.write_same(values);
        }
        with_dtype!(self.view.dtype, D => {
            let mut block = [D::zeroed(); STAGE];
            for values in values.chunks(STAGE) {
                let block = &mut block[..values.len()];
                cast_run(values, block);
                self.write_same(block);
            }
        });
    }

    fn write_same<T: Element>(&mut self, values: &[T]) {
        match size_of::<T>() {
            1 => self.write_bits::<u8>(cast_slice(values)),
            2 => self.write_bits::<i16>(cast_slice(values)),
            4 => self.write_bits::<i32>(cast_slice(values)),
            _ => self.write_bits::<i64>(cast_slice(values)),
        }
    }

    fn write_bits<T: Element>(&mut self, values: &[T]) {
        let dst = self.view.storage.slice_mut::<T>();
        let mut done = 0;
        while done < values.len() {
            let run = self.run_left().min(values.len() - done);
            scatter(&values[done..done + run], dst, self.odometer.offsets[0], self.stride);
            self.odometer.advance(run);
            done += run;
        }
    }
}

multiversion! { version = Version::up_to(Isa::Avx2);
    fn cast_run[S: Element, T: Element](src: &[S], out: &mut [T]) {
        for (o, s) in out.iter_mut().zip(src) {
            *o = cast(*s);
        }
    }
}

#[inline]
fn gather<T: Element>(src: &[T], at: isize, stride: isize, out: &mut [T]) {
    let start = at as usize;
    match stride {
        1 => out.copy_from_slice(&src[start..start + out.len()]),
        0 => out.fill(src[start]),
        _ => {
            let mut i = at;
            for o in out {
                *o = src[i as usize];
                i += stride;
            }
        }
    }
}

#[inline]
fn scatter<T: Element>(values: &[T], dst: &mut [T], at: isize, stride: isize) {
    if stride == 1 {
        return dst[at as usize..at as usize + values.len()].copy_from_slice(values);
    }
    let mut i = at;
    for v in values {
        dst[i as usize] = *v;
        i += stride;
    }
}

/// Sets every element of `out`.
pub fn fill(out: View, value: Scalar) {
    let mut bits = [0; 8];
    with_dtype!(out.dtype, T => bits[..size_of::<T>()].copy_from_slice(bytes_of(&T::from_scalar(value))));
    let [a, b, c, d, ..] = bits;
    match out.dtype.size() {
        1 => fill_bits(out, a),
        2 => fill_bits(out, i16::from_ne_bytes([a, b])),
        4 => fill_bits(out, i32::from_ne_bytes([a, b, c, d])),
        _ => fill_bits(out, i64::from_ne_bytes(bits)),
    }
}

fn fill_bits<T: Element>(out: View, value: T) {
    let n = out.layout.numel();
    if out.layout.is_contiguous() {
        let at = out.layout.offset;
        parallel_for(n, GRAIN * 4, |r| out.storage.slice_mut::<T>()[at + r.start..at + r.end].fill(value));
        return;
    }
    if let ([_], [stride]) = (&out.layout.shape[..], &out.layout.strides[..])
        && n <= GRAIN
    {
        let data = out.storage.slice_mut::<T>();
        let mut at = out.layout.offset as isize;
        for _ in 0..n {
            data[at as usize] = value;
            at += stride;
        }
        return;
    }
    let block = [value; 64];
    parallel_for(n, GRAIN, |r| {
        let mut writer = Reader::new(out, r.start);
        let mut left = r.len();
        while left > 0 {
            let k = left.min(64);
            writer.write_bits(&block[..k]);
            left -= k;
        }
    });
}

/// Copies `src` to `out`, which has the same shape, casting as needed. The two may be the same memory only if
/// they are the same view.
pub fn copy(src: View, out: View) {
    debug_assert_eq!(src.layout.shape, out.layout.shape);
    let n = out.layout.numel();
    if n == 0 {
        return;
    }
    let (src, out) = if src.dtype == out.dtype { (src.bits(), out.bits()) } else { (src, out) };
    if src.layout.is_contiguous() && out.layout.is_contiguous() {
        let start = |v: View| (v.storage.data_ptr(), v.layout.offset, v.dtype);
        if start(src) != start(out) {
            parallel_for(n, GRAIN * 4, |r| copy_dense(src, out, r));
        }
    } else if src.dtype == out.dtype && is_transposed(src.layout, out.layout) {
        match src.dtype {
            DType::U8 => copy_transposed::<u8>(src, out),
            DType::I16 => copy_transposed::<i16>(src, out),
            DType::I32 => copy_transposed::<i32>(src, out),
            _ => copy_transposed::<i64>(src, out),
        }
    } else {
        with_dtype!(out.dtype, D => copy_strided::<D>(src, out));
    }
}

fn copy_dense(src: View, out: View, r: Range<usize>) {
    let (a, b) = (src.layout.offset + r.start, out.layout.offset + r.start);
    with_dtype!(out.dtype, D => {
        let to = &mut out.storage.slice_mut::<D>()[b..b + r.len()];
        if src.dtype == D::DTYPE {
            return to.copy_from_slice(&src.storage.slice::<D>()[a..a + r.len()]);
        }
        with_dtype!(src.dtype, S => cast_run(&src.storage.slice::<S>()[a..a + r.len()], to))
    })
}

fn copy_strided<D: Element>(src: View, out: View) {
    parallel_for(out.layout.numel(), GRAIN, |r| {
        let mut reader = Reader::new(src, r.start);
        let mut writer = Reader::new(out, r.start);
        let mut block = [D::zeroed(); BLOCK];
        let mut left = r.len();
        while left > 0 {
            let k = left.min(BLOCK);
            reader.read(&mut block[..k]);
            writer.write_same(&block[..k]);
            left -= k;
        }
    });
}

/// Adds `src` to `out`, where several indices of `out` may name one element. One thread, so the order is fixed.
pub fn accumulate(src: View, out: View) {
    with_dtype!(float out.dtype, T => accumulate_typed::<T, T>(src, out), else
        with_dtype!(out.dtype, D => accumulate_typed::<D, f64>(src, out)));
}

fn accumulate_typed<D: Element, S: Element>(src: View, out: View) {
    let mut reader = Reader::new(src, 0);
    let mut at = Odometer::new(&out.layout.shape, [&out.layout.strides], [out.layout.offset as isize], 0);
    let mut block = [S::from_i64(0); BLOCK];
    let dst = out.storage.slice_mut::<D>();
    let mut left = out.layout.numel();
    while left > 0 {
        let k = left.min(BLOCK);
        reader.read(&mut block[..k]);
        for v in &block[..k] {
            let d = &mut dst[at.offsets[0] as usize];
            *d = if D::DTYPE.is_float() {
                D::from_f64(d.to_f64() + v.to_f64())
            } else {
                D::from_i64(d.to_i64().wrapping_add(v.to_i64()))
            };
            at.step();
        }
        left -= k;
    }
}
