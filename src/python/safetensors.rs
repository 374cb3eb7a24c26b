//! The safetensors file format, implemented with its own crate.

use std::borrow::Cow;
use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use safetensors::tensor::{SafeTensors, View, serialize, serialize_to_file};
use safetensors::{Dtype, SafeTensorError};

use super::dtype::{PyDType, dtype_object};
use super::tensor::{PyTensor, TensorObject};
use crate::dtype::DType;
use crate::tensor::Tensor;

const DTYPES: [(DType, Dtype); 18] = [
    (DType::Bool, Dtype::BOOL),
    (DType::U8, Dtype::U8),
    (DType::I8, Dtype::I8),
    (DType::I16, Dtype::I16),
    (DType::I32, Dtype::I32),
    (DType::I64, Dtype::I64),
    (DType::F16, Dtype::F16),
    (DType::BF16, Dtype::BF16),
    (DType::F32, Dtype::F32),
    (DType::F64, Dtype::F64),
    (DType::U16, Dtype::U16),
    (DType::U32, Dtype::U32),
    (DType::U64, Dtype::U64),
    (DType::F8E4M3FN, Dtype::F8_E4M3),
    (DType::F8E5M2, Dtype::F8_E5M2),
    (DType::F8E4M3FNUZ, Dtype::F8_E4M3FNUZ),
    (DType::F8E5M2FNUZ, Dtype::F8_E5M2FNUZ),
    (DType::F8E8M0FNU, Dtype::F8_E8M0),
];

/// A dense CPU tensor, as the crate expects it.
struct Stored {
    tensor: Tensor,
    dtype: Dtype,
}

impl View for Stored {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        self.tensor.shape()
    }

    fn data(&self) -> Cow<'_, [u8]> {
        // The slice exists, since `stored` made the tensor dense. An empty result would be rejected for its length.
        Cow::Borrowed(self.tensor.slice_bytes().unwrap_or_default())
    }

    fn data_len(&self) -> usize {
        self.tensor.numel() * self.tensor.dtype().size()
    }
}

fn stored(py: Python<'_>, tensors: HashMap<String, Py<PyTensor>>) -> PyResult<Vec<(String, Stored)>> {
    tensors
        .into_iter()
        .map(|(name, t)| {
            let tensor = t.get().inner(py);
            let Some((_, dtype)) = DTYPES.iter().find(|(d, _)| *d == tensor.dtype()) else {
                return Err(PyValueError::new_err(format!("safetensors has no dtype for `{name}`")));
            };
            Ok((name, Stored { tensor, dtype: *dtype }))
        })
        .collect()
}

fn refused(what: &str, e: SafeTensorError) -> PyErr {
    PyValueError::new_err(format!("Error while {what}: {e}"))
}

/// Returns the content of a file with these dense CPU tensors as bytes, or writes it to a path.
#[pyfunction(name = "_safetensors_save")]
pub fn save<'py>(
    py: Python<'py>,
    tensors: HashMap<String, Py<PyTensor>>,
    metadata: Option<HashMap<String, String>>,
    path: Option<std::path::PathBuf>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let tensors = stored(py, tensors)?;
    match path {
        Some(path) => {
            py.detach(|| serialize_to_file(tensors, metadata, &path)).map_err(|e| match e {
                SafeTensorError::IoError(e) => e.into(),
                e => refused("serializing", e),
            })?;
            Ok(None)
        }
        None => {
            let bytes = py.detach(|| serialize(tensors, metadata)).map_err(|e| refused("serializing", e))?;
            Ok(Some(PyBytes::new(py, &bytes)))
        }
    }
}

/// The content of a file, given as a uint8 tensor: for each name the dtype, the shape, and the start and end of the
/// elements. Validates the complete header.
#[pyfunction(name = "_safetensors_index")]
pub fn index<'py>(py: Python<'py>, file: &Bound<'py, PyTensor>) -> PyResult<Bound<'py, PyDict>> {
    let bytes = file.tensor();
    let bytes = bytes.slice::<u8>().map_err(|e| PyValueError::new_err(e.to_string()))?;
    let failed = |e| refused("deserializing header", e);
    let (header, metadata) = SafeTensors::read_metadata(bytes).map_err(failed)?;
    // The header is preceded by its length in eight bytes.
    let data = 8 + header;
    let out = PyDict::new(py);
    for name in metadata.offset_keys() {
        let Some(info) = metadata.info(&name) else { continue };
        let Some((dtype, _)) = DTYPES.iter().find(|(_, d)| *d == info.dtype) else {
            return Err(PyValueError::new_err(format!(
                "dtype {:?} of tensor `{name}` is not supported",
                info.dtype
            )));
        };
        let dtype: Py<PyDType> = dtype_object(py, *dtype)?;
        let (begin, end) = info.data_offsets;
        out.set_item(name, (dtype, info.shape.clone(), data + begin, data + end))?;
    }
    Ok(out)
}
