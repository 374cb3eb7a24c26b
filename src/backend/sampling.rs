//! Samples of images at positions between their pixels.

use super::{View, of, same_device};
use crate::error::Result;

/// How a value between pixels follows from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpolation {
    Linear,
    Nearest,
    Cubic,
}

impl Interpolation {
    /// The pixels along one dimension that contribute to a sample.
    pub fn taps(self) -> usize {
        match self {
            Interpolation::Linear => 2,
            Interpolation::Nearest => 1,
            Interpolation::Cubic => 4,
        }
    }
}

/// The parameter `a` of cubic convolution.
pub const CUBIC: f64 = -0.75;

/// What lies outside of an image: zeros, its outermost pixels, or its reflection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    Zeros,
    Border,
    Reflection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    pub interpolation: Interpolation,
    pub padding: Padding,
    /// Whether -1 and 1 are the centres of the outermost pixels, or their outer edges.
    pub align_corners: bool,
}

impl Sampling {
    /// The factor and the shift by which `(x + 1) * factor - shift` is the pixel at position `x` of a dimension of `n` pixels.
    pub fn scale(&self, n: usize) -> (f64, f64) {
        if self.align_corners { ((n as f64 - 1.0) / 2.0, 0.0) } else { (n as f64 / 2.0, 0.5) }
    }

    /// Where the image ends along a dimension of `n` pixels, for reflection.
    pub fn ends(&self, n: usize) -> (f64, f64) {
        let (low, high) = (0.0, n as f64 - 1.0);
        if self.align_corners { (low, high) } else { (low - 0.5, high + 0.5) }
    }
}

/// Samples dense images, `[n, channels, sizes...]`, at dense positions, `[n, output..., dimensions]`. False if there is no
/// kernel for it.
pub fn sample(how: Sampling, images: View, grid: View, out: View) -> Result<bool> {
    of(same_device([images, grid, out])?)?.sample(how, images, grid, out)
}

/// The gradients of images and of positions, as far as they are asked for. False if there is no kernel for it.
pub fn backward(
    how: Sampling,
    grad: View,
    images: View,
    grid: View,
    of_images: Option<View>,
    of_grid: Option<View>,
) -> Result<bool> {
    let all = [grad, images, grid].into_iter().chain(of_images).chain(of_grid);
    of(same_device(all)?)?.sample_backward(how, grad, images, grid, of_images, of_grid)
}
