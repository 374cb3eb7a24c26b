//! Casts, copies, changes of storage, and queries of tensor properties.

use smallvec::{SmallVec, smallvec};

use super::creation::fill_unspecified;
use super::default_dtype;
use super::pointwise::Arg;
use super::schema::{Args, Out};
use super::view::as_strided;
use crate::backend::{copy, memory};
use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::graph::{Cx, Function, Grads, NotImplemented, grad_enabled, inference_enabled, record};
use crate::layout::{Layout, MemoryFormat, broadcast, checked_numel, dense_numel};
use crate::tensor::{Overlap, Tensor, assign, check_apart, check_inplace};
use crate::{bail, ensure, ops};

// ---- casts

/// Argument `at`, a memory format; `Preserve` if absent.
pub(super) fn format_or_preserve(a: &Args, at: usize) -> Result<MemoryFormat> {
    Ok(a.opt_memory_format(at)?.unwrap_or(MemoryFormat::Preserve))
}

/// `t` in `dtype` and `format`; always a new tensor if `copy`.
fn converted(t: &Tensor, dtype: DType, copy: bool, format: MemoryFormat) -> Result<Tensor> {
    let fits = format == MemoryFormat::Preserve || format == t.layout().suggested_format();
    if t.dtype() == dtype && fits && !copy {
        return Ok(t.clone());
    }
    to_copy_impl(t, t.device(), dtype, format)
}

fn to_same_device(a: &Args) -> Result<Out> {
    Ok(converted(a.tensor(0)?, a.dtype(1)?, a.bool(3)?, format_or_preserve(a, 4)?)?.into())
}

/// As `converted`, on a device.
fn moved(t: &Tensor, device: Device, dtype: DType, copy: bool, format: MemoryFormat) -> Result<Out> {
    if t.device() == device {
        Ok(converted(t, dtype, copy, format)?.into())
    } else {
        Ok(to_copy_impl(t, device, dtype, format)?.into())
    }
}

fn to_device(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    let dtype = a.opt_dtype(2)?.unwrap_or(t.dtype());
    moved(t, a.opt_device(1)?.unwrap_or(t.device()), dtype, a.bool(4)?, format_or_preserve(a, 5)?)
}

fn to_other(a: &Args) -> Result<Out> {
    let other = a.tensor(1)?;
    moved(a.tensor(0)?, other.device(), other.dtype(), a.bool(3)?, format_or_preserve(a, 4)?)
}

fn cpu(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    moved(t, Device::Cpu, t.dtype(), false, format_or_preserve(a, 1)?)
}

fn type_as(a: &Args) -> Result<Out> {
    Ok(to_dtype(a.tensor(0)?, a.tensor(1)?.dtype())?.into())
}

/// The tensor type name of a tensor, or a cast to the type with that name.
fn type_name(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    let name_of = |d: DType| format!("{}Tensor", d.scalar_name());
    let module = t.device().type_module();
    let Some(wanted) = a.opt_str(1)? else { return Ok(Out::Str(module.to_owned() + &name_of(t.dtype()))) };
    // A dtype leaves the device unchanged.
    if let Some(d) = DType::ALL.into_iter().find(|d| d.to_string() == wanted) {
        return Ok(to_dtype(t, d)?.into());
    }
    let (device, name) = match wanted.strip_prefix("torch.cuda.") {
        Some(name) if module == "torch.cuda." => (t.device(), name),
        Some(name) => (Device::parse("cuda")?, name),
        None => (Device::Cpu, wanted.strip_prefix("torch.").unwrap_or_default()),
    };
    let plain = (name == "Tensor").then(default_dtype);
    match plain.or_else(|| DType::ALL.into_iter().find(|&d| name_of(d) == name)) {
        Some(d) => Ok(to(t, device, d)?.into()),
        None => bail!(Value, "invalid type: '{wanted}'"),
    }
}

fn cuda(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    let device = match a.opt_device(1)? {
        Some(device) => device,
        None => Device::parse("cuda")?,
    };
    ensure!(device.is_accelerator(), Value, "Invalid device, must be cuda device");
    moved(t, device, t.dtype(), false, format_or_preserve(a, 3)?)
}

fn identity(a: &Args) -> Result<Out> {
    Ok(a.tensor(0)?.clone().into())
}

// ---- copy_

struct Copy {
    from: Device,
}

impl Function for Copy {
    fn name(&self) -> &'static str {
        "torch::autograd::CopyBackwards"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        let kept = cx.needs(0).then(|| g.new_zeros(g.shape().clone())).transpose()?;
        Ok(smallvec![kept, Some(to(g, self.from, g.dtype())?)])
    }
}

/// Writes `wide`, which is `src` expanded to the shape of `t`, to `t`, which is writable, and records it.
pub fn copy_tracked(t: &Tensor, src: &Tensor, wide: &Tensor) -> Result<()> {
    let copy = t.new_empty(t.shape().clone())?;
    memory::transfer(wide.raw(), copy.raw())?;
    // If `t` is a view, zeros for the base's old content come from the node that becomes the base's history.
    let old = if t.base().is_none() { t.clone() } else { t.detach() };
    let value = record(copy, &[&old, src], |_| Copy { from: src.device() })?;
    assign(t, &value, "CopyBackwards")
}

/// Writes `src`, broadcast and cast, into `t`.
fn copy_into_impl(t: &Tensor, src: &Tensor) -> Result<()> {
    check_inplace(t, src.requires_grad())?;
    check_apart(t, src)?;
    let shape = broadcast("copy_", t.shape(), src.shape())?;
    let Some(layout) = (if shape == *t.shape() { src.layout().expand(&shape) } else { None }) else {
        bail!(Runtime, "output with shape {} doesn't match the broadcast shape {shape}", t.shape());
    };
    let wide = src.with_layout(layout);
    // Integer tensors receive values without their history.
    if grad_enabled() && t.dtype().is_float() && (t.requires_grad() || src.requires_grad()) {
        return copy_tracked(t, src, &wide);
    }
    // The two partially overlap: copy first, so that no overwritten element is read.
    let wide = if t.overlap(&wide) == Overlap::Partial { wide.copied(t.dtype())? } else { wide };
    memory::transfer(wide.raw(), t.raw())?;
    t.bump_version();
    Ok(())
}

fn copy_in_place(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    match a.operand(1)? {
        Arg::T(src) => copy_into_impl(t, src)?,
        Arg::S(s) => copy_into_impl(t, &t.new_full([0usize; 0], s)?)?,
    }
    Ok(t.clone().into())
}

// ---- replacing the layout of a tensor

/// `t` with another size: over its own storage if large enough, else over a larger one that starts with the same
/// bytes.
fn resized(t: &Tensor, shape: crate::layout::Dims) -> Result<Tensor> {
    ensure!(!t.requires_grad() || inference_enabled(), Runtime, "cannot resize variables that require grad");
    if shape == *t.shape() {
        return Ok(t.clone());
    }
    let numel = dense_numel(&shape)?;
    let layout = Layout { offset: t.layout().offset, ..Layout::contiguous(shape) };
    let held = t.storage().len() / t.dtype().size();
    let needed = if numel == 0 { 0 } else { layout.offset.saturating_add(numel) };
    if needed <= held {
        return Ok(t.with_layout(layout));
    }
    ensure!(t.storage().is_resizable(), Runtime, "Trying to resize storage that is not resizable");
    let row = |n| Layout::contiguous([n].into());
    let memory = t.new_empty([needed])?;
    copy::copy(t.with_layout(row(held)).raw(), memory.with_layout(row(held)).raw())?;
    fill_unspecified(&memory, held)?;
    Ok(memory.with_layout(layout))
}

/// `t` with the strides of another memory format over its own storage, for a tensor that was just resized.
fn restrided(t: Tensor, format: Option<MemoryFormat>) -> Result<Tensor> {
    let Some(format) = format else { return Ok(t) };
    ensure!(format != MemoryFormat::Preserve, Runtime, "Unsupported memory formatPreserve");
    Ok(t.with_layout(Layout { offset: t.layout().offset, ..t.layout().in_format(format)? }))
}

fn resize(a: &Args) -> Result<Out> {
    Ok(restrided(resized(a.tensor(0)?, a.size(1)?)?, a.opt_memory_format(2)?)?.into())
}

fn resize_as(a: &Args) -> Result<Out> {
    let like = a.tensor(1)?;
    let format = match a.opt_memory_format(2)? {
        Some(MemoryFormat::Preserve) => Some(like.layout().suggested_format()),
        format => format,
    };
    Ok(restrided(resized(a.tensor(0)?, like.shape().clone())?, format)?.into())
}

fn set_to_nothing(a: &Args) -> Result<Out> {
    Ok(a.tensor(0)?.new_empty([0usize])?.into())
}

fn set(a: &Args) -> Result<Out> {
    let (t, source) = (a.tensor(0)?, a.tensor(1)?);
    ensure!(
        source.dtype() == t.dtype(),
        Runtime,
        "Could not set tensor of type {} to a tensor of type {}",
        source.dtype().type_name(),
        t.dtype().type_name()
    );
    t.forget_accumulator();
    Ok(record(source.detach(), &[t, source], |_| NotImplemented { op: "set_" })?.into())
}

/// A vector over all elements of the dtype of `t` that fit in `storage`, given as a vector of its elements or, without a
/// dtype, as rows of one byte.
fn over_storage(t: &Tensor, storage: &Tensor) -> Result<Tensor> {
    ensure!(
        storage.shape().len() == 2 || storage.dtype() == t.dtype(),
        Runtime,
        "Expected a Storage of type {} or an UntypedStorage, but got type {} for argument 1 'storage'",
        t.dtype().scalar_name(),
        storage.dtype().scalar_name()
    );
    let elements = storage.storage().len() / t.dtype().size();
    Ok(Tensor::from_parts(storage.storage().clone(), Layout::contiguous([elements].into()), t.dtype()))
}

fn set_storage(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    t.forget_accumulator();
    Ok(record(over_storage(t, a.tensor(1)?)?, &[t], |_| NotImplemented { op: "set_" })?.into())
}

/// `set_` with layout and storage.
fn set_storage_strided(a: &Args) -> Result<Out> {
    set_strided_over(a, &over_storage(a.tensor(0)?, a.tensor(1)?)?)
}

/// `set_` with layout and the storage of a tensor.
fn set_strided(a: &Args) -> Result<Out> {
    set_strided_over(a, a.tensor(1)?)
}

fn set_strided_over(a: &Args, source: &Tensor) -> Result<Out> {
    let t = a.tensor(0)?;
    let shape = a.size(3)?;
    let size: SmallVec<[i64; 6]> = shape.iter().map(|&n| n as i64).collect();
    checked_numel(&shape)?;
    let plain: SmallVec<[i64; 6]> = shape.contiguous_strides().iter().map(|&s| s as i64).collect();
    let shown = as_strided(source, &size, a.opt_ints(4)?.unwrap_or(&plain), Some(a.int(2)?))?;
    t.forget_accumulator();
    Ok(record(shown.detach(), &[t], |_| NotImplemented { op: "set_" })?.into())
}

// ---- queries

fn numel(a: &Args) -> Result<Out> {
    Ok(Out::Number(Scalar::Int(a.tensor(0)?.numel() as i64)))
}

fn is_nonzero(a: &Args) -> Result<Out> {
    let t = a.tensor(0)?;
    match t.numel() {
        1 => Ok(Out::Number(Scalar::Bool(!t.item()?.is_zero()))),
        0 => bail!(Runtime, "Boolean value of Tensor with no values is ambiguous"),
        _ => bail!(Runtime, "Boolean value of Tensor with more than one value is ambiguous"),
    }
}

fn ask(a: &Args, question: impl Fn(&Tensor) -> bool) -> Result<Out> {
    Ok(Out::Number(Scalar::Bool(question(a.tensor(0)?))))
}

fn is_same_size(a: &Args) -> Result<Out> {
    let other = a.tensor(1)?;
    ask(a, |t| t.shape() == other.shape())
}

fn is_set_to(a: &Args) -> Result<Out> {
    let other = a.tensor(1)?;
    ask(a, |t| {
        t.storage().same(other.storage()) && t.layout() == other.layout() && t.dtype() == other.dtype()
    })
}

/// `x.float()` and similar methods.
fn cast_to(a: &Args, dtype: DType) -> Result<Out> {
    Ok(converted(a.tensor(0)?, dtype, false, format_or_preserve(a, 1)?)?.into())
}

// ---- copies

struct CloneBackward;

impl Function for CloneBackward {
    fn name(&self) -> &'static str {
        "CloneBackward0"
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        Ok(grads)
    }
}

/// A copy with the history of the original that lies in memory as `format` says.
fn clone_impl(t: &Tensor, format: MemoryFormat) -> Result<Tensor> {
    record(t.copied_in(format, t.dtype())?, &[t], |_| CloneBackward)
}

struct ToCopy {
    from: DType,
    device: Device,
}

impl Function for ToCopy {
    fn name(&self) -> &'static str {
        "ToCopyBackward0"
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        grads.into_iter().map(|g| g.map(|g| to(&g, self.device, self.from)).transpose()).collect()
    }
}

/// `t` in another dtype; the same tensor if it has it.
pub fn to_dtype(t: &Tensor, dtype: DType) -> Result<Tensor> {
    if t.dtype() == dtype { Ok(t.clone()) } else { to_copy(t, t.device(), dtype, MemoryFormat::Preserve) }
}

/// `t` on a device, in a dtype; the same tensor if it is so already.
pub fn to(t: &Tensor, device: Device, dtype: DType) -> Result<Tensor> {
    if t.device() == device { to_dtype(t, dtype) } else { to_copy(t, device, dtype, MemoryFormat::Preserve) }
}

/// A copy on a device, in a dtype, that lies in memory as `format` says.
fn to_copy_impl(t: &Tensor, device: Device, dtype: DType, format: MemoryFormat) -> Result<Tensor> {
    let out = Tensor::empty_dense(t.layout().in_format(format)?, dtype, device)?;
    memory::transfer(t.raw(), out.raw())?;
    record(out, &[t], |_| ToCopy { from: t.dtype(), device: t.device() })
}

fn cloned(t: &Tensor) -> Result<Tensor> {
    clone_impl(t, MemoryFormat::Preserve)
}

fn contiguous(a: &Args) -> Result<Out> {
    let (t, format) = (a.tensor(0)?, a.opt_memory_format(1)?.unwrap_or(MemoryFormat::Contiguous));
    if t.layout().is_in(format) {
        return Ok(t.clone().into());
    }
    ensure!(
        format != MemoryFormat::Preserve,
        Runtime,
        "preserve memory format is unsupported by the contiguous operator"
    );
    Ok(clone_in(t, format)?.into())
}

fn clone_op(a: &Args) -> Result<Out> {
    Ok(clone_impl(a.tensor(0)?, format_or_preserve(a, 1)?)?.into())
}

ops! {
    /// The tensor in another dtype or on another device; itself if it is there already.
    "to" METHOD, batch LEADING {
        (input: Tensor, dtype: dtype, non_blocking: bool = False, copy: bool = False, *,
         memory_format: memory_format? = None) =>
            to_same_device;
        (input: Tensor, other: Tensor, non_blocking: bool = False, copy: bool = False, *,
         memory_format: memory_format? = None) =>
            to_other;
        (input: Tensor, device: device? = None, dtype: dtype? = None, non_blocking: bool = False, copy: bool = False,
         *, memory_format: memory_format? = None) =>
            to_device;
        /// A copy on a device, in a dtype, that lies in memory as `format` says.
        pub fn to_copy(t: &Tensor, device: Device, dtype: DType, format: MemoryFormat) -> Tensor
            as (t, Some(device), Some(dtype), false, true, Some(format)) = to_copy_impl;
    }
    /// The tensor cast to a dtype; the name of its tensor type if none is given.
    "type" METHOD, batch LEADING {
        (input: Tensor, dtype: typename? = None, non_blocking: bool = False) => type_name;
    }
    /// The tensor cast to the dtype of `other`.
    "type_as" METHOD, batch LIKE {
        (input: Tensor, other: Tensor) => type_as;
    }
    /// `input` cast as `to` does it; `float` names the dtype.
    "float" METHOD, batch LEADING {
        (input: Tensor, *, memory_format: memory_format? = None) => |a| cast_to(a, DType::F32);
    }
    /// `input` cast as `to` does it; `double` names the dtype.
    "double" METHOD, batch LEADING {
        (input: Tensor, *, memory_format: memory_format? = None) => |a| cast_to(a, DType::F64);
    }
    /// `input` cast as `to` does it; `half` names the dtype.
    "half" METHOD, batch LEADING {
        (input: Tensor, *, memory_format: memory_format? = None) => |a| cast_to(a, DType::F16);
    }
    /// `input` cast as `to` does it; `bfloat16` names the dtype.
    "bfloat16" METHOD, batch LEADING {
        (input: Tensor, *, memory_format: memory_format? = None) => |a| cast_to(a, DType::BF16);
    }
    /// `input` cast as `to` does it; `int` names the dtype.
    "int" METHOD, batch LEADING {
        (input: Tensor, *, memory_format: memory_format? = None) => |a| cast_to(a, DType::I32);
    }
    /// `input` cast as `to` does it; `long` names the dtype.
    "long" METHOD, batch LEADING {
        (input: Tensor, *, memory_format: memory_format? = None) => |a| cast_to(a, DType::I64);
    }
    /// `input` cast as `to` does it; `short` names the dtype.
    "short" METHOD, batch LEADING {
        (input: Tensor, *, memory_format: memory_format? = None) => |a| cast_to(a, DType::I16);
    }
    /// `input` cast as `to` does it; `char` names the dtype.
    "char" METHOD, batch LEADING {
        (input: Tensor, *, memory_format: memory_format? = None) => |a| cast_to(a, DType::I8);
    }
    /// `input` cast as `to` does it; `byte` names the dtype.
    "byte" METHOD, batch LEADING {
        (input: Tensor, *, memory_format: memory_format? = None) => |a| cast_to(a, DType::U8);
    }
    /// `input` cast as `to` does it; `bool` names the dtype.
    "bool" METHOD, batch LEADING {
        (input: Tensor, *, memory_format: memory_format? = None) => |a| cast_to(a, DType::Bool);
    }
    /// The tensor in the memory of the CPU; itself if it is there already.
    "cpu" METHOD, batch LEADING {
        (input: Tensor, *, memory_format: memory_format? = None) => cpu;
    }
    /// The tensor on a GPU of any vendor; an error where there is none.
    "cuda" METHOD, batch LEADING {
        (input: Tensor, device: device? = None, non_blocking: bool = False, memory_format: memory_format? = None) =>
            cuda;
    }
    /// The tensor with its elements dense in row-major order, or in the order of `memory_format`.
    "contiguous" METHOD, batch LEADING {
        (input: Tensor, *, memory_format: memory_format? = None) => contiguous;
    }
    /// A copy of the tensor, with its history.
    "clone" BOTH, batch LEADING {
        (input: Tensor, *, memory_format: memory_format? = None) => clone_op;
        /// A copy with the history of the original that lies in memory as it does.
        pub fn clone(t: &Tensor) -> Tensor as (t, None::<MemoryFormat>) = cloned;
        /// A copy with the history of the original that lies in memory as `format` says.
        pub fn clone_in(t: &Tensor, format: MemoryFormat) -> Tensor as (t, Some(format)) = clone_impl;
    }
    /// Writes `other` into `input`, broadcast and cast as needed.
    "copy_" BOTH, batch COPY {
        (input: Tensor, other: Operand, non_blocking: bool = False) => copy_in_place;
        /// Writes `src`, broadcast and cast, into `t`.
        pub fn copy_into(t: &Tensor, src: &Tensor) -> () as (t, src, false) = copy_into_impl;
    }
    /// Changes the size of `input`; elements beyond the old ones are unspecified.
    "resize_" METHOD, batch MEMORY {
        (input: Tensor, size: size, *, memory_format: memory_format? = None) => resize;
    }
    /// Changes the size of `input` to that of `the_template`.
    "resize_as_" METHOD, batch MEMORY {
        (input: Tensor, the_template: Tensor, *, memory_format: memory_format? = None) => resize_as;
    }
    /// Makes `input` share the memory and the geometry of `source`.
    "set_" METHOD, batch MEMORY {
        (input: Tensor) => set_to_nothing;
        (input: Tensor, source: Storage) => set_storage;
        (input: Tensor, source: Storage, storage_offset: int, size: size, stride: size? = None) =>
            set_storage_strided;
        (input: Tensor, source: Tensor) => set;
        (input: Tensor, source: Tensor, storage_offset: int, size: size, stride: size? = None) => set_strided;
    }
    /// The tensor: its numbers are real.
    "conj" BOTH, batch POINTWISE {
        (input: Tensor) => identity;
    }
    /// The tensor: its numbers are real.
    "real" FUNCTION, batch POINTWISE {
        (input: Tensor) => identity;
    }
    /// The tensor: there are no conjugate views.
    "resolve_conj" BOTH, batch POINTWISE {
        (input: Tensor) => identity;
    }
    /// The tensor: there are no negated views.
    "resolve_neg" BOTH, batch POINTWISE {
        (input: Tensor) => identity;
    }
    /// The tensor: all memory is the host's.
    "pin_memory" METHOD {
        (input: Tensor, device: any? = None) => identity;
    }
    /// The number of elements.
    "numel" FUNCTION, batch DESCRIPTION {
        (input: Tensor) => numel;
    }
    /// Whether the only element of the tensor is other than zero.
    "is_nonzero" BOTH, batch DATA {
        (input: Tensor) => is_nonzero;
    }
    /// Whether two tensors have one shape.
    "is_same_size" BOTH, batch DESCRIPTION {
        (input: Tensor, other: Tensor) => is_same_size;
    }
    /// Whether `tensor` is the same memory with the same geometry.
    "is_set_to" METHOD, batch DESCRIPTION {
        (input: Tensor, tensor: Tensor) => is_set_to;
    }
    /// Whether the tensor is a conjugate view: none is.
    "is_conj" BOTH, batch DESCRIPTION {
        (input: Tensor) => |a| ask(a, |_| false);
    }
    /// Whether the tensor is a negated view: none is.
    "is_neg" BOTH, batch DESCRIPTION {
        (input: Tensor) => |a| ask(a, |_| false);
    }
    /// Whether the elements are floating point numbers.
    "is_floating_point" FUNCTION, batch DESCRIPTION {
        (input: Tensor) => |a| ask(a, |t| t.dtype().is_float());
    }
    /// Whether the dtype has negative numbers.
    "is_signed" FUNCTION, batch DESCRIPTION {
        (input: Tensor) => |a| ask(a, |t| t.dtype().is_signed());
    }
    /// Whether the elements are complex numbers; none are.
    "is_complex" FUNCTION, batch DESCRIPTION {
        (input: Tensor) => |a| ask(a, |_| false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copying_broadcasts_and_casts() {
        let t = Tensor::zeros([2, 3], DType::I32).unwrap();
        copy_into(&t, &Tensor::from_slice(&[1.5f32, 2.5, -3.5], [3]).unwrap()).unwrap();
        assert_eq!(t.to_vec::<i32>(), [1, 2, -3, 1, 2, -3]);
        assert_eq!(t.version(), 1);
    }

    #[test]
    fn copying_a_dense_tensor_onto_its_own_transpose_is_refused() {
        let t = Tensor::from_slice(&[1i64, 2, 3, 4], [2, 2]).unwrap();
        assert!(copy_into(&t, &t.with_layout(t.layout().transpose(0, 1))).is_err());
        assert_eq!(t.to_vec::<i64>(), [1, 2, 3, 4]);
    }

    #[test]
    fn copying_columns_onto_their_own_transpose_reads_before_it_writes() {
        let whole = Tensor::from_slice(&[1i64, 2, 0, 3, 4, 0], [2, 3]).unwrap();
        let t = whole.with_layout(whole.layout().slice(1, 0, 2, 1));
        copy_into(&t, &t.with_layout(t.layout().transpose(0, 1))).unwrap();
        assert_eq!(t.to_vec::<i64>(), [1, 3, 2, 4]);
    }

    #[test]
    fn a_source_that_would_broadcast_the_target_is_refused() {
        let t = Tensor::zeros([3], DType::F32).unwrap();
        assert!(copy_into(&t, &Tensor::zeros([2, 3], DType::F32).unwrap()).is_err());
    }

    #[test]
    fn a_copy_from_a_tracked_tensor_is_recorded() {
        let t = Tensor::zeros([2, 2], DType::F32).unwrap();
        let src = Tensor::ones([2], DType::F64).unwrap();
        src.set_requires_grad(true).unwrap();
        copy_into(&t, &src).unwrap();
        assert_eq!(
            t.grad_fn().map(|f| f.name().to_string()).as_deref(),
            Some("torch::autograd::CopyBackwards")
        );
    }

    #[test]
    fn growing_keeps_the_old_elements_and_shrinking_the_memory() {
        let t = Tensor::from_slice(&[1i32, 2, 3, 4], [4]).unwrap();
        let small = resized(&t, [2].into()).unwrap();
        assert!(small.storage().same(t.storage()));
        let large = resized(&t, [2, 3].into()).unwrap();
        assert_eq!(large.to_vec::<i32>()[..4], [1, 2, 3, 4]);
    }
}
