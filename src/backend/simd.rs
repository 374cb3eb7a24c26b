//! Compiles loops once per instruction set and dispatches at run time.
//!
//! A kernel is an ordinary function on slices. `multiversion!` wraps it: its body is inlined into a version for
//! AVX-512, one for AVX2 with FMA, and one for the baseline, and a call dispatches to the best version that this
//! machine supports. `RGRAD_CPU_ISA=baseline|avx2|avx512` forces one; tests run all of them.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU8, Ordering};

use half::f16;
use half::slice::HalfFloatSliceExt;

/// The instruction sets that kernels are compiled for, in ascending order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Isa {
    Baseline = 1,
    Avx2 = 2,
    Avx512 = 3,
}

static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// The instruction set in use: the best of this machine, or the one set by `RGRAD_CPU_ISA` or [`force_isa`].
#[inline(always)]
pub fn isa() -> Isa {
    match CHOSEN.load(Ordering::Relaxed) {
        3 => Isa::Avx512,
        2 => Isa::Avx2,
        1 => Isa::Baseline,
        _ => choose(),
    }
}

/// The best instruction set that this machine supports.
pub fn best_isa() -> Isa {
    #[cfg(target_arch = "x86_64")]
    {
        let avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("f16c");
        if avx2
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            return Isa::Avx512;
        }
        if avx2 {
            return Isa::Avx2;
        }
    }
    Isa::Baseline
}

#[cold]
fn choose() -> Isa {
    let wanted = match std::env::var("RGRAD_CPU_ISA").as_deref() {
        Ok("baseline") => Isa::Baseline,
        Ok("avx2") => Isa::Avx2,
        _ => Isa::Avx512,
    };
    force_isa(wanted)
}

/// Limits the instruction set to `wanted`, or to the best of this machine; returns the one in use from now on.
pub fn force_isa(wanted: Isa) -> Isa {
    let isa = wanted.min(best_isa());
    CHOSEN.store(isa as u8, Ordering::Relaxed);
    isa
}

/// Whether this machine has, in `isa`, an instruction for products of pairs of bfloat16.
#[inline]
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
pub fn multiplies_bf16_pairs(isa: Isa) -> bool {
    #[cfg(target_arch = "x86_64")]
    return isa == Isa::Avx512 && is_x86_feature_detected!("avx512bf16");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Selects the version of a kernel to call. It never exceeds the instruction set in use.
pub struct IsaDispatch(Isa);

impl IsaDispatch {
    #[inline(always)]
    pub fn best() -> IsaDispatch {
        IsaDispatch(isa())
    }

    /// The best version for elements of type `T`, excluding AVX-512 for 8-byte types: AVX2 already processes four of
    /// them at once, and few programs are bound by arithmetic on them.
    #[inline(always)]
    pub fn worth<T>() -> IsaDispatch {
        IsaDispatch(isa().min(if size_of::<T>() < 8 { Isa::Avx512 } else { Isa::Avx2 }))
    }

    /// The best version up to `best`, for kernels that are memory-bound or rarely used.
    #[inline(always)]
    pub fn up_to(best: Isa) -> IsaDispatch {
        IsaDispatch(isa().min(best))
    }

    /// The version for `isa`.
    ///
    /// # Panics
    /// If `isa` is not in use.
    #[inline(always)]
    pub fn of(isa: Isa) -> IsaDispatch {
        assert!(isa <= self::isa(), "the instruction set is not in use");
        IsaDispatch(isa)
    }

    #[inline(always)]
    pub fn isa(self) -> Isa {
        self.0
    }
}

/// Widens float16 to float32.
pub fn widen_f16(src: &[f16], out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if isa() >= Isa::Avx2 {
        // SAFETY: best_isa() returns Avx2 or more only if F16C is present.
        return unsafe { f16c::widen(src, out) };
    }
    src.convert_to_f32_slice(out);
}

/// Rounds float32 to float16.
pub fn narrow_f16(src: &[f32], out: &mut [f16]) {
    #[cfg(target_arch = "x86_64")]
    if isa() >= Isa::Avx2 {
        // SAFETY: as above.
        return unsafe { f16c::narrow(src, out) };
    }
    out.convert_from_f32_slice(src);
}

macro_rules! truncation {
    ($($name:ident $t:ty;)*) => { $(
        $crate::multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
            /// Truncates to int32. False, and `out` unchanged, unless all magnitudes are at most 2³⁰.
            pub fn $name(src: &[$t], out: &mut [i32]) -> bool {
                const MOST: $t = 1073741824.0;
                let all_common = src.iter().fold(true, |common, v| common & (v.abs() <= MOST));
                if all_common {
                    for (o, v) in out.iter_mut().zip(src) {
                        // SAFETY: the number is finite, and int32 has its integer part.
                        *o = unsafe { v.to_int_unchecked() };
                    }
                }
                all_common
            }
        }
    )* };
}
truncation! { truncate_f32 f32; truncate_f64 f64; }

/// Conversions by instructions that the vectorizer does not use.
#[cfg(target_arch = "x86_64")]
mod f16c {
    use std::arch::x86_64::{_MM_FROUND_TO_NEAREST_INT, _mm256_cvtph_ps, _mm256_cvtps_ph};

    use bytemuck::{Zeroable, cast};
    use half::f16;

    const LANES: usize = 8;

    #[target_feature(enable = "avx2,f16c")]
    pub(super) fn widen(src: &[f16], out: &mut [f32]) {
        let n = src.len().min(out.len());
        let ((src, last), (out, last_out)) =
            (src[..n].as_chunks::<LANES>(), out[..n].as_chunks_mut::<LANES>());
        for (to, from) in out.iter_mut().zip(src) {
            *to = cast(_mm256_cvtph_ps(cast(*from)));
        }
        let mut rest = [f16::zeroed(); LANES];
        rest[..last.len()].copy_from_slice(last);
        let wide: [f32; LANES] = cast(_mm256_cvtph_ps(cast(rest)));
        last_out.copy_from_slice(&wide[..last.len()]);
    }

    #[target_feature(enable = "avx2,f16c")]
    pub(super) fn narrow(src: &[f32], out: &mut [f16]) {
        let n = src.len().min(out.len());
        let ((src, last), (out, last_out)) =
            (src[..n].as_chunks::<LANES>(), out[..n].as_chunks_mut::<LANES>());
        for (to, from) in out.iter_mut().zip(src) {
            *to = cast(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(cast(*from)));
        }
        let mut rest = [0.0; LANES];
        rest[..last.len()].copy_from_slice(last);
        let half: [f16; LANES] = cast(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(cast(rest)));
        last_out.copy_from_slice(&half[..last.len()]);
    }
}

/// Declares a kernel that is compiled per instruction set.
///
/// ```ignore
/// multiversion! {
///     /// Sums a slice.
///     pub fn sum[T: Real](x: &[T]) -> T { x.iter().copied().sum() }
/// }
/// ```
/// Type parameters are in square brackets, with one bound each. Closures and `#[inline(always)]` functions called in
/// the body are compiled for the version's instruction set; other functions are not.
///
/// `version = expression;` before the function selects the version to call as an [`IsaDispatch`]. Versions that a
/// constant in the expression excludes are not compiled.
#[macro_export]
macro_rules! multiversion {
    ($(#[$m:meta])* $vis:vis fn $($rest:tt)*) => {
        $crate::multiversion! { version = $crate::backend::cpu::simd::IsaDispatch::best(); $(#[$m])* $vis fn $($rest)* }
    };
    (version = $version:expr; $(#[$m:meta])* $vis:vis fn $name:ident $([$($g:ident: $b:path),+])? ($($a:ident: $t:ty),* $(,)?) $(-> $r:ty)? $body:block) => {
        $(#[$m])*
        // Not inlined: every caller would contain the baseline version.
        #[inline(never)]
        #[allow(unsafe_code)]
        $vis fn $name $(<$($g: $b),+>)? ($($a: $t),*) $(-> $r)? {
            #[inline(always)]
            fn body $(<$($g: $b),+>)? ($($a: $t),*) $(-> $r)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi2,f16c")]
                fn avx512 $(<$($g: $b),+>)? ($($a: $t),*) $(-> $r)? { body $(::<$($g),+>)? ($($a),*) }
                #[target_feature(enable = "avx2,fma,bmi2,f16c")]
                fn avx2 $(<$($g: $b),+>)? ($($a: $t),*) $(-> $r)? { body $(::<$($g),+>)? ($($a),*) }
                let version: $crate::backend::cpu::simd::IsaDispatch = $version;
                match version.isa() {
                    // SAFETY: the set is in use, and best_isa() returns Avx512 only if these features are present.
                    $crate::backend::cpu::simd::Isa::Avx512 => return unsafe { avx512 $(::<$($g),+>)? ($($a),*) },
                    // SAFETY: as above, for AVX2 and FMA.
                    $crate::backend::cpu::simd::Isa::Avx2 => return unsafe { avx2 $(::<$($g),+>)? ($($a),*) },
                    $crate::backend::cpu::simd::Isa::Baseline => {}
                }
            }
            body $(::<$($g),+>)? ($($a),*)
        }
    };
}
