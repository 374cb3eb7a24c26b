//! Reductions of dense tensors, seen as `[outer, n, inner]`, over n.

#[cfg(feature = "gpu")]
use super::gpu;
use super::{View, by_device, cpu, elements, results, same_device};
pub use cpu::reduce::Along;

use crate::dtype::{Bool8, DType, Scalar};
use crate::error::{Error, Result};
use crate::{bail, with_dtype};

/// What a reduction computes. Floats are reduced in their type; integers to int64 where they are added or multiplied, and
/// bools where they are added; truth is asked of bools.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fold {
    Sum,
    Product,
    /// 1 where every element differs from zero, in bytes; NaN does.
    All,
    /// 1 where some element does.
    Any,
    Max,
    Min,
    /// The norm of an order.
    Norm(f64),
    /// The logarithm of the sum of exponentials.
    LogSumExp,
}

/// Reduces `x` to `out`; both are dense.
pub fn fold(f: Fold, x: View, d: Along, out: View) -> Result<()> {
    by_device!(same_device([out, x])?,
        cpu => fold_on_host(f, x, d, out),
        gpu => gpu::reduce::fold(f, x, d, out)
    )
}

/// The norm of a positive order of all elements of dense tensors, into one element.
///
/// # Errors
/// On a device other than the host, where the result is not float32.
pub fn norm_of_all(order: f64, tensors: &[View], out: View) -> Result<()> {
    by_device!(same_device(tensors.iter().copied().chain([out]))?,
        cpu => {
            cpu::copy::fill(out, Scalar::Float(cpu::optim::norm_of_all(order, tensors)))?;
            Ok(())
        },
        gpu => {
            // Sums are of float32 alone.
            if out.dtype != DType::F32 {
                out.on_host()?;
            }
            gpu::reduce::norm_of_all(order, tensors, out)
        }
    )
}

fn fold_on_host(f: Fold, x: View, d: Along, out: View) -> Result<()> {
    use cpu::reduce as kernels;
    macro_rules! real {
        (|$x:ident: $T:ident, $out:ident| $body:expr) => {
            with_dtype!(float x.dtype, $T => {
                let ($x, $out) = (elements::<$T>(x), results::<$T>(out));
                $body
            }, else bail!(Error::DtypeNotImplemented { op: "reduction", dtype: x.dtype }))
        };
    }
    match f {
        Fold::Sum if x.dtype.is_float() => real!(|x: T, out| kernels::sum::<T>(x, d, out)),
        Fold::Sum if x.dtype == DType::Bool => kernels::sum_int::<Bool8>(elements(x), d, results(out)),
        Fold::Sum => kernels::sum_int::<i64>(elements(x), d, results(out)),
        Fold::Product if x.dtype.is_float() => real!(|x: T, out| kernels::prod::<T>(x, d, out)),
        Fold::Product => kernels::prod_int::<i64>(elements(x), d, results(out)),
        Fold::All => kernels::all::<Bool8>(elements(x), d, results(out)),
        Fold::Any => kernels::any::<Bool8>(elements(x), d, results(out)),
        Fold::Max | Fold::Min => with_dtype!(ordered x.dtype, T => {
            kernels::extremum::<T>(elements(x), d, f == Fold::Max, results(out), None)
        }),
        Fold::Norm(p) => real!(|x: T, out| kernels::norm_p::<T>(p, x, d, out)),
        Fold::LogSumExp => real!(|x: T, out| kernels::logsumexp::<T>(x, d, out)),
    }
    Ok(())
}

/// The extrema along n and the index of the first occurrence of each. Without elements nothing is written.
pub fn extremum(largest: bool, x: View, d: Along, values: View, indices: View) -> Result<()> {
    by_device!(same_device([values, indices, x])?,
        cpu => {
            with_dtype!(ordered x.dtype, T => {
                let indices = Some(results(indices));
                cpu::reduce::extremum::<T>(elements(x), d, largest, results(values), indices)
            });
            Ok(())
        },
        gpu => gpu::reduce::extremum(largest, x, d, values, indices)
    )
}

/// The mean along n and the sum of the squares of what differs from it.
pub fn moments(x: View, d: Along, mean: View, squares: View) -> Result<()> {
    by_device!(same_device([mean, squares, x])?,
        cpu => {
            with_dtype!(float x.dtype, T => {
                cpu::reduce::moments::<T>(elements(x), d, results(mean), results(squares))
            }, else bail!(Error::DtypeNotImplemented { op: "std_var", dtype: x.dtype }));
            Ok(())
        },
        gpu => gpu::reduce::moments(x, d, mean, squares)
    )
}
