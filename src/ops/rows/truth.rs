//! Comparisons, tests and logic: pointwise operations with bool results.

use crate::formula::Arith;
use crate::ops::out_policy::OutPolicy;
use crate::rows;

#[allow(clippy::eq_op)] // ∞ - ∞ is NaN
#[inline(always)]
fn infinite<E: Arith>(x: E) -> E::Bool {
    // The second condition excludes the largest integer, to which both literals convert for integers. A test that x -
    // x is not 0 would be equivalent, but shader compilers may fold it to 0.
    E::and(x.abs().eq(E::lit(f64::INFINITY)), E::lit(f32::MAX as f64).lt(x.abs()))
}

rows! { TRUTH;
    /// Whether elements are equal.
    truth eq(input, other) = input.eq(other), bytes [Bool U8 I8]; { rounded: 0b11, unsigned: Unsigned::Bits, float8: true }
    /// Whether elements differ.
    truth ne(input, other) = input.ne(other), bytes [Bool U8 I8]; { rounded: 0b11, unsigned: Unsigned::Bits, float8: true, aliases: &["not_equal"] }
    /// Whether the first is less than the second.
    truth lt(input, other) = input.lt(other), bytes [Bool U8]; { rounded: 0b11, aliases: &["less"] }
    => torch { kernel: "lt_cpu" }
    /// Whether the first is at most the second.
    truth le(input, other) = input.le(other), bytes [Bool U8]; { rounded: 0b11, aliases: &["less_equal"] }
    => torch { kernel: "le_cpu" }
    /// Whether the first is greater than the second.
    truth gt(input, other) = other.lt(input), bytes [Bool U8]; { rounded: 0b11, aliases: &["greater"] }
    => torch { kernel: "gt_cpu" }
    /// Whether the first is at least the second.
    truth ge(input, other) = other.le(input), bytes [Bool U8]; { rounded: 0b11, aliases: &["greater_equal"] }
    => torch { kernel: "ge_cpu" }
    /// Whether both are non-zero.
    truth logical_and(input, other) = E::and(input.ne(E::zero()), other.ne(E::zero())), bytes [Bool U8 I8]; { sig: "input: Tensor, other: Tensor" }
    => torch { kernel: "logical_and_cpu" }
    /// Whether either is non-zero.
    truth logical_or(input, other) = E::or(input.ne(E::zero()), other.ne(E::zero())), bytes [Bool U8 I8]; { sig: "input: Tensor, other: Tensor" }
    => torch { kernel: "logical_or_cpu" }
    /// Whether exactly one is non-zero.
    truth logical_xor(input, other) = {
        let (a, b) = (input.ne(E::zero()), other.ne(E::zero()));
        E::and(E::or(a, b), E::not(E::and(a, b)))
    }, bytes [Bool U8 I8]; { sig: "input: Tensor, other: Tensor" }
    => torch { kernel: "logical_xor_cpu" }
    /// Whether an element is zero.
    truth logical_not(input) = input.eq(E::zero()), bytes [Bool U8 I8];
    => torch { kernel: "logical_not_cpu" }
    /// Whether an element is NaN.
    truth isnan(input) = input.is_nan(); { unsigned: Unsigned::Bits, float8: true, exposure: crate::ops::schema::Exposure::BOTH }
    /// Whether an element is infinite.
    truth isinf(input) = infinite(input); { unsigned: Unsigned::Bits, float8: true, exposure: crate::ops::schema::Exposure::BOTH }
    /// Whether an element is neither infinite nor NaN.
    truth isfinite(input) = E::not(E::or(infinite(input), input.is_nan())); { unsigned: Unsigned::Bits, float8: true, exposure: crate::ops::schema::Exposure::BOTH }
    /// Whether an element is +∞.
    truth isposinf(input) = E::and(infinite(input), E::zero().lt(input)); { unsigned: Unsigned::Bits, float8: true, exposure: crate::ops::schema::Exposure::BOTH.and(crate::ops::schema::Exposure::OUT) }
    => torch { out: OutPolicy::INFINITE }
    /// Whether an element is -∞.
    truth isneginf(input) = E::and(infinite(input), input.lt(E::zero())); { unsigned: Unsigned::Bits, float8: true, exposure: crate::ops::schema::Exposure::BOTH.and(crate::ops::schema::Exposure::OUT) }
    => torch { out: OutPolicy::INFINITE }
}
