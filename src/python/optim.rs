//! Optimizer steps: `rgrad._C._optim`.

use pyo3::prelude::*;

use super::convert::{opt_tensor_list, tensor_list};
use super::error::IntoPy;
use super::tensor::{PyTensor, TensorObject, wrap};
use crate::optim;

type Any<'a, 'py> = &'a Bound<'py, PyAny>;

#[pyfunction]
#[pyo3(signature = (params, grads, momentum_buffers, *, lr, momentum, dampening, weight_decay, nesterov, maximize))]
fn sgd(
    py: Python<'_>,
    params: Any,
    grads: Any,
    momentum_buffers: Any,
    lr: f64,
    momentum: f64,
    dampening: f64,
    weight_decay: f64,
    nesterov: bool,
    maximize: bool,
) -> PyResult<Option<Vec<Py<PyAny>>>> {
    let (params, grads) = (tensor_list(params)?, tensor_list(grads)?);
    let buffers = opt_tensor_list(momentum_buffers)?;
    let settings = optim::Sgd { lr, momentum, dampening, weight_decay, nesterov, maximize };
    let made = py.detach(|| optim::sgd(&params, &grads, &buffers, settings)).py()?;
    made.map(|all| all.into_iter().map(|t| wrap(py, t)).collect()).transpose()
}

#[pyfunction]
#[pyo3(signature = (
    params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps, *, lr, beta1, beta2, eps, weight_decay, amsgrad,
    maximize, decoupled
))]
fn adam(
    py: Python<'_>,
    params: Any,
    grads: Any,
    exp_avgs: Any,
    exp_avg_sqs: Any,
    max_exp_avg_sqs: Any,
    steps: Any,
    lr: f64,
    beta1: f64,
    beta2: f64,
    eps: f64,
    weight_decay: f64,
    amsgrad: bool,
    maximize: bool,
    decoupled: bool,
) -> PyResult<()> {
    let (params, grads) = (tensor_list(params)?, tensor_list(grads)?);
    let (exp_avgs, exp_avg_sqs) = (tensor_list(exp_avgs)?, tensor_list(exp_avg_sqs)?);
    let (max_exp_avg_sqs, steps) = (tensor_list(max_exp_avg_sqs)?, tensor_list(steps)?);
    let settings = optim::Adam { lr, beta1, beta2, eps, weight_decay, amsgrad, maximize, decoupled };
    py.detach(|| optim::adam(&params, &grads, &exp_avgs, &exp_avg_sqs, &max_exp_avg_sqs, &steps, settings))
        .py()
}

#[pyfunction]
#[pyo3(signature = (
    params, grads, square_avgs, grad_avgs, momentum_buffers, steps, *, lr, alpha, eps, weight_decay, momentum, centered,
    maximize
))]
fn rmsprop(
    py: Python<'_>,
    params: Any,
    grads: Any,
    square_avgs: Any,
    grad_avgs: Any,
    momentum_buffers: Any,
    steps: Any,
    lr: f64,
    alpha: f64,
    eps: f64,
    weight_decay: f64,
    momentum: f64,
    centered: bool,
    maximize: bool,
) -> PyResult<()> {
    let (params, grads) = (tensor_list(params)?, tensor_list(grads)?);
    let (square_avgs, grad_avgs) = (tensor_list(square_avgs)?, tensor_list(grad_avgs)?);
    let (momentum_buffers, steps) = (tensor_list(momentum_buffers)?, tensor_list(steps)?);
    let settings = optim::RmsProp { lr, alpha, eps, weight_decay, momentum, centered, maximize };
    py.detach(|| {
        optim::rmsprop(&params, &grads, &square_avgs, &grad_avgs, &momentum_buffers, &steps, settings)
    })
    .py()
}

#[pyfunction]
#[pyo3(signature = (params, grads, state_sums, steps, *, lr, lr_decay, eps, weight_decay, maximize))]
fn adagrad(
    py: Python<'_>,
    params: Any,
    grads: Any,
    state_sums: Any,
    steps: Any,
    lr: f64,
    lr_decay: f64,
    eps: f64,
    weight_decay: f64,
    maximize: bool,
) -> PyResult<()> {
    let (params, grads) = (tensor_list(params)?, tensor_list(grads)?);
    let (state_sums, steps) = (tensor_list(state_sums)?, tensor_list(steps)?);
    let settings = optim::Adagrad { lr, lr_decay, eps, weight_decay, maximize };
    py.detach(|| optim::adagrad(&params, &grads, &state_sums, &steps, settings)).py()
}

#[pyfunction]
#[pyo3(signature = (params, grads, square_avgs, acc_deltas, steps, *, lr, rho, eps, weight_decay, maximize))]
fn adadelta(
    py: Python<'_>,
    params: Any,
    grads: Any,
    square_avgs: Any,
    acc_deltas: Any,
    steps: Any,
    lr: f64,
    rho: f64,
    eps: f64,
    weight_decay: f64,
    maximize: bool,
) -> PyResult<()> {
    let (params, grads) = (tensor_list(params)?, tensor_list(grads)?);
    let (square_avgs, acc_deltas) = (tensor_list(square_avgs)?, tensor_list(acc_deltas)?);
    let steps = tensor_list(steps)?;
    let settings = optim::Adadelta { lr, rho, eps, weight_decay, maximize };
    py.detach(|| optim::adadelta(&params, &grads, &square_avgs, &acc_deltas, &steps, settings)).py()
}

/// Multiplies gradients by the inverse loss scale; returns a tensor of 1 if any was infinite or NaN, else of 0.
#[pyfunction]
fn unscale(py: Python<'_>, grads: Any, inv_scale: &Bound<'_, PyTensor>) -> PyResult<Py<PyAny>> {
    let (grads, inv_scale) = (tensor_list(grads)?, inv_scale.tensor());
    wrap(py, py.detach(|| optim::unscale(&grads, &inv_scale)).py()?)
}

/// Multiplies gradients by a number.
#[pyfunction]
fn scale_all(py: Python<'_>, grads: Any, factor: &Bound<'_, PyTensor>) -> PyResult<()> {
    let (grads, factor) = (tensor_list(grads)?, factor.tensor());
    py.detach(|| optim::scale_all(&grads, &factor)).py()
}

/// The norm over all elements of all tensors.
#[pyfunction]
#[pyo3(signature = (tensors, p=2.0))]
fn total_norm(py: Python<'_>, tensors: Any, p: f64) -> PyResult<Py<PyAny>> {
    let tensors = tensor_list(tensors)?;
    wrap(py, py.detach(|| optim::total_norm(&tensors, p)).py()?)
}

/// Adds the submodule `_optim`.
pub fn add_optim(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let optim = PyModule::new(m.py(), "rgrad._C._optim")?;
    optim.add_function(wrap_pyfunction!(sgd, &optim)?)?;
    optim.add_function(wrap_pyfunction!(adam, &optim)?)?;
    optim.add_function(wrap_pyfunction!(rmsprop, &optim)?)?;
    optim.add_function(wrap_pyfunction!(adagrad, &optim)?)?;
    optim.add_function(wrap_pyfunction!(adadelta, &optim)?)?;
    optim.add_function(wrap_pyfunction!(unscale, &optim)?)?;
    optim.add_function(wrap_pyfunction!(scale_all, &optim)?)?;
    optim.add_function(wrap_pyfunction!(total_norm, &optim)?)?;
    m.add("_optim", optim)
}
