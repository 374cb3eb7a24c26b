//! Products of one row: with a matrix whose rows are contiguous, as sums of scaled rows; with one long column, in runs.

use super::TASK;
use crate::backend::cpu::microkernel::{GemmElem, Store, View, ViewMut};
use crate::backend::cpu::parallel::for_chunks_mut;
use crate::dtype::Real;
use crate::multiversion;

/// Columns whose sums stay in the L1 cache while the rows stream past.
const COLUMNS: usize = 512;
/// Least columns of a task, so that rows are read in long pieces.
const LEAST: usize = 128;
/// Rows that are added at a time: the sums are read and written once for all of them.
const ROWS: usize = 4;

/// The product of the row `a`, of `k` elements, with `b`. A tile of the general case would have one row: two vectors of
/// sums, each of which waits for the addition before.
pub fn product<T: GemmElem>(k: usize, a: View<T>, b: View<T>, c: ViewMut<T>, store: &Store<T>) {
    let columns = (TASK / k).next_multiple_of(LEAST).clamp(LEAST, COLUMNS);
    let mut tasks = c.columns(columns);
    for_chunks_mut(&mut tasks, 1, |t, tasks| {
        let (c, first) = (&mut tasks[0], t * columns);
        let mut sums = [T::ZERO; COLUMNS];
        let sums = &mut sums[..c.cols()];
        let mut factors = [T::ZERO; ROWS];
        for p in (0..k).step_by(ROWS) {
            let rows = ROWS.min(k - p);
            (0..rows).for_each(|r| factors[r] = a.data[(p + r) * a.cs]);
            add_rows(&factors[..rows], &b.data[p * b.rs + first..], b.rs, sums);
        }
        let store = store.at(0, first);
        sums.iter().enumerate().for_each(|(j, &sum)| store.put(c, 0, j, sum));
    });
}

multiversion! {
    fn add_rows[T: Real](factors: &[T], rows: &[T], stride: usize, sums: &mut [T]) {
        let row = |r: usize| &rows[r * stride..][..sums.len()];
        if let [a, b, c, d] = *factors {
            let (x, y, z, w) = (row(0), row(1), row(2), row(3));
            for (j, sum) in sums.iter_mut().enumerate() {
                *sum += (a * x[j] + b * y[j]) + (c * z[j] + d * w[j]);
            }
        } else {
            for (r, &factor) in factors.iter().enumerate() {
                sums.iter_mut().zip(&rows[r * stride..]).for_each(|(sum, &x)| *sum += factor * x);
            }
        }
    }
}

/// Elements of a dot product that are summed on their own, and how many such runs are a task.
const RUN: usize = 1 << 12;
const RUNS: usize = 8;
/// Vectors of at least so many elements are divided.
pub(super) const LONG: usize = 2 * RUN;

/// The product of two long vectors.
pub(super) fn dot<T: GemmElem>(x: &[T], y: &[T]) -> T {
    let mut sums = vec![T::ZERO; x.len().div_ceil(RUN)];
    for_chunks_mut(&mut sums, RUNS, |task, sums| {
        for (i, sum) in sums.iter_mut().enumerate() {
            let first = (task * RUNS + i) * RUN;
            let run = first..x.len().min(first + RUN);
            *sum = dot_run(&x[run.clone()], &y[run]);
        }
    });
    T::of(sums.iter().map(|s| s.to_f64()).sum())
}

multiversion! {
    fn dot_run[T: Real](x: &[T], y: &[T]) -> T {
        const LANES: usize = 32;
        let (xs, ys) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
        let mut sums = [T::ZERO; LANES];
        for (x, y) in xs.0.iter().zip(ys.0) {
            for l in 0..LANES {
                sums[l] += x[l] * y[l];
            }
        }
        let rest: T = xs.1.iter().zip(ys.1).map(|(&x, &y)| x * y).sum();
        let mut width = LANES / 2;
        while width > 0 {
            for l in 0..width {
                sums[l] += sums[l + width];
            }
            width /= 2;
        }
        sums[0] + rest
    }
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::matmul::{Bias, Epilogue, MatRef, gemm};
    use crate::backend::cpu::simd::{Isa, best_isa, force_isa};

    #[test]
    fn long_vectors_have_the_product_of_their_elements_on_every_instruction_set() {
        for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512] {
            force_isa(isa);
            for k in [super::LONG, 70_001, 300_003] {
                let x: Vec<f32> = (0..k).map(|i| (i % 7) as f32 - 3.0).collect();
                let y: Vec<f32> = (0..k).map(|i| (i % 5) as f32 - 2.0).collect();
                let expected: f32 = x.iter().zip(&y).map(|(x, y)| x * y).sum();
                let mut c = [f32::NAN];
                gemm(
                    1,
                    1,
                    k,
                    MatRef::row_major(&x, k),
                    MatRef::row_major(&y, 1),
                    &mut c,
                    Epilogue::default(),
                );
                assert_eq!(c, [expected], "{isa:?} {k}");
            }
        }
        force_isa(best_isa());
    }

    #[test]
    fn a_row_times_a_matrix_is_the_sum_of_its_scaled_rows_on_every_instruction_set() {
        for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512] {
            force_isa(isa);
            for (n, k) in [(1, 1), (127, 5), (700, 11), (1030, 2), (2000, 300)] {
                let a: Vec<f64> = (0..k).map(|p| (p % 7) as f64 - 3.0).collect();
                let b: Vec<f64> = (0..k * n).map(|i| (i % 11) as f64 - 5.0).collect();
                let bias: Vec<f64> = (0..n).map(|j| j as f64).collect();
                let expected: Vec<f64> =
                    (0..n).map(|j| bias[j] + (0..k).map(|p| a[p] * b[p * n + j]).sum::<f64>()).collect();
                let (row, matrix) = (MatRef::row_major(&a, k), MatRef::row_major(&b, n));
                let ep = || Epilogue { bias: Bias::Row(&bias), ..Epilogue::default() };
                let mut c = vec![f64::NAN; n];
                gemm(1, n, k, row, matrix, &mut c, ep());
                assert_eq!(c, expected, "{isa:?} {n} {k}");
                // The transposed product, of a matrix whose columns are contiguous with one column.
                let ep = || Epilogue { bias: Bias::Col(&bias), ..Epilogue::default() };
                gemm(n, 1, k, matrix.transposed(), row.transposed(), &mut c, ep());
                assert_eq!(c, expected, "{isa:?} {n} {k}");
            }
        }
        force_isa(best_isa());
    }
}
