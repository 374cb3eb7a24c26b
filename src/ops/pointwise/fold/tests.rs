use super::*;
use crate::backend::cpu::reduce::tests::on_each_isa;
use crate::backend::reduce::fold as reduced;
use crate::formula::record::Step;
use crate::ops::pointwise::evaluate;
use crate::ops::pointwise::formula::tests::{Random, bits, numbers, random_formula};
use crate::ops::rows;

const OPS: [ReduceOp; 13] = [
    ReduceOp::Sum,
    ReduceOp::Product,
    ReduceOp::Max,
    ReduceOp::Min,
    ReduceOp::All,
    ReduceOp::Any,
    ReduceOp::Norm(0.0),
    ReduceOp::Norm(1.0),
    ReduceOp::Norm(2.0),
    ReduceOp::Norm(3.0),
    ReduceOp::Norm(f64::INFINITY),
    ReduceOp::Norm(f64::NEG_INFINITY),
    ReduceOp::LogSumExp,
];

/// One shape for each case of the driver: runs, split runs, narrow columns, columns, tiles of columns, and remainders.
const SHAPES: [[usize; 3]; 11] = [
    [1, 1, 1],
    [5, 7, 1],
    [40, 300, 1],
    [2, 9001, 1],
    [2, 5, 3],
    [1, 3000, 5],
    [3, 9, 49],
    [2, 300, 40],
    [2, 19, 515],
    [1, 131, 1030],
    [3, 1, 4],
];

/// A random formula, restricted to its first result.
fn one_of(r: &mut Random, args: usize) -> Formula {
    let f = random_formula(r, args);
    Formula::new(f.steps(), &f.results()[..1]).unwrap()
}

/// The first rule, the reduction and the second rule as separate operations.
fn in_turn(op: ReduceOp, of: Applied, dtype: DType, then: Option<Applied>) -> Tensor {
    let evaluated = |a: &Applied, args: &[Arg], dtype: DType, result: DType| {
        evaluate(a.rule.name(), a.rule.formula(), dtype, args, a.params, &[result]).unwrap().remove(0)
    };
    let truth = of.rule.formula().is_truth(0);
    let stored = match op {
        ReduceOp::All | ReduceOp::Any => DType::Bool,
        ReduceOp::Sum if truth => DType::Bool,
        _ => dtype,
    };
    let values = evaluated(&of, of.args, dtype, stored);
    let [outer, n, inner] = [0, 1, 2].map(|d| values.shape()[d]);
    let result = match op {
        ReduceOp::All | ReduceOp::Any => DType::U8,
        ReduceOp::Sum if truth => DType::I64,
        _ => dtype,
    };
    let out = Tensor::empty([outer, 1, inner], result).unwrap();
    reduced(op, values.raw(), ReduceDims::new(outer, n, inner), out.raw()).unwrap();
    match then {
        Some(then) => {
            let mut args = then.args.to_vec();
            args[0] = Arg::T(&out);
            evaluated(&then, &args, dtype, result)
        }
        None => out,
    }
}

/// Tensors that broadcast to the shape: contiguous, non-contiguous, one row for all, one number per row, a 16-bit
/// type.
fn operands([a, b, c]: [usize; 3], dtype: DType) -> [Tensor; 5] {
    let of = |shape: [usize; 3], seed| {
        let t = numbers(shape.iter().product(), dtype, seed);
        t.with_layout(Layout::contiguous(shape.into()))
    };
    let wide = of([a, b, c + 3], 2);
    [
        of([a, b, c], 1),
        wide.with_layout(wide.layout().slice(2, 1, c, 1)),
        of([1, 1, c], 3),
        of([a, b, 1], 4),
        of([a, b, c], 5).copied(DType::BF16).unwrap(),
    ]
}

#[test]
fn a_reduced_formula_has_the_bits_of_formula_and_reduction_one_after_the_other() {
    on_each_isa(|| {
        let mut r = Random(5);
        for shape in SHAPES {
            for dtype in [DType::F32, DType::F64] {
                let tensors = operands(shape, dtype);
                let [a, _, c] = shape;
                let beside = numbers(a * c, dtype, 9).with_layout(Layout::contiguous([a, 1, c].into()));
                for _ in 0..4 {
                    let (op, f) = (OPS[r.below(OPS.len())], one_of(&mut r, 3));
                    // One operand always has the whole shape, whatever the others are.
                    let others = [0, 1].map(|_| r.below(6));
                    let arg = |k: usize| tensors.get(k).map_or(Arg::S(Scalar::Float(0.5)), Arg::T);
                    let args = [Arg::T(&tensors[0]), arg(others[0]), arg(others[1])];
                    let params = [Scalar::Float(0.75)];
                    let of = Applied::new(Rule::Formula("formula", &f), &args, &params);
                    let after = one_of(&mut r, 2);
                    let given = [Arg::S(Scalar::Int(0)), Arg::T(&beside)];
                    let then = Applied::new(Rule::Formula("after", &after), &given, &params);
                    let counts = matches!(op, ReduceOp::All | ReduceOp::Any) || f.is_truth(0);
                    let then = Some(then).filter(|_| !counts && !after.is_truth(0));
                    for then in [None, then] {
                        let found = fold(op, of, dtype, 0b010, true, then).unwrap();
                        let wanted = in_turn(op, of, dtype, then);
                        assert_eq!(found.dtype(), wanted.dtype());
                        assert_eq!(
                            all_bits(&found),
                            all_bits(&wanted),
                            "{op:?} over {shape:?} of {dtype}, {others:?}:\n{f}\nthen {}\n{after}",
                            then.is_some()
                        );
                    }
                }
            }
        }
    });
}

fn all_bits(t: &Tensor) -> Vec<u64> {
    bits(&if t.dtype().is_float() { t.clone() } else { t.copied(DType::I64).unwrap() })
}

#[test]
fn a_reduced_row_has_the_bits_of_row_and_reduction_one_after_the_other() {
    on_each_isa(|| {
        for row in [&rows::squared_error, &rows::atan2, &rows::gt, &rows::mul] {
            for shape in SHAPES {
                for dtype in [DType::F32, DType::F64, DType::I32, DType::I64] {
                    let kernel = if row.class == crate::ops::pointwise::Class::Float {
                        dtype.is_float()
                    } else {
                        true
                    };
                    if !kernel {
                        continue;
                    }
                    let [x, _, y, ..] = operands(shape, DType::F32).map(|t| t.copied(dtype).unwrap());
                    let args = [Arg::T(&x), Arg::T(&y)];
                    let values = row.call(&args, &[]).unwrap();
                    let wide = if dtype.is_float() || values.dtype() == DType::Bool {
                        values.dtype()
                    } else {
                        DType::I64
                    };
                    let values = values.copied(wide).unwrap();
                    let of = Applied::new(Rule::Row(row), &args, &[]);
                    let found = fold(ReduceOp::Sum, of, dtype, 0b010, true, None).unwrap();
                    let [outer, n, inner] = shape;
                    let wanted = Tensor::empty([outer, 1, inner], found.dtype()).unwrap();
                    reduced(ReduceOp::Sum, values.raw(), ReduceDims::new(outer, n, inner), wanted.raw())
                        .unwrap();
                    assert_eq!(bits(&found), bits(&wanted), "{} over {shape:?} of {dtype}", row.name);
                }
            }
        }
    });
}

#[test]
fn an_operand_reduced_as_it_is_may_have_any_dtype_and_layout() {
    let f = Formula::new(&[Step::Arg(0)], &[0]).unwrap();
    let x = numbers(60 * 70 * 3, DType::F32, 1).with_layout(Layout::contiguous([60, 70, 3].into()));
    for dtype in [DType::F32, DType::BF16, DType::F16, DType::I16, DType::U8] {
        let x = x.copied(dtype).unwrap();
        for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0], [0, 2, 1]] {
            let x = x.with_layout(x.layout().permute(&order));
            for mask in [0b001, 0b010, 0b100, 0b011, 0b110, 0b101, 0b111, 0] {
                let args = [Arg::T(&x)];
                let of = Applied::new(Rule::Formula("same", &f), &args, &[]);
                let found = fold(ReduceOp::Sum, of, DType::F32, mask, false, None).unwrap();
                let inside = |d: &usize| mask >> d & 1 == 1;
                let last: Vec<usize> = (0..3).filter(|d| !inside(d)).chain((0..3).filter(inside)).collect();
                let run = last_run(mask) == mask;
                let dense = x.copied(DType::F32).unwrap();
                let dense = if run {
                    dense
                } else {
                    dense.with_layout(dense.layout().permute(&last)).copied(DType::F32).unwrap()
                };
                let n: usize = (0..3).filter(inside).map(|d| x.shape()[d]).product();
                let inner: usize = match run && mask != 0 {
                    true => x.shape()[(64 - mask.leading_zeros()) as usize..].iter().product(),
                    false => 1,
                };
                let wanted = Tensor::empty(found.shape().clone(), DType::F32).unwrap();
                let d = ReduceDims::new(x.numel() / n / inner, n, inner);
                reduced(ReduceOp::Sum, dense.raw(), d, wanted.raw()).unwrap();
                assert_eq!(bits(&found), bits(&wanted), "{dtype} {order:?} {mask:b}");
            }
        }
    }
}

#[test]
fn a_formula_of_no_elements_is_reduced_to_the_identity() {
    let x = Tensor::empty([3, 0], DType::F32).unwrap();
    let args = [Arg::T(&x), Arg::T(&x)];
    let of = Applied::new(Rule::Row(&rows::squared_error), &args, &[]);
    let sum = fold(ReduceOp::Sum, of, DType::F32, 0b10, false, None).unwrap();
    assert_eq!(sum.to_vec::<f32>(), [0.0; 3]);
    let given = [Arg::S(Scalar::Int(0)), Arg::S(Scalar::Int(0))];
    let then = Applied::new(Rule::Row(&rows::div), &given, &[]);
    let mean = fold(ReduceOp::Sum, of, DType::F32, 0b10, false, Some(then)).unwrap();
    assert!(mean.to_vec::<f32>().iter().all(|v| v.is_nan()));
    assert_eq!(fold(ReduceOp::Sum, of, DType::F32, 0b01, false, None).unwrap().numel(), 0);
}

#[test]
fn operands_and_parameters_that_are_missing_are_an_error() {
    let f = Formula::parse("%0 = x1\n%1 = p0\n%2 = mul %0 %1\nreturn %2").unwrap();
    let x = numbers(30, DType::F32, 1);
    let (one, two) = ([Arg::T(&x)], [Arg::T(&x), Arg::T(&x)]);
    let sum = |args, params| {
        fold(ReduceOp::Sum, Applied::new(Rule::Formula("f", &f), args, params), DType::F32, 1, false, None)
    };
    assert!(sum(&one, &[Scalar::Int(1)]).is_err() && sum(&two, &[]).is_err());
    assert!(sum(&two, &[Scalar::Int(1)]).is_ok());
}
