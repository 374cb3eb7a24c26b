//! Memory: the allocator and the reference-counted blocks that tensors share.

pub mod alloc;
mod cpu;
pub mod in_turn;
pub mod shared;

pub use cpu::{Access, Storage, anything_borrowed, empty_vec, expect_room, set_settle, vec_of};
