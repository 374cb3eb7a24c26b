//! What there is to know and to do about the devices themselves: their adapters, memory, profiles and caches.

pub use super::gpu::cache;
pub use super::gpu::device::{allocation, gpu, opened, reset};
pub use super::gpu::instance::{adapter, adapters};
