//! SIMD registers behind one trait: AVX-512, AVX2, and 16-byte arrays.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use crate::dtype::Real;

/// A SIMD register. The last vector of a row may be partial: it is loaded and stored under a mask of its first lanes,
/// and its remaining lanes are loaded as zero.
///
/// # Safety
/// The machine supports the type's instruction set, and pointers are valid for all unmasked lanes.
pub trait Vector: Copy {
    type Elem: Real;
    type Mask: Copy;
    const LANES: usize;
    /// The side of the square that `transpose` handles.
    const BLOCK: usize;
    /// Whether a masked load takes longer than a plain one.
    const MASKS_COST: bool;
    unsafe fn mask(lanes: usize) -> Self::Mask;
    unsafe fn splat(v: Self::Elem) -> Self;
    unsafe fn load(p: *const Self::Elem) -> Self;
    unsafe fn load_part(p: *const Self::Elem, mask: Self::Mask) -> Self;
    unsafe fn store(self, p: *mut Self::Elem);
    unsafe fn store_part(self, p: *mut Self::Elem, mask: Self::Mask);
    unsafe fn mul_add(self, a: Self, b: Self) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    /// max(x, 0), with NaN preserved.
    unsafe fn relu(self) -> Self;
    unsafe fn sum(self) -> Self::Elem;
    /// Transposes a square of `BLOCK` rows with stride `ss` to rows with stride `ds`.
    unsafe fn transpose(src: *const Self::Elem, ss: usize, dst: *mut Self::Elem, ds: usize);
}

macro_rules! x86_vector {
    ($name:ident, $elem:ty, $reg:ty, $lanes:literal, $block:literal, $transpose:ident, mask $mask:ty = $make:expr,
     $load:ident $load_part:ident $store:ident $store_part:ident $set1:ident $fma:ident $add:ident $mul:ident
     $max:ident $zero:ident, sum $sum:expr) => {
        #[cfg(target_arch = "x86_64")]
        #[derive(Clone, Copy)]
        pub struct $name($reg);

        // SAFETY of the blocks in here: the contract of `Vector`.
        #[cfg(target_arch = "x86_64")]
        #[allow(clippy::undocumented_unsafe_blocks, clippy::redundant_closure_call)]
        impl Vector for $name {
            type Elem = $elem;
            type Mask = $mask;
            const LANES: usize = $lanes;
            const BLOCK: usize = $block;
            const MASKS_COST: bool = size_of::<$reg>() < 64; // AVX-512 has registers for masks;
            #[inline(always)]
            unsafe fn mask(lanes: usize) -> $mask {
                #[allow(unused_unsafe)] // not all masks need it
                unsafe {
                    $make(lanes)
                }
            }
            #[inline(always)]
            unsafe fn splat(v: $elem) -> Self {
                unsafe { $name($set1(v)) }
            }
            #[inline(always)]
            unsafe fn load(p: *const $elem) -> Self {
                unsafe { $name($load(p)) }
            }
            #[inline(always)]
            unsafe fn load_part(p: *const $elem, mask: $mask) -> Self {
                unsafe { $name($load_part(p, mask)) }
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut $elem) {
                unsafe { $store(p, self.0) }
            }
            #[inline(always)]
            unsafe fn store_part(self, p: *mut $elem, mask: $mask) {
                unsafe { $store_part(p, mask, self.0) }
            }
            #[inline(always)]
            unsafe fn mul_add(self, a: Self, b: Self) -> Self {
                unsafe { $name($fma(self.0, a.0, b.0)) }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                unsafe { $name($add(self.0, other.0)) }
            }
            #[inline(always)]
            unsafe fn mul(self, other: Self) -> Self {
                unsafe { $name($mul(self.0, other.0)) }
            }
            #[inline(always)]
            unsafe fn relu(self) -> Self {
                // The instruction returns its second operand if either is NaN.
                unsafe { $name($max($zero(), self.0)) }
            }
            #[inline(always)]
            unsafe fn sum(self) -> $elem {
                unsafe { $sum(self.0) }
            }
            #[inline(always)]
            unsafe fn transpose(src: *const $elem, ss: usize, dst: *mut $elem, ds: usize) {
                unsafe { $transpose(src, ss, dst, ds) }
            }
        }
    };
}

x86_vector! { F32x16, f32, __m512, 16, 8, transpose_8x8,
mask __mmask16 = |n: usize| ((1u32 << n) - 1) as u16,
_mm512_loadu_ps load_part_f32x16 _mm512_storeu_ps _mm512_mask_storeu_ps _mm512_set1_ps _mm512_fmadd_ps
_mm512_add_ps _mm512_mul_ps _mm512_max_ps _mm512_setzero_ps, sum |v| _mm512_reduce_add_ps(v) }
x86_vector! { F64x8, f64, __m512d, 8, 4, transpose_4x4,
mask __mmask8 = |n: usize| ((1u32 << n) - 1) as u8,
_mm512_loadu_pd load_part_f64x8 _mm512_storeu_pd _mm512_mask_storeu_pd _mm512_set1_pd _mm512_fmadd_pd
_mm512_add_pd _mm512_mul_pd _mm512_max_pd _mm512_setzero_pd, sum |v| _mm512_reduce_add_pd(v) }
x86_vector! { F32x8, f32, __m256, 8, 8, transpose_8x8,
mask Lanes = |n: usize| Lanes { mask: _mm256_loadu_si256(LANES_32[8 - n..].as_ptr().cast()), all: n == 8 },
_mm256_loadu_ps load_part_f32x8 _mm256_storeu_ps store_part_f32x8 _mm256_set1_ps _mm256_fmadd_ps
_mm256_add_ps _mm256_mul_ps _mm256_max_ps _mm256_setzero_ps,
sum |v| sum_f32x8(v) }
x86_vector! { F64x4, f64, __m256d, 4, 4, transpose_4x4,
mask Lanes = |n: usize| Lanes { mask: _mm256_loadu_si256(LANES_64[4 - n..].as_ptr().cast()), all: n == 4 },
_mm256_loadu_pd load_part_f64x4 _mm256_storeu_pd store_part_f64x4 _mm256_set1_pd _mm256_fmadd_pd
_mm256_add_pd _mm256_mul_pd _mm256_max_pd _mm256_setzero_pd,
sum |v| sum_f64x4(v) }

// Pairs of bfloat16; see Note [Pairs of halves]. Only `mul_add` is of pairs: the other functions are of the sums, or move 32 bits.
x86_vector! { Bf16Pairs16, f32, __m512, 16, 8, transpose_8x8,
mask __mmask16 = |n: usize| ((1u32 << n) - 1) as u16,
_mm512_loadu_ps load_part_f32x16 _mm512_storeu_ps _mm512_mask_storeu_ps _mm512_set1_ps add_pairs_f32x16
_mm512_add_ps _mm512_mul_ps _mm512_max_ps _mm512_setzero_ps, sum |v| _mm512_reduce_add_ps(v) }
x86_vector! { Bf16Pairs8, f32, __m256, 8, 8, transpose_8x8,
mask Lanes = |n: usize| Lanes { mask: _mm256_loadu_si256(LANES_32[8 - n..].as_ptr().cast()), all: n == 8 },
_mm256_loadu_ps load_part_f32x8 _mm256_storeu_ps store_part_f32x8 _mm256_set1_ps add_pairs_f32x8
_mm256_add_ps _mm256_mul_ps _mm256_max_ps _mm256_setzero_ps,
sum |v| sum_f32x8(v) }

// As those of bfloat16, of float16; for dot products alone, as products leave their lanes.
x86_vector! { F16Pairs8, f32, __m256, 8, 8, transpose_8x8,
mask Lanes = |n: usize| Lanes { mask: _mm256_loadu_si256(LANES_32[8 - n..].as_ptr().cast()), all: n == 8 },
_mm256_loadu_ps load_part_f32x8 _mm256_storeu_ps store_part_f32x8 _mm256_set1_ps add_f16_pairs_f32x8
_mm256_add_ps _mm256_mul_ps _mm256_max_ps _mm256_setzero_ps,
sum |v| sum_f32x8(v) }

/// The sums plus the products of sixteen elements of float16, two to each sum.
///
/// # Safety
/// The machine has AVX2 with fused products and conversions of float16.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn add_f16_pairs_f32x8(a: __m256, b: __m256, sums: __m256) -> __m256 {
    // SAFETY: the caller's promise.
    unsafe {
        let low = |v: __m256| _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_castps_si256(v)));
        let high = |v: __m256| _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(_mm256_castps_si256(v)));
        let sums = _mm256_fmadd_ps(low(a), low(b), sums);
        _mm256_fmadd_ps(high(a), high(b), sums)
    }
}

/// The sums plus both products of each lane's pairs.
///
/// # Safety
/// The machine has AVX-512 with its extension for bfloat16.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn add_pairs_f32x16(a: __m512, b: __m512, sums: __m512) -> __m512 {
    // SAFETY: the caller's promise; both types are 512 bits.
    unsafe {
        let bits = |v: __m512| std::mem::transmute::<__m512, __m512bh>(v);
        _mm512_dpbf16_ps(sums, bits(a), bits(b))
    }
}

/// As [`add_pairs_f32x16`], of elements that are widened.
///
/// # Safety
/// The machine has AVX2 with fused products.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn add_pairs_f32x8(a: __m256, b: __m256, sums: __m256) -> __m256 {
    // SAFETY: the caller's promise.
    unsafe {
        let first = |v: __m256| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_castps_si256(v)));
        let high = _mm256_castsi256_ps(_mm256_set1_epi32(!0xffff));
        let second = |v: __m256| _mm256_and_ps(v, high);
        let sums = _mm256_fmadd_ps(first(a), first(b), sums);
        _mm256_fmadd_ps(second(a), second(b), sums)
    }
}

/// Masks for AVX2: eight (four) lanes starting at `8 - n` (`4 - n`) have the first `n` set.
#[cfg(target_arch = "x86_64")]
static LANES_32: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
#[cfg(target_arch = "x86_64")]
static LANES_64: [i64; 8] = [-1, -1, -1, -1, 0, 0, 0, 0];

/// The mask of AVX2. Masked stores, and on some also masked loads, are slow on AMD's processors, as measured in docs/design/0006-kernels.md,
/// so that a vector with all of its lanes is loaded and stored without one. `all` says that it has them.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub struct Lanes {
    mask: __m256i,
    all: bool,
}

macro_rules! masked_by_lanes {
    ($elem:ty, $reg:ty, $load:ident = $plainload:ident or $maskload:ident,
     $store:ident = $plain:ident or $maskstore:ident) => {
        /// # Safety
        /// As [`Vector::load_part`].
        #[cfg(target_arch = "x86_64")]
        #[inline(always)]
        unsafe fn $load(p: *const $elem, lanes: Lanes) -> $reg {
            // SAFETY: the caller's promise.
            unsafe { if lanes.all { $plainload(p) } else { $maskload(p, lanes.mask) } }
        }

        /// # Safety
        /// As [`Vector::store_part`].
        #[cfg(target_arch = "x86_64")]
        #[inline(always)]
        unsafe fn $store(p: *mut $elem, lanes: Lanes, v: $reg) {
            // SAFETY: the caller's promise.
            unsafe { if lanes.all { $plain(p, v) } else { $maskstore(p, lanes.mask, v) } }
        }
    };
}
masked_by_lanes!(f32, __m256, load_part_f32x8 = _mm256_loadu_ps or _mm256_maskload_ps,
    store_part_f32x8 = _mm256_storeu_ps or _mm256_maskstore_ps);
masked_by_lanes!(f64, __m256d, load_part_f64x4 = _mm256_loadu_pd or _mm256_maskload_pd,
    store_part_f64x4 = _mm256_storeu_pd or _mm256_maskstore_pd);

/// # Safety
/// As [`Vector::load_part`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn load_part_f32x16(p: *const f32, mask: __mmask16) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe { _mm512_maskz_loadu_ps(mask, p) }
}

/// # Safety
/// As [`Vector::load_part`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn load_part_f64x8(p: *const f64, mask: __mmask8) -> __m512d {
    // SAFETY: the caller's promise.
    unsafe { _mm512_maskz_loadu_pd(mask, p) }
}

/// The sum of the lanes by halves, in three dependent additions in place of eight.
///
/// # Safety
/// The machine has AVX2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn sum_f32x8(v: __m256) -> f32 {
    // SAFETY: the caller's promise.
    unsafe {
        let four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
    }
}

/// As [`sum_f32x8`].
///
/// # Safety
/// The machine has AVX2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn sum_f64x4(v: __m256d) -> f64 {
    // SAFETY: the caller's promise.
    unsafe {
        let two = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd::<1>(v));
        _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))
    }
}

/// # Safety
/// As [`Vector::transpose`], with AVX2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn transpose_8x8(src: *const f32, ss: usize, dst: *mut f32, ds: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        // Load row i next to row i + 4 with halves exchanged; this leaves 4x4 transposes in each half.
        let pair = |i: usize, half: usize| {
            let low = _mm256_castps128_ps256(_mm_loadu_ps(src.add(i * ss + half)));
            _mm256_insertf128_ps::<1>(low, _mm_loadu_ps(src.add((i + 4) * ss + half)))
        };
        for half in [0, 4] {
            let r = [pair(0, half), pair(1, half), pair(2, half), pair(3, half)];
            let (a, b) = (_mm256_unpacklo_ps(r[0], r[1]), _mm256_unpackhi_ps(r[0], r[1]));
            let (c, d) = (_mm256_unpacklo_ps(r[2], r[3]), _mm256_unpackhi_ps(r[2], r[3]));
            let out = |i: usize, v: __m256| _mm256_storeu_ps(dst.add((half + i) * ds), v);
            out(0, _mm256_shuffle_ps::<0x44>(a, c));
            out(1, _mm256_shuffle_ps::<0xee>(a, c));
            out(2, _mm256_shuffle_ps::<0x44>(b, d));
            out(3, _mm256_shuffle_ps::<0xee>(b, d));
        }
    }
}

/// # Safety
/// As [`Vector::transpose`], with AVX2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn transpose_4x4(src: *const f64, ss: usize, dst: *mut f64, ds: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let pair = |i: usize, half: usize| {
            let low = _mm256_castpd128_pd256(_mm_loadu_pd(src.add(i * ss + half)));
            _mm256_insertf128_pd::<1>(low, _mm_loadu_pd(src.add((i + 2) * ss + half)))
        };
        for half in [0, 2] {
            let (a, b) = (pair(0, half), pair(1, half));
            _mm256_storeu_pd(dst.add(half * ds), _mm256_unpacklo_pd(a, b));
            _mm256_storeu_pd(dst.add((half + 1) * ds), _mm256_unpackhi_pd(a, b));
        }
    }
}

/// A 16-byte vector without intrinsics; every baseline has registers of that size.
#[derive(Clone, Copy)]
pub struct Plain<T, const N: usize>([T; N]);

macro_rules! plain_vector {
    ($elem:ty, $lanes:literal) => {
        // SAFETY of the blocks in here: the contract of `Vector`.
        #[allow(clippy::undocumented_unsafe_blocks)]
        impl Vector for Plain<$elem, $lanes> {
            type Elem = $elem;
            type Mask = usize;
            const LANES: usize = $lanes;
            const BLOCK: usize = 4;
            const MASKS_COST: bool = true;
            #[inline(always)]
            unsafe fn mask(lanes: usize) -> usize {
                lanes
            }
            #[inline(always)]
            unsafe fn splat(v: $elem) -> Self {
                Plain([v; $lanes])
            }
            #[inline(always)]
            unsafe fn load(p: *const $elem) -> Self {
                unsafe { Plain(p.cast::<[$elem; $lanes]>().read()) }
            }
            #[inline(always)]
            unsafe fn load_part(p: *const $elem, lanes: usize) -> Self {
                if lanes == $lanes {
                    return unsafe { Self::load(p) };
                }
                Plain(std::array::from_fn(|i| if i < lanes { unsafe { *p.add(i) } } else { 0.0 }))
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut $elem) {
                unsafe { p.cast::<[$elem; $lanes]>().write(self.0) }
            }
            #[inline(always)]
            unsafe fn store_part(self, p: *mut $elem, lanes: usize) {
                for i in 0..lanes {
                    unsafe { *p.add(i) = self.0[i] };
                }
            }
            #[inline(always)]
            unsafe fn mul_add(self, a: Self, b: Self) -> Self {
                Plain(std::array::from_fn(|i| {
                    // Without a fused instruction `mul_add` would be a slow library call.
                    if cfg!(any(target_feature = "fma", target_arch = "aarch64")) {
                        self.0[i].mul_add(a.0[i], b.0[i])
                    } else {
                        self.0[i] * a.0[i] + b.0[i]
                    }
                }))
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                Plain(std::array::from_fn(|i| self.0[i] + other.0[i]))
            }
            #[inline(always)]
            unsafe fn mul(self, other: Self) -> Self {
                Plain(std::array::from_fn(|i| self.0[i] * other.0[i]))
            }
            #[inline(always)]
            unsafe fn relu(self) -> Self {
                Plain(self.0.map(|v| if v < 0.0 { 0.0 } else { v }))
            }
            #[inline(always)]
            unsafe fn sum(self) -> $elem {
                self.0.iter().sum()
            }
            #[inline(always)]
            unsafe fn transpose(src: *const $elem, ss: usize, dst: *mut $elem, ds: usize) {
                for i in 0..Self::BLOCK {
                    for p in 0..Self::BLOCK {
                        unsafe { *dst.add(p * ds + i) = *src.add(i * ss + p) };
                    }
                }
            }
        }
    };
}
plain_vector!(f32, 4);
plain_vector!(f64, 2);
