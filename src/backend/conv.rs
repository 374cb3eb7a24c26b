//! The three products of a convolution: output, input gradient and weight gradient.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{View, of, same_device};
use crate::error::Result;

static WINOGRAD: AtomicBool = AtomicBool::new(true);

/// Whether Winograd's algorithm may be used, which is faster and rounds differently.
pub fn winograd_enabled() -> bool {
    WINOGRAD.load(Ordering::Relaxed)
}

/// Allows Winograd's algorithm or forbids it, for all threads.
pub fn enable_winograd(enabled: bool) {
    WINOGRAD.store(enabled, Ordering::Relaxed);
}

/// The sizes of a convolution. Lower ranks fill the leading spatial dimensions with size 1 and padding 0.
///
/// Input `[n, c_in, input...]`, weight `[c_out, c_in / groups, kernel...]`, output `[n, c_out, output...]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvShape {
    pub n: usize,
    pub c_in: usize,
    pub c_out: usize,
    pub groups: usize,
    pub input: [usize; 3],
    pub kernel: [usize; 3],
    pub stride: [usize; 3],
    pub padding: [usize; 3],
    pub dilation: [usize; 3],
    pub output: [usize; 3],
    /// Whether Winograd's algorithm may be used: what was set when [`product`] was called, which may defer it.
    pub winograd: bool,
}

impl ConvShape {
    /// The elements of a plane of the input or the output, or of a kernel, whichever a product makes.
    pub fn plane_of(&self, which: Product) -> usize {
        match which {
            Product::Output => &self.output,
            Product::Input => &self.input,
            Product::Weight => &self.kernel,
        }
        .iter()
        .product()
    }
}

/// Which of input `x`, weight `w` and output `y` is computed from the other two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Product {
    /// `y` from `x` and `w`.
    Output,
    /// `x` from `y` and `w`.
    Input,
    /// `w` from `y` and `x`.
    Weight,
}

/// The product of `a` and `b`, in the order given at [`Product`]; an output may have a bias per channel. All are dense
/// float32 or float64.
pub fn product(which: Product, s: &ConvShape, a: View, b: View, bias: Option<View>, out: View) -> Result<()> {
    let s = ConvShape { winograd: winograd_enabled(), ..*s };
    of(same_device([out, a, b].into_iter().chain(bias))?)?.convolution(which, &s, a, b, bias, out)
}

/// The gradient of the bias: sums `g`, the gradient of the output, over images and positions.
pub fn bias_gradient(s: &ConvShape, g: View, out: View) -> Result<()> {
    of(same_device([g, out])?)?.convolution_bias(s, g, out)
}
