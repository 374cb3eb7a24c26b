//! Nodes of the graph as Python objects (`grad_fn`).

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pyo3::exceptions::{PyAttributeError, PyRuntimeError, PyTypeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple, PyType, PyWeakrefReference};

use super::attributes;
use super::convert::{size, tensors_or_none};
use super::dtype::{PyDevice, dtype_object, type_name};
use super::error::{IntoPy, foreign};
use super::function::UserFunction;
use super::hooks::{AllOutputsHook, Callable, PackHooks, PyHookHandle, visit_objects};
use super::tensor::wrap;
use crate::engine::{apply, current};
use crate::error::{Error, Result};
use crate::graph::{GcVisitor, GradFn, HeldGuard, LEAF_SEQUENCE, SavedTensor, anomaly, anything_held};

/// A node of the graph. Each kind of node has a subclass of its own name, created on first use.
#[pyclass(frozen, name = "Node", module = "rgrad.autograd.graph", subclass, weakref)]
pub struct PyNode {
    pub node: GradFn,
}

/// Python's data for a node: a weak reference to its object, and its metadata.
#[derive(Default)]
pub struct NodeHost {
    object: Mutex<Option<Py<PyWeakrefReference>>>,
    metadata: OnceLock<(Py<PyDict>, HeldGuard)>,
}

impl NodeHost {
    fn of(node: &GradFn) -> Option<&NodeHost> {
        node.host_or_new(|| Box::new(NodeHost::default())).downcast_ref()
    }

    fn object(&self) -> MutexGuard<'_, Option<Py<PyWeakrefReference>>> {
        self.object.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn visit_objects(&self, visit: &mut dyn FnMut(&Py<PyAny>)) {
        if let Some((dict, _)) = self.metadata.get() {
            visit(dict.as_any());
        }
    }
}

thread_local! {
    /// The node for the next object to be constructed; only this module constructs them.
    static NEXT: Cell<Option<GradFn>> = const { Cell::new(None) };
}

/// The Python object of a node.
pub fn node_object(py: Python<'_>, node: &GradFn) -> PyResult<Py<PyAny>> {
    let Some(host) = NodeHost::of(node) else {
        return Err(PyRuntimeError::new_err("a node is kept by another host"));
    };
    let known = host.object().as_ref().map(|w| w.clone_ref(py));
    if let Some(object) = known.and_then(|w| w.bind(py).upgrade()) {
        return Ok(object.unbind());
    }
    // Both finding the class and allocating the object may run Python code that requests a node, hence the outer
    // value.
    let class = class_of(py, node)?;
    let outer = NEXT.replace(Some(node.clone()));
    let object = class.call0();
    drop(NEXT.replace(outer));
    let object = object?;
    let weak = PyWeakrefReference::new(&object)?.unbind();
    let old = host.object().replace(weak);
    drop(old);
    Ok(object.unbind())
}

/// The subclass for nodes of this name.
fn class_of<'py>(py: Python<'py>, node: &GradFn) -> PyResult<Bound<'py, PyType>> {
    static CLASSES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let classes = CLASSES.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    let name = node.name();
    let (user, name) = (user_function(node).is_some(), name.rsplit("::").next().unwrap_or(&name));
    if let Some(class) = classes.get_item((user, name))? {
        return Ok(class.cast_into()?);
    }
    let namespace = PyDict::new(py);
    // Attributes cannot be set, since the object of a node is recreated on demand and would lose them.
    namespace.set_item("__slots__", PyTuple::empty(py))?;
    namespace.set_item("__module__", if user { "rgrad.autograd.function" } else { "builtins" })?;
    if user {
        // The node of a custom function acts as its ctx, which keeps attributes.
        let functions = py.import("rgrad.autograd.function")?;
        namespace.set_item("__setattr__", functions.getattr("_set_on_ctx")?)?;
        namespace.set_item("__class__", functions.getattr("_class_of_ctx")?)?;
    }
    let bases = (py.get_type::<PyNode>(),);
    let class = py.get_type::<PyType>().call1((name, bases, namespace))?.cast_into::<PyType>()?;
    classes.set_item((user, name), &class)?;
    Ok(class)
}

fn user_function(node: &GradFn) -> Option<&UserFunction> {
    node.function().as_any().and_then(|f| f.downcast_ref())
}

const SAVED: &str = "_saved_";
const RAW_SAVED: &str = "_raw_saved_";

impl PyNode {
    /// The tensors saved under a name, by their index among all saved tensors.
    fn places(&self, name: &str) -> Vec<usize> {
        let (mut places, mut i) = (Vec::new(), 0);
        self.node.function().saved(&mut |saved, _| {
            if saved == name {
                places.push(i);
            }
            i += 1;
        });
        places
    }

    fn names(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        self.node.function().saved(&mut |name, _| names.push(name));
        names.dedup();
        names
    }

    /// Applies `get` to everything saved under a name: the single result, or a tuple of several.
    fn each<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        get: impl Fn(usize) -> PyResult<Py<PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let places = self.places(name);
        let mut items = places.into_iter().map(get).collect::<PyResult<Vec<_>>>()?;
        Ok(match items.len() {
            0 => None,
            // A list of tensors is always a tuple.
            1 if name != "indices" || !self.node.name().starts_with("Index") => {
                items.pop().map(|item| item.into_bound(py))
            }
            _ => Some(PyTuple::new(py, items)?.into_any()),
        })
    }
}

/// Calls `f` with the saved tensor at an index.
fn with_saved<R>(node: &GradFn, place: usize, f: impl FnOnce(&SavedTensor) -> R) -> Option<R> {
    if let Some(function) = user_function(node) {
        return function.place(place).map(f);
    }
    let (mut f, mut result, mut i) = (Some(f), None, 0);
    node.function().saved(&mut |_, s| {
        if i == place
            && let Some(f) = f.take()
        {
            result = Some(f(s));
        }
        i += 1;
    });
    result
}

fn unpack(py: Python<'_>, node: &GradFn, place: usize) -> PyResult<Py<PyAny>> {
    match with_saved(node, place, |s| s.unpack_with_history(node)) {
        Some(t) => t.py()?.map_or_else(|| Ok(py.None()), |t| wrap(py, t)),
        None => Ok(py.None()),
    }
}

#[pymethods]
impl PyNode {
    #[new]
    fn new() -> PyResult<PyNode> {
        match NEXT.take() {
            Some(node) => Ok(PyNode { node }),
            None => Err(PyTypeError::new_err("cannot create 'Node' instances")),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if !anything_held() {
            return Ok(());
        }
        let mut held = GcVisitor::default();
        held.node(&self.node);
        let mut done = Ok(());
        held.visit(&mut |object| {
            visit_objects(object, &mut |o| {
                if done.is_ok() {
                    done = visit.call(o);
                }
            });
        });
        done
    }

    fn __clear__(&self) {
        if self.node.is_sole_owner() {
            self.node.clear_hooks();
        }
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<()> {
        Err(PyTypeError::new_err(format!("cannot pickle '{}' object", slf.get_type().name()?)))
    }

    fn name(&self) -> String {
        self.node.name().into_owned()
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let class = slf.get_type();
        let module = class.module()?.to_string();
        let path = if module == "builtins" { String::new() } else { module + "." };
        Ok(format!("<{path}{} object at {:#x}>", class.name()?, slf.as_ptr() as usize))
    }

    fn __hash__(&self) -> usize {
        self.node.address() >> 4
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyNode>().is_ok_and(|o| o.get().node.same(&self.node))
    }

    /// Saved tensors by name; for a custom function also the attributes of its ctx.
    fn __getattr__<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let (py, me) = (slf.py(), slf.get());
        if let Some(name) = name.strip_prefix(RAW_SAVED) {
            let raw = |place| Ok(Py::new(py, PySavedTensor { node: me.node.clone(), place })?.into_any());
            if let ("tensors", Some(function)) = (name, user_function(&me.node)) {
                if function.is_freed() {
                    return Err(Error::FreedGraph).py();
                }
                let all = (0..function.count()).map(raw).collect::<PyResult<Vec<_>>>()?;
                return Ok(PyTuple::new(py, all)?.into_any());
            }
            if let Some(found) = me.each(py, name, raw)? {
                return Ok(found);
            }
        } else if let Some(name) = name.strip_prefix(SAVED) {
            if let Some(found) = me.each(py, name, |place| unpack(py, &me.node, place))? {
                return Ok(found);
            }
            if let Some(found) = attributes::get(py, &me.node, name)? {
                return Ok(found);
            }
        }
        if let Some(function) = user_function(&me.node) {
            return function.ctx().bind(py).getattr(name);
        }
        Err(PyAttributeError::new_err(format!(
            "'{}' object has no attribute '{name}'",
            slf.get_type().name()?
        )))
    }

    fn __dir__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        let py = slf.py();
        let object = py.get_type::<PyAny>();
        let names = PyList::empty(py);
        for name in object.call_method1("__dir__", (slf,))?.try_iter()? {
            let name = name?;
            // `_saved_tensors` is a method, not the tensors saved under the name "tensors".
            if !name.eq("_saved_tensors")? {
                names.append(name)?;
            }
        }
        for name in slf.get().names() {
            names.append(format!("{SAVED}{name}"))?;
            names.append(format!("{RAW_SAVED}{name}"))?;
        }
        for name in attributes::names(&slf.get().node) {
            names.append(format!("{SAVED}{name}"))?;
        }
        Ok(names)
    }

    /// Calls the function without hooks: gradients by input from gradients by output.
    #[pyo3(signature = (*grads))]
    fn __call__(&self, py: Python<'_>, grads: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let expected = self.node.outputs().len();
        if grads.len() != expected {
            let got = grads.len();
            return Err(PyTypeError::new_err(format!("expected {expected} arguments, got {got} instead")));
        }
        let wrong = |found| format!("expected a Tensor or None, got {found}");
        let given = tensors_or_none(grads.as_any(), wrong)?.into_iter().collect();
        let outs = py.detach(|| apply(&self.node, given)).py()?;
        let mut outs = outs.into_iter().map(|g| g.map_or_else(|| Ok(py.None()), |g| wrap(py, g)));
        match (outs.len(), outs.next()) {
            (1, Some(only)) => only,
            (_, first) => {
                let all = first.into_iter().chain(outs).collect::<PyResult<Vec<_>>>()?;
                Ok(PyTuple::new(py, all)?.into_any().unbind())
            }
        }
    }

    /// Pairs of next node and its input number.
    #[getter]
    fn next_functions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let edges = self.node.function().shown_edges(self.node.edges());
        let items = edges
            .iter()
            .map(|e| match e {
                Some(e) => Ok((node_object(py, &e.node)?, e.input())),
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
            None => Err(PyAttributeError::new_err(format!(
                "'{}' object has no attribute 'variable'",
                self.node.name()
            ))),
        }
    }

    /// A dict for arbitrary data about this node.
    #[getter]
    fn metadata(&self, py: Python<'_>) -> Py<PyDict> {
        let host = NodeHost::of(&self.node);
        if let Some((dict, _)) = host.and_then(|h| h.metadata.get()) {
            return dict.clone_ref(py);
        }
        // Created before locking: the allocation may trigger a collection, which may run code that requests this dict.
        let new = (PyDict::new(py).unbind(), HeldGuard::new());
        match host {
            Some(host) => {
                let late = host.metadata.set(new);
                drop(late);
                host.metadata.get().map_or_else(|| PyDict::new(py).unbind(), |(dict, _)| dict.clone_ref(py))
            }
            None => new.0,
        }
    }

    fn _sequence_nr(&self) -> u64 {
        if self.node.seq == LEAF_SEQUENCE { LEAF_SEQUENCE } else { self.node.seq >> 1 }
    }

    #[getter]
    fn requires_grad(&self) -> bool {
        true
    }

    /// Shape, dtype and device of the gradients by output.
    #[getter]
    fn _input_metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let items = self.node.outputs().iter().map(|o| {
            let device = Py::new(py, PyDevice::of(o.device))?.into_any();
            let (shape, dtype) = (size(py, &o.shape)?, dtype_object(py, o.dtype)?.into_any());
            Py::new(py, PyInputMetadata { shape, dtype, device })
        });
        PyTuple::new(py, items.collect::<PyResult<Vec<_>>>()?)
    }

    /// The ctx of a custom function.
    fn _ctx(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        user_function(&self.node).map(|f| f.ctx().clone_ref(py))
    }

    /// Registers a hook on the first output's gradient that runs the hooks of a dict, as they are at that time.
    fn _register_hook_dict(slf: &Bound<'_, Self>, hooks: &Bound<'_, PyAny>) -> PyResult<()> {
        let run = slf.py().import("rgrad.autograd.function")?.getattr("_run_hook_dict")?;
        let partial = slf.py().import("functools")?.getattr("partial")?.call1((run, hooks))?;
        slf.get().node.add_tensor_hook(0, Arc::new(Callable::new(partial.unbind())));
        Ok(())
    }

    /// The saved tensors with names, except those that were freed.
    fn _saved_tensors(&self, py: Python<'_>) -> PyResult<Vec<(String, Py<PyAny>)>> {
        let mut saved = Vec::new();
        for name in self.names() {
            for place in self.places(name) {
                if let Some(Ok(Some(t))) = with_saved(&self.node, place, |s| s.unpack(Some(&self.node))) {
                    saved.push((name.to_string(), wrap(py, t)?));
                }
            }
        }
        if let Some(function) = user_function(&self.node) {
            for (i, t) in function.unpacked(&self.node).into_iter().enumerate() {
                saved.push((i.to_string(), wrap(py, t)?));
            }
        }
        Ok(saved)
    }

    /// Numbers of tensor hooks, pre-hooks, post-hooks, and retained gradients.
    fn _hook_counts(&self) -> (usize, usize, usize, usize) {
        self.node.hooks().map_or((0, 0, 0, 0), |h| {
            let tensor = h.tensor.iter().map(|(_, hooks)| hooks.len()).sum();
            (tensor, h.pre.len(), h.post.len(), h.retain.len())
        })
    }

    fn register_hook(&self, fn_: Py<PyAny>) -> PyHookHandle {
        let handle = self.node.add_post_hook(Arc::new(Callable::new(fn_)));
        PyHookHandle::on_node(&self.node, handle)
    }

    fn register_prehook(&self, py: Python<'_>, fn_: Py<PyAny>) -> PyResult<PyHookHandle> {
        let hook = Callable::new(fn_);
        let places = user_function(&self.node).map(|f| f.output_places(py)).transpose()?.flatten();
        let handle = match places {
            Some((places, count)) => self.node.add_pre_hook(Arc::new(AllOutputsHook { hook, places, count })),
            None => self.node.add_pre_hook(Arc::new(hook)),
        };
        Ok(PyHookHandle::on_node(&self.node, handle))
    }
}

const HOOK_ARGUMENTS: &str =
    "register_hooks(): incompatible function arguments: expected two callables, pack_hook and unpack_hook";

/// Shape, dtype and device of one gradient that enters a node.
#[pyclass(frozen, get_all, name = "_InputMetadata", module = "rgrad._C._autograd")]
pub struct PyInputMetadata {
    shape: Py<PyAny>,
    dtype: Py<PyAny>,
    device: Py<PyAny>,
}

/// A saved tensor of a node.
#[pyclass(frozen, name = "SavedTensor", module = "rgrad._C._autograd")]
pub struct PySavedTensor {
    node: GradFn,
    place: usize,
}

#[pymethods]
impl PySavedTensor {
    #[new]
    fn new() -> PyResult<PySavedTensor> {
        Err(PyRuntimeError::new_err("Trying to create a SavedTensor object from Python is forbidden."))
    }

    fn unpack(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        unpack(py, &self.node, self.place)
    }

    /// Packs the saved tensor with `pack_hook`; `unpack_hook` must return it again.
    #[pyo3(signature = (*hooks), text_signature = "($self, pack_hook, unpack_hook, /)")]
    fn register_hooks(&self, hooks: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        let Ok([pack, unpack]) = <[Bound<'_, PyAny>; 2]>::try_from(hooks) else {
            return Err(PyTypeError::new_err(HOOK_ARGUMENTS));
        };
        if !pack.is_callable() || !unpack.is_callable() {
            return Err(PyTypeError::new_err(HOOK_ARGUMENTS));
        }
        let hooks = PackHooks::new(pack.unbind(), unpack.unbind());
        with_saved(&self.node, self.place, |s| s.register_hooks(&hooks)).unwrap_or(Ok(())).py()
    }
}

// ---- the running backward

/// The id of the innermost backward on this thread; -1 outside one.
#[pyfunction(name = "_current_graph_task_id")]
pub fn current_graph_task_id() -> i64 {
    current::id().map_or(-1, |id| i64::from(id) - 1)
}

/// Calls `callback` after the last node of the innermost backward on this thread.
#[pyfunction(name = "_queue_callback")]
pub fn queue_callback(callback: Py<PyAny>) -> PyResult<()> {
    let call = move || Python::attach(|py| callback.call0(py)).map(drop).map_err(foreign);
    if current::queue(Box::new(call)) {
        return Ok(());
    }
    Err(PyRuntimeError::new_err("Final callbacks can only be installed during backward pass."))
}

/// Whether the innermost backward on this thread executes a node.
#[pyfunction(name = "_will_engine_execute_node")]
pub fn will_engine_execute_node(node: &Bound<'_, PyAny>) -> PyResult<bool> {
    let Ok(node) = node.cast::<PyNode>() else {
        return Err(PyRuntimeError::new_err(format!(
            "_will_engine_execute_node expects an grad_fn, but got {}",
            type_name(node)
        )));
    };
    current::runs(&node.get().node).py()?.ok_or_else(|| {
        PyRuntimeError::new_err("_get_should_execute_nodes should only be called during the backward pass")
    })
}

/// Whether the innermost backward on this thread keeps saved tensors.
#[pyfunction(name = "_get_current_graph_task_keep_graph")]
pub fn current_graph_task_keep_graph() -> bool {
    current::keeps_graph().unwrap_or(true)
}

/// Whether all backward calls on this thread accumulate into all leaves, so that a nested backward is allowed.
#[pyfunction(name = "_is_checkpoint_valid")]
pub fn is_checkpoint_valid() -> bool {
    current::all_accumulate()
}

// ---- anomaly mode

const TRACEBACK: &str = "traceback_";
const PARENT: &str = "parent_";

/// Makes nodes record in their metadata where Python created them.
pub fn observe_anomalies() {
    anomaly::set_observer(anomaly::Observer {
        made: note_origin,
        failed: |node| warn_of(node).map_err(foreign),
    });
}

fn note_origin(node: &GradFn, during: Option<&GradFn>) {
    let note = |py: Python<'_>| -> PyResult<()> {
        let metadata = PyNode { node: node.clone() }.metadata(py);
        let metadata = metadata.bind(py);
        metadata.set_item(TRACEBACK, py.import("traceback")?.call_method0("format_stack")?)?;
        if let Some(parent) = during {
            metadata.set_item(PARENT, node_object(py, parent)?)?;
        }
        Ok(())
    };
    // If this fails, the node has no traceback, which is reported with its failure.
    let _ = Python::attach(note);
}

/// Reports where the failed node was created, and in the backward of which other nodes.
fn warn_of(node: &GradFn) -> PyResult<()> {
    Python::attach(|py| {
        let trace = |node: &Bound<'_, PyNode>| -> PyResult<Option<String>> {
            let metadata = node.get().metadata(py);
            let Some(lines) = metadata.bind(py).get_item(TRACEBACK)? else { return Ok(None) };
            Ok(Some(lines.extract::<Vec<String>>()?.concat()))
        };
        let mut node = node_object(py, node)?.into_bound(py).cast_into::<PyNode>()?;
        let mut text = match trace(&node)? {
            Some(lines) => format!(
                "Error detected in {}. Traceback of forward call that caused the error:\n{lines}",
                node.get().name()
            ),
            None => format!(
                "Error detected in {}. No forward pass information available. Enable detect anomaly during forward pass \
                 for more information.",
                node.get().name()
            ),
        };
        while let Some(parent) = node.get().metadata(py).bind(py).get_item(PARENT)? {
            node = parent.cast_into::<PyNode>()?;
            let name = node.get().name();
            text.push_str(&match trace(&node)? {
                Some(lines) => format!(
                    "\n\nPrevious calculation was induced by {name}. Traceback of forward call that induced the previous \
                     calculation:\n{lines}"
                ),
                None => format!(
                    "\n\nPrevious calculation was induced by {name}. No forward pass information available. Enable detect \
                     anomaly during forward pass for more information."
                ),
            });
        }
        if let Err(warning) = py.import("warnings")?.call_method1("warn", (text,)) {
            // Where warnings are errors: the program is to catch that of the node.
            warning.display(py);
        }
        Ok(())
    })
}
