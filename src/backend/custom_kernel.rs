//! Kernels that users write, for the devices that take some.

pub use super::gpu::custom_kernel::Kernel as CustomKernel;
pub use super::gpu::device::of;
