//! GPU devices, memory and counters: the base of `rgrad.gpu`.

use pyo3::prelude::*;
#[cfg(feature = "gpu")]
use pyo3::types::PyDict;

use super::dtype::{PyDevice, device_of};
use super::error::IntoPy;
use crate::backend::memory;
use crate::device::Device;
use crate::ops;

/// The number of available GPUs. The first call loads the drivers.
#[pyfunction(name = "_gpu_count")]
pub fn gpu_count(py: Python<'_>) -> usize {
    #[cfg(feature = "gpu")]
    return py.detach(|| crate::backend::device_info::adapters().len());
    #[cfg(not(feature = "gpu"))]
    {
        let _ = py;
        0
    }
}

/// The index of the GPU meant by names without an index.
#[pyfunction(name = "_current_gpu")]
pub fn current_gpu() -> usize {
    Device::current_gpu().index().unwrap_or(0)
}

#[pyfunction(name = "_set_current_gpu")]
pub fn set_current_gpu(index: u8) {
    Device::set_current_gpu(index);
}

#[pyfunction(name = "_set_default_device")]
pub fn set_default_device(device: &Bound<'_, PyAny>) -> PyResult<()> {
    ops::set_default_device(device_of(device)?);
    Ok(())
}

#[pyfunction]
pub fn get_default_device() -> PyDevice {
    PyDevice::of(ops::default_device())
}

/// Waits for a device and raises its pending errors.
#[pyfunction(name = "_synchronize")]
pub fn synchronize(py: Python<'_>, device: &Bound<'_, PyAny>) -> PyResult<()> {
    let device = device_of(device)?;
    py.detach(|| memory::synchronize(device)).py()
}

#[cfg(feature = "gpu")]
mod open {
    use std::sync::atomic::Ordering::Relaxed;

    use wgpu::Features;

    use super::*;
    use crate::backend::device_info::{adapter, allocation, cache, gpu, opened, reset};
    use crate::python::object::{PyTensor, TensorObject};

    /// Name, vendor, driver, backend and limits of a GPU.
    #[pyfunction(name = "_gpu_properties")]
    pub fn gpu_properties<'py>(py: Python<'py>, index: u8) -> PyResult<Bound<'py, PyDict>> {
        let adapter = adapter(index).py()?;
        let (info, limits) = (adapter.get_info(), adapter.limits());
        let d = PyDict::new(py);
        d.set_item("name", info.name)?;
        d.set_item("vendor", info.vendor)?;
        d.set_item("driver", info.driver)?;
        d.set_item("driver_info", info.driver_info)?;
        d.set_item("backend", format!("{:?}", info.backend))?;
        d.set_item("type", format!("{:?}", info.device_type))?;
        d.set_item("max_buffer_size", limits.max_buffer_size)?;
        d.set_item("max_binding_size", limits.max_storage_buffer_binding_size)?;
        d.set_item("max_workgroup_size", limits.max_compute_invocations_per_workgroup)?;
        d.set_item("max_workgroup_memory", limits.max_compute_workgroup_storage_size)?;
        let features = adapter.features();
        for (name, feature) in [
            ("int64", Features::SHADER_INT64),
            ("float64", Features::SHADER_F64),
            ("timestamps", Features::TIMESTAMP_QUERY),
        ] {
            d.set_item(name, features.contains(feature))?;
        }
        let avoided = cache::avoided(&adapter.get_info());
        d.set_item("avoided", cache::names(avoided).collect::<Vec<_>>())?;
        Ok(d)
    }

    /// The runtime's counters, and the bytes in use.
    #[pyfunction(name = "_gpu_stats")]
    pub fn gpu_stats<'py>(py: Python<'py>, index: u8) -> PyResult<Bound<'py, PyDict>> {
        let gpu = gpu(index).py()?;
        let (c, usage) = (&gpu.counters, gpu.usage());
        let d = PyDict::new(py);
        d.set_item("buffers", c.buffers.load(Relaxed))?;
        d.set_item("bind_groups", c.bind_groups.load(Relaxed))?;
        d.set_item("pipelines", c.pipelines.load(Relaxed))?;
        d.set_item("submissions", c.submissions.load(Relaxed))?;
        d.set_item("dispatches", c.dispatches.load(Relaxed))?;
        d.set_item("allocated_bytes", usage.allocated)?;
        d.set_item("reserved_bytes", usage.reserved)?;
        d.set_item("peak_bytes", usage.peak)?;
        Ok(d)
    }

    #[pyfunction(name = "_gpu_empty_cache")]
    pub fn gpu_empty_cache(index: u8) -> PyResult<()> {
        gpu(index).py()?.empty_cache();
        Ok(())
    }

    /// Closes a GPU; the next use reopens it.
    #[pyfunction(name = "_gpu_reset")]
    pub fn gpu_reset(py: Python<'_>, index: u8) -> PyResult<()> {
        py.detach(|| reset(index)).py()
    }

    /// Destroys a GPU device, to test what follows.
    #[pyfunction(name = "_gpu_lose")]
    pub fn gpu_lose(py: Python<'_>, index: u8) -> PyResult<()> {
        py.detach(|| gpu(index).map(|gpu| gpu.lose())).py()
    }

    /// The id and size of the buffer of a GPU tensor.
    #[pyfunction(name = "_gpu_memory_of")]
    pub fn gpu_memory_of(tensor: &Bound<'_, PyTensor>) -> Option<(u64, u64)> {
        let tensor = tensor.tensor();
        allocation(tensor.raw().storage).and_then(|a| a.memory())
    }

    /// Starts timing every launch.
    #[pyfunction(name = "_gpu_start_profile")]
    pub fn gpu_start_profile(py: Python<'_>, index: u8) -> PyResult<()> {
        py.detach(|| gpu(index)?.start_profile()).py()
    }

    /// Per launch: operation, kernel, workgroups, and the times of recording, start and end in microseconds.
    type Timed = (&'static str, &'static str, u64, f64, f64, f64);

    #[pyfunction(name = "_gpu_stop_profile")]
    pub fn gpu_stop_profile(py: Python<'_>, index: u8) -> PyResult<Vec<Timed>> {
        let timed = py.detach(|| gpu(index)?.stop_profile()).py()?;
        Ok(timed.into_iter().map(|t| (t.op, t.kernel, t.groups, t.recorded, t.begin, t.end)).collect())
    }

    /// Records which features of a GPU to avoid from its next opening on; returns whether that succeeded.
    #[pyfunction(name = "_gpu_avoid")]
    pub fn gpu_avoid(index: u8, features: Vec<String>) -> PyResult<bool> {
        Ok(cache::avoid(&adapter(index).py()?.get_info(), &features))
    }

    /// Saves the pipeline caches to disk.
    #[pyfunction(name = "_gpu_save_caches")]
    pub fn gpu_save_caches(py: Python<'_>) {
        py.detach(|| opened().for_each(|gpu| gpu.save_cache()));
    }

    #[pyfunction(name = "_gpu_reset_peak")]
    pub fn gpu_reset_peak(index: u8) -> PyResult<()> {
        gpu(index).py()?.reset_peak();
        Ok(())
    }
}

/// Adds the functions; those that need a device only in builds with the GPU backend.
pub fn add_gpu(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("OutOfMemoryError", m.py().get_type::<super::error::OutOfMemoryError>())?;
    m.add_function(wrap_pyfunction!(gpu_count, m)?)?;
    m.add_function(wrap_pyfunction!(current_gpu, m)?)?;
    m.add_function(wrap_pyfunction!(set_current_gpu, m)?)?;
    m.add_function(wrap_pyfunction!(set_default_device, m)?)?;
    m.add_function(wrap_pyfunction!(get_default_device, m)?)?;
    m.add_function(wrap_pyfunction!(synchronize, m)?)?;
    #[cfg(feature = "gpu")]
    {
        m.add_function(wrap_pyfunction!(open::gpu_properties, m)?)?;
        m.add_function(wrap_pyfunction!(open::gpu_stats, m)?)?;
        m.add_function(wrap_pyfunction!(open::gpu_empty_cache, m)?)?;
        m.add_function(wrap_pyfunction!(open::gpu_reset_peak, m)?)?;
        m.add_function(wrap_pyfunction!(open::gpu_reset, m)?)?;
        m.add_function(wrap_pyfunction!(open::gpu_lose, m)?)?;
        m.add_function(wrap_pyfunction!(open::gpu_memory_of, m)?)?;
        m.add_function(wrap_pyfunction!(open::gpu_start_profile, m)?)?;
        m.add_function(wrap_pyfunction!(open::gpu_stop_profile, m)?)?;
        m.add_function(wrap_pyfunction!(open::gpu_avoid, m)?)?;
        m.add_class::<super::wgsl::PyWgslKernel>()?;
        let save = wrap_pyfunction!(open::gpu_save_caches, m)?;
        m.py().import("atexit")?.call_method1("register", (save,))?;
    }
    Ok(())
}
