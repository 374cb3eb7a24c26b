//! The number of threads of CPU kernels.

pub use super::cpu::parallel::{num_threads, set_num_threads};
