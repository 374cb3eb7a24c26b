//! The CPU: plain loops compiled per instruction set, one pool of threads.

pub mod conv;
pub mod copy;
pub mod factor;
pub mod index;
pub mod interpret;
pub mod math;
pub mod matmul;
mod microkernel;
pub mod norm;
pub mod optim;
pub mod output;
pub mod parallel;
pub mod pointwise;
pub mod pool;
pub mod random;
pub mod reduce;
pub mod scan;
pub mod simd;
pub mod softmax;
pub mod sort;
pub mod svd;
mod transpose;
