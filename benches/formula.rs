//! A chain of six cheap steps on four million floats: interpreted in blocks, and as separate pointwise operations.
//!
//! `cargo bench --bench formula` prints the medians and their ratio; `RGRAD_CPU_ISA` selects the instruction set.

use std::time::Instant;

use rgrad::backend::cpu::parallel::{num_threads, set_num_threads};
use rgrad::formula::Formula;
use rgrad::ops::pointwise::{Arg, evaluate};
use rgrad::ops::rows;
use rgrad::{DType, Result, Tensor};

const N: usize = 4 << 20;
const RUNS: usize = 25;

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

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> Result<()> {
    set_num_threads(2);
    let values = |step: f32| (0..N).map(|i| (i as f32 * step).fract() - 0.5).collect::<Vec<_>>();
    let (x, y) = (Tensor::from_slice(&values(0.618), [N])?, Tensor::from_slice(&values(0.414), [N])?);
    let chain = Formula::parse(CHAIN).map_err(rgrad::Error::Runtime)?;
    let (mut rows, mut blocks) = (Vec::new(), Vec::new());
    for run in 0..RUNS + 3 {
        let start = Instant::now();
        let a = by_rows(&x, &y)?;
        let between = Instant::now();
        let b = evaluate("chain", &chain, DType::F32, &[Arg::T(&x), Arg::T(&y)], &[], &[DType::F32])?;
        let end = Instant::now();
        assert!(a.to_vec::<f32>() == b[0].to_vec::<f32>(), "results differ");
        // The first runs include memory allocation.
        if run >= 3 {
            rows.push((between - start).as_secs_f64() * 1e3);
            blocks.push((end - between).as_secs_f64() * 1e3);
        }
    }
    let (rows, blocks) = (median(rows), median(blocks));
    println!(
        "6 steps on {N} floats, {} threads: rows {rows:.2} ms, interpreted {blocks:.2} ms, ratio {:.3}",
        num_threads(),
        blocks / rows
    );
    Ok(())
}
