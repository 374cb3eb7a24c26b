//! Autograd methods and functions of the Python module.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::{PyIndexError, PyRuntimeError, PyTypeError, PyUserWarning};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList};

use super::convert::tensors_or_none;
use super::dispatch::{any_mode, asks_class, by_class};
use super::dtype::{PyDType, dtype_object, type_name};
use super::error::IntoPy;
use super::hooks::{Callable, PyHookHandle, hooks_dict};
use super::node::{PyNode, node_object};
use super::tensor::{PyTensor, TensorObject, wrap};
use crate::dtype::DType;
use crate::engine::{self, Options, Target};
use crate::error::{WARN_ALWAYS, interruptible};
use crate::graph::{self, Edge, keep};
use crate::ops::{batching, interpreter};
use crate::tensor::Tensor;

thread_local! {
    /// How many functions this thread is transforming, `vmap` aside: see `rgrad._transforms`.
    static TRANSFORMS: Cell<u32> = const { Cell::new(0) };
}

/// Begins a transform of a function, which is a derivative or another.
#[pyfunction(name = "_enter_transform")]
pub fn enter_transform(derivative: bool) {
    TRANSFORMS.set(TRANSFORMS.get() + 1);
    if derivative {
        graph::enter_derivative();
    }
}

/// Ends the innermost one.
#[pyfunction(name = "_exit_transform")]
pub fn exit_transform(derivative: bool) {
    TRANSFORMS.set(TRANSFORMS.get().saturating_sub(1));
    if derivative {
        graph::exit_derivative();
    }
}

/// The number of running transforms, `vmap` aside.
#[pyfunction(name = "_transforms")]
pub fn transforms() -> u32 {
    TRANSFORMS.get()
}

fn transforms_function() -> bool {
    TRANSFORMS.get() > 0 || interpreter::active() && !batching::levels().is_empty()
}

/// Fails while a function is transformed: `torch.func` takes derivatives there.
fn expect_untransformed(called: &str, also: &str) -> PyResult<()> {
    if !transforms_function() {
        return Ok(());
    }
    Err(PyRuntimeError::new_err(format!(
        "You are attempting to call Tensor.{called}() {also}inside of a function being transformed by a functorch \
         transform. This is unsupported, please attempt to use the functorch transforms (e.g. grad, vjp, jacrev, jacfwd, \
         hessian) or call {called}() outside of a function being transformed instead."
    )))
}

/// Fails while a function is transformed: `backward` writes to leaves outside of it.
fn expect_backward_outside() -> PyResult<()> {
    if !transforms_function() {
        return Ok(());
    }
    Err(PyRuntimeError::new_err(
        "backward() called inside a functorch transform. This is not supported, please use functorch.grad or functorch.vjp \
         instead or call backward() outside of functorch transforms.",
    ))
}

/// A tensor as one that requires grad, inside a function that is transformed too.
#[pyfunction(name = "_require_grad")]
#[pyo3(signature = (t, requires_grad=true))]
pub fn require_grad<'py>(t: Bound<'py, PyTensor>, requires_grad: bool) -> PyResult<Bound<'py, PyTensor>> {
    t.tensor().set_requires_grad(requires_grad).py()?;
    Ok(t)
}

#[pymethods]
impl PyTensor {
    #[getter]
    fn requires_grad(&self, py: Python<'_>) -> bool {
        let t = self.inner(py);
        t.requires_grad() || interpreter::active() && t.batch().is_some_and(|b| b.value().requires_grad())
    }

    #[setter]
    fn set_requires_grad(&self, py: Python<'_>, on: &Bound<'_, PyAny>) -> PyResult<()> {
        let on = on.cast::<PyBool>().map_err(|_| PyRuntimeError::new_err("requires_grad must be a bool"))?;
        if interpreter::active() && self.inner(py).is_batched() {
            expect_untransformed("requires_grad_", "")?;
        }
        // Unlike the method, the attribute setter always rejects tensors with history, even if nothing would change.
        if on.is_true() && self.inner(py).history().py()?.is_some() {
            return Err(PyRuntimeError::new_err(
                "you can only change requires_grad flags of leaf variables.",
            ));
        }
        self.inner(py).set_requires_grad(on.is_true()).py()
    }

    #[deleter]
    fn delete_requires_grad(&self) -> PyResult<()> {
        Err(PyRuntimeError::new_err("requires_grad must be a bool"))
    }

    #[pyo3(signature = (requires_grad=true))]
    fn requires_grad_(slf: Bound<'_, Self>, requires_grad: bool) -> PyResult<Bound<'_, Self>> {
        if requires_grad {
            expect_untransformed("requires_grad_", "(or perhaps using torch.autograd.functional.* APIs) ")?;
        }
        let t = slf.tensor();
        if requires_grad && !t.dtype().is_float() {
            return Err(PyRuntimeError::new_err(
                "only Tensors of floating point dtype can require gradients",
            ));
        }
        t.set_requires_grad(requires_grad).py()?;
        Ok(slf)
    }

    #[getter]
    fn is_leaf(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.inner(py).history().py()?.is_none())
    }

    /// The dtype required of the gradient; None if any is allowed.
    #[getter(grad_dtype)]
    fn shown_grad_dtype(&self, py: Python<'_>) -> PyResult<Option<Py<PyDType>>> {
        grad_dtype(&self.inner(py)).map(|d| dtype_object(py, d)).transpose()
    }

    #[setter]
    fn set_grad_dtype(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let dtype = match value.cast::<PyDType>() {
            Ok(d) => Some(d.get().0),
            Err(_) if value.is_none() => None,
            Err(_) => {
                let found = type_name(value);
                return Err(PyRuntimeError::new_err(format!(
                    "grad_dtype must be a torch.dtype or None, but got {found}"
                )));
            }
        };
        let t = &self.inner(py);
        if t.history().py()?.is_some() {
            return Err(PyRuntimeError::new_err("grad_dtype can only be set on leaf tensors."));
        }
        if let (Some(d), Some(g)) = (dtype, t.grad())
            && g.dtype() != d
        {
            return Err(PyRuntimeError::new_err(format!(
                "Cannot set grad_dtype to '{}' because there is already a gradient with dtype '{}'. Please clear the \
                 gradient (.grad = None) before changing grad_dtype, or ensure the new grad_dtype matches the existing \
                 gradient's dtype.",
                d.scalar_name(),
                g.dtype().scalar_name().to_lowercase()
            )));
        }
        t.meta_or_new().set_grad_dtype(dtype);
        Ok(())
    }

    #[getter]
    fn grad(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let t = self.inner(py);
        if let Some(meta) = t.meta()
            && let Some(g) = meta.grad()
        {
            let g = wrap(py, g)?;
            if let Ok(object) = g.cast_bound::<PyTensor>(py) {
                object.get().mark_grad_of(py, meta);
            }
            return Ok(g);
        }
        if t.requires_grad() && !t.is_leaf() && !t.retains_grad() {
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), NOT_KEPT, 1)?;
        }
        Ok(py.None())
    }

    #[setter]
    fn set_grad(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if value.is_none() {
            self.inner(py).set_grad(None);
            return Ok(());
        }
        let Ok(g) = value.cast::<PyTensor>() else {
            return Err(PyTypeError::new_err(format!(
                "assigned grad expected to be a Tensor or None but got grad of type {}",
                type_name(value)
            )));
        };
        let (object, g) = (g, g.tensor());
        let t = &self.inner(py);
        if g.same(t) {
            return Err(PyRuntimeError::new_err("can't assign Variable as its own grad"));
        }
        let expected = grad_dtype(t).unwrap_or(g.dtype());
        if g.dtype() != expected {
            return Err(PyRuntimeError::new_err(format!(
                "attempting to assign a gradient with dtype '{}' to a tensor with grad_dtype '{}'. The gradient must match \
                 the tensor's grad_dtype (defaults to the tensor's dtype). You can set the tensor's grad_dtype attribute \
                 with a specific dtype, or None to allow any dtype. Set grad_dtype with caution. Diverging the dtypes of a \
                 tensor and its gradient may break downstream systems that assume they match.",
                g.dtype().scalar_name().to_lowercase(),
                expected.scalar_name()
            )));
        }
        if g.device() != t.device() && !g.is_hosted() && !t.is_hosted() {
            return Err(PyRuntimeError::new_err(format!(
                "attempting to assign a gradient with device type '{}' to a tensor with device type '{}'. Please ensure that \
                 the gradient and the tensor are on the same device",
                g.device().kind(),
                t.device().kind()
            )));
        }
        if g.shape() != t.shape() {
            return Err(PyRuntimeError::new_err(format!(
                "attempting to assign a gradient of size '{}' to a tensor of size '{}'. Please ensure that the gradient \
                 and the tensor are the same size",
                g.shape(),
                t.shape()
            )));
        }
        t.set_grad(Some(g));
        PyTensor::become_grad_of(object, t.meta_or_new());
        Ok(())
    }

    #[deleter]
    fn delete_grad(&self, py: Python<'_>) {
        self.inner(py).set_grad(None);
    }

    #[getter]
    fn grad_fn(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.inner(py).history().py()? {
            Some(n) => node_object(py, &n),
            None => Ok(py.None()),
        }
    }

    #[getter]
    fn output_nr(&self, py: Python<'_>) -> usize {
        self.inner(py).meta().map_or(0, |m| m.output())
    }

    /// A number that tells tensors apart: `.data =` keeps it, `utils.swap_tensors` exchanges it.
    #[getter]
    fn _cdata(&self, py: Python<'_>) -> usize {
        Arc::as_ptr(self.inner(py).meta_or_new()) as usize
    }

    #[getter]
    fn _version(&self, py: Python<'_>) -> PyResult<u32> {
        let t = self.inner(py);
        if t.is_inference() {
            return Err(PyRuntimeError::new_err("Inference tensors do not track version counter."));
        }
        Ok(t.version())
    }

    fn is_inference(&self, py: Python<'_>) -> bool {
        self.inner(py).is_inference()
    }

    #[getter]
    fn _base(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.inner(py).base() {
            Some(b) => wrap(py, b.clone()),
            None => Ok(py.None()),
        }
    }

    fn _is_view(&self, py: Python<'_>) -> bool {
        self.inner(py).base().is_some()
    }

    #[getter]
    fn data(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        if any_mode() {
            return by_class(slf, "detach", []).map(Bound::unbind);
        }
        let t = slf.tensor();
        if t.is_batched() {
            return Err(PyRuntimeError::new_err("accessing `data` under vmap transform is not allowed"));
        }
        wrap(py, if t.is_hosted() { t.detached().py()? } else { t.data() })
    }

    #[setter]
    fn set_data(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let Ok(value) = value.cast::<PyTensor>() else {
            return Err(PyTypeError::new_err(format!(
                "Variable data has to be a tensor, but got {}",
                type_name(value)
            )));
        };
        let (me, value) = (slf.tensor(), value.tensor());
        if me.requires_grad() && !value.dtype().is_float() {
            return Err(PyRuntimeError::new_err(
                "data set to a tensor that requires gradients must be floating point or complex dtype",
            ));
        }
        PyTensor::replace(slf, me.with_data(&value));
        Ok(())
    }

    #[deleter]
    fn delete_data(&self) -> PyResult<()> {
        Err(PyRuntimeError::new_err("Deleting tensor data is not allowed. Delete tensor instead!"))
    }

    fn detach(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let t = slf.tensor();
        let of_class = asks_class(&t);
        if !any_mode() && !of_class {
            return wrap(slf.py(), t.detached().py()?);
        }
        let made = by_class(slf, "detach", [])?;
        if of_class && let Ok(made) = made.cast::<Self>() {
            // The handler made a tensor with memory of its own, if any.
            made.tensor().share_version(&t);
        }
        Ok(made.unbind())
    }

    fn detach_(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        {
            let t = slf.tensor();
            if t.base().is_some() {
                return Err(PyRuntimeError::new_err(
                    "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for \
                     training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence \
                     detach_() cannot be called on these gradients. To fix this error, please refer to the \
                     Optimizer.zero_grad() function in torch/optim/optimizer.py as the solution.",
                ));
            }
            if let Some(m) = t.meta() {
                m.clear_history();
            }
        }
        Ok(slf)
    }

    /// Accumulates the gradients of this tensor into the `.grad` of the leaves on which it depends.
    #[pyo3(signature = (gradient=None, retain_graph=None, create_graph=false, inputs=None))]
    fn backward(
        &self,
        py: Python<'_>,
        gradient: Option<&Bound<'_, PyAny>>,
        retain_graph: Option<bool>,
        create_graph: bool,
        inputs: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let grads = match gradient {
            Some(g) if g.is_none() || g.is_instance_of::<PyTensor>() => vec![gradient_of(g)?],
            // As in `autograd.backward`, several are accepted; the first belongs to this tensor.
            Some(several) => gradients(several)?.into_iter().take(1).collect(),
            None => Vec::new(),
        };
        let inputs = inputs.map(|inputs| targets(inputs, "inputs")).transpose()?;
        expect_backward_outside()?;
        let root = [Target::Tensor(self.inner(py))];
        let options = options(retain_graph, create_graph);
        warn_of_cycle(py, create_graph)?;
        py.detach(|| interruptible(|| engine::backward(&root, &grads, inputs.as_deref(), options))).py()
    }

    /// Calls `hook(grad)` whenever a gradient of this tensor is computed.
    fn register_hook(&self, py: Python<'_>, hook: Py<PyAny>) -> PyResult<PyHookHandle> {
        let mut t = &self.inner(py);
        let mut hook = hook;
        let batch = if interpreter::active() { t.batch() } else { None };
        if let Some(batch) = &batch {
            // The gradients of a value hold those of its slices.
            let levels = batch.levels().to_vec();
            hook = py.import("rgrad._vmap")?.call_method1("hook_of_slices", (hook, levels))?.unbind();
            t = batch.value();
        }
        if !t.requires_grad() {
            return Err(PyRuntimeError::new_err(
                "cannot register a hook on a tensor that doesn't require gradient",
            ));
        }
        let hook = Arc::new(Callable::new(hook));
        t.history().py()?;
        Ok(match t.meta().and_then(|m| m.history()) {
            Some((node, output)) => {
                let handle = node.add_tensor_hook(output, hook);
                PyHookHandle::on_node(&node, handle)
            }
            None => {
                let handle = t.meta_or_new().add_hook(hook);
                PyHookHandle::on_leaf(t.meta_or_new(), handle)
            }
        })
    }

    /// The hooks of this tensor by handle id, or None.
    #[getter]
    fn _backward_hooks<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        hooks_dict(py, &self.inner(py))
    }

    #[deleter(_backward_hooks)]
    fn refuse_deletion_of_hooks(&self) -> PyResult<()> {
        Err(PyRuntimeError::new_err("Deletion of _backward_hooks is not allowed"))
    }

    /// Calls `hook(tensor)` after a gradient was accumulated into this leaf.
    fn register_post_accumulate_grad_hook(&self, py: Python<'_>, hook: Py<PyAny>) -> PyResult<PyHookHandle> {
        let t = &self.inner(py);
        if !t.requires_grad() {
            return Err(PyRuntimeError::new_err(
                "cannot register a hook on a tensor that doesn't require gradient",
            ));
        }
        if t.history().py()?.is_some() {
            return Err(PyRuntimeError::new_err(
                "post accumulate grad hooks cannot be registered on non-leaf tensors",
            ));
        }
        let handle = t.meta_or_new().add_post_hook(Arc::new(Callable::new(hook)));
        Ok(PyHookHandle::on_leaf(t.meta_or_new(), handle))
    }

    /// Stores the gradient of this non-leaf tensor in its `.grad`.
    fn retain_grad(&self, py: Python<'_>) -> PyResult<()> {
        let t = &self.inner(py);
        if !t.requires_grad() {
            return Err(PyRuntimeError::new_err("can't retain_grad on Tensor that has requires_grad=False"));
        }
        expect_untransformed("retain_grad", "")?;
        t.retain_grad();
        Ok(())
    }

    #[getter]
    fn retains_grad(&self, py: Python<'_>) -> bool {
        self.inner(py).retains_grad()
    }
}

const NOT_KEPT: &std::ffi::CStr = c"The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad \
attribute won't be populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf \
Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you access the \
leaf Tensor instead. See github.com/pytorch/pytorch/pull/30531 for more informations.";

/// Parses tensors and gradient edges (pairs of a node and an output number); `role` names the argument in errors.
fn targets(obj: &Bound<'_, PyAny>, role: &str) -> PyResult<Vec<Target>> {
    if let Ok(t) = obj.cast::<PyTensor>() {
        return Ok(vec![Target::Tensor(t.tensor())]);
    }
    obj.try_iter()?
        .map(|x| {
            let x = x?;
            if let Ok(t) = x.cast::<PyTensor>() {
                return Ok(Target::Tensor(t.tensor()));
            }
            if let Ok(node) = x.getattr("node")
                && let Ok(node) = node.cast::<PyNode>()
            {
                let output = x.getattr("output_nr")?.extract()?;
                let node = node.get().node.clone();
                if output >= node.outputs().len().max(1) {
                    return Err(PyIndexError::new_err("tuple index out of range"));
                }
                return Ok(Target::Edge(Edge::new(node, output)));
            }
            Err(PyRuntimeError::new_err(format!(
                "all {role} have to be Tensors or GradientEdges, but got {}",
                type_name(&x)
            )))
        })
        .collect()
}

/// The node to which gradients of a tensor flow (its accumulator for a leaf), and the output number.
#[pyfunction(name = "_gradient_edge")]
pub fn gradient_edge(py: Python<'_>, tensor: &Bound<'_, PyTensor>) -> PyResult<(Py<PyAny>, usize)> {
    match tensor.tensor().grad_edge().py()? {
        Some(e) => Ok((node_object(py, &e.node)?, e.input())),
        None => Err(PyRuntimeError::new_err(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients",
        )),
    }
}

fn grad_dtype(t: &Tensor) -> Option<DType> {
    t.meta().map_or(Some(t.dtype()), |m| m.grad_dtype(t.dtype()))
}

fn gradient_of(obj: &Bound<'_, PyAny>) -> PyResult<Option<Tensor>> {
    if obj.is_none() {
        return Ok(None);
    }
    match obj.cast::<PyTensor>() {
        Ok(t) => Ok(Some(t.tensor())),
        Err(_) => Err(PyTypeError::new_err(format!(
            "gradients can be either Tensors or None, but got {}",
            type_name(obj)
        ))),
    }
}

/// Increments the version counter of tensors written by code outside; inference tensors have no counter.
#[pyfunction(name = "_increment_version")]
pub fn increment_version(tensors: Vec<Bound<'_, PyTensor>>) {
    tensors.iter().map(|t| t.tensor()).filter(|t| !t.is_inference()).for_each(|t| t.bump_version());
}

/// Notes that writes to tensors may follow whose versions are taken back.
#[pyfunction(name = "_leave_writes_uncounted")]
pub fn leave_writes_uncounted(tensors: Vec<Bound<'_, PyTensor>>) {
    tensors.iter().for_each(|t| keep(&t.tensor()));
}

/// Sets the version counters of tensors.
#[pyfunction(name = "_unsafe_set_version_counter")]
pub fn unsafe_set_version_counter(tensors: Vec<Bound<'_, PyTensor>>, versions: Vec<u32>) {
    tensors.iter().zip(versions).for_each(|(t, version)| t.tensor().set_version(version));
}

/// Warns once that a leaf whose gradient has a history forms a reference cycle.
fn warn_of_cycle(py: Python<'_>, create_graph: bool) -> PyResult<()> {
    static SAID: AtomicBool = AtomicBool::new(false);
    if create_graph && (!SAID.swap(true, Ordering::Relaxed) || WARN_ALWAYS.load(Ordering::Relaxed)) {
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), CYCLE, 1)?;
    }
    Ok(())
}

const CYCLE: &std::ffi::CStr = c"Using backward() with create_graph=True will create a reference cycle between the parameter \
and its gradient which can cause a memory leak. We recommend using autograd.grad when creating the graph to avoid this. If \
you have to use this function, make sure to reset the .grad fields of your parameters to None after use to break the cycle \
and avoid the leak.";

fn options(retain_graph: Option<bool>, create_graph: bool) -> Options {
    Options { retain_graph: retain_graph.unwrap_or(create_graph), create_graph, ..Options::default() }
}

/// Parses the gradients of the roots: tensors, or None for the default.
fn gradients(obj: &Bound<'_, PyAny>) -> PyResult<Vec<Option<Tensor>>> {
    tensors_or_none(obj, |found| format!("gradients can be either Tensors or None, but got {found}"))
}

/// Runs backward from several roots.
#[pyfunction(name = "_backward")]
#[pyo3(signature = (tensors, grad_tensors, retain_graph, create_graph, inputs))]
pub fn backward(
    py: Python<'_>,
    tensors: &Bound<'_, PyAny>,
    grad_tensors: &Bound<'_, PyAny>,
    retain_graph: Option<bool>,
    create_graph: bool,
    inputs: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    expect_backward_outside()?;
    let (roots, grads) = (targets(tensors, "outputs")?, gradients(grad_tensors)?);
    let inputs = inputs.map(|inputs| targets(inputs, "inputs")).transpose()?;
    let options = options(retain_graph, create_graph);
    warn_of_cycle(py, create_graph)?;
    py.detach(|| interruptible(|| engine::backward(&roots, &grads, inputs.as_deref(), options))).py()
}

/// The targets, if all are tensors.
fn tensors_of(targets: &[Target]) -> Option<Vec<Tensor>> {
    targets.iter().map(|t| if let Target::Tensor(t) = t { Some(t.clone()) } else { None }).collect()
}

/// Gradients of `outputs` with respect to `inputs`; None if unused and allowed.
#[pyfunction(name = "_grad")]
#[pyo3(signature = (outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads))]
pub fn grad<'py>(
    py: Python<'py>,
    outputs: &Bound<'py, PyAny>,
    inputs: &Bound<'py, PyAny>,
    grad_outputs: &Bound<'py, PyAny>,
    retain_graph: Option<bool>,
    create_graph: bool,
    allow_unused: bool,
    materialize_grads: bool,
) -> PyResult<Bound<'py, PyList>> {
    let (roots, wanted) = (targets(outputs, "outputs")?, targets(inputs, "inputs")?);
    let grads = gradients(grad_outputs)?;
    let options =
        Options { allow_unused, materialize: materialize_grads, ..options(retain_graph, create_graph) };
    let compute = |roots: &[Target], wanted: &[Target], grads: &[Option<Tensor>]| {
        interruptible(|| engine::grad(roots, wanted, grads, options))
    };
    let found = py.detach(|| match (tensors_of(&roots), tensors_of(&wanted)) {
        (Some(outputs), Some(inputs)) if interpreter::active() => {
            let as_targets = |ts: &[Tensor]| ts.iter().cloned().map(Target::Tensor).collect::<Vec<_>>();
            let of_values =
                |o: &[Tensor], i: &[Tensor], g: &[Option<Tensor>]| compute(&as_targets(o), &as_targets(i), g);
            match batching::grad(&outputs, &inputs, &grads, of_values) {
                Ok(Some(found)) => Ok(found),
                Ok(None) => compute(&roots, &wanted, &grads),
                Err(e) => Err(e),
            }
        }
        _ => compute(&roots, &wanted, &grads),
    });
    let found = found.py()?;
    let items = found
        .into_iter()
        .map(|g| match g {
            Some(g) => wrap(py, g),
            None => Ok(py.None()),
        })
        .collect::<PyResult<Vec<_>>>()?;
    PyList::new(py, items)
}
