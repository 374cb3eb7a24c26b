//! The Python module `rgrad._C`: converts arguments, enters Rust, converts errors. No arithmetic here.

mod arrays;
mod attributes;
mod autograd;
mod batching;
mod convert;
mod dispatch;
mod display;
mod dlpack;
mod dtype;
mod error;
mod function;
mod gpu;
mod hooks;
mod index;
mod interop;
mod legacy;
mod matching;
mod method;
mod mismatch;
mod modes;
mod node;
mod object;
mod operators;
mod optim;
mod overloads;
mod protocols;
mod region;
mod safetensors;
mod signature;
mod storage;
mod subclass;
mod tensor;
#[cfg(feature = "gpu")]
mod wgsl;

use pyo3::prelude::*;

/// The core of rgrad.
#[allow(non_snake_case)] // the name that Python imports
#[pymodule(gil_used = true)]
mod _C {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::arrays::from_numpy;
    #[pymodule_export]
    use super::autograd::{
        backward, enter_transform, exit_transform, grad, gradient_edge, increment_version,
        leave_writes_uncounted, require_grad, transforms, unsafe_set_version_counter,
    };
    #[pymodule_export]
    use super::batching::{
        add_batch_dim, announce_fallback, batched, enter_vmap, entered, everywhere, exit_vmap,
        fallback_enabled, fallback_warning, is_batched, outside_vmap, randomness, refusing_random,
        remove_batch_dim, running_levels, set_fallback_enabled, set_fallback_warning, value_of,
    };
    #[pymodule_export]
    use super::dispatch::{
        call_torch_dispatch, dispatch_disabled, dispatch_modes, keep_object, make_wrapper, meet_dispatch,
        pop_dispatch_mode, push_dispatch_mode, record_written_by, set_below_autograd, set_dispatch_disabled,
        wraps,
    };
    #[pymodule_export]
    use super::display::{get_printoptions, set_printoptions};
    #[pymodule_export]
    use super::dlpack::from_dlpack;
    #[pymodule_export]
    use super::dtype::{PyDType, PyDevice, PyGenerator, PyMemoryFormat};
    #[pymodule_export]
    use super::function::record_function;
    #[pymodule_export]
    use super::hooks::{
        PyHookHandle, pop_saved_tensors_hooks, push_saved_tensors_hooks, saved_tensors_hooks_depth,
        set_saved_tensors_hooks_error,
    };
    #[pymodule_export]
    use super::interop::{as_tensor, tensor};
    #[pymodule_export]
    use super::legacy::{make_subclass, typed_tensor};
    #[pymodule_export]
    use super::modes::{
        default_generator, empty_cache, enable_winograd, get_autocast, get_default_dtype, get_num_threads,
        is_anomaly_check_nan_enabled, is_anomaly_enabled, is_grad_enabled, is_inference_mode_enabled,
        is_warn_always_enabled, memory_stats, promote_types, reset_peak_memory, result_type,
        set_anomaly_enabled, set_autocast, set_autocast_fallthrough, set_cpu_isa, set_default_dtype,
        set_fills_uninitialized, set_grad_enabled, set_inference_mode, set_num_threads, set_warn_always,
        winograd_enabled,
    };
    #[pymodule_export]
    use super::node::{
        PyInputMetadata, PyNode, PySavedTensor, current_graph_task_id, current_graph_task_keep_graph,
        is_checkpoint_valid, queue_callback, will_engine_execute_node,
    };
    #[pymodule_export]
    use super::object::swap_tensors;
    #[pymodule_export]
    use super::region::{
        Region, call_in_region, enter_region, exit_region, is_compiling, is_deferring, pause_region,
    };
    #[pymodule_export]
    use super::safetensors::{index, save};
    #[pymodule_export]
    use super::storage::{PyStorage, frombuffer, storage_bytes, tensor_from_buffer};
    #[pymodule_export]
    use super::subclass::{
        call_torch_function, count_modes, disabled_torch_function, handle_torch_function, has_torch_function,
        is_torch_function_enabled, is_torch_function_mode_enabled, meet_subclass, mode_at, pop_mode,
        push_mode, set_torch_function_disabled,
    };
    #[pymodule_export]
    use super::tensor::PyTensor;

    #[pymodule_init]
    fn init(m: &Bound<'_, PyModule>) -> PyResult<()> {
        super::init(m)
    }
}

fn init(m: &Bound<'_, PyModule>) -> PyResult<()> {
    object::add_class(m)?;
    operators::add_division_names(m.py())?;
    legacy::add_to_class(m)?;
    m.add("_LinAlgError", m.py().get_type::<error::_LinAlgError>())?;
    dtype::add_dtypes(m)?;
    dtype::add_memory_formats(m)?;
    method::add_operations(m)?;
    optim::add_optim(m)?;
    node::observe_anomalies();
    region::connect();
    gpu::add_gpu(m)?;
    crate::error::set_warn(|text| Python::attach(|py| error::warn(py, text)).map_err(error::foreign));
    hooks::watch_collections(m)?;
    crate::error::set_interrupt_check(|| Python::attach(|py| py.check_signals().map_err(error::foreign)));
    Ok(())
}
