//! Writes blocks to the elements of a view: the reverse of [`gather`](super::gather).

use bytemuck::{Zeroable, cast_slice};
use smallvec::SmallVec;

use super::gather::{ENDS, MOVED};
use super::interleave::alternate;
use super::walk::{Plane, Walk};
use super::{BLOCK, SHORT, STAGE, cast_run};
use crate::backend::View;
use crate::backend::cpu::casts::is_compiled;
use crate::backend::cpu::output::Cells;
use crate::dtype::{DType, Element};
use crate::with_dtype;

/// Writes to an output in row-major order, a block at a time.
pub struct Writer<'a> {
    walk: Walk,
    cells: &'a Cells<'a>,
    dtype: DType,
}

impl<'a> Writer<'a> {
    /// Starts at linear position `at` of a view, whose memory is `cells`.
    pub fn new(cells: &'a Cells, view: View, at: usize) -> Self {
        Writer { walk: Walk::new(view.layout, at), cells, dtype: view.dtype }
    }

    /// Scatters `values` to the next elements.
    pub fn write<T: Element>(&mut self, values: &[T]) {
        if self.dtype == T::DTYPE {
            return self.write_same(values);
        }
        with_dtype!(common self.dtype, D => {
            if const { !is_compiled(T::DTYPE, D::DTYPE) } {
                return self.write_through(values);
            }
            let mut block = [D::zeroed(); STAGE];
            for values in values.chunks(STAGE) {
                let block = &mut block[..values.len()];
                cast_run(values, block);
                self.write_same(block);
            }
        }, else self.write_through(values));
    }

    /// Scatters the values of several views, of which this is the first, to their next elements. Those of the others are between the elements
    /// of this one, so that each cache line is written once.
    pub fn write_alternating<T: Element>(&mut self, values: &[&[T]]) {
        let (cells, count) = (self.cells, values.len().max(1));
        let mut block = [T::zeroed(); BLOCK];
        self.walk.runs(values.first().map_or(0, |first| first.len()), |at, _, run| {
            let most = BLOCK / count;
            for start in run.clone().step_by(most) {
                let next = start..run.end.min(start + most);
                let parts: SmallVec<[&[T]; 4]> = values.iter().map(|part| &part[next.clone()]).collect();
                let block = &mut block[..next.len() * count];
                alternate(&parts, block);
                cells.write(at as usize + (start - run.start) * count, block);
            }
        });
    }

    #[inline]
    pub(in crate::backend::cpu) fn dtype(&self) -> DType {
        self.dtype
    }

    /// As [`Writer::write`], without a cast.
    pub(in crate::backend::cpu) fn write_same<T: Element>(&mut self, values: &[T]) {
        match size_of::<T>() {
            1 => self.write_bits::<u8>(cast_slice(values)),
            2 => self.write_bits::<i16>(cast_slice(values)),
            4 => self.write_bits::<i32>(cast_slice(values)),
            _ => self.write_bits::<i64>(cast_slice(values)),
        }
    }

    fn write_bits<T: Element>(&mut self, values: &[T]) {
        let cells = self.cells;
        if self.walk.inner <= SHORT {
            return self
                .walk
                .planes(values.len(), |at, plane, run| scatter_plane(cells, at, plane, &values[run]));
        }
        self.walk.runs(values.len(), |at, stride, run| cells.write_strided(at, stride, &values[run]));
    }
}

/// Writes runs that are so short that walking from one to the next would take longer than they do: see [`super::gather::gather_plane`].
fn scatter_plane<T: Element>(cells: &Cells, mut at: isize, plane: Plane, values: &[T]) {
    let [down, across] = plane.strides;
    match (plane.inner, across) {
        (2, 1) => return scatter_pieces::<T, 2>(cells, at, down, values),
        (3, 1) => return scatter_pieces::<T, 3>(cells, at, down, values),
        (4, 1) => return scatter_pieces::<T, 4>(cells, at, down, values),
        (5..8, 1) => return scatter_by_ends::<T, 4>(cells, at, plane, values),
        (8..16, 1) => return scatter_by_ends::<T, 8>(cells, at, plane, values),
        (16..MOVED, 1) => return scatter_by_ends::<T, 16>(cells, at, plane, values),
        (MOVED..=ENDS, 1) => return scatter_by_ends::<T, MOVED>(cells, at, plane, values),
        _ => {}
    }
    for run in values.chunks(plane.inner) {
        cells.write_strided(at, across, run);
        at += down;
    }
}

/// Writes runs of `N` adjacent elements that begin `down` elements after each other.
fn scatter_pieces<T: Element, const N: usize>(cells: &Cells, mut at: isize, down: isize, values: &[T]) {
    for piece in values.as_chunks::<N>().0 {
        cells.write(at as usize, piece);
        at += down;
    }
}

/// Writes runs of `N` to `2 * N` adjacent elements, as their first and their last `N`, which have some in common.
fn scatter_by_ends<T: Element, const N: usize>(cells: &Cells, mut at: isize, plane: Plane, values: &[T]) {
    for run in values.chunks(plane.inner) {
        match (run.first_chunk::<N>(), run.last_chunk::<N>()) {
            (Some(first), Some(last)) => {
                cells.write(at as usize, first);
                cells.write(at as usize + run.len() - N, last);
            }
            _ => cells.write(at as usize, run),
        }
        at += plane.strides[0];
    }
}
