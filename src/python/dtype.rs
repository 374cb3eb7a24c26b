//! `torch.dtype`, `torch.device`, `torch.memory_format` and `torch.Generator` objects.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyNotImplementedError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyTuple};

use super::error::IntoPy;
use crate::device::Device;
use crate::dtype::DType;
use crate::layout::MemoryFormat;
use crate::ops::random::{Generator, State};
use crate::ops::set_default_device;

/// An element type, such as `rgrad.float32`. There is one object per dtype.
#[pyclass(frozen, name = "dtype", module = "rgrad")]
pub struct PyDType(pub DType);

#[pymethods]
impl PyDType {
    fn __repr__(&self) -> String {
        self.0.to_string()
    }

    fn __hash__(&self) -> isize {
        self.0 as isize
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyDType>().is_ok_and(|o| o.get().0 == self.0)
    }

    /// Pickled as the name of an attribute of the package.
    fn __reduce__(&self) -> &'static str {
        self.0.name()
    }

    #[getter]
    fn is_floating_point(&self) -> bool {
        self.0.is_float()
    }

    #[getter]
    fn is_complex(&self) -> bool {
        false
    }

    #[getter]
    fn is_signed(&self) -> bool {
        self.0.is_signed()
    }

    #[getter]
    fn itemsize(&self) -> usize {
        self.0.size()
    }

    /// The dtype of the real part; there are no complex dtypes.
    fn to_real(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn to_complex(&self) -> PyResult<()> {
        Err(match self.0.is_float() && !self.0.is_float8() {
            true => PyNotImplementedError::new_err(format!(
                "{} has no complex counterpart: complex dtypes are not supported",
                self.0
            )),
            false => {
                PyRuntimeError::new_err(format!("Unknown Complex ScalarType for {}", self.0.scalar_name()))
            }
        })
    }
}

static DTYPES: PyOnceLock<Vec<Py<PyDType>>> = PyOnceLock::new();

/// The object of a dtype.
pub fn dtype_object(py: Python<'_>, d: DType) -> PyResult<Py<PyDType>> {
    let all = DTYPES.get_or_try_init(py, || {
        DType::ALL.iter().map(|&d| Py::new(py, PyDType(d))).collect::<PyResult<Vec<_>>>()
    })?;
    Ok(all[d as usize].clone_ref(py))
}

/// Adds the dtypes and their aliases to the module.
pub fn add_dtypes(m: &Bound<'_, PyModule>) -> PyResult<()> {
    for d in DType::ALL {
        m.add(d.name(), dtype_object(m.py(), d)?)?;
    }
    for (alias, d) in [
        ("float", DType::F32),
        ("double", DType::F64),
        ("half", DType::F16),
        ("short", DType::I16),
        ("int", DType::I32),
        ("long", DType::I64),
    ] {
        m.add(alias, dtype_object(m.py(), d)?)?;
    }
    Ok(())
}

/// The order of a tensor's dimensions in memory, such as `rgrad.channels_last`.
#[pyclass(frozen, name = "memory_format", module = "rgrad")]
pub struct PyMemoryFormat(pub MemoryFormat);

#[pymethods]
impl PyMemoryFormat {
    fn __repr__(&self) -> String {
        format!("torch.{}", self.0.name())
    }

    /// Pickled as the name of an attribute of the package.
    fn __reduce__(&self) -> &'static str {
        self.0.name()
    }
}

/// Adds the memory formats to the module; there is one object per format.
pub fn add_memory_formats(m: &Bound<'_, PyModule>) -> PyResult<()> {
    MemoryFormat::ALL.into_iter().try_for_each(|f| m.add(f.name(), Py::new(m.py(), PyMemoryFormat(f))?))
}

thread_local! {
    /// The default devices that were replaced by entered contexts.
    static ENTERED: RefCell<Vec<Device>> = const { RefCell::new(Vec::new()) };
}

/// A device: `device("cpu")`. As a context manager it sets the device of new tensors.
#[pyclass(frozen, name = "device", module = "rgrad")]
pub struct PyDevice {
    pub device: Device,
    index: Option<usize>,
}

impl PyDevice {
    pub fn of(device: Device) -> PyDevice {
        PyDevice { device, index: device.index() }
    }
}

#[pymethods]
impl PyDevice {
    #[new]
    #[pyo3(signature = (r#type, index=None))]
    fn new(r#type: &Bound<'_, PyAny>, index: Option<i64>) -> PyResult<PyDevice> {
        let whole = r#type.cast::<PyDevice>().ok().filter(|_| index.is_none());
        if let Some(d) = whole {
            return Ok(PyDevice { device: d.get().device, index: d.get().index });
        }
        // A number alone refers to an accelerator.
        if index.is_none()
            && !r#type.is_instance_of::<PyBool>()
            && let Ok(number) = r#type.extract::<i64>()
        {
            let number = usize::try_from(number)
                .map_err(|_| PyRuntimeError::new_err("Device index must not be negative"))?;
            let device = Device::parse(&format!("gpu:{number}")).py()?;
            return Ok(PyDevice { device, index: Some(number) });
        }
        let name: String = r#type.extract().map_err(|_| {
            PyTypeError::new_err(format!(
                "device(): argument 'type' (position 1) must be str, not {}",
                type_name(r#type)
            ))
        })?;
        let index = index.map(usize::try_from).transpose();
        let index = index.map_err(|_| PyRuntimeError::new_err("Device index must not be negative"))?;
        let device = Device::parse(&name).py()?;
        let given = name.split_once(':').and_then(|(_, i)| i.parse().ok());
        if given.is_some() && index.is_some() {
            return Err(PyRuntimeError::new_err(format!(
                "type (string) must not include an index because index was passed explicitly: {name}"
            )));
        }
        let index = index.or(given);
        let device = match (device, index) {
            (Device::Gpu(_), Some(i)) => Device::parse(&format!("gpu:{i}")).py()?,
            _ => device,
        };
        Ok(PyDevice { device, index })
    }

    /// Makes this the device of new tensors until `__exit__`.
    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        ENTERED.with_borrow_mut(|e| e.push(set_default_device(slf.get().device)));
        slf
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, _args: &Bound<'_, PyTuple>) {
        if let Some(before) = ENTERED.with_borrow_mut(Vec::pop) {
            set_default_device(before);
        }
    }

    #[getter]
    fn r#type(&self) -> &'static str {
        self.device.kind()
    }

    #[getter]
    fn index(&self) -> Option<usize> {
        self.index
    }

    fn __str__(&self) -> String {
        match self.index {
            Some(i) => format!("{}:{i}", self.device.kind()),
            None => self.device.kind().to_string(),
        }
    }

    fn __repr__(&self) -> String {
        match self.index {
            Some(i) => format!("device(type='{}', index={i})", self.device.kind()),
            None => format!("device(type='{}')", self.device.kind()),
        }
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.device.kind(), self.index).hash(&mut hasher);
        hasher.finish()
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<bool> {
        let same = other
            .cast::<PyDevice>()
            .is_ok_and(|o| o.get().device.kind() == self.device.kind() && o.get().index == self.index);
        match op {
            CompareOp::Eq => Ok(same),
            CompareOp::Ne => Ok(!same),
            _ => Err(PyTypeError::new_err("comparison not implemented")),
        }
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let args = (slf.get().__str__(),).into_pyobject(py)?;
        (slf.get_type(), args).into_pyobject(py)
    }
}

/// Parses a device argument.
pub fn device_of(obj: &Bound<'_, PyAny>) -> PyResult<Device> {
    if let Ok(d) = obj.cast::<PyDevice>() {
        return Ok(d.get().device);
    }
    if let Ok(name) = obj.extract::<&str>() {
        return Device::parse(name).py();
    }
    if let Ok(index) = obj.extract::<u8>() {
        return Device::parse(&format!("cuda:{index}")).py();
    }
    if obj.extract::<i64>().is_ok_and(|index| index < 0) {
        return Err(PyRuntimeError::new_err("Device index must not be negative"));
    }
    Err(PyTypeError::new_err(format!("expected a device or a device string, not {}", type_name(obj))))
}

/// The class name of an object as PyTorch's messages show it: with its module unless it is built in.
pub fn type_name(obj: &Bound<'_, PyAny>) -> String {
    let class = obj.get_type();
    let Ok(name) = class.name() else { return "object".into() };
    let module = class.module().map_or(String::new(), |m| m.to_string());
    match module.as_str() {
        "rgrad" if name != "Tensor" => format!("torch.{name}"),
        "numpy" => format!("numpy.{name}"),
        _ => name.to_string(),
    }
}

/// A random number generator.
#[pyclass(frozen, name = "Generator", module = "rgrad")]
pub struct PyGenerator(pub Arc<Generator>);

#[pymethods]
impl PyGenerator {
    #[new]
    #[pyo3(signature = (device=None))]
    fn new(device: Option<&Bound<'_, PyAny>>) -> PyResult<PyGenerator> {
        if let Some(d) = device {
            device_of(d)?;
        }
        Ok(PyGenerator(Arc::new(Generator::new(67_280_421_310_721))))
    }

    /// Sets the seed and restarts the stream; returns the generator.
    fn manual_seed<'py>(slf: &Bound<'py, Self>, seed: i128) -> PyResult<Bound<'py, Self>> {
        let seed = seed_of(seed)?;
        slf.get().0.set_state(State { seed, offset: 0 });
        Ok(slf.clone())
    }

    /// Sets and returns a seed that differs on every call.
    fn seed(&self) -> u64 {
        let nanos = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |d| d.as_nanos() as u64);
        let seed = nanos ^ (std::process::id() as u64) << 32;
        self.0.set_state(State { seed, offset: 0 });
        seed
    }

    fn initial_seed(&self) -> u64 {
        self.0.state().seed
    }

    /// Seed and position as 16 bytes.
    fn _state(&self) -> [u8; 16] {
        let s = self.0.state();
        let mut out = [0; 16];
        out[..8].copy_from_slice(&s.seed.to_le_bytes());
        out[8..].copy_from_slice(&s.offset.to_le_bytes());
        out
    }

    fn _set_state(&self, bytes: [u8; 16]) {
        let word = |i: usize| {
            let mut w = [0; 8];
            w.copy_from_slice(&bytes[i..i + 8]);
            u64::from_le_bytes(w)
        };
        self.0.set_state(State { seed: word(0), offset: word(8) });
    }

    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice::of(Device::Cpu)
    }
}

/// Converts a seed as PyTorch does: 64 bits, negative seeds wrap.
fn seed_of(seed: i128) -> PyResult<u64> {
    if seed < i64::MIN as i128 || seed > u64::MAX as i128 {
        return Err(PyValueError::new_err("Overflow when unpacking long long"));
    }
    Ok(seed as u64)
}
