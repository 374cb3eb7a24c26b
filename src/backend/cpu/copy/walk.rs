//! Walks over the elements of a view.

use std::ops::Range;

use crate::layout::{Layout, Odometer, collapse};

/// The most elements of a small plane.
const SMALL: usize = 16;

/// Iterates over a view in row-major order, in runs of elements with constant stride.
pub(super) struct Walk {
    pub(super) odometer: Odometer<1>,
    pub(super) inner: usize,
    pub(super) stride: isize,
}

impl Walk {
    /// Starts at linear position `at`.
    pub(super) fn new(layout: &Layout, at: usize) -> Walk {
        let (shape, [strides]) = collapse(&layout.shape, [&layout.strides]);
        let inner = shape.last().copied().unwrap_or(1);
        let stride = strides.last().copied().unwrap_or(0);
        Walk { odometer: Odometer::new(&shape, [&strides], [layout.offset as isize], at), inner, stride }
    }

    /// Number of elements left in the run, including the current one.
    #[inline]
    pub(super) fn run_left(&self) -> usize {
        self.inner - self.odometer.last()
    }

    /// The storage position of the current element.
    #[inline]
    pub(super) fn at(&self) -> isize {
        self.odometer.offsets[0]
    }

    /// Calls `f(position in storage, stride, range of elements)` for the runs of the next `n` elements.
    #[inline]
    pub(super) fn runs(&mut self, n: usize, mut f: impl FnMut(isize, isize, Range<usize>)) {
        let mut done = 0;
        while done < n {
            let run = self.run_left().min(n - done);
            f(self.at(), self.stride, done..done + run);
            self.odometer.advance(run);
            done += run;
        }
    }

    /// The offsets of the elements of a plane, which are the last two dimensions, from its first, if planes are small and more than one.
    pub(super) fn small_plane(&self) -> Option<Box<[isize]>> {
        let (rows, down, inner) = (self.odometer.size(1), self.odometer.stride(1, 0), self.inner);
        let is_small = self.odometer.size(2) > 1 && (1..=SMALL).contains(&(rows * inner));
        let offset = |i| (i / inner) as isize * down + (i % inner) as isize * self.stride;
        is_small.then(|| (0..rows * inner).map(offset).collect())
    }

    /// As [`Walk::planes`], many small planes at a time, as a walk from one to the next takes longer than their elements. Calls
    /// `f(position, step, offsets, range)`: the planes begin `step` elements after each other, and their elements are at `offsets`
    /// ([`Walk::small_plane`]) from there. Runs of a plane of which only a part is among the `n` elements are passed as elements with
    /// the stride as step, and an offset of 0.
    pub(super) fn small_planes(
        &mut self,
        offsets: &[isize],
        n: usize,
        mut f: impl FnMut(isize, isize, &[isize], Range<usize>),
    ) {
        let mut done = 0;
        while done < n {
            let planes = ((n - done) / offsets.len()).min(self.odometer.whole_left(2));
            let at = self.at();
            if planes > 0 {
                f(at, self.odometer.stride(2, 0), offsets, done..done + planes * offsets.len());
                self.odometer.advance_whole(2, planes);
                done += planes * offsets.len();
            } else {
                let run = self.run_left().min(n - done);
                f(at, self.stride, &[0], done..done + run);
                self.odometer.advance(run);
                done += run;
            }
        }
    }

    /// As [`Walk::runs`], with several runs at a time where whole ones follow each other in the last dimension but one. Then the strides
    /// are of both, with the number of elements of a run.
    pub(super) fn planes(&mut self, n: usize, mut f: impl FnMut(isize, Plane, Range<usize>)) {
        let mut done = 0;
        while done < n {
            let rows = ((n - done) / self.inner).min(self.odometer.whole_left(1));
            let (at, inner, strides) = (self.at(), self.inner, [self.odometer.stride(1, 0), self.stride]);
            if rows > 1 {
                f(at, Plane { inner, strides }, done..done + rows * inner);
                self.odometer.advance_whole(1, rows);
                done += rows * inner;
            } else {
                let run = self.run_left().min(n - done);
                f(at, Plane { inner: run, strides }, done..done + run);
                self.odometer.advance(run);
                done += run;
            }
        }
    }
}

/// Runs of `inner` elements each, and the strides from run to run and within a run.
#[derive(Clone, Copy)]
pub(super) struct Plane {
    pub(super) inner: usize,
    pub(super) strides: [isize; 2],
}
