//! The kernels of half types.

use half::{bf16, f16};

use super::Kernels;
#[cfg(target_arch = "x86_64")]
use super::vector::{Bf16Pairs8, Bf16Pairs16, F16Pairs8, Vector};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512_bf16};
use crate::backend::cpu::simd::Isa;
#[cfg(target_arch = "x86_64")]
use crate::backend::cpu::simd::{best_isa, multiplies_bf16_pairs};
use crate::dtype::Element;

/// A half type. Its kernels multiply elements of 32 bits, each a pair; see Note [Pairs of halves]. Their results are float32, and their
/// epilogue may only store or add.
pub trait Half: Element {
    /// Those for `isa`, or for the best instruction set of this machine if that is lower, of which the dot products may be used.
    fn dot_kernels(isa: Isa) -> Option<&'static Kernels<f32>>;
    /// As `dot_kernels`, with tiles.
    fn tile_kernels(isa: Isa) -> Option<&'static Kernels<f32>>;
}

#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
impl Half for bf16 {
    fn dot_kernels(isa: Isa) -> Option<&'static Kernels<f32>> {
        #[cfg(target_arch = "x86_64")]
        {
            static DOTS: Kernels<f32> = kernels!(avx2, Bf16Pairs8, dot_cols 2, rows);
            Self::tile_kernels(isa).or((isa.min(best_isa()) >= Isa::Avx2).then_some(&DOTS))
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            None
        }
    }

    fn tile_kernels(isa: Isa) -> Option<&'static Kernels<f32>> {
        #[cfg(target_arch = "x86_64")]
        {
            static TILES: Kernels<f32> =
                kernels!(avx512_bf16, Bf16Pairs16, dot_cols 4, rows 1 2 3 4 5 6 7 8 9 10 11 12 13 14);
            multiplies_bf16_pairs(isa).then_some(&TILES)
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            None
        }
    }
}

#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
impl Half for f16 {
    fn dot_kernels(isa: Isa) -> Option<&'static Kernels<f32>> {
        #[cfg(target_arch = "x86_64")]
        {
            static DOTS: Kernels<f32> = kernels!(avx2, F16Pairs8, dot_cols 2, rows);
            (isa.min(best_isa()) >= Isa::Avx2).then_some(&DOTS)
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            None
        }
    }

    fn tile_kernels(_: Isa) -> Option<&'static Kernels<f32>> {
        None
    }
}
