//! Memory on any device, and the ways between devices.

#[cfg(feature = "gpu")]
use super::gpu;
use super::{View, by_device, copy};
use crate::device::Device;
use crate::error::Result;
use crate::layout::Layout;
use crate::storage::Storage;

/// Memory of unspecified contents.
#[inline]
pub fn alloc(len: usize, device: Device) -> Result<Storage> {
    match device {
        Device::Cpu => Storage::new(len),
        #[cfg(feature = "gpu")]
        Device::Gpu(index) => gpu::device::gpu(index)?.allocate(len),
        #[cfg(not(feature = "gpu"))]
        device => Err(crate::error::Error::DeviceNotImplemented { op: None, device, what: String::new() }),
    }
}

/// Writes the elements of `src` to `out`, which has the same shape: the way from one device to another, with a cast
/// where the dtypes differ.
pub fn transfer(src: View, out: View) -> Result<()> {
    match (src.device(), out.device()) {
        (a, b) if a == b => copy::copy(src, out),
        _ if out.layout.numel() == 0 => Ok(()),
        (Device::Cpu, _) => upload(src, out),
        (_, Device::Cpu) => {
            let (host, layout) = download(src)?;
            copy::copy(View { storage: &host, layout: &layout, dtype: src.dtype }, out)
        }
        _ => {
            let (host, layout) = download(src)?;
            upload(View { storage: &host, layout: &layout, dtype: src.dtype }, out)
        }
    }
}

/// The elements of a view in memory of the host, in row-major order, and their layout there.
pub fn download(src: View) -> Result<(Storage, Layout)> {
    let layout = Layout::contiguous(src.layout.shape.clone());
    let host = by_device!(src.device(),
        cpu => {
            let host = Storage::new(layout.numel() * src.dtype.size())?;
            copy::copy(src, View { storage: &host, layout: &layout, dtype: src.dtype })?;
            Ok(host)
        },
        gpu => gpu::copy::download(src)
    )?;
    Ok((host, layout))
}

fn upload(src: View, out: View) -> Result<()> {
    by_device!(out.device(),
        cpu => copy::copy(src, out),
        gpu => {
            let layout = Layout::contiguous(src.layout.shape.clone());
            if src.layout.is_contiguous() && src.dtype == out.dtype {
                return gpu::copy::upload(src, out);
            }
            let host = Storage::new(layout.numel() * out.dtype.size())?;
            let dense = View { storage: &host, layout: &layout, dtype: out.dtype };
            copy::copy(src, dense)?;
            gpu::copy::upload(dense, out)
        }
    )
}

/// Waits until a device has done everything it was asked to.
pub fn synchronize(device: Device) -> Result<()> {
    match device {
        Device::Cpu => Ok(()),
        #[cfg(feature = "gpu")]
        Device::Gpu(index) => gpu::device::gpu(index)?.finish(),
        #[cfg(not(feature = "gpu"))]
        device => Err(crate::error::Error::DeviceNotImplemented { op: None, device, what: String::new() }),
    }
}
