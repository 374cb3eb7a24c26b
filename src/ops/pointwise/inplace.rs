//! Pointwise operations that compute their result in existing memory: that of their first operand, or of an output.

use super::{Arg, Class, PointwiseOp, check_result_cast, common_device, common_dtype};
use crate::dtype::Scalar;
use crate::ensure;
use crate::error::Result;
use crate::graph::grad_enabled;
use crate::layout::Dims;
use crate::tensor::{Overlap, Tensor, take_history_of};

impl PointwiseOp {
    /// Replaces the contents of `args[0]` by the result; true if nothing had to be recorded and the kernel wrote in
    /// place.
    pub fn call_inplace(&'static self, args: &[Arg], params: &[Scalar]) -> Result<bool> {
        let Arg::T(t) = args[0] else { return Ok(false) };
        let tracked = grad_enabled() && args.iter().any(|a| matches!(a, Arg::T(t) if t.requires_grad()));
        let apart = args[1..].iter().all(|a| match a {
            Arg::T(u) => u.overlap(t) != Overlap::Partial,
            Arg::S(_) => true,
        });
        if tracked || !apart {
            return Ok(false);
        }
        check_inplace_shape(t, &self.shape(args)?)?;
        if self.class == Class::Bits {
            check_result_cast(common_dtype(args)?, t.dtype())?;
        }
        let (common, result) = self.types(args)?;
        check_result_cast(result, t.dtype())?;
        if self.is_unsigned(common) {
            return Ok(false);
        }
        if self.meta.keeps_ints && !common.is_float() {
            return Ok(true);
        }
        self.run_into(args, params, common, t)?;
        t.bump_version();
        Ok(true)
    }

    /// Computes the result in the memory of `out`; false if this would not be what storing a separate result there is, or an error.
    /// Whether `out` may be written has been checked.
    pub fn call_into(&'static self, args: &[Arg], params: &[Scalar], out: &Tensor) -> Result<bool> {
        let is_tracked = |t: &Tensor| grad_enabled() && t.requires_grad();
        let operands = || args.iter().filter_map(|a| if let Arg::T(t) = a { Some(*t) } else { None });
        if is_tracked(out) || operands().any(|t| is_tracked(t) || t.overlap(out) == Overlap::Partial) {
            return Ok(false);
        }
        let Ok((common, result)) = self.types(args) else { return Ok(false) };
        let fits = result == out.dtype() && common_device(args) == out.device();
        let computes = !self.is_unsigned(common) && (common.is_float() || !self.meta.keeps_ints);
        if !fits || !computes || !self.shape(args).is_ok_and(|shape| shape == *out.shape()) {
            return Ok(false);
        }
        self.run_into(args, params, common, out)?;
        out.bump_version();
        Ok(true)
    }

    /// As [`Self::call_inplace`], with a record. What the node saves of the result is then the memory of `args[0]`. False if
    /// derivatives read the elements that would be lost, or if the result has to be converted.
    pub fn call_inplace_recorded(&'static self, args: &[Arg], params: &[Scalar]) -> Result<bool> {
        let Arg::T(t) = args[0] else { return Ok(false) };
        let mut apart = true;
        let mut read = 0;
        for (i, a) in args.iter().enumerate() {
            if let Arg::T(u) = a {
                // The write makes the history of a view of the same storage stale.
                let turns_stale = u.is_view() && u.storage().overlaps(t.storage());
                apart &= i == 0 || u.overlap(t) == Overlap::Apart && !turns_stale;
                if u.requires_grad() {
                    read |= self.plan().reads[i];
                    // Fails before anything is written.
                    u.grad_edge()?;
                }
            }
        }
        let loses = self.grads.is_empty() || read >> 1 & 1 == 1;
        if loses || !apart || t.base().is_some() || t.is_hosted() {
            return Ok(false);
        }
        check_inplace_shape(t, &self.shape(args)?)?;
        if !t.dtype().is_float() || self.types(args)? != (t.dtype(), t.dtype()) {
            return Ok(false);
        }
        self.run_into(args, params, t.dtype(), t)?;
        t.bump_version();
        take_history_of(t, &self.record_backward(t.detach(), args, params)?)?;
        Ok(true)
    }
}

/// In place, broadcasting must not enlarge the tensor's shape.
pub fn check_inplace_shape(t: &Tensor, shape: &Dims) -> Result<()> {
    ensure!(
        t.shape() == shape,
        Runtime,
        "output with shape {} doesn't match the broadcast shape {}",
        t.shape(),
        shape
    );
    Ok(())
}
