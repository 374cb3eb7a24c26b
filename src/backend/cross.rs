//! Vector products of dense tensors.

use super::reduce::ReduceDims;
use super::{View, of, same_device};
use crate::error::Result;

/// The vector product of each pair of vectors along `d`, whose `n` is 3; all views have one shape and dtype. False if there is no kernel for it.
pub fn cross(x: View, y: View, d: ReduceDims, out: View) -> Result<bool> {
    of(same_device([x, y, out])?)?.cross(x, y, d, out)
}
