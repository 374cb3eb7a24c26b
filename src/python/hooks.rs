//! Python callables that the graph holds: hooks on gradients, on nodes and on what is saved.

use std::any::Any;
use std::sync::{Arc, Weak};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::convert::opt_tensor_list;
use super::dtype::type_name;
use super::error::{IntoPy, foreign};
use super::function::UserFunction;
use super::node::NodeHost;
use super::tensor::{PyTensor, wrap};
use crate::error::Result;
use crate::graph::{
    self, GradFn, Grads, Handle, HeldGuard, Meta, Node, NodeHook, PackedTensor, PostAccumulateHook,
    SavedTensorHooks, TensorHook,
};
use crate::tensor::Tensor;

/// A Python callable on a gradient.
pub struct Callable {
    f: Py<PyAny>,
    _held: HeldGuard,
}

impl Callable {
    pub fn new(f: Py<PyAny>) -> Callable {
        Callable { f, _held: HeldGuard::new() }
    }
}

impl TensorHook for Callable {
    fn call(&self, grad: &Tensor) -> Result<Option<Tensor>> {
        Python::attach(|py| {
            let result = self.f.call1(py, (wrap(py, grad.clone())?,))?;
            tensor_or_none(result.bind(py))
        })
        .map_err(foreign)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
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
        Python::attach(|py| self.f.call1(py, (wrap(py, leaf.clone())?,)).map(drop)).map_err(foreign)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
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
                Some(out) => self.f.call1(py, (grads_tuple(py, out)?, entering))?,
                None => self.f.call1(py, (entering,))?,
            };
            let result = result.bind(py);
            if result.is_none() {
                return Ok(None);
            }
            Ok(Some(opt_tensor_list(result)?.into_iter().collect()))
        })
        .map_err(foreign)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

/// The hooks on the gradient of a tensor, by number.
pub fn hooks_dict<'py>(py: Python<'py>, t: &Tensor) -> PyResult<Option<Bound<'py, PyAny>>> {
    let output = t.meta().map_or(0, |m| m.output());
    let hooks = match t.grad_fn() {
        Some(node) => node
            .hooks()
            .and_then(|h| h.tensor.iter().find(|(o, _)| *o == output).map(|(_, hooks)| hooks.clone()))
            .unwrap_or_default(),
        None => t.meta().map(|m| m.hooks()).unwrap_or_default(),
    };
    if hooks.is_empty() {
        return Ok(None);
    }
    let dict = py.import("collections")?.getattr("OrderedDict")?.call0()?;
    for (number, hook) in hooks.numbered() {
        if let Some(hook) = hook.as_any().and_then(|h| h.downcast_ref::<Callable>()) {
            dict.set_item(number, &hook.f)?;
        }
    }
    Ok(Some(dict))
}

/// What a hook hangs on.
enum Place {
    Leaf(Weak<Meta>),
    Node(Weak<Node>),
}

/// Removes a hook: `handle.remove()`, or as a context manager.
#[pyclass(frozen, name = "RemovableHandle", module = "rgrad.utils.hooks", weakref)]
pub struct PyHookHandle {
    place: Place,
    handle: Handle,
}

impl PyHookHandle {
    pub fn on_leaf(meta: &Arc<Meta>, handle: Handle) -> PyHookHandle {
        PyHookHandle { place: Place::Leaf(Arc::downgrade(meta)), handle }
    }

    pub fn on_node(node: &GradFn, handle: Handle) -> PyHookHandle {
        PyHookHandle { place: Place::Node(node.downgrade()), handle }
    }
}

#[pymethods]
impl PyHookHandle {
    #[getter]
    fn id(&self) -> u64 {
        self.handle.number()
    }

    fn remove(&self) {
        match &self.place {
            Place::Leaf(m) => m.upgrade().is_some_and(|m| m.remove_hook(self.handle)),
            Place::Node(n) => GradFn::upgrade(n).is_some_and(|n| n.remove_hook(self.handle)),
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

// ---- hooks on what is saved

/// A pair of callables: what to keep of a tensor, and the tensor back from it.
pub struct PackHooks {
    pack: Py<PyAny>,
    unpack: Py<PyAny>,
}

impl PackHooks {
    pub fn new(pack: Py<PyAny>, unpack: Py<PyAny>) -> PackHooks {
        PackHooks { pack, unpack }
    }
}

impl SavedTensorHooks for PackHooks {
    fn pack(&self, t: &Tensor) -> Result<Box<dyn PackedTensor>> {
        Python::attach(|py| {
            let object = self.pack.call1(py, (wrap(py, t.clone())?,))?;
            let unpack = self.unpack.clone_ref(py);
            Ok(Box::new(PackedObject { object, unpack, _held: HeldGuard::new() }) as Box<dyn PackedTensor>)
        })
        .map_err(foreign)
    }
}

/// What a pack hook returned.
struct PackedObject {
    object: Py<PyAny>,
    unpack: Py<PyAny>,
    _held: HeldGuard,
}

impl PackedTensor for PackedObject {
    fn unpack(&self) -> Result<Tensor> {
        Python::attach(|py| {
            let result = self.unpack.call1(py, (&self.object,))?;
            let result = result.bind(py);
            match result.cast::<PyTensor>() {
                Ok(t) => Ok(t.get().inner()),
                Err(_) => Err(PyTypeError::new_err(format!(
                    "Output of saved tensor unpack_hook expected to be a Tensor but got result of type {}",
                    type_name(result)
                ))),
            }
        })
        .map_err(foreign)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

/// From now on what nodes save on this thread goes through `pack`, and comes back through `unpack`.
/// A function of a pair of hooks.
pub fn callable(f: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    if f.is_callable() {
        return Ok(f.unbind());
    }
    Err(PyTypeError::new_err(format!("saved tensor hooks must be callable, not {}", type_name(&f))))
}

#[pyfunction(name = "_push_saved_tensors_hooks")]
pub fn push_saved_tensors_hooks(pack: Bound<'_, PyAny>, unpack: Bound<'_, PyAny>) -> PyResult<()> {
    let (pack, unpack) = (callable(pack)?, callable(unpack)?);
    graph::push_saved_tensor_hooks(Arc::new(PackHooks::new(pack, unpack))).py()
}

#[pyfunction(name = "_pop_saved_tensors_hooks")]
pub fn pop_saved_tensors_hooks() {
    graph::pop_saved_tensor_hooks();
}

/// Has a push on this thread fail with a message, while that is not None; returns the one before.
#[pyfunction(name = "_set_saved_tensors_hooks_error")]
#[pyo3(signature = (message))]
pub fn set_saved_tensors_hooks_error(message: Option<String>) -> PyResult<Option<String>> {
    graph::forbid_saved_tensor_hooks(message).py()
}

/// The Python objects of something that the graph holds; see Note [Cycles through the graph].
pub fn visit_objects(held: &dyn Any, visit: &mut dyn FnMut(&Py<PyAny>)) {
    if let Some(hook) = held.downcast_ref::<Callable>() {
        visit(&hook.f);
    } else if let Some(packed) = held.downcast_ref::<PackedObject>() {
        visit(&packed.object);
        visit(&packed.unpack);
    } else if let Some(function) = held.downcast_ref::<UserFunction>() {
        function.visit_objects(visit);
    } else if let Some(host) = held.downcast_ref::<NodeHost>() {
        host.visit_objects(visit);
    }
}
