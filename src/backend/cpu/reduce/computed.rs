//! The source of a reduction's elements: memory or a formula. See Note [Reduced formulas].

use super::{Kernel, RUN};
use crate::backend::cpu::copy::cast_run;
use crate::dtype::Element;

/// The elements of a reduction, in row-major order.
#[derive(Clone, Copy)]
pub(super) enum Elements<'a, I> {
    Slice(&'a [I]),
    Computed(&'a dyn Compute<I>),
}

/// Elements that are computed during the reduction.
pub(super) trait Compute<I>: Sync {
    /// Returns an evaluator for one worker.
    fn reader(&self) -> Box<dyn Reader<I> + '_>;
}

pub(super) trait Reader<I> {
    /// Computes the elements from position `at` on.
    fn read(&mut self, at: usize, out: &mut [I]);
}

/// The source from which one worker reads rows.
pub(super) enum Source<'a, I> {
    Slice(&'a [I]),
    /// The evaluator, and a buffer for the rows read last.
    Computed(Box<dyn Reader<I> + 'a>, Vec<I>),
}

impl<'a, I: Element> Elements<'a, I> {
    /// A source of blocks of at most `room` elements.
    #[inline]
    pub(super) fn source(self, room: usize) -> Source<'a, I> {
        match self {
            Elements::Slice(x) => Source::Slice(x),
            Elements::Computed(x) => Source::Computed(x.reader(), vec![I::zeroed(); room]),
        }
    }
}

impl<I> Source<'_, I> {
    /// Returns rows of `w` elements, and the stride between rows in the returned slice. The first row begins at
    /// position `start`, the others follow with a distance of `stride`.
    #[inline]
    pub(super) fn rows(&mut self, start: usize, rows: usize, w: usize, stride: usize) -> (&[I], usize) {
        match self {
            Source::Slice(x) => (&x[start.min(x.len())..], stride),
            Source::Computed(reader, block) => {
                let block = &mut block[..rows * w];
                if w == stride {
                    reader.read(start, block);
                } else {
                    for (i, row) in block.chunks_exact_mut(w).enumerate() {
                        reader.read(start + i * stride, row);
                    }
                }
                (block, w)
            }
        }
    }
}

/// Elements that are converted as they are read, so that one compiled reduction serves many element types.
pub(super) struct Converted<'a, I, O> {
    pub source: Elements<'a, I>,
    pub convert: fn(I) -> O,
}

impl<I: Element, O: Element> Compute<O> for Converted<'_, I, O> {
    fn reader(&self) -> Box<dyn Reader<O> + '_> {
        Box::new(Converter { source: self.source.source(0), convert: self.convert })
    }
}

/// Elements of a narrower type.
pub(super) struct Widened<'a, T>(pub &'a [T]);

impl<T: Element, O: Element> Compute<O> for Widened<'_, T> {
    fn reader(&self) -> Box<dyn Reader<O> + '_> {
        Box::new(Widened(self.0))
    }
}

impl<T: Element, O: Element> Reader<O> for Widened<'_, T> {
    fn read(&mut self, at: usize, out: &mut [O]) {
        cast_run(&self.0[at..][..out.len()], out);
    }
}

struct Converter<'a, I, O> {
    source: Source<'a, I>,
    convert: fn(I) -> O,
}

impl<I: Element, O> Reader<O> for Converter<'_, I, O> {
    fn read(&mut self, at: usize, out: &mut [O]) {
        let n = out.len();
        if let Source::Computed(_, block) = &mut self.source {
            block.resize(n, I::zeroed());
        }
        let (values, _) = self.source.rows(at, 1, n, n);
        out.iter_mut().zip(values).for_each(|(out, &v)| *out = (self.convert)(v));
    }
}

/// Reduces runs like `reduce_runs`, of elements that are computed first: either as many whole rows at a time as fit in
/// a run, or one run of a row.
pub(super) fn runs<I: Element, A>(
    r: &dyn Kernel<I, A>,
    x: &dyn Compute<I>,
    n: usize,
    job: usize,
    acc: &mut [A],
) {
    let cuts = n.div_ceil(RUN).max(1);
    let at_once = if cuts == 1 { (RUN / n.max(1)).min(acc.len()) } else { 1 };
    let mut reader = x.reader();
    let mut block = vec![I::zeroed(); at_once * n.min(RUN)];
    let mut job = job;
    for acc in acc.chunks_mut(at_once) {
        let (row, first) = (job / cuts, job % cuts * RUN);
        let run = n.min(first + RUN) - first;
        let block = &mut block[..acc.len() * run];
        reader.read(row * n + first, block);
        r.runs(block, run, 0, acc);
        job += acc.len();
    }
}
