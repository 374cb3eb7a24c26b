//! Calls of functions that are not in the table, as operations that `__torch_dispatch__` sees.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::arguments::{collect, mirrored, with_objects};
use super::calls::{Computed, complete, record_written};
use super::handlers::{Shown, handle};
use super::modes;
use super::nodes::Repeat;
use crate::error::Result;
use crate::graph::{BelowAutograd, grad_enabled};
use crate::ops::interpreter;
use crate::ops::mirror::Mirror;
use crate::ops::schema::Out;
use crate::python::convert;
use crate::python::error::{IntoPy, foreign};
use crate::python::object::{PyTensor, TensorObject};
use crate::tensor::Tensor;

/// Calls `function`, which is no operation of the table, as the operation `func` of its arguments.
#[pyfunction(name = "_call_torch_dispatch")]
pub fn call_torch_dispatch<'py>(
    py: Python<'py>,
    func: &Bound<'py, PyAny>,
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
) -> PyResult<Py<PyAny>> {
    let mut arguments = Vec::new();
    args.iter().chain(kwargs.values()).for_each(|a| collect(&a, &mut arguments));
    let hosted = arguments.iter().any(Tensor::is_hosted);
    let mode = modes::innermost(py);
    if modes::disabled() || !hosted && mode.is_none() {
        return Ok(function.call(args, Some(kwargs))?.unbind());
    }
    let tracked = grad_enabled() && arguments.iter().any(Tensor::requires_grad);
    let below = BelowAutograd::enter();
    let shown =
        Shown { func: func.clone(), args: args.clone(), kwargs: kwargs.clone(), function: function.clone() };
    let computed = match &mode {
        Some((at, mode)) => interpreter::outside(*at, || handle(py, &shown, &arguments, Some(mode)))?,
        None => interpreter::without(|| handle(py, &shown, &arguments, None))?,
    };
    drop(below);
    if !tracked || !hosted {
        return Ok(computed.unbind());
    }
    let again = |mirror: &Mirror| call_with(py, function, args, kwargs, mirror.images()).map_err(foreign);
    let repeat = |mirror: &Mirror| -> Result<Repeat> {
        let function = function.clone().unbind();
        let (args, kwargs) = with_objects(py, args, kwargs, &mirror.placeholders()).map_err(foreign)?;
        let (args, kwargs) = (args.unbind(), kwargs.unbind());
        Ok(Box::new(move |tensors| {
            let call =
                |py: Python<'_>| call_with(py, function.bind(py), args.bind(py), kwargs.bind(py), tensors);
            Python::attach(call).map_err(foreign)
        }))
    };
    convert::out(py, complete(Computed::of(&computed)?, arguments, true, again, repeat).py()?)
}

/// Calls `function` with `tensors` in place of the tensors among its arguments.
fn call_with<'py>(
    py: Python<'py>,
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
    tensors: &[Tensor],
) -> PyResult<Out> {
    let (args, kwargs) = with_objects(py, args, kwargs, tensors)?;
    let out = function.call(args, Some(&kwargs))?;
    Ok(match out.cast::<PyTensor>() {
        Ok(t) => Out::Tensor(t.tensor()),
        Err(_) => Out::Tuple(convert::tensor_list(&out)?),
    })
}

/// Records that `function`, which is no operation of the table, has written its first argument.
#[pyfunction(name = "_record_written")]
pub fn record_written_by<'py>(
    py: Python<'py>,
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
) -> PyResult<()> {
    let mut arguments = Vec::new();
    args.iter().for_each(|a| collect(&a, &mut arguments));
    let again = |mirror: &Mirror| {
        let call = || -> PyResult<()> {
            let mut images = mirror.images().iter();
            let args = args.iter().map(|a| mirrored(&a, &mut images)).collect::<PyResult<Vec<_>>>()?;
            function.call1(PyTuple::new(py, args)?).map(drop)
        };
        call().map_err(foreign)
    };
    record_written(arguments, again).py()
}
