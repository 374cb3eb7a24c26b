//! How the `out=` form of an operation stores its results: a property of the operation's declaration.

use super::pointwise;
use crate::bail;
use crate::dtype::DType;
use crate::error::Result;

/// A result of dtype `found` that goes to an output of another dtype, `out`.
pub struct Mismatch {
    pub op: &'static str,
    /// Which result it is.
    pub number: usize,
    /// The signature of the overload.
    pub sig: &'static str,
    pub found: DType,
    pub out: DType,
}

/// How an `out=` form stores its results. Only the wording of the errors imitates PyTorch.
#[derive(Clone, Copy)]
pub struct OutPolicy {
    /// Called if the dtypes differ; the result is cast unless this is an error.
    pub check: fn(&Mismatch) -> Result<()>,
    /// Fills an output of any shape that has as many elements, in order.
    pub fills: bool,
    /// The output may not be an input. Other operations compute all results before they store any.
    pub apart: bool,
}

const fn apart(check: fn(&Mismatch) -> Result<()>) -> OutPolicy {
    OutPolicy { check, fills: false, apart: true }
}

const fn checked(check: fn(&Mismatch) -> Result<()>) -> OutPolicy {
    OutPolicy { check, fills: false, apart: false }
}

impl OutPolicy {
    /// Casts as in place. Most operations do.
    pub const CAST: OutPolicy = checked(|m| pointwise::check_result_cast(m.found, m.out));
    /// Casts to any dtype: an operation that computes in the dtype of the output, or whose results are numbers of every dtype.
    pub const ANY: OutPolicy = checked(|_| Ok(()));
    pub const SEQUENCE: OutPolicy = OutPolicy { fills: true, ..OutPolicy::CAST };
    pub const SAME: OutPolicy = checked(|m| {
        bail!(
            Runtime,
            "Expected out tensor to have dtype {}, but got {} instead",
            m.found.type_name(),
            m.out.type_name()
        )
    });
    pub const RANKED: OutPolicy = apart(OutPolicy::CAST.check);
    pub const SAFE: OutPolicy = checked(|m| {
        if pointwise::check_result_cast(m.found, m.out).is_ok() {
            return Ok(());
        }
        bail!(
            Runtime,
            "{}: Expected result to be safely castable from {} dtype, but got result with dtype {}",
            m.op,
            m.found.scalar_name(),
            m.out.scalar_name()
        )
    });
    pub const GATHERED: OutPolicy = apart(OutPolicy::SAME.check);
    pub const SELECTED: OutPolicy =
        apart(|m| bail!(Runtime, "{}(): self and result must have the same scalar type", m.op));
    pub const TAKEN: OutPolicy = apart(|m| {
        bail!(
            Runtime,
            "take(): self and out expected to have the same dtype, but got self.dtype = {} and out.dtype = {}",
            m.found.scalar_name(),
            m.out.scalar_name()
        )
    });
    pub const CHOSEN: OutPolicy = checked(|m| {
        bail!(Runtime, "Expected out type to be {} but got {}", m.found.scalar_name(), m.out.scalar_name())
    });
    pub const FOUND: OutPolicy = checked(|m| {
        bail!(Runtime, "Found dtype {} but expected {}", m.out.scalar_name(), m.found.scalar_name())
    });
    pub const SCANNED: OutPolicy = checked(|m| {
        bail!(Runtime, "expected scalar_type {} but found {}", m.found.scalar_name(), m.out.scalar_name())
    });
    pub const DOT: OutPolicy = checked(|m| {
        bail!(
            Runtime,
            "result dtype {} does not match input dtype {}",
            m.out.scalar_name(),
            m.found.scalar_name()
        )
    });
    pub const EXTREMA: OutPolicy = checked(|m| {
        bail!(
            Runtime,
            "Expected the dtype for input and out to match, but got {} for input's dtype and {} for out's dtype.",
            m.found.scalar_name(),
            m.out.scalar_name()
        )
    });
    pub const TRUTH: OutPolicy = checked(|m| {
        if m.out == DType::U8 {
            return Ok(());
        }
        bail!(Runtime, "{} only supports bool tensor for result, got: {}", m.op, m.out.scalar_name())
    });
    pub const LONG: OutPolicy =
        checked(|m| bail!(Runtime, "{} expects Long tensor out, got: {}", m.op, m.out.scalar_name()));
    pub const POSITIONS: OutPolicy = checked(|m| {
        let given = m.out.scalar_name();
        bail!(Runtime, "nonzero: Expected out tensor to have scalar type Long but got scalar type{given}")
    });
    pub const JOINED: OutPolicy = apart(|m| {
        if m.found.category() <= m.out.category() {
            return Ok(());
        }
        let given = m.out.scalar_name();
        bail!(Type, "torch.cat(): input types can't be cast to the desired output type {given}")
    });
    pub const MODE: OutPolicy = checked(|m| {
        bail!(
            Runtime,
            "expected scalar type '{}' but got '{}' for {} output",
            m.found.scalar_name(),
            m.out.scalar_name(),
            if m.number == 0 { "values" } else { "indices" }
        )
    });
    /// Limits that are numbers keep the dtype; limits that are tensors promote.
    pub const LIMITED: OutPolicy =
        checked(|m| match m.sig.contains("min: Tensor") || m.sig.contains("max: Tensor") {
            true => (OutPolicy::CAST.check)(m),
            false => (OutPolicy::FOUND.check)(m),
        });
    /// Along a dimension the dtype is that of the input.
    pub const EXTREMUM: OutPolicy = checked(|m| match m.sig.contains("dim: int") {
        true => (OutPolicy::SAME.check)(m),
        false => (OutPolicy::CAST.check)(m),
    });
    pub const INFINITE: OutPolicy =
        checked(|m| bail!(Runtime, "{} does not support non-boolean outputs.", m.op));
    pub const QUANTILE: OutPolicy =
        checked(|_| bail!(Runtime, "quantile() out tensor must be same dtype as the input tensor"));
}
