//! Maps by identity numbers, which need no protection from chosen keys.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Spreads the bits of an address or of a hash by one multiplication.
#[derive(Default, Clone, Copy)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }

    fn write_u64(&mut self, v: u64) {
        self.0 = (self.0 ^ v).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn write_usize(&mut self, v: usize) {
        self.write_u64(v as u64);
    }

    fn write_u128(&mut self, v: u128) {
        self.write_u64(v as u64);
    }
}

pub type ById<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;
