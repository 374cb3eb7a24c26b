//! Padding with a constant; negative padding crops.

use smallvec::{SmallVec, smallvec};

use crate::backend::copy;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::graph::{Attribute, Cx, Function, Grads, Visit, record};
use crate::layout::{Dims, Layout};
use crate::ops::schema::{Args, Out};
use crate::tensor::Tensor;
use crate::{bail, ensure, ops};

pub mod edges;

type Pads = SmallVec<[i64; 8]>;

/// `t` with `pads[2 * k]` elements before and `pads[2 * k + 1]` after, along dimension k from the last.
fn pad_constant_impl(t: &Tensor, pads: &[i64], value: Scalar) -> Result<Tensor> {
    ensure!(
        pads.len().is_multiple_of(2),
        Runtime,
        "Length of pad must be even but instead it equals {}",
        pads.len()
    );
    let rank = t.rank();
    ensure!(
        pads.len() <= 2 * rank,
        Runtime,
        "Length of pad should be no more than twice the number of dimensions of the input. Pad length is {} while the \
         input has {rank} dimensions.",
        pads.len()
    );
    let (mut from, mut shape): (Layout, Dims) = (t.layout().clone(), t.shape().clone());
    let mut inside: SmallVec<[(usize, usize, usize); 6]> = SmallVec::new();
    for (k, pad) in pads.chunks_exact(2).enumerate() {
        let (dim, size) = (rank - 1 - k, t.shape()[rank - 1 - k] as i64);
        let new = (size as i128) + pad[0] as i128 + pad[1] as i128;
        ensure!(
            new >= 0,
            Runtime,
            "The input size {size}, plus negative padding {} and {} resulted in a negative output size, which is \
             invalid. Check dimension {dim} of your input.",
            pad[0],
            pad[1]
        );
        shape[dim] = usize::try_from(new).unwrap_or(usize::MAX);
        let kept = size.saturating_add(pad[0].min(0)).saturating_add(pad[1].min(0)).max(0) as usize;
        // If more is cropped than there is, nothing is read.
        let first = pad[0].saturating_neg().clamp(0, size);
        from = from.slice(dim, first as usize, kept, 1);
        inside.push((dim, pad[0].max(0) as usize, kept));
    }
    let out = if inside.iter().all(|&(dim, _, kept)| kept == shape[dim]) {
        t.new_empty(shape)?
    } else {
        t.new_full(shape, value)?
    };
    let to = inside.iter().fold(out.layout().clone(), |l, &(dim, start, kept)| l.slice(dim, start, kept, 1));
    copy::copy(t.with_layout(from).raw(), out.with_layout(to).raw())?;
    record(out.laid_as(t.layout().suggested_format())?, &[t], |_| PadBackward {
        pads: SmallVec::from_slice(pads),
    })
}

struct PadBackward {
    pads: Pads,
}

impl Function for PadBackward {
    fn name(&self) -> &'static str {
        "ConstantPadNdBackward0"
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        // Backward crops the padding and pads the cropped elements with zeros.
        let back: Pads = self.pads.iter().map(|p| -p).collect();
        Ok(smallvec![Some(pad_constant(g, &back, Scalar::Int(0))?)])
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("pad", Attribute::Ints(&self.pads));
    }
}

fn pad_op(a: &Args) -> Result<Out> {
    let (t, pads, mode) = (a.tensor(0)?, a.ints(1)?, a.str(2)?);
    if mode != "constant" {
        bail!(NotImplemented, "Unrecognised padding mode {mode}");
    }
    ensure!(pads.len().is_multiple_of(2), Runtime, "Padding length must be divisible by 2");
    ensure!(
        pads.len() <= 2 * t.rank(),
        Runtime,
        "Padding length should be less than or equal to two times the input dimension but got padding length {} and \
         input of dimension {}",
        pads.len(),
        t.rank()
    );
    Ok(pad_constant(t, pads, a.opt_number(3)?.unwrap_or(Scalar::Int(0)))?.into())
}

ops! {
    /// Adds elements of one value around `input`, the last dimension first; negative numbers crop.
    "constant_pad_nd" FUNCTION, batch PLANES {
        pub fn pad_constant(input: Tensor, pad: size, value: Number = 0) -> Tensor = pad_constant_impl;
    }
    /// Adds elements around `input`, the last dimension first; negative numbers crop.
    "pad" NN, batch PLANES {
        (input: Tensor, pad: size, mode: str = "constant", value: Number? = None) => pad_op;
    }
}
