//! Casts from and to the limited dtypes.
//!
//! Note [Limited dtypes]: a cast is compiled for each pair of the common dtypes, but not for uint16, uint32, uint64 and
//! the float8 types, which would triple the pairs. These are widened to blocks of a common type, which the compiled casts
//! convert, and narrowed from such blocks. The block's type holds all values of the source, or those that the target
//! distinguishes, so that nothing is rounded twice. Kernels that only move elements treat limited dtypes as integers of
//! the same size; those that compute read and write blocks.

use super::copy::{STAGE, StridedCursor, Writer, cast_run};
use crate::dtype::{DType, Element, decode, encode};

/// The type of the blocks through which elements are cast. An `i64` stands for the 64 bits of a `u64`, so conversions
/// of `u64` to floating point start from the result's type.
pub fn through(from: DType, to: DType) -> DType {
    match (from, to) {
        (DType::U64, DType::F64) => DType::F64,
        (DType::U64, _) if to.is_float() => DType::F32,
        _ if from.is_float8() || to.is_float8() => DType::F32,
        _ if from.is_float() => DType::F64,
        _ => DType::I64,
    }
}

impl StridedCursor<'_> {
    /// Reads elements of a limited dtype, or as one.
    #[cold]
    pub(super) fn read_limited<T: Element>(&mut self, out: &mut [T]) {
        match through(self.dtype(), T::DTYPE) {
            DType::I64 => self.read_through(out, Self::read_i64),
            DType::F64 => self.read_through(out, Self::read_f64),
            _ => self.read_through(out, Self::read_f32),
        }
    }

    fn read_through<W: Element, T: Element>(&mut self, out: &mut [T], widen: fn(&mut Self, &mut [W])) {
        let mut block = [W::zeroed(); STAGE];
        for out in out.chunks_mut(STAGE) {
            let block = &mut block[..out.len()];
            widen(self, block);
            cast_run(block, out);
        }
    }

    /// Reads a block of integers.
    fn read_i64(&mut self, out: &mut [i64]) {
        match self.dtype() {
            DType::U16 => self.widen(out, |v: u16| v as i64),
            DType::U32 => self.widen(out, |v: u32| v as i64),
            DType::U64 => self.read_same(out),
            _ => self.read(out),
        }
    }

    fn read_f64(&mut self, out: &mut [f64]) {
        match self.dtype() {
            DType::U64 => self.widen(out, |v: u64| v as f64),
            _ => self.read(out),
        }
    }

    fn read_f32(&mut self, out: &mut [f32]) {
        match self.dtype() {
            DType::U16 => self.widen(out, |v: u16| v as f32),
            DType::U32 => self.widen(out, |v: u32| v as f32),
            DType::U64 => self.widen(out, |v: u64| v as f32),
            dtype if dtype.is_float8() => {
                let mut codes = [0u8; STAGE];
                let codes = &mut codes[..out.len()];
                self.read_same(codes);
                decode(dtype, codes, out);
            }
            _ => self.read(out),
        }
    }

    fn widen<S: Element, W: Element>(&mut self, out: &mut [W], widen: fn(S) -> W) {
        let mut block = [S::zeroed(); STAGE];
        let block = &mut block[..out.len()];
        self.read_same(block);
        out.iter_mut().zip(block).for_each(|(o, s)| *o = widen(*s));
    }
}

impl Writer<'_> {
    /// Writes elements of a limited dtype.
    #[cold]
    pub(super) fn write_limited<T: Element>(&mut self, values: &[T]) {
        match self.dtype() {
            DType::U16 => self.write_through(values, |w, block: &[i64]| w.narrow::<_, i16>(block)),
            DType::U32 => self.write_through(values, |w, block: &[i64]| w.narrow::<_, i32>(block)),
            DType::U64 if T::DTYPE.is_float() => {
                self.write_through(values, |w, block: &[f64]| w.narrow::<_, u64>(block))
            }
            DType::U64 => self.write_through(values, |w, block: &[i64]| w.write_same(block)),
            dtype => self.write_through(values, |w, block: &[f32]| {
                let mut codes = [0u8; STAGE];
                let codes = &mut codes[..block.len()];
                encode(dtype, block, codes);
                w.write_same(codes);
            }),
        }
    }

    fn write_through<T: Element, W: Element>(&mut self, values: &[T], write: impl Fn(&mut Self, &[W])) {
        let mut block = [W::zeroed(); STAGE];
        for values in values.chunks(STAGE) {
            let block = &mut block[..values.len()];
            cast_run(values, block);
            write(self, block);
        }
    }

    fn narrow<W: Element, D: Element>(&mut self, values: &[W]) {
        let mut block = [D::zeroed(); STAGE];
        let block = &mut block[..values.len()];
        cast_run(values, block);
        self.write_same(block);
    }
}
