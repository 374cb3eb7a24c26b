//! Singular values and vectors of matrices, stored by columns.

#[cfg(feature = "gpu")]
use super::gpu;
use super::{View, by_device, cpu, elements, results, same_device};
use crate::dtype::DType;
use crate::error::Result;

/// Matrices of at least as many rows as columns, and how many of their vectors are wanted.
pub struct Matrices {
    pub count: usize,
    pub rows: usize,
    pub columns: usize,
    pub left: usize,
    pub right: usize,
}

impl Matrices {
    /// Elements of the results of one: its left vectors, its values, its right vectors.
    pub fn each(&self) -> usize {
        self.left * self.rows + self.columns + self.right * self.columns
    }
}

/// The type that matrices are decomposed in where `x` lies.
pub fn compute_type(x: View) -> Result<DType> {
    by_device!(x.device(), cpu => Ok(DType::F64), gpu => gpu::svd::compute_type(x))
}

/// Decomposes dense finite matrices; `out` holds the results of one after the other. Both are of the computing type.
pub fn decompose(m: &Matrices, w: View, out: View) -> Result<()> {
    if out.layout.numel() == 0 {
        return Ok(());
    }
    by_device!(same_device([out, w])?,
        cpu => {
            let w = elements::<f64>(w);
            let size = m.rows * m.columns;
            cpu::parallel::for_chunks_mut(results::<f64>(out), m.each(), |i, out| {
                let (left, rest) = out.split_at_mut(m.left * m.rows);
                let (values, right) = rest.split_at_mut(m.columns);
                let factors = cpu::svd::Factors { left, values, right };
                cpu::svd::svd(w[i * size..][..size].to_vec(), m.rows, m.columns, factors);
            });
            Ok(())
        },
        gpu => gpu::svd::decompose(m, w, out)
    )
}
