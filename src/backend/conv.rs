//! The three products of a convolution.

#[cfg(feature = "gpu")]
use super::gpu;
use super::{View, by_device, cpu, elements, results, same_device};
pub use cpu::conv::ConvShape;

use crate::error::{Error, Result};
use crate::{bail, with_dtype};

/// Which of input `x`, weight `w` and output `y` is computed, from the two others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Product {
    /// `y` from `x` and `w`.
    Output,
    /// `x` from `y` and `w`.
    Input,
    /// `w` from `y` and `x`.
    Weight,
}

/// The product of `a` and `b`, in the order in which [`Product`] names them; an output may have a bias per channel. All
/// are dense, of float32 or float64.
pub fn product(which: Product, s: &ConvShape, a: View, b: View, bias: Option<View>, out: View) -> Result<()> {
    by_device!(same_device([out, a, b].into_iter().chain(bias))?,
        cpu => {
            with_dtype!(float out.dtype, T => {
                let (a, b, out) = (elements::<T>(a), elements::<T>(b), results::<T>(out));
                match which {
                    Product::Output => cpu::conv::forward(s, a, b, bias.map(elements), out),
                    Product::Input => cpu::conv::backward_input(s, a, b, out),
                    Product::Weight => cpu::conv::backward_weight(s, a, b, out),
                }
            }, else bail!(Error::DtypeNotImplemented { op: "convolution", dtype: out.dtype }));
            Ok(())
        },
        gpu => gpu::conv::product(which, s, a, b, bias, out)
    )
}
