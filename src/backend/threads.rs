//! How many threads kernels of the host use.

pub use super::cpu::parallel::{num_threads, set_num_threads};
