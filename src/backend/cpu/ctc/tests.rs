use super::*;
use crate::backend::cpu::reduce::tests::{noise, on_each_isa};

/// The probability of the labels, by all paths.
fn probability(rows: &[&[f64]], labels: &[i64], blank: i64) -> f64 {
    let classes = rows.first().map_or(1, |r| r.len());
    let paths = classes.pow(rows.len() as u32);
    let path =
        |k: usize| -> Vec<usize> { (0..rows.len()).map(|t| k / classes.pow(t as u32) % classes).collect() };
    let stands_for = |path: &[usize]| -> Vec<i64> {
        let mut merged: Vec<i64> = path.iter().map(|&c| c as i64).collect();
        merged.dedup();
        merged.retain(|&c| c != blank);
        merged
    };
    let all = (0..paths).map(path).filter(|p| stands_for(p) == labels);
    all.map(|p| p.iter().zip(rows).map(|(&c, row)| row[c]).sum::<f64>().exp()).sum()
}

#[test]
fn losses_and_gradients_are_those_of_all_paths_on_each_instruction_set() {
    let (rows, classes) = (5, 3);
    let s = Sequences {
        steps: vec![5, 4, 3, 2, 0],
        starts: vec![0, 2, 4, 4, 7],
        lengths: vec![2, 2, 0, 3, 0],
        blank: 1,
        classes,
    };
    let targets = [0, 2, 2, 2, 0, 2, 0i64];
    let count = s.count();
    let log_probs: Vec<f64> = noise(rows * count * classes, 1);
    let grad = [1.0, -0.5, 2.0, 1.0, 3.0];
    let loss = |log_probs: &[f64], n: usize| {
        let row = |t: usize| &log_probs[(t * count + n) * classes..][..classes];
        let rows: Vec<&[f64]> = (0..s.steps[n]).map(row).collect();
        -probability(&rows, &targets[s.starts[n]..][..s.lengths[n]], 1).ln()
    };
    on_each_isa(|| {
        let (mut found, mut alpha) = (vec![f64::NAN; count], vec![f64::NAN; count * rows * s.width()]);
        losses(&s, &log_probs, &targets, &mut found, &mut alpha);
        let mut slopes = vec![f64::NAN; log_probs.len()];
        backward(&s, &grad, &log_probs, &targets, (&found, &alpha), true, &mut slopes);
        for (n, &found) in found.iter().enumerate() {
            let expected = loss(&log_probs, n);
            assert!(found == expected || (found - expected).abs() < 1e-12, "{n}: {found} {expected}");
        }
        // Three labels need three steps: there is no path, and with `zero_infinity` no gradient.
        assert_eq!(found[3], f64::INFINITY);
        for i in 0..log_probs.len() {
            let n = i / classes % count;
            let moved = |by: f64| {
                let mut moved = log_probs.clone();
                moved[i] += by;
                // As if the probabilities of a step were divided by their sum, which the gradient is for.
                let row = (i / classes) * classes;
                let sum: f64 = moved[row..row + classes].iter().map(|x| x.exp()).sum();
                let active = i / classes / count < s.steps[n];
                loss(&moved, n) + if active { sum } else { 0.0 }
            };
            let expected = if n == 3 { 0.0 } else { grad[n] * (moved(1e-6) - moved(-1e-6)) / 2e-6 };
            assert!((slopes[i] - expected).abs() < 1e-7, "{i}: {} {expected}", slopes[i]);
        }
        backward(&s, &grad, &log_probs, &targets, (&found, &alpha), false, &mut slopes);
        assert!((0..slopes.len()).all(|i| slopes[i].is_nan() == (i / classes % count == 3)));
    });
}
