//! Memory: the allocator and the reference-counted blocks that tensors share.

pub mod alloc;
mod cpu;
pub mod shared;

pub use cpu::{Storage, anything_borrowed, empty_vec, expect_room, vec_of};
