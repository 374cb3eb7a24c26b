//! Queries and controls of devices: adapters, memory, profiling and caches.

pub use super::gpu::cache;
pub use super::gpu::device::{allocation, gpu, opened, reset};
pub use super::gpu::instance::{adapter, adapters};
