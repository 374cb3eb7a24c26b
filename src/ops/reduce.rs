//! Reductions.

use smallvec::smallvec;

use super::schema::{Args, Call, Op, Out, Overload};
use super::{arith, view};
use crate::backend::cpu::reduce::Along;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Cx, Function, Grads, record};
use crate::layout::{Dims, wrap_dim};
use crate::tensor::Tensor;
use crate::{bail, with_dtype};

/// The dimensions that `dim` names, as a mask; all where it is None or empty.
pub fn dim_mask(dims: Option<&[i64]>, rank: usize) -> Result<u64> {
    let all = if rank >= 64 { u64::MAX } else { (1 << rank) - 1 };
    let Some(dims) = dims.filter(|d| !d.is_empty()) else { return Ok(all) };
    let mut mask = 0;
    for &d in dims {
        let bit = 1 << wrap_dim(d, rank)?;
        if mask & bit != 0 {
            bail!(Runtime, "dim {} appears multiple times in the list of dims", wrap_dim(d, rank)?);
        }
        mask |= bit;
    }
    Ok(mask & all)
}

/// The shape after reducing the dimensions of `mask`.
pub fn reduced_shape(shape: &Dims, mask: u64, keepdim: bool) -> Dims {
    shape
        .iter()
        .enumerate()
        .filter_map(|(d, &n)| match (mask >> d & 1 == 1, keepdim) {
            (false, _) => Some(n),
            (true, true) => Some(1),
            (true, false) => None,
        })
        .collect()
}

/// `t` with the dimensions of `mask` moved to the end, dense: the reduced elements of each result lie together, or,
/// where only leading or middle dimensions are reduced, `[outer, n, inner]` of the tensor as it lies.
pub fn along(t: &Tensor, mask: u64) -> Result<(Tensor, Along)> {
    let dense = t.dense(t.dtype())?;
    let shape = t.shape();
    let rank = shape.len();
    let inside: Vec<usize> = (0..rank).filter(|d| mask >> d & 1 == 1).collect();
    let neighbours = inside.windows(2).all(|w| w[0] + 1 == w[1]);
    if neighbours {
        let (first, last) = (inside.first().copied().unwrap_or(rank), inside.last().map_or(rank, |l| l + 1));
        let product = |r: std::ops::Range<usize>| shape[r].iter().product::<usize>();
        return Ok((dense, Along::new(product(0..first), product(first..last), product(last..rank))));
    }
    let order: Vec<usize> = (0..rank).filter(|d| mask >> d & 1 == 0).chain(inside.iter().copied()).collect();
    let moved = t.with_layout(t.layout().permute(&order)).copied(t.dtype())?;
    let n: usize = inside.iter().map(|&d| shape[d]).product();
    let outer = (0..rank).filter(|d| mask >> d & 1 == 0).map(|d| shape[d]).product();
    Ok((moved, Along::rows(outer, n)))
}

/// Whether some element is zero.
pub fn any_zero(t: &Tensor) -> bool {
    with_dtype!(t.dtype(), T => {
        use crate::dtype::Element;
        t.to_vec::<T>().iter().any(|v| v.to_i64() == 0)
    })
}

/// Sum over the dimensions of `mask`, in `dtype`.
pub fn sum_mask(t: &Tensor, mask: u64, keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    let result = dtype.unwrap_or(if t.dtype().is_float() { t.dtype() } else { DType::I64 });
    let compute = match result {
        d if d.is_half() => DType::F32,
        d if d.is_float() => d,
        _ => DType::I64,
    };
    let x = t.dense(compute)?;
    let (x, d) = along(&x, mask)?;
    let out = Tensor::empty(reduced_shape(t.shape(), mask, keepdim), compute)?;
    with_dtype!(float compute, T => {
        crate::backend::cpu::reduce::sum::<T>(x.slice()?, d, out.slice_mut()?)
    }, else {
        crate::backend::cpu::reduce::sum_int::<i64>(x.slice()?, d, out.slice_mut()?)
    });
    let out = if compute == result { out } else { out.copied(result)? };
    record(out, &[t], |_| SumBackward { shape: t.shape().clone(), mask, keepdim })
}

/// Sums `g` down to `shape`, which broadcasts to its shape: undoes a broadcast.
pub fn sum_to(g: &Tensor, shape: &Dims) -> Result<Tensor> {
    let lead = g.rank() - shape.len();
    let mut mask = 0;
    for d in 0..g.rank() {
        if d < lead || (shape[d - lead] == 1 && g.shape()[d] != 1) {
            mask |= 1 << d;
        }
    }
    let summed = sum_mask(g, mask, true, Some(g.dtype()))?;
    view::view_as(&summed, shape)
}

struct SumBackward {
    shape: Dims,
    mask: u64,
    keepdim: bool,
}

impl Function for SumBackward {
    fn name(&self) -> &'static str {
        let all = if self.shape.len() >= 64 { u64::MAX } else { (1 << self.shape.len()) - 1 };
        if self.mask == all { "SumBackward0" } else { "SumBackward1" }
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(expand_reduced(g, &self.shape, self.mask, self.keepdim)?)])
    }
}

/// Repeats a reduced gradient over the dimensions that were reduced.
pub fn expand_reduced(g: &Tensor, shape: &Dims, mask: u64, keepdim: bool) -> Result<Tensor> {
    let kept = reduced_shape(shape, mask, true);
    let g = if keepdim || g.shape() == &kept { g.clone() } else { view::view_as(g, &kept)? };
    view::expand_to(&g, shape)
}

fn sum(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    let mask = dim_mask(a.opt_ints(1)?, t.rank())?;
    Ok(sum_mask(t, mask, a.bool(2)?, a.opt_dtype(3)?)?.into())
}

/// Mean over the dimensions of `mask`.
pub fn mean_mask(t: &Tensor, mask: u64, keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    let result = dtype.unwrap_or(t.dtype());
    if !result.is_float() {
        bail!(
            Runtime,
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: {}",
            t.dtype().scalar_name()
        );
    }
    let n: usize = (0..t.rank()).filter(|d| mask >> d & 1 == 1).map(|d| t.shape()[d]).product();
    arith::div(&sum_mask(t, mask, keepdim, Some(result))?, n as f64)
}

fn mean(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    let mask = dim_mask(a.opt_ints(1)?, t.rank())?;
    Ok(mean_mask(t, mask, a.bool(2)?, a.opt_dtype(3)?)?.into())
}

const REDUCTION: &str = "input: Tensor, dim: int[]? = None, keepdim: bool = False, *, dtype: dtype? = None";

pub static OPS: &[Op] = &[
    Op {
        name: "sum",
        doc: "Sum of all elements, or over the dimensions `dim`.",
        overloads: &[Overload { sig: REDUCTION, call: Call::Fn(sum) }],
        ..Op::NEW
    },
    Op {
        name: "mean",
        doc: "Mean of all elements, or over the dimensions `dim`.",
        overloads: &[Overload { sig: REDUCTION, call: Call::Fn(mean) }],
        ..Op::NEW
    },
];
