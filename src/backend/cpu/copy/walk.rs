//! Walks over the elements of a view.

use std::ops::Range;

use crate::layout::{Layout, Odometer, collapse};

/// The most elements of a cell.
const CELL: usize = 16;

/// Iterates over a view in row-major order, in runs of elements with constant stride.
pub(super) struct Walk {
    pub(super) odometer: Odometer<1>,
    pub(super) inner: usize,
    pub(super) stride: isize,
    /// The places of the elements of a cell beside that of its first: see [`Walk::cells`].
    cell: Option<Box<[isize]>>,
}

impl Walk {
    /// Starts at linear position `at`.
    pub(super) fn new(layout: &Layout, at: usize) -> Walk {
        let (shape, [strides]) = collapse(&layout.shape, [&layout.strides]);
        let inner = shape.last().copied().unwrap_or(1);
        let stride = strides.last().copied().unwrap_or(0);
        let cell = match (&shape[..], &strides[..]) {
            ([.., cells, rows, n], [.., down, across]) if *cells > 1 && rows * n <= CELL => {
                let place = |i| (i / n) as isize * down + (i % n) as isize * across;
                Some((0..rows * n).map(place).collect())
            }
            _ => None,
        };
        Walk {
            odometer: Odometer::new(&shape, [&strides], [layout.offset as isize], at),
            inner,
            stride,
            cell,
        }
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

    /// As [`Walk::planes`], with many planes at a time that are so short that walking from one to the next would take longer than their
    /// elements: cells. Calls `f(position, step, places, range)` for cells that begin `step` elements after each other, each
    /// with the elements at these places from its position; what is left of a cell is one of `runs`. False if there are none.
    pub(super) fn cells(
        &mut self,
        n: usize,
        mut f: impl FnMut(isize, isize, &[isize], Range<usize>),
    ) -> bool {
        let Some(cell) = self.cell.take() else { return false };
        let mut done = 0;
        while done < n {
            let cells = ((n - done) / cell.len()).min(self.odometer.whole_left(2));
            let at = self.at();
            if cells > 0 {
                f(at, self.odometer.stride(2, 0), &cell, done..done + cells * cell.len());
                self.odometer.advance_whole(2, cells);
                done += cells * cell.len();
            } else {
                let run = self.run_left().min(n - done);
                f(at, self.stride, &[0], done..done + run);
                self.odometer.advance(run);
                done += run;
            }
        }
        self.cell = Some(cell);
        true
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
