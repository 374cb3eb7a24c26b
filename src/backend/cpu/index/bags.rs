//! Weighted sums of rows that an index lists.

use crate::backend::cpu::copy::GRAIN;
use crate::backend::cpu::parallel::for_chunks_mut;
use crate::backend::cpu::simd::IsaDispatch;
use crate::dtype::Real;
use crate::multiversion;

/// Lists of `length` rows each, of a table whose rows have `features` elements. All indices are within the table.
pub struct Bags<'a> {
    pub index: &'a [i64],
    pub length: usize,
    pub features: usize,
}

impl Bags<'_> {
    /// The sum of each list, with a factor for each of its rows if there are factors.
    pub fn sum<T: Real>(&self, table: &[T], factors: Option<&[T]>, out: &mut [T]) {
        let (length, features) = (self.length, self.features);
        let bags = (GRAIN / (length.max(1) * features.max(1))).max(1);
        for_chunks_mut(out, bags * features.max(1), |chunk, out| {
            for (i, sum) in out.chunks_exact_mut(features.max(1)).enumerate() {
                let list = (chunk * bags + i) * length..(chunk * bags + i + 1) * length;
                let factors = factors.map(|f| &f[list.clone()]);
                sum_list(table, &self.index[list], factors, sum);
            }
        });
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// Four rows at a time, so that the sums are read and written once for all of them.
    fn sum_list[T: Real](table: &[T], list: &[i64], factors: Option<&[T]>, sum: &mut [T]) {
        let features = sum.len();
        let row = |i: i64| &table[i as usize * features..][..features];
        let factor = |k: usize| factors.map_or(T::ONE, |f| f[k]);
        let whole = list.len() - list.len() % 4;
        sum.fill(T::ZERO);
        for k in (0..whole).step_by(4) {
            let [a, b, c, d] = [0, 1, 2, 3].map(|j| row(list[k + j]));
            let [p, q, r, s] = [0, 1, 2, 3].map(|j| factor(k + j));
            for (i, sum) in sum.iter_mut().enumerate() {
                *sum += (a[i] * p + b[i] * q) + (c[i] * r + d[i] * s);
            }
        }
        for (k, &at) in list.iter().enumerate().skip(whole) {
            let (row, factor) = (row(at), factor(k));
            sum.iter_mut().zip(row).for_each(|(sum, &x)| *sum += x * factor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_any_length_are_summed_with_and_without_factors() {
        let (rows, lists) = (11, 7);
        for features in [1, 3, 40] {
            let table: Vec<f64> = (0..rows * features).map(|i| (i % 13) as f64 - 6.0).collect();
            for length in 0..10 {
                let index: Vec<i64> = (0..lists * length).map(|i| (i * i % rows) as i64).collect();
                let factors: Vec<f64> = (0..lists * length).map(|i| (i % 5) as f64 - 2.0).collect();
                let bags = Bags { index: &index, length, features };
                for factors in [None, Some(&factors[..])] {
                    let mut out = vec![f64::NAN; lists * features];
                    bags.sum(&table, factors, &mut out);
                    for (i, &sum) in out.iter().enumerate() {
                        let (list, column) = (i / features, i % features);
                        let expected: f64 = (list * length..(list + 1) * length)
                            .map(|k| {
                                factors.map_or(1.0, |f| f[k]) * table[index[k] as usize * features + column]
                            })
                            .sum();
                        assert_eq!(sum, expected, "{features} {length} {i}");
                    }
                }
            }
        }
    }
}
