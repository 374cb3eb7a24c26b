//! Compares softmax, its gradients and cross entropy with their definitions.

use super::*;
use crate::backend::cpu::reduce::tests::{noise, on_each_isa};

const SHAPES: [ReduceDims; 10] = [
    ReduceDims::rows(1, 1),
    ReduceDims::rows(5, 7),
    ReduceDims::rows(3, 1001),
    ReduceDims::rows(1, LONGEST_ROW + 3),
    ReduceDims::new(2, 10, 3),
    ReduceDims::new(1, STRIP / NARROW + 1, NARROW),
    ReduceDims::new(3, 21, 70),
    ReduceDims::new(2, STRIP / LEAST_STRIP, LEAST_STRIP + 5),
    ReduceDims::new(1, STRIP / LEAST_STRIP + 1, LEAST_STRIP + 5),
    ReduceDims::new(1, 9, TILE + 100),
];

fn lanes(d: ReduceDims) -> impl Iterator<Item = Vec<usize>> {
    (0..d.lanes()).map(move |l| {
        let start = l / d.inner * d.n * d.inner + l % d.inner;
        (0..d.n).map(|i| start + i * d.inner).collect()
    })
}

fn narrow(x: &[f64]) -> Vec<f32> {
    x.iter().map(|&v| v as f32).collect()
}

fn assert_close(got: &[f64], got32: &[f32], want: &[f64], what: &str) {
    for i in 0..want.len() {
        let scale = 1.0 + want[i].abs();
        assert!((got[i] - want[i]).abs() < 1e-12 * scale, "{what}: {} for {}", got[i], want[i]);
        assert!((got32[i] as f64 - want[i]).abs() < 3e-6 * scale, "{what}: {} for {}", got32[i], want[i]);
    }
}

#[test]
fn the_exponential_of_nonpositive_numbers_is_right_to_the_last_places() {
    for i in 0..=87_000 {
        let x = -(i as f32) / 1000.0;
        let (got, want) = (x.exp_nonpositive() as f64, (x as f64).exp());
        assert!((got - want).abs() <= 2e-7 * want, "{x}: {got} for {want}");
    }
    assert_eq!([-88.0, -1e30, f32::NEG_INFINITY].map(ExpNonpositive::exp_nonpositive), [0.0; 3]);
    assert_eq!([0.0, -0.0].map(<f32 as ExpNonpositive>::exp_nonpositive), [1.0; 2]);
    assert!(f32::NAN.exp_nonpositive().is_nan());
}

#[test]
fn softmax_and_log_softmax_agree_with_their_definitions() {
    on_each_isa(|| {
        for d in SHAPES {
            let x: Vec<f64> = noise(d.len(), 1).iter().map(|v| (v * 5.0) as f32 as f64).collect();
            let (mut want, mut log_want) = (x.clone(), x.clone());
            for lane in lanes(d) {
                let sum: f64 = lane.iter().map(|&p| x[p].exp()).sum();
                for &p in &lane {
                    want[p] = x[p].exp() / sum;
                    log_want[p] = x[p] - sum.ln();
                }
            }
            let (mut out, mut out32) = (x.clone(), narrow(&x));
            softmax(&x, d, &mut out);
            softmax(&narrow(&x), d, &mut out32);
            assert_close(&out, &out32, &want, "softmax");
            log_softmax(&x, d, &mut out);
            log_softmax(&narrow(&x), d, &mut out32);
            assert_close(&out, &out32, &log_want, "log_softmax");
        }
    });
}

#[test]
fn backward_passes_agree_with_their_formulas() {
    on_each_isa(|| {
        for d in SHAPES {
            let x = noise(d.len(), 2);
            let g: Vec<f64> = narrow(&noise(d.len(), 3)).iter().map(|&v| v as f64).collect();
            let (mut y, mut log_y) = (x.clone(), x.clone());
            softmax(&x, d, &mut y);
            log_softmax(&x, d, &mut log_y);
            let (mut want, mut log_want) = (x.clone(), x.clone());
            for lane in lanes(d) {
                let dot: f64 = lane.iter().map(|&p| g[p] * y[p]).sum();
                let total: f64 = lane.iter().map(|&p| g[p]).sum();
                for &p in &lane {
                    want[p] = (g[p] - dot) * y[p];
                    log_want[p] = g[p] - y[p] * total;
                }
            }
            let (mut dx, mut dx32) = (x.clone(), narrow(&x));
            softmax_backward(&g, &y, d, &mut dx);
            softmax_backward(&narrow(&g), &narrow(&y), d, &mut dx32);
            assert_close(&dx, &dx32, &want, "softmax");
            log_softmax_backward(&g, &log_y, d, &mut dx);
            log_softmax_backward(&narrow(&g), &narrow(&log_y), d, &mut dx32);
            assert_close(&dx, &dx32, &log_want, "log_softmax");
        }
    });
}

/// Checks a lane as a row, as a column, and, padded with minus infinity, as a row too long for one pass.
fn each_way(lane: &[f32], check: impl Fn(&[f32], ReduceDims)) {
    check(lane, ReduceDims::rows(1, lane.len()));
    for width in [2, 20] {
        let columns: Vec<f32> = lane.iter().flat_map(|&v| vec![v; width]).collect();
        check(&columns, ReduceDims::new(1, lane.len(), width));
    }
    let mut long = vec![f32::NEG_INFINITY; LONGEST_ROW + 1];
    long[..lane.len()].copy_from_slice(lane);
    check(&long, ReduceDims::rows(1, long.len()));
}

#[test]
fn softmax_of_a_lane_of_minus_infinities_of_infinity_or_of_nan_is_nan() {
    let inf = f32::INFINITY;
    for lane in [[-inf, -inf, -inf], [1.0, inf, 2.0], [1.0, f32::NAN, 2.0]] {
        each_way(&lane, |x, d| {
            let mut out = vec![0.0; x.len()];
            softmax(x, d, &mut out);
            assert!(out[0].is_nan(), "softmax {lane:?} {d:?}");
            log_softmax(x, d, &mut out);
            assert!(out[0].is_nan(), "log_softmax {lane:?} {d:?}");
        });
    }
}

#[test]
fn a_minus_infinity_among_numbers_has_probability_zero() {
    each_way(&[1.0, f32::NEG_INFINITY, 1.0], |x, d| {
        let (mut out, mut log) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        softmax(x, d, &mut out);
        log_softmax(x, d, &mut log);
        assert_eq!((out[0], out[d.inner]), (0.5, 0.0));
        assert_eq!(log[d.inner], f32::NEG_INFINITY);
        assert!((log[0] + 2f32.ln()).abs() < 1e-6);
    });
}

#[test]
fn nll_weighs_skips_and_reports_bad_classes() {
    let logp = [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0];
    let d = ReduceDims::new(1, 3, 2);
    let weight = [1.0, 10.0, 100.0];
    let mut loss = [9.0; 2];
    let targets = Targets { class: &[2, -100], weight: Some(&weight), ignore_index: -100 };
    assert_eq!(nll_forward(|i| logp[i], d, targets, &mut loss), Ok(100.0));
    assert_eq!(loss, [500.0, 0.0]);
    let mut dx = [9.0; 6];
    assert_eq!(nll_backward(&[0.5], d, targets, &mut dx), Ok(()));
    assert_eq!(dx, [0.0, 0.0, 0.0, 0.0, -50.0, 0.0]);
    for bad in [3, -1] {
        let targets = Targets { class: &[0, bad], weight: None, ignore_index: -100 };
        assert_eq!(nll_forward(|i| logp[i], d, targets, &mut loss), Err(bad));
        assert_eq!(nll_backward(&[1.0], d, targets, &mut dx), Err(bad));
        assert_eq!(cross_entropy_backward(&[1.0], &logp, d, targets, &mut dx), Err(bad));
    }
}

#[test]
fn the_fused_cross_entropy_backward_is_the_two_steps_in_one() {
    for d in [ReduceDims::rows(6, 11), ReduceDims::new(2, 5, 30)] {
        let (x, grad) = (noise(d.len(), 5), noise(d.lanes(), 6));
        let class: Vec<i64> = (0..d.lanes()).map(|i| (i * 7 % d.n) as i64).collect();
        let weight = noise(d.n, 8);
        let targets = Targets { class: &class, weight: Some(&weight), ignore_index: 3 };
        let (mut logp, mut dlogp, mut want, mut got) = (x.clone(), x.clone(), x.clone(), x.clone());
        log_softmax(&x, d, &mut logp);
        nll_backward(&grad, d, targets, &mut dlogp).unwrap();
        log_softmax_backward(&dlogp, &logp, d, &mut want);
        cross_entropy_backward(&grad, &logp, d, targets, &mut got).unwrap();
        assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-13));
    }
}
