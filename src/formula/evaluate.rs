//! Evaluation of recorded formulas, primitive by primitive.
//!
//! Note [Baseline loops]: on x86-64 the formula of a pointwise operation is compiled to loops for AVX2 and AVX-512 only.
//! Processors that have neither are old or emulated; for them a formula's recorded steps are evaluated block by block,
//! with one compiled loop per primitive instead of one per formula. The primitives are the same functions applied in
//! the same order, so results have the same bits as those of a compiled loop. It keeps a quarter of a megabyte out of
//! the library.

use bytemuck::Zeroable;
use smallvec::SmallVec;

use super::record::{Prim, Step};
use super::{Arith, Bits, Formula, Int, num_step};
use crate::backend::pointwise::GROUP;
use crate::dtype::Bool8;

/// Elements per block: whole groups, see Note [Whole groups].
const BLOCK: usize = 4 * GROUP;
/// Elements per iteration of a step's loop: a vector of the baseline.
const LANES: usize = 4;

/// A type in which formulas are evaluated.
pub trait Evaluated: Arith<Bool = bool> + Zeroable {
    /// Computes a step on whole groups; false if the primitive is not defined for this type.
    fn step(p: Prim, x: [&[Self]; 3], out: &mut [Self]) -> bool;
}

macro_rules! evaluated {
    ($($t:ty: $other:ident),* $(,)?) => { $(
        impl Evaluated for $t {
            #[inline(never)]
            fn step(p: Prim, x: [&[Self]; 3], out: &mut [Self]) -> bool {
                arith_step(p, x, out) || $other(p, x, out)
            }
        }
    )* };
}
evaluated! { f32: num_step, f64: num_step, Int<i32>: bits_step, Int<i64>: bits_step }

#[inline(always)]
pub(super) fn unary<E: Copy, R>(x: [&[E]; 3], out: &mut [R], f: impl Fn(E) -> R) {
    for (out, a) in out.as_chunks_mut::<LANES>().0.iter_mut().zip(x[0].as_chunks::<LANES>().0) {
        for i in 0..LANES {
            out[i] = f(a[i]);
        }
    }
}

#[inline(always)]
pub(super) fn binary<E: Copy>(x: [&[E]; 3], out: &mut [E], f: impl Fn(E, E) -> E) {
    let operands = x[0].as_chunks::<LANES>().0.iter().zip(x[1].as_chunks::<LANES>().0);
    for (out, (a, b)) in out.as_chunks_mut::<LANES>().0.iter_mut().zip(operands) {
        for i in 0..LANES {
            out[i] = f(a[i], b[i]);
        }
    }
}

/// Booleans are 0 and 1, as in Note [Interpreted formulas].
#[inline(always)]
fn of_truth<E: Arith>(c: E::Bool) -> E {
    E::select(c, E::one(), E::zero())
}

#[inline(always)]
fn truth<E: Arith>(a: E) -> E::Bool {
    a.ne(E::zero())
}

#[inline(always)]
fn arith_step<E: Arith>(p: Prim, x: [&[E]; 3], out: &mut [E]) -> bool {
    match p {
        Prim::Add => binary(x, out, |a, b| a + b),
        Prim::Sub => binary(x, out, |a, b| a - b),
        Prim::Mul => binary(x, out, |a, b| a * b),
        Prim::Neg => unary(x, out, |a| -a),
        Prim::Abs => unary(x, out, E::abs),
        Prim::Lt => binary(x, out, |a, b| of_truth(a.lt(b))),
        Prim::Le => binary(x, out, |a, b| of_truth(a.le(b))),
        Prim::Eq => binary(x, out, |a, b| of_truth(a.eq(b))),
        Prim::Not => unary(x, out, |a| of_truth(E::not(truth(a)))),
        Prim::And => binary(x, out, |a, b| of_truth(E::and(truth(a), truth(b)))),
        Prim::Or => binary(x, out, |a, b| of_truth(E::or(truth(a), truth(b)))),
        Prim::Select => {
            // The condition is read from `out`.
            out.copy_from_slice(x[0]);
            let branches = x[1].as_chunks::<LANES>().0.iter().zip(x[2].as_chunks::<LANES>().0);
            for (out, (yes, no)) in out.as_chunks_mut::<LANES>().0.iter_mut().zip(branches) {
                for i in 0..LANES {
                    out[i] = E::select(truth(out[i]), yes[i], no[i]);
                }
            }
        }
        Prim::Maximum => binary(x, out, E::maximum),
        Prim::Minimum => binary(x, out, E::minimum),
        Prim::FloorDiv => binary(x, out, E::floor_div),
        Prim::TruncDiv => binary(x, out, E::trunc_div),
        Prim::Remainder => binary(x, out, E::remainder),
        Prim::Fmod => binary(x, out, E::fmod),
        _ => return false,
    }
    true
}

#[inline(always)]
fn bits_step<E: Bits>(p: Prim, x: [&[E]; 3], out: &mut [E]) -> bool {
    match p {
        Prim::BitAnd => binary(x, out, E::bit_and),
        Prim::BitOr => binary(x, out, E::bit_or),
        Prim::BitXor => binary(x, out, E::bit_xor),
        Prim::Shl => binary(x, out, E::shl),
        Prim::Shr => binary(x, out, E::shr),
        Prim::Gcd => binary(x, out, E::gcd),
        _ => return false,
    }
    true
}

/// Evaluates the first result of a formula on the whole groups of `out`.
pub fn evaluate<T: Evaluated>(f: &Formula, ins: &[&[T]], params: &[T], out: &mut [T]) {
    blocks(f, ins, params, out.len(), &mut |at, value| out[at..at + value.len()].copy_from_slice(value));
}

/// As [`evaluate`], for a formula whose result is a boolean.
pub fn evaluate_truth<T: Evaluated>(f: &Formula, ins: &[&[T]], params: &[T], out: &mut [Bool8]) {
    blocks(f, ins, params, out.len(), &mut |at, value| {
        unary([value; 3], &mut out[at..at + value.len()], |v| Bool8(truth(v) as u8));
    });
}

/// Evaluates the whole groups of `n` elements and passes the first result to `sink` block by block.
fn blocks<T: Evaluated>(
    f: &Formula,
    ins: &[&[T]],
    params: &[T],
    n: usize,
    sink: &mut dyn FnMut(usize, &[T]),
) {
    let steps = f.steps();
    let constant = |step: &Step| match *step {
        Step::Param(k) => params.get(k).copied().unwrap_or(T::zero()),
        Step::Lit(v) => T::lit(v),
        Step::Arg(_) | Step::Do(..) => T::zero(),
    };
    let mut values: SmallVec<[[T; BLOCK]; 4]> = steps.iter().map(|step| [constant(step); BLOCK]).collect();
    let whole = n - n % GROUP;
    for at in (0..whole).step_by(BLOCK) {
        let n = BLOCK.min(whole - at);
        for (i, step) in steps.iter().enumerate() {
            if let Step::Do(p, operands) = *step {
                let (earlier, rest) = values.split_at_mut(i);
                let x = operands.map(|o| value(steps, earlier, ins, o, at, n));
                let is_defined = T::step(p, x, &mut rest[0][..n]);
                debug_assert!(is_defined, "{} is not defined for this type", p.name());
            }
        }
        sink(at, value(steps, &values, ins, f.results()[0], at, n));
    }
}

/// The value of step `k` at positions `at..at + n`.
fn value<'v, T>(
    steps: &[Step],
    values: &'v [[T; BLOCK]],
    ins: &[&'v [T]],
    k: usize,
    at: usize,
    n: usize,
) -> &'v [T] {
    match steps[k] {
        Step::Arg(k) => &ins[k][at..at + n],
        _ => &values[k][..n],
    }
}
