//! Running sums, products and extrema along n of dense tensors seen as `[outer, n, inner]`.

#[cfg(feature = "gpu")]
use super::gpu;
use super::{View, by_device, cpu, elements, results, same_device};
pub use cpu::reduce::Along;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::{bail, with_dtype};

/// What runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Running {
    Sum,
    Product,
    /// The logarithm of the sum of exponentials, of floats.
    LogSumExp,
}

/// The running operation, from the end with `reverse`. `x` and `out` are of one float type, or `out` is int64 and `x`
/// of any `wide` type.
pub fn scan(what: Running, x: View, d: Along, reverse: bool, out: View) -> Result<()> {
    by_device!(same_device([x, out])?,
        cpu => on_host(what, x, d, reverse, out),
        gpu => gpu::scan::scan(what, x, d, reverse, out)
    )
}

fn on_host(what: Running, x: View, d: Along, reverse: bool, out: View) -> Result<()> {
    if out.dtype == DType::I64 {
        with_dtype!(whole x.dtype, T => match what {
            Running::Product => cpu::scan::cumprod_int::<T>(elements(x), d, results(out)),
            Running::Sum | Running::LogSumExp => cpu::scan::cumsum_int::<T>(elements(x), d, reverse, results(out)),
        });
        return Ok(());
    }
    with_dtype!(float out.dtype, T => match what {
        Running::Sum => cpu::scan::cumsum::<T>(elements(x), d, reverse, results(out)),
        Running::Product => cpu::scan::cumprod::<T>(elements(x), d, results(out)),
        Running::LogSumExp => cpu::scan::logcumsumexp::<T>(elements(x), d, results(out)),
    }, else bail!(Error::DtypeNotImplemented { op: "scan", dtype: out.dtype }));
    Ok(())
}

/// The running maximum (`largest`) or minimum of a type that the device compares, with the index of its last occurrence so far. A NaN,
/// once met, stays.
pub fn extremum(x: View, d: Along, largest: bool, values: View, indices: View) -> Result<()> {
    by_device!(same_device([x, values, indices])?,
        cpu => {
            with_dtype!(ordered x.dtype, T => {
                cpu::scan::cum_extremum::<T>(elements(x), d, largest, results(values), results(indices));
            });
            Ok(())
        },
        gpu => gpu::scan::extremum(x, d, largest, values, indices)
    )
}
