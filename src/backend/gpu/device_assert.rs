//! Out-of-range indices, detected by kernels and reported at the next synchronization.
//!
//! A kernel that checks indices binds a record of four words: the kind of fault (0 if none), the index in two words,
//! and the bound. The first invocation that finds a fault writes it; the results are then unspecified, but no access
//! is out of bounds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use super::device::{Gpu, allocation};
use super::lock;
use crate::backend::View;
use crate::backend::calling::called;
use crate::backend::softmax::out_of_bounds;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::storage::Storage;

/// Words per record.
const WORDS: usize = 4;
/// Size of a record in bytes.
pub const SIZE: usize = WORDS * 4;

/// The fault record of a device.
pub struct Faults {
    storage: Storage,
    layout: Layout,
}

impl Faults {
    pub fn view(&self) -> View<'_> {
        View { storage: &self.storage, layout: &self.layout, dtype: DType::I32 }
    }
}

/// A device's fault record and its state.
#[derive(Default)]
pub struct FaultSlot {
    record: OnceLock<Faults>,
    /// Whether a kernel that may write the record was launched since it was last read.
    open: AtomicBool,
    /// The operations that launched such kernels; the words of faults contain indices into this list.
    callers: Mutex<Vec<&'static str>>,
}

impl Gpu {
    /// The record, for a kernel that is about to be launched with it.
    pub fn faults(&'static self) -> Result<&'static Faults> {
        self.fault_slot.open.store(true, Ordering::Release);
        if let Some(found) = self.fault_slot.record.get() {
            return Ok(found);
        }
        let storage = self.allocate(SIZE)?;
        if let Some(block) = allocation(&storage).and_then(|a| a.block()) {
            self.upload(block, 0, &[0; SIZE])?;
        }
        let made = Faults { storage, layout: Layout::contiguous([WORDS].into()) };
        Ok(self.fault_slot.record.get_or_init(|| made))
    }

    /// The fault word of a kind, for a kernel launched by the current operation.
    pub fn fault_word(&self, kind: u32) -> u32 {
        let (name, mut callers) = (called(), lock(&self.fault_slot.callers));
        let place = callers.iter().position(|c| *c == name).unwrap_or_else(|| {
            callers.push(name);
            callers.len() - 1
        });
        kind | (place as u32 + 1) << 16
    }

    /// The record, if a kernel may have written it since it was last read.
    pub(super) fn open_faults(&self) -> Option<&Faults> {
        if self.fault_slot.open.swap(false, Ordering::AcqRel) { self.fault_slot.record.get() } else { None }
    }

    /// The error described by a record, which is then cleared.
    pub(super) fn told(&self, faults: &Faults, record: &[u8]) -> Result<()> {
        let word = |i: usize| {
            let mut b = [0; 4];
            b.copy_from_slice(&record[4 * i..4 * i + 4]);
            u32::from_le_bytes(b)
        };
        if word(0) == 0 {
            return Ok(());
        }
        if let Some(block) = allocation(&faults.storage).and_then(|a| a.block()) {
            self.upload(block, 0, &[0; SIZE])?;
        }
        let index = (word(1) as u64 | (word(2) as u64) << 32) as i64;
        let error = fault(word(0), index, word(3));
        if word(0) & 0xff == DIVISION {
            return Err(error);
        }
        let caller = match (word(0) >> 16) as usize {
            0 => "nll_loss",
            place => lock(&self.fault_slot.callers).get(place - 1).copied().unwrap_or_default(),
        };
        // Indexing with brackets is not an operation of the table, so it has no name there.
        let caller = if caller.is_empty() && word(0) & 0xff == DIMENSION { "index" } else { caller };
        let found = if caller.is_empty() { String::new() } else { format!("'{caller}' on ") };
        Err(error
            .map_text(|text| format!("{text} ({found}gpu:{}: index {index}, bound {})", self.index, word(3))))
    }
}

/// Kinds of faults. A fault word consists of the kind, for some kinds the dimension in the next eight bits, and the
/// calling operation in the remaining bits, unless it follows from the kind.
pub const CLASS: u32 = 1;
pub const LISTED: u32 = 2;
pub const FLAT: u32 = 3;
pub const DIMENSION: u32 = 4;
pub const ALONG: u32 = 5;
pub const DIVISION: u32 = 6;

/// The fault word for a dimension.
pub const fn in_dimension(kind: u32, dim: usize) -> u32 {
    kind | (dim as u32) << 8
}

fn fault(word: u32, index: i64, size: u32) -> Error {
    let outside =
        format!("index {index} is out of bounds for dimension {} with size {size}", word >> 8 & 0xff);
    match word & 0xff {
        CLASS => out_of_bounds(index),
        LISTED => Error::Index("index out of range in self".into()),
        FLAT => Error::Index(format!(
            "out of range: tried to access index {index} on a tensor of {size} elements."
        )),
        DIVISION => Error::ZeroDivision,
        ALONG => Error::Runtime(outside),
        _ => Error::Index(outside),
    }
}
