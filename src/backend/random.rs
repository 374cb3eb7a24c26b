//! Draws of random numbers, the same on every device.

pub use super::cpu::random::permutation;
use super::{View, of, same_device};
use crate::error::Result;

/// The stream of one draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Philox {
    pub seed: u64,
    /// The counter of the first block.
    pub offset: u64,
}

/// By how much to advance the offset after a draw of n elements, so that the next one is independent.
pub fn counters_for(n: usize) -> u64 {
    n.div_ceil(2) as u64
}

/// What is drawn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Draw {
    /// From the first number to the second, which is excluded.
    Uniform(f64, f64),
    /// Of this mean and standard deviation.
    Normal(f64, f64),
    /// Of this rate.
    Exponential(f64),
    /// 1 with this probability, else 0, in bytes.
    Bernoulli(f64),
    /// From the first number to the second, which is excluded, in int64.
    Integers(i64, i64),
}

/// Sets every element of a dense view. Real numbers are float32 or float64.
pub fn fill(draw: Draw, p: Philox, out: View) -> Result<()> {
    of(out.device())?.random(draw, p, out)
}

/// Sets each element of `out` to 1 with the probability of its place in `probs`, else to 0. Both are dense and of one real
/// dtype.
pub fn fill_bernoulli_each(p: Philox, probs: View, out: View) -> Result<()> {
    of(same_device([probs, out])?)?.bernoulli_each(p, probs, out)
}

/// `x * mask * scale`, where the mask holds bytes of 0 and 1, into dense `out` of the dtype of `x`.
pub fn dropout(x: View, mask: View, scale: f64, out: View) -> Result<()> {
    of(same_device([x, mask, out])?)?.dropout(x, mask, scale, out)
}

/// The categories (int64, `[rows, samples]`) that uniform draws, or waits of rate 1 without replacement, choose by
/// `weights`; all dense, of float64. False where the device has no kernel for that.
pub fn pick_categories(weights: View, draws: View, replacement: bool, out: View) -> Result<bool> {
    of(same_device([weights, draws, out])?)?.pick_categories(weights, draws, replacement, out)
}
