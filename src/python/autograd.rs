//! Autograd from Python: backward, grad, hooks, nodes.

use std::sync::Arc;

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::convert::{opt_tensor_list, tensor_list};
use super::dtype::type_name;
use super::error::{IntoPy, foreign};
use super::tensor::{PyTensor, wrap};
use crate::engine::{self, Options};
use crate::error::Result;
use crate::graph::{GradFn, Grads, Handle, Meta, NodeHook, PostAccumulateHook, TensorHook};
use crate::tensor::Tensor;

/// A Python callable on a gradient.
struct Callable(Py<PyAny>);

impl TensorHook for Callable {
    fn call(&self, grad: &Tensor) -> Result<Option<Tensor>> {
        Python::attach(|py| {
            let result = self.0.call1(py, (wrap(py, grad.clone())?,))?;
            tensor_or_none(result.bind(py))
        })
        .map_err(foreign)
    }
}

fn tensor_or_none(obj: &Bound<'_, PyAny>) -> PyResult<Option<Tensor>> {
    if obj.is_none() {
        return Ok(None);
    }
    match obj.cast::<PyTensor>() {
        Ok(t) => Ok(Some(t.get().inner())),
        Err(_) => {
            Err(PyTypeError::new_err(format!("expected Variable, but hook returned '{}'", type_name(obj))))
        }
    }
}

impl PostAccumulateHook for Callable {
    fn call(&self, leaf: &Tensor) -> Result<()> {
        Python::attach(|py| self.0.call1(py, (wrap(py, leaf.clone())?,)).map(drop)).map_err(foreign)
    }
}

pub fn grads_tuple<'py>(py: Python<'py>, grads: &Grads) -> PyResult<Bound<'py, PyTuple>> {
    let items = grads
        .iter()
        .map(|g| match g {
            Some(g) => wrap(py, g.clone()),
            None => Ok(py.None()),
        })
        .collect::<PyResult<Vec<_>>>()?;
    PyTuple::new(py, items)
}

impl NodeHook for Callable {
    fn call(&self, grads: &Grads, outputs: Option<&Grads>) -> Result<Option<Grads>> {
        Python::attach(|py| {
            let entering = grads_tuple(py, grads)?;
            let result = match outputs {
                // A hook after the node sees the gradients by input first, then those by output.
                Some(out) => self.0.call1(py, (grads_tuple(py, out)?, entering))?,
                None => self.0.call1(py, (entering,))?,
            };
            let result = result.bind(py);
            if result.is_none() {
                return Ok(None);
            }
            Ok(Some(opt_tensor_list(result)?.into_iter().collect()))
        })
        .map_err(foreign)
    }
}

/// What a hook hangs on.
enum Place {
    Leaf(Arc<Meta>),
    Node(GradFn),
}

/// Removes a hook: `handle.remove()`, or as a context manager.
#[pyclass(frozen, name = "RemovableHandle", module = "rgrad.utils.hooks")]
pub struct PyHookHandle {
    place: Place,
    handle: Handle,
}

#[pymethods]
impl PyHookHandle {
    fn remove(&self) {
        match &self.place {
            Place::Leaf(m) => m.remove_hook(self.handle),
            Place::Node(n) => n.remove_hook(self.handle),
        };
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, _args: &Bound<'_, PyTuple>) {
        self.remove();
    }
}

/// A node of the graph, as `grad_fn` shows it.
#[pyclass(frozen, name = "Node", module = "rgrad.autograd.graph", dict, weakref)]
pub struct PyNode {
    node: GradFn,
}

pub fn node_object(py: Python<'_>, node: GradFn) -> PyResult<Py<PyAny>> {
    Ok(Py::new(py, PyNode { node })?.into_any())
}

#[pymethods]
impl PyNode {
    fn name(&self) -> String {
        self.node.name().rsplit("::").next().unwrap_or("").to_string()
    }

    fn __repr__(slf: &Bound<'_, Self>) -> String {
        format!("<{} object at {:#x}>", slf.get().name(), slf.as_ptr() as usize)
    }

    fn __hash__(&self) -> usize {
        self.node.address() >> 4
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyNode>().is_ok_and(|o| o.get().node.same(&self.node))
    }

    /// Pairs of the nodes that the gradients go to and which of their inputs is meant.
    #[getter]
    fn next_functions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let items = self
            .node
            .edges()
            .iter()
            .map(|e| match e {
                Some(e) => Ok((node_object(py, e.node.clone())?, e.input())),
                None => Ok((py.None(), 0)),
            })
            .collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, items)
    }

    /// The leaf of an accumulator.
    #[getter]
    fn variable(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.node.function().as_accumulator() {
            Some(a) => wrap(py, a.leaf.clone()),
            None => Err(pyo3::exceptions::PyAttributeError::new_err(format!(
                "'{}' object has no attribute 'variable'",
                self.name()
            ))),
        }
    }

    fn _sequence_nr(&self) -> u64 {
        self.node.seq
    }

    fn register_hook(&self, fn_: Py<PyAny>) -> PyHookHandle {
        let handle = self.node.add_post_hook(Arc::new(Callable(fn_)));
        PyHookHandle { place: Place::Node(self.node.clone()), handle }
    }

    fn register_prehook(&self, fn_: Py<PyAny>) -> PyHookHandle {
        let handle = self.node.add_pre_hook(Arc::new(Callable(fn_)));
        PyHookHandle { place: Place::Node(self.node.clone()), handle }
    }
}

#[pymethods]
impl PyTensor {
    #[getter]
    fn requires_grad(&self) -> bool {
        self.inner().requires_grad()
    }

    #[setter]
    fn set_requires_grad(&self, on: bool) -> PyResult<()> {
        self.inner().set_requires_grad(on).py()
    }

    #[pyo3(signature = (requires_grad=true))]
    fn requires_grad_(slf: Bound<'_, Self>, requires_grad: bool) -> PyResult<Bound<'_, Self>> {
        slf.get().inner().set_requires_grad(requires_grad).py()?;
        Ok(slf)
    }

    #[getter]
    fn is_leaf(&self) -> bool {
        self.inner().is_leaf()
    }

    #[getter]
    fn grad(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.inner().grad() {
            Some(g) => wrap(py, g),
            None => Ok(py.None()),
        }
    }

    #[setter]
    fn set_grad(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if value.is_none() {
            self.inner().set_grad(None);
            return Ok(());
        }
        let Ok(g) = value.cast::<PyTensor>() else {
            return Err(PyTypeError::new_err(format!(
                "assigned grad expected to be a Tensor or None but got grad of type {}",
                type_name(value)
            )));
        };
        let g = g.get().inner();
        let t = &self.inner();
        if g.same(t) {
            return Err(PyRuntimeError::new_err("can't assign Variable as its own grad"));
        }
        if g.dtype() != t.dtype() {
            return Err(PyRuntimeError::new_err(format!(
                "attempting to assign a gradient with dtype '{}' to a tensor with grad_dtype '{}'. The gradient must match \
                 the tensor's grad_dtype (defaults to the tensor's dtype). You can set the tensor's grad_dtype attribute \
                 with a specific dtype, or None to allow any dtype. Set grad_dtype with caution. Diverging the dtypes of a \
                 tensor and its gradient may break downstream systems that assume that they match.",
                g.dtype().scalar_name().to_lowercase(),
                t.dtype().scalar_name().to_lowercase()
            )));
        }
        if g.shape() != t.shape() {
            return Err(PyRuntimeError::new_err(format!(
                "assigned grad has data of a different size (got {}, expected {})",
                g.shape(),
                t.shape()
            )));
        }
        t.set_grad(Some(g));
        Ok(())
    }

    #[deleter]
    fn delete_grad(&self) {
        self.inner().set_grad(None);
    }

    #[getter]
    fn grad_fn(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.inner().grad_fn() {
            Some(n) => node_object(py, n),
            None => Ok(py.None()),
        }
    }

    #[getter]
    fn output_nr(&self) -> usize {
        self.inner().meta().map_or(0, |m| m.output())
    }

    #[getter]
    fn _version(&self) -> u32 {
        self.inner().version()
    }

    #[getter]
    fn _base(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.inner().base() {
            Some(b) => wrap(py, b.clone()),
            None => Ok(py.None()),
        }
    }

    fn _is_view(&self) -> bool {
        self.inner().base().is_some()
    }

    #[getter]
    fn data(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        wrap(py, self.inner().data())
    }

    #[setter]
    fn set_data(slf: &Bound<'_, Self>, value: &Bound<'_, PyTensor>) {
        let new = {
            let (me, value) = (slf.get().inner(), value.get().inner());
            me.with_data(&value)
        };
        PyTensor::replace(slf, new);
    }

    fn detach(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        wrap(py, self.inner().detach())
    }

    fn detach_(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        {
            let t = slf.get().inner();
            if t.base().is_some() {
                return Err(PyRuntimeError::new_err(
                    "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for \
                     training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence \
                     detach_() cannot be called on these gradients. To fix this error, please refer to the \
                     Optimizer.zero_grad() function in torch/optim/optimizer.py as a solution.",
                ));
            }
            if let Some(m) = t.meta() {
                m.clear_history();
            }
        }
        Ok(slf)
    }

    /// Adds the gradients of this tensor to the `.grad` of the leaves that it depends on.
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
            Some(g) => vec![gradient_of(g)?],
            None => Vec::new(),
        };
        let inputs = inputs.map(tensor_list).transpose()?;
        let root = [self.inner()];
        let options = options(retain_graph, create_graph);
        py.detach(|| engine::backward(&root, &grads, inputs.as_deref(), options)).py()
    }

    /// Calls `hook(grad)` whenever a gradient of this tensor is computed.
    fn register_hook(&self, hook: Py<PyAny>) -> PyResult<PyHookHandle> {
        let t = &self.inner();
        if !t.requires_grad() {
            return Err(PyRuntimeError::new_err(
                "cannot register a hook on a tensor that doesn't require gradient",
            ));
        }
        let hook = Arc::new(Callable(hook));
        Ok(match t.grad_fn() {
            Some(node) => {
                let handle = node.add_tensor_hook(t.meta().map_or(0, |m| m.output()), hook);
                PyHookHandle { place: Place::Node(node), handle }
            }
            None => {
                let meta = t.meta_or_new().clone();
                let handle = meta.add_hook(hook);
                PyHookHandle { place: Place::Leaf(meta), handle }
            }
        })
    }

    /// Calls `hook(tensor)` after a gradient was added to this leaf.
    fn register_post_accumulate_grad_hook(&self, hook: Py<PyAny>) -> PyResult<PyHookHandle> {
        let t = &self.inner();
        if !t.requires_grad() {
            return Err(PyRuntimeError::new_err(
                "cannot register a hook on a tensor that doesn't require gradient",
            ));
        }
        if t.grad_fn().is_some() {
            return Err(PyRuntimeError::new_err(
                "post accumulate grad hooks cannot be registered on non-leaf tensors",
            ));
        }
        let meta = t.meta_or_new().clone();
        let handle = meta.add_post_hook(Arc::new(Callable(hook)));
        Ok(PyHookHandle { place: Place::Leaf(meta), handle })
    }

    /// Keeps the gradient of this tensor in its `.grad`, though it is not a leaf.
    fn retain_grad(&self) -> PyResult<()> {
        let t = &self.inner();
        if !t.requires_grad() {
            return Err(PyRuntimeError::new_err("can't retain_grad on Tensor that has requires_grad=False"));
        }
        if let (Some(node), Some(meta)) = (t.grad_fn(), t.meta()) {
            node.retain_grad(meta.output(), meta);
        }
        Ok(())
    }

    #[getter]
    fn retains_grad(&self) -> bool {
        match (self.inner().grad_fn(), self.inner().meta()) {
            (Some(node), Some(meta)) => node.retains_grad(meta.output(), meta),
            _ => false,
        }
    }
}

fn gradient_of(obj: &Bound<'_, PyAny>) -> PyResult<Option<Tensor>> {
    if obj.is_none() {
        return Ok(None);
    }
    match obj.cast::<PyTensor>() {
        Ok(t) => Ok(Some(t.get().inner())),
        Err(_) => Err(PyTypeError::new_err(format!(
            "gradients can be either Tensors or None, but got {}",
            type_name(obj)
        ))),
    }
}

fn options(retain_graph: Option<bool>, create_graph: bool) -> Options {
    Options { retain_graph: retain_graph.unwrap_or(create_graph), create_graph, ..Options::default() }
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
    let (roots, grads) = (tensor_list(tensors)?, opt_tensor_list(grad_tensors)?);
    let inputs = inputs.map(tensor_list).transpose()?;
    let options = options(retain_graph, create_graph);
    py.detach(|| engine::backward(&roots, &grads, inputs.as_deref(), options)).py()
}

/// Gradients of `outputs` by `inputs`; None where unused and allowed.
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
    let (roots, wanted) = (tensor_list(outputs)?, tensor_list(inputs)?);
    let grads = opt_tensor_list(grad_outputs)?;
    let options =
        Options { allow_unused, materialize: materialize_grads, ..options(retain_graph, create_graph) };
    let found = py.detach(|| engine::grad(&roots, &wanted, &grads, options)).py()?;
    let items = found
        .into_iter()
        .map(|g| match g {
            Some(g) => wrap(py, g),
            None => Ok(py.None()),
        })
        .collect::<PyResult<Vec<_>>>()?;
    PyList::new(py, items)
}
