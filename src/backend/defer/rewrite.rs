//! Entries in another form, in which more of them are in one group.

mod permute;
mod split;

use rustc_hash::FxHashMap;

use super::queue::{Entry, In};
use crate::layout::Layout;
use crate::storage::Storage;

/// The entries in the form that is computed; None if it is the one that they have. `is_grouped` tells whether the backend of an
/// entry's device has groups over parts of rows.
pub fn rewrite(entries: &[Entry], is_grouped: impl Fn(&Entry) -> bool) -> Option<Vec<Entry>> {
    let permuted = permute::permute(entries, &is_grouped);
    split::split(permuted.as_deref().unwrap_or(entries), is_grouped).or(permuted)
}

/// A storage that entries write and read.
struct Used<'e> {
    storage: &'e Storage,
    writers: Vec<usize>,
    readers: Vec<usize>,
    /// Whether somebody outside of the entries has it.
    is_kept: bool,
}

impl Used<'_> {
    /// The entry that alone writes it, if nobody outside of the entries has it.
    fn only_writer(&self) -> Option<usize> {
        match self.writers[..] {
            [writer] if !self.is_kept => Some(writer),
            _ => None,
        }
    }
}

fn uses_of(entries: &[Entry]) -> FxHashMap<usize, Used<'_>> {
    let mut used: FxHashMap<usize, Used> = FxHashMap::default();
    for (at, e) in entries.iter().enumerate() {
        for (v, writes) in e.ins.iter().filter_map(In::held).map(|v| (v, false)).chain([(&e.out, true)]) {
            let fresh =
                || Used { storage: &v.storage, writers: Vec::new(), readers: Vec::new(), is_kept: false };
            let of = used.entry(v.storage.id()).or_insert_with(fresh);
            if writes { &mut of.writers } else { &mut of.readers }.push(at);
        }
    }
    // Now, as entries that are made of these will have further handles.
    for of in used.values_mut() {
        of.is_kept = of.storage.handles() > of.writers.len() + of.readers.len();
    }
    used
}

/// Whether a layout has all elements from the beginning of its memory on, in order.
fn is_whole(layout: &Layout) -> bool {
    layout.offset == 0 && layout.is_contiguous()
}
