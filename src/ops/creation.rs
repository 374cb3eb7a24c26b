//! New tensors.

use super::schema::{Args, Call, Op, Out, Overload, Surface};
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::tensor::Tensor;

fn filled(a: &Args, value: Scalar) -> Result<Out> {
    let t = Tensor::full(a.size(0)?, value, a.opt_dtype(1)?.unwrap_or(super::default_dtype()))?;
    finish(a, t, 3)
}

/// Applies `requires_grad`, which is argument `i` of every function that creates a tensor.
pub(super) fn finish(a: &Args, t: Tensor, i: usize) -> Result<Out> {
    if a.bool(i)? {
        t.set_requires_grad(true)?;
    }
    Ok(t.into())
}

fn like(a: &Args, value: Scalar) -> Result<Out> {
    let t = a.tensor(0)?;
    let t = Tensor::full(t.shape().clone(), value, a.opt_dtype(1)?.unwrap_or(t.dtype()))?;
    finish(a, t, 3)
}

macro_rules! filled_with {
    ($name:literal, $like:literal, $doc:literal, $value:expr) => {
        [
            Op {
                name: $name,
                doc: concat!("A tensor of the given size filled with ", $doc, "."),
                surface: Surface::FUNCTION,
                overloads: &[Overload {
                    sig: "size: size, *, dtype: dtype? = None, device: device? = None, requires_grad: bool = False",
                    call: Call::Fn(|a| filled(a, $value)),
                }],
                ..Op::NEW
            },
            Op {
                name: $like,
                doc: concat!("A tensor of the size of `input` filled with ", $doc, "."),
                surface: Surface::FUNCTION,
                overloads: &[Overload {
                    sig: "input: Tensor, *, dtype: dtype? = None, device: device? = None, requires_grad: bool = False",
                    call: Call::Fn(|a| like(a, $value)),
                }],
                ..Op::NEW
            },
        ]
    };
}

const ZEROS: [Op; 2] = filled_with!("zeros", "zeros_like", "zeros", Scalar::Int(0));
const ONES: [Op; 2] = filled_with!("ones", "ones_like", "ones", Scalar::Int(1));

pub static OPS: &[Op] = &{
    let [z, zl] = ZEROS;
    let [o, ol] = ONES;
    [z, zl, o, ol]
};

/// A tensor of `dtype` and shape of `t`, zeroed.
pub fn zeros_like(t: &Tensor, dtype: DType) -> Result<Tensor> {
    Tensor::zeros(t.shape().clone(), dtype)
}
