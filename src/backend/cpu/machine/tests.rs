mod columns;
mod narrow;

use smallvec::SmallVec;

use super::recipe::LANES;
use super::*;
use crate::backend::View;
use crate::backend::cpu::math::Math;
use crate::backend::cpu::output::Cells;
use crate::backend::cpu::reduce::{Ordered, block_reduction};
use crate::backend::reduce::ReduceOp;
use crate::backend::simd::{best_isa, force_isa};
use crate::dtype::{DType, Real};
use crate::formula::record::{Prim, Step};
use crate::formula::{Arith, Bits, Formula, Int, Num};
use crate::layout::Layout;
use crate::storage::Storage;

/// What the tests need of a type.
trait Tested: Compiled + Arith<Bool = bool> + std::fmt::Debug {
    /// Steps of numbers and their operands, but for elementary functions.
    const STEPS: &'static [(Prim, usize)];
    /// Steps that are drawn with one operand.
    const OF_ONE: &'static [Prim];
    /// Its bits, of which all NaN have the same.
    fn bits(self) -> u64;
    fn make(recipe: &Recipe) -> Option<Arc<Kernel>>;
    /// A number that 64 bits stand for.
    fn draw(bits: u64) -> Self;
    /// A step that other types lack.
    fn own(p: Prim, x: Self, y: Self) -> Self;
}

macro_rules! tested {
    (floats $($t:ident)*) => { $(impl Tested for $t {
        const STEPS: &'static [(Prim, usize)] = &[
            (Prim::Add, 2), (Prim::Sub, 2), (Prim::Mul, 2), (Prim::Div, 2), (Prim::Neg, 1), (Prim::Abs, 1),
            (Prim::Maximum, 2), (Prim::Minimum, 2), (Prim::TruncDiv, 2), (Prim::Floor, 1), (Prim::Ceil, 1),
            (Prim::Trunc, 1), (Prim::Round, 1), (Prim::Sqrt, 1),
        ];
        const OF_ONE: &'static [Prim] = Self::FUNCTIONS;
        fn bits(self) -> u64 {
            if self.is_nan() { u64::MAX } else { u64::from(self.to_bits()) }
        }
        fn make(recipe: &Recipe) -> Option<Arc<Kernel>> {
            kernel::<$t>(recipe)
        }
        fn draw(bits: u64) -> Self {
            let unit = (bits >> 11) as f64 / (1u64 << 53) as f64;
            let scale = [1.0, 4.0, 30.0, 1e-3, 200.0][(bits % 5) as usize];
            Self::lit((unit - 0.5) * scale)
        }
        fn own(p: Prim, x: Self, y: Self) -> Self {
            match p {
                Prim::Div => x / y,
                Prim::TruncDiv => x.trunc_div(y),
                Prim::Exp => x.m_exp(),
                Prim::Exp2 => x.m_exp2(),
                Prim::Expm1 => x.m_expm1(),
                Prim::Log => x.m_log(),
                Prim::Log1p => x.m_log1p(),
                Prim::Tanh => x.m_tanh(),
                Prim::Erf => x.m_erf(),
                Prim::NormalCdf => x.m_normal_cdf(),
                Prim::Floor => x.m_floor(),
                Prim::Ceil => x.m_ceil(),
                Prim::Trunc => x.m_trunc(),
                Prim::Round => x.m_round_even(),
                Prim::Sqrt => Num::sqrt(x),
                _ => unreachable!("{p:?} has no machine code"),
            }
        }
    })* };
    (integers $($t:ident)*) => { $(impl Tested for Int<$t> {
        const STEPS: &'static [(Prim, usize)] = &[
            (Prim::Add, 2), (Prim::Sub, 2), (Prim::Mul, 2), (Prim::Neg, 1), (Prim::Abs, 1), (Prim::Maximum, 2),
            (Prim::Minimum, 2), (Prim::BitAnd, 2), (Prim::BitOr, 2), (Prim::BitXor, 2), (Prim::Shl, 2),
            (Prim::Shr, 2),
        ];
        const OF_ONE: &'static [Prim] = &[Prim::Neg, Prim::Abs];
        fn bits(self) -> u64 {
            self.0 as u64
        }
        fn make(recipe: &Recipe) -> Option<Arc<Kernel>> {
            kernel::<Int<$t>>(recipe)
        }
        fn draw(bits: u64) -> Self {
            // Small ones too, of both signs, as counts of shifts.
            Int((bits as i64 >> [58, 40, 33, 8, 0][(bits % 5) as usize]) as $t)
        }
        fn own(p: Prim, x: Self, y: Self) -> Self {
            match p {
                Prim::BitAnd => x.bit_and(y),
                Prim::BitOr => x.bit_or(y),
                Prim::BitXor => x.bit_xor(y),
                Prim::Shl => x.shl(y),
                Prim::Shr => x.shr(y),
                _ => unreachable!("{p:?} has no machine code"),
            }
        }
    })* };
}
tested! { floats f32 f64 }
tested! { integers i32 i64 }

/// The kernel of a recipe; None only where there is no machine code at all.
fn made<T: Tested>(recipe: &Recipe) -> Option<Arc<Kernel>> {
    let kernel = T::make(recipe);
    assert!(kernel.is_some() || !is_enabled(), "no machine code for {recipe:?}");
    kernel
}

/// A recipe with each result of a formula as a step.
fn recipe(results: &[Formula], args: usize, rows: u64) -> Recipe<'_> {
    let arguments = || (0..args).map(Source::Argument).collect();
    Recipe {
        steps: results.iter().map(|f| (Work::Formula(f, 0), arguments())).collect(),
        results: (0..results.len()).collect(),
        sums: SmallVec::new(),
        has_short_rows: false,
        columns: Columns::default(),
        args,
        rows,
        strided: 0,
        narrow: SmallVec::new(),
        spread: 0,
        prefetches: 0,
        halves: SmallVec::new(),
        replaces: false,
        numbers: results.iter().map(Formula::params).max().unwrap_or(0),
    }
}

/// A formula step by step, with the functions that the compiled loops have.
fn evaluate<T: Tested>(formula: &Formula, args: &[T], params: &[T]) -> Vec<T> {
    let mut values: Vec<T> = Vec::new();
    let mut truths: Vec<bool> = Vec::new();
    for step in formula.steps() {
        let (mut value, mut truth) = (T::lit(0.0), false);
        match *step {
            Step::Arg(k) => value = args[k],
            Step::Param(k) => value = params[k],
            Step::Lit(v) => value = T::lit(v),
            Step::Do(p, [a, b, c]) => {
                let (x, y) = (values[a], values[b]);
                match p {
                    Prim::Lt => truth = x.lt(y),
                    Prim::Le => truth = x.le(y),
                    Prim::Eq => truth = x.eq(y),
                    Prim::Not => truth = !truths[a],
                    Prim::And => truth = truths[a] & truths[b],
                    Prim::Or => truth = truths[a] | truths[b],
                    Prim::Select => value = if truths[a] { y } else { values[c] },
                    Prim::Add => value = x + y,
                    Prim::Sub => value = x - y,
                    Prim::Mul => value = x * y,
                    Prim::Neg => value = -x,
                    Prim::Abs => value = Arith::abs(x),
                    Prim::Maximum => value = x.maximum(y),
                    Prim::Minimum => value = x.minimum(y),
                    _ => value = T::own(p, x, y),
                }
            }
        }
        values.push(value);
        truths.push(truth);
    }
    formula.results().iter().map(|r| values[*r]).collect()
}

/// Zeros, infinities, NaN, subnormal and huge numbers, and a sequence of others.
fn numbers<T: Tested>(count: usize, mut seed: u64) -> Vec<T> {
    let special =
        [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-42, -3e-320];
    let special = special.into_iter().chain([88.5, -88.5, 1e30, -1e30, 0.625, 0.65, 8388609.0]);
    let mut all: Vec<T> = special.map(T::lit).collect();
    while all.len() < count {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        all.push(T::draw(seed));
    }
    let by = (seed % 7) as usize;
    all.rotate_left(by);
    all.truncate(count);
    all
}

fn given_as<T>(is_per_row: bool, v: &[T]) -> In<'_, T> {
    if is_per_row { In::PerRow(v) } else { In::Elements(v) }
}

/// Compares a kernel with the steps of its formula, on rows of `n`.
fn check<T: Tested>(formula: &Formula, rows: usize, n: usize, per_row: u64) {
    let args = formula.args();
    let given: Vec<Vec<T>> = (0..args)
        .map(|k| numbers(if per_row >> k & 1 == 1 { rows } else { rows * n }, k as u64 + 1))
        .collect();
    let params: Vec<T> = numbers(40, 9).into_iter().skip(20).take(formula.params()).collect();
    let single: Vec<Formula> =
        formula.results().iter().map(|r| Formula::new(formula.steps(), &[*r]).unwrap()).collect();
    let kernel = T::make(&recipe(&single, args, per_row));
    let kernel = kernel.unwrap_or_else(|| panic!("no machine code for\n{formula}"));
    let mut outs = vec![vec![T::lit(7.0); rows * n + 3]; formula.results().len()];
    let ins: Vec<In<T>> = given.iter().enumerate().map(|(k, v)| given_as(per_row >> k & 1 == 1, v)).collect();
    let mut slices: Vec<Out<T>> = outs.iter_mut().map(|v| Out::Elements(&mut v[..rows * n])).collect();
    assert!(kernel.run(&ins, &mut slices, &[], &kernel.pool(&params).unwrap(), rows, n));
    for i in 0..rows * n {
        let of = |k: usize| given[k][if per_row >> k & 1 == 1 { i / n } else { i }];
        let at: Vec<T> = (0..args).map(of).collect();
        for (r, wanted) in evaluate(formula, &at, &params).into_iter().enumerate() {
            assert_eq!(outs[r][i].bits(), wanted.bits(), "result {r} of {at:?}: {:?}\n{formula}", outs[r][i]);
        }
    }
    assert!(outs.iter().all(|v| v[rows * n..].iter().all(|x| x.bits() == T::lit(7.0).bits())));
}

/// Runs `f` with each instruction set that has machine code.
fn with_each_isa(f: impl Fn()) {
    for wanted in [Isa::Avx2, Isa::Avx512] {
        if wanted <= best_isa() {
            force_isa(wanted);
            f();
        }
    }
    force_isa(best_isa());
}

fn single_steps<T: Tested>() {
    for (p, arity) in T::STEPS.iter().copied().chain(T::FUNCTIONS.iter().map(|p| (*p, 1))) {
        let steps = [Step::Arg(0), Step::Arg(1), Step::Do(p, [0, arity - 1, 0])];
        let formula = Formula::new(&steps, &[2]).unwrap();
        for n in [1, 8, 37, 700] {
            check::<T>(&formula, 1, n, 0);
        }
    }
}

#[test]
fn each_step_has_the_bits_of_the_compiled_loops() {
    with_each_isa(|| {
        single_steps::<f32>();
        single_steps::<f64>();
        single_steps::<Int<i32>>();
        single_steps::<Int<i64>>();
    });
}

/// On every machine, as few have AVX-512: that each step has an instruction for its type, without a run of it.
#[test]
fn each_step_is_encoded_for_both_instruction_sets() {
    fn check<T: Tested>() {
        for (p, arity) in T::STEPS.iter().copied().chain(T::FUNCTIONS.iter().map(|p| (*p, 1))) {
            let steps = [Step::Arg(0), Step::Arg(1), Step::Do(p, [0, arity - 1, 0])];
            let formulas = [Formula::new(&steps, &[2]).unwrap()];
            let recipe = Recipe { narrow: smallvec::smallvec![(1, DType::U8)], ..recipe(&formulas, 2, 0) };
            for is_512 in [false, true] {
                let target = Target { is_double: size_of::<T>() == 8, is_integer: T::IS_INTEGER, is_512 };
                let code = lower::lower::<T>(&recipe, is_512);
                let bytes = code.and_then(|code| emit::emit(&code, target, &recipe));
                assert!(bytes.is_some_and(|(bytes, _)| !bytes.is_empty()), "{p:?} for {target:?}");
            }
        }
    }
    check::<f32>();
    check::<f64>();
    check::<Int<i32>>();
    check::<Int<i64>>();
    fn check_narrow<T: Tested>(dtypes: &[DType]) {
        for (dtype, is_512) in dtypes.iter().flat_map(|d| [(*d, false), (*d, true)]) {
            let formulas = [Formula::parse("%0 = x0\n%1 = mul %0 %0\nreturn %1").unwrap()];
            let recipe = Recipe { narrow: smallvec::smallvec![(0, dtype)], ..recipe(&formulas, 1, 0) };
            let target = Target { is_double: size_of::<T>() == 8, is_integer: T::IS_INTEGER, is_512 };
            let code = lower::lower::<T>(&recipe, is_512);
            assert!(
                code.and_then(|code| emit::emit(&code, target, &recipe)).is_some(),
                "{dtype:?} for {target:?}"
            );
        }
    }
    let shorter = [DType::Bool, DType::U8, DType::I8, DType::I16];
    let all = [&shorter[..], &[DType::I32]].concat();
    check_narrow::<f32>(&all);
    check_narrow::<f64>(&all);
    check_narrow::<Int<i32>>(&shorter);
    check_narrow::<Int<i64>>(&all);
    for (dtype, is_512) in [DType::F16, DType::BF16].into_iter().flat_map(|d| [(d, false), (d, true)]) {
        let formulas = [Formula::parse("%0 = x0\n%1 = mul %0 %0\nreturn %1").unwrap()];
        let mut recipe = recipe(&formulas, 1, 0);
        recipe.steps.push((Work::Round(dtype), smallvec::smallvec![Source::Step(0)]));
        recipe.results[0] = 1;
        recipe.narrow.push((0, dtype));
        recipe.halves.push((0, dtype));
        let target = Target { is_double: false, is_integer: false, is_512 };
        let code = lower::lower::<f32>(&recipe, is_512);
        assert!(
            code.and_then(|code| emit::emit(&code, target, &recipe)).is_some(),
            "{dtype:?} for {target:?}"
        );
    }
}

/// A formula of random steps with several results.
fn random<T: Tested>(seed: &mut u64, length: usize, args: usize) -> Formula {
    let mut draw = |n: usize| {
        *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*seed >> 33) as usize % n
    };
    let mut steps: Vec<Step> = (0..args).map(Step::Arg).collect();
    steps.extend([Step::Param(0), Step::Param(1), Step::Lit(0.5), Step::Lit(-2.0)]);
    let mut values: Vec<usize> = (0..steps.len()).collect();
    let mut truths: Vec<usize> = Vec::new();
    while steps.len() < length {
        let (a, b) = (values[draw(values.len())], values[draw(values.len())]);
        let step = match draw(10) {
            0 => Step::Do([Prim::Lt, Prim::Le, Prim::Eq][draw(3)], [a, b, 0]),
            1 if !truths.is_empty() => {
                let (c, d) = (truths[draw(truths.len())], truths[draw(truths.len())]);
                Step::Do([Prim::And, Prim::Or, Prim::Not][draw(3)], [c, d, 0])
            }
            2 | 3 if !truths.is_empty() => Step::Do(Prim::Select, [truths[draw(truths.len())], a, b]),
            4 => Step::Do(T::OF_ONE[draw(T::OF_ONE.len())], [a, 0, 0]),
            _ => Step::Do(T::STEPS[draw(T::STEPS.len())].0, [a, b, 0]),
        };
        let is_truth = matches!(step, Step::Do(p, _) if p.is_truth());
        (if is_truth { &mut truths } else { &mut values }).push(steps.len());
        steps.push(step);
    }
    let last = values[values.len() - 1];
    let results = [last, values[draw(values.len())], values[draw(values.len())]];
    Formula::new(&steps, &results[..1 + draw(3)]).unwrap()
}

fn random_chains<T: Tested>(count: usize) {
    let mut seed = 3;
    for i in 0..count {
        let formula = random::<T>(&mut seed, 6 + i % 60, 1 + i % 12);
        let rows = 1 + i % 3;
        check::<T>(&formula, rows, 1 + i * 7 % 90, if i % 2 == 0 { 0 } else { i as u64 & 0b0101_0101 });
    }
}

#[test]
fn random_chains_have_the_bits_of_their_steps() {
    with_each_isa(|| {
        random_chains::<f32>(600);
        random_chains::<f64>(300);
        random_chains::<Int<i32>>(400);
        random_chains::<Int<i64>>(400);
    });
}

#[test]
fn operands_that_are_too_short_are_refused() {
    let formula = Formula::parse("%0 = x0\n%1 = x1\n%2 = add %0 %1\nreturn %2").unwrap();
    let single = [formula];
    let Some(kernel) = made::<f32>(&recipe(&single, 2, 0b10)) else { return };
    let (x, y, mut out) = (vec![1.0f32; 12], vec![2.0f32; 3], vec![0.0f32; 12]);
    let pool = kernel.pool::<f32>(&[]).unwrap();
    let (per_row, elements) = (In::PerRow(&y[..]), In::Elements(&x[..]));
    assert!(kernel.run(&[elements, per_row], &mut [Out::Elements(&mut out)], &[], &pool, 3, 4));
    assert_eq!(out, [3.0; 12]);
    assert!(!kernel.run(&[elements, per_row], &mut [Out::Elements(&mut out)], &[], &pool, 4, 3));
    assert!(!kernel.run(&[elements, per_row], &mut [Out::Elements(&mut out[..11])], &[], &pool, 3, 4));
    assert!(!kernel.run(&[elements], &mut [Out::Elements(&mut out)], &[], &pool, 3, 4));
    assert!(!kernel.run(&[elements, elements], &mut [Out::Elements(&mut out)], &[], &pool, 3, 4));
    assert!(!kernel.run(&[per_row, per_row], &mut [Out::Elements(&mut out)], &[], &pool, 3, 4));
    assert!(!kernel.run(&[In::Replaced(0), per_row], &mut [Out::Elements(&mut out)], &[], &pool, 3, 4));
    assert!(!kernel.run(&[In::Strided(&x, 4), per_row], &mut [Out::Elements(&mut out)], &[], &pool, 3, 4));
    assert!(!kernel.run(&[elements, per_row], &mut [Out::Elements(&mut out)], &[], &pool, usize::MAX, 4));
    let (x, y) = ([1.0f64; 12], [1.0f64; 3]);
    assert!(!kernel.run(
        &[In::Elements(&x), In::PerRow(&y)],
        &mut [Out::Elements(&mut [0.0; 12])],
        &[],
        &pool,
        3,
        4
    ));
}

#[test]
fn arguments_have_strides_and_are_replaced_and_memory_is_prefetched() {
    // Twelve arguments, so that some of the pointers are not in registers.
    let sum = (0..12).map(|k| format!("%{k} = x{k}\n")).collect::<String>()
        + "%12 = add %0 %1\n"
        + &(2..12).map(|k| format!("%{} = mul %{} %{k}\n", k + 11, k + 10)).collect::<String>();
    let formulas = [
        Formula::parse(&(sum.clone() + "return %22")).unwrap(),
        Formula::parse(&(sum + "%23 = sub %22 %0\nreturn %23")).unwrap(),
    ];
    let (rows, n, stride) = (5, 37, 50);
    with_each_isa(|| {
        let strided = 0b1001_0000_0010u64;
        let recipe = Recipe { strided, replaces: true, prefetches: 2, ..recipe(&formulas, 12, 0b100) };
        let Some(kernel) = made::<f32>(&recipe) else { return };
        let given: Vec<Vec<f32>> = (0..12).map(|k| numbers(rows * stride, k + 3)).collect();
        let (mut first, mut second) = (given[0][..rows * n].to_vec(), given[5][..rows * n].to_vec());
        let ins: Vec<In<f32>> = (0..12)
            .map(|k| match k {
                0 => In::Replaced(0),
                5 => In::Replaced(1),
                2 => In::PerRow(&given[2]),
                // The same row again and again.
                1 => In::Strided(&given[1], 0),
                k if strided >> k & 1 == 1 => In::Strided(&given[k], stride),
                k => In::Elements(&given[k]),
            })
            .collect();
        let pool = kernel.pool::<f32>(&[]).unwrap();
        assert!(kernel.run(
            &ins,
            &mut [Out::Elements(&mut first), Out::Elements(&mut second)],
            // Memory is prefetched from any address.
            &[0, usize::MAX],
            &pool,
            rows,
            n
        ));
        for i in 0..rows * n {
            let at = |k: usize| match k {
                2 => i / n,
                1 => i % n,
                k if strided >> k & 1 == 1 => i / n * stride + i % n,
                _ => i,
            };
            let args: Vec<f32> = (0..12).map(|k| given[k][at(k)]).collect();
            assert_eq!(first[i].bits(), evaluate(&formulas[0], &args, &[])[0].bits());
            assert_eq!(second[i].bits(), evaluate(&formulas[1], &args, &[])[0].bits());
        }
    });
}

#[test]
fn half_types_are_rounded_as_casts_round() {
    let numbers: Vec<f32> = (0..1 << 20)
        .map(|i| f32::from_bits((i as u32).wrapping_mul(0x9e37_79b9)))
        .chain(numbers(40, 5))
        .chain([65504.0, 65519.9, 65520.0, 5.9e-8, 2.9e-8, 6.1e-5, f32::MAX])
        .collect();
    with_each_isa(|| {
        for to in [DType::F16, DType::BF16] {
            let steps = vec![(Work::Round(to), smallvec::smallvec![Source::Argument(0)])];
            let recipe = Recipe { steps, results: smallvec::smallvec![0], args: 1, ..Default::default() };
            let Some(kernel) = made::<f32>(&recipe) else { return };
            let mut out = vec![0.0; numbers.len()];
            let pool = kernel.pool::<f32>(&[]).unwrap();
            assert!(kernel.run(
                &[In::Elements(&numbers)],
                &mut [Out::Elements(&mut out)],
                &[],
                &pool,
                1,
                numbers.len()
            ));
            for (x, y) in numbers.iter().zip(&out) {
                let wanted = match to {
                    DType::F16 => half::f16::from_f32(*x).to_f32(),
                    _ => half::bf16::from_f32(*x).to_f32(),
                };
                assert_eq!(y.bits(), wanted.bits(), "{x:e} to {to:?}");
            }
        }
    });
}

#[test]
fn sums_of_rows_have_the_bits_of_the_reduction() {
    // The last argument has bytes.
    fn check<T: Tested + Real + Ordered>(args: usize, sums: usize) {
        let product = (0..args).map(|k| format!("%{k} = x{k}\n")).collect::<String>()
            + "%30 = mul %0 %1 \n"
            + &(2..args).map(|k| format!("%{} = add %{} %{k}\n", k + 29, k + 28)).collect::<String>();
        let product = renumbered(&product, args);
        let square = "%0 = x0\n%1 = mul %0 %0\nreturn %1";
        let formulas = [Formula::parse(&product).unwrap(), Formula::parse(square).unwrap()];
        for (rows, n) in [(1, 64), (3, 192), (5, 1024), (7, 16), (1, 32), (9, 48)] {
            let recipe = Recipe {
                sums: (2 - sums..2).collect(),
                has_short_rows: n < LANES,
                results: [0][..].into(),
                narrow: smallvec::smallvec![(args - 1, DType::U8)],
                ..recipe(&formulas, args, 0)
            };
            let Some(kernel) = made::<T>(&recipe) else { return };
            let given: Vec<Vec<T>> = (0..args - 1).map(|k| numbers(rows * n, k as u64 + 2)).collect();
            let bytes: Vec<u8> = (0..rows * n).map(|i| (i * 37 % 256) as u8).collect();
            let elements = given.iter().map(|v| In::Elements(v));
            let ins: Vec<In<T>> = elements.chain([In::Narrow(&bytes)]).collect();
            let mut out = vec![T::lit(0.0); rows * n];
            let mut sums = vec![vec![T::lit(5.0); rows]; sums];
            let pool = kernel.pool::<T>(&[]).unwrap();
            let totals = sums.iter_mut().map(|sums| Out::Elements(sums));
            let mut outs: Vec<Out<T>> = [Out::Elements(&mut out)].into_iter().chain(totals).collect();
            assert!(kernel.run(&ins, &mut outs, &[], &pool, rows, n));
            assert!(!kernel.run(&ins, &mut outs, &[], &pool, rows, n - 1));
            let squares: Vec<T> = given[0].iter().map(|v| *v * *v).collect();
            let sum = block_reduction::<T>(ReduceOp::Sum).unwrap();
            for (got, elements) in sums.iter().zip([&out, &squares].into_iter().skip(2 - sums.len())) {
                let mut wanted = vec![T::lit(0.0); rows];
                sum.rows(elements, n, &mut wanted);
                assert!(wanted.iter().zip(got).all(|(a, b)| a.bits() == b.bits()), "{wanted:?} {got:?}");
            }
        }
    }
    with_each_isa(|| {
        // One sum is in registers, with AVX-512 two are.
        check::<f32>(2, 1);
        check::<f32>(2, 2);
        check::<f64>(3, 1);
        check::<f64>(3, 2);
        // Some pointers are not in registers.
        check::<f32>(9, 2);
    });
}

/// A text of a formula whose steps after the arguments are numbered from 30 on, with the last one returned.
fn renumbered(text: &str, args: usize) -> String {
    let mut text = text.to_string();
    let steps = args - 1;
    for k in 0..steps {
        text = text.replace(&format!("%{} ", 30 + k), &format!("%{} ", args + k));
    }
    format!("{text}return %{}", args + steps - 1)
}

#[test]
fn results_are_written_to_rows_that_are_apart() {
    let formulas = ["mul %0 %1", "sub %0 %1"]
        .map(|f| Formula::parse(&format!("%0 = x0\n%1 = x1\n%2 = {f}\nreturn %2")).unwrap());
    with_each_isa(|| {
        for (rows, n) in [(1, 5), (4, 37), (3, 64)] {
            let recipe = Recipe { spread: 0b10, strided: 0b1, ..recipe(&formulas, 2, 0) };
            let Some(kernel) = made::<f32>(&recipe) else { return };
            let (x, y) = (numbers::<f32>(rows * (n + 3), 1), numbers::<f32>(rows * n, 2));
            let storage = Storage::zeroed(rows * 2 * n * 4).unwrap();
            let layout = Layout::contiguous([rows * 2 * n].into());
            let view = View { storage: &storage, layout: &layout, dtype: DType::F32 };
            let mut dense = vec![0.0; rows * n];
            {
                let cells = Cells::of(view).unwrap();
                assert!(cells.rows::<f32>(n, 2 * n, rows + 1, n).is_none());
                assert!(cells.rows::<f32>(n + 1, 2 * n, rows, n).is_none());
                assert!(cells.rows::<f32>(0, n - 1, rows, n).is_none());
                let out = cells.rows::<f32>(n, 2 * n, rows, n).unwrap();
                let mut outs = [Out::Elements(&mut dense), Out::Spread(out)];
                let pool = kernel.pool::<f32>(&[]).unwrap();
                let ins = [In::Strided(&x, n + 3), In::Elements(&y)];
                assert!(!kernel.run(&ins, &mut outs, &[], &pool, rows, n + 1));
                assert!(kernel.run(&ins, &mut outs, &[], &pool, rows, n));
            }
            for (i, v) in storage.slice::<f32>().iter().enumerate() {
                let (row, at) = (i / (2 * n), i % (2 * n));
                let wanted = if at < n { 0.0 } else { x[row * (n + 3) + at - n] - y[row * n + at - n] };
                assert_eq!(v.bits(), wanted.bits());
            }
            assert_eq!(
                dense[rows * n - 1].bits(),
                (x[(rows - 1) * (n + 3) + n - 1] * y[rows * n - 1]).bits()
            );
        }
    });
}
