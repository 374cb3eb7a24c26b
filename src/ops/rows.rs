//! The table of pointwise operations: a row each, with its formula and its derivative.
//!
//! From a row follow the CPU loops, the fused and the differentiable backward, what is saved, the WGSL text, the
//! method, the function, the `_` and `out=` forms, the stub, the docs page and the tests. See CONTRIBUTING.md.

mod activation;
mod binary;
mod truth;
mod unary;

use std::sync::LazyLock;

pub use activation::*;
pub use binary::*;
pub use truth::*;
pub use unary::*;

use super::pointwise::PointwiseOp;

/// Every row there is.
pub static ROWS: LazyLock<Vec<&'static PointwiseOp>> =
    LazyLock::new(|| [UNARY, BINARY, TRUTH, ACTIVATION].iter().flat_map(|t| t.iter().copied()).collect());
