//! Constructors of tensors, and filling tensors with one value.

mod fill;

use std::sync::atomic::{AtomicBool, Ordering};

use super::cast::format_or_preserve;
use super::pointwise::Arg;
use super::schema::{Args, Out};
use super::{default_device, default_dtype};
use crate::backend::{copy, memory};
use crate::device::Device;
use crate::dtype::{DType, Element, Scalar};
use crate::error::{Error, Result, warn};
use crate::layout::{Dims, Layout, MemoryFormat, Strides, dense_numel};
use crate::tensor::Tensor;
use crate::{bail, ensure, ops};

/// The keyword arguments common to all constructors; the first is argument `at` of a call.
pub(super) const OPTIONS: &str = "dtype: dtype? = None, layout: layout? = None, device: device? = None, pin_memory: \
                                  bool? = False, requires_grad: bool = False";
/// As above, with the memory format.
pub(super) const OPTIONS_LIKE: &str = "dtype: dtype? = None, layout: layout? = None, device: device? = None, \
                                       pin_memory: bool? = False, requires_grad: bool = False, memory_format: \
                                       memory_format? = None";
pub(super) use fill::overwrite;

/// The offset of `requires_grad` from `dtype` among the options.
const REQUIRES_GRAD: usize = 4;
/// The offset of `memory_format` from `dtype`, if present.
const MEMORY_FORMAT: usize = 5;
const DEVICE: usize = 2;

/// The `dtype` of the options that start at argument `at`.
pub(super) fn dtype_or(a: &Args, at: usize, default: DType) -> Result<DType> {
    Ok(a.opt_dtype(at)?.unwrap_or(default))
}

/// The `device` of the options that start at argument `at`.
pub(super) fn device_or(a: &Args, at: usize, default: Device) -> Result<Device> {
    Ok(a.opt_device(at + DEVICE)?.unwrap_or(default))
}

/// A filled tensor with the given options.
fn filled_at(a: &Args, at: usize, shape: Dims, value: Scalar, dtype: DType, default: Device) -> Result<Out> {
    let t = Tensor::empty_on(shape, dtype, device_or(a, at, default)?)?;
    copy::fill(t.raw(), value)?;
    finish_like(a, at, t.clone(), &t)
}

/// Whether memory with unspecified contents is filled, as deterministic programs may ask for.
static FILLS: AtomicBool = AtomicBool::new(false);

/// Sets whether constructors of unspecified contents fill them with NaN, or with the largest number of the dtype.
pub fn set_fills_uninitialized(fills: bool) {
    FILLS.store(fills, Ordering::Relaxed);
}

/// Fills the elements of a new tensor's storage from element `from`, if deterministic programs ask for it.
pub(in crate::ops) fn fill_unspecified(t: &Tensor, from: usize) -> Result<()> {
    if !FILLS.load(Ordering::Relaxed) {
        return Ok(());
    }
    let held = t.storage().len() / t.dtype().size();
    let layout = Layout { offset: from, ..Layout::contiguous([held.saturating_sub(from)].into()) };
    let value = match t.dtype() {
        DType::Bool => Scalar::Bool(true),
        DType::U8 => Scalar::Int(u8::MAX.into()),
        DType::I8 => Scalar::Int(i8::MAX.into()),
        DType::I16 => Scalar::Int(i16::MAX.into()),
        DType::U16 => Scalar::Int(u16::MAX.into()),
        DType::I32 => Scalar::Int(i32::MAX.into()),
        DType::U32 => Scalar::Int(u32::MAX.into()),
        DType::I64 => Scalar::Int(i64::MAX),
        DType::U64 => Scalar::Long(u64::MAX),
        _ => Scalar::Float(f64::NAN),
    };
    copy::fill(t.with_layout(layout).raw(), value)
}

/// As `filled_at`, with unspecified contents.
fn empty_at(a: &Args, at: usize, shape: Dims, dtype: DType, default: Device) -> Result<Out> {
    let t = Tensor::empty_on(shape, dtype, device_or(a, at, default)?)?;
    fill_unspecified(&t, 0)?;
    finish_like(a, at, t.clone(), &t)
}

/// Applies the options `device` and `requires_grad` to a tensor that was computed on the CPU, and uploads it if
/// needed.
pub(super) fn finish(a: &Args, at: usize, t: Tensor) -> Result<Out> {
    finish_on(a, at, t, default_device())
}

/// As `finish`, with the device of `like` as the default.
pub(super) fn finish_like(a: &Args, at: usize, t: Tensor, like: &Tensor) -> Result<Out> {
    finish_on(a, at, t, like.device())
}

fn finish_on(a: &Args, at: usize, t: Tensor, default: Device) -> Result<Out> {
    let t = t.on_device(device_or(a, at, default)?)?;
    if a.bool(at + REQUIRES_GRAD)? {
        ensure!(
            t.dtype().is_float(),
            Runtime,
            "Only Tensors of floating point and complex dtype can require gradients"
        );
        t.set_requires_grad(true)?;
    }
    Ok(t.into())
}

/// A tensor of zeros with the shape of `t` and the given dtype.
pub fn zeros_like(t: &Tensor, dtype: DType) -> Result<Tensor> {
    let out = Tensor::empty_on(t.shape().clone(), dtype, t.device())?;
    copy::fill(out.raw(), Scalar::Int(0))?;
    Ok(out)
}

/// A tensor with the first argument's shape and unspecified contents, with the options that start at argument `at`.
pub(in crate::ops) fn like(a: &Args, at: usize) -> Result<Tensor> {
    let t = a.tensor(0)?;
    let layout = t.layout().in_format(format_or_preserve(a, at + MEMORY_FORMAT)?)?;
    Tensor::empty_dense(layout, dtype_or(a, at, t.dtype())?, device_or(a, at, t.device())?)
}

/// The default dtype of a tensor filled with a number.
fn dtype_of(value: Scalar) -> DType {
    match value {
        Scalar::Bool(_) => DType::Bool,
        Scalar::Int(_) | Scalar::Long(_) => DType::I64,
        Scalar::Float(_) => default_dtype(),
    }
}

// ---- filled

fn filled(a: &Args, value: Scalar) -> Result<Out> {
    filled_at(a, 1, a.size(0)?, value, dtype_or(a, 1, default_dtype())?, default_device())
}

fn filled_like(a: &Args, value: Scalar) -> Result<Out> {
    let out = like(a, 1)?;
    copy::fill(out.raw(), value)?;
    finish_like(a, 1, out.clone(), &out)
}

fn new_filled(a: &Args, value: Scalar) -> Result<Out> {
    let t = a.tensor(0)?;
    filled_at(a, 2, a.size(1)?, value, dtype_or(a, 2, t.dtype())?, t.device())
}

fn full(a: &Args) -> Result<Out> {
    let value = a.number(1)?;
    let dtype = dtype_or(a, 2, dtype_of(value))?;
    filled_at(a, 2, a.size(0)?, value.checked(dtype)?, dtype, default_device())
}

fn full_like(a: &Args) -> Result<Out> {
    let out = like(a, 2)?;
    copy::fill(out.raw(), a.number(1)?.checked(out.dtype())?)?;
    finish_like(a, 2, out.clone(), &out)
}

fn new_full(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    let dtype = dtype_or(a, 3, t.dtype())?;
    filled_at(a, 3, a.size(1)?, a.number(2)?.checked(dtype)?, dtype, t.device())
}

fn scalar_tensor(a: &Args) -> Result<Out> {
    filled_at(a, 1, Dims::default(), a.number(0)?, dtype_or(a, 1, default_dtype())?, default_device())
}

// ---- uninitialized

fn empty(a: &Args) -> Result<Out> {
    let format = a.opt_memory_format(1 + MEMORY_FORMAT)?.unwrap_or(MemoryFormat::Contiguous);
    ensure!(format != MemoryFormat::Preserve, Runtime, "unsupported memory format Preserve");
    let shape = a.size(0)?;
    dense_numel(&shape)?;
    let layout = Layout::contiguous(shape).in_format(format)?;
    let device = device_or(a, 1, default_device())?;
    let out = Tensor::empty_dense(layout, dtype_or(a, 1, default_dtype())?, device)?;
    fill_unspecified(&out, 0)?;
    finish_like(a, 1, out.clone(), &out)
}

fn empty_like(a: &Args) -> Result<Out> {
    let out = like(a, 1)?;
    fill_unspecified(&out, 0)?;
    finish_like(a, 1, out.clone(), &out)
}

fn new_empty(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    empty_at(a, 2, a.size(1)?, dtype_or(a, 2, t.dtype())?, t.device())
}

/// A tensor with the given strides over storage of exactly the required size.
fn strided(shape: Dims, strides: &[i64], dtype: DType, device: Device) -> Result<Tensor> {
    ensure!(
        shape.len() == strides.len(),
        Runtime,
        "dimensionality of sizes ({}) must match dimensionality of strides ({})",
        shape.len(),
        strides.len()
    );
    let overflow = || {
        Error::Runtime(format!(
            "Storage size calculation overflowed with sizes={shape} and strides={strides:?}"
        ))
    };
    ensure!(strides.iter().all(|&s| s >= 0), overflow());
    let strides: Strides = strides.iter().map(|&s| s as isize).collect();
    let layout = Layout { shape: shape.clone(), strides, offset: 0 };
    let numel = match layout.extent() {
        Some((_, last)) => last as usize + 1,
        // The size overflows; an error unless the tensor is empty.
        None if shape.contains(&0) => 0,
        None => bail!(overflow()),
    };
    let bytes = numel.checked_mul(dtype.size()).ok_or_else(overflow)?;
    let t = Tensor::from_parts(memory::alloc(bytes, device)?, layout, dtype);
    fill_unspecified(&t, 0)?;
    Ok(t)
}

fn empty_strided(a: &Args) -> Result<Out> {
    let device = device_or(a, 2, default_device())?;
    let t = strided(a.size(0)?, a.ints(1)?, dtype_or(a, 2, default_dtype())?, device)?;
    finish_like(a, 2, t.clone(), &t)
}

fn new_empty_strided(a: &Args) -> Result<Out> {
    let like = a.tensor(0)?;
    let t = strided(a.size(1)?, a.ints(2)?, dtype_or(a, 3, like.dtype())?, device_or(a, 3, like.device())?)?;
    finish_like(a, 3, t.clone(), &t)
}

/// A tensor whose dimensions have the memory order `physical_layout`.
fn empty_permuted(a: &Args) -> Result<Out> {
    let (shape, order) = (a.size(0)?, a.ints(1)?);
    ensure!(
        order.len() == shape.len(),
        Runtime,
        "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = {} is not \
         equal to len(physical_layout) = {}",
        shape.len(),
        order.len()
    );
    let mut strides = vec![0; shape.len()];
    let mut step = 1i64;
    for &d in order.iter().rev() {
        ensure!(
            (0..shape.len() as i64).contains(&d),
            Runtime,
            "Dimension out of range (expected to be between 0 and {}, but got {d} at index {}).  NB: negative dims \
             not currently supported; file an issue if you want it.",
            shape.len() as i64 - 1,
            order.iter().position(|&o| o == d).unwrap_or(0)
        );
        ensure!(strides[d as usize] == 0, Runtime, "Duplicate dim not allowed");
        strides[d as usize] = step;
        step = step.saturating_mul(shape[d as usize].max(1) as i64);
    }
    let device = device_or(a, 2, default_device())?;
    let t = strided(shape, &strides, dtype_or(a, 2, default_dtype())?, device)?;
    finish_like(a, 2, t.clone(), &t)
}

// ---- sequences

/// A tensor of `n` elements with element i equal to `at(i)`, computed in `S` or float32 and cast to other dtypes, so that
/// the library holds fewer loops.
fn sequence<S: Element>(n: usize, dtype: DType, at: impl Fn(usize) -> S + Sync) -> Result<Tensor> {
    if dtype == DType::F32 {
        let out = Tensor::empty([n], dtype)?;
        memory::fill_by_position::<f32>(out.raw(), |i| f32::from_f64(at(i).to_f64()))?;
        return Ok(out);
    }
    let out = Tensor::empty([n], S::DTYPE)?;
    memory::fill_by_position::<S>(out.raw(), at)?;
    out.into_dense(dtype)
}

/// The number of steps from `start`, inclusive, to `end`, exclusive.
fn steps_between(start: Scalar, end: Scalar, step: Scalar) -> Result<usize> {
    let (s, e, d) = (start.to_f64(), end.to_f64(), step.to_f64());
    ensure!(d != 0.0, Runtime, "step must be nonzero");
    let text = |v: f64| if v.is_nan() { "nan".into() } else { v.to_string() };
    ensure!(s.is_finite() && e.is_finite(), Runtime, "unsupported range: {} -> {}", text(s), text(e));
    ensure!(
        (d > 0.0 && e >= s) || (d < 0.0 && e <= s),
        Runtime,
        "upper bound and lower bound inconsistent with step sign"
    );
    let count = if [start, end, step].iter().all(|v| v.category() < 2) {
        // Exact even if the difference is not representable in a double.
        let (span, step) = (end.to_i64() as i128 - start.to_i64() as i128, step.to_i64() as i128);
        ((span + step - step.signum()) / step) as f64
    } else {
        ((e - s) / d).ceil()
    };
    ensure!(count < isize::MAX as f64, Runtime, "invalid size, possible overflow?");
    Ok(count as usize)
}

/// `start`, `start + step`, … up to `end`, exclusive.
pub fn arange(start: Scalar, end: Scalar, step: Scalar, dtype: Option<DType>) -> Result<Tensor> {
    let integral = [start, end, step].iter().all(|v| v.category() < 2);
    let dtype = dtype.unwrap_or(if integral { DType::I64 } else { default_dtype() });
    if dtype == DType::Bool {
        bail!(Error::DtypeNotImplemented { op: "arange_cpu", dtype });
    }
    let n = steps_between(start, end, step)?;
    if dtype.is_float() {
        let (start, step) = (start.to_f64(), step.to_f64());
        sequence(n, dtype, |i| start + step * i as f64)
    } else {
        let (start, step) = (start.to_i64(), step.to_i64());
        sequence(n, dtype, |i| start.wrapping_add(step.wrapping_mul(i as i64)))
    }
}

fn arange_op(a: &Args) -> Result<Out> {
    finish(a, 1, arange(Scalar::Int(0), a.number(0)?, Scalar::Int(1), a.opt_dtype(1)?)?)
}

fn arange_from_op(a: &Args) -> Result<Out> {
    finish(a, 3, arange(a.number(0)?, a.number(1)?, a.number(2)?, a.opt_dtype(3)?)?)
}

/// `steps` numbers from `start` to `end`, inclusive, each computed from the nearer end and passed to `map`.
fn between(a: &Args, options: usize, op: &'static str, map: impl Fn(f64) -> f64 + Sync) -> Result<Out> {
    let dtype = dtype_or(a, options, default_dtype())?;
    let n = a.int(2)?;
    ensure!(n >= 0, Runtime, "number of steps must be non-negative");
    if dtype == DType::Bool {
        bail!(Error::DtypeNotImplemented { op, dtype });
    }
    let bound = |i| -> Result<f64> {
        let value = match a.operand(i)? {
            Arg::S(v) => v,
            Arg::T(t) => {
                let name = a.name;
                ensure!(t.rank() == 0, Runtime, "{name} only supports 0-dimensional start and end tensors");
                t.item()?
            }
        };
        Ok(if dtype.is_float() { value.to_f64() } else { value.to_i64() as f64 })
    };
    let (start, end, n) = (bound(0)?, bound(1)?, n as usize);
    let step = if n > 1 { (end - start) / (n - 1) as f64 } else { 0.0 };
    let at = |i: usize| {
        if i < n / 2 || n == 1 { start + step * i as f64 } else { end - step * (n - 1 - i) as f64 }
    };
    finish(a, options, sequence(n, dtype, |i| map(at(i)))?)
}

fn linspace(a: &Args) -> Result<Out> {
    between(a, 3, "linspace_cpu", |v| v)
}

fn logspace(a: &Args) -> Result<Out> {
    let base = a.float(3)?;
    between(a, 4, "logspace_cpu", |v| base.powf(v))
}

fn range(a: &Args) -> Result<Out> {
    warn(
        "torch.range is deprecated: torch.arange gives the values in [start, end), as Python's range does.",
    )?;
    let (start, end, step) = (a.number(0)?.to_f64(), a.number(1)?.to_f64(), a.number(2)?.to_f64());
    let n = steps_between(Scalar::Float(start), Scalar::Float(end), Scalar::Float(step))?;
    // `range` includes the end if a step reaches it.
    let n = if ((end - start) / step).fract() == 0.0 { n + 1 } else { n };
    finish(a, 3, sequence(n, dtype_or(a, 3, default_dtype())?, |i| start + step * i as f64)?)
}

// ---- matrices

fn eye(a: &Args, columns: Option<i64>, options: usize) -> Result<Out> {
    let n = a.int(0)?;
    let m = columns.unwrap_or(n);
    ensure!(n >= 0, Runtime, "n must be greater or equal to 0, got {n}");
    ensure!(m >= 0, Runtime, "m must be greater or equal to 0, got {m}");
    let (n, m) = (n as usize, m as usize);
    let out = Tensor::zeros([n, m], dtype_or(a, options, default_dtype())?)?;
    let diagonal =
        Layout { shape: [n.min(m)].into(), strides: [(m as isize).saturating_add(1)].into(), offset: 0 };
    copy::fill(out.with_layout(diagonal).raw(), Scalar::Int(1))?;
    finish(a, options, out)
}

ops! {
    /// A tensor of the given size filled with 0.
    "zeros" FUNCTION | OUT {
        (size: size, *, ..OPTIONS) => |a| {
            let negative = a.ints(0)?.iter().any(|&n| n < 0);
            ensure!(!negative, Runtime, "zeros: Dimension size must be non-negative.");
            filled(a, Scalar::Int(0))
        };
    }
    /// A tensor of the given size filled with 1.
    "ones" FUNCTION | OUT {
        (size: size, *, ..OPTIONS) => |a| filled(a, Scalar::Int(1));
    }
    /// A tensor of the given size filled with `fill_value`.
    "full" FUNCTION | OUT {
        (size: size, fill_value: Number, *, ..OPTIONS) => full;
    }
    /// A tensor of the given size and of unspecified contents.
    "empty" FUNCTION | OUT {
        (size: size, *, ..OPTIONS_LIKE) => empty;
    }
    /// A tensor of the shape and dtype of `input` filled with 0.
    "zeros_like" FUNCTION, batch LEADING {
        (input: Tensor, *, ..OPTIONS_LIKE) => |a| filled_like(a, Scalar::Int(0));
    }
    /// A tensor of the shape and dtype of `input` filled with 1.
    "ones_like" FUNCTION, batch LEADING {
        (input: Tensor, *, ..OPTIONS_LIKE) => |a| filled_like(a, Scalar::Int(1));
    }
    /// A tensor of the shape and dtype of `input` filled with `fill_value`.
    "full_like" FUNCTION, batch LEADING {
        (input: Tensor, fill_value: Number, *, ..OPTIONS_LIKE) => full_like;
    }
    /// A tensor of the shape and dtype of `input` and of unspecified contents.
    "empty_like" FUNCTION, batch LEADING {
        (input: Tensor, *, ..OPTIONS_LIKE) => empty_like;
    }
    /// A tensor of the given size and the dtype of `input` filled with 0.
    "new_zeros" METHOD, batch NEW {
        (input: Tensor, size: size, *, ..OPTIONS) => |a| new_filled(a, Scalar::Int(0));
    }
    /// A tensor of the given size and the dtype of `input` filled with 1.
    "new_ones" METHOD, batch NEW {
        (input: Tensor, size: size, *, ..OPTIONS) => |a| new_filled(a, Scalar::Int(1));
    }
    /// A tensor of the given size and the dtype of `input` filled with `fill_value`.
    "new_full" METHOD, batch NEW {
        (input: Tensor, size: size, fill_value: Number, *, ..OPTIONS) => new_full;
    }
    /// A tensor of the given size and the dtype of `input`, of unspecified contents.
    "new_empty" METHOD, batch NEW {
        (input: Tensor, size: size, *, ..OPTIONS) => new_empty;
    }
    /// A tensor of the given size and strides and the dtype of `input`.
    "new_empty_strided" METHOD, batch NEW {
        (input: Tensor, size: size, stride: size, *, ..OPTIONS) => new_empty_strided;
    }
    /// A tensor of the given size and strides, of unspecified contents.
    "empty_strided" FUNCTION {
        (size: size, stride: size, *, ..OPTIONS) => empty_strided;
    }
    /// A tensor of unspecified contents that is dense with its dimensions in the order `physical_layout`.
    "empty_permuted" FUNCTION {
        (size: size, physical_layout: size, *, ..OPTIONS) => empty_permuted;
    }
    /// A 0-d tensor that holds the number `s`.
    "scalar_tensor" FUNCTION {
        (s: Number, *, ..OPTIONS) => scalar_tensor;
    }
    /// The numbers from `start` to `end`, which is excluded, `step` apart.
    "arange" FUNCTION | OUT, out SEQUENCE {
        (end: Number, *, ..OPTIONS) => arange_op;
        (start: Number, end: Number, step: Number = 1, *, ..OPTIONS) => arange_from_op;
    }
    /// The numbers from `start` to `end`, which is included, `step` apart.
    "range" FUNCTION | OUT, out SEQUENCE {
        (start: Number, end: Number, step: Number = 1, *, ..OPTIONS) => range;
    }
    /// `steps` numbers from `start` to `end`, both included, at equal distances.
    "linspace" FUNCTION | OUT, out SEQUENCE {
        (start: Operand, end: Operand, steps: int, *, ..OPTIONS) => linspace;
    }
    /// `base` to the power of each of `steps` numbers from `start` to `end`.
    "logspace" FUNCTION | OUT, out SEQUENCE {
        (start: Operand, end: Operand, steps: int, base: float = 10.0, *, ..OPTIONS) => logspace;
    }
    /// A matrix with ones on the diagonal and zeros elsewhere.
    "eye" FUNCTION | OUT, out ANY {
        (n: int, *, ..OPTIONS) => |a| eye(a, None, 1);
        (n: int, m: int, *, ..OPTIONS) => |a| eye(a, Some(a.int(1)?), 2);
    }
    /// A tensor of the shape and dtype of `input` with every element equal to `value`.
    "fill" FUNCTION, batch COPY {
        (input: Tensor, value: Operand) => fill::fill;
    }
    /// Sets every element of `input` to `value`.
    "fill_" BOTH, batch COPY {
        (input: Tensor, value: Operand) => fill::fill_in_place;
        /// Overwrites every element of `t` with a number.
        pub fn fill_all(t: &Tensor, value: Scalar) -> () as (t, value) = fill::fill_all_impl;
    }
    /// Sets the diagonal of `input` to `fill_value`.
    "fill_diagonal_" BOTH {
        (input: Tensor, fill_value: Number, wrap: bool = False) => fill::fill_diagonal;
    }
    /// Sets every element of `input` to 0.
    "zero_" BOTH, batch LEADING {
        (input: Tensor) => fill::zero_in_place;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(start: Scalar, end: Scalar, step: Scalar) -> Vec<f64> {
        arange(start, end, step, None).unwrap().to_vec()
    }

    #[test]
    fn arange_stops_before_its_end() {
        assert_eq!(numbers(0i64.into(), 5i64.into(), 2i64.into()), [0.0, 2.0, 4.0]);
        assert_eq!(numbers(5i64.into(), 0i64.into(), (-2i64).into()), [5.0, 3.0, 1.0]);
        assert_eq!(numbers(0.0.into(), 1.0.into(), 0.25.into()), [0.0, 0.25, 0.5, 0.75]);
        assert!(numbers(3i64.into(), 3i64.into(), 1i64.into()).is_empty());
    }

    #[test]
    fn arange_counts_integers_that_a_double_cannot_tell_apart() {
        let end = i64::MAX;
        assert_eq!(arange((end - 3).into(), end.into(), 1i64.into(), None).unwrap().numel(), 3);
    }

    #[test]
    fn a_step_in_the_wrong_direction_is_refused() {
        let message = arange(5i64.into(), 0i64.into(), 1i64.into(), None).unwrap_err().to_string();
        assert_eq!(message, "upper bound and lower bound inconsistent with step sign");
    }

    #[test]
    fn a_strided_tensor_has_just_the_memory_that_its_last_element_needs() {
        let t = strided([2, 3].into(), &[1, 4], DType::F32, Device::Cpu).unwrap();
        assert_eq!(t.storage().len(), 40);
        assert_eq!(strided([0, 3].into(), &[1, 4], DType::F32, Device::Cpu).unwrap().storage().len(), 0);
    }
}
