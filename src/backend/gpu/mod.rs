//! GPUs of any vendor through wgpu: Vulkan, Metal, DX12.
//!
//! # How a kernel is launched
//!
//! The file of a kernel family (named like the CPU's) fills in a [`Launch`] and runs it:
//!
//! ```ignore
//! let gpu = device::of(out)?;
//! let mut params = Params::new(rows);
//! params.u32(columns);
//! gpu.launch(Launch {
//!     op: "softmax",                          // named in errors of the driver
//!     kernel: "softmax",                      // with the variant: what tells this shader from every other
//!     variant: &[x.dtype as u8],
//!     source: &|| template::shader(...),      // WGSL, rendered where the variant is new
//!     written: &[out],                        // bindings 1, 2, … in this order,
//!     read: &[x],                             // then these; binding 0 holds the parameters
//!     params: &params,
//!     groups: rows,                           // workgroups; laid out as (x, y) with x up to 65,535
//! })
//! ```
//!
//! The first parameters of every shader are `count` and `zero` (see Note [A zero that the compiler does not know]). A
//! binding covers the whole buffer of a storage, so the tensor's offset in elements is a parameter. A launch of zero
//! workgroups is skipped, and an empty tensor must not be bound. One buffer may be bound several times.
//!
//! # Execution
//!
//! Launches are recorded in one open compute pass, which is submitted after a number of launches or bytes, or when the
//! host needs a result. Memory is reused in program order without waiting (`buffer_pool`). Driver errors are reported
//! at the next synchronization (`error`). No device is touched before the first use of one.

pub mod axis;
mod buffer_pool;
pub mod cache;
pub mod conv;
pub mod copy;
pub mod custom_kernel;
pub mod device;
mod device_assert;
pub mod divide;
mod entry;
mod error;
pub mod factor;
pub mod fused;
mod group;
pub mod index;
pub mod instance;
pub mod lower_int64;
pub mod mask;
pub mod matmul;
pub mod norm;
pub mod optim;
mod packed_kernel;
mod params;
mod pipeline;
pub mod plane;
pub mod pointwise;
pub mod profile;
mod queue;
pub mod random;
pub mod reduce;
pub mod scan;
pub mod softmax;
pub mod sort;
pub mod svd;
pub mod triangle;
mod tune;
mod window;
mod workspace;

pub use buffer_pool::Allocation;
pub use device::{Caps, Gpu, of};
pub use entry::Wgpu;
pub use params::Params;
pub use pipeline::Launch;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, ignoring poisoning: the protected state is consistent after every statement.
fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}
