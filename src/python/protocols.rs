//! Python protocols of tensors: copying, pickling, and operators that are not in the operation table.

use std::sync::OnceLock;

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::convert;
use super::dispatch::shown_device;
use super::error::IntoPy;
use super::operators::InplaceOperand;
use super::subclass::{inplace_overridden, is_watched};
use super::tensor::{Operand, PyTensor, TensorObject, overridable, wrap};
use crate::device::Device;
use crate::error::interruptible;
use crate::ops::schema::{Op, Value};
use crate::ops::{self, matmul};

/// An operation of the table, looked up once.
struct Named {
    name: &'static str,
    op: OnceLock<&'static Op>,
}

impl Named {
    const fn new(name: &'static str) -> Named {
        Named { name, op: OnceLock::new() }
    }

    fn get(&self) -> PyResult<&'static Op> {
        if let Some(op) = self.op.get() {
            return Ok(op);
        }
        let op = ops::all().iter().find(|op| op.name == self.name);
        let op =
            op.ok_or_else(|| PyRuntimeError::new_err(format!("there is no operation '{}'", self.name)))?;
        Ok(self.op.get_or_init(|| op))
    }
}

static POW: Named = Named::new("pow");
static BITWISE_NOT: Named = Named::new("bitwise_not");

impl From<Operand> for Value {
    fn from(o: Operand) -> Value {
        match o {
            Operand::T(t) => Value::Tensor(t),
            Operand::S(s) => Value::Number(s),
        }
    }
}

fn power(py: Python<'_>, base: Value, exponent: Value) -> PyResult<Py<PyAny>> {
    let op = POW.get()?;
    let out = py.detach(|| interruptible(|| ops::call(op, &op.overloads[0], &[base, exponent]))).py()?;
    convert::out(py, out)
}

/// The attributes that the user set on a tensor, or None.
fn attributes<'py>(t: &Bound<'py, PyTensor>) -> PyResult<Option<Bound<'py, PyDict>>> {
    let dict = t.getattr("__dict__")?.cast_into::<PyDict>()?;
    Ok(if dict.is_empty() { None } else { Some(dict) })
}

/// Calls a function of `rgrad._utils`, which implements copying and pickling.
fn helper<'py>(
    name: &str,
    t: &Bound<'py, PyTensor>,
    rest: impl IntoPyObject<'py, Output = Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    t.py().import("rgrad._utils")?.getattr(name)?.call1((t, rest))
}

#[pymethods]
impl PyTensor {
    /// A callable and arguments that recreate the tensor, and its user-defined attributes.
    fn __reduce_ex__<'py>(
        slf: &Bound<'py, Self>,
        protocol: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let reduced = helper("reduce_tensor", slf, protocol)?;
        let Some(dict) = attributes(slf)? else { return Ok(reduced) };
        let parts: Vec<_> = reduced.cast::<PyTuple>()?.iter().chain([dict.into_any()]).collect();
        Ok(PyTuple::new(slf.py(), parts)?.into_any())
    }

    /// Another tensor object over the same memory.
    fn __copy__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let copy = slf.py().import("rgrad._utils")?.getattr("copy_tensor")?.call1((slf,))?;
        if let Some(dict) = attributes(slf)? {
            copy.getattr("__dict__")?.call_method1("update", (dict,))?;
        }
        Ok(copy)
    }

    /// A copy with its own memory. Tensors that share memory and are copied together share the copy.
    fn __deepcopy__<'py>(slf: &Bound<'py, Self>, memo: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let known = memo.contains(slf.as_ptr() as usize)?;
        let copy = helper("deepcopy_tensor", slf, memo.clone())?;
        if !known && let Some(dict) = attributes(slf)? {
            let dict = slf.py().import("copy")?.call_method1("deepcopy", (dict, memo))?;
            copy.getattr("__dict__")?.call_method1("update", (dict,))?;
        }
        Ok(copy)
    }

    fn __pow__(
        slf: &Bound<'_, Self>,
        py: Python<'_>,
        exponent: &Bound<'_, PyAny>,
        modulo: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        overridable("__pow__", slf, exponent, |t| match Operand::of(exponent) {
            Some(e) if modulo.is_none() => power(py, Value::Tensor(t.clone()), e.into()),
            _ => {
                convert::check_range(exponent, convert::Ty::Operand)?;
                Ok(py.NotImplemented())
            }
        })
    }

    fn __rpow__(
        slf: &Bound<'_, Self>,
        py: Python<'_>,
        base: &Bound<'_, PyAny>,
        modulo: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        overridable("__rpow__", slf, base, |t| match Operand::of(base) {
            Some(b) if modulo.is_none() => power(py, b.into(), Value::Tensor(t.clone())),
            _ => Ok(py.NotImplemented()),
        })
    }

    fn __ipow__(
        slf: &Bound<'_, Self>,
        py: Python<'_>,
        exponent: InplaceOperand<'_>,
        _modulo: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        if is_watched() && inplace_overridden("__ipow__", slf, &exponent.object)? {
            return Ok(());
        }
        let (op, base) = (POW.get()?, Value::Tensor(slf.tensor()));
        py.detach(|| ops::call_inplace(op, &op.overloads[0], &[base, exponent.operand.into()])).py().map(drop)
    }

    fn __invert__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if self.inner(py).dtype().is_float() {
            return Err(PyTypeError::new_err(
                "~ (operator.invert) is only implemented on integer and Boolean-type tensors",
            ));
        }
        let (op, values) = (BITWISE_NOT.get()?, [Value::Tensor(self.inner(py))]);
        let out = py.detach(|| ops::call(op, &op.overloads[0], &values)).py()?;
        convert::out(py, out)
    }

    fn __rmatmul__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let Ok(o) = other.cast::<PyTensor>() else { return Ok(py.NotImplemented()) };
        let (a, b) = (o.tensor(), self.inner(py));
        wrap(py, py.detach(|| interruptible(|| matmul::matmul(&a, &b))).py()?)
    }

    /// The tensor flipped along its first dimension.
    fn __reversed__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        if slf.tensor().rank() == 0 {
            return Ok(slf.clone().into_any());
        }
        slf.call_method1("flip", (0,))
    }

    #[getter]
    fn layout<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("rgrad._layout")?.getattr("strided")
    }

    /// The tensor itself: there are no complex dtypes.
    #[getter]
    fn real(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[getter]
    fn is_meta(&self, py: Python<'_>) -> bool {
        shown_device(&self.inner(py)) == Device::Meta
    }

    #[getter]
    fn is_mps(&self) -> bool {
        false
    }

    #[getter]
    fn is_nested(&self) -> bool {
        false
    }
}
