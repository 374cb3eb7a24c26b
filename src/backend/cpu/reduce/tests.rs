//! Compares reductions with plain loops in float64.

use std::sync::Mutex;

use super::*;
use crate::backend::cpu::parallel::{num_threads, set_num_threads};
use crate::backend::cpu::simd::{Isa, best_isa, force_isa};

/// Reproducible values between -1 and 1.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        })
        .collect()
}

/// Runs a test for every instruction set of this machine.
pub(crate) fn on_each_isa(test: impl Fn()) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock();
    for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512] {
        force_isa(isa);
        test();
    }
    force_isa(best_isa());
}

/// Runs, split runs, narrow and wide columns, with every kind of remainder.
const SHAPES: [ReduceDims; 14] = [
    ReduceDims::rows(1, 1),
    ReduceDims::rows(5000, 1),
    ReduceDims::new(3, 1, 7),
    ReduceDims::rows(5, 7),
    ReduceDims::rows(3, 64),
    ReduceDims::rows(2, 1001),
    ReduceDims::rows(1, 3 * RUN + 5),
    ReduceDims::rows(2, RUN),
    ReduceDims::new(2, 5, 3),
    ReduceDims::new(1, 3000, 5),
    ReduceDims::new(3, 9, 49),
    ReduceDims::new(1, 300, 40),
    ReduceDims::new(2, 19, TILE + 3),
    ReduceDims::new(1, 2 * rows_of_block(2 * TILE) + 1, 2 * TILE),
];

fn lane(x: &[f64], d: ReduceDims, l: usize) -> Vec<f64> {
    let start = l / d.inner * d.n * d.inner + l % d.inner;
    (0..d.n).map(|i| x[start + i * d.inner]).collect()
}

/// Compares a float32 and a float64 reduction of noise with a plain loop over each lane.
fn check(
    narrow: impl Fn(&[f32], ReduceDims, &mut [f32]),
    wide: impl Fn(&[f64], ReduceDims, &mut [f64]),
    plain: impl Fn(&[f64]) -> f64,
) {
    on_each_isa(|| {
        for d in SHAPES {
            let x32: Vec<f32> = noise(d.len(), 7).iter().map(|&v| v as f32).collect();
            let x: Vec<f64> = x32.iter().map(|&v| v as f64).collect();
            let (mut out32, mut out) = (vec![0.0; d.lanes()], vec![0.0; d.lanes()]);
            narrow(&x32, d, &mut out32);
            wide(&x, d, &mut out);
            for l in 0..d.lanes() {
                let want = plain(&lane(&x, d, l));
                let close =
                    |got: f64, eps: f64| (got - want).abs() <= eps * (1.0 + want.abs() + (d.n as f64).sqrt());
                assert!(close(out[l], 1e-13), "{d:?} lane {l}: {} for {want}", out[l]);
                assert!(close(out32[l] as f64, 1e-6), "{d:?} lane {l}: {} for {want}", out32[l]);
            }
        }
    });
}

#[test]
fn sums_agree_with_a_plain_loop() {
    check(sum, sum, |x| x.iter().sum());
}

#[test]
fn products_agree_with_a_plain_loop() {
    check(prod, prod, |x| x.iter().product());
}

#[test]
fn norms_of_every_order_agree_with_their_definition() {
    for p in [0.0, 1.0, 2.0, 3.0, 0.5, f64::INFINITY, f64::NEG_INFINITY] {
        let plain = |x: &[f64]| match p {
            0.0 => x.iter().filter(|&&v| v != 0.0).count() as f64,
            f64::INFINITY => x.iter().fold(0.0, |m: f64, v| m.max(v.abs())),
            f64::NEG_INFINITY => x.iter().fold(f64::INFINITY, |m: f64, v| m.min(v.abs())),
            _ => x.iter().map(|v| v.abs().powf(p)).sum::<f64>().powf(1.0 / p),
        };
        // The order 1/2 squares the sum and thereby the error.
        check(|x, d, out| norm_p(p, x, d, out), |x, d, out| norm_p(p, x, d, out), plain);
    }
}

#[test]
fn moments_agree_with_a_plain_loop() {
    let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
    check(
        |x, d, out| moments(x, d, out, &mut vec![0.0; d.lanes()]),
        |x, d, out| moments(x, d, out, &mut vec![0.0; d.lanes()]),
        mean,
    );
    check(
        |x, d, out| moments(x, d, &mut vec![0.0; d.lanes()], out),
        |x, d, out| moments(x, d, &mut vec![0.0; d.lanes()], out),
        |x| x.iter().map(|v| (v - mean(x)).powi(2)).sum(),
    );
}

#[test]
fn a_large_mean_does_not_spoil_the_variance() {
    let x: Vec<f32> = (0..100_000).map(|i| 1e4 + (i % 2) as f32).collect();
    for d in [ReduceDims::rows(1, x.len()), ReduceDims::new(1, x.len() / 50, 50)] {
        let (mut mean, mut m2) = (vec![0.0; d.lanes()], vec![0.0; d.lanes()]);
        moments(&x, d, &mut mean, &mut m2);
        // With fifty columns, each column is constant.
        let want = if d.inner == 1 { 0.25 } else { 0.0 };
        assert!(m2.iter().all(|m| (m / d.n as f32 - want).abs() < 1e-5), "{m2:?}");
    }
}

#[test]
fn logsumexp_agrees_with_a_plain_loop() {
    check(logsumexp, logsumexp, |x| x.iter().map(|v| v.exp()).sum::<f64>().ln());
}

#[test]
fn logsumexp_keeps_infinities_and_nan_in_their_lanes() {
    let inf = f32::INFINITY;
    let rows =
        [[-inf, -inf, -inf], [inf, 0.0, -inf], [inf, inf, 1.0], [f32::NAN, inf, 0.0], [900.0, 900.0, -inf]];
    let want = [-inf, inf, inf, f32::NAN, 900.0 + 2f32.ln()];
    let same = |a: f32, b: f32| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() < 1e-3;
    // Each row, repeated past a split, as a row and as a column.
    for times in [1, RUN] {
        let mut lanes: Vec<f32> = Vec::new();
        let mut columns = vec![0.0; 5 * 3 * times];
        for (r, row) in rows.iter().enumerate() {
            for k in 0..3 * times {
                lanes.push(row[k / times]);
                columns[k * 5 + r] = row[k / times];
            }
        }
        let shift = (times as f32).ln();
        let (mut a, mut b) = ([0.0; 5], [0.0; 5]);
        logsumexp(&lanes, ReduceDims::rows(5, 3 * times), &mut a);
        logsumexp(&columns, ReduceDims::new(1, 3 * times, 5), &mut b);
        for r in 0..5 {
            assert!(same(a[r], want[r] + shift) && same(b[r], want[r] + shift), "row {r}: {} {}", a[r], b[r]);
        }
    }
}

#[test]
fn sums_of_no_elements_are_identities() {
    let d = ReduceDims::new(2, 0, 3);
    let (mut s, mut p, mut l) = ([9.0f32; 6], [9.0f32; 6], [9.0f32; 6]);
    let (mut every, mut some) = ([9; 6], [9; 6]);
    sum(&[], d, &mut s);
    prod(&[], d, &mut p);
    logsumexp(&[], d, &mut l);
    all::<f32>(&[], d, &mut every);
    any::<f32>(&[], d, &mut some);
    assert_eq!((s, p, l, every, some), ([0.0; 6], [1.0; 6], [f32::NEG_INFINITY; 6], [1; 6], [0; 6]));
}

#[test]
fn integer_products_are_int64() {
    let d = ReduceDims::new(1, 3, 2);
    let mut out = [0; 2];
    prod_int::<u8>(&[200, 1, 200, 2, 2, 3], d, &mut out);
    assert_eq!(out, [80_000, 6]);
}

#[test]
fn all_and_any_see_a_single_element_in_any_place() {
    for d in SHAPES {
        for at in [0, d.len() / 2, d.len() - 1] {
            let lane = at / (d.n * d.inner) * d.inner + at % d.inner;
            let (mut x, mut out) = (vec![0i16; d.len()], vec![9; d.lanes()]);
            x[at] = -3;
            any(&x, d, &mut out);
            assert!(out.iter().enumerate().all(|(l, &v)| v == (l == lane) as u8));
            x.fill(7);
            x[at] = 0;
            all(&x, d, &mut out);
            assert!(out.iter().enumerate().all(|(l, &v)| v == (l != lane) as u8));
        }
    }
}

/// The extremum of a lane and its first position by PyTorch's rules.
fn plain_extremum<T: Element>(x: &[T], d: ReduceDims, l: usize, largest: bool) -> (T, i64) {
    let at = |i: usize| x[l / d.inner * d.n * d.inner + l % d.inner + i * d.inner];
    let mut best = 0;
    for i in 1..d.n {
        let (a, b) = (at(best).to_f64(), at(i).to_f64());
        if !a.is_nan() && (b.is_nan() || if largest { b > a } else { b < a }) {
            best = i;
        }
    }
    (at(best), best as i64)
}

fn check_extremum<T: Ordered>(of: impl Fn(f64) -> T) {
    for d in SHAPES {
        let x: Vec<T> = noise(d.len(), 11).into_iter().map(&of).collect();
        for largest in [false, true] {
            let (mut values, mut alone) = (vec![of(0.0); d.lanes()], vec![of(0.0); d.lanes()]);
            let mut indices = vec![-1; d.lanes()];
            extremum(&x, d, largest, &mut values, Some(&mut indices));
            extremum(&x, d, largest, &mut alone, None);
            for l in 0..d.lanes() {
                let (value, index) = plain_extremum(&x, d, l, largest);
                assert_eq!(indices[l], index, "{:?} {d:?} lane {l}", T::DTYPE);
                for got in [values[l], alone[l]] {
                    assert!(got == value || (got.to_f64().is_nan() && value.to_f64().is_nan()));
                }
            }
        }
    }
}

#[test]
fn extrema_stand_at_their_first_occurrence() {
    on_each_isa(|| {
        check_extremum(|v| v as f32);
        check_extremum(|v| (v * 4.0).round());
        check_extremum(|v| (v * 9.0) as i64);
        check_extremum(|v| if v > 0.0 { i64::MAX } else { i64::MIN });
        check_extremum(|v| if v > 0.5 { f32::INFINITY } else { f32::NEG_INFINITY });
    });
}

#[test]
fn a_nan_beats_every_number_and_the_first_counts() {
    on_each_isa(|| {
        check_extremum(|v| if v.abs() < 0.01 { f32::NAN } else { v as f32 });
        check_extremum(|v| if v.abs() < 0.3 { f64::NAN } else { f64::NEG_INFINITY });
    });
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let threads = num_threads();
    for d in [
        ReduceDims::rows(1, 300_000),
        ReduceDims::rows(300, 1000),
        ReduceDims::new(1, 1000, 300),
        ReduceDims::new(5, 600, 100),
    ] {
        let x: Vec<f32> = noise(d.len(), 3).iter().map(|&v| v as f32).collect();
        let results = [1, 2, 5].map(|t| {
            set_num_threads(t);
            let (mut s, mut mean, mut m2) =
                (vec![0.0; d.lanes()], vec![0.0; d.lanes()], vec![0.0; d.lanes()]);
            sum(&x, d, &mut s);
            moments(&x, d, &mut mean, &mut m2);
            (s, mean, m2)
        });
        assert!(results[0] == results[1] && results[0] == results[2], "{d:?}");
    }
    set_num_threads(threads);
}
