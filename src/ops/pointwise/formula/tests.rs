use super::*;
use crate::backend::cpu::simd::{Isa, force_isa};
use crate::backend::pointwise::{Program, run};
use crate::formula::record::Step;
use crate::ops::pointwise::Class;
use crate::ops::{PointwiseOp, rows};

const ISAS: [Isa; 3] = [Isa::Baseline, Isa::Avx2, Isa::Avx512];

/// A pseudo-random number generator.
pub(in crate::ops::pointwise) struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }
    pub fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }
}

/// Numbers of all magnitudes, including the extreme values.
pub(in crate::ops::pointwise) fn numbers(n: usize, dtype: DType, seed: u64) -> Tensor {
    const ENDS: [f64; 12] =
        [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-40, 0.5, -2.5, 2.0, 300.0];
    let mut r = Random(seed);
    let values: Vec<f64> = (0..n)
        .map(|i| match i % 7 {
            0 if dtype.is_float() => ENDS[r.below(ENDS.len())],
            1 => r.below(9) as f64 - 4.0,
            _ => (r.below(1 << 20) as f64 / (1 << 19) as f64 - 1.0) * [1.0, 8.0, 90.0][i % 3],
        })
        .collect();
    Tensor::from_slice(&values, [n]).unwrap().copied(dtype).unwrap()
}

/// The bit patterns of the elements, with all NaNs mapped to one.
pub(in crate::ops::pointwise) fn bits(t: &Tensor) -> Vec<u64> {
    let dense = t.dense(t.dtype()).unwrap();
    match t.dtype() {
        DType::F32 => {
            let one = |v: &f32| if v.is_nan() { 1 } else { u64::from(v.to_bits()) };
            dense.to_vec::<f32>().iter().map(one).collect()
        }
        DType::F64 => {
            let one = |v: &f64| if v.is_nan() { 1 } else { v.to_bits() };
            dense.to_vec::<f64>().iter().map(one).collect()
        }
        _ => dense.to_vec::<i64>().iter().map(|v| *v as u64).collect(),
    }
}

/// Compares the compiled loop of a formula with interpretation; false if there is no loop for the type.
fn compare(what: &str, kernel: Kernel, f: &Formula, dtype: DType, tensors: usize, params: usize) -> bool {
    const N: usize = 1100;
    let compute = compute_type(dtype);
    let params: Vec<Scalar> = (0..params).map(|p| Scalar::Float(1.0 + p as f64)).collect();
    let inputs: Vec<Tensor> = (0..tensors).map(|k| numbers(N, dtype, k as u64 + 7)).collect();
    let operands: Vec<Operand> = inputs.iter().map(|t| Operand::View(t.raw())).collect();
    let result = if f.is_truth(0) { DType::Bool } else { dtype };
    let [own, steps] = [0, 1].map(|_| Tensor::empty([N], result).unwrap());
    let program = Program { name: "compared", kernel, formula: &|| f };
    if !run(&program, compute, &operands, &params, own.raw()).unwrap() {
        return false;
    }
    run_all("compared", f, &primitive, compute, &operands, &params, &[steps.raw()]).unwrap();
    for (i, (a, b)) in bits(&own).into_iter().zip(bits(&steps)).enumerate() {
        let x: Vec<f64> = inputs.iter().map(|t| t.to_vec::<f64>()[i]).collect();
        assert_eq!(a, b, "{what} of {dtype} at {x:?}:\n{f}");
    }
    true
}

#[test]
fn every_row_and_derivative_is_interpreted_to_the_bits_of_its_loop() {
    let mut compared = 0;
    for isa in ISAS {
        if force_isa(isa) != isa {
            continue;
        }
        for row in rows::ROWS.iter() {
            for dtype in [DType::F32, DType::F64, DType::I32, DType::I64, DType::Bool, DType::U8] {
                let (n, params) = (row.inputs.len(), row.params.len());
                let what = format!("{} with {isa:?}", row.name);
                compared += compare(&what, row.kernel, &(row.steps)(), dtype, n, params) as usize;
                for (k, kernel) in row.grads.iter().enumerate() {
                    let what = format!("derivative {k} of {what}");
                    compared += compare(&what, *kernel, &(row.grad_steps)(k), dtype, n + 2, params) as usize;
                }
            }
        }
    }
    force_isa(Isa::Avx512);
    assert!(compared > 3 * rows::ROWS.len(), "{compared}");
}

#[test]
fn rows_are_quick_if_their_formulas_have_algorithms_for_rare_arguments() {
    let has_quick = |f: &Formula| f.steps().iter().any(|s| matches!(s, Step::Do(p, _) if p.is_quick()));
    let has_loop = |r: &&&PointwiseOp| matches!(r.class, Class::Float | Class::Num);
    for row in rows::ROWS.iter().filter(has_loop) {
        let formulas = (0..row.grads.len()).map(|k| (row.grad_steps)(k)).chain([(row.steps)()]);
        assert_eq!(row.meta.quick, formulas.into_iter().any(|f| has_quick(&f)), "{}", row.name);
    }
}

/// The bits of a row for the rows of a matrix beside a column, on one side or the other.
fn beside_column(row: &'static PointwiseOp, cols: usize, column_first: bool, spread: bool) -> Vec<u64> {
    let (a, column) = (numbers(9 * cols, DType::F32, 3), numbers(9, DType::F32, 4));
    let a = a.with_layout(Layout::contiguous(Dims::from([9, cols])));
    let layout = Layout::contiguous(Dims::from([9, 1])).expand(a.shape()).unwrap();
    let mut column = column.with_layout(layout);
    if spread {
        column = column.dense(DType::F32).unwrap();
    }
    let args = if column_first { [Arg::T(&column), Arg::T(&a)] } else { [Arg::T(&a), Arg::T(&column)] };
    let params: Vec<Scalar> = row.params.iter().map(|_| Scalar::Float(0.5)).collect();
    bits(&row.call(&args, &params).unwrap())
}

#[test]
fn rows_beside_a_column_have_the_bits_of_rows_beside_its_copies() {
    let beside_one = |r: &&&'static PointwiseOp| {
        let has_loop = matches!(r.kernel, Kernel::Same { f32: Some(l), .. } if l.lean().column.is_some());
        has_loop && r.inputs.len() == 2
    };
    let compiled = rows::ROWS.iter().filter(beside_one);
    let compiled: Vec<_> = compiled.collect();
    assert!(compiled.len() >= 6, "{}", compiled.len());
    for isa in ISAS {
        if force_isa(isa) != isa {
            continue;
        }
        for row in &compiled {
            // With a remainder of the group, and without.
            for (cols, first) in [(256, false), (256, true), (300, false), (1029, true)] {
                let found = beside_column(row, cols, first, false);
                assert_eq!(
                    found,
                    beside_column(row, cols, first, true),
                    "{} {cols} {first} {isa:?}",
                    row.name
                );
            }
        }
    }
    force_isa(Isa::Avx512);
}

#[test]
fn rows_in_place_have_the_bits_of_rows_out_of_place() {
    let in_place = |r: &&&'static PointwiseOp| matches!(r.kernel, Kernel::Same { f32: Some(l), .. } if l.lean().in_place.is_some());
    let compiled: Vec<_> = rows::ROWS.iter().filter(in_place).collect();
    assert!(compiled.len() >= 20, "{}", compiled.len());
    for isa in ISAS {
        if force_isa(isa) != isa {
            continue;
        }
        for row in &compiled {
            let params: Vec<Scalar> = (0..row.params.len()).map(|p| Scalar::Float(0.5 + p as f64)).collect();
            // The last operand may be a number.
            let as_number = if row.inputs.len() > 1 { &[false, true][..] } else { &[false] };
            for (n, &number) in
                [96, 100, 70001].into_iter().flat_map(|n| as_number.iter().map(move |a| (n, a)))
            {
                let given: Vec<Tensor> =
                    (0..row.inputs.len()).map(|k| numbers(n, DType::F32, k as u64 + 3)).collect();
                let mut args: Vec<Arg> = given.iter().map(Arg::T).collect();
                if let (true, Some(last)) = (number, args.last_mut()) {
                    *last = Arg::S(Scalar::Float(0.75));
                }
                let expected = bits(&row.call(&args, &params).unwrap());
                crate::ops::row_inplace(row, &args, &params).unwrap();
                assert_eq!(bits(&given[0]), expected, "{} {n} {number} {isa:?}", row.name);
            }
        }
    }
    force_isa(Isa::Avx512);
}

/// A random formula with `args` arguments and three results.
pub(in crate::ops::pointwise) fn random_formula(r: &mut Random, args: usize) -> Formula {
    use Prim::*;
    const NUMBERS: [Prim; 14] =
        [Add, Sub, Mul, Div, Neg, Abs, Maximum, Minimum, Exp, Tanh, Sqrt, Sin, Select, Floor];
    const TRUTHS: [Prim; 6] = [Lt, Le, Eq, Not, And, Or];
    let mut steps: Vec<Step> = (0..args).map(Step::Arg).collect();
    steps.push(Step::Lit(r.below(9) as f64 - 4.5));
    steps.push(Step::Param(0));
    let (mut plain, mut truths): (Vec<usize>, Vec<usize>) = ((0..args + 2).collect(), Vec::new());
    for _ in 0..3 + r.below(12) {
        let p = if r.below(4) == 0 { TRUTHS[r.below(6)] } else { NUMBERS[r.below(14)] };
        let kinds: Vec<bool> = (0..p.arity()).map(|k| p.takes_truth(k)).collect();
        if truths.is_empty() && kinds.contains(&true) {
            continue;
        }
        let mut operands = [0; 3];
        for (k, truth) in kinds.iter().enumerate() {
            let of = if *truth { &truths } else { &plain };
            operands[k] = of[r.below(of.len())];
        }
        // A pointwise operation needs at least one tensor operand.
        if operands[..p.arity()].iter().all(|&o| matches!(steps[o], Step::Lit(_) | Step::Param(_))) {
            operands[p.arity() - 1] = 0;
        }
        steps.push(Step::Do(p, operands));
        if p.is_truth() { &mut truths } else { &mut plain }.push(steps.len() - 1);
    }
    let last = steps.len() - 1;
    let tensor = |i: usize| if matches!(steps[i], Step::Lit(_) | Step::Param(_)) { 0 } else { i };
    let results = [last, r.below(steps.len()), r.below(steps.len())].map(tensor);
    Formula::new(&steps, &results).unwrap()
}

/// The same computed by separate pointwise operations.
fn by_rows(f: &Formula, args: &[Tensor], params: &[Scalar]) -> Vec<Tensor> {
    let mut values: Vec<Result<Tensor, Scalar>> = Vec::new();
    for step in f.steps() {
        values.push(match *step {
            Step::Arg(k) => Ok(args[k].clone()),
            Step::Param(k) => Err(params[k]),
            Step::Lit(v) => Err(Scalar::Float(v)),
            Step::Do(p, o) => {
                let operands: Vec<Arg> = o[..p.arity()]
                    .iter()
                    .map(|&i| match &values[i] {
                        Ok(t) => Arg::T(t),
                        Err(s) => Arg::S(*s),
                    })
                    .collect();
                Ok(prim_row(p).unwrap().call(&operands, &[]).unwrap())
            }
        });
    }
    f.results().iter().map(|&i| values[i].clone().unwrap()).collect()
}

#[test]
fn random_formulas_have_the_bits_of_rows_run_one_after_the_other() {
    let mut r = Random(1);
    for isa in ISAS {
        if force_isa(isa) != isa {
            continue;
        }
        for _ in 0..30 {
            let f = random_formula(&mut r, 3);
            for dtype in [DType::F32, DType::F64] {
                let rows = 60;
                let square = |seed| {
                    let t = numbers(rows * rows, dtype, seed);
                    t.with_layout(Layout::contiguous([rows, rows].into()))
                };
                let table = square(3);
                // A dense operand, a transposed one, and one broadcast along rows.
                let args = [
                    square(1),
                    square(2).with_layout(Layout::contiguous([rows, rows].into()).permute(&[1, 0])),
                    table.with_layout(table.layout().select(0, 4)),
                ];
                let params = [Scalar::Float(0.75)];
                let results: Vec<DType> =
                    (0..3).map(|k| if f.is_truth(k) { DType::Bool } else { dtype }).collect();
                let operands: Vec<Arg> = args.iter().map(Arg::T).collect();
                let found = evaluate("formula", &f, dtype, &operands, &params, &results).unwrap();
                for (k, (a, b)) in found.iter().zip(by_rows(&f, &args, &params)).enumerate() {
                    let b = b.with_layout(b.layout().expand(a.shape()).unwrap());
                    assert_eq!(bits(a), bits(&b), "result {k} of {dtype} with {isa:?}:\n{f}");
                }
            }
        }
    }
    force_isa(Isa::Avx512);
}

#[test]
fn a_formula_reads_every_dtype_and_writes_any_other() {
    let f = Formula::parse("%0 = x0\n%1 = x1\n%2 = add %0 %1\n%3 = lt %0 %1\nreturn %2, %3, %0").unwrap();
    for a in DType::ALL {
        for b in DType::ALL {
            let (x, y) = (numbers(300, DType::I64, 1), numbers(300, DType::I64, 2));
            let (x, y) = (x.copied(a).unwrap(), y.copied(DType::F32).unwrap());
            let found =
                evaluate("formula", &f, DType::F32, &[Arg::T(&x), Arg::T(&y)], &[], &[b, DType::Bool, b])
                    .unwrap();
            let wide = x.copied(DType::F32).unwrap();
            let wanted = by_rows(&f, &[wide, y], &[]);
            for (a, b) in found.iter().zip(&wanted) {
                assert_eq!(bits(a), bits(&b.copied(a.dtype()).unwrap()));
            }
        }
    }
}

#[test]
fn a_result_may_lie_in_the_memory_of_an_operand() {
    let f = Formula::parse("%0 = x0\n%1 = x1\n%2 = sub %0 %1\n%3 = mul %0 %1\nreturn %2, %3").unwrap();
    let (x, y) = (numbers(5000, DType::F32, 1), numbers(5000, DType::F32, 2));
    let wanted = by_rows(&f, &[x.copied(DType::F32).unwrap(), y.copied(DType::F32).unwrap()], &[]);
    let operands = [Operand::View(x.raw()), Operand::View(y.raw())];
    run_all("swap", &f, &primitive, DType::F32, &operands, &[], &[y.raw(), x.raw()]).unwrap();
    assert_eq!((bits(&y), bits(&x)), (bits(&wanted[0]), bits(&wanted[1])));
}

#[test]
fn what_is_missing_is_an_error() {
    let f = Formula::parse("%0 = x1\n%1 = p0\n%2 = mul %0 %1\nreturn %2").unwrap();
    let x = numbers(3, DType::F32, 1);
    assert!(evaluate("formula", &f, DType::F32, &[Arg::T(&x)], &[Scalar::Int(1)], &[DType::F32]).is_err());
    assert!(evaluate("formula", &f, DType::F32, &[Arg::T(&x), Arg::T(&x)], &[], &[DType::F32]).is_err());
    let exp = Formula::parse("%0 = x0\n%1 = exp %0\nreturn %1").unwrap();
    let ints = numbers(3, DType::I64, 1);
    let refused = evaluate("formula", &exp, DType::I64, &[Arg::T(&ints)], &[], &[DType::I64]).unwrap_err();
    assert!(refused.to_string().contains("not defined in"), "{refused}");
}
