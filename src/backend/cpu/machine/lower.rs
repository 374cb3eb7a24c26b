//! From formulas to instructions.

use super::code::{Code, Index, Inst, Logic, One, Sym, Truth, Two, push, record};
use super::recipe::{Recipe, Source, Work};
use crate::backend::cpu::math;
use crate::backend::cpu::math::lanes::Lanes;
use crate::dtype::DType;
use crate::formula::Formula;
use crate::formula::record::{Prim, Step};

/// The most steps of a formula and instructions of a kernel. Longer ones would spill most of their values.
const MOST: usize = 1024;

/// A type that machine code computes in.
pub trait Compiled: bytemuck::Pod {
    const IS_DOUBLE: bool;
    /// The elementary functions that are emitted.
    const FUNCTIONS: &'static [Prim];
    fn literal(v: f64) -> u64;
    /// One of `FUNCTIONS`.
    fn function(p: Prim, x: Sym<Self>) -> Option<Sym<Self>>;
    /// The nearest number of a half type.
    fn round(to: DType, x: Sym<Self>) -> Option<Sym<Self>>;
}

/// Rounds to even, on the bits; NaN keeps its upper bits, with the one that makes it quiet.
fn round_bf16(x: Sym<f32>) -> Sym<f32> {
    let bits = |v: u32| Sym::<f32>::of(f32::from_bits(v));
    let odd = x.shr_bits(16).two(Two::And, bits(1));
    let rounded = x.add_bits(bits(0x7fff)).add_bits(odd);
    let is_number = x.equal(x);
    Sym::select(is_number, rounded, x.or_bits(bits(0x0040_0000))).two(Two::And, bits(0xffff_0000))
}

macro_rules! compiled {
    ($($t:ident $is_double:literal |$to:ident, $x:ident| $round:expr; $($p:ident $f:ident)*;)*) => { $(impl Compiled for $t {
        const IS_DOUBLE: bool = $is_double;
        const FUNCTIONS: &'static [Prim] = &[$(Prim::$p),*];
        fn literal(v: f64) -> u64 {
            u64::from((v as $t).to_bits())
        }
        fn function(p: Prim, x: Sym<$t>) -> Option<Sym<$t>> {
            match p {
                $(Prim::$p => Some(math::$f(x)),)*
                _ => None,
            }
        }
        fn round($to: DType, $x: Sym<$t>) -> Option<Sym<$t>> {
            $round
        }
    })* };
}
compiled! {
    f32 false
        |to, x| match to {
            DType::F16 => Some(x.one(One::RoundHalf)),
            DType::BF16 => Some(round_bf16(x)),
            _ => None,
        };
        Exp exp_f32 Exp2 exp2_f32 Expm1 expm1_f32 Log log_f32 Log1p log1p_f32 Tanh tanh_f32 Erf erf_f32
        NormalCdf normal_cdf_f32;
    f64 true |_to, _x| None; Exp exp_f64 Log log_f64;
}

/// Whether machine code can be made of each step of a formula.
pub fn is_compiled<T: Compiled>(formula: &Formula) -> bool {
    let has =
        |s: &Step| if let Step::Do(p, _) = s { is_simple(*p) || T::FUNCTIONS.contains(p) } else { true };
    formula.steps().len() <= MOST && formula.steps().iter().all(has)
}

const fn is_simple(p: Prim) -> bool {
    matches!(
        p,
        Prim::Add
            | Prim::Sub
            | Prim::Mul
            | Prim::Div
            | Prim::Neg
            | Prim::Abs
            | Prim::Lt
            | Prim::Le
            | Prim::Eq
            | Prim::Not
            | Prim::And
            | Prim::Or
            | Prim::Select
            | Prim::Maximum
            | Prim::Minimum
            | Prim::TruncDiv
            | Prim::Floor
            | Prim::Ceil
            | Prim::Trunc
            | Prim::Round
            | Prim::Sqrt
    )
}

/// The instructions of a recipe; None if a step has none.
pub fn lower<T: Compiled>(recipe: &Recipe, is_512: bool) -> Option<Code>
where
    Sym<T>: Lanes<Bool = Truth>,
{
    let length = |(work, _): &(Work, _)| if let Work::Formula(f, _) = work { f.steps().len() } else { 1 };
    if recipe.args > u64::BITS as usize || recipe.steps.iter().map(length).sum::<usize>() > MOST {
        return None;
    }
    let (results, insts) = record(is_512, || {
        let mut values: Vec<Index> = Vec::with_capacity(recipe.steps.len());
        for (work, operands) in &recipe.steps {
            let of = |source: &Source| match *source {
                Source::Step(k) => values.get(k).copied(),
                Source::Argument(k) if recipe.rows >> k & 1 == 1 => Some(push(Inst::Spread(k as Index))),
                Source::Argument(k) if recipe.bytes >> k & 1 == 1 => {
                    let bytes = Sym::<T>::at(push(Inst::LoadBytes(k as Index)));
                    Some(if recipe.truths >> k & 1 == 1 { truth(bytes).0 } else { bytes.0 })
                }
                Source::Argument(k) => Some(push(Inst::Load(k as Index))),
                Source::Number(k) => Some(push(Inst::Number(k as Index))),
            };
            values.push(match *work {
                Work::Formula(formula, number) => apply::<T>(formula, number, |k| of(operands.get(k)?))?,
                Work::Round(to) => T::round(to, Sym::at(of(operands.first()?)?))?.0,
            });
        }
        let found =
            |steps: &[usize]| steps.iter().map(|r| values.get(*r).copied()).collect::<Option<Vec<_>>>();
        Some((found(&recipe.results)?, found(&recipe.sums)?))
    });
    let (results, sums) = results?;
    (insts.len() <= MOST).then(|| Code { insts, results, sums }.pruned())
}

/// The first result of a formula, as a number: a boolean becomes 1 or 0, as it would in memory.
fn apply<T: Compiled>(
    formula: &Formula,
    number: usize,
    operand: impl Fn(usize) -> Option<Index>,
) -> Option<Index>
where
    Sym<T>: Lanes<Bool = Truth>,
{
    let mut places: Vec<Index> = Vec::with_capacity(formula.steps().len());
    for step in formula.steps() {
        places.push(match *step {
            Step::Arg(k) => operand(k)?,
            Step::Param(k) => push(Inst::Number((number + k) as Index)),
            Step::Lit(v) => push(Inst::Literal(T::literal(v))),
            Step::Do(p, of) => prim::<T>(p, of.map(|k| places.get(k).copied().unwrap_or_default()))?,
        });
    }
    let result = *places.get(*formula.results().first()?)?;
    if !formula.is_truth(0) {
        return Some(result);
    }
    Some(Sym::select(Truth(result), literal::<T>(1.0), literal(0.0)).0)
}

fn literal<T: Compiled>(v: f64) -> Sym<T> {
    Sym::at(push(Inst::Literal(T::literal(v))))
}

/// 1 for bytes that are not 0, as the compiled loops read booleans.
fn truth<T: Compiled>(bytes: Sym<T>) -> Sym<T>
where
    Sym<T>: Lanes<Bool = Truth>,
{
    Sym::select(bytes.equal(literal(0.0)), literal(0.0), literal(1.0))
}

fn prim<T: Compiled>(p: Prim, [a, b, c]: [Index; 3]) -> Option<Index>
where
    Sym<T>: Lanes<Bool = Truth>,
{
    let (x, y) = (Sym::<T>::at(a), Sym::<T>::at(b));
    Some(match p {
        Prim::Add => (x + y).0,
        Prim::Sub => (x - y).0,
        Prim::Mul => (x * y).0,
        Prim::Div => (x / y).0,
        Prim::Neg => (-x).0,
        Prim::Abs => x.abs().0,
        Prim::Lt => x.less(y).0,
        Prim::Le => x.less_or_equal(y).0,
        Prim::Eq => x.equal(y).0,
        Prim::Not => push(Inst::Not(a)),
        Prim::And => push(Inst::Logic(Logic::And, a, b)),
        Prim::Or => push(Inst::Logic(Logic::Or, a, b)),
        Prim::Select => Sym::<T>::select(Truth(a), y, Sym::at(c)).0,
        // The first, if it is greater or no number.
        Prim::Maximum => or_nan(x, Sym::select(y.less(x), x, y)).0,
        Prim::Minimum => or_nan(x, Sym::select(x.less(y), x, y)).0,
        Prim::TruncDiv => (x / y).one(One::Trunc).0,
        Prim::Floor => x.one(One::Floor).0,
        Prim::Ceil => x.one(One::Ceil).0,
        Prim::Trunc => x.one(One::Trunc).0,
        Prim::Round => x.one(One::RoundEven).0,
        Prim::Sqrt => x.one(One::Sqrt).0,
        _ => T::function(p, x)?.0,
    })
}

/// `x` if it is no number, else `other`.
fn or_nan<T>(x: Sym<T>, other: Sym<T>) -> Sym<T>
where
    Sym<T>: Lanes<Bool = Truth>,
{
    Sym::select(x.equal(x), other, x)
}
