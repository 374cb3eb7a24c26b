//! The pointwise operations: one declaration each, with the formula and its derivative.
//!
//! A declaration generates the CPU loops, the fused and the differentiable backward, the saved tensors, the WGSL code,
//! the method, the function, the in-place and `out=` forms, the stub, the documentation page and the tests. See
//! CONTRIBUTING.md.

mod activation;
mod binary;
mod truth;
mod unary;

use std::sync::LazyLock;

pub use activation::*;
pub use binary::*;
pub use truth::*;
pub(in crate::ops) use unary::sign_of;
pub use unary::*;

use super::pointwise::PointwiseOp;

/// All pointwise operations.
pub static ROWS: LazyLock<Vec<&'static PointwiseOp>> =
    LazyLock::new(|| [UNARY, BINARY, TRUTH, ACTIVATION].iter().flat_map(|t| t.iter().copied()).collect());
