//! Modes, settings and counters of the core.

use pyo3::prelude::*;

use super::dtype::{PyDType, PyGenerator, dtype_object};
use super::error::IntoPy;
use super::tensor::Operand;
use crate::backend::{conv, simd, threads};
use crate::device::Device;
use crate::dtype::DType;
use crate::ops::{self, autocast};
use crate::{graph, storage};

#[pyfunction]
pub fn is_grad_enabled() -> bool {
    graph::grad_mode()
}

/// Sets the grad mode of this thread and returns the previous one.
#[pyfunction(name = "_set_grad_enabled")]
pub fn set_grad_enabled(mode: bool) -> bool {
    graph::set_grad_enabled(mode)
}

#[pyfunction]
pub fn is_inference_mode_enabled() -> bool {
    graph::inference_enabled()
}

#[pyfunction(name = "_set_inference_mode")]
pub fn set_inference_mode(mode: bool) -> bool {
    graph::set_inference_enabled(mode)
}

/// Sets whether `empty` and related functions fill their results.
#[pyfunction(name = "_set_fills_uninitialized")]
pub fn set_fills_uninitialized(fills: bool) {
    ops::creation::set_fills_uninitialized(fills);
}

/// Sets anomaly mode and its NaN check; returns the previous values of both.
#[pyfunction(name = "_set_anomaly_enabled")]
#[pyo3(signature = (mode, check_nan=true))]
pub fn set_anomaly_enabled(mode: bool, check_nan: bool) -> (bool, bool) {
    graph::anomaly::set(mode, check_nan)
}

#[pyfunction]
pub fn is_anomaly_enabled() -> bool {
    graph::anomaly::enabled()
}

#[pyfunction]
pub fn is_anomaly_check_nan_enabled() -> bool {
    graph::anomaly::checks_nan()
}

#[pyfunction]
pub fn get_default_dtype(py: Python<'_>) -> PyResult<Py<PyDType>> {
    dtype_object(py, ops::default_dtype())
}

#[pyfunction]
pub fn set_default_dtype(d: &Bound<'_, PyAny>) -> PyResult<()> {
    let d = d.cast::<PyDType>().map_err(|_| {
        pyo3::exceptions::PyTypeError::new_err(
            "invalid dtype object: only floating-point types are supported as the default type",
        )
    })?;
    ops::set_default_dtype(d.get().0).py()
}

#[pyfunction]
pub fn get_num_threads() -> usize {
    threads::num_threads()
}

#[pyfunction]
pub fn set_num_threads(num: isize) -> PyResult<()> {
    if num <= 0 {
        return Err(pyo3::exceptions::PyRuntimeError::new_err("set_num_threads expects a positive integer"));
    }
    threads::set_num_threads(num as usize);
    Ok(())
}

/// Whether Winograd's algorithm may compute convolutions.
#[pyfunction(name = "_winograd_enabled")]
pub fn winograd_enabled() -> bool {
    conv::winograd_enabled()
}

#[pyfunction(name = "_enable_winograd")]
pub fn enable_winograd(enabled: bool) {
    conv::enable_winograd(enabled);
}

/// Limits the instruction set ("baseline", "avx2", "avx512"); returns the one in use, which the machine must support.
#[pyfunction(name = "_set_cpu_isa")]
#[pyo3(signature = (name=None))]
pub fn set_cpu_isa(name: Option<&str>) -> PyResult<&'static str> {
    let isa = match name {
        None => simd::isa(),
        Some("baseline") => simd::force_isa(simd::Isa::Baseline),
        Some("avx2") => simd::force_isa(simd::Isa::Avx2),
        Some("avx512") => simd::force_isa(simd::Isa::Avx512),
        Some(other) => {
            return Err(pyo3::exceptions::PyValueError::new_err(format!(
                "unknown instruction set '{other}'"
            )));
        }
    };
    Ok(match isa {
        simd::Isa::Baseline => "baseline",
        simd::Isa::Avx2 => "avx2",
        simd::Isa::Avx512 => "avx512",
    })
}

/// A device of the given type.
fn kind(name: &str) -> Device {
    if name == "cpu" { Device::Cpu } else { Device::Gpu(0) }
}

/// The default dtype of autocast for a type of device.
fn usual_cast(device: Device) -> DType {
    if device.is_gpu() { DType::F16 } else { DType::BF16 }
}

/// Sets autocast of this thread for a type of device; returns whether it was on, and its dtype.
#[pyfunction(name = "_set_autocast")]
#[pyo3(signature = (enabled, dtype=None, device="cpu"))]
pub fn set_autocast(
    py: Python<'_>,
    enabled: bool,
    dtype: Option<&Bound<'_, PyDType>>,
    device: &str,
) -> PyResult<(bool, Py<PyDType>)> {
    let device = kind(device);
    let usual = usual_cast(device);
    let before = autocast::set(device, enabled.then_some(dtype.map_or(usual, |d| d.get().0)));
    Ok((before.is_some(), dtype_object(py, before.unwrap_or(usual))?))
}

/// Has autocast leave an operation on a type of device as it is, or cast it again.
#[pyfunction(name = "_set_autocast_fallthrough")]
pub fn set_autocast_fallthrough(op: &str, device: &str, left: bool) {
    autocast::leave(op, kind(device), left);
}

#[pyfunction(name = "_get_autocast")]
#[pyo3(signature = (device="cpu"))]
pub fn get_autocast(py: Python<'_>, device: &str) -> PyResult<(bool, Py<PyDType>)> {
    let device = kind(device);
    let now = autocast::dtype(device);
    Ok((now.is_some(), dtype_object(py, now.unwrap_or(usual_cast(device)))?))
}

#[pyfunction(name = "_default_generator")]
pub fn default_generator() -> PyGenerator {
    PyGenerator(ops::random::default_generator().clone())
}

/// Bytes in live storages, their peak, and cached bytes.
#[pyfunction(name = "_memory_stats")]
pub fn memory_stats() -> (usize, usize, usize) {
    storage::alloc::stats()
}

#[pyfunction(name = "_reset_peak_memory")]
pub fn reset_peak_memory() {
    storage::alloc::reset_peak();
}

#[pyfunction(name = "_empty_cache")]
pub fn empty_cache() {
    storage::alloc::empty_cache();
}

#[pyfunction(name = "_promote_types")]
pub fn promote_types(
    py: Python<'_>,
    a: &Bound<'_, PyDType>,
    b: &Bound<'_, PyDType>,
) -> PyResult<Py<PyDType>> {
    dtype_object(py, crate::dtype::promote(a.get().0, b.get().0).py()?)
}

/// The promoted dtype of two tensors or numbers.
#[pyfunction(name = "_result_type")]
pub fn result_type(py: Python<'_>, a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<Py<PyDType>> {
    let operand = |x: &Bound<'_, PyAny>| {
        Operand::of(x).ok_or_else(|| {
            pyo3::exceptions::PyTypeError::new_err("result_type(): arguments must be Tensors or Numbers")
        })
    };
    let (a, b) = (operand(a)?, operand(b)?);
    dtype_object(py, ops::pointwise::result_type(&[a.arg(), b.arg()]).py()?)
}

/// Sets whether one-time warnings are repeated every time.
#[pyfunction]
pub fn set_warn_always(enabled: bool) {
    crate::error::WARN_ALWAYS.store(enabled, std::sync::atomic::Ordering::Relaxed);
}

#[pyfunction]
pub fn is_warn_always_enabled() -> bool {
    crate::error::WARN_ALWAYS.load(std::sync::atomic::Ordering::Relaxed)
}
