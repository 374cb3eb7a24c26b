//! Convolutions of several batches with one weight that has a gradient for each of the batches.
//!
//! The output and the gradient of the input are one product for all batches. The gradient of the weight is a product whose
//! groups are the batches, so that nothing is summed over them.

use smallvec::smallvec;

use super::Options;
use super::product::{ConvShape, Product, product};
use crate::error::Result;
use crate::graph::{Cx, Function, Grads, SavedTensor, grad_enabled, record};
use crate::layout::Dims;
use crate::ops::view;
use crate::tensor::Tensor;

/// The convolution of `x` (batches, pictures, channels, ...) with `weight` (batches, ...), which repeats `own`; in the order of
/// the first three dimensions of `x`.
pub fn with_shared_weight(x: &Tensor, weight: &Tensor, own: &Tensor, o: &Options) -> Result<Tensor> {
    let flat = view::flatten(&x.detach(), 0, 1)?;
    o.check()?;
    o.check_operands(&flat, own, None)?;
    let (s, shape) = o.shape(&flat, own)?;
    let which = if o.transposed { Product::Input } else { Product::Output };
    let out = product(which, s, &flat, own, None, &shape)?;
    let out = apart(&out, 0, x.shape()[0])?;
    record(out, &[x, weight], |_| SharedWeight {
        s,
        transposed: o.transposed,
        x: SavedTensor::factor_if(weight.requires_grad(), x),
        weight: SavedTensor::factor_if(x.requires_grad(), weight),
        shapes: [x.shape().clone(), weight.shape().clone()],
    })
}

/// A dimension as two, the first of size `n`.
fn apart(t: &Tensor, dim: usize, n: usize) -> Result<Tensor> {
    let rest = t.shape()[dim].checked_div(n).unwrap_or(0);
    view::unflatten(t, dim as i64, &[n as i64, rest as i64])
}

/// (batches, pictures, channels, ...) as (pictures, batches x channels, ...).
fn as_channels(t: &Tensor) -> Result<Tensor> {
    view::flatten(&view::movedim(t, &[0], &[1])?, 1, 2)
}

struct SharedWeight {
    /// The sizes with the pictures of all batches.
    s: ConvShape,
    transposed: bool,
    x: SavedTensor,
    weight: SavedTensor,
    shapes: [Dims; 2],
}

impl SharedWeight {
    /// The sizes with batches as groups.
    fn grouped(&self) -> ConvShape {
        let (batches, s) = (self.shapes[0][0], self.s);
        ConvShape {
            n: self.shapes[0][1],
            c_in: batches * s.c_in,
            c_out: batches * s.c_out,
            groups: batches * s.groups,
            ..s
        }
    }

    fn by_input(&self, g: &Tensor, weight: &Tensor) -> Result<Tensor> {
        let which = if self.transposed { Product::Output } else { Product::Input };
        let x = &self.shapes[0];
        if !grad_enabled() {
            let own = view::cut::select(weight, 0, 0)?;
            let shape: Dims = [x[0] * x[1]].iter().chain(&x[2..]).copied().collect();
            let out = product(which, self.s, &view::flatten(g, 0, 1)?, &own, None, &shape)?;
            return apart(&out, 0, x[0]);
        }
        // The weight of each batch gets a gradient of its own from this product, too.
        let shape: Dims = [x[1], x[0] * x[2]].iter().chain(&x[3..]).copied().collect();
        let out =
            product(which, self.grouped(), &as_channels(g)?, &view::flatten(weight, 0, 1)?, None, &shape)?;
        view::movedim(&apart(&out, 1, x[0])?, &[1], &[0])
    }

    fn by_weight(&self, g: &Tensor, x: &Tensor) -> Result<Tensor> {
        let w = &self.shapes[1];
        let shape: Dims = [w[0] * w[1]].iter().chain(&w[2..]).copied().collect();
        let (g, x) = (as_channels(g)?, as_channels(x)?);
        let (output, input) = if self.transposed { (&x, &g) } else { (&g, &x) };
        apart(&product(Product::Weight, self.grouped(), output, input, None, &shape)?, 0, w[0])
    }
}

impl Function for SharedWeight {
    fn name(&self) -> &'static str {
        "ConvolutionBackward0"
    }

    fn kernel(&self) -> Option<&'static str> {
        Some("convolution_backward")
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None, None]) };
        let by_input = if cx.needs(0) { Some(self.by_input(g, &self.weight.get(cx)?)?) } else { None };
        let by_weight = if cx.needs(1) { Some(self.by_weight(g, &self.x.get(cx)?)?) } else { None };
        Ok(smallvec![by_input, by_weight])
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("input", &self.x);
        visit("weight", &self.weight);
    }
}
