//! Reductions of formulas, compared with a separate formula and reduction on the same device (bit for bit) and on the
//! CPU.

use rgrad::backend::reduce::{ReduceDims, ReduceOp, fold as reduced};
use rgrad::formula::Formula;
use rgrad::formula::record::{Prim, Step};
use rgrad::ops::pointwise::{Applied, Arg, Rule, evaluate, fold};
use rgrad::ops::rows;
use rgrad::{DType, Scalar, Tensor};

use crate::families::numbers;
use crate::{GPU, near, needs_gpu};

/// `max(x0 · x1 + p0, |x0| - 0.25)`.
const CHAIN: &str = "%0 = x0
%1 = x1
%2 = mul %0 %1
%3 = p0
%4 = add %2 %3
%5 = abs %0
%6 = 0.25
%7 = sub %5 %6
%8 = maximum %4 %7
return %8";
/// `x0 / p0 - x1`.
const AFTER: &str = "%0 = x0
%1 = p0
%2 = div %0 %1
%3 = x1
%4 = sub %2 %3
return %4";

const OPS: [ReduceOp; 9] = [
    ReduceOp::Sum,
    ReduceOp::Product,
    ReduceOp::Max,
    ReduceOp::Min,
    ReduceOp::Norm(2.0),
    ReduceOp::Norm(3.0),
    ReduceOp::Norm(f64::INFINITY),
    ReduceOp::Norm(0.0),
    ReduceOp::LogSumExp,
];

#[test]
fn a_reduced_formula_has_the_bits_of_formula_and_reduction_one_after_the_other() {
    needs_gpu!();
    let (chain, after) = (Formula::parse(CHAIN).unwrap(), Formula::parse(AFTER).unwrap());
    // One invocation per result; several; columns; one result in total.
    for shape in [[5, 7, 1], [2, 5000, 1], [3, 9, 20], [1, 300, 3], [1, 1, 1]] {
        let [outer, n, inner] = shape;
        let x = numbers(&shape, 1);
        let wide = numbers(&[outer, n, inner + 3], 2);
        let others = [
            numbers(&shape, 3),
            wide.with_layout(wide.layout().slice(2, 1, inner, 1)),
            numbers(&[1, 1, inner], 4),
            numbers(&[outer, n, 1], 5),
            numbers(&shape, 6).copied(DType::BF16).unwrap(),
            numbers(&[inner, n, outer], 7),
        ];
        let beside = numbers(&[outer, 1, inner], 8);
        let (gx, gbeside) = (x.on_device(GPU).unwrap(), beside.on_device(GPU).unwrap());
        for (k, other) in others.iter().enumerate() {
            let turn = |t: &Tensor| {
                if k == 5 { t.with_layout(t.layout().permute(&[2, 1, 0])) } else { t.clone() }
            };
            let (here, there) = (turn(other), turn(&other.on_device(GPU).unwrap()));
            for op in OPS {
                let params = [Scalar::Float(0.125)];
                let by = [Scalar::Float(n as f64)];
                let run = |x: &Tensor, y: &Tensor, b: &Tensor, finish: bool| {
                    let args = [Arg::T(x), Arg::T(y)];
                    let after_args = [Arg::S(Scalar::Int(0)), Arg::T(b)];
                    let of = Applied::new(Rule::Formula("chain", &chain), &args, &params);
                    let then = Applied::new(Rule::Formula("after", &after), &after_args, &by);
                    fold(op, of, DType::F32, 0b010, true, finish.then_some(then)).unwrap()
                };
                let values = evaluate(
                    "chain",
                    &chain,
                    DType::F32,
                    &[Arg::T(&gx), Arg::T(&there)],
                    &params,
                    &[DType::F32],
                )
                .unwrap()
                .remove(0);
                let plain = Tensor::empty_on([outer, 1, inner], DType::F32, GPU).unwrap();
                reduced(op, values.raw(), ReduceDims::new(outer, n, inner), plain.raw()).unwrap();
                let finished = evaluate(
                    "after",
                    &after,
                    DType::F32,
                    &[Arg::T(&plain), Arg::T(&gbeside)],
                    &by,
                    &[DType::F32],
                )
                .unwrap()
                .remove(0);
                for (finish, wanted) in [(false, plain), (true, finished)] {
                    let what = format!("{op:?} over {shape:?} with operand {k}, finished: {finish}");
                    let found = run(&gx, &there, &gbeside, finish);
                    assert_eq!(found.device(), GPU);
                    let bits = |t: &Tensor| {
                        t.values::<f32>().unwrap().iter().map(|v| v.to_bits()).collect::<Vec<_>>()
                    };
                    assert_eq!(bits(&found), bits(&wanted), "{what}");
                    if op != ReduceOp::Product {
                        near(&found, &run(&x, &here, &beside, finish), 8.0, &what);
                    }
                }
            }
        }
    }
}

#[test]
fn a_mean_of_a_row_takes_one_launch_for_each_pass() {
    use std::sync::atomic::Ordering::Relaxed;
    needs_gpu!();
    let c = &rgrad::backend::gpu::device::gpu(0).unwrap().counters;
    // Other tests launch kernels at the same time.
    let launched = |f: &dyn Fn() -> Tensor| {
        let once = |_| {
            let before = c.dispatches.load(Relaxed);
            f();
            c.dispatches.load(Relaxed) - before
        };
        (0..200).map(once).min().unwrap()
    };
    // New memory is filled where assertions are compiled in.
    let made = launched(&|| Tensor::empty_on([1], DType::F32, GPU).unwrap());
    for (n, passes) in [(50, 1), (100_000, 2)] {
        let [x, y] = [1, 2].map(|seed| numbers(&[n], seed).on_device(GPU).unwrap());
        let args = [Arg::T(&x), Arg::T(&y)];
        let by = [Arg::S(Scalar::Int(0)), Arg::S(Scalar::Float(n as f64))];
        let mean = || {
            let of = Applied::new(Rule::Row(&rows::squared_error), &args, &[]);
            let mean = Applied::new(Rule::Row(&rows::div), &by, &[]);
            fold(ReduceOp::Sum, of, DType::F32, 1, false, Some(mean)).unwrap()
        };
        // Each writes memory of its own.
        assert_eq!(launched(&mean), passes * (1 + made), "{n}");
    }
}

#[test]
fn what_no_kernel_of_reductions_takes_goes_by_way_of_memory() {
    needs_gpu!();
    let product = Formula::parse("%0 = x0\n%1 = x1\n%2 = mul %0 %1\nreturn %2").unwrap();
    // As many tensors as there are bindings besides the result.
    let many = rgrad::backend::gpu::device::gpu(0).unwrap().caps.max_buffers - 1;
    let steps = (0..many).map(Step::Arg).chain((1..many).map(|k| {
        let so_far = if k == 1 { 0 } else { many + k - 2 };
        Step::Do(Prim::Add, [so_far, k, 0])
    }));
    let all = Formula::new(&steps.collect::<Vec<_>>(), &[2 * many - 2]).unwrap();
    let tensors: Vec<Tensor> = (0..many).map(|k| numbers(&[70], k as u64)).collect();
    let moved: Vec<Tensor> = tensors.iter().map(|t| t.on_device(GPU).unwrap()).collect();
    let total = |tensors: &[Tensor]| {
        let args: Vec<Arg> = tensors.iter().map(Arg::T).collect();
        let of = Applied::new(Rule::Formula("all", &all), &args, &[]);
        fold(ReduceOp::Sum, of, DType::F32, 1, false, None).unwrap()
    };
    near(&total(&moved), &total(&tensors), 70.0, "many");
    // Bools are counted and integers summed in 64 bits.
    let (x, y) = (numbers(&[300], 1), numbers(&[300], 2));
    let less = Formula::parse("%0 = x0\n%1 = x1\n%2 = lt %0 %1\nreturn %2").unwrap();
    let sum = |f: &Formula, dtype: DType, x: &Tensor, y: &Tensor| {
        let args = [Arg::T(x), Arg::T(y)];
        fold(ReduceOp::Sum, Applied::new(Rule::Formula("f", f), &args, &[]), dtype, 1, false, None).unwrap()
    };
    let there = |t: &Tensor| t.on_device(GPU).unwrap();
    let counted = sum(&less, DType::F32, &there(&x), &there(&y));
    assert_eq!(counted.values::<i64>().unwrap(), sum(&less, DType::F32, &x, &y).values::<i64>().unwrap());
    let [a, b] =
        [&x, &y].map(|t| rows::mul.call(&[t.into(), 90.0.into()], &[]).unwrap().copied(DType::I32).unwrap());
    let added = sum(&product, DType::I32, &there(&a), &there(&b));
    assert_eq!(added.values::<i64>().unwrap(), sum(&product, DType::I32, &a, &b).values::<i64>().unwrap());
}
