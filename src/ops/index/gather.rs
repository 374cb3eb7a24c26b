//! Operations with one index per element along a dimension: gather and scatter.

use smallvec::{SmallVec, smallvec};
use std::sync::atomic::AtomicBool;

use super::mask::masked_fill;
use crate::backend::index::{Combine, gather_along, scatter_along};
use crate::backend::{View, copy};
use crate::dtype::{DType, Scalar};
use crate::error::{Result, warn_once};
use crate::graph::{
    Attribute, Cx, DelayedError, Function, Grads, NotImplemented, SavedTensor, Visit, grad_enabled, record,
};
use crate::layout::{Dims, Layout, wrap_dim};
use crate::ops::pointwise::Arg;
use crate::ops::schema::{Args, Out};
use crate::ops::view::cut::{self, Cut};
use crate::ops::{arith, reduce, rows, view};
use crate::tensor::Tensor;
use crate::{bail, ensure, ops};

/// Turns a 0-d layout into a one-dimensional one, as the kernels require.
pub(in crate::ops) fn at_least_1d(l: &Layout) -> Layout {
    if l.rank() == 0 { l.unsqueeze(0) } else { l.clone() }
}

/// The index as dense int64, checked.
fn checked_index(op: &str, index: &Tensor) -> Result<Tensor> {
    // An empty index may have any dtype.
    ensure!(
        index.numel() == 0 || matches!(index.dtype(), DType::I64 | DType::I32),
        Runtime,
        "{op}(): Expected dtype int32/int64 for index"
    );
    index.dense(DType::I64)
}

fn size_at(t: &Tensor, dim: usize) -> usize {
    t.shape().get(dim).copied().unwrap_or(1)
}

/// The elements of `t` at the positions `index` in `dim`; the result has the shape of `index`.
fn gather_impl(t: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    let d = wrap_dim(dim, t.rank())?;
    if index.numel() > 0 {
        ensure!(
            index.rank().max(1) == t.rank().max(1),
            Runtime,
            "Index tensor must have the same number of dimensions as input tensor"
        );
        let fits = (0..index.rank()).all(|k| k == d || index.shape()[k] <= size_at(t, k));
        ensure!(
            fits,
            Runtime,
            "Size does not match at dimension {} expected index {} to be no larger than self {} apart from dimension {d}",
            (0..index.rank()).find(|&k| k != d && index.shape()[k] > size_at(t, k)).unwrap_or(0),
            index.shape(),
            t.shape()
        );
    }
    let dense = checked_index("gather", index)?;
    let out = t.new_empty(index.shape().clone())?;
    if index.numel() > 0 {
        let (from, shape) = (at_least_1d(t.layout()), at_least_1d(dense.layout()));
        let (x, index) = (View { layout: &from, ..t.raw() }, View { layout: &shape, ..dense.raw() });
        gather_along(x, d, index, out.raw())?;
    }
    record(out, &[t], |_| Gather { dim: d, index: SavedTensor::input(index), shape: t.shape().clone() })
}

struct Gather {
    dim: usize,
    index: SavedTensor,
    shape: Dims,
}

impl Function for Gather {
    fn name(&self) -> &'static str {
        "GatherBackward0"
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        let zeros = g.new_zeros(self.shape.clone())?.as_target()?;
        Ok(smallvec![Some(scatter_add(&zeros, self.dim as i64, &self.index.get(cx)?, g)?)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("index", &self.index);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("dim", Attribute::Int(self.dim as i64));
        visit("sparse_grad", Attribute::Bool(false));
    }
}

/// `out` after `src` was combined with its elements at the positions `index` in `dim`, and the wrapped dimension.
fn scattered(
    op: &str,
    out: Tensor,
    dim: i64,
    index: &Tensor,
    src: Arg,
    how: Combine,
) -> Result<(Tensor, usize)> {
    let t = &out;
    let d = wrap_dim(dim, t.rank())?;
    if index.numel() == 0 {
        return Ok((out, d));
    }
    let rank = |x: &Tensor| x.rank().max(1);
    ensure!(
        rank(index) == rank(t),
        Runtime,
        "Index tensor must have the same number of dimensions as self tensor"
    );
    let fits = |x: &Tensor, free: Option<usize>| {
        (0..index.rank()).all(|k| Some(k) == free || index.shape()[k] <= size_at(x, k))
    };
    if let Arg::T(s) = src {
        ensure!(
            rank(index) == rank(s),
            Runtime,
            "Index tensor must have the same number of dimensions as src tensor"
        );
        ensure!(s.dtype() == t.dtype(), Runtime, "{op}(): Expected self.dtype to be equal to src.dtype");
    }
    let fits_src = matches!(src, Arg::S(_)) || matches!(src, Arg::T(s) if fits(s, None));
    if !(fits(t, Some(d)) && fits_src) {
        let and = match src {
            Arg::T(s) => format!(" and to be no larger size than src {}", s.shape()),
            Arg::S(_) => String::new(),
        };
        bail!(
            Runtime,
            "Expected index {} to be no larger than self {} apart from dimension {d}{and}",
            index.shape(),
            t.shape()
        );
    }
    let dense = checked_index(op, index)?;
    let (to, places) = (at_least_1d(out.layout()), at_least_1d(dense.layout()));
    let value = match src {
        Arg::T(s) => s.clone(),
        Arg::S(s) => t.new_full([0usize; 0], s.checked(t.dtype())?)?,
    };
    let from = match src {
        Arg::T(s) => at_least_1d(s.layout()),
        Arg::S(_) => Layout {
            strides: places.shape.iter().map(|_| 0).collect(),
            shape: places.shape.clone(),
            offset: 0,
        },
    };
    let (target, source) = (View { layout: &to, ..out.raw() }, View { layout: &from, ..value.raw() });
    scatter_along(target, d, View { layout: &places, ..dense.raw() }, source, how)?;
    Ok((out, d))
}

/// `t` with `src` written at the positions `index` in `dim`.
fn scatter_impl(t: &Tensor, dim: i64, index: &Tensor, src: Arg) -> Result<Tensor> {
    let (out, dim) = scattered("scatter", t.writable()?, dim, index, src, Combine::Set)?;
    match src {
        Arg::T(s) => record(out, &[t, s], |_| Scatter::new(ScatterKind::Source, dim, index, s.shape())),
        Arg::S(_) => record(out, &[t], |_| Scatter::new(ScatterKind::Value, dim, index, index.shape())),
    }
}

/// `t` with `src` added at the positions `index` in `dim`.
fn scatter_add_impl(t: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    let (out, dim) = scattered("scatter", t.writable()?, dim, index, Arg::T(src), Combine::Add)?;
    record(out, &[t, src], |_| Scatter::new(ScatterKind::Add, dim, index, src.shape()))
}

enum ScatterKind {
    Source,
    Value,
    Add,
}

/// The node of scatters that set or add.
struct Scatter {
    kind: ScatterKind,
    dim: i64,
    index: SavedTensor,
    src: Dims,
}

impl Scatter {
    fn new(kind: ScatterKind, dim: usize, index: &Tensor, src: &Dims) -> Scatter {
        Scatter { kind, dim: dim as i64, index: SavedTensor::input(index), src: src.clone() }
    }
}

impl Function for Scatter {
    fn name(&self) -> &'static str {
        match self.kind {
            ScatterKind::Source => "ScatterBackward0",
            ScatterKind::Value => "ScatterBackward1",
            ScatterKind::Add => "ScatterAddBackward0",
        }
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        let index = self.index.get(cx)?;
        let kept = || match self.kind {
            ScatterKind::Add => Ok(g.clone()),
            _ => scatter(g, self.dim, &index, Arg::S(Scalar::Int(0))),
        };
        let mut out: Grads = smallvec![cx.needs(0).then(kept).transpose()?];
        if !matches!(self.kind, ScatterKind::Value) {
            let taken = || among_zeros(&gather(g, self.dim, &index)?, &self.src);
            out.push(cx.needs(1).then(taken).transpose()?);
        }
        Ok(out)
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("index", &self.index);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("dim", Attribute::Int(self.dim));
    }
}

/// `part` as the leading part of a tensor of zeros with a larger shape; an empty part may have any shape.
fn among_zeros(part: &Tensor, shape: &Dims) -> Result<Tensor> {
    if part.numel() == 0 {
        return part.new_full(shape.clone(), Scalar::Int(0));
    }
    let mut out = part.clone();
    for dim in 0..shape.len().min(part.rank()) {
        if out.shape()[dim] != shape[dim] {
            let mut whole = out.shape().clone();
            whole[dim] = shape[dim];
            let cut = Cut::Slice { dim, start: 0, length: out.shape()[dim], step: 1 };
            out = cut::put_back(&out, cut, &whole)?;
        }
    }
    view::reshape_to(&out, shape)
}

/// The reduction of a scatter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reduce {
    Sum,
    Prod,
    Mean,
    Amax,
    Amin,
}

impl Reduce {
    fn parse(name: &str) -> Result<Reduce> {
        Ok(match name {
            "sum" => Reduce::Sum,
            "prod" => Reduce::Prod,
            "mean" => Reduce::Mean,
            "amax" => Reduce::Amax,
            "amin" => Reduce::Amin,
            _ => bail!(Runtime, "reduce argument must be either sum, prod, mean, amax or amin, got {name}"),
        })
    }

    fn combine(self) -> Combine {
        match self {
            Reduce::Sum | Reduce::Mean => Combine::Add,
            Reduce::Prod => Combine::Mul,
            Reduce::Amax => Combine::Max,
            Reduce::Amin => Combine::Min,
        }
    }

    /// The initial value if the element itself is not included.
    fn start(self, dtype: DType) -> Scalar {
        let extreme = |low: bool| match dtype {
            d if d.is_float() => Scalar::Float(if low { f64::NEG_INFINITY } else { f64::INFINITY }),
            DType::Bool => Scalar::Bool(!low),
            DType::U8 => Scalar::Int(if low { 0 } else { 255 }),
            d => {
                let max = i64::MAX >> (64 - 8 * d.size());
                Scalar::Int(if low { -max - 1 } else { max })
            }
        };
        match self {
            Reduce::Sum | Reduce::Mean => Scalar::Int(0),
            Reduce::Prod => Scalar::Int(1),
            Reduce::Amax => extreme(true),
            Reduce::Amin => extreme(false),
        }
    }
}

/// The number of values reduced into each element, at least 1, as `dtype`.
fn meeting(t: &Tensor, dim: i64, index: &Tensor, include_self: bool, dtype: DType) -> Result<Tensor> {
    let first = t.empty_as(DType::I64)?;
    copy::fill(first.raw(), Scalar::Int(i64::from(include_self)))?;
    let (n, _) = scattered("scatter", first, dim, index, Arg::S(Scalar::Int(1)), Combine::Add)?;
    rows::clamp_min.call(&[Arg::T(&n), Arg::S(Scalar::Int(1))], &[])?.copied(dtype)
}

struct ScatterSpec {
    dim: i64,
    reduce: Reduce,
    include_self: bool,
    node: &'static str,
}

/// `t` with the values of `src` reduced into the elements at the positions `index` in `dim`.
fn scatter_reduce(t: &Tensor, index: &Tensor, src: &Tensor, spec: ScatterSpec) -> Result<Tensor> {
    let ScatterSpec { dim, reduce, include_self, node } = spec;
    let compute = if t.dtype().is_half() && t.dtype() == src.dtype() { DType::F32 } else { t.dtype() };
    let values = if src.dtype() == t.dtype() { src.detach().dense(compute)? } else { src.detach() };
    let in_place = include_self && reduce == Reduce::Sum && compute == t.dtype();
    let mut start = if in_place { t.writable()? } else { t.copied(compute)? };
    if !include_self {
        start = scattered("scatter", start, dim, index, Arg::S(reduce.start(compute)), Combine::Set)?.0;
    }
    let (mut out, d) = scattered("scatter", start, dim, index, Arg::T(&values), reduce.combine())?;
    if reduce == Reduce::Mean {
        let n = meeting(t, dim, index, include_self, compute)?;
        out = if compute.is_float() {
            arith::div(&out, &n)?
        } else {
            rows::floor_divide.call(&[Arg::T(&out), Arg::T(&n)], &[])?
        };
    }
    let out = if compute == t.dtype() { out } else { out.copied(t.dtype())? };
    let linear = matches!(reduce, Reduce::Sum | Reduce::Mean);
    // Saves a copy, because an in-place result may overwrite the input.
    let kept = !linear && grad_enabled() && (t.requires_grad() || src.requires_grad());
    let input = if kept { SavedTensor::input(&arith::clone(t)?) } else { SavedTensor::unused() };
    record(out, &[t, src], |y| ScatterReduce {
        spec: ScatterSpec { dim: d as i64, reduce, include_self, node },
        index: SavedTensor::input(index),
        input,
        src: SavedTensor::input(src),
        result: if linear { SavedTensor::unused() } else { SavedTensor::output(y) },
    })
}

struct ScatterReduce {
    spec: ScatterSpec,
    index: SavedTensor,
    input: SavedTensor,
    src: SavedTensor,
    result: SavedTensor,
}

impl ScatterReduce {
    /// The gradients of the input and the source, as if the input were included.
    fn gradients(&self, cx: &Cx, g: &Tensor, index: &Tensor) -> Result<(Tensor, Tensor)> {
        let ScatterSpec { dim, reduce, include_self, node } = self.spec;
        let src = self.src.get(cx)?;
        match reduce {
            Reduce::Sum => Ok((g.clone(), gather(g, dim, index)?)),
            Reduce::Mean => {
                let each = arith::div(g, &meeting(g, dim, index, include_self, g.dtype())?)?;
                let taken = gather(&each, dim, index)?;
                Ok((each, taken))
            }
            Reduce::Amax | Reduce::Amin => {
                let (x, y) = (self.input.get(cx)?, self.result.get(cx)?);
                let is = |a: &Tensor, b: &Tensor| -> Result<Tensor> {
                    rows::eq.call(&[a.into(), b.into()], &[])?.copied(g.dtype())
                };
                let (from_self, from_src) = (is(&x, &y)?, is(&src, &gather(&y, dim, index)?)?);
                let each = arith::div(g, &scatter_add(&from_self, dim, index, &from_src)?)?;
                Ok((arith::mul(&from_self, &each)?, arith::mul(&from_src, &gather(&each, dim, index)?)?))
            }
            Reduce::Prod => {
                let (x, y) = (self.input.get(cx)?, self.result.get(cx)?);
                let spec = || ScatterSpec { dim, reduce, include_self, node };
                let zero = Arg::S(Scalar::Int(0));
                let one = Arg::S(Scalar::Int(1));
                let is_zero = |t: &Tensor| rows::eq.call(&[t.into(), zero], &[]);
                // If the input is 0, its derivative is the product of the other factors.
                let nonzero = masked_fill(&x, &is_zero(&x)?, one)?;
                let others = scatter_reduce(&nonzero, index, &src, spec())?;
                let by_self = arith::div(&arith::mul(g, &others)?, &nonzero)?;
                // If a source value is the only 0 of its product, its derivative is the product of the other factors.
                let src_zero = is_zero(&src)?;
                let ones = src_zero.copied(g.dtype())?;
                let zeros = g.new_zeros(x.shape().clone())?;
                let count = gather(&scatter_add(&zeros, dim, index, &ones)?, dim, index)?;
                let single = rows::logical_and
                    .call(&[Arg::T(&src_zero), Arg::T(&rows::eq.call(&[Arg::T(&count), one], &[])?)], &[])?;
                let without = scatter_reduce(&x, index, &masked_fill(&src, &single, one)?, spec())?;
                let alone = gather(&arith::mul(g, &without)?, dim, index)?;
                let divided = arith::div(
                    &gather(&arith::mul(g, &y)?, dim, index)?,
                    &masked_fill(&src, &src_zero, one)?,
                )?;
                let mut by_src =
                    rows::select_where.call(&[Arg::T(&single), Arg::T(&alone), Arg::T(&divided)], &[])?;
                let meet =
                    || reduce::any(&rows::ne.call(&[Arg::T(&src_zero), Arg::T(&single)], &[])?, None, false);
                if by_src.requires_grad() && !meet()?.item()?.is_zero() {
                    by_src = record(by_src.detach(), &[&by_src], |_| DelayedError {
                        message: "scatter_reduce(): Double backward is unsupported for src when >1 zeros in src are \
                                  scattered to the same position in self",
                    })?;
                }
                Ok((by_self, by_src))
            }
        }
    }
}

impl Function for ScatterReduce {
    fn name(&self) -> &'static str {
        self.spec.node
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        let index = self.index.get(cx)?;
        let (mut by_self, by_src) = self.gradients(cx, g, &index)?;
        if !self.spec.include_self {
            by_self = scatter(&by_self, self.spec.dim, &index, Arg::S(Scalar::Int(0)))?;
        }
        Ok(smallvec![cx.needs(0).then_some(by_self), cx.needs(1).then_some(by_src)])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("index", &self.index);
        visit("self", &self.input);
        visit("src", &self.src);
        visit("result", &self.result);
    }
}

fn scatter_op(a: &Args) -> Result<Out> {
    let (t, dim, index, src) = (a.tensor(0)?, a.int(1)?, a.tensor(2)?, a.operand(3)?);
    let reduce = match a.opt_str(4)? {
        None => return Ok(scatter_impl(t, dim, index, src)?.into()),
        Some("add") => Reduce::Sum,
        Some("multiply") => Reduce::Prod,
        Some(_) => bail!(Runtime, "reduce argument must be either add or multiply."),
    };
    static WARNED: AtomicBool = AtomicBool::new(false);
    let src = match src {
        Arg::T(s) => {
            warn_once(
                &WARNED,
                "The reduce argument of torch.scatter with Tensor src is deprecated and will be removed in a future PyTorch \
                 release. Use torch.scatter_reduce instead for more reduction options.",
            )?;
            s.clone()
        }
        Arg::S(s) => view::expand_to(&t.new_full([0usize; 0], s)?, index.shape())?,
    };
    let spec = ScatterSpec { dim, reduce, include_self: true, node: "ScatterReduceBackward0" };
    let out = scatter_reduce(&t.detach(), index, &src.detach(), spec)?;
    let tracked: SmallVec<[&Tensor; 2]> = [t, &src].into_iter().filter(|t| t.requires_grad()).collect();
    Ok(record(out, &tracked, |_| NotImplemented { op: "scatter" })?.into())
}

fn scatter_reduce_op(a: &Args) -> Result<Out> {
    let (dim, reduce, include_self) = (a.int(1)?, Reduce::parse(a.str(4)?)?, a.bool(5)?);
    let spec = ScatterSpec { dim, reduce, include_self, node: "ScatterReduceBackward0" };
    Ok(scatter_reduce(a.tensor(0)?, a.tensor(2)?, a.tensor(3)?, spec)?.into())
}

/// As `scatter_reduce` for whole rows: a vector contains the target indices in `dim` of the rows of `source`.
fn index_reduce_op(a: &Args) -> Result<Out> {
    static WARNED: AtomicBool = AtomicBool::new(false);
    warn_once(&WARNED, "index_reduce() is in beta and the API may change at any time.")?;
    let (t, index, source) = (a.tensor(0)?, a.tensor(2)?, a.tensor(3)?);
    let d = wrap_dim(a.int(1)?, t.rank())?;
    let reduce = match a.str(4)? {
        "prod" => Reduce::Prod,
        "mean" => Reduce::Mean,
        "amax" => Reduce::Amax,
        "amin" => Reduce::Amin,
        other => bail!(
            Runtime,
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {other}."
        ),
    };
    ensure!(
        t.dtype() == source.dtype(),
        Runtime,
        "index_reduce(): self and source expected to have the same dtype, but got (self) {} and (source) {}",
        t.dtype().scalar_name(),
        source.dtype().scalar_name()
    );
    ensure!(
        index.rank() <= 1,
        Index,
        "index_reduce(): Index should have dimension 1 or 0 (got {})",
        index.rank()
    );
    let rows = size_at(source, d);
    ensure!(
        index.numel() == rows,
        Runtime,
        "index_reduce(): Number of indices ({}) should be equal to source.size(dim) ({rows})",
        index.numel()
    );
    let along: Dims = (0..source.rank()).map(|k| if k == d { rows } else { 1 }).collect();
    let index = view::expand_to(&view::reshape_to(index, &along)?, source.shape())?;
    let spec = ScatterSpec { dim: d as i64, reduce, include_self: a.bool(5)?, node: "IndexReduceBackward0" };
    Ok(scatter_reduce(t, &index, source, spec)?.into())
}

/// As `gather`, with other dimensions broadcast; over all elements if `dim` is None.
fn take_along_dim(a: &Args) -> Result<Out> {
    let (t, index) = (a.tensor(0)?, a.tensor(1)?);
    ensure!(
        index.dtype() == DType::I64,
        Runtime,
        "torch.take_along_dim(): dtype of indices should be Long but got {}",
        index.dtype().scalar_name()
    );
    // Unlike in gather, negative indices count from the end.
    let wrapped = |n: usize| {
        let negative = rows::lt.call(&[index.into(), 0i64.into()], &[])?;
        let later = arith::add(index, n as i64)?;
        rows::select_where.call(&[(&negative).into(), (&later).into(), index.into()], &[])
    };
    let Some(dim) = a.opt_int(2)? else {
        let flat = |x: &Tensor| view::reshape_to(x, &Dims::from([x.numel()]));
        return Ok(gather(&flat(t)?, 0, &flat(&wrapped(t.numel())?)?)?.into());
    };
    ensure!(
        t.rank() == index.rank(),
        Runtime,
        "torch.take_along_dim(): input and indices should have the same number of dimensions, but got {} dimensions for \
         input, and {} dimensions for indices",
        t.rank(),
        index.rank()
    );
    let d = wrap_dim(dim, t.rank())?;
    let with = |own: &Tensor, other: &Tensor| -> Result<Tensor> {
        let mut shape = other.shape().clone();
        if let Some(n) = shape.get_mut(d) {
            *n = own.shape()[d];
        }
        let shape = crate::layout::broadcast("take_along_dim", own.shape(), &shape)?;
        view::expand_to(own, &shape)
    };
    let index = &wrapped(size_at(t, d))?;
    Ok(gather(&with(t, index)?, d as i64, &with(index, t)?)?.into())
}

ops! {
    /// The elements whose position in a dimension the index gives.
    "gather" BOTH | OUT, out GATHERED, batch GATHER {
        (input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) =>
            |a| Ok(gather_impl(a.tensor(0)?, a.int(1)?, a.tensor(2)?)?.into());
        /// As `gather`.
        pub fn gather(t: &Tensor, dim: i64, index: &Tensor) -> Tensor as (t, dim, index, false) = gather_impl;
    }
    /// The tensor with values at the positions in a dimension that the index gives.
    "scatter" ALL | BY_INDEX | TARGET, out SAME, batch GATHER {
        (input: Tensor, dim: int, index: Tensor, src: Operand, *, reduce: str? = None) => scatter_op;
        /// As `scatter`.
        pub fn scatter(t: &Tensor, dim: i64, index: &Tensor, src: Arg) -> Tensor as (t, dim, index, src, None::<&str>) =
            scatter_impl;
        (input: Tensor, dim: int, index: Tensor, value: Number, *, reduce: str? = None) => scatter_op;
    }
    /// The tensor with `src` added at the positions in a dimension that the index gives.
    "scatter_add" ALL | BY_INDEX | TARGET, autocast WIDEST_ON_GPU, out SAME, batch GATHER {
        pub fn scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor = scatter_add_impl;
    }
    /// The tensor with values reduced into the positions in a dimension that the index gives.
    "scatter_reduce" ALL | BY_INDEX | TARGET, out SAME, batch GATHER {
        (input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) =>
            scatter_reduce_op;
    }
    /// The tensor with rows reduced into the indices of a dimension that a vector lists.
    "index_reduce" ALL, batch INDEX_DIM {
        (input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True) =>
            index_reduce_op;
    }
    /// The elements whose position in a dimension the broadcast index gives.
    "take_along_dim" BOTH | OUT, batch PARTS {
        (input: Tensor, indices: Tensor, dim: int? = None) => take_along_dim;
    }
}
