//! Views with sizes, joined tensors, new tensors.

use super::BatchCall;
use super::simple::{shifted, with_shifted_dims};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::layout::Dims;
use crate::ops::schema::{Out, Value};
use crate::ops::view;
use crate::tensor::Tensor;
use crate::{bail, ensure};

/// Sizes of slices with those of the mapped dimensions in front.
fn with_sizes(c: &BatchCall, sizes: &[i64]) -> Value {
    Value::Ints(c.sizes.iter().map(|&n| n as i64).chain(sizes.iter().copied()).collect())
}

/// The position and the sizes of the first list of them.
fn list<'a>(c: &'a BatchCall) -> Option<(usize, &'a [i64])> {
    let names = ["size", "shape", "sizes", "repeats", "dims"];
    c.params().iter().zip(c.values).enumerate().find_map(|(i, (p, v))| match v {
        Value::Ints(sizes) if names.contains(&p.name) => Some((i, &sizes[..])),
        _ => None,
    })
}

/// A view, or a repetition, of one tensor in given sizes.
pub fn sizes(c: &BatchCall) -> Result<Out> {
    let t = c.first()?;
    let Some((at, given)) = list(c) else {
        // Another dtype in place of sizes.
        return super::simple::leading(c);
    };
    // Dimensions are added in front of those of the slices.
    let widens = matches!(c.op_name(), "expand" | "expand_copy" | "broadcast_to" | "repeat" | "tile");
    let rank = if widens { given.len().max(t.rank()) } else { t.rank() };
    let mut values = c.map(|t| c.expanded(t, rank))?;
    values[at] = match c.op_name() {
        "repeat" | "tile" => {
            let missing = if c.op_name() == "tile" { rank - given.len().min(rank) } else { 0 };
            let ones = std::iter::repeat_n(1, c.n() + missing);
            Value::Ints(ones.chain(given.iter().copied()).collect())
        }
        _ => with_sizes(c, given),
    };
    c.finish(&values)
}

/// Views whose dimensions follow from the shape, or which are given as an order of all.
pub fn all_dims(c: &BatchCall) -> Result<Out> {
    let t = c.first()?;
    let (n, rank) = (c.n() as i64, t.rank());
    let value = c.with_all(t, rank)?;
    let order = |reversed: &mut dyn Iterator<Item = i64>| (0..n).chain(reversed).collect::<Vec<i64>>();
    let out = match c.op_name() {
        "permute" | "permute_copy" => {
            let mut values = c.map(|t| c.with_all(t, rank))?;
            let given = match &c.values[1] {
                Value::Ints(dims) => {
                    dims.iter().map(|&d| shifted(d, rank, c.n())).collect::<Result<Vec<_>>>()?
                }
                _ => bail!(Type, "permute(): argument 'dims' must be tuple of ints"),
            };
            values[1] = Value::Ints((0..n).chain(given).collect());
            return c.finish(&values);
        }
        "T" => view::permute(&value, &order(&mut (n..n + rank as i64).rev()))?,
        "t" | "t_copy" | "H" if rank < 2 => value,
        "t" | "t_copy" | "H" if rank > 2 => {
            bail!(Runtime, "{}() expects a tensor with <= 2 dimensions, but self is {rank}D", c.op_name())
        }
        "mT" | "mH" if rank < 2 => {
            bail!(
                Runtime,
                "tensor.{} is only supported on matrices or batches of matrices. Got {rank}-D tensor.",
                c.op_name()
            )
        }
        "t" | "t_copy" | "H" | "mT" | "mH" | "adjoint" => view::transpose(&value, -2, -1)?,
        "squeeze" | "squeeze_copy" => {
            let ones: Vec<i64> = (0..rank).filter(|&d| t.shape()[d] == 1).map(|d| d as i64 + n).collect();
            if ones.is_empty() {
                view::view_as(&value, &value.shape().clone())?
            } else {
                view::squeeze(&value, &ones)?
            }
        }
        "ravel" if rank == 0 => view::unsqueeze(&value, n)?,
        "ravel" => view::flatten(&value, n, -1)?,
        "msort" if rank == 0 => value,
        "msort" => {
            let values = [Value::Tensor(value), Value::Number(Scalar::Int(n))];
            return c.wrap(Out::Tensor(sorted(c, &values)?));
        }
        name => bail!(Runtime, "vmap: {name}() has no rule for all dimensions"),
    };
    Ok(Out::Tensor(c.batched(out)?))
}

/// `squeeze` of all dimensions, or of those that are named.
pub fn squeeze(c: &BatchCall) -> Result<Out> {
    if c.position("dim").is_some() { super::simple::dims(c) } else { all_dims(c) }
}

fn sorted(c: &BatchCall, values: &[Value]) -> Result<Tensor> {
    let Value::Tensor(t) = &values[0] else { bail!(Type, "msort(): argument 'input' must be Tensor") };
    let op = super::call::operation("sort", crate::ops::schema::Exposure::FUNCTION)?;
    let no = Value::Number(Scalar::Bool(false));
    let out = c.run_other(op, &op.overloads[0], &[Value::Tensor(t.clone()), values[1].clone(), no])?;
    crate::ops::mirror::results(&out)
        .first()
        .cloned()
        .ok_or_else(|| crate::error::Error::Runtime("sort()".into()))
}

/// A view in the shape of another tensor: a view in sizes.
pub fn like_other(c: &BatchCall) -> Result<Out> {
    let (t, other) = match c.values {
        [Value::Tensor(t), Value::Tensor(other), ..] => (t, other),
        _ => bail!(Type, "{}(): arguments must be Tensors", c.op_name()),
    };
    let shape: Dims = c.sizes.iter().chain(other.shape().iter()).copied().collect();
    let out = match c.op_name() {
        "expand_as" => view::expand_to(&c.expanded(t, other.rank())?, &shape)?,
        "view_as" => view::view_as(&c.expanded(t, 0)?, &shape)?,
        "reshape_as" => view::reshape_to(&c.expanded(t, 0)?, &shape)?,
        // The dtype of the other tensor.
        _ => crate::ops::arith::to_dtype(&c.expanded(t, 0)?, other.dtype())?,
    };
    Ok(Out::Tensor(c.batched(out)?))
}

/// `new_zeros` and its kin: the sizes get those of the mapped dimensions in front.
pub fn new_tensor(c: &BatchCall) -> Result<Out> {
    let Some((at, given)) = list(c) else { return super::simple::leading(c) };
    let mut values = c.map(|t| c.with_all(t, 0))?;
    values[at] = with_sizes(c, given);
    if let Some(i) = c.position("stride")
        && let Value::Ints(strides) = &c.values[i]
    {
        let empty = given.contains(&0);
        let last: i64 = given.iter().zip(strides).map(|(&size, &stride)| (size - 1) * stride).sum();
        let elements = if empty { 0 } else { last + 1 };
        let mut outer: Vec<i64> = Vec::new();
        let mut step = elements;
        for &n in c.sizes.iter().rev() {
            outer.insert(0, step);
            step *= n as i64;
        }
        values[i] = Value::Ints(outer.into_iter().chain(strides.iter().copied()).collect());
    }
    c.finish(&values)
}

/// A view with strides of slices, which keep the distance that they have; the offset is that of the first slice.
pub fn as_strided(c: &BatchCall) -> Result<Out> {
    let t = c.first()?;
    let (Value::Ints(size), Value::Ints(stride)) = (c.value("size"), c.value("stride")) else {
        bail!(Type, "as_strided(): sizes and strides must be tuples of ints")
    };
    ensure!(
        size.len() == stride.len(),
        Runtime,
        "mismatch in length of strides and shape: size and stride must have the same length"
    );
    let value = c.with_all(t, 0)?;
    let own = value.layout();
    let given = |sizes: &[i64], strides: &[i64]| -> i64 {
        if sizes.contains(&0) { 0 } else { sizes.iter().zip(strides).map(|(n, s)| (n - 1) * s).sum() }
    };
    let of_slice = |all: &[isize]| all[c.n()..].iter().map(|&s| s as i64).collect::<Vec<_>>();
    let sizes: Vec<i64> = own.shape[c.n()..].iter().map(|&n| n as i64).collect();
    let last = own.offset as i64 + given(&sizes, &of_slice(&own.strides));
    let first = match c.value("storage_offset") {
        Value::Number(at) => at.to_i64(),
        _ => own.offset as i64,
    };
    let wanted = first + given(size, stride);
    ensure!(
        size.contains(&0) || (first >= own.offset as i64 && wanted <= last),
        Runtime,
        "result = tensor.as_strided({size:?}, {stride:?}, {first}) can access memory outside of `tensor`. `result` can access \
         some memory in range [{first}, {}], but `tensor` can only access some memory in range [{}, {}]. This is not \
         supported inside of vmap, please try to rewrite the `as_strided` call as a sequence of PyTorch view operations",
        wanted + 1,
        own.offset,
        last + 1
    );
    let expanded = (0..c.n()).any(|d| own.strides[d] == 0 && own.shape[d] > 1);
    if expanded && !c.writes() {
        // One view of memory that slices share would mix their gradients.
        return super::slices::by_slices(c);
    }
    let outer = value.strides()[..c.n()].iter().map(|&s| s as i64);
    let mut values = c.map(|_| Ok(value.clone()))?;
    values[1] = with_sizes(c, size);
    values[2] = Value::Ints(outer.chain(stride.iter().copied()).collect());
    c.finish(&values)
}

/// Tensors joined in a dimension, which all get the mapped ones.
pub fn join(c: &BatchCall) -> Result<Out> {
    let Some(Value::Tensors(ts)) = c.values.first() else {
        bail!(Type, "{}(): argument 'tensors' must be tuple of Tensors", c.op_name())
    };
    let rank = c.rank();
    // PyTorch joins an empty vector with anything.
    let skipped = |t: &Tensor| c.op_name() == "cat" && t.rank() == 1 && t.numel() == 0 && rank > 1;
    let kept = ts.iter().filter(|t| !skipped(t)).map(|t| c.expanded(t, 0)).collect::<Result<Vec<_>>>()?;
    let extra = usize::from(c.op_name() == "stack");
    let dim = match &c.values[1] {
        Value::Number(s) => shifted(s.to_i64(), rank + extra, c.n())?,
        _ => c.n() as i64,
    };
    let values = [Value::Tensors(kept), Value::Number(Scalar::Int(dim))];
    c.finish(&values)
}

/// `roll` of dimensions, or of all elements.
pub fn roll(c: &BatchCall) -> Result<Out> {
    let named = matches!(c.value("dims"), Value::Ints(dims) if !dims.is_empty());
    let rank = c.first()?.rank();
    if named || rank == 0 {
        return super::simple::dims(c);
    }
    let value = c.expanded(c.first()?, rank)?;
    let mut values = c.map(|_| view::flatten(&value, c.n() as i64, -1))?;
    for (p, v) in c.params().iter().zip(values.iter_mut()) {
        if p.name == "dims" {
            *v = Value::Ints([c.n() as i64].into_iter().collect());
        }
    }
    let rolled = c.run(&values)?.tensor()?;
    Ok(Out::Tensor(c.batched(view::reshape_to(&rolled, value.shape())?)?))
}

/// Writes the elements of another tensor, or a number.
pub fn copy(c: &BatchCall) -> Result<Out> {
    let t = c.first()?;
    if let (Some(value), "fill") =
        (c.tensor("value").filter(|v| v.is_batched()), c.op_name().trim_end_matches('_'))
    {
        let value = crate::ops::arith::to_dtype(&c.aligned(value, t.rank())?, t.dtype())?;
        let into = c.with_all(t, 0)?;
        if c.writes() {
            crate::ops::cast::copy_into(&into, &value)?;
            return Ok(Out::Tensor(t.clone()));
        }
        let shape = c.sizes.iter().chain(t.shape().iter()).copied().collect();
        let wide = view::expand_to(&value, &shape)?;
        return Ok(Out::Tensor(
            c.batched(crate::ops::cast::clone_in(&wide, crate::layout::MemoryFormat::Contiguous)?)?,
        ));
    }
    let values = c.map(|other| if other.same(t) { c.with_all(t, 0) } else { c.aligned(other, t.rank()) })?;
    c.finish(&values)
}

/// `select_scatter` and its kin: both tensors have all mapped dimensions.
pub fn part(c: &BatchCall) -> Result<Out> {
    let values = c.map(|t| c.expanded(t, 0))?;
    let values = with_shifted_dims(c, values, c.first()?.rank())?;
    c.finish(&values)
}
