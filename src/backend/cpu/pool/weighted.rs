//! Weighted sums along an axis: interpolation, one axis after the other.

use crate::backend::cpu::parallel::for_chunks_mut;
use crate::backend::cpu::simd::IsaDispatch;
use crate::dtype::Real;
use crate::multiversion;

/// Results of a parallel task.
const GRAIN: usize = 1 << 13;

/// The taps of all results along an axis, one after the other.
struct TapLists<T> {
    /// Where those of each result end.
    ends: Vec<usize>,
    from: Vec<usize>,
    weights: Vec<T>,
}

impl<T: Real> TapLists<T> {
    fn new(taps: &[Vec<(usize, f64)>]) -> TapLists<T> {
        let mut lists = TapLists { ends: Vec::new(), from: Vec::new(), weights: Vec::new() };
        for taps in taps {
            lists.from.extend(taps.iter().map(|tap| tap.0));
            lists.weights.extend(taps.iter().map(|tap| T::of(tap.1)));
            lists.ends.push(lists.from.len());
        }
        lists
    }

    /// The taps of each result.
    #[inline(always)]
    fn each(&self) -> impl Iterator<Item = (&[usize], &[T])> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| (&self.from[start..end], &self.weights[start..end]))
    }
}

/// Weighted sums of elements along one axis: `[outer, taps.len(), inner]` from `[outer, n, inner]`.
pub fn weighted<T: Real>(n: usize, inner: usize, taps: &[Vec<(usize, f64)>], x: &[T], out: &mut [T]) {
    let (lists, plane) = (TapLists::new(taps), taps.len() * inner);
    let planes = (GRAIN / plane.max(1)).max(1);
    for_chunks_mut(out, (planes * plane).max(1), |chunk, out| {
        let x = &x[chunk * planes * n * inner..];
        if inner == 1 {
            weighted_elements(n, &lists, x, out)
        } else {
            weighted_rows(n, inner, &lists, x, out)
        }
    });
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// Sums along the last axis.
    fn weighted_elements[T: Real](n: usize, lists: &TapLists<T>, x: &[T], out: &mut [T]) {
        for (out, x) in out.chunks_exact_mut(lists.ends.len()).zip(x.chunks_exact(n.max(1))) {
            for (out, (from, weights)) in out.iter_mut().zip(lists.each()) {
                let mut sum = T::ZERO;
                for (&from, &weight) in from.iter().zip(weights) {
                    sum += x[from] * weight;
                }
                *out = sum;
            }
        }
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// Sums of rows of `inner` elements.
    fn weighted_rows[T: Real](n: usize, inner: usize, lists: &TapLists<T>, x: &[T], out: &mut [T]) {
        for (out, x) in out.chunks_exact_mut(lists.ends.len() * inner).zip(x.chunks_exact((n * inner).max(1))) {
            let source = |from: usize| &x[from * inner..][..inner];
            for (row, (from, weights)) in out.chunks_exact_mut(inner).zip(lists.each()) {
                if let (&[i, j], &[a, b]) = (from, weights) {
                    for ((o, &x), &y) in row.iter_mut().zip(source(i)).zip(source(j)) {
                        *o = x * a + y * b;
                    }
                    continue;
                }
                row.fill(T::ZERO);
                for (&from, &weight) in from.iter().zip(weights) {
                    add_scaled(row, source(from), weight);
                }
            }
        }
    }
}

/// The input gradient of [`weighted`].
pub fn weighted_backward<T: Real>(
    n: usize,
    inner: usize,
    taps: &[Vec<(usize, f64)>],
    grad_out: &[T],
    grad_x: &mut [T],
) {
    let (lists, plane) = (TapLists::new(taps), n * inner);
    let planes = (GRAIN / plane.max(1)).max(1);
    for_chunks_mut(grad_x, (planes * plane).max(1), |chunk, grad_x| {
        let grad_out = &grad_out[chunk * planes * taps.len() * inner..];
        add_weighted(n, inner, &lists, grad_out, grad_x);
    });
}

multiversion! { version = IsaDispatch::worth::<T>();
    fn add_weighted[T: Real](n: usize, inner: usize, lists: &TapLists<T>, grad_out: &[T], grad_x: &mut [T]) {
        grad_x.fill(T::ZERO);
        let planes = grad_out.chunks_exact((lists.ends.len() * inner).max(1));
        for (grad_x, grad_out) in grad_x.chunks_exact_mut(n * inner).zip(planes) {
            for (row, (from, weights)) in grad_out.chunks_exact(inner).zip(lists.each()) {
                for (&from, &weight) in from.iter().zip(weights) {
                    if inner == 1 {
                        grad_x[from] += row[0] * weight;
                    } else {
                        add_scaled(&mut grad_x[from * inner..][..inner], row, weight);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn add_scaled<T: Real>(out: &mut [T], x: &[T], weight: T) {
    out.iter_mut().zip(x).for_each(|(o, &x)| *o += x * weight);
}
