//! Random integers and permutations.

use std::sync::Arc;

use super::{Generator, stream, stream_of};
use crate::backend::copy;
use crate::backend::random::{self as kernel, permutation};
use crate::dtype::DType;
use crate::ensure;
use crate::error::{Error, Result, warn};
use crate::ops::creation::{dtype_or, finish, finish_like, like, overwrite};
use crate::ops::schema::{Args, Out};
use crate::tensor::Tensor;

/// Fills `t` with integers in [from, to).
fn whole_numbers(t: &Tensor, from: i64, to: i64, generator: Option<&Arc<Generator>>) -> Result<()> {
    ensure!(
        from < to,
        Runtime,
        "random_ expects 'from' to be less than 'to', but got from={from} >= to={to}"
    );
    ensure!(
        !t.dtype().is_float8(),
        Error::DtypeNotImplemented { op: "random_update_from_to", dtype: t.dtype() }
    );
    if let Some((least, most)) = bounds(t.dtype()) {
        ensure!(from >= least && from <= most, Runtime, "from is out of bounds for {}", c_name(t.dtype()));
        ensure!(to - 1 <= most, Runtime, "to - 1 is out of bounds for {}", c_name(t.dtype()));
    }
    let direct = t.is_contiguous() && t.dtype() == DType::I64;
    let out = if direct { t.clone() } else { Tensor::empty_on(t.shape().clone(), DType::I64, t.device())? };
    kernel::fill(kernel::Draw::Integers(from, to), stream(generator, t), out.raw())?;
    if !out.same(t) {
        copy::copy(out.raw(), t.raw())?;
    }
    Ok(())
}

/// The smallest and the largest number of an integer dtype.
fn bounds(dtype: DType) -> Option<(i64, i64)> {
    Some(match dtype {
        DType::Bool => (0, 1),
        DType::U8 => (0, 255),
        DType::I8 => (i8::MIN as i64, i8::MAX as i64),
        DType::I16 => (i16::MIN as i64, i16::MAX as i64),
        DType::I32 => (i32::MIN as i64, i32::MAX as i64),
        DType::I64 => (i64::MIN, i64::MAX),
        DType::U16 => (0, u16::MAX as i64),
        DType::U32 => (0, u32::MAX as i64),
        DType::U64 => (0, i64::MAX),
        _ => return None,
    })
}

/// The name of a dtype in messages about ranges.
fn c_name(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::U8 => "unsigned char",
        DType::I8 => "signed char",
        DType::I16 => "short",
        DType::I32 => "int",
        DType::U16 => "short unsigned int",
        DType::U32 => "unsigned int",
        DType::U64 => "long unsigned int",
        _ => "long",
    }
}

/// The exclusive upper limit of `random_()`: all non-negative integers that the dtype represents.
fn whole_range(dtype: DType) -> i64 {
    match dtype {
        DType::F64 => 1 << 53,
        DType::F32 => 1 << 24,
        DType::F16 => 1 << 11,
        DType::BF16 => 1 << 8,
        d => bounds(d).map_or(i64::MAX, |(_, most)| most.saturating_add(1)),
    }
}

/// Warns if a floating point dtype does not represent every integer in [from, to).
fn warn_of_gaps(dtype: DType, from: i64, to: i64) -> Result<()> {
    if !dtype.is_float() {
        return Ok(());
    }
    let most = whole_range(dtype);
    for (name, bound) in [("from", from), ("to - 1", to.saturating_sub(1))] {
        if !(-most..=most).contains(&bound) {
            let digits = most.trailing_zeros();
            warn(&format!(
                "{name} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision limitations {} can support \
                 discrete uniform distribution only within this range.",
                dtype.name()
            ))?;
        }
    }
    Ok(())
}

pub(super) fn random_(a: &Args, from: i64, to: Option<i64>, generator: usize) -> Result<Out> {
    if let Some(to) = to {
        warn_of_gaps(a.tensor(0)?.dtype(), from, to)?;
    }
    let write = |t: &Tensor| {
        if generator == 1 {
            t.expect_common("random_kernel_cpu")?;
        }
        whole_numbers(t, from, to.unwrap_or(whole_range(t.dtype())), a.opt_generator(generator)?)
    };
    // By the number of arguments before the generator: both bounds, the upper one, none.
    let node = ["RandomBackward2", "RandomBackward1", "RandomBackward0"][generator.clamp(1, 3) - 1];
    Ok(overwrite(a.tensor(0)?, node, write)?.into())
}

/// Integers in [low, high); the size and the generator follow `high` in the signature, then the options.
pub(super) fn randint(a: &Args, low: i64, high: i64, size: usize) -> Result<Out> {
    let out = Tensor::empty(a.size(size)?, dtype_or(a, size + 2, DType::I64)?)?;
    whole_numbers(&out, low, high, a.opt_generator(size + 1)?)?;
    finish(a, size + 2, out)
}

pub(super) fn randint_like(a: &Args, low: i64, high: i64, generator: usize) -> Result<Out> {
    let out = like(a, generator + 1)?;
    whole_numbers(&out, low, high, a.opt_generator(generator)?)?;
    finish_like(a, generator + 1, out.clone(), &out)
}

pub(super) fn randperm(a: &Args) -> Result<Out> {
    let n = a.int(0)?;
    ensure!(n >= 0, Runtime, "Trying to create tensor with negative dimension {n}: [{n}]");
    let dtype = dtype_or(a, 2, DType::I64)?;
    if let Some((_, most)) = bounds(dtype) {
        ensure!(
            n - 1 <= most,
            Runtime,
            "n is too large for result tensor type: 'torch.{}Tensor'",
            dtype.scalar_name()
        );
    }
    let exact = match dtype {
        DType::F16 => 11,
        DType::BF16 => 8,
        DType::F32 => 24,
        DType::F64 => 53,
        _ => 63,
    };
    ensure!(
        exact == 63 || n <= (1 << exact) + 1,
        Runtime,
        "n cannot be greater than 2^{exact}+1 for {} type.",
        dtype.scalar_name()
    );
    let order = permutation(stream_of(a.opt_generator(1)?, n as usize), n as usize)?;
    finish(a, 2, Tensor::from_slice(&order, [n as usize])?.dense(dtype)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_outside_of_the_dtype_are_refused() {
        let t = Tensor::zeros([2], DType::U8).unwrap();
        let message = whole_numbers(&t, 0, 257, None).unwrap_err().to_string();
        assert_eq!(message, "to - 1 is out of bounds for unsigned char");
        assert!(whole_numbers(&t, 0, 256, None).is_ok());
    }
}
