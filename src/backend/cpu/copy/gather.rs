//! Gathers elements of a view into a block.

use super::walk::Plane;
use crate::backend::cpu::simd::{Isa, IsaDispatch};
use crate::dtype::Element;
use crate::multiversion;

/// Longer runs are worth a call that copies or fills vectors.
pub(super) const VECTORS: usize = 16;
/// The longest runs that are copied by moves of vectors, without a call: half an attention head of 64 elements, as rotary embeddings
/// exchange them.
pub(super) const MOVED: usize = 32;
/// The longest runs that are copied by their ends.
pub(super) const ENDS: usize = 2 * MOVED;

/// Gathers runs that are so short that walking from one to the next would take longer than they do.
pub(super) fn gather_plane<T: Element>(src: &[T], mut at: isize, plane: Plane, out: &mut [T]) {
    let [down, across] = plane.strides;
    match (plane.inner, down, across) {
        (inner, 0, _) if out.len() > inner => {
            let (first, rest) = out.split_at_mut(inner);
            gather_plane(src, at, plane, first);
            return repeat_run(first, rest);
        }
        (2, 1.., 1) => return gather_pieces::<T, 2>(src, at, down, out),
        (3, 1.., 1) => return gather_pieces::<T, 3>(src, at, down, out),
        (4, 1.., 1) => return gather_pieces::<T, 4>(src, at, down, out),
        (8, 1.., 1) => return gather_pieces::<T, 8>(src, at, down, out),
        (16, 1.., 1) => return gather_pieces::<T, 16>(src, at, down, out),
        (MOVED, 1.., 1) => return gather_pieces::<T, MOVED>(src, at, down, out),
        (5..8, 1.., 1) => return gather_by_ends::<T, 4>(src, at, plane, out),
        (9..16, 1.., 1) => return gather_by_ends::<T, 8>(src, at, plane, out),
        (17..MOVED, 1.., 1) => return gather_by_ends::<T, 16>(src, at, plane, out),
        (MOVED..=ENDS, 1.., 1) => return gather_by_ends::<T, MOVED>(src, at, plane, out),
        (inner, 1.., 0) => return repeat_each(&src[at as usize..], down as usize, inner, out),
        (2.., _, -1) => return gather_reversed(src, at, plane, out),
        _ => {}
    }
    for out in out.chunks_mut(plane.inner) {
        if plane.inner > VECTORS && (across == 0 || across == 1) {
            gather(src, at, across, out);
        } else {
            let mut i = at;
            for o in out {
                *o = src[i as usize];
                i += across;
            }
        }
        at += down;
    }
}

/// Gathers elements at `offsets` from positions that are `step` elements after each other.
pub(super) fn gather_offsets<T: Element>(
    src: &[T],
    mut at: isize,
    step: isize,
    offsets: &[isize],
    out: &mut [T],
) {
    for out in out.chunks_mut(offsets.len().max(1)) {
        for (o, offset) in out.iter_mut().zip(offsets) {
            *o = src[(at + offset) as usize];
        }
        at += step;
    }
}

/// Gathers runs of `N` adjacent elements that begin `down` elements after each other.
fn gather_pieces<T: Element, const N: usize>(src: &[T], at: isize, down: isize, out: &mut [T]) {
    let mut from = at as usize;
    for piece in out.as_chunks_mut::<N>().0 {
        piece.copy_from_slice(&src[from..][..N]);
        from += down as usize;
    }
}

/// Gathers runs of `N` to `2 * N` adjacent elements, as their first and their last `N`, which have some in common.
fn gather_by_ends<T: Element, const N: usize>(src: &[T], at: isize, plane: Plane, out: &mut [T]) {
    let mut from = at as usize;
    for run in out.chunks_mut(plane.inner) {
        let source = &src[from..][..run.len()];
        match (run.first_chunk_mut::<N>(), source.first_chunk::<N>(), source.last_chunk::<N>()) {
            (Some(first), Some(start), Some(end)) => {
                *first = *start;
                if let Some(last) = run.last_chunk_mut::<N>() {
                    *last = *end;
                }
            }
            _ => run.copy_from_slice(source),
        }
        from += plane.strides[0] as usize;
    }
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    /// Repeats every `step`th element `n` times. The usual numbers of times are known to the compiler, which makes no call for each.
    pub(in crate::backend::cpu) fn repeat_each[T: Copy](src: &[T], step: usize, n: usize, out: &mut [T]) {
        match n {
            2 => repeat_few::<T, 2>(src, step, out),
            3 => repeat_few::<T, 3>(src, step, out),
            4 => repeat_few::<T, 4>(src, step, out),
            8 => repeat_few::<T, 8>(src, step, out),
            16 => repeat_few::<T, 16>(src, step, out),
            _ => out.chunks_mut(n).zip(src.iter().step_by(step)).for_each(|(run, v)| run.fill(*v)),
        }
    }
}

#[inline(always)]
fn repeat_few<T: Copy, const N: usize>(src: &[T], step: usize, out: &mut [T]) {
    let elements = src.iter().step_by(step);
    out.as_chunks_mut::<N>().0.iter_mut().zip(elements).for_each(|(run, v)| *run = [*v; N]);
}

/// Fills `out` with copies of a run, of which the last may be a part: each time it copies all that there are.
fn repeat_run<T: Element>(run: &[T], out: &mut [T]) {
    let first = run.len().min(out.len());
    out[..first].copy_from_slice(&run[..first]);
    let mut done = first;
    while done < out.len() {
        let more = done.min(out.len() - done);
        out.copy_within(..more, done);
        done += more;
    }
}

#[inline]
pub(super) fn gather<T: Element>(src: &[T], at: isize, stride: isize, out: &mut [T]) {
    let start = at as usize;
    match stride {
        1 => out.copy_from_slice(&src[start..start + out.len()]),
        0 => out.fill(src[start]),
        -1 => gather_reversed(src, at, Plane { inner: out.len(), strides: [0, -1] }, out),
        2..=4 => gather_steps(&src[start..], stride, out),
        _ => {
            let mut i = at;
            for o in out {
                *o = src[i as usize];
                i += stride;
            }
        }
    }
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    /// Runs whose elements are in reverse order.
    fn gather_reversed[T: Element](src: &[T], at: isize, plane: Plane, out: &mut [T]) {
        let mut end = at;
        for out in out.chunks_mut(plane.inner.max(1)) {
            let from = &src[end as usize + 1 - out.len()..=end as usize];
            out.iter_mut().zip(from.iter().rev()).for_each(|(o, s)| *o = *s);
            end += plane.strides[0];
        }
    }
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    /// Every second, third or fourth element. With a step that is known, the loop is vectorized.
    fn gather_steps[T: Element](src: &[T], step: isize, out: &mut [T]) {
        match step {
            2 => each_step::<T, 2>(src, out),
            3 => each_step::<T, 3>(src, out),
            _ => each_step::<T, 4>(src, out),
        }
    }
}

#[inline(always)]
fn each_step<T: Element, const STEP: usize>(src: &[T], out: &mut [T]) {
    let steps = src.as_chunks::<STEP>().0;
    let whole = steps.len().min(out.len());
    let (out, rest) = out.split_at_mut(whole);
    out.iter_mut().zip(&steps[..whole]).for_each(|(o, s)| *o = s[0]);
    // Of the last step perhaps only the first element is there.
    rest.iter_mut().zip(&src[whole * STEP..]).for_each(|(o, s)| *o = *s);
}
