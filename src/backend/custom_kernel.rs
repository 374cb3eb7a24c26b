//! Kernels written by users, for devices that support them.

pub use super::gpu::custom_kernel::Kernel as CustomKernel;
pub use super::gpu::device::of;
