//! Vector products of dense tensors.

use super::reduce::ReduceDims;
use super::{View, of, same_device};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;

/// Whether vector products of a dtype have a kernel on a device.
pub fn crosses(device: Device, dtype: DType) -> Result<bool> {
    Ok(of(device)?.crosses(dtype))
}

/// The vector product of each pair of vectors along `d`, whose `n` is 3; all views have one shape and dtype.
pub fn cross(x: View, y: View, d: ReduceDims, out: View) -> Result<()> {
    of(same_device([x, y, out])?)?.cross(x, y, d, out)
}
