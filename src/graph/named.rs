//! Dimensions as a caller named them.
//!
//! Note [Dimensions as they were named]
//! Operations count dimensions from the first on, and so do their functions. A node of PyTorch shows them as they were given:
//! from the last on, or in another order. Only the binding knows, so it writes them into the fresh node of a result
//! (`python/attributes.rs`), which shows them where they are the dimensions that it counts. Nothing is computed from them, and
//! results in place or in `out=` go without.

use std::sync::atomic::{AtomicU32, Ordering};

use smallvec::SmallVec;

/// Up to four dimensions, a byte each. More are not kept.
pub struct NamedDims(AtomicU32);

/// No dimension: no tensor has as many.
const NONE: i8 = i8::MAX;

impl Default for NamedDims {
    fn default() -> NamedDims {
        NamedDims(AtomicU32::new(u32::from_le_bytes([NONE as u8; 4])))
    }
}

impl NamedDims {
    pub fn set(&self, dims: &[i64]) {
        let mut bytes = [NONE as u8; 4];
        if dims.len() > bytes.len() {
            return;
        }
        for (byte, &d) in bytes.iter_mut().zip(dims) {
            let Ok(d) = i8::try_from(d) else { return };
            *byte = d as u8;
        }
        self.0.store(u32::from_le_bytes(bytes), Ordering::Relaxed);
    }

    /// What was set; nothing if that was never done.
    pub fn get(&self) -> SmallVec<[i64; 4]> {
        let bytes = self.0.load(Ordering::Relaxed).to_le_bytes();
        bytes.into_iter().map(|b| b as i8).take_while(|&d| d != NONE).map(i64::from).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_to_four_dimensions_are_kept_in_order_with_their_signs() {
        let kept = |dims: &[i64]| {
            let named = NamedDims::default();
            named.set(dims);
            named.get().to_vec()
        };
        assert_eq!(kept(&[]), []);
        assert_eq!(kept(&[-1]), [-1]);
        assert_eq!(kept(&[3, -64, 0, 63]), [3, -64, 0, 63]);
        assert_eq!(kept(&[0, 1, 2, 3, 4]), [], "more than four");
        assert_eq!(kept(&[1 << 40]), [], "no dimension");
    }
}
