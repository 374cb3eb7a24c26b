//! Products of matrices and vectors. Comments and names use shapes `b, m, k, n`.

mod added;
mod linear;

use std::borrow::Cow;

use smallvec::smallvec;

use super::schema::{Args, Out};
use super::{arith, view};
use crate::backend::matmul::{operand_dtype, product as matmul_kernel};
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::graph::{Attribute, Cx, Function, Grads, ModeGuard, SavedTensor, Visit, grad_enabled, record};
use crate::layout::{Dims, Layout, MemoryFormat, broadcast};
use crate::tensor::Tensor;
use crate::{ensure, ops};

pub(super) use added::record_added;

/// A tensor with non-negative strides and the compute dtype, as the product kernels require.
#[inline]
fn operand(t: &Tensor, compute: DType) -> Result<Cow<'_, Tensor>> {
    let fits = t.dtype() == compute && t.strides().iter().all(|&s| s >= 0);
    Ok(if fits { Cow::Borrowed(t) } else { Cow::Owned(t.copied(compute)?) })
}

fn same_dtype(a: &Tensor, b: &Tensor) -> Result<()> {
    ensure!(
        a.dtype() == b.dtype(),
        Runtime,
        "expected m1 and m2 to have the same dtype, but got: {} != {}",
        a.dtype().type_name(),
        b.dtype().type_name()
    );
    no_bools(a)
}

fn no_bools(a: &Tensor) -> Result<()> {
    ensure!(a.dtype() != DType::Bool, Error::DtypeNotImplemented { op: "addmm_impl_cpu_", dtype: a.dtype() });
    a.expect_common("addmm_impl_cpu_")
}

/// Checks the dtypes of a product that is added to `input`.
fn same_dtypes_added(input: &Tensor, a: &Tensor, b: &Tensor) -> Result<()> {
    for (name, t) in [("self", input), ("mat1", a)] {
        ensure!(
            t.dtype() == b.dtype(),
            Runtime,
            "{name} and mat2 must have the same dtype, but got {} and {}",
            t.dtype().scalar_name(),
            b.dtype().scalar_name()
        );
    }
    no_bools(a)
}

/// `a @ b` for matrices, plus a row `bias` if given; no history.
fn product(a: &Tensor, b: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let (m, n, dtype) = (a.shape()[0], b.shape()[1], a.dtype());
    let compute = operand_dtype(a.raw(), b.raw())?;
    let (x, y) = (operand(a, compute)?, operand(b, compute)?);
    let bias = bias.map(|t| t.as_dense(compute)).transpose()?;
    let out = x.new_empty([m, n])?;
    matmul_kernel(x.raw(), y.raw(), bias.as_ref().map(|t| t.raw()), out.raw())?;
    out.into_dense(dtype)
}

/// `a @ b` for each matrix of a batch; no history.
fn batched_product(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (batch, m, k, n) = (a.shape()[0], a.shape()[1], a.shape()[2], b.shape()[2]);
    let (shape, dtype) = ([batch, m, n], a.dtype());
    let compute = operand_dtype(a.raw(), b.raw())?;
    if shape.contains(&0) || k == 0 {
        return a.new_zeros(shape);
    }
    let (x, y) = (operand(a, compute)?, operand(b, compute)?);
    let out = x.new_empty(shape)?;
    matmul_kernel(x.raw(), y.raw(), None, out.raw())?;
    out.into_dense(dtype)
}

fn recorded_mm(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ensure!(a.rank() == 2, Runtime, "mm: self must be a matrix, got {}-D tensor", a.rank());
    ensure!(b.rank() == 2, Runtime, "mm: mat2 must be a matrix, got {}-D tensor", b.rank());
    ensure!(
        a.shape()[1] == b.shape()[0],
        Runtime,
        "mm: mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
        a.shape()[0],
        a.shape()[1],
        b.shape()[0],
        b.shape()[1]
    );
    same_dtype(a, b)?;
    record(product(a, b, None)?, &[a, b], |_| Product::new("MmBackward0", a, b))
}

fn recorded_bmm(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ensure!(a.rank() == 3, Runtime, "batch1 must be a 3D tensor");
    ensure!(b.rank() == 3, Runtime, "batch2 must be a 3D tensor");
    let (x, y) = (a.shape(), b.shape());
    ensure!(
        x[0] == y[0] && x[2] == y[1],
        Runtime,
        "Expected size for first two dimensions of batch2 tensor to be: [{}, {}] but got: [{}, {}].",
        x[0],
        x[2],
        y[0],
        y[1]
    );
    ensure!(
        a.dtype() == b.dtype(),
        Runtime,
        "expected scalar type {} but found {}",
        a.dtype().scalar_name(),
        b.dtype().scalar_name()
    );
    no_bools(a)?;
    record(batched_product(a, b)?, &[a, b], |_| Product::new("BmmBackward0", a, b))
}

/// The node of `mm` and `bmm`: the gradient of each factor is a product with the other one.
struct Product {
    node: &'static str,
    a: SavedTensor,
    b: SavedTensor,
}

impl Product {
    fn new(node: &'static str, a: &Tensor, b: &Tensor) -> Product {
        // PyTorch saves them in this order: mat2, self.
        let saved_b = SavedTensor::factor_if(a.requires_grad(), b);
        Product { node, a: SavedTensor::factor_if(b.requires_grad(), a), b: saved_b }
    }
}

/// The node of `mv` and `dot`.
struct VectorProduct {
    node: &'static str,
    a: SavedTensor,
    b: SavedTensor,
}

impl VectorProduct {
    fn new(node: &'static str, a: &Tensor, b: &Tensor) -> VectorProduct {
        VectorProduct {
            node,
            a: SavedTensor::input_if(b.requires_grad(), a),
            b: SavedTensor::input_if(a.requires_grad(), b),
        }
    }
}

impl Function for VectorProduct {
    fn name(&self) -> &'static str {
        self.node
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        // A 0-d gradient belongs to an inner product.
        let by_a = |b: &Tensor| if g.rank() == 0 { arith::mul(g, b) } else { arith::mul(&add_dim(g, 1)?, b) };
        let by_b = |a: &Tensor| if g.rank() == 0 { arith::mul(g, a) } else { mv(&mt(a)?, g) };
        let a = if cx.needs(1) { Some(self.a.get(cx)?) } else { None };
        let da = if cx.needs(0) { Some(by_a(&self.b.get(cx)?)?) } else { None };
        let db = a.map(|a| by_b(&a)).transpose()?;
        Ok(smallvec![da, db])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("self", &self.a);
        visit(if self.node == "DotBackward0" { "tensor" } else { "vec" }, &self.b);
    }
}

/// The last two dimensions swapped.
fn mt(t: &Tensor) -> Result<Tensor> {
    view::swap(t, t.rank() - 2, t.rank() - 1)
}

impl Function for Product {
    fn name(&self) -> &'static str {
        self.node
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        let times = if g.rank() == 3 { bmm } else { mm };
        let da = if cx.needs(0) { Some(times(g, &mt(&self.b.get(cx)?)?)?) } else { None };
        let db = if cx.needs(1) { Some(times(&mt(&self.a.get(cx)?)?, g)?) } else { None };
        Ok(smallvec![da, db])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("self", &self.a);
        visit("mat2", &self.b);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        if self.node == "MmBackward0" {
            visit("self_sym_sizes", Attribute::InputShape);
        }
    }
}

/// Fails for operands of `matmul` without dimensions.
pub(in crate::ops) fn expect_dimensions(a: &Tensor, b: &Tensor) -> Result<()> {
    ensure!(
        a.rank() > 0 && b.rank() > 0,
        Runtime,
        "both arguments to matmul need to be at least 1D, but they are {}D and {}D",
        a.rank(),
        b.rank()
    );
    Ok(())
}

fn product_of_any(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    expect_dimensions(a, b)?;
    match (a.rank(), b.rank()) {
        (1, 1) => dot(a, b),
        (2, 2) => mm(a, b),
        (2, 1) => mv(a, b),
        (1, 2) => view::unsafe_squeeze(&mm(&view::unsqueeze(a, 0)?, b)?, 0),
        // A batch of matrices times one vector is computed as one tall product.
        (1, _) => rows_times(&mt(b)?, a),
        (_, 1) => rows_times(a, b),
        // A batch of matrices times one matrix is computed as one tall product.
        (_, 2) => {
            let k = a.shape()[a.rank() - 1];
            let rows = a.shape()[..a.rank() - 1].iter().product();
            let flat = mm(&view::reshape_to(a, &Dims::from([rows, k]))?, b)?;
            let mut shape = a.shape().clone();
            let last = shape.len() - 1;
            shape[last] = b.shape()[1];
            view::unsafe_view(&flat, &shape)
        }
        // One matrix times a batch is computed as the transpose of such a product, so that its gradient is one product
        // too.
        (2, _) if a.requires_grad() => {
            let out = mt(&matmul(&mt(b)?, &view::t_of(a)?)?)?;
            if out.is_contiguous() { Ok(out) } else { arith::clone_in(&out, MemoryFormat::Contiguous) }
        }
        (3, 3) if b.shape()[0] == 1 && a.shape()[0] != 1 && b.requires_grad() => matmul(a, &only(b)?),
        (3, 3) if a.shape()[0] == 1 && b.shape()[0] != 1 && a.requires_grad() => matmul(&only(a)?, b),
        _ => broadcast_matmul(a, b),
    }
}

/// The only matrix of a batch of one.
fn only(t: &Tensor) -> Result<Tensor> {
    view::squeeze(t, &[0])
}

/// The product of every row of `a`, of any rank, with the vector `x`.
fn rows_times(a: &Tensor, x: &Tensor) -> Result<Tensor> {
    let last = a.rank() - 1;
    let rows = a.shape()[..last].iter().product();
    let flat = mv(&view::reshape_to(a, &Dims::from([rows, a.shape()[last]]))?, x)?;
    view::unsafe_view(&flat, &a.shape()[..last].into())
}

fn add_dim(t: &Tensor, dim: usize) -> Result<Tensor> {
    let mut shape = t.shape().clone();
    shape.insert(dim, 1);
    view::reshape_to(t, &shape)
}

fn broadcast_matmul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (ra, rb) = (a.rank(), b.rank());
    let (m, k, n) = (a.shape()[ra - 2], a.shape()[ra - 1], b.shape()[rb - 1]);
    let batch = broadcast("matmul", &a.shape()[..ra - 2].into(), &b.shape()[..rb - 2].into())?;
    let count = batch.numel();
    let flat = |t: &Tensor, rows: usize, cols: usize| -> Result<Tensor> {
        let mut full = batch.clone();
        full.push(rows);
        full.push(cols);
        view::reshape_to(&view::expand_to(t, &full)?, &Dims::from([count, rows, cols]))
    };
    let out = bmm(&flat(a, m, k)?, &flat(b, b.shape()[rb - 2], n)?)?;
    let mut shape = batch.clone();
    shape.push(m);
    shape.push(n);
    view::unsafe_view(&out, &shape)
}

fn recorded_mv(a: &Tensor, x: &Tensor) -> Result<Tensor> {
    ensure!(
        a.rank() == 2 && x.rank() == 1,
        Runtime,
        "vector + matrix @ vector expected, got {}, {}, {}",
        1,
        a.rank(),
        x.rank()
    );
    ensure!(
        a.shape()[1] == x.shape()[0],
        Runtime,
        "size mismatch, got input ({}), mat ({}x{}), vec ({})",
        a.shape()[0],
        a.shape()[0],
        a.shape()[1],
        x.shape()[0]
    );
    same_dtype(a, x)?;
    let column = x.with_layout(x.layout().unsqueeze(1));
    let out = product(a, &column, None)?;
    let out = out.with_layout(out.layout().select(1, 0));
    record(out, &[a, x], |_| VectorProduct::new("MvBackward0", a, x))
}

fn recorded_dot(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ensure!(
        a.rank() == 1 && b.rank() == 1,
        Runtime,
        "1D tensors expected, but got {}D and {}D tensors",
        a.rank(),
        b.rank()
    );
    ensure!(
        a.dtype() == b.dtype(),
        Runtime,
        "dot : expected both vectors to have same dtype, but found {} and {}",
        a.dtype().scalar_name(),
        b.dtype().scalar_name()
    );
    ensure!(
        a.numel() == b.numel(),
        Runtime,
        "inconsistent tensor size, expected tensor [{}] and src [{}] to have the same number of elements, but got {} \
         and {} elements respectively",
        a.numel(),
        b.numel(),
        a.numel(),
        b.numel()
    );
    no_bools(a)?;
    let (row, column) = (a.with_layout(a.layout().unsqueeze(0)), b.with_layout(b.layout().unsqueeze(1)));
    let out = product(&row, &column, None)?.with_layout(Layout::contiguous(Dims::default()));
    record(out, &[a, b], |_| VectorProduct::new("DotBackward0", a, b))
}

/// `beta * input + alpha * times(a, b)`, for `addmm` and similar operations. Half types are rounded only once.
pub(super) fn add_product(a: &Args, times: fn(&Tensor, &Tensor) -> Result<Tensor>) -> Result<Out> {
    let (input, x, y) = (a.tensor(0)?, a.tensor(1)?, a.tensor(2)?);
    let dtype = x.dtype();
    if a.name.starts_with("addmm") {
        same_dtypes_added(input, x, y)?;
        let (m, n) = (x.shape(), y.shape());
        ensure!(
            m.len() != 2 || n.len() != 2 || m[1] == n[0],
            Runtime,
            "addmm: mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
            m[0],
            m[1],
            n[0],
            n[1]
        );
    } else if input.dtype() != dtype || y.dtype() != dtype {
        return Err(dtypes_differ(a.name, input.dtype(), dtype, y.dtype()));
    }
    // For integer tensors the factors are converted to integers.
    let factor = |i| a.number(i).map(|s| if dtype.is_float() { s } else { Scalar::Int(s.to_i64()) });
    let (beta, alpha) = (factor(3)?, factor(4)?);
    let inputs = [input, x, y];
    if grad_enabled() && dtype.is_float() && inputs.iter().any(|t| t.requires_grad()) {
        let plain = ModeGuard::grad(false);
        let out = sum_of_product(a.name, inputs, beta, alpha, times)?;
        drop(plain);
        return Ok(record_added(a.name, out, inputs, beta, alpha)?.into());
    }
    Ok(sum_of_product(a.name, inputs, beta, alpha, times)?.into())
}

fn sum_of_product(
    op: &'static str,
    [input, x, y]: [&Tensor; 3],
    beta: Scalar,
    alpha: Scalar,
    times: fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let dtype = x.dtype();
    if dtype.is_half() {
        let wide = |t: &Tensor| arith::to_dtype(t, DType::F32);
        let sum = scaled_sum(op, &wide(input)?, beta, times(&wide(x)?, &wide(y)?)?, alpha)?;
        return arith::to_dtype(&sum, dtype);
    }
    scaled_sum(op, input, beta, times(x, y)?, alpha)
}

fn multiplied(t: Tensor, factor: Scalar) -> Result<Tensor> {
    if factor.to_f64() == 1.0 { Ok(t) } else { super::rows::mul.call(&[(&t).into(), factor.into()], &[]) }
}

/// The error of `addmm` and similar operations for operands of different dtypes.
#[cold]
fn dtypes_differ(op: &str, input: DType, x: DType, y: DType) -> Error {
    let names = [input, x, y].map(DType::scalar_name);
    Error::Runtime(match op {
        "baddbmm" | "addbmm" => format!(
            "Input dtypes must be the same, got: input {}, batch1: {}, batch2: {}",
            input.type_name(),
            x.type_name(),
            y.type_name()
        ),
        _ => format!(
            "{op} input tensors must have the same dtype, but got {}, {}, and {}",
            names[0], names[1], names[2]
        ),
    })
}

fn scaled_sum(
    op: &'static str,
    input: &Tensor,
    beta: Scalar,
    product: Tensor,
    alpha: Scalar,
) -> Result<Tensor> {
    ensure!(
        broadcast(op, product.shape(), input.shape())? == *product.shape(),
        Runtime,
        "The expanded size of the tensor must match the existing size ({op}: input {}, result {})",
        input.shape(),
        product.shape()
    );
    let product = multiplied(product, alpha)?;
    if beta.is_zero() {
        return Ok(product);
    }
    arith::add(&multiplied(input.clone(), beta)?, &product)
}

ops! {
    ///  Product of two tensors: inner product, matrix product, or a broadcast batch of matrix products.
    "matmul" BOTH | LINALG | OUT, autocast LOWER, out SAME, batch PRODUCT {
        pub fn matmul(input: Tensor, other: Tensor) -> Tensor = product_of_any;
    }
    ///  Product of two matrices.
    "mm" BOTH | OUT, autocast LOWER, out SAME, batch PRODUCT {
        pub fn mm(input: Tensor, mat2: Tensor) -> Tensor = recorded_mm;
    }
    ///  Products of two batches of matrices.
    "bmm" BOTH | OUT, autocast LOWER, out SAME, batch PRODUCT {
        pub fn bmm(input: Tensor, mat2: Tensor) -> Tensor = recorded_bmm;
    }
    ///  Product of a matrix and a vector.
    "mv" BOTH | OUT, autocast LOWER_ON_GPU, out SAME, batch PRODUCT {
        pub fn mv(input: Tensor, vec: Tensor) -> Tensor = recorded_mv;
    }
    ///  Inner product of two vectors.
    "dot" BOTH | OUT, autocast WIDEST_ON_GPU, out DOT, batch PRODUCT {
        pub fn dot(input: Tensor, tensor: Tensor) -> Tensor = recorded_dot;
    }
    /// `beta * input + alpha * mat1 @ mat2`.
    "addmm" ALL, autocast LOWER, out SAME, batch ADDED_PRODUCT {
        (input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1) =>
            |a| add_product(a, recorded_mm);
    }
    /// `beta * input + alpha * batch1 @ batch2` for each matrix of a batch.
    "baddbmm" ALL, autocast LOWER, out SAME, batch ADDED_PRODUCT {
        (input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1) =>
            |a| add_product(a, recorded_bmm);
    }
    ///  `input @ weightᵀ + bias`.
    "linear" NN | NATIVE | OUT, autocast LOWER, batch LINEAR {
        pub fn linear(input: Tensor, weight: Tensor, bias: Tensor? = None) -> Tensor = linear::linear_impl;
    }
}
