//! The CPU backend: plain loops compiled per instruction set, and one thread pool.

mod attention;
mod casts;
mod choice;
pub mod conv;
pub mod copy;
mod cross;
mod ctc;
pub mod eigen;
mod entry;
pub mod factor;
mod fused;
#[cfg_attr(not(target_arch = "x86_64"), path = "machine/absent.rs")]
mod halves;
pub mod index;
mod inspect;
pub mod interpret;
pub mod lines;
mod machine;
pub mod math;
pub mod matmul;
mod microkernel;
pub mod norm;
pub mod optim;
mod order;
pub mod output;
pub mod parallel;
mod pieces;
pub mod pointwise;
pub mod pool;
pub mod random;
mod recurrent;
pub mod reduce;
mod sampling;
pub mod scan;
pub use super::simd;
pub mod softmax;
pub mod sort;
pub mod svd;
mod transpose;
mod triangular;
mod vectors;

/// The CPU as a [`Backend`].
pub struct Cpu;
