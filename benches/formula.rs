//! Formulas without a compiled loop, and reductions of formulas, each compared with separate operations: a chain of
//! six cheap steps, and sums of squared differences, of four million floats and of fewer.
//!
//! `cargo bench --bench formula` prints the best and the median of many alternating runs, and the ratio of the best.
//! `RGRAD_CPU_ISA` chooses the instruction set.

use std::time::Instant;

use rgrad::backend::cpu::parallel::{num_threads, set_num_threads};
use rgrad::backend::reduce::ReduceOp;
use rgrad::formula::Formula;
use rgrad::ops::pointwise::{Applied, Arg, Rule, evaluate, fold};
use rgrad::ops::{arith, reduce, rows};
use rgrad::{DType, Result, Scalar, Tensor};

const N: usize = 4 << 20;
const RUNS: usize = 60;

/// `max(|(x·a + y)·x - b|, y)`.
const CHAIN: &str = "%0 = x0
%1 = 1.5
%2 = mul %0 %1
%3 = x1
%4 = add %2 %3
%5 = mul %4 %0
%6 = 0.25
%7 = sub %5 %6
%8 = abs %7
%9 = maximum %8 %3
return %9";

fn by_rows(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let t = rows::mul.call(&[x.into(), 1.5f64.into()], &[])?;
    let t = rows::add.call(&[(&t).into(), y.into()], &[])?;
    let t = rows::mul.call(&[(&t).into(), x.into()], &[])?;
    let t = rows::sub.call(&[(&t).into(), 0.25f64.into()], &[])?;
    let t = rows::abs.call(&[(&t).into()], &[])?;
    rows::maximum.call(&[(&t).into(), y.into()], &[])
}

/// Checks that both have the same results, and prints their times in milliseconds.
fn compare(
    what: &str,
    apart: impl Fn() -> Result<Tensor>,
    fused: impl Fn() -> Result<Tensor>,
    repeat: usize,
) -> Result<()> {
    let mut times = [Vec::new(), Vec::new()];
    for run in 0..RUNS + 3 {
        let start = Instant::now();
        let a = (0..repeat).map(|_| apart()).last();
        let between = Instant::now();
        let b = (0..repeat).map(|_| fused()).last();
        let end = Instant::now();
        if let (Some(a), Some(b)) = (a, b) {
            assert!(a?.to_vec::<f32>() == b?.to_vec::<f32>(), "results differ");
        }
        // The first runs include memory allocation by the operating system.
        if run >= 3 {
            let each = |d: std::time::Duration| d.as_secs_f64() * 1e3 / repeat as f64;
            times[0].push(each(between - start));
            times[1].push(each(end - between));
        }
    }
    times.iter_mut().for_each(|t| t.sort_by(f64::total_cmp));
    let [apart, fused] = times.map(|t| (t[0], t[t.len() / 2]));
    println!(
        "{what:<44} apart {:9.4} ({:9.4}) ms, fused {:9.4} ({:9.4}) ms, ratio {:.3}",
        apart.0,
        apart.1,
        fused.0,
        fused.1,
        fused.0 / apart.0
    );
    Ok(())
}

fn of(shape: [usize; 2], step: f32) -> Result<Tensor> {
    let values: Vec<f32> = (0..shape[0] * shape[1]).map(|i| (i as f32 * step).fract() - 0.5).collect();
    Tensor::from_slice(&values, shape)
}

fn folded(rule: Rule, args: &[Arg], mask: u64, then: Option<Applied>) -> Result<Tensor> {
    fold(ReduceOp::Sum, Applied::new(rule, args, &[]), DType::F32, mask, false, then)
}

fn main() -> Result<()> {
    set_num_threads(2);
    println!("best and (median) of {RUNS} runs, {} threads", num_threads());
    let (x, y) = (of([1, N], 0.618)?, of([1, N], 0.414)?);
    let chain = Formula::parse(CHAIN).map_err(rgrad::Error::Runtime)?;
    let interpreted = |x: &Tensor, y: &Tensor| {
        let made = evaluate("chain", &chain, DType::F32, &[Arg::T(x), Arg::T(y)], &[], &[DType::F32])?.pop();
        made.ok_or(rgrad::Error::Runtime("no result".into()))
    };
    compare("6 steps on 4 M", || by_rows(&x, &y), || interpreted(&x, &y), 1)?;

    let sum = |t: &Tensor, mask| reduce::sum_mask(t, mask, false, None);
    let rule = Rule::Formula("chain", &chain);
    compare(
        "sum of 6 steps on 4 M",
        || sum(&by_rows(&x, &y)?, 3),
        || folded(rule, &[Arg::T(&x), Arg::T(&y)], 3, None),
        1,
    )?;
    let same = Formula::parse("%0 = x0\nreturn %0").map_err(rgrad::Error::Runtime)?;
    let plain = |x: &Tensor, mask| folded(Rule::Formula("same", &same), &[Arg::T(x)], mask, None);
    for shape in
        [[1, N], [64, N / 64], [N / 64, 64], [N / 1024, 1024], [N / 8, 8], [1, 4096], [64, 64], [1, 64]]
    {
        let (x, y) = (of(shape, 0.618)?, of(shape, 0.414)?);
        let row = of([1, shape[1]], 0.33)?;
        let repeat = (20_000 / x.numel()).clamp(1, 300);
        for (mask, over) in [(3, "all"), (2, "rows"), (1, "columns")] {
            let args = [Arg::T(&x), Arg::T(&y)];
            let name = |what: &str| format!("{what} of {shape:?} over {over}");
            compare(
                &name("sum((x-y)^2)"),
                || sum(&rows::squared_error.call(&args, &[])?, mask),
                || folded(Rule::Row(&rows::squared_error), &args, mask, None),
                repeat,
            )?;
            let count: usize = (0..2).filter(|d| mask >> d & 1 == 1).map(|d| shape[d]).product();
            let by = [Arg::S(Scalar::Int(0)), Arg::S(Scalar::Float(count as f64))];
            let mean = Applied::new(Rule::Row(&rows::div), &by, &[]);
            compare(
                &name("mean((x-y)^2)"),
                || arith::div(&sum(&rows::squared_error.call(&args, &[])?, mask)?, count as f64),
                || folded(Rule::Row(&rows::squared_error), &args, mask, Some(mean)),
                repeat,
            )?;
            let args = [Arg::T(&x), Arg::T(&row)];
            compare(
                &name("sum(x*row)"),
                || sum(&rows::mul.call(&args, &[])?, mask),
                || folded(Rule::Row(&rows::mul), &args, mask, None),
                repeat,
            )?;
            compare(&name("sum(x)"), || sum(&x, mask), || plain(&x, mask), repeat)?;
            let half = x.copied(DType::BF16)?;
            compare(
                &name("sum(bfloat16)"),
                || sum(&half.copied(DType::F32)?, mask),
                || plain(&half, mask),
                repeat,
            )?;
        }
    }
    Ok(())
}
