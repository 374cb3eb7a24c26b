//! The three products of a convolution, which are each other's derivatives.
//!
//! A convolution maps an input `x` and a weight `w` to an output `y`, linearly in both. Given a gradient `g` of `y`
//! there are two more such products: the gradient of `x` from `g` and `w`, which is the transposed convolution, and
//! the gradient of `w` from `g` and `x`. All three are bilinear, and the gradients of each with respect to its
//! operands are the other two, so that one function implements all orders of differentiation.

use smallvec::smallvec;

use crate::backend::conv::{self as kernel, bias_gradient};
pub use crate::backend::conv::{ConvShape, Product};
use crate::backend::copy;
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::graph::{
    Attribute, Cx, Function, Grads, SavedTensor, Visit, grad_enabled, record, record_optional,
};
use crate::layout::{Dims, MemoryFormat};
use crate::ops::{nn, reduce, rows, view};
use crate::tensor::Tensor;

/// The product of `a` and `b`, in the order given at [`Product`], plus `bias` per channel; `out` is its shape.
pub fn product(
    which: Product,
    s: ConvShape,
    a: &Tensor,
    b: &Tensor,
    bias: Option<&Tensor>,
    out: &Dims,
) -> Result<Tensor> {
    let compute = nn::number_compute(a.dtype());
    let (x, y) = (a.dense(compute)?, b.dense(compute)?);
    let shift = bias.map(|t| t.dense(compute)).transpose()?;
    let result = x.new_empty(out.clone())?;
    // Sums of no terms, as those over no channels.
    let is_zero = x.numel() == 0 || y.numel() == 0;
    let fused = shift.as_ref().filter(|_| which == Product::Output && !is_zero).map(Tensor::raw);
    if is_zero {
        copy::fill(result.raw(), Scalar::Int(0))?;
    } else {
        kernel::product(which, &s, x.raw(), y.raw(), fused, result.raw())?;
    }
    if let (Some(shift), true) = (&shift, which != Product::Output || is_zero) {
        let mut column: Dims = out.iter().map(|_| 1).collect();
        column[1] = out[1];
        let column = view::reshape_to(&shift.detach(), &column)?;
        rows::add.call_inplace(&[(&result).into(), (&column).into()], &[])?;
    }
    let result = nn::rounded(result, a.dtype())?.laid_as(format_of(a, b))?;
    let node = |_: &Tensor| Convolution {
        which,
        s,
        a: SavedTensor::factor_if(b.requires_grad(), a),
        b: SavedTensor::factor_if(a.requires_grad(), b),
        shapes: [a.shape().clone(), b.shape().clone()],
        biased: bias.is_some(),
    };
    match which {
        Product::Weight => record(result, &[a, b], node),
        _ => record_optional(result, &[Some(a), Some(b), bias], node),
    }
}

/// The result is channels-last if either operand is; as in PyTorch, except for float64 volumes.
fn format_of(a: &Tensor, b: &Tensor) -> MemoryFormat {
    match (a.layout().suggested_format(), b.layout().suggested_format()) {
        (MemoryFormat::ChannelsLast3d, _) | (_, MemoryFormat::ChannelsLast3d) if a.dtype() == DType::F64 => {
            MemoryFormat::Contiguous
        }
        (MemoryFormat::Contiguous, format) | (format, _) => format,
    }
}

struct Convolution {
    which: Product,
    s: ConvShape,
    a: SavedTensor,
    b: SavedTensor,
    shapes: [Dims; 2],
    biased: bool,
}

impl Function for Convolution {
    fn name(&self) -> &'static str {
        match self.which {
            Product::Output | Product::Input => "ConvolutionBackward0",
            Product::Weight => "ConvolutionBackwardBackward0",
        }
    }

    fn kernel(&self) -> Option<&'static str> {
        Some("convolution_backward")
    }

    fn saves_all(&self) -> bool {
        true
    }

    fn backward(&self, cx: &Cx, grads: Grads) -> Result<Grads> {
        let edges = cx.node.edges().len();
        let Some(g) = &grads[0] else { return Ok((0..edges).map(|_| None).collect()) };
        let a = |which, x: &Tensor, y: &Tensor| product(which, self.s, x, y, None, &self.shapes[0]).map(Some);
        let b = |which, x: &Tensor, y: &Tensor| product(which, self.s, x, y, None, &self.shapes[1]).map(Some);
        let mut out: Grads = smallvec![None, None];
        // Unpacked in the order in which they were saved.
        let kept = if cx.needs(1) { Some(self.a.get(cx)?) } else { None };
        if cx.needs(0) {
            let other = self.b.get(cx)?;
            out[0] = match self.which {
                Product::Output => a(Product::Input, g, &other)?,
                Product::Input => a(Product::Output, g, &other)?,
                Product::Weight => a(Product::Output, &other, g)?,
            };
        }
        if let Some(other) = kept {
            out[1] = match self.which {
                Product::Output => b(Product::Weight, g, &other)?,
                Product::Input => b(Product::Weight, &other, g)?,
                Product::Weight => b(Product::Input, &other, g)?,
            };
        }
        if edges > 2 {
            out.push(if cx.needs(2) { Some(self.bias(g)?) } else { None });
        }
        Ok(out)
    }

    fn saved(&self, visit: &mut dyn FnMut(&'static str, &SavedTensor)) {
        visit("input", &self.a);
        visit("weight", &self.b);
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        let n = self.shapes[0].len().saturating_sub(2).min(3);
        let s = &self.s;
        for (name, axes) in [("stride", &s.stride), ("padding", &s.padding), ("dilation", &s.dilation)] {
            visit(name, Attribute::Sizes(&axes[3 - n..]));
        }
        let transposed = self.which == Product::Input;
        let more = |a: usize| {
            let reach = (s.output[a] - 1) * s.stride[a] + s.dilation[a] * (s.kernel[a] - 1) + 1;
            if transposed { (s.input[a] + 2 * s.padding[a]).saturating_sub(reach) } else { 0 }
        };
        visit("output_padding", Attribute::Sizes(&[more(0), more(1), more(2)][3 - n..]));
        visit("transposed", Attribute::Bool(transposed));
        visit("groups", Attribute::Int(s.groups as i64));
        // PyTorch shows 0 for an absent bias.
        let channels = if !self.biased {
            0
        } else if transposed {
            s.c_in
        } else {
            s.c_out
        };
        visit("bias_sym_sizes_opt", Attribute::Sizes(&[channels]));
    }
}

impl Convolution {
    /// The gradient of the bias: a sum per channel.
    fn bias(&self, g: &Tensor) -> Result<Tensor> {
        let (batch, channels) = (g.shape()[0], g.shape()[1]);
        let plane = g.shape()[2..].iter().product();
        if grad_enabled() {
            let flat = view::reshape_to(g, &Dims::from([batch, channels, plane]))?;
            return reduce::sum_mask(&flat, 0b101, false, Some(g.dtype()));
        }
        let compute: DType = nn::number_compute(g.dtype());
        let (dense, out) = (g.dense(compute)?, Tensor::empty_on([channels], compute, g.device())?);
        // The sum depends only on the number of elements of the output.
        let s = ConvShape { n: batch, c_out: channels, output: [1, 1, plane], ..self.s };
        bias_gradient(&s, dense.raw(), out.raw())?;
        nn::rounded(out, g.dtype())
    }
}
