//! The node of `addmm` and similar operations: a scaled product plus a scaled tensor, recorded as one node.

use smallvec::smallvec;

use super::{add_dim, bmm, mm, mt, multiplied, mv};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::graph::{Attribute, Cx, Function, Grads, SavedTensor, Visit, record};
use crate::layout::Dims;
use crate::ops::{arith, view};
use crate::tensor::Tensor;

/// Records `beta * input + alpha * product` as one node.
pub fn record_added(
    op: &str,
    out: Tensor,
    inputs: [&Tensor; 3],
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    let [_, x, y] = inputs;
    record(out, &inputs, |_| AddProduct {
        kind: Added::of(op, x, y),
        a: SavedTensor::factor_if(y.requires_grad(), x),
        b: SavedTensor::factor_if(x.requires_grad(), y),
        beta,
        alpha,
    })
}

/// The kind of the product.
#[derive(Clone, Copy)]
enum Added {
    Matrices,
    Batch,
    /// Sizes of the products: their number, rows and columns.
    SummedBatch([usize; 3]),
    MatrixVector,
    Vectors,
}

impl Added {
    fn of(op: &str, x: &Tensor, y: &Tensor) -> Added {
        match op.trim_end_matches('_') {
            "baddbmm" => Added::Batch,
            "addbmm" => Added::SummedBatch([x.shape()[0], x.shape()[1], y.shape()[2]]),
            "addmv" => Added::MatrixVector,
            "addr" => Added::Vectors,
            _ => Added::Matrices,
        }
    }
}

/// The node of `addmm` and similar operations.
struct AddProduct {
    kind: Added,
    a: SavedTensor,
    b: SavedTensor,
    beta: Scalar,
    alpha: Scalar,
}

impl AddProduct {
    fn by_a(&self, g: &Tensor, b: &Tensor) -> Result<Tensor> {
        match self.kind {
            Added::Matrices => mm(g, &mt(b)?),
            Added::Batch => bmm(g, &mt(b)?),
            Added::SummedBatch(_) => bmm(&each(g, b)?, &mt(b)?),
            Added::MatrixVector => arith::mul(&add_dim(g, 1)?, b),
            Added::Vectors => mv(g, b),
        }
    }

    fn by_b(&self, g: &Tensor, a: &Tensor) -> Result<Tensor> {
        match self.kind {
            Added::Matrices => mm(&mt(a)?, g),
            Added::Batch => bmm(&mt(a)?, g),
            Added::SummedBatch(_) => bmm(&mt(a)?, &each(g, a)?),
            Added::MatrixVector => mv(&mt(a)?, g),
            Added::Vectors => mv(&mt(g)?, a),
        }
    }
}

/// Expands a matrix to a batch.
fn each(g: &Tensor, batch: &Tensor) -> Result<Tensor> {
    view::expand_to(g, &Dims::from([batch.shape()[0], g.shape()[0], g.shape()[1]]))
}

impl Function for AddProduct {
    fn name(&self) -> &'static str {
        match self.kind {
            Added::Matrices => "AddmmBackward0",
            Added::Batch => "BaddbmmBackward0",
            Added::SummedBatch(_) => "AddbmmBackward0",
            Added::MatrixVector => "AddmvBackward0",
            Added::Vectors => "AddrBackward0",
        }
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None, None]) };
        let mut out: Grads = smallvec![None, None, None];
        if cx.needs(0) {
            out[0] = Some(multiplied(g.clone(), self.beta)?);
        }
        let a = if cx.needs(2) { Some(self.a.get(cx)?) } else { None };
        if cx.needs(1) {
            out[1] = Some(multiplied(self.by_a(g, &self.b.get(cx)?)?, self.alpha)?);
        }
        if let Some(a) = a {
            out[2] = Some(multiplied(self.by_b(g, &a)?, self.alpha)?);
        }
        Ok(out)
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        let (a, b) = match self.kind {
            Added::Matrices => ("mat1", "mat2"),
            Added::Batch | Added::SummedBatch(_) => ("batch1", "batch2"),
            Added::MatrixVector => ("mat", "vec"),
            Added::Vectors => ("vec1", "vec2"),
        };
        visit(a, &self.a);
        visit(b, &self.b);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("beta", Attribute::Number(self.beta));
        visit("alpha", Attribute::Number(self.alpha));
        if let Added::SummedBatch([n, rows, columns]) = self.kind {
            visit("batch1_sym_argsize_0", Attribute::Int(n as i64));
            visit("batch1_sym_argsize_1", Attribute::Int(rows as i64));
            visit("batch2_sym_argsize_2", Attribute::Int(columns as i64));
        }
    }
}
