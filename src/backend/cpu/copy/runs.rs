//! Casts of runs of elements.

use bytemuck::{cast_slice, cast_slice_mut};

use crate::backend::cpu::simd::{Isa, IsaDispatch, narrow_f16, truncate_f32, truncate_f64, widen_f16};
use crate::dtype::{DType, Element, cast};
use crate::multiversion;

/// Numbers that are looked at before their loop is chosen.
const BLOCK: usize = 256;

/// Casts a run of elements. Those between float32 and half types or integers have loops of their own: by way of float64, which [`cast`]
/// takes, they would be several times as long.
#[inline]
pub(in crate::backend::cpu) fn cast_run<S: Element, T: Element>(src: &[S], out: &mut [T]) {
    let n = src.len().min(out.len());
    match const { (S::DTYPE, T::DTYPE) } {
        (DType::BF16, DType::F32) => widen_bf16(cast_slice(&src[..n]), cast_slice_mut(&mut out[..n])),
        (DType::F16, DType::F32) => widen_f16(cast_slice(&src[..n]), cast_slice_mut(&mut out[..n])),
        (DType::F32, DType::F16) => narrow_f16(cast_slice(&src[..n]), cast_slice_mut(&mut out[..n])),
        (DType::F32, DType::BF16) => narrow_bf16(cast_slice(&src[..n]), cast_slice_mut(&mut out[..n])),
        (DType::F32, DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64) => {
            truncate(cast_slice(&src[..n]), out, truncate_f32)
        }
        (DType::F64, DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64) => {
            truncate(cast_slice(&src[..n]), out, truncate_f64)
        }
        (from, to) if from as u8 != to as u8 && (from.is_half() || to.is_half()) => through_floats(src, out),
        _ => cast_each(src, out),
    }
}

/// Casts between half types and others, which [`cast`] does by way of float32 too.
fn through_floats<S: Element, T: Element>(src: &[S], out: &mut [T]) {
    let mut block = [0f32; BLOCK];
    for (src, out) in src.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
        let block = &mut block[..src.len()];
        cast_run(src, block);
        cast_run(block, out);
    }
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    fn cast_each[S: Element, T: Element](src: &[S], out: &mut [T]) {
        for (o, s) in out.iter_mut().zip(src) {
            *o = cast(*s);
        }
    }
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    fn widen_bf16(src: &[u16], out: &mut [u32]) {
        for (o, s) in out.iter_mut().zip(src) {
            *o = (*s as u32) << 16;
        }
    }
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    /// Rounds the bits of float32 to bfloat16, to nearest even. NaNs become quiet NaNs.
    fn narrow_bf16(src: &[u32], out: &mut [u16]) {
        for (o, s) in out.iter_mut().zip(src) {
            let nearest = s.wrapping_add(0x7fff + (s >> 16 & 1)) >> 16;
            let is_nan = s & 0x7fff_ffff > 0x7f80_0000;
            *o = if is_nan { s >> 16 | 0x40 } else { nearest } as u16;
        }
    }
}

/// Truncates to integers: blocks of common numbers, as pictures have, by way of int32.
fn truncate<S: Element, T: Element>(src: &[S], out: &mut [T], common: fn(&[S], &mut [i32]) -> bool) {
    let mut block = [0i32; BLOCK];
    for (src, out) in src.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
        let block = &mut block[..src.len()];
        if common(src, block) {
            cast_each(block, out);
        } else {
            out.iter_mut().zip(src).for_each(|(o, s)| *o = cast(*s));
        }
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::backend::cpu::simd::{best_isa, force_isa};

    #[test]
    fn every_half_is_widened_and_narrowed_as_alone() {
        let bits: Vec<u16> = (0..=u16::MAX).collect();
        let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        // Between two halves, and beyond the largest.
        let between: Vec<f32> = (0..1 << 16).map(|i| (i as f32 - 32768.0) * 2.7).collect();
        for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512] {
            force_isa(isa);
            // Whole vectors, parts of one, and both.
            for n in [bits.len(), bits.len() - 3, 5, 0] {
                let (bits, between) = (&bits[bits.len() - n..], &between[..n]);
                let mut wide = vec![0f32; n];
                let halves: &[f16] = cast_slice(bits);
                cast_run(halves, &mut wide);
                assert!(wide.iter().zip(halves).all(|(w, h)| same(*w, h.to_f32())), "{isa:?} {n}");
                let mut back = vec![f16::ZERO; n];
                cast_run(&wide, &mut back);
                let kept = |(b, h): (&f16, &f16)| b.to_bits() == h.to_bits() || b.is_nan() && h.is_nan();
                assert!(back.iter().zip(halves).all(kept), "{isa:?} {n}");
                let brains: &[bf16] = cast_slice(bits);
                cast_run(brains, &mut wide);
                assert!(wide.iter().zip(brains).all(|(w, h)| same(*w, h.to_f32())), "{isa:?} {n}");
                cast_run(between, &mut back);
                assert!(back.iter().zip(between).all(|(b, v)| *b == f16::from_f32(*v)), "{isa:?} {n}");
            }
            // Every upper half with lower halves below, at and above the tie between two neighbours.
            for low in [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
                let wide: Vec<f32> = bits.iter().map(|b| f32::from_bits((*b as u32) << 16 | low)).collect();
                let mut rounded = vec![bf16::ZERO; wide.len()];
                cast_run(&wide, &mut rounded);
                let alone = |(b, v): (&bf16, &f32)| b.to_bits() == bf16::from_f32(*v).to_bits();
                assert!(rounded.iter().zip(&wide).all(alone), "{isa:?} {low:x}");
            }
        }
        force_isa(best_isa());
    }

    #[test]
    fn floats_truncate_in_loops_as_they_do_alone() {
        let parts = [
            0.0f32, -0.0, 0.5, 0.49999997, 0.99999994, 1.0, 1.5, -1.5, 127.9, -128.9, 255.5, 256.0, -32768.9,
        ];
        let large = [
            4194303.5f32,
            -4194303.8,
            4194304.0,
            4194304.5,
            -4194305.0,
            16777217.0,
            // On both sides of 2³⁰, below which casts go by way of int32.
            1073741760.0,
            -1073741760.0,
            1073741824.0,
            -1073741824.0,
            3e9,
            -3e9,
            1e20,
            f32::NAN,
            f32::INFINITY,
        ];
        // A block of small numbers, and one in which a large one is among them.
        let small: Vec<f32> =
            (0..BLOCK + 3).map(|i| parts[i % parts.len()] * (1.0 + (i / parts.len()) as f32)).collect();
        let isas = [Isa::Baseline, Isa::Avx2, Isa::Avx512];
        let last = [None].into_iter().chain(large.map(Some));
        for (more, isa) in last.flat_map(|more| isas.map(|isa| (more, isa))) {
            force_isa(isa);
            let mut x = small.clone();
            x.extend(more);
            fn found<T: Element>(x: &[f32]) -> Vec<T> {
                let mut out = vec![T::zeroed(); x.len()];
                cast_run(x, &mut out);
                out
            }
            fn wanted<T: Element>(x: &[f32]) -> Vec<T> {
                x.iter().map(|v| cast(*v)).collect()
            }
            assert_eq!(found::<u8>(&x), wanted::<u8>(&x));
            assert_eq!(found::<i8>(&x), wanted::<i8>(&x));
            assert_eq!(found::<i16>(&x), wanted::<i16>(&x));
            assert_eq!(found::<i32>(&x), wanted::<i32>(&x));
            assert_eq!(found::<i64>(&x), wanted::<i64>(&x));
        }
        force_isa(best_isa());
    }

    #[test]
    fn doubles_truncate_in_loops_as_they_do_alone() {
        let parts = [0.0, -0.0, 0.5, 0.999999999999, 1.5, -1.5, -128.9, 255.5, 2147483646.9, -2147483646.9];
        let large = [
            1073741823.9,
            -1073741824.5,
            2147483647.5,
            -2147483648.9,
            1125899906842623.5,
            -1125899906842624.0,
            1125899906842625.5,
        ];
        let huge = [9007199254740993.0, 9.3e18, -9.3e18, 1e300, f64::NAN, f64::NEG_INFINITY];
        let small: Vec<f64> = (0..BLOCK + 3).map(|i| parts[i % parts.len()]).collect();
        let last = [None].into_iter().chain(large.into_iter().chain(huge).map(Some));
        let isas = [Isa::Baseline, Isa::Avx2, Isa::Avx512];
        for (more, isa) in last.flat_map(|more| isas.map(|isa| (more, isa))) {
            force_isa(isa);
            let mut x = small.clone();
            x.extend(more);
            fn check<T: Element>(x: &[f64]) {
                let mut found = vec![T::zeroed(); x.len()];
                cast_run(x, &mut found);
                let wanted: Vec<T> = x.iter().map(|v| cast(*v)).collect();
                assert_eq!(found, wanted);
            }
            check::<u8>(&x);
            check::<i8>(&x);
            check::<i16>(&x);
            check::<i32>(&x);
            check::<i64>(&x);
            // No NaN is equal to itself.
            x.retain(|v| !v.is_nan());
            check::<f16>(&x);
            check::<bf16>(&x);
        }
        force_isa(best_isa());
    }
}
