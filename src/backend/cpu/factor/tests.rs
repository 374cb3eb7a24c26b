//! Factorizations against plain loops, at sizes around those of panels and tiles.

use super::product::{Part, Place, Product};
use super::*;
use crate::backend::cpu::vectors::numbers;

const SIZES: [usize; 9] = [1, 2, 3, 15, 16, 17, 31, 33, 100];

/// The product of an m x k and a k x n matrix.
fn product(a: &[f64], b: &[f64], k: usize, n: usize) -> Vec<f64> {
    let row = |row: &[f64]| -> Vec<f64> {
        (0..n).map(|j| row.iter().enumerate().map(|(p, x)| x * b[p * n + j]).sum()).collect()
    };
    a.chunks_exact(k).flat_map(row).collect()
}

fn transposed(a: &[f64], columns: usize) -> Vec<f64> {
    (0..a.len()).map(|i| a[i % (a.len() / columns) * columns + i / (a.len() / columns)]).collect()
}

#[track_caller]
fn expect_near(a: &[f64], b: &[f64], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    for (i, (x, y)) in a.iter().zip(b).enumerate() {
        assert!((x - y).abs() <= tolerance, "element {i}: {x} and {y}");
    }
}

/// A symmetric positive definite matrix.
fn positive(n: usize) -> Vec<f64> {
    let g = numbers(n * n, 3);
    let mut a = product(&g, &transposed(&g, n), n, n);
    a.iter_mut().step_by(n + 1).for_each(|x| *x += 1.0);
    a
}

/// LU with one row operation after the other.
fn plain_lu(a: &mut [f64], n: usize) -> Vec<usize> {
    let mut pivots = vec![];
    for step in 0..n {
        let larger =
            |best: usize, i: usize| if a[i * n + step].abs() > a[best * n + step].abs() { i } else { best };
        let best = (step..n).fold(step, larger);
        pivots.push(best);
        (0..n).for_each(|j| a.swap(step * n + j, best * n + j));
        for i in step + 1..n {
            a[i * n + step] /= a[step * n + step];
            (step + 1..n).for_each(|j| a[i * n + j] -= a[i * n + step] * a[step * n + j]);
        }
    }
    pivots
}

#[test]
fn matrices_of_any_shape_are_the_product_of_their_factors() {
    for (m, n) in [(1, 5), (5, 1), (3, 40), (40, 3), (33, 70), (70, 33), (100, 17), (17, 100), (31, 31)] {
        let k = m.min(n);
        let mut a = numbers(m * n, 4);
        let mut expected = a.clone();
        let pivots = lu(&mut a, n);
        assert_eq!(pivots.len(), k);
        exchange(&mut expected, n, 0..n, 0..k, &pivots);
        let at = |i: usize, j: usize| a[i * n + j];
        let one = |i: usize, j: usize| if i == j { 1.0 } else { 0.0 };
        let lower = (0..m * k).map(|p| if p / k > p % k { at(p / k, p % k) } else { one(p / k, p % k) });
        let upper = (0..k * n).map(|p| if p / n <= p % n { at(p / n, p % n) } else { 0.0 });
        let made = product(&lower.collect::<Vec<_>>(), &upper.collect::<Vec<_>>(), k, n);
        expect_near(&made, &expected, 1e-12);
        assert!((0..m * k).all(|p| p / k <= p % k || at(p / k, p % k).abs() <= 1.0), "{m} {n}");
    }
}

#[test]
fn products_are_subtracted_from_their_part_of_a_matrix() {
    let stride = 310;
    for (rows, depth, columns) in
        [(1, 1, 1), (4, 3, 8), (5, 17, 9), (31, 33, 100), (130, 257, 12), (3, 300, 7)]
    {
        let (a, b) = (numbers(rows * depth, 1), numbers(depth * columns, 2));
        let expected = product(&a, &b, depth, columns);
        let given = numbers(rows * stride, 4);
        for (b, turned) in [(b.clone(), false), (transposed(&b, columns), true)] {
            let mut c = given.clone();
            let place = |data, stride| Place { other: Some(data), start: 0, stride };
            let b = place(&b, if turned { depth } else { columns });
            let all = Product { a: place(&a, depth), b, turned, rows, depth, columns };
            all.subtract_from(&mut c, 5, stride, Part::All);
            for (i, (x, old)) in c.iter().zip(&given).enumerate() {
                let (row, column) = (i / stride, (i % stride).wrapping_sub(5));
                let share = if column < columns { expected[row * columns + column] } else { 0.0 };
                assert!((old - share - x).abs() < 1e-13, "{rows} {depth} {columns}: {row} {column}");
            }
        }
    }
}

#[test]
fn halves_choose_the_pivots_of_plain_elimination() {
    for n in SIZES {
        let a = numbers(n * n, 5);
        let (mut blocked, mut plain) = (a.clone(), a);
        assert_eq!(lu(&mut blocked, n).to_vec(), plain_lu(&mut plain, n));
        expect_near(&blocked, &plain, 1e-12);
    }
}

#[test]
fn a_solution_times_the_matrix_is_the_right_hand_side() {
    for n in SIZES {
        for k in [1, 2, 5, 16, 37] {
            let (a, b) = (numbers(n * n, 5), numbers(n * k, 6));
            let mut x = b.clone();
            assert_eq!(solve(&mut a.clone(), n, &mut x, k, false), 0.0);
            let scale = x.iter().fold(1.0f64, |most, x| most.max(x.abs()));
            expect_near(&product(&a, &x, n, k), &b, 1e-13 * n as f64 * scale);
        }
    }
    solve(&mut [], 0, &mut [], 0, false);
    solve(&mut numbers(9, 1), 3, &mut [], 0, false);
}

#[test]
fn the_first_zero_pivot_is_found_and_may_be_replaced() {
    for (n, at) in [(1, 0), (2, 1), (40, 3), (40, 39), (100, 47)] {
        let mut a = numbers(n * n, 7);
        for zero in [at, n - 1] {
            a.iter_mut().skip(zero).step_by(n).for_each(|x| *x = 0.0);
        }
        assert_eq!(solve(&mut a.clone(), n, &mut numbers(n, 8), 1, false), (at + 1) as f64);
        let mut x = numbers(n, 8);
        solve(&mut a.clone(), n, &mut x, 1, true);
        assert!(x.iter().all(|x| x.is_finite()));
        assert_eq!(determinant(&mut a, n), [0.0, 0.0, f64::NEG_INFINITY]);
    }
}

#[test]
fn a_determinant_is_the_product_of_the_pivots_with_the_sign_of_the_exchanges() {
    for n in SIZES {
        let mut plain = numbers(n * n, 9);
        let [found, sign, log] = determinant(&mut plain.clone(), n);
        let exchanges = plain_lu(&mut plain, n).iter().enumerate().filter(|(i, p)| i != *p).count();
        let diagonal: f64 = plain.iter().step_by(n + 1).product();
        let expected = if exchanges % 2 == 0 { diagonal } else { -diagonal };
        assert!((found / expected - 1.0).abs() < 1e-11, "{n}: {found} {expected}");
        assert!(sign == expected.signum() && (log - expected.abs().ln()).abs() < 1e-11);
    }
    // An even permutation and an odd one.
    assert_eq!(determinant(&mut [0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0], 3)[0], 1.0);
    assert_eq!(determinant(&mut [0.0, 1.0, 1.0, 0.0], 2)[0], -1.0);
}

#[test]
fn what_is_no_number_spreads() {
    for n in [3, 40] {
        let mut a = numbers(n * n, 10);
        a[(n / 2) * n + n / 2] = f64::NAN;
        let mut x = numbers(n, 11);
        assert_eq!(solve(&mut a.clone(), n, &mut x, 1, false), 0.0);
        assert!(x.iter().any(|x| x.is_nan()));
        assert!(determinant(&mut a, n)[0].is_nan());
        let mut a = positive(n);
        a[(n - 2) * n + 1] = f64::NAN;
        assert_eq!(cholesky(&mut a, n), (n - 1) as f64);
    }
}

#[test]
fn triangles_read_their_half_only() {
    for n in SIZES {
        for (upper, unit) in [(false, false), (false, true), (true, false), (true, true)] {
            for k in [1, 3, 4, 21] {
                let mut a = numbers(n * n, 12);
                // Solutions stay small.
                a.iter_mut().for_each(|x| *x /= n as f64);
                a.iter_mut().step_by(n + 1).for_each(|x| *x += 2.0);
                let is_read = |i: usize| if upper { i % n > i / n } else { i % n < i / n };
                let mut whole = a.clone();
                for i in 0..n * n {
                    if i % (n + 1) == 0 {
                        (a[i], whole[i]) = if unit { (f64::NAN, 1.0) } else { (a[i], a[i]) };
                    } else if !is_read(i) {
                        (a[i], whole[i]) = (f64::NAN, 0.0);
                    }
                }
                let b = numbers(n * k, 13);
                let mut x = b.clone();
                triangular(&a, n, &mut x, k, upper, unit);
                expect_near(&product(&whole, &x, n, k), &b, 1e-12);
            }
        }
    }
}

#[test]
fn a_lower_factor_times_its_transpose_is_the_matrix() {
    for n in SIZES {
        let a = positive(n);
        let mut l = a.clone();
        // The upper half is not read.
        (0..n * n).filter(|i| i % n > i / n).for_each(|i| l[i] = f64::NAN);
        assert_eq!(cholesky(&mut l, n), 0.0);
        assert!((0..n * n).filter(|i| i % n > i / n).all(|i| l[i] == 0.0));
        expect_near(&product(&l, &transposed(&l, n), n, n), &a, 1e-13 * n as f64);
    }
}

#[test]
fn the_order_of_the_first_minor_that_is_not_positive_is_found() {
    for (n, at) in [(1, 0), (2, 1), (40, 3), (40, 38), (100, 47)] {
        let mut a = positive(n);
        a[at * n + at] = -1.0;
        assert_eq!(cholesky(&mut a, n), (at + 1) as f64);
    }
    // The second minor is zero.
    assert_eq!(cholesky(&mut [1.0, 1.0, 1.0, 1.0], 2), 2.0);
}

/// Q with `columns` columns and R with as many rows, of a column-major matrix.
fn factors(a: &[f64], m: usize, n: usize, columns: usize) -> (Vec<f64>, Vec<f64>) {
    let (mut q, mut r) = (vec![f64::NAN; m * columns], vec![f64::NAN; columns * n]);
    qr(&mut a.to_vec(), m, &mut q, &mut r);
    (q, r)
}

#[test]
fn orthogonal_columns_times_a_triangle_are_the_matrix() {
    for (m, n) in
        [(1, 1), (2, 3), (3, 2), (16, 16), (17, 17), (20, 8), (33, 31), (31, 50), (100, 40), (100, 100)]
    {
        let a = numbers(m * n, 14);
        for columns in [m.min(n), m] {
            let (q, r) = factors(&a, m, n, columns);
            // In column-major order the product of the transposes is the transpose of the product.
            expect_near(&product(&r, &q, columns, m), &a, 1e-13);
            let mut eye = vec![0.0; columns * columns];
            eye.iter_mut().step_by(columns + 1).for_each(|x| *x = 1.0);
            expect_near(&product(&q, &transposed(&q, m), m, columns), &eye, 1e-14 * m as f64);
            assert!((0..columns * n).filter(|i| i % columns > i / columns).all(|i| r[i] == 0.0));
            let mut only = vec![f64::NAN; m.min(n) * n];
            qr(&mut a.clone(), m, &mut [], &mut only);
            assert!(
                r.chunks_exact(columns).zip(only.chunks_exact(m.min(n))).all(|(r, only)| r.starts_with(only))
            );
        }
    }
}

#[test]
fn a_column_is_reflected_to_the_side_away_from_its_first_element() {
    for n in [2, 40] {
        let a = numbers(n * n, 15);
        let length = a[..n].iter().map(|x| x * x).sum::<f64>().sqrt();
        for sign in [1.0, -1.0] {
            let turned: Vec<f64> = a.iter().map(|x| sign * x).collect();
            let (_, r) = factors(&turned, n, n, n);
            assert!((r[0] + length.copysign(turned[0])).abs() < 1e-13);
        }
        // The columns of an upper triangular matrix are not reflected.
        let mut triangle = a.clone();
        (0..n * n).filter(|i| i % n > i / n).for_each(|i| triangle[i] = 0.0);
        assert_eq!(factors(&triangle, n, n, n).1, triangle);
    }
}

#[test]
fn columns_whose_squares_overflow_or_vanish_are_factored() {
    for scale in [1e-300, 1e-170, 1e170, 1e300] {
        for n in [2, 20] {
            let a: Vec<f64> = numbers(n * n, 16).iter().map(|x| x * scale).collect();
            let (q, r) = factors(&a, n, n, n);
            let r: Vec<f64> = r.iter().map(|x| x / scale).collect();
            let a: Vec<f64> = a.iter().map(|x| x / scale).collect();
            expect_near(&product(&r, &q, n, n), &a, 1e-13);
        }
    }
    assert!(factors(&[1.0, f64::NAN, 1.0, 2.0], 2, 2, 2).1[0].is_nan());
    assert_eq!(factors(&[0.0; 4], 2, 2, 2), (vec![1.0, 0.0, 0.0, 1.0], vec![0.0; 4]));
}

#[test]
fn matrices_without_elements_have_factors_without_elements() {
    assert_eq!(cholesky(&mut [], 0), 0.0);
    assert_eq!(solve(&mut [], 0, &mut [], 3, false), 0.0);
    assert_eq!(determinant(&mut [], 0), [1.0, 1.0, 0.0]);
    assert_eq!(factors(&[], 3, 0, 0), (vec![], vec![]));
}
