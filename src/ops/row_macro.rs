//! The macro that declares pointwise operations, and the loops that their formulas become.

use std::sync::OnceLock;

use super::pointwise::PointwiseOp;
use crate::backend::pointwise::{Byte, GROUP, Lean, Loop, Whole};
use crate::backend::simd::{Isa, IsaDispatch};
use crate::dtype::Bool8;
use crate::formula::{ARGS, Arith, Bits, Num, PARAMS, Quick, QuickDivision, QuickNum};
use crate::multiversion;

/// A formula on floating point numbers.
pub trait FloatFormula: 'static {
    const N: usize;
    /// Whether it has algorithms for rare arguments: [`RowMeta::quick`](super::pointwise::RowMeta::quick).
    const QUICK: bool;
    fn f<E: Num>(a: [E; ARGS], p: [E; PARAMS]) -> E;
}
/// A formula on numbers.
pub trait NumFormula: 'static {
    const N: usize;
    /// Whether it has algorithms for rare arguments: [`RowMeta::quick`](super::pointwise::RowMeta::quick).
    const QUICK: bool;
    fn f<E: Arith>(a: [E; ARGS], p: [E; PARAMS]) -> E;
}
/// A formula on numbers with a boolean result.
pub trait TruthFormula: 'static {
    const N: usize;
    fn f<E: Arith>(a: [E; ARGS], p: [E; PARAMS]) -> E::Bool;
}
/// A formula on integers.
pub trait BitsFormula: 'static {
    const N: usize;
    fn f<E: Bits>(a: [E; ARGS], p: [E; PARAMS]) -> E;
}
/// The derivatives of a formula; their arguments are the gradient, the inputs and the result.
pub trait Derivative: 'static {
    const N: usize;
    /// As of a formula.
    const QUICK: bool;
    fn d<E: Num, const K: usize>(a: [E; ARGS], p: [E; PARAMS]) -> E;
}

/// The first `n` elements of input `k`.
#[inline(always)]
fn head<'a, T>(ins: &[&'a [T]], k: usize, n: usize) -> Option<&'a [T]> {
    ins.get(k)?.get(..n)
}

#[cold]
#[inline(never)]
fn too_short() -> ! {
    unreachable!("an input of a loop is shorter than its output")
}

/// The loop over whole groups. A macro, because a large closure passed to a function may not be inlined, and would
/// then be compiled for the baseline. All slices are cut to the same known length, to eliminate bounds checks.
macro_rules! each {
    ($n:expr, $zero:expr, $ins:ident, $p:ident, $out:ident, |$a:ident, $q:ident| $value:expr) => {{
        let n = $out.len() & !(GROUP - 1);
        let (Some(x0), Some(x1), Some(x2), Some(x3), Some(x4)) = (
            head($ins, 0, n),
            head($ins, if $n > 1 { 1 } else { 0 }, n),
            head($ins, if $n > 2 { 2 } else { 0 }, n),
            head($ins, if $n > 3 { 3 } else { 0 }, n),
            head($ins, if $n > 4 { 4 } else { 0 }, n),
        ) else {
            too_short()
        };
        let out = &mut $out[..n];
        let zero = $zero;
        let number = |k: usize| $p.get(k).copied().unwrap_or(zero);
        let $q: [_; PARAMS] = [number(0), number(1), number(2)];
        for i in 0..n {
            let $a: [_; ARGS] = [
                x0[i],
                if $n > 1 { x1[i] } else { zero },
                if $n > 2 { x2[i] } else { zero },
                if $n > 3 { x3[i] } else { zero },
                if $n > 4 { x4[i] } else { zero },
            ];
            out[i] = $value;
        }
    }};
}

/// A loop over the first `$n` results, with expressions for the operands of result `$i`.
macro_rules! each_from {
    ($n:ident, $zero:ident, $out:ident, |$a:ident| $value:expr, $i:ident => $($operand:expr),+) => {
        for $i in 0..$n {
            let given = [$($operand),+];
            let mut $a = [$zero; ARGS];
            $a[..given.len()].copy_from_slice(&given);
            $out[$i] = $value;
        }
    };
}

/// The loop of a formula of two or three operands of which some are single elements: see [`Lean`].
macro_rules! each_beside_one {
    ($n:expr, $zero:expr, $ins:ident, $p:ident, $out:ident, |$a:ident, $q:ident| $value:expr) => {{
        let n = $out.len() & !(GROUP - 1);
        let zero = $zero;
        let number = |k: usize| $p.get(k).copied().unwrap_or(zero);
        let $q: [_; PARAMS] = [number(0), number(1), number(2)];
        let out = &mut $out[..n];
        match *$ins {
            [&[x], y] if $n == 2 => {
                let y = &y[..n];
                each_from!(n, zero, out, |$a| $value, i => x, y[i]);
            }
            [x, &[y]] if $n == 2 => {
                let x = &x[..n];
                each_from!(n, zero, out, |$a| $value, i => x[i], y);
            }
            [x, &[y], &[z]] if $n == 3 => {
                let x = &x[..n];
                each_from!(n, zero, out, |$a| $value, i => x[i], y, z);
            }
            [x, y, &[z]] if $n == 3 => {
                let (x, y) = (&x[..n], &y[..n]);
                each_from!(n, zero, out, |$a| $value, i => x[i], y[i], z);
            }
            _ => too_short(),
        }
    }};
}

// Note [Results that may be the operand] Where a formula may return its first operand, as relu does, and that operand is in the
// memory of the result, LLVM leaves out the stores that change nothing: the vectorized loop has masked stores, which took
// twice as long as a loop that copies the operand first. Therefore the operand is combined by exclusive or with a zero whose
// value LLVM cannot see, which is one instruction per vector.

/// The loop of a formula whose first operand is in the memory of the result; others may be single elements.
macro_rules! each_in_place {
    ($n:expr, $zero:expr, $ins:ident, $p:ident, $out:ident, |$a:ident, $q:ident| $value:expr) => {{
        let n = $out.len() & !(GROUP - 1);
        let out = &mut $out[..n];
        let zero = $zero;
        let number = |k: usize| $p.get(k).copied().unwrap_or(zero);
        let $q: [_; PARAMS] = [number(0), number(1), number(2)];
        // See Note [Results that may be the operand].
        let no_bits = std::hint::black_box(0);
        let read = |x: f32| f32::from_bits(x.to_bits() ^ no_bits);
        match *$ins {
            [_] if $n == 1 => {
                each_from!(n, zero, out, |$a| $value, i => read(out[i]));
            }
            [_, &[y]] if $n == 2 => {
                each_from!(n, zero, out, |$a| $value, i => read(out[i]), y);
            }
            [_, y] if $n == 2 => {
                let y = &y[..n];
                each_from!(n, zero, out, |$a| $value, i => read(out[i]), y[i]);
            }
            [_, &[y], &[z]] if $n == 3 => {
                each_from!(n, zero, out, |$a| $value, i => read(out[i]), y, z);
            }
            [_, y, &[z]] if $n == 3 => {
                let y = &y[..n];
                each_from!(n, zero, out, |$a| $value, i => read(out[i]), y[i], z);
            }
            [_, y, z] if $n == 3 => {
                let (y, z) = (&y[..n], &z[..n]);
                each_from!(n, zero, out, |$a| $value, i => read(out[i]), y[i], z[i]);
            }
            _ => too_short(),
        }
    }};
}

/// The loops of [`Lean`] for the formulas of a class.
macro_rules! lean {
    ($class:ident: $formula:ident, $beside:ident, $inside:ident) => {
        multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
            fn $beside[F: $formula](ins: &[&[f32]], p: &[f32], out: &mut [f32]) {
                each_beside_one!(F::N, 0.0, ins, p, out, |a, q| F::f(a, q));
            }
        }
        multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
            fn $inside[F: $formula](ins: &[&[f32]], p: &[f32], out: &mut [f32]) {
                each_in_place!(F::N, 0.0, ins, p, out, |a, q| F::f(a, q));
            }
        }
        pub mod $class {
            use super::*;
            pub const fn lean<F: $formula>() -> Lean<f32, f32> {
                let column: Option<Whole<f32, f32>> = if F::N > 1 { Some($beside::<F>) } else { None };
                Lean { column, in_place: Some($inside::<F>) }
            }
        }
    };
}
lean! { float_class: FloatFormula, float_beside_one, float_in_place }
lean! { num_class: NumFormula, num_beside_one, num_in_place }

/// Elements that are computed anew with one that needs it.
const REDONE: usize = 8 * GROUP;

/// A loop without the algorithms for rare arguments: whether one of them was needed.
macro_rules! each_quick {
    ($n:expr, $ins:expr, $p:ident, $out:expr, |$a:ident, $q:ident| $value:expr) => {{
        let (ins, out) = ($ins, &mut *$out);
        let mut wrong = false;
        each!($n, T::zero(), ins, $p, out, |numbers, params| {
            let ($a, $q) = (numbers.map(Quick::of), params.map(Quick::of));
            let result: Quick<T> = $value;
            wrong |= result.is_wrong;
            result.value
        });
        wrong
    }};
}

/// The loop of an expression. One that has algorithms for rare arguments is computed without them first, and if one of them was
/// needed anew by blocks, of which those that need it have them; see Note [Remainders of float32].
macro_rules! quick_then_anew {
    ($quick:expr, $n:expr, $ins:ident, $p:ident, $out:ident, |$a:ident, $q:ident| $value:expr) => {{
        if !$quick {
            return each!($n, T::zero(), $ins, $p, $out, |$a, $q| $value);
        }
        for length in [$out.len(), REDONE] {
            let is_last = length <= REDONE;
            let mut wrong = false;
            for (k, out) in $out.chunks_mut(length.max(GROUP)).enumerate() {
                let mut blocks: [&[T]; ARGS] = [&[]; ARGS];
                blocks.iter_mut().zip($ins).for_each(|(block, x)| *block = &x[k * length..][..out.len()]);
                let ins = &blocks;
                if each_quick!($n, ins, $p, out, |$a, $q| $value) {
                    wrong = true;
                    if is_last {
                        each!($n, T::zero(), ins, $p, out, |$a, $q| $value);
                    }
                }
            }
            if is_last || !wrong {
                break;
            }
        }
    }};
}

multiversion! { version = IsaDispatch::worth::<T>();
    fn float_loop[F: FloatFormula, T: QuickNum](ins: &[&[T]], p: &[T], out: &mut [T]) {
        quick_then_anew!(F::QUICK, F::N, ins, p, out, |a, q| F::f(a, q));
    }
}
multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    fn num_loop[F: NumFormula, T: QuickDivision](ins: &[&[T]], p: &[T], out: &mut [T]) {
        quick_then_anew!(F::QUICK, F::N, ins, p, out, |a, q| F::f(a, q));
    }
}

/// Numbers whose comparison result is `bool`.
pub trait Compares: Arith<Bool = bool> {}
impl<T: Arith<Bool = bool>> Compares for T {}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    fn truth_loop[F: TruthFormula, T: Compares](ins: &[&[T]], p: &[T], out: &mut [Bool8]) {
        each!(F::N, T::zero(), ins, p, out, |a, q| Bool8(F::f(a, q) as u8));
    }
}
multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    fn bits_loop[F: BitsFormula, T: Bits](ins: &[&[T]], p: &[T], out: &mut [T]) {
        each!(F::N, T::zero(), ins, p, out, |a, q| F::f(a, q));
    }
}
/// The bytes of operands, each at most its limit, which is 1 for a bool: any byte but 0 is true. See Note [Bytes].
#[inline(always)]
fn limited(a: [Byte; ARGS], limits: [Byte; PARAMS]) -> [Byte; ARGS] {
    std::array::from_fn(|k| if k < PARAMS { a[k].minimum(limits[k]) } else { a[k] })
}
multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    fn num_bytes_loop[F: NumFormula](ins: &[&[Byte]], limits: &[Byte], out: &mut [Byte]) {
        each!(F::N, Byte::zero(), ins, limits, out, |a, q| F::f(limited(a, q), q));
    }
}
multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    fn truth_bytes_loop[F: TruthFormula](ins: &[&[Byte]], limits: &[Byte], out: &mut [Bool8]) {
        each!(F::N, Byte::zero(), ins, limits, out, |a, q| Bool8(F::f(limited(a, q), q) as u8));
    }
}
multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    fn bits_bytes_loop[F: BitsFormula](ins: &[&[Byte]], limits: &[Byte], out: &mut [Byte]) {
        each!(F::N, Byte::zero(), ins, limits, out, |a, q| F::f(limited(a, q), q));
    }
}
/// An index known at compile time: the loop of a binary derivative would not be vectorized with one known at run time.
pub trait Index: 'static {
    fn of<F: Derivative, E: Num>(a: [E; ARGS], p: [E; PARAMS]) -> E;
}
pub struct At<const K: usize>;
impl<const K: usize> Index for At<K> {
    #[inline(always)]
    fn of<F: Derivative, E: Num>(a: [E; ARGS], p: [E; PARAMS]) -> E {
        F::d::<E, K>(a, p)
    }
}
multiversion! { version = IsaDispatch::worth::<T>();
    fn grad_loop[F: Derivative, K: Index, T: QuickNum](ins: &[&[T]], p: &[T], out: &mut [T]) {
        quick_then_anew!(F::QUICK, F::N + 2, ins, p, out, |a, q| K::of::<F, _>(a, q));
    }
}

pub const fn float<F: FloatFormula, T: QuickNum>() -> Loop<T, T> {
    Loop::new(float_loop::<F, T>)
}
pub const fn num<F: NumFormula, T: QuickDivision>() -> Loop<T, T> {
    Loop::new(num_loop::<F, T>)
}
pub const fn truth<F: TruthFormula, T: Compares>() -> Loop<T, Bool8> {
    Loop::new(truth_loop::<F, T>)
}
pub const fn bits<F: BitsFormula, T: Bits>() -> Loop<T, T> {
    Loop::new(bits_loop::<F, T>)
}
pub const fn num_bytes<F: NumFormula>() -> Loop<Byte, Byte> {
    Loop::new(num_bytes_loop::<F>)
}
pub const fn truth_bytes<F: TruthFormula>() -> Loop<Byte, Bool8> {
    Loop::new(truth_bytes_loop::<F>)
}
pub const fn bits_bytes<F: BitsFormula>() -> Loop<Byte, Byte> {
    Loop::new(bits_bytes_loop::<F>)
}
pub const fn grad<F: Derivative, K: Index, T: QuickNum>() -> Loop<T, T> {
    Loop::new(grad_loop::<F, K, T>)
}

/// Initial value of the cells of an operation that are filled at run time.
pub const fn blank<T>() -> OnceLock<T> {
    OnceLock::new()
}

/// All operations of a `rows!` block.
pub type PointwiseOps = &'static [&'static PointwiseOp];

/// Declares pointwise operations. `rows! { NAME; class name(inputs; param: default) = formula => d(g, y) =
/// [derivatives]; { meta } … }`: the class is `float`, `num`, `truth` or `bits`; the derivatives (one per input) and
/// the meta are optional. Properties that only imitate PyTorch follow as `=> torch { names }`. `bytes [dtypes]` after the
/// formula compiles it for single bytes, on which it gives what it gives on int32: Note [Bytes]. `lean [F32]`, for formulas
/// that take less time than reading operands, compiles it in the further forms of [`Lean`].
#[macro_export]
macro_rules! rows {
    ($all:ident; $( $(#[doc = $doc:literal])* $class:ident $name:ident ( $($x:ident),+ $(; $($p:ident : $default:literal),+)? ) = $f:expr
       $(, bytes [$($byte:ident)+])? $(, lean [$($lean:ident)+])? $( => d($g:ident, $y:ident) = [ $($df:expr),+ $(,)? ] )? ; $( { $($meta:tt)* } )? $( => torch { $($names:tt)* } )? )*) => {
        $(
            #[allow(non_upper_case_globals)]
            $(#[doc = $doc])*
            pub static $name: $crate::ops::pointwise::PointwiseOp = {
                #[allow(unused_imports)]
                use $crate::formula::{ARGS, Arith, Bits, Int, Num, PARAMS, record::record};
                #[allow(unused_imports)]
                use $crate::ops::{autocast::CastPolicy, pointwise::Unsigned};
                use $crate::ops::{pointwise::{Class, PointwiseOp, RowMeta, TorchNames}, row_macro::*};
                #[allow(unused_imports)]
                use $crate::{backend::pointwise::{Bytes, Kernel}, dtype::DType};
                const META: RowMeta = RowMeta { $($($meta)*,)? ..RowMeta::NEW };
                struct Formula;
                $crate::rows!(@formula $class Formula [$($x),+] [$($($p),+)?] $f);
                $crate::rows!(@derivative [$($x),+] [$($($p),+)?] $($g $y [$($df),+])?);
                PointwiseOp {
                    name: stringify!($name),
                    doc: concat!($($doc, "\n"),*),
                    inputs: &[$(stringify!($x)),+],
                    params: &[$($((stringify!($p), $default)),+)?],
                    class: $crate::rows!(@class $class),
                    meta: META,
                    torch: TorchNames { $($($names)*,)? ..TorchNames::NEW },
                    node: blank(),
                    kernel: $crate::rows!(@kernel $class Formula [$($($byte)+)?] [$($($lean)+)?]),
                    grads: $crate::rows!(@grads [$($x),+] $($g)?),
                    steps: || record(|a, p| $crate::rows!(@steps $class Formula a p)),
                    grad_steps: $crate::rows!(@grad_steps $($g)?),
                    plan: blank(),
                    op: blank(),
                }
            };
        )*
        pub static $all: $crate::ops::row_macro::PointwiseOps = &[$(&$name),*];
    };
    (@count $($x:ident),*) => { <[&str]>::len(&[$(stringify!($x)),*]) };
    (@formula float $F:ident [$($x:ident),+] [$($p:ident),*] $f:expr) => {
        impl FloatFormula for $F {
            const N: usize = $crate::rows!(@count $($x),+);
            const QUICK: bool = META.quick;
            #[inline(always)] fn f<E: Num>([$($x,)+ ..]: [E; ARGS], [$($p,)* ..]: [E; PARAMS]) -> E { $f }
        }
    };
    (@formula num $F:ident [$($x:ident),+] [$($p:ident),*] $f:expr) => {
        impl NumFormula for $F {
            const N: usize = $crate::rows!(@count $($x),+);
            const QUICK: bool = META.quick;
            #[inline(always)] fn f<E: Arith>([$($x,)+ ..]: [E; ARGS], [$($p,)* ..]: [E; PARAMS]) -> E { $f }
        }
    };
    (@formula truth $F:ident [$($x:ident),+] [$($p:ident),*] $f:expr) => {
        impl TruthFormula for $F {
            const N: usize = $crate::rows!(@count $($x),+);
            #[inline(always)] fn f<E: Arith>([$($x,)+ ..]: [E; ARGS], [$($p,)* ..]: [E; PARAMS]) -> E::Bool { $f }
        }
    };
    (@formula bits $F:ident [$($x:ident),+] [$($p:ident),*] $f:expr) => {
        impl BitsFormula for $F {
            const N: usize = $crate::rows!(@count $($x),+);
            #[inline(always)] fn f<E: Bits>([$($x,)+ ..]: [E; ARGS], [$($p,)* ..]: [E; PARAMS]) -> E { $f }
        }
    };
    (@derivative [$($x:ident),+] [$($p:ident),*]) => {};
    (@derivative [$($x:ident),+] [$($p:ident),*] $g:ident $y:ident [$($df:expr),+]) => {
        impl Derivative for Formula {
            const N: usize = $crate::rows!(@count $($x),+);
            const QUICK: bool = META.quick;
            #[inline(always)]
            #[allow(unused_variables)]
            fn d<E: Num, const K: usize>(a: [E; ARGS], p: [E; PARAMS]) -> E {
                let [$g, rest @ ..] = a;
                let $y = a[<Self as Derivative>::N + 1];
                let [$($x,)+ ..] = rest;
                let [$($p,)* ..] = p;
                $crate::rows!(@pick K [$($df),+])
            }
        }
    };
    (@pick $K:ident [$a:expr]) => { $a };
    (@pick $K:ident [$a:expr, $b:expr]) => { if $K == 0 { $a } else { $b } };
    (@pick $K:ident [$a:expr, $b:expr, $c:expr]) => { if $K == 0 { $a } else if $K == 1 { $b } else { $c } };
    (@class float) => { Class::Float };
    (@class num) => { Class::Num };
    (@class truth) => { Class::Truth };
    (@class bits) => { Class::Bits };
    (@kernel float $F:ident [] $lean:tt) => { Kernel::Same { f32: Some($crate::rows!(@f32 float $F $lean)), f64: Some(float::<$F, f64>()), i32: None, i64: None, bytes: None } };
    (@kernel num $F:ident $bytes:tt $lean:tt) => { Kernel::Same { f32: Some($crate::rows!(@f32 num $F $lean)), f64: Some(num::<$F, f64>()),
        i32: Some(num::<$F, Int<i32>>()), i64: Some(num::<$F, Int<i64>>()), bytes: $crate::rows!(@bytes num $F $bytes) } };
    (@kernel truth $F:ident $bytes:tt []) => { Kernel::Truth { f32: Some(truth::<$F, f32>()), f64: Some(truth::<$F, f64>()),
        i32: Some(truth::<$F, Int<i32>>()), i64: Some(truth::<$F, Int<i64>>()), bytes: $crate::rows!(@bytes truth $F $bytes) } };
    (@kernel bits $F:ident $bytes:tt []) => { Kernel::Same { f32: None, f64: None, i32: Some(bits::<$F, Int<i32>>()),
        i64: Some(bits::<$F, Int<i64>>()), bytes: $crate::rows!(@bytes bits $F $bytes) } };
    (@f32 $class:ident $F:ident []) => { $class::<$F, f32>() };
    (@f32 float $F:ident [F32]) => { float::<$F, f32>().with(float_class::lean::<$F>()) };
    (@f32 num $F:ident [F32]) => { num::<$F, f32>().with(num_class::lean::<$F>()) };
    (@bytes $class:ident $F:ident []) => { None };
    (@bytes num $F:ident [$($on:ident)+]) => { Some(Bytes { run: num_bytes::<$F>(), on: &[$(DType::$on),+] }) };
    (@bytes truth $F:ident [$($on:ident)+]) => { Some(Bytes { run: truth_bytes::<$F>(), on: &[$(DType::$on),+] }) };
    (@bytes bits $F:ident [$($on:ident)+]) => { Some(Bytes { run: bits_bytes::<$F>(), on: &[$(DType::$on),+] }) };
    (@steps $class:ident $F:ident $a:ident $p:ident) => { $F::f($a, $p) };
    (@grads [$($x:ident),+]) => { &[] };
    (@grads [$a:ident] $g:ident) => { &[$crate::rows!(@grad 0)] };
    (@grads [$a:ident, $b:ident] $g:ident) => { &[$crate::rows!(@grad 0), $crate::rows!(@grad 1)] };
    (@grads [$a:ident, $b:ident, $c:ident] $g:ident) => { &[$crate::rows!(@grad 0), $crate::rows!(@grad 1), $crate::rows!(@grad 2)] };
    (@grad $k:literal) => { Kernel::Same { f32: Some(grad::<Formula, At<$k>, f32>()), f64: Some(grad::<Formula, At<$k>, f64>()), i32: None, i64: None, bytes: None } };
    (@grad_steps) => { |_| record(|a, _| a[0]) };
    (@grad_steps $g:ident) => { |k| record(|a, p| match k {
        0 => Formula::d::<_, 0>(a, p),
        1 => Formula::d::<_, 1>(a, p),
        _ => Formula::d::<_, 2>(a, p),
    }) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::simd::force_isa;

    struct Fmod;
    struct Remainder;
    struct FloorDiv;
    struct TruncDiv;
    macro_rules! divides {
        ($($name:ident $f:ident;)*) => { $(impl NumFormula for $name {
            const N: usize = 2;
            const QUICK: bool = true;
            #[inline(always)] fn f<E: Arith>([x, y, ..]: [E; ARGS], _: [E; PARAMS]) -> E { x.$f(y) }
        })* };
    }
    divides! { Fmod fmod; Remainder remainder; FloorDiv floor_div; TruncDiv trunc_div; }

    /// Runs the loop of a formula on the instruction set in use, and compares it with single elements.
    fn expect_single_elements<F: NumFormula>(x: &[f32], y: &[f32]) {
        let mut found = vec![0.0; x.len()];
        num_loop::<F, f32>(&[x, y], &[], &mut found);
        for ((&x, &y), &found) in x.iter().zip(y).zip(&found) {
            let expected = F::f([x, y, 0.0, 0.0, 0.0], [0.0; PARAMS]);
            let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
            assert!(same, "{x:e}, {y:e}: {found:e}, not {expected:e}");
        }
    }

    #[test]
    fn loops_of_remainders_give_the_bits_of_single_elements() {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            f32::from_bits(state ^ state >> 9)
        };
        let n = 40 * REDONE + GROUP;
        let x: Vec<f32> = (0..n).map(|_| next()).collect();
        // Divisors of every size, and small ones seldom enough that most blocks have none.
        let wild: Vec<f32> = (0..n).map(|_| next()).collect();
        let tame = |(i, x): (usize, &f32)| if i % 501 == 500 { x * 1e-20 } else { x * 0.3 };
        let tame: Vec<f32> = x.iter().enumerate().map(tame).collect();
        for isa in [Isa::Baseline, Isa::Avx2] {
            force_isa(isa);
            for y in [&wild, &tame] {
                expect_single_elements::<Fmod>(&x, y);
                expect_single_elements::<Remainder>(&x, y);
                expect_single_elements::<FloorDiv>(&x, y);
            }
        }
        force_isa(Isa::Avx512);
    }

    struct Swing;
    impl FloatFormula for Swing {
        const N: usize = 2;
        const QUICK: bool = true;
        #[inline(always)]
        fn f<E: Num>([x, y, ..]: [E; ARGS], _: [E; PARAMS]) -> E {
            x.sin() + y.cos() * E::lit(3.0)
        }
    }

    fn expect_single_angles<T: QuickNum + bytemuck::Pod + std::fmt::LowerExp>(x: &[T], y: &[T]) {
        let zero = T::zero();
        let mut found = vec![zero; x.len()];
        float_loop::<Swing, T>(&[x, y], &[], &mut found);
        for ((&x, &y), &found) in x.iter().zip(y).zip(&found) {
            let expected = Swing::f([x, y, zero, zero, zero], [zero; PARAMS]);
            let is_nan = found.ne(found) && expected.ne(expected);
            let same = is_nan || bytemuck::bytes_of(&found) == bytemuck::bytes_of(&expected);
            assert!(same, "{x:e}, {y:e}: {found:e}, not {expected:e}");
        }
    }

    #[test]
    fn loops_of_angles_give_the_bits_of_single_elements() {
        // Some blocks have large angles, infinities and NaN among small ones.
        let rare = [4e3, 3e7, -1e30, f64::INFINITY, f64::NAN];
        let angle =
            |i: usize| if i % 701 == 700 { rare[i / 701 % 5] } else { (i as f64 * 0.37).sin() * 3300.0 };
        let x: Vec<f64> = (0..40 * REDONE + GROUP).map(angle).collect();
        let y: Vec<f64> = x.iter().rev().map(|x| x * 0.5).collect();
        let single = |v: &[f64]| v.iter().map(|v| *v as f32).collect::<Vec<_>>();
        for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512] {
            force_isa(isa);
            expect_single_angles(&x, &y);
            expect_single_angles(&single(&x), &single(&y));
        }
    }

    /// As `expect_single_elements`, of integers.
    fn expect_single_integers<F: NumFormula, T: QuickDivision + PartialEq + std::fmt::Debug>(
        x: &[T],
        y: &[T],
    ) {
        let mut found = vec![T::lit(0.0); x.len()];
        num_loop::<F, T>(&[x, y], &[], &mut found);
        for ((&x, &y), &found) in x.iter().zip(y).zip(&found) {
            let zero = T::lit(0.0);
            assert_eq!(found, F::f([x, y, zero, zero, zero], [zero; PARAMS]), "{x:?}, {y:?}");
        }
    }

    #[test]
    fn loops_of_quotients_of_integers_give_single_elements() {
        use crate::formula::Int;
        // Every pair of numbers around powers of two, of both signs: multiples of divisors, and their neighbours.
        let powers = (0..63).flat_map(|k| (-1..=1).map(move |d| (1i64 << k) + d));
        let around: Vec<i64> = powers.flat_map(|v| [v, -v]).chain([0, i64::MIN, i64::MAX]).collect();
        let pairs: Vec<(i64, i64)> =
            around.iter().flat_map(|x| around.iter().map(move |y| (*x, *y))).collect();
        let multiples = pairs.iter().flat_map(|&(x, y)| {
            let multiple = x.wrapping_mul(y);
            (-1..=1).map(move |d| (multiple.wrapping_add(d), y))
        });
        let all: Vec<(i64, i64)> = pairs.iter().copied().chain(multiples).collect();
        // Those that are not computed anew come first, since others have their blocks computed anew.
        let is_small = |&(x, y): &(i64, i64)| x.unsigned_abs().max(y.unsigned_abs()) < 1 << 51 && y != 0;
        let (mut all, large): (Vec<_>, Vec<_>) = all.into_iter().partition(is_small);
        all.extend(large);
        all.resize(all.len().next_multiple_of(GROUP), (7, 2));
        let long = |of: fn(&(i64, i64)) -> i64| all.iter().map(|p| Int(of(p))).collect::<Vec<_>>();
        let (x, y) = (long(|p| p.0), long(|p| p.1));
        let short = |v: &[Int<i64>]| v.iter().map(|v| Int(v.0 as i32)).collect::<Vec<_>>();
        let (i, j) = (short(&x), short(&y));
        for isa in [Isa::Baseline, Isa::Avx2] {
            force_isa(isa);
            expect_single_integers::<Fmod, _>(&x, &y);
            expect_single_integers::<Remainder, _>(&x, &y);
            expect_single_integers::<FloorDiv, _>(&x, &y);
            expect_single_integers::<TruncDiv, _>(&x, &y);
            expect_single_integers::<Fmod, _>(&i, &j);
            expect_single_integers::<Remainder, _>(&i, &j);
            expect_single_integers::<FloorDiv, _>(&i, &j);
            expect_single_integers::<TruncDiv, _>(&i, &j);
        }
        force_isa(Isa::Avx512);
    }
}
