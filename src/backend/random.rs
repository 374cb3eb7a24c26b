//! Draws of random numbers, the same on every device.

#[cfg(feature = "gpu")]
use super::gpu;
use super::{View, by_device, cpu, results};
pub use cpu::random::{Philox, counters_for};

use crate::error::{Error, Result};
use crate::{bail, with_dtype};

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
    by_device!(out.device(),
        cpu => fill_on_host(draw, p, out),
        gpu => gpu::random::fill(draw, p, out)
    )
}

fn fill_on_host(draw: Draw, p: Philox, out: View) -> Result<()> {
    use cpu::random::{fill_bernoulli_u8, fill_exponential, fill_int, fill_normal, fill_uniform};
    match draw {
        Draw::Bernoulli(prob) => fill_bernoulli_u8(p, prob, results(out)),
        Draw::Integers(from, to) => fill_int::<i64>(p, from, to, results(out)),
        _ => with_dtype!(float out.dtype, T => {
            let out = results::<T>(out);
            match draw {
                Draw::Uniform(from, to) => fill_uniform(p, from, to, out),
                Draw::Normal(mean, std) => fill_normal(p, mean, std, out),
                Draw::Exponential(rate) => fill_exponential(p, rate, out),
                Draw::Bernoulli(_) | Draw::Integers(..) => {}
            }
        }, else bail!(Error::DtypeNotImplemented { op: "random", dtype: out.dtype })),
    }
    Ok(())
}
