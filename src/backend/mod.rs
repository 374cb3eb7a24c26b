//! The backends: a driver per kernel family, which works on memory and layouts and does not know the graph.
//!
//! Each family has a module here, which checks that all operands are on one device and calls the [`Backend`] of that
//! device.

pub mod attention;
mod cache;
pub mod calling;
mod checked;
pub mod conv;
pub mod copy;
pub mod cpu;
pub mod cross;
pub mod ctc;
#[cfg(feature = "gpu")]
pub mod custom_kernel;
pub mod defer;
#[cfg(feature = "gpu")]
pub mod device_info;
pub mod factor;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod group;
pub mod index;
pub mod inspect;
mod interface;
pub mod matmul;
pub mod memory;
mod meta;
pub mod norm;
pub mod optim;
pub mod plane;
pub mod pointwise;
pub mod random;
pub mod recurrent;
pub mod reduce;
pub mod sampling;
pub mod scan;
pub mod simd;
pub mod softmax;
pub mod sort;
pub mod svd;
pub mod threads;
pub mod triangle;

pub use interface::{Backend, of, of_now};

use crate::device::Device;
use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::storage::Storage;

/// A tensor as the backend sees it: storage, layout and dtype.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub storage: &'a Storage,
    pub layout: &'a Layout,
    pub dtype: DType,
}

impl<'a> View<'a> {
    /// The view itself if its elements are aligned, else a view of an aligned copy of its memory, which is stored in
    /// `place`.
    #[inline]
    pub fn aligned<'b>(self, place: &'b mut Option<Storage>) -> Result<View<'b>>
    where
        'a: 'b,
    {
        if self.is_aligned() {
            return Ok(self);
        }
        Ok(View { storage: place.insert(Storage::from_slice(self.storage.slice::<u8>())?), ..self })
    }

    #[inline(always)]
    pub fn device(&self) -> Device {
        self.storage.device()
    }

    /// Errors unless the memory is on the host.
    #[inline(always)]
    pub fn on_host(&self) -> Result<()> {
        match self.device() {
            Device::Cpu => Ok(()),
            device => Err(Error::DeviceNotImplemented { op: None, device, what: self.described() }),
        }
    }

    /// The same memory viewed as integers of the same size, for what only moves bits.
    pub fn bits(self) -> Self {
        let dtype = match self.dtype.size() {
            1 => DType::U8,
            2 => DType::I16,
            4 => DType::I32,
            _ => DType::I64,
        };
        View { dtype, ..self }
    }

    /// Whether the elements are aligned to their size; borrowed memory may start at any address.
    #[inline(always)]
    pub fn is_aligned(&self) -> bool {
        self.storage.is_aligned(self.dtype.size())
    }

    /// The address range from the first to the last element; None if there are none.
    fn bytes(&self) -> Option<std::ops::Range<isize>> {
        let (start, size) = (self.storage.address() as isize, self.dtype.size() as isize);
        self.layout.extent().map(|(lo, hi)| start + lo * size..start + (hi + 1) * size)
    }

    /// Whether the address ranges of both intersect; compared by address, since several storages may borrow one
    /// buffer. The elements may still be distinct, lying in gaps of the other view.
    #[inline]
    pub fn overlaps(&self, other: &View) -> bool {
        self.storage.overlaps(other.storage)
            && match (self.bytes(), other.bytes()) {
                (Some(a), Some(b)) => a.start < b.end && b.start < a.end,
                _ => false,
            }
    }

    /// The dtype and the name of the adapter, for messages.
    #[cold]
    fn described(&self) -> String {
        #[cfg(feature = "gpu")]
        if let Ok(gpu) = gpu::of(*self) {
            return format!(" (torch.{} on {})", self.dtype.name(), gpu.caps.name);
        }
        format!(" (torch.{})", self.dtype.name())
    }
}

/// The elements of a dense host view. An empty view may have an offset beyond its memory.
fn elements<'a, T: Element>(v: View<'a>) -> &'a [T] {
    &v.storage.slice::<T>().get(v.layout.offset..).unwrap_or_default()[..v.layout.numel()]
}

/// As `elements`, writable; see Note [Outputs] in `cpu/output.rs`.
#[inline]
fn results<T: Element>(v: View<'_>) -> Result<cpu::output::Output<'_, T>> {
    cpu::output::Output::of(v)
}

/// The device of all views; an error if they are on different devices.
#[inline]
pub fn same_device<'a>(views: impl IntoIterator<Item = View<'a>>) -> Result<Device> {
    let mut found = None;
    for v in views {
        match found {
            None => found = Some(v.device()),
            Some(d) if d == v.device() => {}
            Some(d) => return Err(Error::DevicesDiffer(d, v.device())),
        }
    }
    Ok(found.unwrap_or_default())
}

/// Whether a device supports computation in a dtype.
pub fn computes(device: Device, dtype: DType) -> bool {
    of(device).is_ok_and(|backend| backend.computes(device, dtype))
}
