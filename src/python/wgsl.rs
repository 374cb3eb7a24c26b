//! User-defined WGSL kernels: the base of `rgrad.library.wgsl_op`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::convert::{number, tensor_list};
use super::error::IntoPy;
use crate::backend::View;
use crate::backend::custom_kernel::{CustomKernel, of};
use crate::dtype::Scalar;

/// A kernel whose WGSL was validated.
#[pyclass(module = "rgrad._C", name = "_WgslKernel", frozen)]
pub struct PyWgslKernel(CustomKernel);

#[pymethods]
impl PyWgslKernel {
    #[new]
    fn new(name: &str, source: &str) -> PyResult<PyWgslKernel> {
        Ok(PyWgslKernel(CustomKernel::new(name, source).py()?))
    }

    /// Names of the arrays that it writes.
    #[getter]
    fn results(&self) -> Vec<&str> {
        self.0.tensors(true).collect()
    }

    /// Names of the arrays that it reads.
    #[getter]
    fn inputs(&self) -> Vec<&str> {
        self.0.tensors(false).collect()
    }

    /// Names of the numbers that it takes.
    #[getter]
    fn numbers(&self) -> Vec<&str> {
        self.0.numbers().collect()
    }

    /// Runs the kernel on dense tensors with storage offset 0.
    fn launch(
        &self,
        py: Python<'_>,
        results: &Bound<'_, PyAny>,
        inputs: &Bound<'_, PyAny>,
        numbers: &Bound<'_, PyDict>,
        invocations: usize,
    ) -> PyResult<()> {
        let (results, inputs) = (tensor_list(results)?, tensor_list(inputs)?);
        let numbers: Vec<(String, Scalar)> = numbers
            .iter()
            .map(|(name, value)| match number(&value) {
                Some(value) => Ok((name.extract()?, value)),
                None => Err(PyTypeError::new_err(format!("'{name}' is not a number"))),
            })
            .collect::<PyResult<_>>()?;
        py.detach(|| {
            let written: Vec<View> = results.iter().map(|t| t.raw()).collect();
            let read: Vec<View> = inputs.iter().map(|t| t.raw()).collect();
            let Some(first) = written.first() else { return Ok(()) };
            self.0.launch(of(*first)?, &written, &read, &numbers, invocations)
        })
        .py()
    }
}
