//! Products of matrices and vectors, as products of values with as many mapped dimensions as both have.

use super::BatchCall;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::layout::Dims;
use crate::ops::pointwise::Arg;
use crate::ops::schema::{Out, Value};
use crate::ops::{arith, rows, view};
use crate::tensor::Tensor;
use crate::{bail, ensure};

/// `matmul` and its special cases, of two tensors.
pub fn product(c: &BatchCall) -> Result<Out> {
    let (a, b) = two(c)?;
    check(c.op_name(), a, b)?;
    let out = match c.op_name() {
        "outer" => {
            let (a, b) = (view::unsqueeze(&c.aligned(a, 1)?, -1)?, view::unsqueeze(&c.aligned(b, 1)?, -2)?);
            arith::mul(&a, &b)?
        }
        _ => times(c, a, b)?,
    };
    Ok(Out::Tensor(c.batched(out)?))
}

fn two<'a>(c: &'a BatchCall) -> Result<(&'a Tensor, &'a Tensor)> {
    match c.values {
        [Value::Tensor(a), Value::Tensor(b), ..] => Ok((a, b)),
        _ => bail!(Type, "{}(): arguments must be Tensors", c.op_name()),
    }
}

/// What the special case says about ranks and dtypes; sizes are checked by the product.
fn check(op: &str, a: &Tensor, b: &Tensor) -> Result<()> {
    let (wanted, said) = match op {
        "mm" => ((2, 2), "matrices"),
        "bmm" => ((3, 3), "batches of matrices"),
        "mv" => ((2, 1), "a matrix and a vector"),
        "dot" | "vdot" | "outer" => ((1, 1), "vectors"),
        _ => return crate::ops::matmul::expect_dimensions(a, b),
    };
    ensure!(
        (a.rank(), b.rank()) == wanted,
        Runtime,
        "{op}: expected {said}, Shape mismatch: got input with {}D and {}D tensors",
        a.rank(),
        b.rank()
    );
    if op == "bmm" {
        ensure!(
            a.shape()[0] == b.shape()[0],
            Runtime,
            "batch1 and batch2 must have same number of batches, got {} and {}",
            a.shape()[0],
            b.shape()[0]
        );
    }
    Ok(())
}

/// The value of the product, with all mapped dimensions.
pub(super) fn times(c: &BatchCall, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if !a.is_batched() && !b.is_batched() {
        return c.with_all(&crate::ops::matmul::matmul(a, b)?, 0);
    }
    let (vector, column) = (a.rank() == 1, b.rank() == 1);
    let rank = a.rank().max(b.rank()).max(2);
    // Many vectors with one matrix are a matrix.
    if vector && !b.is_batched() && b.rank() <= 2 {
        return crate::ops::matmul::matmul(&c.with_all(a, 1)?, b);
    }
    let row = |t: &Tensor, at: i64| -> Result<Tensor> {
        let t = view::unsqueeze(&c.with_all(t, 1)?, at)?;
        (2..rank).try_fold(t, |t, _| view::unsqueeze(&t, c.n() as i64))
    };
    // A matrix that is the same for all slices broadcasts.
    let whole = |t: &Tensor| if t.is_batched() { c.with_all(t, rank) } else { Ok(t.clone()) };
    let a = if vector { row(a, -2)? } else { whole(a)? };
    let b = if column { row(b, -1)? } else { whole(b)? };
    let mut out = crate::ops::matmul::matmul(&a, &b)?;
    if column {
        out = view::squeeze(&out, &[-1])?;
    }
    if vector {
        out = view::squeeze(&out, &[if column { -1 } else { -2 }])?;
    }
    Ok(out)
}

/// `x @ weight.T + bias`.
pub fn linear(c: &BatchCall) -> Result<Out> {
    let (x, weight) = two(c)?;
    let bias = c.tensor("bias");
    if !weight.is_batched() && bias.is_none_or(|b| !b.is_batched()) {
        return super::simple::leading(c);
    }
    ensure!(
        weight.rank() <= 2,
        Runtime,
        "linear(): the weight has {} dimensions, more than 2",
        weight.rank()
    );
    if let Some(out) = shared_linear(c, x, weight)? {
        return Ok(Out::Tensor(match bias {
            Some(bias) => c.batched(arith::add(&out, &c.aligned(bias, out.rank() - c.n())?)?)?,
            None => c.batched(out)?,
        }));
    }
    let turned = if weight.rank() == 2 {
        let (value, levels) = super::parts_of(weight);
        Tensor::batched_over(view::transpose(&value, -2, -1)?, levels)?
    } else {
        weight.clone()
    };
    let out = times(c, x, &turned)?;
    let rank = out.rank() - c.n();
    let out = match bias {
        Some(bias) => arith::add(&out, &c.aligned(bias, rank)?)?,
        None => out,
    };
    Ok(Out::Tensor(c.batched(out)?))
}

/// The value of rows times a weight that is the same for all slices, with all mapped dimensions; None for others.
fn shared_linear(c: &BatchCall, x: &Tensor, weight: &Tensor) -> Result<Option<Tensor>> {
    if !x.is_batched() || !weight.is_batched() || weight.rank() != 2 || x.rank() == 0 || x.numel() == 0 {
        return Ok(None);
    }
    let rows = c.merged(x)?;
    let shape = Dims::from([c.slices(), x.numel() / x.shape()[x.rank() - 1], x.shape()[x.rank() - 1]]);
    let Some(out) = super::shared::linear(c, &view::reshape_to(&rows, &shape)?, &c.merged(weight)?)? else {
        return Ok(None);
    };
    let own = x.shape()[..x.rank() - 1].iter().chain(&weight.shape()[..1]);
    let shape: Dims = c.sizes.iter().chain(own).copied().collect();
    view::reshape_to(&out, &shape).map(Some)
}

/// `beta * input + alpha * product`, for `addmm` and its kin.
pub fn added(c: &BatchCall) -> Result<Out> {
    let (input, a, b) = match c.values {
        [Value::Tensor(input), Value::Tensor(a), Value::Tensor(b), ..] => (input, a, b),
        _ => bail!(Type, "{}(): arguments must be Tensors", c.op_name()),
    };
    if c.writes() {
        return super::slices::by_slices(c);
    }
    let name = c.op_name();
    let product = match name {
        "addr" => {
            arith::mul(&view::unsqueeze(&c.aligned(a, 1)?, -1)?, &view::unsqueeze(&c.aligned(b, 1)?, -2)?)?
        }
        "addbmm" => {
            let all = times(c, a, b)?;
            crate::ops::reduce::sum_mask(&all, 1 << c.n(), false, None)?
        }
        _ => times(c, a, b)?,
    };
    let rank = product.rank() - c.n();
    let factor = |name: &str| match c.value(name) {
        Value::Number(s) => *s,
        _ => Scalar::Int(1),
    };
    let (alpha, beta) = (factor("alpha"), factor("beta"));
    let scaled = |t: Tensor, s: Scalar| match s {
        Scalar::Int(1) => Ok(t),
        s => rows::mul.call(&[Arg::T(&t), Arg::S(s)], &[]),
    };
    let product = scaled(product, alpha)?;
    // As in PyTorch, NaN in the tensor is ignored when its factor is zero.
    let out =
        if beta.is_zero() { product } else { arith::add(&scaled(c.aligned(input, rank)?, beta)?, &product)? };
    Ok(Out::Tensor(c.batched(out)?))
}

/// Operations on each matrix. A mapped dimension does not make matrices of vectors.
pub fn matrices(c: &BatchCall) -> Result<Out> {
    let lowest = crate::ops::mirror::tensors(c.values).iter().map(Tensor::rank).min().unwrap_or(0);
    ensure!(
        lowest >= 2,
        Runtime,
        "{}: The input tensor must have at least 2 dimensions, in vmap each slice of it, but has {lowest}",
        c.op_name()
    );
    super::simple::leading(c)
}

/// `linalg.solve` and `linalg.solve_triangular`: all other dimensions broadcast.
pub fn solution(c: &BatchCall) -> Result<Out> {
    let (a, b) = two(c)?;
    let of_vectors = b.rank() == 1 || (b.rank() + 1 == a.rank() && b.shape()[..] == a.shape()[..b.rank()]);
    let vectors = c.op_name() == "solve" && of_vectors;
    // What does not fit is an error of the operation, in which the slices have their own dimensions.
    ensure!(
        a.rank() >= 2 && (vectors || b.rank() >= 2) && (!vectors || c.value("left").is_true()),
        Runtime,
        "linalg.{}: The inputs must have at least 2 dimensions, or be vectors on the right hand side: got tensors of {} and \
         {} dimensions",
        c.op_name(),
        a.rank(),
        b.rank()
    );
    let rank = a.rank().max(b.rank() + usize::from(vectors));
    let right = c.with_all(b, rank - usize::from(vectors))?;
    let right = if vectors { view::unsqueeze(&right, -1)? } else { right };
    let mut values = c.map(|t| Ok(t.clone()))?;
    values[0] = Value::Tensor(c.with_all(a, rank)?);
    values[1] = Value::Tensor(right);
    let out = c.run(&values)?.tensor()?;
    let out = if vectors { view::squeeze(&out, &[-1])? } else { out };
    Ok(Out::Tensor(c.batched(out)?))
}
