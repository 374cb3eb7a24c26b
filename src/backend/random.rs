//! Random numbers, which are the same on every device.

pub use super::cpu::random::permutation;
use super::{View, of, same_device};
use crate::error::Result;

/// The random stream of one draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Philox {
    pub seed: u64,
    /// The counter of the first block.
    pub offset: u64,
}

/// The amount by which to advance the offset after a draw of n elements, so that the next draw is independent.
pub fn counters_for(n: usize) -> u64 {
    n.div_ceil(2) as u64
}

/// The distribution to draw from.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Draw {
    /// Uniform from the first number to the second, exclusive.
    Uniform(f64, f64),
    /// Normal with this mean and standard deviation.
    Normal(f64, f64),
    /// Exponential with this rate.
    Exponential(f64),
    /// 1 with this probability, else 0; stored as bytes.
    Bernoulli(f64),
    /// Integers from the first number to the second, exclusive; stored as int64.
    Integers(i64, i64),
}

/// Fills a dense view. Real numbers are float32 or float64.
pub fn fill(draw: Draw, p: Philox, out: View) -> Result<()> {
    of(out.device())?.random(draw, p, out)
}

/// Sets each element of `out` to 1 with the probability at the same index of `probs`, else to 0. Both are dense and of
/// one floating point dtype.
pub fn fill_bernoulli_each(p: Philox, probs: View, out: View) -> Result<()> {
    of(same_device([probs, out])?)?.bernoulli_each(p, probs, out)
}

/// Writes `x * mask * scale`, with a mask of bytes 0 and 1, to dense `out` of the dtype of `x`.
pub fn dropout(x: View, mask: View, scale: f64, out: View) -> Result<()> {
    of(same_device([x, mask, out])?)?.dropout(x, mask, scale, out)
}

/// Samples categories (int64, `[rows, samples]`) by `weights`, given uniform draws, or exponential draws of rate 1
/// without replacement; all are dense float64. False if the device has no kernel for it.
pub fn pick_categories(weights: View, draws: View, replacement: bool, out: View) -> Result<bool> {
    of(same_device([weights, draws, out])?)?.pick_categories(weights, draws, replacement, out)
}
