//! Products with a weight that is the same for all slices, but has a gradient for each.
//!
//! Note [Shared weights] In `vmap(grad(loss))` over samples, the parameters are no slices of anything: the leaf of a
//! derivative is the parameter expanded to all slices, so that each has a gradient of its own. The product of all slices with
//! it is one product with the parameter, as is the gradient of the input. Only the gradient of the weight is a product for each
//! slice. If the gradients are recorded, all products are those for each slice, which can be differentiated further.

use smallvec::smallvec;

use super::BatchCall;
use super::call::Values;
use super::planes::{fuse, part};
use crate::error::Result;
use crate::graph::{Cx, Function, Grads, SavedTensor, grad_enabled, record};
use crate::layout::Dims;
use crate::ops::matmul::{matmul, mm};
use crate::ops::schema::Value;
use crate::ops::{conv, view};
use crate::tensor::Tensor;

/// The tensor that a value with the slices in front repeats for each of them, without history.
fn repeated(value: &Tensor) -> Result<Option<Tensor>> {
    if value.shape()[0] < 2 || value.strides()[0] != 0 || value.is_hosted() {
        return Ok(None);
    }
    view::cut::select(&value.detach(), 0, 0).map(Some)
}

/// `x @ weight.T`, as (slices, rows, columns) of (slices, rows, k) and (slices, columns, k); None if no weight is shared.
pub fn linear(c: &BatchCall, x: &Tensor, weight: &Tensor) -> Result<Option<Tensor>> {
    if x.is_hosted() || x.rank() != 3 || x.shape()[2] != weight.shape()[2] {
        return Ok(None);
    }
    let Some(own) = repeated(weight)? else { return Ok(None) };
    let mut values: Values = c.values.iter().cloned().collect();
    for (p, v) in c.params().iter().zip(values.iter_mut()) {
        match p.name {
            "input" => *v = Value::Tensor(fuse(&x.detach(), 0)?),
            "weight" => *v = Value::Tensor(own.clone()),
            "bias" => *v = Value::None,
            _ => {}
        }
    }
    let flat = c.run(&values)?.tensor()?;
    let out = view::unsafe_view(&flat, &Dims::from([x.shape()[0], x.shape()[1], weight.shape()[1]]))?;
    record(out, &[x, weight], |_| SharedLinear {
        x: SavedTensor::input_if(weight.requires_grad(), x),
        weight: SavedTensor::input_if(x.requires_grad(), weight),
    })
    .map(Some)
}

struct SharedLinear {
    x: SavedTensor,
    weight: SavedTensor,
}

impl Function for SharedLinear {
    fn name(&self) -> &'static str {
        "LinearBackward0"
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        let mut out: Grads = smallvec![None, None];
        if cx.needs(0) {
            let weight = self.weight.get(cx)?;
            out[0] = Some(match repeated(&weight)? {
                Some(own) if !grad_enabled() => part(&mm(&fuse(g, 0)?, &own)?, 0, g.shape()[0])?,
                _ => matmul(g, &weight)?,
            });
        }
        if cx.needs(1) {
            let x = self.x.get(cx)?;
            out[1] = Some(matmul(&view::transpose(g, -2, -1)?, &x)?);
        }
        Ok(out)
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("input", &self.x);
        visit("weight", &self.weight);
    }
}

/// A convolution, or its transpose, of pictures with a weight that is the same for all slices, as (slices, pictures, channels,
/// ...); None if no weight is shared.
pub fn convolution(c: &BatchCall, x: &Tensor, weight: &Tensor, n: usize) -> Result<Option<Tensor>> {
    if !x.is_batched() || !weight.is_batched() || x.numel() == 0 || weight.numel() == 0 {
        return Ok(None);
    }
    let value = c.merged(weight)?;
    let (Some(own), Some(options)) = (repeated(&value)?, conv::Options::of(c.op_name(), c.values, n)?) else {
        return Ok(None);
    };
    let pictures = c.merged(x)?;
    if pictures.is_hosted() {
        return Ok(None);
    }
    let pictures = if x.rank() == n + 1 { view::unsqueeze(&pictures, 1)? } else { pictures };
    conv::with_shared_weight(&pictures, &value, &own, &options).map(Some)
}
