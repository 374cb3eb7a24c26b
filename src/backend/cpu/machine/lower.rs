//! From formulas to instructions: what all types share, and floating point.

use super::code::{Ahead, Code, Index, Inst, Logic, Narrow, One, Sym, Truth, Two, push, record};
use super::recipe::{Recipe, Source, Work, type_of};
use crate::backend::cpu::math;
use crate::backend::cpu::math::lanes::Lanes;
use crate::dtype::DType;
use crate::formula::Formula;
use crate::formula::record::{Prim, Step};

/// The most steps of a formula and instructions of a kernel. Longer ones would spill most of their values.
const MOST: usize = 1024;

/// A type that machine code computes in.
pub trait Compiled: bytemuck::Pod {
    const IS_INTEGER: bool;
    /// The steps that are emitted and that not every type has.
    const OWN: &'static [Prim];
    /// The elementary functions that are emitted.
    const FUNCTIONS: &'static [Prim];
    fn literal(v: f64) -> u64;
    /// A step of a formula, but for those of booleans alone; None if it has no machine code.
    fn step(p: Prim, of: [Index; 3]) -> Option<Index>;
    /// The nearest number of a half type.
    fn round(to: DType, x: Index) -> Option<Index>;
    /// The value of a result that is stored as a half type. For float16 it is the number itself, which the conversion rounds; for
    /// bfloat16 the rounded bits, of which the upper half is stored.
    fn round_stored(_to: DType, _x: Index) -> Option<Index> {
        None
    }
    fn equal(x: Index, y: Index) -> Truth;
}

/// Rounds to even, on the bits; NaN keeps its upper bits, with the one that makes it quiet.
fn round_bf16(x: Sym<f32>) -> Sym<f32> {
    upper_bf16(x).two(Two::And, Sym::of(f32::from_bits(0xffff_0000)))
}

/// As `round_bf16`, with any lower bits.
fn upper_bf16(x: Sym<f32>) -> Sym<f32> {
    let bits = |v: u32| Sym::<f32>::of(f32::from_bits(v));
    let odd = x.shr_bits(16).two(Two::And, bits(1));
    let rounded = x.add_bits(bits(0x7fff)).add_bits(odd);
    let is_number = x.equal(x);
    Sym::select(is_number, rounded, x.or_bits(bits(0x0040_0000)))
}

macro_rules! compiled {
    ($($t:ident |$to:ident, $x:ident| $round:expr $(, stored $upper:ident)?; $($p:ident $f:ident)*;)*) => { $(impl Compiled for $t {
        const IS_INTEGER: bool = false;
        const OWN: &'static [Prim] =
            &[Prim::Div, Prim::TruncDiv, Prim::Floor, Prim::Ceil, Prim::Trunc, Prim::Round, Prim::Sqrt];
        const FUNCTIONS: &'static [Prim] = &[$(Prim::$p),*];
        fn literal(v: f64) -> u64 {
            u64::from((v as $t).to_bits())
        }
        fn step(p: Prim, of: [Index; 3]) -> Option<Index> {
            match p {
                $(Prim::$p => Some(math::$f(Sym::<$t>::at(of[0])).0),)*
                _ => prim::<$t>(p, of),
            }
        }
        fn round($to: DType, x: Index) -> Option<Index> {
            let $x = Sym::<$t>::at(x);
            let rounded: Option<Sym<$t>> = $round;
            Some(rounded?.0)
        }
        $(fn round_stored(to: DType, x: Index) -> Option<Index> {
            Some(if to == DType::BF16 { $upper(Sym::at(x)).0 } else { x })
        })?
        fn equal(x: Index, y: Index) -> Truth {
            Sym::<$t>::at(x).equal(Sym::at(y))
        }
    })* };
}
compiled! {
    f32 |to, x| match to {
            DType::F16 => Some(x.one(One::RoundHalf)),
            DType::BF16 => Some(round_bf16(x)),
            _ => None,
        }, stored upper_bf16;
        Exp exp_f32 Exp2 exp2_f32 Expm1 expm1_f32 Log log_f32 Log1p log1p_f32 Tanh tanh_f32 Erf erf_f32
        NormalCdf normal_cdf_f32;
    f64 |_to, _x| None; Exp exp_f64 Log log_f64;
}

/// Whether machine code can be made of each step of a formula.
pub fn is_compiled<T: Compiled>(formula: &Formula) -> bool {
    let has = |s: &Step| match s {
        Step::Do(p, _) => is_of_all_types(*p) || T::OWN.contains(p) || T::FUNCTIONS.contains(p),
        _ => true,
    };
    formula.steps().len() <= MOST && formula.steps().iter().all(has)
}

/// The steps that have machine code in each type.
const fn is_of_all_types(p: Prim) -> bool {
    matches!(
        p,
        Prim::Add
            | Prim::Sub
            | Prim::Mul
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
    )
}

/// The instructions of a recipe; None if a step has none.
pub fn lower<T: Compiled>(recipe: &Recipe, is_512: bool) -> Option<Code> {
    let length = |(work, _): &(Work, _)| if let Work::Formula(f, _) = work { f.steps().len() } else { 1 };
    if recipe.args > u64::BITS as usize || recipe.steps.iter().map(length).sum::<usize>() > MOST {
        return None;
    }
    let (results, insts) = record(is_512, || {
        let mut values: Vec<Index> = Vec::with_capacity(recipe.steps.len());
        let mut stored: Vec<(usize, Index)> = Vec::new();
        for (work, operands) in &recipe.steps {
            let of = |source: &Source| match *source {
                Source::Step(k) => values.get(k).copied(),
                Source::Argument(k) if recipe.rows >> k & 1 == 1 => Some(push(Inst::Spread(k as Index, 0))),
                Source::Argument(k) => {
                    let Some(dtype) = type_of(&recipe.narrow, k) else {
                        return Some(push(Inst::Load(k as Index, Ahead::default())));
                    };
                    let number = push(Inst::LoadNarrow(Narrow::of(dtype)?, k as Index, Ahead::default()));
                    Some(if dtype == DType::Bool { truth::<T>(number) } else { number })
                }
                Source::Number(k) => Some(push(Inst::Number(k as Index))),
            };
            values.push(match *work {
                Work::Formula(formula, number) => apply::<T>(formula, number, |k| of(operands.get(k)?))?,
                Work::Round(to) => T::round(to, of(operands.first()?)?)?,
            });
        }
        // Results that are stored as halves are rounded by that.
        for (r, to) in &recipe.halves {
            let result = *recipe.results.get(*r)?;
            let (Work::Round(_), operands) = recipe.steps.get(result)? else { return None };
            let Source::Step(of) = *operands.first()? else { continue };
            stored.push((*r, T::round_stored(*to, *values.get(of)?)?));
        }
        let found =
            |steps: &[usize]| steps.iter().map(|r| values.get(*r).copied()).collect::<Option<Vec<_>>>();
        let mut results = found(&recipe.results)?;
        for (r, value) in stored {
            results[r] = value;
        }
        Some((results, found(&recipe.sums)?, found(&recipe.columns.steps)?))
    });
    let (results, sums, columns) = results?;
    (insts.len() <= MOST).then(|| Code { insts, vectors: 1, rows: 1, results, sums, columns }.pruned())
}

/// The first result of a formula, as a number: a boolean becomes 1 or 0, as it would in memory.
fn apply<T: Compiled>(
    formula: &Formula,
    number: usize,
    operand: impl Fn(usize) -> Option<Index>,
) -> Option<Index> {
    let mut places: Vec<Index> = Vec::with_capacity(formula.steps().len());
    for step in formula.steps() {
        places.push(match *step {
            Step::Arg(k) => operand(k)?,
            Step::Param(k) => push(Inst::Number((number + k) as Index)),
            Step::Lit(v) => literal::<T>(v),
            Step::Do(p, of) => {
                let of = of.map(|k| places.get(k).copied().unwrap_or_default());
                match p {
                    Prim::Not => push(Inst::Not(of[0])),
                    Prim::And => push(Inst::Logic(Logic::And, of[0], of[1])),
                    Prim::Or => push(Inst::Logic(Logic::Or, of[0], of[1])),
                    _ => T::step(p, of)?,
                }
            }
        });
    }
    let result = *places.get(*formula.results().first()?)?;
    Some(if formula.is_truth(0) { one_or_zero::<T>(Truth(result)) } else { result })
}

fn literal<T: Compiled>(v: f64) -> Index {
    push(Inst::Literal(T::literal(v)))
}

fn one_or_zero<T: Compiled>(c: Truth) -> Index {
    push(Inst::Select(c.0, literal::<T>(1.0), literal::<T>(0.0)))
}

/// 1 for bytes that are not 0, as the compiled loops read booleans.
fn truth<T: Compiled>(bytes: Index) -> Index {
    let is_zero = T::equal(bytes, literal::<T>(0.0));
    push(Inst::Select(is_zero.0, literal::<T>(0.0), literal::<T>(1.0)))
}

/// A step of numbers of floating point.
fn prim<T>(p: Prim, [a, b, c]: [Index; 3]) -> Option<Index>
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
        Prim::Select => Sym::<T>::select(Truth(a), y, Sym::at(c)).0,
        // The second, if it is greater or no number.
        Prim::Maximum => or_nan(y, Sym::select(x.less(y), y, x)).0,
        Prim::Minimum => or_nan(y, Sym::select(y.less(x), y, x)).0,
        Prim::TruncDiv => (x / y).one(One::Trunc).0,
        Prim::Floor => x.one(One::Floor).0,
        Prim::Ceil => x.one(One::Ceil).0,
        Prim::Trunc => x.one(One::Trunc).0,
        Prim::Round => x.one(One::RoundEven).0,
        Prim::Sqrt => x.one(One::Sqrt).0,
        _ => return None,
    })
}

/// `x` if it is no number, else `other`.
fn or_nan<T>(x: Sym<T>, other: Sym<T>) -> Sym<T>
where
    Sym<T>: Lanes<Bool = Truth>,
{
    Sym::select(x.equal(x), other, x)
}
