//! Masks of attention, for a strip of transposed scores at a time.

use std::f64::consts::LOG2_E;
use std::ops::Range;

use super::{Number, Problem, STRIP, strides_of};
use crate::backend::View;
use crate::backend::cpu::microkernel::View as Matrix;
use crate::backend::cpu::simd::IsaDispatch;
use crate::dtype::{DType, Element, Real};
use crate::multiversion;

/// The mask of a call; its strides are those of batch, head, query and key.
pub(super) enum Mask<'a, T> {
    None,
    /// A byte per score: whether the query attends to the key.
    Bool(&'a [u8], [usize; 4]),
    /// A term of each score.
    Term(&'a [T], [usize; 4]),
}

impl<'a, T: Element> Mask<'a, T> {
    pub fn new(mask: Option<View<'a>>) -> Option<Self> {
        let Some(v) = mask else { return Some(Mask::None) };
        let strides = strides_of(&v)?;
        if v.dtype == DType::Bool {
            return Some(Mask::Bool(v.storage.slice::<u8>().get(v.layout.offset..)?, strides));
        }
        Some(Mask::Term(v.storage.slice::<T>().get(v.layout.offset..)?, strides))
    }

    pub fn is_some(&self) -> bool {
        !matches!(self, Mask::None)
    }
}

multiversion! { version = IsaDispatch::up_to(crate::backend::cpu::simd::Isa::Avx2);
    /// Zero where a byte is set, else minus infinity.
    fn terms[T: Real](bytes: &[u8], out: &mut [T]) {
        for (out, &byte) in out.iter_mut().zip(bytes) {
            *out = if byte != 0 { T::ZERO } else { -T::INFINITY };
        }
    }
}

multiversion! { version = IsaDispatch::worth::<T>();
    /// Adds terms, times log2 e, to the first `cols` columns of scores at `ld`, or with `choose` puts minus infinity where they are that.
    fn apply[T: Real](scores: &mut [T], ld: usize, cols: usize, terms: &[T], choose: bool) {
        for (scores, terms) in scores.chunks_mut(ld).zip(terms.chunks_exact(STRIP)) {
            let (scores, terms) = (&mut scores[..cols], &terms[..cols]);
            if choose {
                for (s, &t) in scores.iter_mut().zip(terms) {
                    *s = if t == T::ZERO { *s } else { t };
                }
            } else {
                for (s, &t) in scores.iter_mut().zip(terms) {
                    *s += t * T::of(LOG2_E);
                }
            }
        }
    }
}

impl<T: Number> Problem<'_, T> {
    /// Elements of scratch memory that [`Problem::mask_strip`] needs.
    pub fn mask_scratch(&self) -> usize {
        if self.mask.is_some() { 2 * STRIP * self.block } else { 0 }
    }

    /// Masks the scores of a block of keys and a strip of queries, of which row `i` begins at `i * ld`.
    pub fn mask_strip(
        &self,
        [batch, head]: [usize; 2],
        queries: &Range<usize>,
        keys: &Range<usize>,
        scores: &mut [T],
        ld: usize,
        scratch: &mut [T],
    ) {
        let n = queries.len();
        if self.causal {
            for (key, row) in keys.clone().zip(scores.chunks_mut(ld)) {
                row[..key.saturating_sub(queries.start).min(n)].fill(-T::INFINITY);
            }
        }
        if !self.mask.is_some() {
            return;
        }
        let (columns, rows) = scratch.split_at_mut(STRIP * self.block);
        let first = |s: &[usize; 4]| batch * s[0] + head * s[1] + queries.start * s[2] + keys.start * s[3];
        let choose = match self.mask {
            Mask::None => false,
            Mask::Term(data, s) => {
                let src = Matrix { data: &data[first(&s)..], rs: s[2], cs: s[3] };
                self.kernels.pack(n, keys.len(), src, columns, STRIP);
                false
            }
            Mask::Bool(data, s) => {
                let data = &data[first(&s)..];
                for (i, row) in rows.chunks_exact_mut(keys.len()).take(n).enumerate() {
                    let data = &data[i * s[2]..];
                    if s[3] == 1 {
                        terms(&data[..row.len()], row);
                    } else {
                        for (j, term) in row.iter_mut().enumerate() {
                            *term = if data[j * s[3]] != 0 { T::ZERO } else { -T::INFINITY };
                        }
                    }
                }
                let src = Matrix { data: &*rows, rs: keys.len(), cs: 1 };
                self.kernels.pack(n, keys.len(), src, columns, STRIP);
                true
            }
        };
        apply(scores, ld, n, columns, choose);
    }
}
