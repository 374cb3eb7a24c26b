//! What elementary functions are written for.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// A number, or a symbol of the code generator that stands for one in each lane of a vector.
///
/// A function that is generic over it is compiled for numbers, and emitted as machine code from the same steps, so both
/// give the same bits.
pub trait Lanes:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + Neg<Output = Self>
{
    type Number: Copy;
    type Bool: Copy;
    fn of(v: Self::Number) -> Self;
    fn less(self, o: Self) -> Self::Bool;
    fn less_or_equal(self, o: Self) -> Self::Bool;
    fn equal(self, o: Self) -> Self::Bool;
    fn select(c: Self::Bool, yes: Self, no: Self) -> Self;
    fn abs(self) -> Self;
    fn copysign(self, sign: Self) -> Self;
    /// The sum of the bits as integers, which wraps.
    fn add_bits(self, o: Self) -> Self;
    /// The difference of the bits as integers, which wraps.
    fn sub_bits(self, o: Self) -> Self;
    fn or_bits(self, o: Self) -> Self;
    fn shl_bits(self, by: u32) -> Self;
    fn shr_bits(self, by: u32) -> Self;
    /// `self`·2^n for an integer n, rounded once, where that is one instruction.
    #[inline(always)]
    fn scaled(self, _n: Self) -> Option<Self> {
        None
    }
    /// Minimum with a bound; NaN stays NaN.
    #[inline(always)]
    fn at_most(self, bound: Self) -> Self {
        Self::select(bound.less(self), bound, self)
    }
    /// Maximum with a bound; NaN stays NaN.
    #[inline(always)]
    fn at_least(self, bound: Self) -> Self {
        Self::select(self.less(bound), bound, self)
    }
}

/// Evaluates the polynomial with coefficients `c`, in ascending order: four at a time, since each step of a chain of products
/// and sums waits for the one before (Estrin: Organization of computer systems, 1960).
#[inline(always)]
pub(super) fn poly<L: Lanes, const N: usize>(x: L, c: [L::Number; N]) -> L {
    let z = x * x;
    let pair = |i: usize| if i + 1 < N { L::of(c[i]) + L::of(c[i + 1]) * x } else { L::of(c[i]) };
    let four = |i: usize| if i + 2 < N { pair(i) + pair(i + 2) * z } else { pair(i) };
    let mut i = (N - 1) / 4 * 4;
    let mut s = four(i);
    if i > 0 {
        let w = z * z;
        while i > 0 {
            i -= 4;
            s = s * w + four(i);
        }
    }
    s
}

/// float32 only: AVX2 has neither the shift nor the conversion for 64 bits.
pub trait Lanes32: Lanes<Number = f32> {
    /// The bits shifted right, filled with the sign.
    fn sar_bits(self, by: u32) -> Self;
    /// The bits, a signed integer, as a number.
    fn of_integer_bits(self) -> Self;
}

macro_rules! lanes {
    ($($t:ident)*) => { $(impl Lanes for $t {
        type Number = $t;
        type Bool = bool;
        #[inline(always)] fn of(v: $t) -> Self { v }
        #[inline(always)] fn less(self, o: Self) -> bool { self < o }
        #[inline(always)] fn less_or_equal(self, o: Self) -> bool { self <= o }
        #[inline(always)] fn equal(self, o: Self) -> bool { self == o }
        #[inline(always)] fn select(c: bool, yes: Self, no: Self) -> Self { if c { yes } else { no } }
        #[inline(always)] fn abs(self) -> Self { $t::abs(self) }
        #[inline(always)] fn copysign(self, sign: Self) -> Self { $t::copysign(self, sign) }
        #[inline(always)] fn add_bits(self, o: Self) -> Self { $t::from_bits(self.to_bits().wrapping_add(o.to_bits())) }
        #[inline(always)] fn sub_bits(self, o: Self) -> Self { $t::from_bits(self.to_bits().wrapping_sub(o.to_bits())) }
        #[inline(always)] fn or_bits(self, o: Self) -> Self { $t::from_bits(self.to_bits() | o.to_bits()) }
        #[inline(always)] fn shl_bits(self, by: u32) -> Self { $t::from_bits(self.to_bits() << by) }
        #[inline(always)] fn shr_bits(self, by: u32) -> Self { $t::from_bits(self.to_bits() >> by) }
    })* };
}
lanes! { f32 f64 }

impl Lanes32 for f32 {
    #[inline(always)]
    fn sar_bits(self, by: u32) -> Self {
        f32::from_bits((self.to_bits() as i32 >> by) as u32)
    }
    #[inline(always)]
    fn of_integer_bits(self) -> Self {
        self.to_bits() as i32 as f32
    }
}
