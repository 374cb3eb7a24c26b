//! Values that are computed only to be copied in another order of dimensions, computed in that order.
//!
//! Note [Permuted copies] `(pictures.float() / 255).permute(0, 3, 1, 2).contiguous()` stores quotients to copy them in another order. If nothing
//! else reads them, they are computed in the order of the copy: all dimensions of what makes them are permuted, so that operands in memory
//! are read with other strides, and the copy is of the same group. Strided reads of long dimensions would take longer than the copy, which
//! moves whole tiles, so operands must be adjacent, or nearly so, along the last dimension of the copy.

use rustc_hash::FxHashMap;

use super::{Used, is_whole, uses_of};
use crate::backend::defer::queue::{Entry, Held, In, Work};
use crate::layout::{Dims, Layout};

/// The longest step between the elements of a run that are read one by one.
const LONGEST_STEP: usize = 4;

/// A permutation of the dimensions of a dense tensor.
struct Permutation {
    shape: Dims,
    /// By dimension of the permuted view, that of the tensor.
    order: Vec<usize>,
}

impl Permutation {
    /// The permutation that makes a layout of a dense one at the beginning of the memory.
    fn of(layout: &Layout) -> Option<Permutation> {
        let rank = layout.rank();
        let mut by_stride: Vec<usize> = (0..rank).collect();
        by_stride.sort_by_key(|&d| (std::cmp::Reverse(layout.strides[d]), d));
        let shape: Dims = by_stride.iter().map(|&d| layout.shape[d]).collect();
        let mut order = vec![0; rank];
        by_stride.iter().enumerate().for_each(|(place, &d)| order[d] = place);
        let dense = Layout::contiguous(shape.clone());
        let same = (0..rank).all(|d| layout.shape[d] == 1 || dense.strides[order[d]] == layout.strides[d]);
        (layout.offset == 0 && same).then_some(Permutation { shape, order })
    }

    /// A layout of the tensor's shape, or of another shape with as many elements, with the dimensions permuted.
    fn apply(&self, layout: &Layout) -> Option<Layout> {
        Some(layout.reshape(&self.shape)?.permute(&self.order))
    }
}

/// The entries with values computed in the order in which they are copied; None if there are none.
pub fn permute(entries: &[Entry], is_grouped: impl Fn(&Entry) -> bool) -> Option<Vec<Entry>> {
    let is_permuted = |e: &Entry| match (&e.work, &e.ins[..]) {
        (Work::Copy, [In::View(v)]) => {
            !v.layout.is_contiguous() && is_whole(&e.out.layout) && v.storage.is_missing() && is_grouped(e)
        }
        _ => false,
    };
    if !entries.iter().any(is_permuted) {
        return None;
    }
    let used = uses_of(entries);
    let mut permuted: FxHashMap<usize, Entry> = FxHashMap::default();
    for at in (0..entries.len()).filter(|&at| is_permuted(&entries[at])) {
        permuted.extend(chain_of(entries, &used, at).unwrap_or_default());
    }
    if permuted.is_empty() {
        return None;
    }
    let of = |(at, e): (usize, &Entry)| permuted.remove(&at).unwrap_or_else(|| e.clone());
    Some(entries.iter().enumerate().map(of).collect())
}

/// The copy at `copy` and what makes its elements, in its order; None if that cannot be, or would not be faster.
fn chain_of(entries: &[Entry], used: &FxHashMap<usize, Used>, copy: usize) -> Option<Vec<(usize, Entry)>> {
    let e = &entries[copy];
    let source = e.ins.first()?.held()?;
    let permutation = Permutation::of(&source.layout)?;
    let dense = Layout::contiguous(e.out.layout.shape.clone());
    // The entry that alone computes a view, for one other alone.
    let maker = |v: &Held, reader: usize| {
        let of = used.get(&v.storage.id())?;
        let writer = of.only_writer().filter(|w| *w < reader && of.readers.iter().all(|r| *r == reader))?;
        let made = &entries[writer];
        let computes = matches!(made.work, Work::Map { .. } | Work::Copy) && is_whole(&made.out.layout);
        (computes && made.out.dtype == v.dtype && made.out.layout.numel() == dense.numel()).then_some(writer)
    };
    let in_order = |v: &Held| Held { layout: dense.clone(), ..v.clone() };
    let first = maker(source, copy)?;
    let mut permuted =
        vec![(copy, Entry { ins: [In::View(in_order(source))].into_iter().collect(), ..e.clone() })];
    let mut next = vec![first];
    while let Some(at) = next.pop() {
        let e = &entries[at];
        let mut ins = e.ins.clone();
        for v in &mut ins {
            let In::View(v) = v else { continue };
            if v.layout.shape != e.out.layout.shape || v.storage.same(&e.out.storage) {
                return None;
            }
            match maker(v, at).filter(|_| is_whole(&v.layout)) {
                Some(writer) => {
                    if !next.contains(&writer) {
                        next.push(writer);
                    }
                    *v = in_order(v);
                }
                // It is in a group with its readers as it is.
                None if v.storage.is_missing() => return None,
                None => {
                    v.layout = permutation.apply(&v.layout)?;
                    let last = (0..v.layout.rank()).rfind(|&d| v.layout.shape[d] > 1);
                    if last.is_some_and(|d| v.layout.strides[d].unsigned_abs() > LONGEST_STEP) {
                        return None;
                    }
                }
            }
        }
        permuted.push((at, Entry { ins, out: in_order(&e.out), ..e.clone() }));
    }
    Some(permuted)
}
