//! The methods of `rgrad.Tensor`, implemented without Python frames.

use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyNotImplementedError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};

use super::arrays::expect_data;
use super::convert::{Ty, check_range, number, scalar, size};
use super::dispatch::{any_asks_class, any_mode, asks_class, by_class, host_by_class, or_none, shown_device};
use super::dtype::{PyDType, PyDevice, PyMemoryFormat, dtype_object, type_name};
use super::error::IntoPy;
use super::object::as_tensor;
pub use super::object::{PyTensor, TensorObject, wrap};
use super::subclass::{index_overridden, is_watched, operator_overridden};
use super::{arrays, index, interop, legacy};
use crate::backend::memory;
use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::error::interruptible;
use crate::graph::grad_enabled;
use crate::layout::MemoryFormat;
use crate::ops::arith::refuse_bools;
use crate::ops::pointwise::{Arg, PointwiseOp};
use crate::ops::{self, batching, interpreter, rows};
use crate::tensor::Tensor;

/// A tensor, or a number used as an operand.
pub enum Operand {
    T(Tensor),
    S(Scalar),
}

impl Operand {
    #[inline]
    pub fn of(obj: &Bound<'_, PyAny>) -> Option<Operand> {
        match obj.cast::<PyTensor>() {
            Ok(t) => Some(Operand::T(t.tensor())),
            Err(_) => number(obj).map(Operand::S),
        }
    }

    #[inline]
    pub fn arg(&self) -> Arg<'_> {
        match self {
            Operand::T(t) => Arg::T(t),
            Operand::S(s) => Arg::S(*s),
        }
    }

    fn numel(&self) -> usize {
        match self {
            Operand::T(t) => t.numel(),
            Operand::S(_) => 1,
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Operand {
    type Error = PyErr;

    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Operand> {
        Operand::of(&obj).ok_or_else(|| PyTypeError::new_err("neither a tensor nor a number"))
    }
}

/// Minimum number of elements for releasing the GIL during an operation.
pub const DETACH_FROM: usize = 1 << 16;

/// Calls `f`, which reads the elements of a tensor for `device`, without the GIL unless it is about to return: threads that
/// release it for each small tensor take turns at every call.
pub fn detach_for<R: Send>(py: Python<'_>, t: &Tensor, device: Device, f: impl FnOnce() -> R + Send) -> R {
    let long = t.numel() >= DETACH_FROM || t.device().is_gpu() || device.is_gpu() || t.storage().is_awaited();
    if long { py.detach(f) } else { f() }
}

/// Computes a pointwise operation for an operator with a tensor and any other operand.
#[inline]
pub fn operator(
    py: Python<'_>,
    row: &'static PointwiseOp,
    t: &Tensor,
    other: &Bound<'_, PyAny>,
    swapped: bool,
) -> PyResult<Py<PyAny>> {
    let Some(o) = Operand::of(other) else {
        check_range(other, Ty::Operand)?;
        return if swapped && std::ptr::eq(row, &rows::div) && arrays::is_ndarray(other) {
            divide_array(py, t, other)
        } else {
            Ok(py.NotImplemented())
        };
    };
    let args = if swapped { [o.arg(), Arg::T(t)] } else { [Arg::T(t), o.arg()] };
    if std::ptr::eq(row, &rows::sub) {
        refuse_bools(args[0], args[1]).py()?;
    }
    let out = if t.numel().max(o.numel()) >= DETACH_FROM {
        py.detach(|| interruptible(|| row.call(&args, &[])))
    } else {
        row.call(&args, &[])
    };
    match or_none(out).py()? {
        Some(out) => wrap(py, out),
        None => Ok(py.None()),
    }
}

/// An array divided by a tensor: the only reflected operator that takes arrays, as PyTorch computes it by a product.
#[cold]
fn divide_array(py: Python<'_>, t: &Tensor, array: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let reciprocal = wrap(py, rows::reciprocal.call(&[Arg::T(t)], &[]).py()?)?;
    Ok(reciprocal.bind(py).mul(array)?.unbind())
}

/// Computes an operator unless `__torch_function__` overrides it; `name` is the method it is reported as.
#[inline]
pub fn overridable(
    name: &str,
    slf: &Bound<'_, PyTensor>,
    other: &Bound<'_, PyAny>,
    f: impl FnOnce(&Tensor) -> PyResult<Py<PyAny>>,
) -> PyResult<Py<PyAny>> {
    if is_watched()
        && let Some(out) = operator_overridden(name, slf.as_any(), other)?
    {
        return Ok(out.unbind());
    }
    let out = f(&slf.tensor())?;
    if out.is(slf.py().NotImplemented())
        && let Some(out) = operator_overridden(name, slf.as_any(), other)?
    {
        return Ok(out.unbind());
    }
    Ok(out)
}

pub fn operator_inplace(py: Python<'_>, row: &'static PointwiseOp, t: &Tensor, o: &Operand) -> PyResult<()> {
    let args = [Arg::T(t), o.arg()];
    if std::ptr::eq(row, &rows::sub) {
        refuse_bools(args[0], args[1]).py()?;
    }
    py.detach(|| interruptible(|| ops::row_inplace(row, &args, &[]))).py()
}

/// Whether brackets of a tensor are operations that a mode sees: without history, since these are below what records it.
fn is_seen(t: &Tensor) -> bool {
    any_mode() && !(grad_enabled() && t.requires_grad())
}

#[pymethods]
impl PyTensor {
    #[new]
    #[classmethod]
    #[pyo3(signature = (*args, **kwargs))]
    fn new(
        class: &Bound<'_, PyType>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyTensor> {
        if let Ok(data) = args.get_item(0) {
            legacy::refuse_data_of_handler(class.as_any(), &data)?;
        }
        let t = legacy::construct(args, kwargs, None)?;
        host_by_class(class, &t)?;
        Ok(PyTensor::of(t))
    }

    // ---- properties

    #[getter]
    fn shape(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        size(py, self.inner(py).shape())
    }

    #[pyo3(signature = (dim=None))]
    fn size(&self, py: Python<'_>, dim: Option<i64>) -> PyResult<Py<PyAny>> {
        match dim {
            None => size(py, self.inner(py).shape()),
            Some(d) => Ok(self.inner(py).size(d).py()?.into_pyobject(py)?.into_any().unbind()),
        }
    }

    #[pyo3(signature = (dim=None))]
    fn stride(&self, py: Python<'_>, dim: Option<i64>) -> PyResult<Py<PyAny>> {
        match dim {
            None => Ok(PyTuple::new(py, self.inner(py).strides().iter())?.into_any().unbind()),
            Some(d) => {
                self.inner(py).expect_dimensions(d).py()?;
                let d = crate::layout::wrap_dim(d, self.inner(py).rank()).py()?;
                Ok(self.inner(py).strides()[d].into_pyobject(py)?.into_any().unbind())
            }
        }
    }

    fn storage_offset(&self, py: Python<'_>) -> usize {
        self.inner(py).layout().offset
    }

    fn data_ptr(&self, py: Python<'_>) -> PyResult<usize> {
        let t = &self.inner(py);
        expect_data(t)?;
        if t.numel() == 0 || t.device() == Device::Meta {
            return Ok(0);
        }
        let first = memory::lend(t.storage()).py()?;
        Ok(first as usize + t.layout().offset * t.dtype().size())
    }

    #[getter]
    fn ndim(&self, py: Python<'_>) -> usize {
        self.inner(py).rank()
    }

    fn dim(&self, py: Python<'_>) -> usize {
        self.inner(py).rank()
    }

    fn ndimension(&self, py: Python<'_>) -> usize {
        self.inner(py).rank()
    }

    fn numel(&self, py: Python<'_>) -> usize {
        self.inner(py).numel()
    }

    fn nelement(&self, py: Python<'_>) -> usize {
        self.inner(py).numel()
    }

    fn element_size(&self, py: Python<'_>) -> usize {
        self.inner(py).dtype().size()
    }

    #[getter]
    fn itemsize(&self, py: Python<'_>) -> usize {
        self.inner(py).dtype().size()
    }

    #[getter]
    fn nbytes(&self, py: Python<'_>) -> usize {
        self.inner(py).numel() * self.inner(py).dtype().size()
    }

    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyDType>> {
        dtype_object(py, self.inner(py).dtype())
    }

    #[getter(device)]
    fn device_object(&self, py: Python<'_>) -> PyDevice {
        PyDevice::of(shown_device(&self.inner(py)))
    }

    #[getter]
    fn is_cuda(&self, py: Python<'_>) -> bool {
        shown_device(&self.inner(py)).is_gpu()
    }

    #[getter]
    fn is_cpu(&self, py: Python<'_>) -> bool {
        shown_device(&self.inner(py)).is_host_readable()
    }

    #[getter]
    fn is_sparse(&self) -> bool {
        false
    }

    #[getter]
    fn is_quantized(&self) -> bool {
        false
    }

    #[pyo3(name = "get_device")]
    fn device_index(&self, py: Python<'_>) -> i64 {
        shown_device(&self.inner(py)).index().map_or(-1, |i| i as i64)
    }

    #[pyo3(signature = (*, memory_format=None))]
    fn is_contiguous(&self, py: Python<'_>, memory_format: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        let Some(format) = memory_format else { return Ok(self.inner(py).looks_contiguous()) };
        let Ok(format) = format.cast::<PyMemoryFormat>() else {
            return Err(PyTypeError::new_err(format!(
                "is_contiguous(): argument 'memory_format' must be torch.memory_format, not {}",
                type_name(format)
            )));
        };
        let (t, format) = (self.inner(py), format.get().0);
        if t.is_batched() && !matches!(format, MemoryFormat::Contiguous | MemoryFormat::Preserve) {
            return Err(PyRuntimeError::new_err(batching::NO_FORMAT));
        }
        Ok(t.layout().is_in(format))
    }

    fn is_floating_point(&self, py: Python<'_>) -> bool {
        self.inner(py).dtype().is_float()
    }

    fn is_complex(&self) -> bool {
        false
    }

    fn is_signed(&self, py: Python<'_>) -> bool {
        self.inner(py).dtype().is_signed()
    }

    fn is_pinned(&self) -> bool {
        false
    }

    // ---- elements

    fn item(slf: &Bound<'_, Self>, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if interpreter::active() {
            // Whoever is asked for the value gets this object.
            drop(slf.tensor());
        }
        scalar(py, slf.get().value(py)?)
    }

    fn tolist(slf: &Bound<'_, Self>, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if asks_class(&slf.tensor()) {
            return Err(PyRuntimeError::new_err(format!(
                ".tolist() is not supported for tensor subclasses, got {}",
                slf.get_type().name()?
            )));
        }
        expect_data(&slf.tensor())?;
        interop::to_list(py, &slf.tensor())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        match self.inner(py).shape().first() {
            Some(&n) => Ok(n),
            None => Err(PyTypeError::new_err("len() of a 0-d tensor")),
        }
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        if is_watched() && self.inner(py).is_batched() {
            return Err(PyRuntimeError::new_err(
                "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow, which differs \
                 between the slices. Use torch.where instead",
            ));
        }
        match self.inner(py).numel() {
            1 => Ok(!self.value(py)?.is_zero()),
            0 => Err(PyRuntimeError::new_err("Boolean value of Tensor with no values is ambiguous")),
            _ => {
                Err(PyRuntimeError::new_err("Boolean value of Tensor with more than one value is ambiguous"))
            }
        }
    }

    fn __float__(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.only_value(py)?.to_f64())
    }

    fn __int__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let v = scalar(py, self.only_value(py)?)?;
        py.get_type::<pyo3::types::PyInt>().call1((v,)).map(Bound::unbind)
    }

    fn __index__(&self, py: Python<'_>) -> PyResult<i64> {
        match self.value(py) {
            Ok(s) if s.category() < 2 => Ok(s.to_i64()),
            _ => Err(PyTypeError::new_err(
                "only integer tensors of a single element can be converted to an index",
            )),
        }
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let t = slf.tensor();
        if t.rank() == 0 {
            return Err(PyTypeError::new_err("iteration over a 0-d tensor"));
        }
        let rows = slf.call_method1("unbind", (0,))?;
        drop(t);
        PyList::new(py, rows.try_iter()?.collect::<PyResult<Vec<_>>>()?)?.into_any().call_method0("__iter__")
    }

    fn __contains__(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Some(v) = Operand::of(value) else {
            return Err(PyRuntimeError::new_err(format!(
                "Tensor.__contains__ only supports Tensor or scalar, but you passed in a {}.",
                value.get_type()
            )));
        };
        let t = self.inner(py);
        let equal = || rows::eq.call(&[Arg::T(&t), v.arg()], &[])?.values::<crate::dtype::Bool8>();
        Ok(py.detach(equal).py()?.iter().any(|b| b.0 != 0))
    }

    fn __hash__(slf: &Bound<'_, Self>) -> isize {
        // Hash by identity: the object's `id`.
        slf.as_ptr() as isize
    }

    fn __richcmp__(
        slf: &Bound<'_, Self>,
        py: Python<'_>,
        other: &Bound<'_, PyAny>,
        op: CompareOp,
    ) -> PyResult<Py<PyAny>> {
        let (row, seen_as) = match op {
            CompareOp::Eq => (&rows::eq, "__eq__"),
            CompareOp::Ne => (&rows::ne, "ne"),
            CompareOp::Lt => (&rows::lt, "lt"),
            CompareOp::Le => (&rows::le, "le"),
            CompareOp::Gt => (&rows::gt, "gt"),
            CompareOp::Ge => (&rows::ge, "ge"),
        };
        overridable(seen_as, slf, other, |t| {
            let out = operator(py, row, t, other, false)?;
            // In PyTorch only `==`, of all comparisons, accepts arrays.
            if matches!(op, CompareOp::Eq) && out.is(py.NotImplemented()) && arrays::is_ndarray(other) {
                let Ok(array) = arrays::share_array(other) else { return Ok(out) };
                return wrap(py, row.call(&[Arg::T(t), Arg::T(&array)], &[]).py()?);
            }
            Ok(out)
        })
    }

    fn __neg__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        wrap(py, rows::neg.call(&[Arg::T(&self.inner(py))], &[]).py()?)
    }

    fn __pos__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        if slf.tensor().dtype() == DType::Bool {
            return Err(PyNotImplementedError::new_err(
                "The `+` operator, on a bool tensor is not supported.",
            ));
        }
        Ok(slf)
    }

    fn __delitem__(&self, _key: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyTypeError::new_err("Tensor does not support deleting items"))
    }

    fn __abs__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        wrap(py, rows::abs.call(&[Arg::T(&self.inner(py))], &[]).py()?)
    }

    fn __matmul__(slf: &Bound<'_, Self>, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        overridable("matmul", slf, other, |a| {
            let Some(o) = as_tensor(other) else { return Ok(py.NotImplemented()) };
            let b = o.tensor();
            let out = if a.numel().max(b.numel()) >= 4096 {
                py.detach(|| interruptible(|| ops::matmul::matmul(a, &b)))
            } else {
                ops::matmul::matmul(a, &b)
            };
            wrap(py, out.py()?)
        })
    }

    // ---- indexing

    fn __getitem__(slf: &Bound<'_, Self>, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        if let Some(out) = index_overridden("__getitem__", &[slf.as_any(), key])? {
            return Ok(out.unbind());
        }
        let t = &slf.tensor();
        if asks_class(t) || interpreter::active() && (is_seen(t) || any_asks_class(key)) {
            return Ok(by_class(slf, "getitem", [key.clone()])?.unbind());
        }
        index::get(py, t, key)
    }

    fn __setitem__(
        slf: &Bound<'_, Self>,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if index_overridden("__setitem__", &[slf.as_any(), key, value])?.is_some() {
            return Ok(());
        }
        let t = &slf.tensor();
        let is_recorded =
            || value.cast::<PyTensor>().is_ok_and(|v| grad_enabled() && v.tensor().requires_grad());
        let asks = || is_seen(t) && !is_recorded() || any_asks_class(key) || any_asks_class(value);
        if asks_class(t) || interpreter::active() && asks() {
            return by_class(slf, "setitem", [key.clone(), value.clone()]).map(drop);
        }
        index::set(py, t, key, value)
    }
}
