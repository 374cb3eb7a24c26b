//! Where products put their results: into memory, or piece by piece to the epilogue of a group (Note [Epilogues]).

use std::cell::Cell;
use std::ops::Range;

use super::lines::Line;
use super::matmul::with_scratch;
use super::microkernel::GemmElem;
use super::parallel::{for_chunks_mut, for_parts_mut, parallel_for};

/// Takes contiguous results, given the position of the first, on the thread that computed them.
pub type Take<'t, T> = &'t (dyn Fn(usize, &[T]) + Sync);

/// Where results are put.
pub enum Destination<'d, T> {
    Memory(&'d mut [T]),
    /// So many of them.
    Pieces(usize, Take<'d, T>),
}

/// Bytes of the largest pieces, which should stay in the second-level cache beside what they are computed from.
const LARGEST: usize = 1 << 19;

thread_local! {
    /// The piece that a thread computes.
    static PIECE: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// How many elements the largest pieces have.
pub fn largest<T>() -> usize {
    LARGEST / size_of::<T>()
}

/// Calls `f` with memory for a piece, whose elements have any values, then `take` with what it has written there.
pub fn give<T: GemmElem>(range: Range<usize>, take: Take<T>, f: impl FnOnce(&mut [T])) {
    with_scratch(&PIECE, range.len(), |piece: &mut [T]| {
        f(piece);
        take(range.start, piece);
    });
}

impl<T: GemmElem> Destination<'_, T> {
    pub fn len(&self) -> usize {
        match self {
            Destination::Memory(all) => all.len(),
            Destination::Pieces(len, _) => *len,
        }
    }

    /// Whether results may be computed so many at a time.
    pub fn takes(&self, piece: usize) -> bool {
        matches!(self, Destination::Memory(_)) || piece <= largest::<T>()
    }

    /// As one piece, which has any values before.
    pub fn whole(self, f: impl FnOnce(&mut [T])) {
        match self {
            Destination::Memory(all) => f(all),
            Destination::Pieces(len, take) => give(0..len, take, f),
        }
    }

    /// As [`for_chunks_mut`].
    pub fn for_chunks(self, chunk: usize, f: impl Fn(usize, &mut [T]) + Sync) {
        match self {
            Destination::Memory(all) => for_chunks_mut(all, chunk, f),
            Destination::Pieces(len, take) => parallel_for(len, chunk, |range| {
                give(range.clone(), take, |piece| f(range.start / chunk.max(1), piece));
            }),
        }
    }

    /// As [`for_parts_mut`].
    pub fn for_parts(self, bounds: &[usize], f: impl Fn(usize, &mut [T]) + Sync) {
        match self {
            Destination::Memory(all) => for_parts_mut(all, bounds, f),
            Destination::Pieces(_, take) => parallel_for(bounds.len().saturating_sub(1), 1, |parts| {
                parts.for_each(|i| give(bounds[i]..bounds[i + 1], take, |piece| f(i, piece)));
            }),
        }
    }
}
