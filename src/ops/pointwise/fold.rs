//! Reductions of pointwise operations and formulas, in one kernel.

use smallvec::SmallVec;

use super::{Arg, PointwiseOp, common_device, common_shape, interpreter, lie_plainly, operand, primitive};
use crate::backend::pointwise::{self, Kernel, Operand, compute_type};
use crate::backend::reduce::{self, ReduceDims, ReduceOp};
use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::ensure;
use crate::error::Result;
use crate::formula::Formula;
use crate::graph::GradFn;
use crate::layout::{Dims, Layout, broadcast};
use crate::ops::reduce::{all_dims, last_run, reduced_shape};
use crate::ops::rows;
use crate::tensor::Tensor;

/// The computation of the elements of a reduction, or of its results.
#[derive(Clone, Copy)]
pub enum Rule<'a> {
    Row(&'static PointwiseOp),
    Formula(&'static str, &'a Formula),
}

impl<'a> Rule<'a> {
    fn formula(&self) -> &Formula {
        match self {
            Rule::Row(row) => &row.plan().formula,
            Rule::Formula(_, formula) => formula,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Rule::Row(row) => row.name,
            Rule::Formula(name, _) => name,
        }
    }

    fn kernel(&self) -> Kernel {
        match self {
            Rule::Row(row) => row.kernel,
            Rule::Formula(..) => Kernel::NONE,
        }
    }
}

/// A rule with one result, applied to tensors and numbers.
#[derive(Clone, Copy)]
pub struct Applied<'a> {
    pub rule: Rule<'a>,
    pub args: &'a [Arg<'a>],
    pub params: &'a [Scalar],
}

impl<'a> Applied<'a> {
    pub fn new(rule: Rule<'a>, args: &'a [Arg<'a>], params: &'a [Scalar]) -> Self {
        Applied { rule, args, params }
    }

    /// The shape to which the tensors broadcast.
    fn shape(&self) -> Result<Dims> {
        if let Some(t) = common_shape(self.args) {
            return Ok(t.shape().clone());
        }
        self.args.iter().try_fold(Dims::default(), |shape, a| match a {
            Arg::T(t) => broadcast(self.rule.name(), &shape, t.shape()),
            Arg::S(_) => Ok(shape),
        })
    }

    /// Calls `f` with the operands expanded to `shape` and their dimensions permuted to `order`.
    fn with<R>(
        &self,
        shape: &Dims,
        order: Option<&[usize]>,
        device: Device,
        f: impl FnOnce(pointwise::Applied) -> Result<R>,
    ) -> Result<R> {
        let formula = self.rule.formula();
        ensure!(
            self.args.len() >= formula.args() && self.params.len() >= formula.params(),
            Runtime,
            "{}: a formula of {} arguments and {} parameters was given {} and {}",
            self.rule.name(),
            formula.args(),
            formula.params(),
            self.args.len(),
            self.params.len()
        );
        let layout = |t: &Tensor| -> Result<Layout> {
            let Some(layout) = t.layout().expand(shape) else {
                crate::bail!(Runtime, "{}: cannot expand {} to {}", self.rule.name(), t.shape(), shape)
            };
            Ok(match order {
                Some(order) => layout.permute(order),
                None => layout,
            })
        };
        let layouts = self
            .args
            .iter()
            .map(|a| if let Arg::T(t) = a { layout(t) } else { Ok(Layout::default()) })
            .collect::<Result<SmallVec<[Layout; 4]>>>()?;
        let operands = self
            .args
            .iter()
            .zip(&layouts)
            .map(|(a, layout)| match a {
                Arg::S(s) => Ok(Operand::Number(*s)),
                Arg::T(t) => operand(t, Some(layout), device),
            })
            .collect::<Result<SmallVec<[Operand; 4]>>>()?;
        f(pointwise::Applied {
            name: self.rule.name(),
            kernel: self.rule.kernel(),
            formula,
            primitives: &primitive,
            operands: &operands,
            params: self.params,
        })
    }
}

/// Evaluates `of`, which computes in the compute type of `common`, and reduces its elements over the dimensions of
/// `mask`. Not recorded in the graph. If given, `then` is applied to the results: they replace its first argument, and
/// its tensors broadcast to their shape.
///
/// The result has the dtype of [`reduce::Fold::reduced`] and is bit-identical to that of separate operations.
pub fn fold(
    op: ReduceOp,
    of: Applied,
    common: DType,
    mask: u64,
    keepdim: bool,
    then: Option<Applied>,
) -> Result<Tensor> {
    let (shape, device) = (of.shape()?, common_device(of.args));
    let rank = shape.len();
    let mask = mask & all_dims(rank);
    let inside = |d: &usize| mask >> d & 1 == 1;
    // Reduced dimensions that are not adjacent are permuted to the end.
    let moved: Option<SmallVec<[usize; 6]>> = (last_run(mask) != mask)
        .then(|| (0..rank).filter(|d| !inside(d)).chain((0..rank).filter(inside)).collect());
    let order = moved.as_deref();
    let turned: Dims = match order {
        Some(order) => order.iter().map(|&d| shape[d]).collect(),
        None => shape.clone(),
    };
    let end = if order.is_some() || mask == 0 {
        rank
    } else {
        mask.trailing_zeros() as usize + mask.count_ones() as usize
    };
    let first = end - mask.count_ones() as usize;
    let dims = ReduceDims::of(&turned, first..end);
    let kept = reduced_shape(&shape, mask, true);
    of.with(&shape, order, device, |of| {
        let run = |then: Option<pointwise::Applied>| {
            let fold = reduce::Fold { op, compute: compute_type(common), shape: &turned, dims, of, then };
            let out = Tensor::empty_on(reduced_shape(&shape, mask, keepdim), fold.reduced(), device)?;
            reduce::fold_formula(&fold, out.raw())?;
            Ok(out)
        };
        match then {
            Some(then) => then.with(&kept, None, device, |then| run(Some(then))),
            None => run(None),
        }
    })
}

/// The sum of a formula over the dimensions of a mask, which stay with size 1, in the order in which one of its results
/// would be summed.
pub fn sum_of(of: Applied, common: DType, mask: u64) -> Result<Tensor> {
    let last = last_run(mask);
    let sum = fold(ReduceOp::Sum, of, common, last, true, None)?;
    if last == mask { Ok(sum) } else { crate::ops::reduce::sum_mask(&sum, mask & !last, true, None) }
}

impl PointwiseOp {
    /// The sum of all elements of the result, or their mean, without history, where that is worth a kernel of its own; and the
    /// node that the result would have. None where it is not: the dtype of the results is a half type, to which
    /// each of them is rounded; operands lie in an order of their own; or somebody watches the row.
    pub fn reduced(
        &'static self,
        args: &[Arg],
        params: &[Scalar],
        mean: bool,
    ) -> Result<Option<(Tensor, Option<GradFn>)>> {
        let Some(like) = common_shape(args) else { return Ok(None) };
        let n = like.numel();
        if !reduce::is_worth_folding(like.raw(), n)
            || interpreter::active()
            || !lie_plainly(args)
            || self.derivatives_read(args.len())
        {
            return Ok(None);
        }
        let (common, result) = self.types(args)?;
        let device = common_device(args);
        if common != result || !matches!(result, DType::F32 | DType::F64) || like.device() != device {
            return Ok(None);
        }
        let by = [Arg::S(Scalar::Int(0)), Arg::S(Scalar::Float(n as f64))];
        let then = mean.then(|| Applied::new(Rule::Row(&rows::div), &by, &[]));
        let of = Applied::new(Rule::Row(self), args, params);
        let out = fold(ReduceOp::Sum, of, common, u64::MAX, false, then)?;
        if !args.iter().any(|a| matches!(a, Arg::T(t) if t.requires_grad())) {
            return Ok(Some((out, None)));
        }
        // One element stands for those of the result, which nobody reads.
        let one = Tensor::empty_on(Dims::default(), result, device)?;
        let Some(layout) = one.layout().expand(like.shape()) else { return Ok(None) };
        let node = self.record_backward(one.with_layout(layout), args, params)?.grad_fn();
        Ok(Some((out, node)))
    }
}

#[cfg(test)]
mod tests;
