//! The Python object of a tensor: its layout, allocation and recycling, and the C slots of the most frequent
//! operators.
//!
//! Note [Two classes of tensors] PyO3 defines `TensorBase` with all methods. `Tensor`, the class that users see, is a
//! subclass defined here by hand, for features that PyO3 lacks: objects are recycled through a free list, `+ - * /`
//! are C slots that read their operands in place, and the attribute dict is a plain pointer that stays null until an
//! attribute is set. For tensors of a few elements the class accounts for half of an operation's cost.
//!
//! Note [A tensor's Python object] Users compare tensors by identity (`p.grad is g`), so a tensor has at most one live
//! Python object. The tensor holds a borrowed pointer to it, which is set here and cleared when the object is
//! deallocated, both under the GIL.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ptr::{null_mut, write};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::impl_::trampoline::{self, MethodDef, binaryfunc};
use pyo3::prelude::*;
use pyo3::types::{PySlice, PyType};

use super::dispatch::{any_mode, asks_class, kept_object, value_by_class};
use super::error::IntoPy;
use super::hooks::visit_objects;
use super::subclass::is_watched;
use super::tensor::{operator, overridable};
use crate::dtype::Scalar;
use crate::graph::{AutogradMeta, GcVisitor, HeldGuard, anything_held};
use crate::ops::index::{Index, getitem};
use crate::ops::interpreter;
use crate::ops::pointwise::{Arg, PointwiseOp};
use crate::ops::rows;
use crate::storage::anything_borrowed;
use crate::tensor::Tensor;

/// A value that is only read and changed under the GIL.
struct GilCell<T>(UnsafeCell<T>);

// SAFETY: only the accessors of `PyTensor` access it, and their callers hold the GIL.
unsafe impl<T: Send> Sync for GilCell<T> {}

impl<T> GilCell<T> {
    /// # Safety
    /// The caller holds the GIL, and while the reference is alive neither releases it nor lets Python code run.
    #[inline(always)]
    unsafe fn peek(&self) -> &T {
        // SAFETY: only `replace` writes, and it requires the GIL.
        unsafe { &*self.0.get() }
    }

    fn replace(&self, _: Python<'_>, value: T) -> T {
        // SAFETY: the GIL is held, and no reference of `peek` is alive while anything else runs.
        unsafe { std::mem::replace(&mut *self.0.get(), value) }
    }
}

/// The class with the methods; see Note [Two classes of tensors].
#[pyclass(name = "TensorBase", module = "rgrad._C", subclass, weakref, frozen)]
pub struct PyTensor {
    tensor: GilCell<Tensor>,
    /// The tensor of which this is the `.grad`, as last read or assigned: see [`PyTensor::replace`].
    grad_of: GilCell<Weak<AutogradMeta>>,
}

impl PyTensor {
    pub fn of(t: Tensor) -> PyTensor {
        PyTensor { tensor: GilCell(UnsafeCell::new(t)), grad_of: GilCell(UnsafeCell::new(Weak::new())) }
    }

    /// Notes that the object is the `.grad` of a tensor.
    pub fn mark_grad_of(&self, py: Python<'_>, meta: &Arc<AutogradMeta>) {
        // SAFETY: the GIL is held, and comparing pointers runs no Python code.
        if unsafe { self.grad_of.peek() }.as_ptr() != Arc::as_ptr(meta) {
            self.grad_of.replace(py, Arc::downgrade(meta));
        }
    }

    /// Notes that the object was assigned as the `.grad` of a tensor, which keeps it.
    pub fn become_grad_of(slf: &Bound<'_, PyTensor>, meta: &Arc<AutogradMeta>) {
        slf.get().mark_grad_of(slf.py(), meta);
        let t = slf.tensor();
        if t.host().is_null() {
            // A constructor of a subclass cannot tell a tensor its object.
            t.set_host(slf.as_ptr().cast());
        }
        let object = slf.clone().into_any().unbind();
        meta.keep_grad_object(Some(Arc::new(GradObject { object, _held: HeldGuard::new() })));
    }

    /// The tensor. The token proves that the GIL is held. It cannot be captured by a closure for `Python::detach`,
    /// which forces callers to take the handle before.
    #[inline]
    pub fn inner(&self, _: Python<'_>) -> Tensor {
        // SAFETY: the GIL is held, and cloning a handle runs no Python code.
        unsafe { self.tensor.peek() }.clone()
    }

    /// The value of a single-element tensor. Waits for a GPU without holding the GIL.
    #[inline(always)]
    pub fn value(&self, py: Python<'_>) -> PyResult<Scalar> {
        // SAFETY: reading an element on the host runs no Python code.
        let t = unsafe { self.tensor.peek() };
        if t.device().is_host_readable() && !is_watched() {
            return t.item().py();
        }
        let t = t.clone();
        if asks_class(&t) || any_mode() { value_by_class(py, &t) } else { py.detach(|| t.item()).py() }
    }

    /// As `value`, for Python's number protocol.
    pub fn only_value(&self, py: Python<'_>) -> PyResult<Scalar> {
        if self.inner(py).numel() != 1 {
            return Err(PyValueError::new_err("only one element tensors can be converted to Python scalars"));
        }
        self.value(py)
    }

    /// Makes the object refer to another tensor, after `.data = …`, `resize_` or `out=`. If it is the `.grad` of a
    /// tensor, the other becomes its gradient.
    pub fn replace(slf: &Bound<'_, PyTensor>, new: Tensor) {
        let old = Self::exchange(slf, new.clone());
        // SAFETY: the GIL is held, and the handle is taken before anything else runs.
        if let Some(meta) = unsafe { slf.get().grad_of.peek() }.upgrade() {
            // An error means that the gradient is no longer this one.
            let _ = meta.replace_grad(Some(&old), new);
        }
    }

    pub fn exchange(slf: &Bound<'_, PyTensor>, new: Tensor) -> Tensor {
        new.set_host(slf.as_ptr().cast());
        let old = slf.get().tensor.replace(slf.py(), new);
        old.set_host(null_mut());
        old
    }
}

/// The Python object of a gradient, which the tensor keeps that has the gradient.
pub struct GradObject {
    object: Py<PyAny>,
    _held: HeldGuard,
}

impl GradObject {
    pub fn visit_objects(&self, visit: &mut dyn FnMut(&Py<PyAny>)) {
        visit(&self.object);
    }
}

/// Exchanges the tensors of two objects.
#[pyfunction]
#[pyo3(name = "_swap_tensor_impl")]
pub fn swap_tensors(one: &Bound<'_, PyTensor>, other: &Bound<'_, PyTensor>) {
    let (x, y) = (one.tensor(), other.tensor());
    PyTensor::exchange(one, y.clone());
    PyTensor::exchange(other, x);
    // The second exchange cleared the object pointer of `y`.
    y.set_host(one.as_ptr().cast());
}

/// Access to the tensor of an object under the GIL.
pub trait TensorObject {
    fn tensor(&self) -> Tensor;
}

impl TensorObject for Bound<'_, PyTensor> {
    #[inline]
    fn tensor(&self) -> Tensor {
        let t = self.get().inner(self.py());
        if interpreter::active() {
            know_object(self, &t);
        }
        t
    }
}

/// A constructor cannot tell a tensor its object, from which handlers of `__torch_dispatch__` compute.
#[cold]
fn know_object(object: &Bound<'_, PyTensor>, t: &Tensor) {
    if t.host().is_null() && t.is_hosted() {
        t.set_host(object.as_ptr().cast());
    }
}

impl Drop for PyTensor {
    fn drop(&mut self) {
        self.tensor.0.get_mut().set_host(null_mut());
    }
}

// ---- objects

/// The class `Tensor`, set when the module is loaded.
static CLASS: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(null_mut());

/// Offsets of the attribute dict and of the weak reference list in its objects.
static DICT_OFFSET: AtomicUsize = AtomicUsize::new(0);
static WEAKREFS_OFFSET: AtomicUsize = AtomicUsize::new(0);

#[inline(always)]
fn class() -> *mut ffi::PyTypeObject {
    CLASS.load(Ordering::Relaxed)
}

/// Whether an object has the class `Tensor` itself, not a subclass.
pub fn is_exact(slf: &Bound<'_, PyTensor>) -> bool {
    slf.get_type_ptr() == class()
}

/// Whether an object is a tensor of the class `Tensor` itself.
pub fn is_plain(obj: &Bound<'_, PyAny>) -> bool {
    obj.get_type_ptr() == class()
}

/// The class `Tensor`.
pub fn class_object(py: Python<'_>) -> Bound<'_, PyAny> {
    // SAFETY: the class is never freed; before it is created only `TensorBase` itself asks for it.
    unsafe {
        match class() {
            p if p.is_null() => py.get_type::<PyTensor>().into_any(),
            p => Bound::from_borrowed_ptr(py, p.cast()),
        }
    }
}

/// The free list: deallocated objects of exactly this class, for reuse.
struct FreeList {
    objects: [*mut ffi::PyObject; FREE],
    len: usize,
}

const FREE: usize = 128;
static FREE_LIST: GilCell<FreeList> =
    GilCell(UnsafeCell::new(FreeList { objects: [null_mut(); FREE], len: 0 }));

// SAFETY: the list is only used under the GIL.
unsafe impl Send for FreeList {}

/// The address of the Rust part of an object of the class or a subclass.
///
/// # Safety
/// `obj` is such an object, even if deallocated.
#[inline(always)]
unsafe fn contents(py: Python<'_>, obj: *mut ffi::PyObject) -> *mut PyTensor {
    // SAFETY: the offset follows from PyO3's layout of the class; nothing is read.
    unsafe {
        let bound = Borrowed::from_ptr(py, obj);
        std::ptr::from_ref(bound.cast_unchecked::<PyTensor>().get()).cast_mut()
    }
}

/// Whether the Rust part of an object has been written.
///
/// Note [Objects that are being made] A class that a program calls allocates its object, which the collector then knows, and with
/// Python 3.11 its dict before `__new__` gets to write the tensor. The allocation of the dict may start a collection, or
/// fail and free the object: both find zeros in place of a tensor.
///
/// # Safety
/// `obj` is an object of the class or of a subclass.
#[inline(always)]
unsafe fn is_made(py: Python<'_>, obj: *mut ffi::PyObject) -> bool {
    const { assert!(size_of::<Tensor>() == size_of::<*const ()>()) };
    // SAFETY: a tensor is one pointer, which is not null; zeros are read as a null pointer.
    unsafe { !(&raw const (*contents(py, obj)).tensor).cast::<*const ()>().read().is_null() }
}

/// The address of an object's dict pointer, which is null until an attribute is set.
///
/// # Safety
/// `obj` is an object of the class or of a subclass.
#[inline(always)]
unsafe fn dict(obj: *mut ffi::PyObject) -> *mut *mut ffi::PyObject {
    // SAFETY: the offset is that of the class layout.
    unsafe { obj.byte_add(DICT_OFFSET.load(Ordering::Relaxed)).cast() }
}

/// The tensor of an object, or None if the object is no tensor.
///
/// # Safety
/// As for `GilCell::peek`; `obj` is alive.
#[inline(always)]
unsafe fn peek<'a>(py: Python<'_>, obj: *mut ffi::PyObject) -> Option<&'a Tensor> {
    // SAFETY: the type is checked first; the caller guarantees the rest.
    unsafe {
        let ty = ffi::Py_TYPE(obj);
        if ty != class() && ffi::PyType_IsSubtype(ty, class()) == 0 {
            return None;
        }
        Some((*contents(py, obj)).tensor.peek())
    }
}

/// Casts an object to a tensor; fast if its class is `Tensor` itself.
#[inline(always)]
pub fn as_tensor<'a, 'py>(obj: &'a Bound<'py, PyAny>) -> Option<&'a Bound<'py, PyTensor>> {
    if obj.get_type_ptr() == class() {
        // SAFETY: the class is a subclass of PyTensor.
        return Some(unsafe { obj.cast_unchecked() });
    }
    obj.cast().ok()
}

/// The value of an exact `int` that fits in 64 bits.
#[inline(always)]
pub fn exact_int(obj: &Bound<'_, PyAny>) -> Option<i64> {
    match plain_number(obj.as_ptr())? {
        Scalar::Int(i) => Some(i),
        _ => None,
    }
}

/// The Python object of a tensor.
#[inline]
pub fn wrap(py: Python<'_>, t: Tensor) -> PyResult<Py<PyAny>> {
    let p: *mut ffi::PyObject = t.host().cast();
    // SAFETY: the pointer is cleared when the object is deallocated, under the GIL that `py` proves; an object that is
    // being deallocated has reference count 0 and is not returned.
    unsafe {
        if !p.is_null() && ffi::Py_REFCNT(p) > 0 {
            return Ok(Bound::from_borrowed_ptr(py, p).unbind());
        }
        if let Some(kept) = kept_object(py, &t) {
            return Ok(kept);
        }
        Ok(Bound::from_owned_ptr_or_err(py, fresh(py, t))?.unbind())
    }
}

/// A new object for a tensor; null with an exception set when out of memory.
#[inline]
fn fresh(py: Python<'_>, t: Tensor) -> *mut ffi::PyObject {
    // SAFETY: an object from the list is revived by PyObject_Init and a new Rust value; a newly allocated one is
    // zeroed, which is the initial state of the rest of the layout. The list is used under the GIL.
    unsafe {
        let free = &mut *FREE_LIST.0.get();
        let obj = if free.len > 0 {
            free.len -= 1;
            let obj = ffi::PyObject_Init(free.objects[free.len], class());
            t.set_host(obj.cast());
            write(contents(py, obj), PyTensor::of(t));
            ffi::PyObject_GC_Track(obj.cast());
            return obj;
        } else {
            ffi::PyType_GenericAlloc(class(), 0)
        };
        if !obj.is_null() {
            t.set_host(obj.cast());
            write(contents(py, obj), PyTensor::of(t));
        }
        obj
    }
}

/// An instance of `class`, a subclass of `tuple` without a state of its own, that holds sizes. Calling the class would make two more tuples.
pub fn tuple_of_sizes<'py>(class: &Bound<'py, PyType>, sizes: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    // SAFETY: a tuple holds as many items as are allocated. Items that are not set yet are null, as the collector expects.
    // `PyTuple_SetItem` checks that it gets a tuple, and takes the reference to an item.
    unsafe {
        let tuple = Bound::from_owned_ptr_or_err(
            py,
            ffi::PyType_GenericAlloc(class.as_type_ptr(), sizes.len() as ffi::Py_ssize_t),
        )?;
        for (i, size) in sizes.iter().enumerate() {
            let item = size.into_pyobject(py)?.into_ptr();
            if ffi::PyTuple_SetItem(tuple.as_ptr(), i as ffi::Py_ssize_t, item) != 0 {
                return Err(PyErr::fetch(py));
            }
        }
        Ok(tuple)
    }
}

/// The deallocator of the class, called also for Python subclasses after their own part is cleared.
unsafe extern "C" fn dealloc(obj: *mut ffi::PyObject) {
    // SAFETY: the last reference is gone and the GIL is held. The Rust value is dropped once, the memory goes to the
    // free list or to Python, and the object's reference to its class is released, as required for heap types.
    unsafe {
        ffi::PyObject_GC_UnTrack(obj.cast());
        if has_weakrefs(obj) {
            ffi::PyObject_ClearWeakRefs(obj);
        }
        let is_made = is_made(Python::assume_attached(), obj);
        if has_dict(obj) {
            let _ = Python::try_attach(|py| {
                if is_made {
                    keep_attributes(py, obj)
                }
            });
            clear_dict(obj);
        }
        let me = contents(Python::assume_attached(), obj);
        if !is_made {
            // Nothing to drop: see Note [Objects that are being made].
        } else if !anything_held() && !anything_borrowed() {
            std::ptr::drop_in_place(me);
        } else {
            // Dropping the tensor may free Python objects. At interpreter shutdown it may be skipped.
            let _ = Python::try_attach(|_| std::ptr::drop_in_place(me));
        }
        let ty = ffi::Py_TYPE(obj);
        let free = &mut *FREE_LIST.0.get();
        if ty == class() && free.len < FREE {
            free.objects[free.len] = obj;
            free.len += 1;
        } else {
            ffi::PyObject_GC_Del(obj.cast());
        }
        ffi::Py_DECREF(ty.cast());
    }
}

/// Whether an object of the class or of a subclass has attributes.
#[inline(always)]
fn has_dict(obj: *mut ffi::PyObject) -> bool {
    // SAFETY: such an object; only the pointer is read.
    unsafe { !dict(obj).read().is_null() }
}

/// Whether an object of the class or of a subclass has weak references.
#[inline(always)]
fn has_weakrefs(obj: *mut ffi::PyObject) -> bool {
    // SAFETY: as in `has_dict`.
    unsafe {
        let list = obj.byte_add(WEAKREFS_OFFSET.load(Ordering::Relaxed)).cast::<*mut ffi::PyObject>();
        !list.read().is_null()
    }
}

/// Gives the attributes of an object, which is being deallocated, to a new object, if the tensor is still a gradient.
///
/// # Safety
/// `obj` is an object of the class whose Rust value is alive.
#[cold]
unsafe fn keep_attributes(py: Python<'_>, obj: *mut ffi::PyObject) {
    // SAFETY: the GIL is held. The tensor and the attributes leave the object before another one has them.
    unsafe {
        let me = &*contents(py, obj);
        let Some(meta) = me.grad_of.peek().upgrade() else { return };
        if ffi::Py_TYPE(obj) != class() || !meta.has_grad(me.tensor.peek()) {
            return;
        }
        let Ok(nothing) = Tensor::empty([0], crate::dtype::DType::F32) else { return };
        let t = me.tensor.replace(py, nothing);
        let Some(object) = Bound::from_owned_ptr_or_opt(py, fresh(py, t)) else {
            ffi::PyErr_Clear();
            return;
        };
        *dict(object.as_ptr()) = dict(obj).replace(null_mut());
        PyTensor::become_grad_of(object.cast_unchecked(), &meta);
    }
}

unsafe fn clear_dict(obj: *mut ffi::PyObject) {
    // SAFETY: the pointer belongs to the object; it is cleared before the dict is freed, which may run Python code.
    unsafe { ffi::Py_XDECREF(dict(obj).replace(null_mut())) };
}

/// Breaks reference cycles of an unreachable object: releases its dict and its tensor.
unsafe extern "C" fn clear(obj: *mut ffi::PyObject) -> c_int {
    // SAFETY: the collector passes an object of the class, under the GIL.
    unsafe {
        clear_dict(obj);
        let _ = Python::try_attach(|py| {
            if is_made(py, obj)
                && let Ok(nothing) = Tensor::empty([0], crate::dtype::DType::F32)
            {
                let old = (*contents(py, obj)).tensor.replace(py, nothing);
                old.set_host(null_mut());
            }
        });
    }
    0
}

unsafe extern "C" fn traverse(obj: *mut ffi::PyObject, visit: ffi::visitproc, arg: *mut c_void) -> c_int {
    // SAFETY: the collector passes an object of the class. It owns its class, its dict and, through the graph, the
    // objects held by hooks and functions; see Note [Cycles through the graph]. No Python code runs during traversal.
    unsafe {
        let dict = *dict(obj);
        let mut done = visit(ffi::Py_TYPE(obj).cast(), arg);
        if done == 0 && !dict.is_null() {
            done = visit(dict, arg);
        }
        let py = Python::assume_attached();
        if !is_made(py, obj) {
            return done;
        }
        let t = (*contents(py, obj)).tensor.peek();
        if done == 0 && anything_held() && (t.meta().is_some() || t.base().is_some()) {
            let mut held = GcVisitor::default();
            held.tensor(t);
            held.visit(&mut |object| {
                visit_objects(object, &mut |o| {
                    if done == 0 {
                        done = visit(o.as_ptr(), arg);
                    }
                });
            });
        }
        done
    }
}

/// The bounds of a slice, with Python's defaults for omitted ones; an error for a non-integer bound or step zero.
pub fn slice_bounds(slice: &Bound<'_, PySlice>) -> PyResult<(isize, isize, isize)> {
    let (mut start, mut stop, mut step) = (0, 0, 0);
    // SAFETY: a live slice and three valid output pointers.
    match unsafe { ffi::PySlice_Unpack(slice.as_ptr(), &mut start, &mut stop, &mut step) } {
        0 => Ok((start, stop, step)),
        _ => Err(PyErr::fetch(slice.py())),
    }
}

// ---- operators

static OPERATORS: [&PointwiseOp; 4] = [&rows::add, &rows::sub, &rows::mul, &rows::div];

/// The function that `__torch_function__` receives, with the tensor as the left and as the right operand.
const SEEN_AS: [[&str; 2]; 4] =
    [["add", "add"], ["sub", "__rsub__"], ["mul", "mul"], ["div", "__rtruediv__"]];

/// The general path of an operator: operands that need conversion or broadcasting, or other types.
struct Arranged<const I: usize>;

impl<const I: usize> MethodDef<binaryfunc::Func> for Arranged<I> {
    const METH: binaryfunc::Func = arranged::<I>;
}

/// # Safety
/// As for a binary slot: two live objects.
unsafe fn arranged<const I: usize>(
    py: Python<'_>,
    a: *mut ffi::PyObject,
    b: *mut ffi::PyObject,
) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: both are alive during this call.
    let (a, b) = unsafe { (Bound::from_borrowed_ptr(py, a), Bound::from_borrowed_ptr(py, b)) };
    let (slf, other, swapped) = if a.cast::<PyTensor>().is_ok() { (a, b, false) } else { (b, a, true) };
    let Ok(t) = slf.cast::<PyTensor>() else { return Ok(py.NotImplemented().into_ptr()) };
    let out = overridable(SEEN_AS[I][swapped as usize], t, &other, |t| {
        operator(py, OPERATORS[I], t, &other, swapped)
    });
    out.map(Py::into_ptr)
}

/// A float or a small int.
#[inline(always)]
fn plain_number(obj: *mut ffi::PyObject) -> Option<Scalar> {
    // SAFETY: the type is exactly float or int, whose conversions run no Python code.
    unsafe {
        if ffi::PyFloat_CheckExact(obj) != 0 {
            return Some(Scalar::Float(ffi::PyFloat_AsDouble(obj)));
        }
        if ffi::PyLong_CheckExact(obj) != 0 {
            let mut overflow: c_int = 0;
            let v = ffi::PyLong_AsLongLongAndOverflow(obj, &mut overflow);
            return (overflow == 0).then_some(Scalar::Int(v));
        }
        None
    }
}

unsafe extern "C" fn binary<const I: usize>(
    a: *mut ffi::PyObject,
    b: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: Python holds the GIL and passes live objects. Between the calls of `peek` and the end of `call_small` no
    // Python code runs and the GIL is not released.
    unsafe {
        let py = Python::assume_attached();
        if is_watched() {
            return trampoline::binaryfunc::<Arranged<I>>(a, b);
        }
        let out = match (peek(py, a), peek(py, b)) {
            (Some(x), Some(y)) => OPERATORS[I].call_small([Arg::T(x), Arg::T(y)]),
            (Some(x), None) => plain_number(b).and_then(|s| OPERATORS[I].call_small([Arg::T(x), Arg::S(s)])),
            (None, Some(y)) => plain_number(a).and_then(|s| OPERATORS[I].call_small([Arg::S(s), Arg::T(y)])),
            (None, None) => None,
        };
        match out {
            Some(t) => fresh(py, t),
            None => trampoline::binaryfunc::<Arranged<I>>(a, b),
        }
    }
}

/// The `__getitem__` slot of the base class.
static GETITEM: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// `x[key]`, with a fast path for a single number.
unsafe extern "C" fn subscript(obj: *mut ffi::PyObject, key: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as in `binary`; `getitem` with a number runs no Python code. The base class slot is a binary function
    // and is set before any object of the class exists.
    unsafe {
        let py = Python::assume_attached();
        if ffi::PyLong_CheckExact(key) != 0
            && !is_watched()
            && let (Some(t), Some(Scalar::Int(i))) = (peek(py, obj).cloned(), plain_number(key))
            && let Ok(row) = getitem(&t, &[Index::Int(i)])
        {
            return fresh(py, row);
        }
        let slow: ffi::binaryfunc = std::mem::transmute(GETITEM.load(Ordering::Relaxed));
        slow(obj, key)
    }
}

/// Creates the class `Tensor` and adds it to the module.
pub fn add_class(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    let base = py.get_type::<PyTensor>();
    let size: usize = base.getattr("__basicsize__")?.extract()?;
    DICT_OFFSET.store(size, Ordering::Relaxed);
    WEAKREFS_OFFSET.store(base.getattr("__weakrefoffset__")?.extract()?, Ordering::Relaxed);
    // SAFETY: a heap type, for which slots may be queried.
    GETITEM
        .store(unsafe { ffi::PyType_GetSlot(base.as_type_ptr(), ffi::Py_mp_subscript) }, Ordering::Relaxed);
    let slot = |id: c_int, f: *mut c_void| ffi::PyType_Slot { slot: id, pfunc: f };
    let doc = c"A multi-dimensional array of one element type, with autograd.";
    // SAFETY: an all-zero entry terminates each of the two tables.
    let (mut members, mut getters): ([ffi::PyMemberDef; 2], [ffi::PyGetSetDef; 2]) =
        unsafe { std::mem::zeroed() };
    members[0].name = c"__dictoffset__".as_ptr();
    members[0].type_code = ffi::Py_T_PYSSIZET;
    members[0].offset = size as ffi::Py_ssize_t;
    members[0].flags = ffi::Py_READONLY;
    getters[0].name = c"__dict__".as_ptr();
    getters[0].get = Some(ffi::PyObject_GenericGetDict);
    getters[0].set = Some(ffi::PyObject_GenericSetDict);
    // Python keeps a pointer to the getters.
    let getters = Box::leak(Box::new(getters));
    let mut slots = [
        slot(ffi::Py_tp_dealloc, dealloc as *mut _),
        slot(ffi::Py_tp_traverse, traverse as *mut _),
        slot(ffi::Py_tp_clear, clear as *mut _),
        slot(ffi::Py_tp_doc, doc.as_ptr().cast_mut().cast()),
        slot(ffi::Py_tp_members, members.as_mut_ptr().cast()),
        slot(ffi::Py_tp_getset, getters.as_mut_ptr().cast()),
        slot(ffi::Py_mp_subscript, subscript as *mut _),
        slot(ffi::Py_nb_add, binary::<0> as *mut _),
        slot(ffi::Py_nb_subtract, binary::<1> as *mut _),
        slot(ffi::Py_nb_multiply, binary::<2> as *mut _),
        slot(ffi::Py_nb_true_divide, binary::<3> as *mut _),
        slot(0, null_mut()),
    ];
    let mut spec = ffi::PyType_Spec {
        name: c"rgrad.Tensor".as_ptr(),
        basicsize: (size + size_of::<*mut ffi::PyObject>()) as c_int,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE | ffi::Py_TPFLAGS_HAVE_GC) as _,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the specification outlives the call. The class adds one pointer to the base's layout.
    let class =
        unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpecWithBases(&mut spec, base.as_ptr()))? };
    let class = class.cast_into::<PyType>()?;
    // Python's messages name a class created in C with its module, and one created by a class statement, as PyTorch's
    // is, without.
    class.setattr("__name__", "Tensor")?;
    CLASS.store(class.as_type_ptr(), Ordering::Relaxed);
    m.add("Tensor", &class)?;
    // The class is never freed: objects on the free list do not own a reference to it.
    std::mem::forget(class);
    Ok(())
}
