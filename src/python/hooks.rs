//! Python callables held by the graph: hooks on gradients, on nodes and on saved tensors.

use std::any::Any;
use std::sync::{Arc, Weak};

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::dispatch::Hosted;
use super::dtype::type_name;
use super::error::{IntoPy, foreign};
use super::function::UserFunction;
use super::node::NodeHost;
use super::object::GradObject;
use super::tensor::{PyTensor, TensorObject, wrap};
use crate::error::Result;
use crate::graph::{
    self, AutogradMeta, GradFn, Grads, Handle, HeldGuard, Node, NodeHook, PackedTensor, PostAccumulateHook,
    SavedTensorHooks, TensorHook,
};
use crate::tensor::Tensor;

/// A Python callable as a hook.
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
    fn call(&self, grad: Option<&Tensor>) -> Result<Option<Tensor>> {
        Python::attach(|py| {
            let shown = grad.map_or_else(|| Ok(py.None()), |g| wrap(py, g.clone()))?;
            self.replacement(self.f.call1(py, (shown,))?.bind(py), grad)
        })
        .map_err(foreign)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl Callable {
    fn name(&self, py: Python<'_>) -> String {
        let name = self.f.bind(py).getattr("__name__").and_then(|n| n.extract());
        name.unwrap_or_else(|_| "<unknown>".into())
    }

    /// The replacement that a gradient hook returned, checked against the old gradient; None if it returned None.
    fn replacement(&self, result: &Bound<'_, PyAny>, old: Option<&Tensor>) -> PyResult<Option<Tensor>> {
        if result.is_none() {
            return Ok(None);
        }
        let new = match result.cast::<PyTensor>() {
            Ok(t) => t.tensor(),
            Err(_) => {
                let found = type_name(result);
                return Err(PyTypeError::new_err(format!("expected Variable, but hook returned '{found}'")));
            }
        };
        let Some(old) = old else {
            return Err(PyRuntimeError::new_err("can't replace a None gradient with a non-None value"));
        };
        let changed = |what: &str| {
            PyRuntimeError::new_err(format!("hook '{}' has changed the {what}", self.name(result.py())))
        };
        if new.dtype() != old.dtype() {
            let kind = |t: &Tensor| format!("torch.{}Tensor", t.dtype().scalar_name());
            return Err(changed(&format!("type of value (was {} got {})", kind(old), kind(&new))));
        }
        if new.shape() != old.shape() {
            return Err(changed("size of value"));
        }
        Ok(Some(new))
    }

    /// The replacements that a node hook returned: a tuple of the same length.
    fn replacements(&self, result: &Bound<'_, PyAny>, old: &Grads) -> PyResult<Option<Grads>> {
        if result.is_none() {
            return Ok(None);
        }
        let Ok(new) = result.cast::<PyTuple>() else {
            let found = type_name(result);
            return Err(PyTypeError::new_err(format!("expected tuple, but hook returned '{found}'")));
        };
        if new.len() != old.len() {
            return Err(PyRuntimeError::new_err(format!(
                "hook '{}' has returned an incorrect number of values (got {}, but expected {})",
                self.name(result.py()),
                new.len(),
                old.len()
            )));
        }
        new.iter()
            .zip(old)
            .map(|(new, old)| self.replacement(&new, old.as_ref()))
            .collect::<PyResult<_>>()
            .map(Some)
    }
}

impl PostAccumulateHook for Callable {
    fn call(&self, leaf: &Tensor) -> Result<()> {
        Python::attach(|py| {
            let result = self.f.call1(py, (wrap(py, leaf.clone())?,))?;
            match self.replacement(result.bind(py), Some(leaf))? {
                // Returning the leaf itself is accepted.
                Some(other) if !other.same(leaf) => {
                    Err(PyRuntimeError::new_err("Tensor post accumulate grad hooks should return None."))
                }
                _ => Ok(()),
            }
        })
        .map_err(foreign)
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
            match outputs {
                // A post-hook receives the gradients by input first, then those by output.
                Some(out) => {
                    self.replacements(self.f.call1(py, (grads_tuple(py, out)?, entering))?.bind(py), out)
                }
                None => self.replacements(self.f.call1(py, (entering,))?.bind(py), grads),
            }
        })
        .map_err(foreign)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

/// A pre-hook of a custom function some of whose outputs are no tensors: their gradients are None.
pub struct AllOutputsHook {
    pub hook: Callable,
    /// The outputs that are tensors.
    pub places: Vec<usize>,
    pub count: usize,
}

impl NodeHook for AllOutputsHook {
    fn call(&self, grads: &Grads, outputs: Option<&Grads>) -> Result<Option<Grads>> {
        let mut all = Grads::from_elem(None, self.count);
        for (place, g) in self.places.iter().zip(grads) {
            if let Some(slot) = all.get_mut(*place) {
                slot.clone_from(g);
            }
        }
        let replaced = NodeHook::call(&self.hook, &all, outputs)?;
        let tensors = |new: Grads| self.places.iter().map(|p| new.get(*p).cloned().flatten()).collect();
        Ok(replaced.map(tensors))
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(&self.hook)
    }
}

/// The hooks on the gradient of a tensor, by handle id.
pub fn hooks_dict<'py>(py: Python<'py>, t: &Tensor) -> PyResult<Option<Bound<'py, PyAny>>> {
    // Brings the history of a view up to date.
    drop(t.grad_fn());
    let hooks = match (t.meta().and_then(|m| m.history()), t.meta()) {
        (Some((node, output)), _) => node
            .hooks()
            .and_then(|h| h.tensor.iter().find(|(o, _)| *o == output).map(|(_, hooks)| hooks.clone()))
            .unwrap_or_default(),
        (None, meta) => meta.and_then(|m| m.hooks()).map(|h| h.grad.clone()).unwrap_or_default(),
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

/// The object on which a hook is registered.
enum Place {
    Leaf(Weak<AutogradMeta>),
    Node(Weak<Node>),
}

/// The handle of a hook. Removes it by `handle.remove()`, or at the end of a `with` block.
#[pyclass(frozen, name = "RemovableHandle", module = "rgrad.utils.hooks", weakref)]
pub struct PyHookHandle {
    place: Place,
    handle: Handle,
}

impl PyHookHandle {
    pub fn on_leaf(meta: &Arc<AutogradMeta>, handle: Handle) -> PyHookHandle {
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

// ---- saved tensor hooks

/// A pair of callables that pack and unpack saved tensors.
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

/// The return value of a pack hook.
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
                Ok(t) => Ok(t.tensor()),
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

/// Checks that a hook is callable.
fn callable(f: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    if f.is_callable() {
        return Ok(f.unbind());
    }
    Err(PyTypeError::new_err(format!("saved tensor hooks must be callable, not {}", type_name(&f))))
}

/// Makes this thread pack saved tensors with `pack` and unpack them with `unpack`.
#[pyfunction(name = "_push_saved_tensors_hooks")]
pub fn push_saved_tensors_hooks(pack: Bound<'_, PyAny>, unpack: Bound<'_, PyAny>) -> PyResult<()> {
    let (pack, unpack) = (callable(pack)?, callable(unpack)?);
    graph::push_saved_tensor_hooks(Arc::new(PackHooks::new(pack, unpack))).py()
}

#[pyfunction(name = "_pop_saved_tensors_hooks")]
pub fn pop_saved_tensors_hooks() {
    graph::pop_saved_tensor_hooks();
}

/// The number of pairs of saved tensor hooks of this thread.
#[pyfunction(name = "_saved_tensors_hooks_depth")]
pub fn saved_tensors_hooks_depth() -> usize {
    graph::hook_depth()
}

/// While the message is not None, pushing hooks on this thread fails with it; returns the previous message.
#[pyfunction(name = "_set_saved_tensors_hooks_error")]
#[pyo3(signature = (message))]
pub fn set_saved_tensors_hooks_error(message: Option<String>) -> PyResult<Option<String>> {
    graph::forbid_saved_tensor_hooks(message).py()
}

/// Visits the Python objects in a hook or function of the graph; see Note [Cycles through the graph].
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
    } else if let Some(kept) = held.downcast_ref::<GradObject>() {
        kept.visit_objects(visit);
    } else if let Some(hosted) = held.downcast_ref::<Hosted>() {
        hosted.visit_objects(visit);
    }
}

/// Informs the graph which collections are young; see Note [Cycles through the graph].
pub fn watch_collections(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let watch = wrap_pyfunction!(watch_collection, m)?;
    m.py().import("gc")?.getattr("callbacks")?.call_method1("append", (watch,)).map(drop)
}

#[pyfunction(name = "_watch_collection")]
fn watch_collection(phase: &str, info: &Bound<'_, PyDict>) -> PyResult<()> {
    let generation: usize = match info.get_item("generation")? {
        Some(generation) => generation.extract()?,
        None => 2,
    };
    graph::set_young_collection(phase == "start" && generation < 2);
    Ok(())
}
