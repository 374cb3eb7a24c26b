//! Operations with indices.

use smallvec::SmallVec;

use super::call::Values;
use super::simple::with_shifted_dims;
use super::{BatchCall, CURRENT, parts_of};
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::layout::{Dims, wrap_dim};
use crate::ops::index::{index_select, nonzero};
use crate::ops::interpreter::{self, Interpreter};
use crate::ops::pointwise::Arg;
use crate::ops::schema::{Out, Value};
use crate::ops::{arith, creation, view};
use crate::tensor::Tensor;
use crate::{bail, ensure};

/// `gather` and `scatter` with their kin: all tensors get the mapped dimensions.
pub fn gather(c: &BatchCall) -> Result<Out> {
    let rank = c.rank();
    let t = c.first()?;
    // A tensor without dimensions counts as one with a single element.
    let wide =
        |t: &Tensor| if c.writes() && t.same(c.first()?) { c.with_all(t, 0) } else { c.expanded(t, 0) };
    let narrow = rank == 0
        || t.rank() == 0
        || crate::ops::mirror::tensors(c.values).iter().any(|o| o.rank() != t.rank());
    if narrow {
        return super::slices::by_slices(c);
    }
    let values = c.map(wide)?;
    let values = with_shifted_dims(c, values, t.rank())?;
    c.finish(&values)
}

/// `index_select`, `index_add` and kin: indices of one dimension, which are the same for all slices.
pub fn along_dim(c: &BatchCall) -> Result<Out> {
    let t = c.first()?;
    let index = c.tensor("index").or_else(|| c.tensor("indices"));
    let (Some(index), true) = (index, t.rank() > 0) else { return super::slices::by_slices(c) };
    if index.is_batched() {
        return match c.op_name() {
            "index_select" => selected(c, t, index),
            _ => super::slices::by_slices(c),
        };
    }
    let values = c.map(|o| {
        if o.same(index) {
            Ok(o.clone())
        } else if o.same(t) {
            c.with_all(o, 0)
        } else if o.rank() == 0 {
            Ok(parts_of(o).0)
        } else {
            c.expanded(o, 0)
        }
    })?;
    let numbers = crate::ops::mirror::tensors(c.values).iter().any(|o| o.rank() == 0 && o.is_batched());
    if numbers {
        return super::slices::by_slices(c);
    }
    let values = if c.writes() { values } else { first_expanded(c, values)? };
    let values = with_shifted_dims(c, values, t.rank())?;
    c.finish(&values)
}

fn first_expanded(c: &BatchCall, mut values: Values) -> Result<Values> {
    values[0] = Value::Tensor(c.expanded(c.first()?, 0)?);
    Ok(values)
}

/// Other indices for each slice.
fn selected(c: &BatchCall, t: &Tensor, index: &Tensor) -> Result<Out> {
    let Value::Number(dim) = c.value("dim") else { return super::slices::by_slices(c) };
    let d = wrap_dim(dim.to_i64(), t.rank())?;
    let mut picks: Vec<Option<Tensor>> = vec![None; d];
    let lone = index.rank() == 0;
    let index = if lone {
        Tensor::batched_over(view::unsqueeze(&parts_of(index).0, -1)?, parts_of(index).1)?
    } else {
        index.clone()
    };
    picks.push(Some(index));
    Ok(Out::Tensor(picked(c, t, &picks)?))
}

/// Rows of a table.
pub fn embedding(c: &BatchCall) -> Result<Out> {
    let (Some(indices), Some(weight)) = (c.tensor("input"), c.tensor("weight")) else {
        bail!(Type, "embedding(): arguments must be Tensors")
    };
    // These count the indices of a call, or leave rows without a gradient.
    let counts = !matches!(c.value("max_norm"), Value::None)
        || c.value("scale_grad_by_freq").is_true()
        || (weight.is_batched() && !matches!(c.value("padding_idx"), Value::None));
    if counts {
        return super::slices::by_slices(c);
    }
    if !weight.is_batched() {
        return super::simple::leading(c);
    }
    ensure!(weight.rank() == 2, Runtime, "'weight' must be 2-D");
    let out = picked(c, weight, &[Some(indices.clone())])?;
    Ok(Out::Tensor(out))
}

/// The indices of the slices, such that they broadcast in front of `rank` dimensions.
fn of_slices(c: &BatchCall, rank: usize) -> Result<Tensor> {
    let numbers =
        creation::arange(Scalar::Int(0), Scalar::Int(c.slices() as i64), Scalar::Int(1), Some(DType::I64))?;
    let device = c.device();
    let mut numbers = arith::to(&numbers, device, DType::I64)?;
    for _ in 0..rank {
        numbers = view::unsqueeze(&numbers, -1)?;
    }
    Ok(numbers)
}

/// `t[picks]`, by indices of its first dimensions.
fn picked(c: &BatchCall, t: &Tensor, picks: &[Option<Tensor>]) -> Result<Tensor> {
    let (value, all, moved) = physical(c, t, picks)?;
    let out = crate::ops::index::index(&value, &all)?;
    let out = match moved {
        Moved::No => out,
        // The indices of slices lead, and those of the program follow the dimensions in front of them.
        Moved::Behind { before, width } => {
            let from: Vec<i64> = (1..=width as i64).collect();
            let to: Vec<i64> = (0..width as i64).map(|i| 1 + before as i64 + i).collect();
            view::movedim(&out, &from, &to)?
        }
        // The indices of the program lead, and the slices follow.
        Moved::Ahead { width } => view::movedim(&out, &[width as i64], &[0])?,
    };
    c.unmerged(out)
}

/// Indices by dimension.
type Picks = SmallVec<[Option<Tensor>; 4]>;

/// Where the dimensions of indices stand in what they select.
enum Moved {
    No,
    Behind { before: usize, width: usize },
    Ahead { width: usize },
}

/// The value and indices of its dimensions that select for all slices.
fn physical(c: &BatchCall, t: &Tensor, picks: &[Option<Tensor>]) -> Result<(Tensor, Picks, Moved)> {
    let value = c.merged(t)?;
    let mask = picks.iter().flatten().any(|p| p.is_batched() && matches!(p.dtype(), DType::Bool | DType::U8));
    ensure!(
        !mask,
        Runtime,
        "vmap: indexing by a mask that differs between the slices has a result of dynamic shape. Use torch.where instead"
    );
    let width = picks.iter().flatten().map(Tensor::rank).max().unwrap_or(0);
    let places: Vec<usize> = picks.iter().enumerate().filter_map(|(i, p)| p.as_ref().map(|_| i)).collect();
    let together = places.windows(2).all(|w| w[1] == w[0] + 1);
    let mut all = Picks::new();
    if !picks.iter().flatten().any(Tensor::is_batched) {
        all.push(None);
        all.extend(picks.iter().cloned());
        return Ok((value, all, if together { Moved::No } else { Moved::Ahead { width } }));
    }
    all.push(Some(of_slices(c, width)?));
    for p in picks {
        all.push(match p {
            Some(p) if p.is_batched() => {
                let mut own = c.merged(p)?;
                for _ in p.rank()..width {
                    own = view::unsqueeze(&own, 1)?;
                }
                Some(own)
            }
            other => other.clone(),
        });
    }
    let before = places.first().copied().unwrap_or(0);
    let moved = if together && before > 0 { Moved::Behind { before, width } } else { Moved::No };
    Ok((value, all, moved))
}

/// `index_put`.
pub fn index_put(c: &BatchCall) -> Result<Out> {
    let t = c.first()?;
    let (Value::OptTensors(picks), Some(values)) = (c.value("indices"), c.tensor("values")) else {
        return super::slices::by_slices(c);
    };
    let masks = picks.iter().flatten().any(|p| matches!(p.dtype(), DType::Bool | DType::U8));
    if masks || (c.writes() && c.n() > 1) {
        return super::slices::by_slices(c);
    }
    let (value, all, moved) = physical(c, t, picks)?;
    // The shape that is written, to which the values broadcast.
    let rank = picks.iter().flatten().map(Tensor::rank).max().unwrap_or(0) + t.rank()
        - picks.iter().flatten().count();
    let new = if values.is_batched() {
        let v = c.merged(values)?;
        let mut v = v;
        for _ in values.rank()..rank {
            v = view::unsqueeze(&v, 1)?;
        }
        match moved {
            Moved::No => v,
            Moved::Behind { before, width } => {
                let from: Vec<i64> = (0..width as i64).map(|i| 1 + before as i64 + i).collect();
                let to: Vec<i64> = (1..=width as i64).collect();
                view::movedim(&v, &from, &to)?
            }
            Moved::Ahead { width } => view::movedim(&v, &[0], &[width as i64])?,
        }
    } else if matches!(moved, Moved::No) || values.rank() == 0 {
        values.clone()
    } else {
        return super::slices::by_slices(c);
    };
    let given = [
        Value::Tensor(value),
        Value::OptTensors(all.to_vec()),
        Value::Tensor(new),
        c.value("accumulate").clone(),
    ];
    let out = c.run(&given)?;
    if c.writes() {
        return Ok(Out::Tensor(t.clone()));
    }
    Ok(Out::Tensor(c.unmerged(out.tensor()?)?))
}

/// `where` of three arguments; of the condition alone, whose result has a dynamic shape, an error.
pub fn choose(c: &BatchCall) -> Result<Out> {
    ensure!(
        c.values.len() > 1,
        Runtime,
        "Attempted to vmap over aten::where, which has an output of dynamic shape: pass what to choose from"
    );
    super::simple::pointwise(c)
}

/// `masked_fill`, with a number, a tensor, or a batched tensor of values.
pub fn masked_fill(c: &BatchCall) -> Result<Out> {
    let (t, Some(mask)) = (c.first()?, c.tensor("mask")) else { return super::slices::by_slices(c) };
    let Some(value) = c.tensor("value").filter(|v| v.is_batched()) else {
        return super::simple::pointwise(c);
    };
    let rank = if c.writes() { t.rank() } else { t.rank().max(mask.rank()) };
    let own = c.aligned(t, rank)?;
    let value = arith::to_dtype(&c.aligned(value, rank)?, t.dtype())?;
    let filled = crate::ops::index::select_where(&c.aligned(mask, rank)?, Arg::T(&value), Arg::T(&own))?;
    if c.writes() {
        crate::ops::cast::copy_into(&own, &filled)?;
        return Ok(Out::Tensor(t.clone()));
    }
    Ok(Out::Tensor(c.batched(filled)?))
}

/// `masked_select` by a mask that is the same for all slices: their results have one length.
pub fn masked_select(c: &BatchCall) -> Result<Out> {
    let (t, Some(mask)) = (c.first()?, c.tensor("mask")) else { return super::slices::by_slices(c) };
    if mask.is_batched() {
        return c.refuse(super::DYNAMIC);
    }
    let shape = view::broadcast_shape([t.shape(), mask.shape()])?;
    let of_slices = |own: &[usize]| c.sizes.iter().chain(own).copied().collect::<Dims>();
    let own = view::expand_to(&c.with_all(t, shape.len())?, &of_slices(&shape))?;
    let own = view::reshape_to(&own, &of_slices(&[shape.numel()]))?;
    let mask = view::reshape_to(&view::expand_to(mask, &shape)?, &Dims::from([shape.numel()]))?;
    let at = view::flatten(&nonzero(&mask)?, 0, -1)?;
    Ok(Out::Tensor(c.batched(index_select(&own, c.n() as i64, &at)?)?))
}

/// Calls `f` as a rule of the running levels, for brackets, which are not in the table.
fn by_brackets<R>(f: impl FnOnce(&BatchCall) -> Result<R>, tensors: Vec<Tensor>) -> Result<R> {
    let Some(batching) = CURRENT.with(|c| c.borrow().clone()) else {
        bail!(Runtime, "vmap: a tensor was used outside of the vmap that made it")
    };
    let op = super::call::operation("index_put", crate::ops::schema::Exposure::FUNCTION)?;
    let call = interpreter::OpCall {
        op,
        overload: &op.overloads[0],
        form: interpreter::Form::New,
        caller: interpreter::Caller::Core,
    };
    let shared: std::sync::Arc<dyn Interpreter> = batching.clone();
    let values = [Value::Tensors(tensors)];
    interpreter::below(&shared, |next| {
        let c = BatchCall::new(&batching, &call, &values, next)?;
        f(&c)
    })
}

/// `t[picks]`, where any of these is batched; None if none is.
pub fn index(t: &Tensor, picks: &[Option<Tensor>]) -> Option<Result<Tensor>> {
    let tensors: Vec<Tensor> = std::iter::once(t).chain(picks.iter().flatten()).cloned().collect();
    if !tensors.iter().any(Tensor::is_batched) {
        return None;
    }
    Some(by_brackets(|c| picked(c, t, picks), tensors))
}

/// `view[picks] = value`, where any of these is batched; None if none is.
pub fn set_index(t: &Tensor, picks: &[Option<Tensor>], value: Arg) -> Option<Result<()>> {
    let given = if let Arg::T(v) = value { Some(v) } else { None };
    let mut all = std::iter::once(t).chain(picks.iter().flatten()).chain(given);
    if !all.any(Tensor::is_batched) {
        return None;
    }
    Some(set(t, picks, value))
}

fn set(t: &Tensor, picks: &[Option<Tensor>], value: Arg) -> Result<()> {
    if picks.is_empty() {
        return match value {
            Arg::S(s) => creation::fill_all(t, s),
            Arg::T(v) => {
                // As in PyTorch, leading dimensions of size 1 are dropped.
                let extra = v.rank().saturating_sub(t.rank());
                let own: Dims = v.shape()[extra..].into();
                let v = if extra > 0 && v.shape()[..extra].iter().all(|&n| n == 1) {
                    view::reshape_to(v, &own)?
                } else {
                    v.clone()
                };
                crate::ops::cast::copy_into(t, &v)
            }
        };
    }
    let mask = match picks {
        [Some(mask)] if mask.dtype() == DType::Bool && mask.shape() == t.shape() => Some(mask),
        _ => None,
    };
    let number;
    let value = match value {
        Arg::T(v) => v,
        Arg::S(s) => {
            number = Tensor::scalar(s, t.dtype())?;
            &number
        }
    };
    let op = match mask {
        Some(_) => super::call::operation("masked_fill", crate::ops::schema::Exposure::INPLACE)?,
        None => super::call::operation("index_put", crate::ops::schema::Exposure::INPLACE)?,
    };
    let values: Vec<Value> = match mask {
        Some(mask) => {
            ensure!(
                value.rank() == 0,
                Runtime,
                "vmap: writing several values by a mask is not supported: use torch.where"
            );
            vec![Value::Tensor(t.clone()), Value::Tensor(mask.clone()), Value::Tensor(value.clone())]
        }
        None => {
            let value =
                if value.dtype() == t.dtype() { value.clone() } else { arith::to_dtype(value, t.dtype())? };
            let no = Value::Number(Scalar::Bool(false));
            vec![Value::Tensor(t.clone()), Value::OptTensors(picks.to_vec()), Value::Tensor(value), no]
        }
    };
    let overload = &op.overloads[0];
    crate::ops::call_inplace(op, overload, &values).map(drop)
}
