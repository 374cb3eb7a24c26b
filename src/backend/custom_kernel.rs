//! Kernels that users write, for the devices that take some.

pub use super::gpu::device::of;
pub use super::gpu::user::Kernel as CustomKernel;
