//! Casts, and those through blocks of another type.
//!
//! Note [Casts through blocks]: a cast is compiled for each pair of dtypes of which one is float32, float64 or int64 and
//! the other is a common dtype, and among narrow integers and int32, in which they are computed. They are the casts that programs
//! spend time in. Other pairs, and uint16, uint32, uint64
//! and the float8 types, would multiply the code: their elements are widened to blocks of float32, float64 or int64, and
//! narrowed from such blocks. The block's type holds all values of the source, or those that the target distinguishes,
//! so that nothing is rounded twice. Kernels that only move elements treat limited dtypes as integers of the same size;
//! those that compute read and write blocks.

use super::copy::{STAGE, StridedCursor, Writer, cast_run};
use crate::dtype::{DType, Element, decode, encode};

/// Whether `dtype` is one of the types of the blocks.
const fn is_block_type(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::I64)
}

/// Whether kernels compute in int32 what has this dtype.
const fn is_narrow(dtype: DType) -> bool {
    matches!(dtype, DType::Bool | DType::U8 | DType::I8 | DType::I16)
}

/// Whether one of two dtypes is int32 and the other a narrow one.
const fn widens_to_i32(from: DType, to: DType) -> bool {
    is_narrow(from) && matches!(to, DType::I32) || matches!(from, DType::I32) && is_narrow(to)
}

/// Whether elements of one dtype are cast to another at once.
pub const fn is_compiled(from: DType, to: DType) -> bool {
    from as u8 == to as u8
        || widens_to_i32(from, to)
        || is_narrow(from) && is_narrow(to)
        || (is_block_type(from) || is_block_type(to)) && !from.is_limited() && !to.is_limited()
}

/// The type of the blocks through which elements are cast, which is that of the elements where nothing is cast. An
/// `i64` stands for the 64 bits of a `u64`, so conversions of `u64` to floating point start from the result's type.
pub const fn through(from: DType, to: DType) -> DType {
    match (from, to) {
        _ if from as u8 == to as u8 => to,
        (DType::U64, DType::F64) => DType::F64,
        (DType::U64, _) if to.is_float() => DType::F32,
        _ if from.is_float8() || to.is_float8() => DType::F32,
        _ if from.is_limited() => DType::I64,
        _ if is_block_type(to) => to,
        _ if is_block_type(from) => from,
        _ if from.is_half() || to.is_half() => DType::F32,
        _ if widens_to_i32(from, to) => DType::I32,
        _ => DType::I64,
    }
}

impl StridedCursor<'_> {
    /// Reads elements whose cast is not compiled.
    #[cold]
    pub(super) fn read_through<T: Element>(&mut self, out: &mut [T]) {
        match through(self.dtype(), T::DTYPE) {
            DType::I64 => self.read_blocks(out, Self::read_i64),
            DType::F64 => self.read_blocks(out, Self::read_f64),
            _ => self.read_blocks(out, Self::read_f32),
        }
    }

    fn read_blocks<W: Element, T: Element>(&mut self, out: &mut [T], widen: fn(&mut Self, &mut [W])) {
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
    /// Writes elements whose cast is not compiled.
    #[cold]
    pub(super) fn write_through<T: Element>(&mut self, values: &[T]) {
        match self.dtype() {
            DType::U16 => self.write_blocks(values, |w, block: &[i64]| w.narrow::<_, i16>(block)),
            DType::U32 => self.write_blocks(values, |w, block: &[i64]| w.narrow::<_, i32>(block)),
            DType::U64 if T::DTYPE.is_float() => {
                self.write_blocks(values, |w, block: &[f64]| w.narrow::<_, u64>(block))
            }
            DType::U64 => self.write_blocks(values, |w, block: &[i64]| w.write_same(block)),
            dtype if !dtype.is_limited() => match through(T::DTYPE, dtype) {
                DType::I64 => self.write_blocks(values, |w, block: &[i64]| w.write(block)),
                _ => self.write_blocks(values, |w, block: &[f32]| w.write(block)),
            },
            dtype => self.write_blocks(values, |w, block: &[f32]| {
                let mut codes = [0u8; STAGE];
                let codes = &mut codes[..block.len()];
                encode(dtype, block, codes);
                w.write_same(codes);
            }),
        }
    }

    fn write_blocks<T: Element, W: Element>(&mut self, values: &[T], write: impl Fn(&mut Self, &[W])) {
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

#[cfg(test)]
mod tests {
    use super::super::copy::copy;
    use crate::backend::View;
    use crate::dtype::{DType, Scalar};
    use crate::layout::Layout;
    use crate::storage::Storage;

    const NUMBERS: [f64; 8] = [0.0, 1.0, 2.5, 3.75, 100.0, -1.0, 448.0, 7.0];

    fn storage_of(dtype: DType, numbers: impl IntoIterator<Item = Scalar>) -> Storage {
        let bytes: Vec<u8> =
            numbers.into_iter().flat_map(|v| v.bytes(dtype)[..dtype.size()].to_vec()).collect();
        Storage::from_slice(&bytes).unwrap()
    }

    #[test]
    fn every_pair_of_dtypes_is_cast_as_one_number_is_whatever_the_strides() {
        for from in DType::ALL {
            let source = storage_of(from, NUMBERS.iter().map(|&v| Scalar::Float(v)));
            for to in DType::ALL {
                for stride in [1, 2] {
                    let layout = Layout::contiguous([NUMBERS.len() / stride].into());
                    let strided = Layout { strides: [stride as isize].into(), ..layout.clone() };
                    let out = storage_of(to, NUMBERS[..layout.numel()].iter().map(|_| Scalar::Int(0)));
                    let src = View { storage: &source, layout: &strided, dtype: from };
                    copy(src, View { storage: &out, layout: &layout, dtype: to }).unwrap();
                    for (i, found) in out.slice::<u8>().chunks(to.size()).enumerate() {
                        let at = &source.slice::<u8>()[i * stride * from.size()..];
                        let expected = Scalar::read(from, at).bytes(to);
                        assert_eq!(found, &expected[..to.size()], "{from} {to} {stride} {i}");
                    }
                }
            }
        }
    }
}
