//! Convolution in one, two and three spatial dimensions over contiguous NCHW data, and its three gradients.
//!
//! One scheme serves all shapes: the source is copied to padded grids ([`phase_split`]), and register tiles ([`tile`])
//! multiply the weights with contiguous runs of it. [`correlate`] computes outputs and input gradients, [`weight`] the
//! weight gradient. [`mod@winograd`] computes in float32 what it computes faster, [`point`] has kernels of one element, [`columns`]
//! strided ones, and [`depthwise`] those of one channel. Work is divided according to the shape
//! alone, so that results do not depend on the number of threads.

mod columns;
mod correlate;
mod depthwise;
mod phase_split;
mod point;
mod tile;
mod weight;
mod winograd;

use crate::backend::conv::{ConvShape, Product};
use crate::backend::cpu::parallel::for_chunks_mut;
use crate::backend::cpu::pieces::Destination;
use crate::dtype::DType;
use correlate::Correlation;
use depthwise::is_depthwise;
use phase_split::PhaseSplitInput;
use point::Points;
pub use tile::ConvElem;
pub use winograd::product as winograd;

impl ConvShape {
    fn c_in_per_group(&self) -> usize {
        self.c_in / self.groups
    }

    fn c_out_per_group(&self) -> usize {
        self.c_out / self.groups
    }

    fn taps(&self) -> usize {
        self.kernel.iter().product()
    }

    fn input_plane(&self) -> usize {
        self.input.iter().product()
    }

    fn output_plane(&self) -> usize {
        self.output.iter().product()
    }
}

/// What computes an output or the gradient of an input.
enum Kernel {
    Points(Points),
    Depthwise(Vec<PhaseSplitInput>),
    Columns,
    Direct(Vec<PhaseSplitInput>),
}

impl Kernel {
    /// The kernel, and whether it computes all results, or only those that depend on the source.
    fn of(s: &ConvShape, is_forward: bool) -> (Kernel, bool) {
        if let Some(points) = Points::of(s) {
            return (Kernel::Points(points), true);
        }
        if if is_forward { columns::pays(s) } else { columns::pays_for_input(s) } {
            return (Kernel::Columns, true);
        }
        let (lattices, is_whole) =
            if is_forward { (vec![PhaseSplitInput::forward(s)], true) } else { PhaseSplitInput::backward(s) };
        (if is_depthwise(s) { Kernel::Depthwise(lattices) } else { Kernel::Direct(lattices) }, is_whole)
    }
}

/// The convolution of `x` with `w`, plus a `bias` per output channel.
pub fn forward<T: ConvElem>(s: &ConvShape, x: &[T], w: &[T], bias: Option<&[T]>, out: &mut [T]) {
    forward_to(s, x, w, bias, Destination::Memory(out));
}

/// As [`forward`].
pub fn forward_to<T: ConvElem>(s: &ConvShape, x: &[T], w: &[T], bias: Option<&[T]>, out: Destination<T>) {
    let (c_in, c_out) = (s.c_in_per_group(), s.c_out_per_group());
    let weight = |group: usize, to: usize, from: usize| ((group * c_out + to) * c_in + from) * s.taps();
    match Kernel::of(s, true).0 {
        Kernel::Points(points) => points.forward(x, w, bias, out),
        Kernel::Depthwise(lattices) => depthwise::correlate(s, lattices, x, w, bias, out),
        Kernel::Columns => out.whole(|out| columns::forward(s, x, w, bias, out)),
        Kernel::Direct(lattices) => {
            Correlation::new(s, lattices, c_in, c_out).run(x, w, &weight, bias, out);
        }
    }
}

/// The gradient of the input, from the gradient of the output.
pub fn backward_input<T: ConvElem>(s: &ConvShape, grad_out: &[T], w: &[T], grad_x: &mut [T]) {
    backward_input_to(s, grad_out, w, Destination::Memory(grad_x));
}

/// As [`backward_input`].
pub fn backward_input_to<T: ConvElem>(s: &ConvShape, grad_out: &[T], w: &[T], grad_x: Destination<T>) {
    let (kernel, is_whole) = Kernel::of(s, false);
    if !is_whole {
        return grad_x.whole(|grad_x| {
            grad_x.fill(T::ZERO);
            backward_input_by(kernel, s, grad_out, w, Destination::Memory(grad_x));
        });
    }
    backward_input_by(kernel, s, grad_out, w, grad_x);
}

fn backward_input_by<T: ConvElem>(
    kernel: Kernel,
    s: &ConvShape,
    grad_out: &[T],
    w: &[T],
    grad_x: Destination<T>,
) {
    let (c_in, c_out) = (s.c_in_per_group(), s.c_out_per_group());
    let weight = |group: usize, to: usize, from: usize| ((group * c_out + from) * c_in + to) * s.taps();
    match kernel {
        Kernel::Points(points) => points.backward_input(grad_out, w, grad_x),
        Kernel::Depthwise(lattices) => depthwise::correlate(s, lattices, grad_out, w, None, grad_x),
        Kernel::Columns => grad_x.whole(|grad_x| columns::backward_input(s, grad_out, w, grad_x)),
        Kernel::Direct(lattices) => {
            Correlation::new(s, lattices, c_out, c_in).run(grad_out, w, &weight, None, grad_x);
        }
    }
}

/// Whether an output, or the gradient of an input, is computed in pieces.
pub fn has_pieces<T: ConvElem>(which: Product, s: &ConvShape) -> bool {
    let by_winograd = T::DTYPE == DType::F32 && winograd::pays(which, s);
    if which == Product::Weight || by_winograd || s.plane_of(which) == 0 || s.n * s.c_in * s.c_out == 0 {
        return false;
    }
    let is_forward = which == Product::Output;
    let (kernel, is_whole) = Kernel::of(s, is_forward);
    let (c_in, c_out) = (s.c_in_per_group(), s.c_out_per_group());
    let (from, to) = if is_forward { (c_in, c_out) } else { (c_out, c_in) };
    is_whole
        && match kernel {
            Kernel::Points(points) => points.has_pieces::<T>(is_forward),
            Kernel::Depthwise(_) => depthwise::has_pieces::<T>(s, s.plane_of(which)),
            Kernel::Columns => false,
            Kernel::Direct(lattices) => Correlation::new(s, lattices, from, to).has_pieces::<T>(),
        }
}

/// The gradient of the weight, from the gradient of the output and the input.
pub fn backward_weight<T: ConvElem>(s: &ConvShape, grad_out: &[T], x: &[T], grad_w: &mut [T]) {
    match Points::of(s) {
        Some(points) => points.backward_weight(grad_out, x, grad_w),
        None if is_depthwise(s) => depthwise::backward_weight(s, grad_out, x, grad_w),
        None if columns::pays_for_weight(s) => columns::backward_weight(s, grad_out, x, grad_w),
        None => weight::backward(s, grad_out, x, grad_w),
    }
}

/// The gradient of the bias: a sum per channel over images and positions.
pub fn backward_bias<T: ConvElem>(s: &ConvShape, grad_out: &[T], grad_bias: &mut [T]) {
    let plane = s.output_plane();
    let grain = (1 << 16) / (s.n * plane).max(1);
    for_chunks_mut(grad_bias, grain.max(1), |chunk, out| {
        for (i, out) in out.iter_mut().enumerate() {
            let channel = chunk * grain.max(1) + i;
            *out = (0..s.n).map(|n| weight::sum(&grad_out[(n * s.c_out + channel) * plane..][..plane])).sum();
        }
    });
}

/// Channels per work item, when there are only `outer` images and groups to parallelize over: a divisor of `channels`
/// that gives `wanted` items, or as many as multiples of `unit` channels allow.
fn channels_per_piece(channels: usize, outer: usize, wanted: usize, unit: usize) -> usize {
    if outer == 0 || outer >= wanted {
        return channels;
    }
    let slices = wanted.div_ceil(outer);
    let cuts = |size: &usize| channels.is_multiple_of(*size) && size.is_multiple_of(unit);
    let fitting = (1..=channels / slices).rev().find(cuts);
    fitting.or_else(|| (1..channels).find(cuts)).unwrap_or(channels)
}

#[cfg(test)]
mod tests;
