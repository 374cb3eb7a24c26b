//! Dimension arguments as the caller wrote them.
//!
//! Note [Dimensions as they were named] Operations and their functions normalize dimensions to non-negative numbers.
//! PyTorch's nodes show them as given: negative, or in another order. Only the binding sees the original arguments, so
//! it stores them in the new node of a result (`python/attributes.rs`), which shows them wherever they agree with the
//! normalized ones. They affect no computation, and in-place and `out=` results do without.

use std::sync::atomic::{AtomicU32, Ordering};

use smallvec::SmallVec;

/// Up to four dimensions of one byte each; longer lists are not kept.
pub struct NamedDims(AtomicU32);

/// Marks an unused byte; no tensor has that many dimensions.
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

    /// The stored dimensions; empty if never set.
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
        let none: [i64; 0] = [];
        assert_eq!(kept(&[]), none);
        assert_eq!(kept(&[-1]), [-1]);
        assert_eq!(kept(&[3, -64, 0, 63]), [3, -64, 0, 63]);
        assert_eq!(kept(&[0, 1, 2, 3, 4]), none, "more than four");
        assert_eq!(kept(&[1 << 40]), none, "no dimension");
    }
}
