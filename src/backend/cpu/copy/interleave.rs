//! Several tensors joined element by element.

use smallvec::SmallVec;

use super::GRAIN;
use crate::backend::View;
use crate::backend::cpu::output::Output;
use crate::backend::cpu::parallel::for_ranges_mut;
use crate::backend::cpu::simd::{Isa, IsaDispatch};
use crate::dtype::{DType, Element};
use crate::error::Result;
use crate::multiversion;

/// Most tensors that are read side by side.
const MOST: usize = 8;

/// See [`crate::backend::copy::interleave`]. One pass writes each cache line once, where copies to views of the result
/// would fetch and write it once for each tensor.
pub fn interleave(parts: &[View], out: View) -> Result<bool> {
    let plain = |v: &View| v.dtype == out.dtype && v.layout.is_contiguous() && v.is_aligned();
    let readable = |v: &View| plain(v) && !v.overlaps(&out);
    if !(2..=MOST).contains(&parts.len()) || !plain(&out) || !parts.iter().all(readable) {
        return Ok(false);
    }
    match out.bits().dtype {
        DType::U8 => run::<u8>(parts, out.bits()),
        DType::I16 => run::<i16>(parts, out.bits()),
        DType::I32 => run::<i32>(parts, out.bits()),
        _ => run::<i64>(parts, out.bits()),
    }
    .map(|()| true)
}

fn run<T: Element>(parts: &[View], out: View) -> Result<()> {
    let count = parts.len();
    let parts: SmallVec<[&[T]; MOST]> =
        parts.iter().map(|v| v.storage.slice::<T>().get(v.layout.offset..).unwrap_or_default()).collect();
    for_ranges_mut(&mut Output::<T>::of(out)?, GRAIN / count * count, |range, out| {
        let first = range.start / count;
        let parts: SmallVec<[&[T]; MOST]> = parts.iter().map(|part| &part[first..]).collect();
        alternate(&parts, out);
    });
    Ok(())
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    /// Writes the first elements of all parts, then the second ones and so on.
    pub(super) fn alternate[T: Element](parts: &[&[T]], out: &mut [T]) {
        match *parts {
            [a, b] => {
                for ((pair, a), b) in out.as_chunks_mut().0.iter_mut().zip(a).zip(b) {
                    *pair = [*a, *b];
                }
            }
            [a, b, c] => {
                for (((triple, a), b), c) in out.as_chunks_mut().0.iter_mut().zip(a).zip(b).zip(c) {
                    *triple = [*a, *b, *c];
                }
            }
            [a, b, c, d] => {
                for ((((four, a), b), c), d) in out.as_chunks_mut().0.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                    *four = [*a, *b, *c, *d];
                }
            }
            _ => {
                for (i, group) in out.chunks_exact_mut(parts.len().max(1)).enumerate() {
                    group.iter_mut().zip(parts).for_each(|(o, part)| *o = part[i]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use crate::storage::Storage;

    #[test]
    fn parts_alternate_in_the_result() {
        for (count, n) in [(2, 5), (3, GRAIN), (4, 37), (8, 1), (2, GRAIN + 7), (3, GRAIN + 1)] {
            let layout = Layout::contiguous([n].into());
            let storages: Vec<Storage> = (0..count)
                .map(|part| {
                    Storage::from_slice(&(0..n).map(|i| (i * count + part) as i16).collect::<Vec<_>>())
                })
                .collect::<Result<_>>()
                .unwrap();
            let parts: Vec<View> =
                storages.iter().map(|storage| View { storage, layout: &layout, dtype: DType::F16 }).collect();
            let (out, whole) = (Storage::new(2 * n * count).unwrap(), Layout::contiguous([n, count].into()));
            assert!(interleave(&parts, View { storage: &out, layout: &whole, dtype: DType::F16 }).unwrap());
            assert!(out.slice::<i16>().iter().enumerate().all(|(i, &v)| v == i as i16), "{count} {n}");
        }
    }

    #[test]
    fn one_part_and_parts_with_strides_are_left_to_copies() {
        let storage = Storage::zeroed(64).unwrap();
        let out = Storage::zeroed(64).unwrap();
        let (dense, whole) = (Layout::contiguous([4].into()), Layout::contiguous([4, 2].into()));
        let strided = Layout { strides: [2].into(), ..dense.clone() };
        let view = |layout| View { storage: &storage, layout, dtype: DType::F32 };
        let out = View { storage: &out, layout: &whole, dtype: DType::F32 };
        assert!(!interleave(&[view(&dense)], out).unwrap());
        assert!(!interleave(&[view(&dense), view(&strided)], out).unwrap());
        assert!(interleave(&[view(&dense), view(&dense)], out).unwrap());
    }
}
