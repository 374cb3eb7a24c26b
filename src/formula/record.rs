//! A symbolic number that records the operations applied to it.

use std::cell::RefCell;
use std::ops::{Add, Div, Mul, Neg, Sub};

use super::{ARGS, Arith, Bits, Formula, PARAMS};

macro_rules! prims {
    ($($p:ident $name:literal $arity:literal $cost:literal),* $(,)?) => {
        /// The primitive operations of formulas: their name, the number of operands, and about the number of vector
        /// instructions that they take.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum Prim { $($p),* }
        impl Prim {
            pub const ALL: &'static [Prim] = &[$(Prim::$p),*];
            pub const fn name(self) -> &'static str { match self { $(Prim::$p => $name),* } }
            pub const fn arity(self) -> usize { match self { $(Prim::$p => $arity),* } }
            pub const fn cost(self) -> u32 { match self { $(Prim::$p => $cost),* } }
            /// Whether [`Quick`](super::Quick) leaves out an algorithm for rare arguments.
            pub const fn is_quick(self) -> bool {
                use Prim::*;
                matches!(self, FloorDiv | TruncDiv | Remainder | Fmod | Sin | Cos | Tan)
            }
            /// The name of the pointwise operation that computes it alone.
            pub const fn row(self) -> &'static str {
                match self {
                    // Of equals, `maximum` returns the second as PyTorch does.
                    Prim::Maximum => "clamp_min_tensor",
                    Prim::Minimum => "clamp_max_tensor",
                    other => other.name(),
                }
            }
        }
    };
}

prims! {
    Add "add" 2 1, Sub "sub" 2 1, Mul "mul" 2 1, Div "div" 2 4, Neg "neg" 1 1, Abs "abs" 1 1, Lt "lt" 2 1,
    Le "le" 2 1, Eq "eq" 2 1, Not "logical_not" 1 1, And "logical_and" 2 1, Or "logical_or" 2 1,
    Select "select_where" 3 1, Maximum "maximum" 2 1, Minimum "minimum" 2 1, FloorDiv "floor_divide" 2 8,
    TruncDiv "trunc_divide" 2 8, Remainder "remainder" 2 20, Fmod "fmod" 2 20, Exp "exp" 1 20, Expm1 "expm1" 1 20,
    Exp2 "exp2" 1 20, Log "log" 1 20, Log1p "log1p" 1 20, Log2 "log2" 1 20, Log10 "log10" 1 20, Sin "sin" 1 20,
    Cos "cos" 1 20, Tan "tan" 1 20, Sinh "sinh" 1 20, Cosh "cosh" 1 20, Tanh "tanh" 1 20, Asin "asin" 1 20,
    Acos "acos" 1 20, Atan "atan" 1 20, Asinh "asinh" 1 20, Acosh "acosh" 1 20, Atanh "atanh" 1 20, Erf "erf" 1 20,
    Erfc "erfc" 1 20, Erfinv "erfinv" 1 60, NormalCdf "normal_cdf" 1 20, Lgamma "lgamma" 1 60, Digamma "digamma" 1 60,
    Floor "floor" 1 1, Ceil "ceil" 1 1, Trunc "trunc" 1 1, Round "round" 1 1, Pow "pow" 2 60, Atan2 "atan2" 2 60,
    Sqrt "sqrt" 1 4, BitAnd "bitwise_and" 2 1, BitOr "bitwise_or" 2 1, BitXor "bitwise_xor" 2 1,
    Shl "bitwise_left_shift" 2 2, Shr "bitwise_right_shift" 2 2, Gcd "gcd" 2 60,
}

/// One recorded step. Operands are indices of earlier steps; unused operands are 0.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Arg(usize),
    Param(usize),
    Lit(f64),
    Do(Prim, [usize; 3]),
}

impl Step {
    /// The words that identify a step: literals by their bits, since the zeros of both signs compare equal.
    pub(super) fn words(&self) -> [u64; 5] {
        match *self {
            Step::Arg(k) => [0, k as u64, 0, 0, 0],
            Step::Param(k) => [1, k as u64, 0, 0, 0],
            Step::Lit(v) => [2, v.to_bits(), 0, 0, 0],
            Step::Do(p, [a, b, c]) => [3, p as u64, a as u64, b as u64, c as u64],
        }
    }
}

impl PartialEq for Step {
    fn eq(&self, other: &Step) -> bool {
        self.words() == other.words()
    }
}

/// Steps in order of evaluation.
pub type Steps = Vec<Step>;

thread_local!(static TAPE: RefCell<Steps> = const { RefCell::new(Vec::new()) });

/// The index of a recorded step.
#[derive(Clone, Copy)]
pub struct Sym(usize);

// Not inlined: hundreds of formulas would each contain a copy.
#[inline(never)]
fn push(s: Step) -> Sym {
    TAPE.with_borrow_mut(|t| {
        Sym(t.iter().position(|p| *p == s).unwrap_or_else(|| {
            t.push(s);
            t.len() - 1
        }))
    })
}

#[inline(never)]
pub(super) fn unary(p: Prim, a: Sym) -> Sym {
    push(Step::Do(p, [a.0, 0, 0]))
}

#[inline(never)]
pub(super) fn binary(p: Prim, a: Sym, b: Sym) -> Sym {
    push(Step::Do(p, [a.0, b.0, 0]))
}

macro_rules! operators {
    ($($tr:ident $f:ident;)*) => { $(impl $tr for Sym {
        type Output = Sym;
        fn $f(self, o: Sym) -> Sym { binary(Prim::$tr, self, o) }
    })* };
}
operators! { Add add; Sub sub; Mul mul; Div div; }
impl Neg for Sym {
    type Output = Sym;
    fn neg(self) -> Sym {
        unary(Prim::Neg, self)
    }
}

impl Arith for Sym {
    type Bool = Sym;
    fn lit(v: f64) -> Sym {
        push(Step::Lit(v))
    }
    fn lt(self, o: Sym) -> Sym {
        binary(Prim::Lt, self, o)
    }
    fn le(self, o: Sym) -> Sym {
        binary(Prim::Le, self, o)
    }
    fn eq(self, o: Sym) -> Sym {
        binary(Prim::Eq, self, o)
    }
    fn not(c: Sym) -> Sym {
        unary(Prim::Not, c)
    }
    fn and(a: Sym, b: Sym) -> Sym {
        binary(Prim::And, a, b)
    }
    fn or(a: Sym, b: Sym) -> Sym {
        binary(Prim::Or, a, b)
    }
    fn select(c: Sym, yes: Sym, no: Sym) -> Sym {
        push(Step::Do(Prim::Select, [c.0, yes.0, no.0]))
    }
    fn maximum(self, o: Sym) -> Sym {
        binary(Prim::Maximum, self, o)
    }
    fn minimum(self, o: Sym) -> Sym {
        binary(Prim::Minimum, self, o)
    }
    fn abs(self) -> Sym {
        unary(Prim::Abs, self)
    }
    fn floor_div(self, o: Sym) -> Sym {
        binary(Prim::FloorDiv, self, o)
    }
    fn trunc_div(self, o: Sym) -> Sym {
        binary(Prim::TruncDiv, self, o)
    }
    fn remainder(self, o: Sym) -> Sym {
        binary(Prim::Remainder, self, o)
    }
    fn fmod(self, o: Sym) -> Sym {
        binary(Prim::Fmod, self, o)
    }
}

impl Bits for Sym {
    fn bit_and(self, o: Sym) -> Sym {
        binary(Prim::BitAnd, self, o)
    }
    fn bit_or(self, o: Sym) -> Sym {
        binary(Prim::BitOr, self, o)
    }
    fn bit_xor(self, o: Sym) -> Sym {
        binary(Prim::BitXor, self, o)
    }
    fn shl(self, o: Sym) -> Sym {
        binary(Prim::Shl, self, o)
    }
    fn shr(self, o: Sym) -> Sym {
        binary(Prim::Shr, self, o)
    }
    fn gcd(self, o: Sym) -> Sym {
        binary(Prim::Gcd, self, o)
    }
}

/// Records a pointwise operation's formula.
pub fn record(f: impl FnOnce([Sym; ARGS], [Sym; PARAMS]) -> Sym) -> Formula {
    let (args, params) = inputs();
    finish(&[f(args, params)])
}

#[inline(never)]
fn inputs() -> ([Sym; ARGS], [Sym; PARAMS]) {
    begin();
    (std::array::from_fn(arg), std::array::from_fn(param))
}

/// As [`record`], with the given numbers of arguments and parameters, and one or more numbers or booleans as results.
pub fn record_all(args: usize, params: usize, f: impl FnOnce(&[Sym], &[Sym]) -> Vec<Sym>) -> Formula {
    begin();
    let args: Vec<Sym> = (0..args).map(arg).collect();
    let params: Vec<Sym> = (0..params).map(param).collect();
    let out = f(&args, &params);
    finish(&out)
}

fn begin() {
    TAPE.with_borrow_mut(Vec::clear);
}

fn arg(k: usize) -> Sym {
    push(Step::Arg(k))
}

fn param(k: usize) -> Sym {
    push(Step::Param(k))
}

#[inline(never)]
fn finish(out: &[Sym]) -> Formula {
    let tape = TAPE.with_borrow_mut(std::mem::take);
    let results: Vec<usize> = out.iter().map(|s| s.0).collect();
    Formula::tidied(&tape, &results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formula::Num;

    #[test]
    fn a_result_may_be_an_argument() {
        let f = record(|a, _| a[1]);
        assert_eq!((f.steps(), f.results()), (&[Step::Arg(1)][..], &[0][..]));
    }

    #[test]
    fn equal_steps_are_recorded_once_and_dead_ones_dropped() {
        let f = record(|a, _| {
            let _unused = a[1].exp();
            let e = a[0].exp();
            e * a[0].exp()
        });
        let wanted = [Step::Arg(0), Step::Do(Prim::Exp, [0, 0, 0]), Step::Do(Prim::Mul, [1, 1, 0])];
        assert_eq!(f.steps(), wanted);
        assert!(f.reads(0) && !f.reads(1));
    }
}
