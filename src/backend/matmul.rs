//! Products of matrices, alone or in batches.

#[cfg(feature = "gpu")]
use super::gpu;
use super::{View, by_device, cpu, elements, results, same_device};
use crate::dtype::{DType, Element};
use crate::error::Result;
use crate::with_dtype;

/// `out = a @ b + bias` for matrices, or for each pair of a batch. The dtype is float32, float64 or int64; operands have
/// any strides that are not negative, the bias is a dense row (of a matrix, not of a batch), the result is dense.
pub fn product(a: View, b: View, bias: Option<View>, out: View) -> Result<()> {
    let (mut first, mut second) = (None, None);
    let (a, b) = (a.aligned(&mut first)?, b.aligned(&mut second)?);
    by_device!(same_device([out, a, b].into_iter().chain(bias))?,
        cpu => {
            on_host(a, b, bias, out);
            Ok(())
        },
        gpu => gpu::matmul::product(a, b, bias, out)
    )
}

/// The matrix of the last two dimensions of the first batch entry.
fn matrix<'a, T: Element>(v: &View<'a>) -> cpu::matmul::MatRef<'a, T> {
    let (l, data) = (v.layout, v.storage.slice::<T>());
    let r = l.rank();
    cpu::matmul::MatRef {
        data: &data[l.offset.min(data.len())..],
        rs: l.strides[r - 2],
        cs: l.strides[r - 1],
    }
}

fn on_host(a: View, b: View, bias: Option<View>, out: View) {
    use cpu::matmul::{Activation, Bias, Epilogue, MatRef, batched_gemm, gemm, gemm_int};
    let r = a.layout.rank();
    let (m, k, n) = (a.layout.shape[r - 2], a.layout.shape[r - 1], b.layout.shape[r - 1]);
    let batch = if r == 3 { a.layout.shape[0] } else { 1 };
    let steps = if r == 3 { (a.layout.strides[0] as usize, b.layout.strides[0] as usize) } else { (0, 0) };
    with_dtype!(float out.dtype, T => {
        let c = results::<T>(out);
        let bias = match &bias {
            Some(v) => Bias::Row(elements::<T>(*v)),
            None => Bias::None,
        };
        let ep = Epilogue { alpha: 1.0, beta: 0.0, bias, act: Activation::None };
        if r == 2 {
            gemm::<T>(m, n, k, matrix(&a), matrix(&b), c, ep);
        } else {
            batched_gemm::<T>(batch, m, n, k, matrix(&a), steps.0, matrix(&b), steps.1, c, ep);
        }
    }, else {
        let c = results::<i64>(out);
        for (i, c) in c.chunks_mut((m * n).max(1)).enumerate() {
            let (p, q) = (matrix::<i64>(&a), matrix::<i64>(&b));
            let (p, q) =
                (MatRef { data: &p.data[i * steps.0..], ..p }, MatRef { data: &q.data[i * steps.1..], ..q });
            gemm_int(m, n, k, p, q, c);
        }
        if let Some(v) = bias {
            let row = elements::<i64>(v);
            c.chunks_mut(n.max(1)).for_each(|c| c.iter_mut().zip(row).for_each(|(c, b)| *c = c.wrapping_add(*b)));
        }
    });
}

/// The dtype that a product of a dtype is computed in.
pub const fn compute_type(d: DType) -> DType {
    match d {
        DType::F16 | DType::BF16 | DType::F32 => DType::F32,
        DType::F64 => DType::F64,
        _ => DType::I64,
    }
}
