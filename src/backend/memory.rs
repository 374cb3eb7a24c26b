//! Memory of any device, and transfers between devices.

use super::cpu::copy::StridedCursor;
use super::cpu::parallel::for_chunks_mut;
use super::{View, checked, copy, defer, of, results};
use crate::device::Device;
use crate::dtype::{Element, Scalar};
use crate::error::Result;
use crate::layout::Layout;
use crate::storage::{Storage, empty_vec, vec_of};
use crate::with_dtype;

/// Allocates memory with unspecified contents.
#[inline]
pub fn alloc(len: usize, device: Device) -> Result<Storage> {
    match device {
        // Small CPU operations skip the dispatch through a vtable.
        Device::Cpu if !checked::on() && !defer::any_region() => Storage::new(len),
        device => of(device)?.allocate(device, len),
    }
}

/// Writes the elements of `src` to `out`, which has the same shape, from one device to another, with a cast if the
/// dtypes differ.
pub fn transfer(src: View, out: View) -> Result<()> {
    match (src.device(), out.device()) {
        (a, b) if a == b => copy::copy(src, out),
        _ if out.layout.numel() == 0 => Ok(()),
        (Device::Cpu, to) => of(to)?.upload(src, out),
        (_, to) => {
            let (host, layout) = download(src)?;
            of(to)?.upload(View { storage: &host, layout: &layout, dtype: src.dtype }, out)
        }
    }
}

/// Copies the elements of a view to host memory in row-major order; returns them with their layout.
pub fn download(src: View) -> Result<(Storage, Layout)> {
    let host = of(src.device())?.download(src)?;
    Ok((host, Layout::contiguous(src.layout.shape.clone())))
}

/// Waits until all work submitted to a device has finished.
pub fn synchronize(device: Device) -> Result<()> {
    of(device)?.synchronize(device)
}

/// The elements of a view in row-major order, converted to `T`.
pub fn read<T: Element>(src: View, out: &mut [T]) -> Result<()> {
    if src.device() == Device::Cpu {
        expect_written(src)?;
        read_host(src, out);
    } else {
        let (storage, layout) = download(src)?;
        read_host(View { storage: &storage, layout: &layout, dtype: src.dtype }, out);
    }
    Ok(())
}

/// The elements of a view in row-major order as numbers.
pub fn scalars(src: View) -> Result<Vec<Scalar>> {
    let mut numbers = empty_vec(src.layout.numel())?;
    with_dtype!(bits src.dtype, T => {
        let mut bits = vec_of(T::from_i64(0), src.layout.numel())?;
        if !bits.is_empty() {
            read(src.bits(), &mut bits)?;
        }
        numbers.extend(bits.iter().map(|v| Scalar::read(src.dtype, bytemuck::bytes_of(v))));
    });
    Ok(numbers)
}

/// The first element of a view of host memory, which may be misaligned.
pub fn scalar(src: View) -> Scalar {
    let bytes = src.storage.slice::<u8>();
    Scalar::read(src.dtype, &bytes[src.layout.offset * src.dtype.size()..])
}

/// As [`read`], for host memory, which may be misaligned.
pub fn read_host<T: Element>(src: View, out: &mut [T]) {
    StridedCursor::new(src, 0).read(out);
}

/// Elements per task of [`fill_by_position`].
const CHUNK: usize = 1 << 14;

/// Sets element `i` of dense host memory to `at(i)`.
pub fn fill_by_position<T: Element>(out: View, at: impl Fn(usize) -> T + Sync) -> Result<()> {
    out.on_host()?;
    for_chunks_mut(&mut results::<T>(out)?, CHUNK, |c, chunk| {
        for (i, v) in chunk.iter_mut().enumerate() {
            *v = at(c * CHUNK + i);
        }
    });
    note_written(out.storage);
    Ok(())
}

/// Tells those who check calls that memory is written without the backend.
#[inline]
pub fn note_written(s: &Storage) {
    if checked::on() {
        checked::lent(s);
    }
}

/// The address of the host's memory, for code that reads and writes there without asking.
///
/// # Errors
/// `RuntimeError` when out of memory.
pub fn lend(s: &Storage) -> Result<*mut u8> {
    note_written(s);
    s.lend()
}

/// Errors where calls are checked and nothing has written what is to be read without the backend.
#[inline]
pub fn expect_written(v: View) -> Result<()> {
    if checked::on() { checked::expect_written(v) } else { Ok(()) }
}
