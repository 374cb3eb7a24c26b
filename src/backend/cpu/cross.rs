//! Vector products: of vectors that lie one after the other, and of planes of their elements.

use super::copy::GRAIN;
use super::parallel::for_ranges_mut;
use crate::backend::cpu::simd::{Isa, IsaDispatch};
use crate::backend::reduce::ReduceDims;
use crate::dtype::Real;
use crate::multiversion;

/// Vectors of a task.
const TASK: usize = GRAIN / 3;

pub fn cross<T: Real>(x: &[T], y: &[T], d: ReduceDims, out: &mut [T]) {
    if d.inner == 1 {
        return for_ranges_mut(out, 3 * TASK, |r, out| of_vectors(&x[r.clone()], &y[r], out));
    }
    for_ranges_mut(out, 3 * d.inner * TASK.div_ceil(d.inner), |r, out| {
        let vectors = x[r.clone()].chunks(3 * d.inner).zip(y[r].chunks(3 * d.inner));
        for ((x, y), out) in vectors.zip(out.chunks_mut(3 * d.inner)) {
            of_planes(x, y, d.inner, out);
        }
    });
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    fn of_vectors[T: Real](x: &[T], y: &[T], out: &mut [T]) {
        let vectors = x.as_chunks::<3>().0.iter().zip(y.as_chunks::<3>().0);
        for (([a, b, c], [d, e, f]), out) in vectors.zip(out.as_chunks_mut::<3>().0) {
            let (a, b, c, d, e, f) = (*a, *b, *c, *d, *e, *f);
            *out = [b * f - c * e, c * d - a * f, a * e - b * d];
        }
    }
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    fn of_planes[T: Real](x: &[T], y: &[T], n: usize, out: &mut [T]) {
        for (k, out) in out.chunks_exact_mut(n).enumerate() {
            let (next, last) = ((k + 1) % 3, (k + 2) % 3);
            let [x1, x2] = [next, last].map(|k| &x[k * n..][..n]);
            let [y1, y2] = [next, last].map(|k| &y[k * n..][..n]);
            for i in 0..n {
                out[i] = x1[i] * y2[i] - x2[i] * y1[i];
            }
        }
    }
}
