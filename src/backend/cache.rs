//! Bounded caches of what is made of a list of words.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::layout::Layout;

/// The words of a key.
pub type Words = SmallVec<[u64; 256]>;

/// Appends the shape and the strides of a layout.
pub fn layout_words(layout: &Layout, words: &mut Words) {
    words.push(layout.shape.len() as u64);
    words.extend(layout.shape.iter().map(|n| *n as u64));
    words.extend(layout.strides.iter().map(|stride| *stride as u64));
}

/// At most so many values by their keys. One more empties it: a program that makes up shapes or formulas would otherwise fill the memory.
pub struct Cache<V, const MOST: usize>(FxHashMap<Box<[u64]>, V>);

impl<V, const MOST: usize> Default for Cache<V, MOST> {
    fn default() -> Self {
        Cache(FxHashMap::default())
    }
}

impl<V: Clone, const MOST: usize> Cache<V, MOST> {
    pub fn get(&self, key: &[u64]) -> Option<V> {
        self.0.get(key).cloned()
    }

    /// Keeps a value, unless there is one of that key. Returns the one that is kept, and the values that were removed: they are to be dropped where
    /// no lock or borrow is held.
    pub fn keep(&mut self, key: &[u64], value: V) -> (V, Self) {
        let removed = if self.0.len() >= MOST { std::mem::take(self) } else { Cache::default() };
        (self.0.entry(key.into()).or_insert(value).clone(), removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_cache_is_emptied_and_the_first_value_of_a_key_is_kept() {
        let mut cache = Cache::<u32, 2>::default();
        assert_eq!(cache.keep(&[1, 2], 5).0, 5);
        assert_eq!(cache.keep(&[1, 2], 6).0, 5);
        assert_eq!(cache.keep(&[1], 7).0, 7);
        let (kept, removed) = cache.keep(&[3], 8);
        assert_eq!((kept, removed.0.len(), cache.0.len()), (8, 2, 1));
        assert_eq!((cache.get(&[1, 2]), cache.get(&[3])), (None, Some(8)));
    }
}
