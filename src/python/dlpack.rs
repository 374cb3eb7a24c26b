//! DLPack: zero-copy exchange of tensors with other libraries.
//!
//! A tensor is passed as a capsule with a C structure that has a deleter. The consumer renames the capsule to `used_…`
//! and calls the deleter when done; the destructor of an unconsumed capsule calls it.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use pyo3::exceptions::{PyAssertionError, PyBufferError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use super::arrays::adopt;
use super::dtype::{device_of, type_name};
use super::error::IntoPy;
use super::tensor::{PyTensor, wrap};
use crate::backend::memory;
use crate::dtype::DType;
use crate::layout::{Dims, Layout};
use crate::tensor::Tensor;

const CPU: i32 = 1;

#[derive(Clone, Copy)]
#[repr(C)]
struct DLDevice {
    kind: i32,
    id: i32,
}

#[derive(Clone, Copy, PartialEq)]
#[repr(C)]
struct DLDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DLTensor {
    data: *mut c_void,
    device: DLDevice,
    ndim: i32,
    dtype: DLDataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// The structure of a capsule "dltensor".
#[repr(C)]
struct Unversioned {
    tensor: DLTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Unversioned)>,
}

/// The structure of a capsule "dltensor_versioned", since DLPack 1.0.
#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: DLTensor,
}

const READ_ONLY: u64 = 1;
const COPIED: u64 = 2;

/// The common interface of both structures.
trait Managed: Sized {
    const NAME: &'static CStr;
    const USED: &'static CStr;
    fn new(tensor: DLTensor, context: *mut c_void, flags: u64) -> Self;
    fn tensor(&self) -> &DLTensor;
    fn context(&self) -> *mut c_void;
    fn readonly(&self) -> bool;
    /// Calls the structure's deleter.
    ///
    /// # Safety
    /// `p` is a structure whose deleter has not run.
    unsafe fn delete(p: *mut Self);
}

impl Managed for Unversioned {
    const NAME: &'static CStr = c"dltensor";
    const USED: &'static CStr = c"used_dltensor";

    fn new(tensor: DLTensor, context: *mut c_void, _: u64) -> Self {
        Unversioned { tensor, context, deleter: Some(free::<Self>) }
    }

    fn tensor(&self) -> &DLTensor {
        &self.tensor
    }

    fn context(&self) -> *mut c_void {
        self.context
    }

    fn readonly(&self) -> bool {
        false
    }

    unsafe fn delete(p: *mut Self) {
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(f) = (*p).deleter {
                f(p);
            }
        }
    }
}

impl Managed for Versioned {
    const NAME: &'static CStr = c"dltensor_versioned";
    const USED: &'static CStr = c"used_dltensor_versioned";

    fn new(tensor: DLTensor, context: *mut c_void, flags: u64) -> Self {
        Versioned { major: 1, minor: 0, context, deleter: Some(free::<Self>), flags, tensor }
    }

    fn tensor(&self) -> &DLTensor {
        &self.tensor
    }

    fn context(&self) -> *mut c_void {
        self.context
    }

    fn readonly(&self) -> bool {
        self.flags & READ_ONLY != 0
    }

    unsafe fn delete(p: *mut Self) {
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(f) = (*p).deleter {
                f(p);
            }
        }
    }
}

fn data_type(d: DType) -> DLDataType {
    let code = match d {
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => 0,
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => 1,
        DType::F16 | DType::F32 | DType::F64 => 2,
        DType::BF16 => 4,
        DType::Bool => 6,
        DType::F8E4M3FN => 10,
        DType::F8E4M3FNUZ => 11,
        DType::F8E5M2 => 12,
        DType::F8E5M2FNUZ => 13,
        DType::F8E8M0FNU => 14,
    };
    DLDataType { code, bits: (d.size() * 8) as u8, lanes: 1 }
}

// Export

/// The data that the exported structure points to, and the tensor that owns the memory.
struct Exported {
    shape: Vec<i64>,
    strides: Vec<i64>,
    _tensor: Tensor,
}

/// The deleter of exported structures. The caller may or may not hold the GIL.
///
/// # Safety
/// `p` came from `export` and is not used afterwards.
unsafe extern "C" fn free<M: Managed>(p: *mut M) {
    // SAFETY: `export` leaked both boxes.
    let mut exported = unsafe { Some((Box::from_raw((*p).context().cast::<Exported>()), Box::from_raw(p))) };
    // With the GIL, a Python object that owns the memory is freed now rather than at the next call into this module.
    // Without an interpreter the boxes are dropped at the end of the scope.
    Python::try_attach(|_| drop(exported.take()));
}

/// The destructor of a capsule: deletes the structure unless it was consumed.
///
/// # Safety
/// Called by Python with the capsule.
unsafe extern "C" fn drop_capsule<M: Managed>(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule with its original name holds a structure whose deleter has not run.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, M::NAME.as_ptr()) == 1 {
            M::delete(ffi::PyCapsule_GetPointer(capsule, M::NAME.as_ptr()).cast());
        }
    }
}

fn export<M: Managed>(py: Python<'_>, t: Tensor, flags: u64) -> PyResult<Py<PyAny>> {
    let (dtype, rank) = (t.dtype(), t.rank());
    let at = memory::lend(t.storage()).py()?.wrapping_add(t.layout().offset * dtype.size());
    let mut exported = Box::new(Exported {
        shape: t.shape().iter().map(|&n| n as i64).collect(),
        strides: t.strides().iter().map(|&s| s as i64).collect(),
        _tensor: t,
    });
    let tensor = DLTensor {
        data: at.cast(),
        device: DLDevice { kind: CPU, id: 0 },
        ndim: rank as i32,
        dtype: data_type(dtype),
        shape: exported.shape.as_mut_ptr(),
        strides: exported.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    let managed = Box::new(M::new(tensor, Box::into_raw(exported).cast(), flags));
    let p = NonNull::from(Box::leak(managed));
    // SAFETY: the capsule owns the structure, and the destructor matches its type.
    let capsule =
        unsafe { PyCapsule::new_with_pointer_and_destructor(py, p.cast(), M::NAME, Some(drop_capsule::<M>)) };
    if capsule.is_err() {
        // SAFETY: no capsule owns the structure.
        unsafe { M::delete(p.as_ptr()) };
    }
    Ok(capsule?.into_any().unbind())
}

#[pymethods]
impl PyTensor {
    /// The tensor as a capsule for another library, which shares its memory.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__(
        &self,
        py: Python<'_>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        let t = &self.inner(py);
        if !t.device().is_host_readable() {
            return Err(PyBufferError::new_err(format!(
                "cannot export a tensor on {} through DLPack",
                t.device()
            )));
        }
        if t.requires_grad() {
            return Err(PyBufferError::new_err(
                "Can't export tensors that require gradient, use tensor.detach()",
            ));
        }
        if stream.is_some_and(|s| s != -1) {
            return Err(PyAssertionError::new_err("stream should be None on cpu."));
        }
        if dl_device.is_some_and(|d| d != (CPU, 0)) {
            return Err(PyBufferError::new_err(
                "cannot move a tensor on cpu to another device through DLPack",
            ));
        }
        let (t, copied) = match copy {
            Some(true) => (t.copied(t.dtype()).py()?, COPIED),
            _ => (t.detach(), 0),
        };
        let readonly = if t.storage().is_readonly() { READ_ONLY } else { 0 };
        match max_version {
            Some((1.., _)) => export::<Versioned>(py, t, readonly | copied),
            _ if readonly != 0 => Err(PyBufferError::new_err(
                "cannot export a read-only tensor to a consumer of DLPack before 1.0, which would write to it",
            )),
            _ => export::<Unversioned>(py, t, 0),
        }
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        (CPU, 0)
    }
}

// Import

/// Another library's structure, deleted with the last tensor over it.
struct Imported<M: Managed>(*mut M);

// SAFETY: the structure is only read, and its deleter may run on any thread.
unsafe impl<M: Managed> Send for Imported<M> {}
// SAFETY: as above.
unsafe impl<M: Managed> Sync for Imported<M> {}

impl<M: Managed> Drop for Imported<M> {
    fn drop(&mut self) {
        // The last tensor may be dropped on any thread, and the deleter of a Python library may access objects, so it
        // runs attached to the interpreter. Without an interpreter the memory is leaked. SAFETY: the capsule was
        // consumed, so this side must call the deleter, once.
        Python::try_attach(|_| unsafe { M::delete(self.0) });
    }
}

fn import<M: Managed + 'static>(capsule: &Bound<'_, PyCapsule>) -> PyResult<Tensor> {
    let p: NonNull<M> = capsule.pointer_checked(Some(M::NAME))?.cast();
    // SAFETY: a capsule of this name holds this structure.
    let (layout, dtype, address) = unsafe { geometry(p.as_ref().tensor())? };
    // SAFETY: as above.
    let readonly = unsafe { p.as_ref().readonly() };
    // SAFETY: the name is a constant. From here on the structure is owned here.
    if unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), M::USED.as_ptr()) } != 0 {
        return Err(PyErr::fetch(capsule.py()));
    }
    let owner = Box::new(Imported(p.as_ptr()));
    // SAFETY: the structure describes memory that is valid until its deleter runs.
    unsafe { adopt(address, layout, dtype, readonly, owner) }
}

/// # Safety
/// Shape and strides (unless null) have `ndim` numbers.
unsafe fn geometry(t: &DLTensor) -> PyResult<(Layout, DType, usize)> {
    if t.device.kind != CPU {
        return Err(PyBufferError::new_err(format!(
            "Unsupported device_type: {}; only tensors in the memory of the CPU can be shared",
            t.device.kind
        )));
    }
    let dtype = DType::ALL.into_iter().find(|&d| data_type(d) == t.dtype).ok_or_else(|| {
        PyBufferError::new_err(format!(
            "Unsupported DLPack dtype: code {}, {} bits, {} lanes",
            t.dtype.code, t.dtype.bits, t.dtype.lanes
        ))
    })?;
    let rank = usize::try_from(t.ndim).map_err(|_| PyValueError::new_err("negative number of dimensions"))?;
    let numbers = |p: *mut i64| -> &[i64] {
        if rank == 0 || p.is_null() {
            return &[];
        }
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(p, rank) }
    };
    let shape = numbers(t.shape)
        .iter()
        .map(|&n| usize::try_from(n).map_err(|_| PyValueError::new_err("negative dimension")))
        .collect::<PyResult<Dims>>()?;
    let strides = match t.strides.is_null() {
        true => shape.contiguous_strides(),
        false => numbers(t.strides).iter().map(|&s| s as isize).collect(),
    };
    let address = (t.data as usize).checked_add(t.byte_offset as usize);
    let address =
        address.ok_or_else(|| PyBufferError::new_err("the tensor lies beyond the address space"))?;
    Ok((Layout { shape, strides, offset: 0 }, dtype, address))
}

/// A tensor that shares the memory of another library's tensor, given as an object or a capsule.
#[pyfunction]
#[pyo3(signature = (ext_tensor, *, device=None, copy=None))]
pub fn from_dlpack(
    py: Python<'_>,
    ext_tensor: &Bound<'_, PyAny>,
    device: Option<&Bound<'_, PyAny>>,
    copy: Option<bool>,
) -> PyResult<Py<PyAny>> {
    device.map(device_of).transpose()?;
    let capsule = match ext_tensor.cast::<PyCapsule>() {
        Ok(c) => c.clone(),
        Err(_) => request(ext_tensor)?,
    };
    let t = if capsule.is_valid_checked(Some(Versioned::NAME)) {
        let p: NonNull<Versioned> = capsule.pointer_checked(Some(Versioned::NAME))?.cast();
        // SAFETY: the version is the first field in every version of the structure.
        let major = unsafe { p.as_ref().major };
        if major != 1 {
            return Err(PyBufferError::new_err(format!("DLPack {major} is not supported; 1.x is")));
        }
        import::<Versioned>(&capsule)?
    } else if capsule.is_valid_checked(Some(Unversioned::NAME)) {
        import::<Unversioned>(&capsule)?
    } else {
        return Err(PyRuntimeError::new_err(
            "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so you \
             might have already constructed a tensor from it once.",
        ));
    };
    wrap(py, if copy == Some(true) { t.copied(t.dtype()).py()? } else { t })
}

/// Requests a capsule from an object, in the newest version that both sides support.
fn request<'py>(obj: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyCapsule>> {
    let py = obj.py();
    if !obj.hasattr("__dlpack__")? {
        return Err(PyTypeError::new_err(format!(
            "from_dlpack(): expected a DLPack capsule or an object with __dlpack__, not {}",
            type_name(obj)
        )));
    }
    if obj.hasattr("__dlpack_device__")? {
        let (kind, _): (i32, i64) = obj.call_method0("__dlpack_device__")?.extract()?;
        if kind != CPU {
            return Err(PyBufferError::new_err(format!(
                "Unsupported device_type: {kind}; only tensors in the memory of the CPU can be shared"
            )));
        }
    }
    let options = PyDict::new(py);
    options.set_item("max_version", (1, 0))?;
    let capsule = match obj.call_method("__dlpack__", (), Some(&options)) {
        // Libraries from before DLPack 1.0 do not accept the argument.
        Err(e) if e.is_instance_of::<PyTypeError>(py) => obj.call_method0("__dlpack__")?,
        result => result?,
    };
    Ok(capsule.cast_into::<PyCapsule>()?)
}
