//! Padding with elements of the input: mirrored, repeated, or from the other side.
//!
//! Note [Padding by copies]
//! The input is copied into the result, and then dimension by dimension, from the last on, what lies there already is
//! copied into the padding: a copy for each side. A dimension that comes later so pads the corners too. Backward adds the
//! padding of each dimension to where it came from, in the opposite order.

use smallvec::{SmallVec, smallvec};

use super::Pads;
use crate::backend::copy;
use crate::error::Result;
use crate::graph::{Attribute, Cx, Function, Grads, Visit, record};
use crate::layout::{Dims, Layout, MemoryFormat};
use crate::ops::{arith, reduce};
use crate::tensor::Tensor;
use crate::{bail, ensure, ops};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Reflect,
    Replicate,
    Circular,
}

/// A padded dimension: elements before and after the input's `size`.
#[derive(Clone, Copy)]
struct Side {
    dim: usize,
    size: usize,
    before: usize,
    after: usize,
}

impl Side {
    /// The padding before and after, and where it comes from, as parts of the padded tensor.
    fn parts(self, whole: &Layout, mode: Mode) -> [(Layout, Layout); 2] {
        let Side { dim, size, before, after } = self;
        let end = before + size;
        let mirrored = |first: usize, n: usize| {
            let mut part = whole.slice(dim, first, n, 1);
            if n > 0 {
                part.offset = (part.offset as isize + (n as isize - 1) * part.strides[dim]) as usize;
            }
            part.strides[dim] = -part.strides[dim];
            part
        };
        let repeated = |at: usize, n: usize| {
            let mut part = whole.slice(dim, at, 1, 1);
            part.shape[dim] = n;
            part.strides[dim] = 0;
            part
        };
        let from = match mode {
            Mode::Reflect => [mirrored(before + 1, before), mirrored((end - 1).saturating_sub(after), after)],
            Mode::Replicate => [repeated(before, before), repeated(end - 1, after)],
            Mode::Circular => [whole.slice(dim, size, before, 1), whole.slice(dim, before, after, 1)],
        };
        let [first, second] = from;
        [(whole.slice(dim, 0, before, 1), first), (whole.slice(dim, end, after, 1), second)]
    }

    /// The input's part of the dimension.
    fn inside(self, whole: &Layout) -> Layout {
        whole.slice(self.dim, self.before, self.size, 1)
    }
}

/// A padding of the last dimensions.
struct Edges {
    mode: Mode,
    pads: Pads,
}

impl Edges {
    fn new(pads: &[i64], mode: &str) -> Result<Edges> {
        let mode = match mode {
            "reflect" => Mode::Reflect,
            "replicate" => Mode::Replicate,
            "circular" => Mode::Circular,
            _ => bail!(NotImplemented, "Unrecognised padding mode {mode}"),
        };
        ensure!(
            pads.len().is_multiple_of(2) && pads.iter().all(|&p| p >= 0),
            Runtime,
            "pad_edges: expected pairs of numbers that are not negative, but got {pads:?}"
        );
        Ok(Edges { mode, pads: SmallVec::from_slice(pads) })
    }

    /// The padded dimensions of an input of this shape, from the last on.
    fn sides(&self, shape: &Dims) -> Result<SmallVec<[Side; 3]>> {
        let (rank, mode) = (shape.len(), self.mode);
        ensure!(
            self.pads.len() <= 2 * rank,
            Runtime,
            "pad_edges: a padding of {:?} is not for {rank} dimensions",
            self.pads
        );
        let side = |(k, pad): (usize, &[i64])| {
            let (dim, before, after) = (rank - 1 - k, pad[0] as usize, pad[1] as usize);
            let (size, most) = (shape[dim], before.max(after));
            let reach = match mode {
                Mode::Reflect => size.saturating_sub(1),
                Mode::Replicate if size > 0 => usize::MAX,
                _ => size,
            };
            ensure!(
                mode != Mode::Circular || most <= reach,
                Runtime,
                "Padding value causes wrapping around more than once."
            );
            ensure!(
                most <= reach,
                Runtime,
                "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding \
                 ({before}, {after}) at dimension {dim} of input {shape}"
            );
            Ok(Side { dim, size, before, after })
        };
        let sides = self.pads.chunks_exact(2).enumerate().map(side);
        // A dimension without padding is neither copied nor cropped.
        sides.filter(|s| !matches!(s, Ok(Side { before: 0, after: 0, .. }))).collect()
    }

    /// For each padded dimension, from the last on, the part of the padded tensor that is complete without its padding.
    fn stages<'a>(
        &self,
        sides: &'a [Side],
        whole: &Layout,
    ) -> impl DoubleEndedIterator<Item = (Side, Layout)> + 'a {
        let rest = |k: usize| sides[k + 1..].iter().fold(whole.clone(), |l, s| s.inside(&l));
        let stages: SmallVec<[_; 3]> = (0..sides.len()).map(|k| (sides[k], rest(k))).collect();
        stages.into_iter()
    }

    /// A tensor for a result of this shape, with the channels last or not: they are in the results that PyTorch makes of such images, but
    /// for circular padding.
    fn result(&self, like: &Tensor, shape: Dims, channels_last: bool) -> Result<Tensor> {
        let out = like.new_empty(shape)?;
        let format = match out.rank() {
            4 if channels_last && self.mode != Mode::Circular => MemoryFormat::ChannelsLast,
            5 if channels_last && self.mode != Mode::Circular => MemoryFormat::ChannelsLast3d,
            _ => return Ok(out),
        };
        let layout = out.layout().in_format(format)?;
        Ok(out.with_layout(layout))
    }

    fn pad(self, t: &Tensor) -> Result<Tensor> {
        let sides = self.sides(t.shape())?;
        let mut shape = t.shape().clone();
        sides.iter().for_each(|s| shape[s.dim] = s.size.saturating_add(s.before).saturating_add(s.after));
        let channels_last = has_channels_last(t);
        let out = self.result(t, shape, channels_last)?;
        let inside = sides.iter().fold(out.layout().clone(), |l, s| s.inside(&l));
        copy::copy(t.raw(), out.with_layout(inside).raw())?;
        for (side, part) in self.stages(&sides, out.layout()) {
            for (to, from) in side.parts(&part, self.mode) {
                copy::copy(out.with_layout(from).raw(), out.with_layout(to).raw())?;
            }
        }
        record(out, &[t], |_| PadEdges { edges: self, back: false, channels_last })
    }

    /// The sums of the padded elements at the elements that they came from.
    fn pad_back(self, g: &Tensor, channels_last: bool) -> Result<Tensor> {
        let mut shape = g.shape().clone();
        for (k, pad) in self.pads.chunks_exact(2).enumerate().take(g.rank()) {
            let dim = g.rank() - 1 - k;
            let added = pad[0].saturating_add(pad[1]) as usize;
            ensure!(added <= shape[dim], Runtime, "pad_edges: a gradient of {} has no padding", g.shape());
            shape[dim] -= added;
        }
        let sides = self.sides(&shape)?;
        let sums = self.result(g, g.shape().clone(), channels_last)?;
        copy::copy(g.raw(), sums.raw())?;
        for (side, part) in self.stages(&sides, sums.layout()).rev() {
            for (from, to) in side.parts(&part, self.mode) {
                if from.numel() == 0 {
                    continue;
                }
                let (mut added, mut to) = (sums.with_layout(from), to);
                if self.mode == Mode::Replicate {
                    added = reduce::sum_mask(&added, 1 << side.dim, true, Some(g.dtype()))?;
                    to.shape[side.dim] = 1;
                }
                let to = sums.with_layout(to);
                copy::copy(arith::add(&to, &added)?.raw(), to.raw())?;
            }
        }
        let inside = sides.iter().fold(sums.layout().clone(), |l, s| s.inside(&l));
        let out = self.result(g, shape, channels_last)?;
        copy::copy(sums.with_layout(inside).raw(), out.raw())?;
        record(out, &[g], |_| PadEdges { edges: self, back: true, channels_last })
    }
}

/// The node of a padding, or of its derivative, which is linear.
struct PadEdges {
    edges: Edges,
    back: bool,
    /// Of the input of the padding.
    channels_last: bool,
}

fn has_channels_last(t: &Tensor) -> bool {
    matches!(t.layout().suggested_format(), MemoryFormat::ChannelsLast | MemoryFormat::ChannelsLast3d)
}

impl Function for PadEdges {
    fn name(&self) -> &'static str {
        match (self.edges.mode, self.edges.pads.len(), self.back) {
            (Mode::Reflect, 2, false) => "ReflectionPad1DBackward0",
            (Mode::Reflect, 4, false) => "ReflectionPad2DBackward0",
            (Mode::Reflect, _, false) => "ReflectionPad3DBackward0",
            (Mode::Reflect, 2, true) => "ReflectionPad1DBackwardBackward0",
            (Mode::Reflect, 4, true) => "ReflectionPad2DBackwardBackward0",
            (Mode::Reflect, _, true) => "ReflectionPad3DBackwardBackward0",
            (Mode::Replicate, 2, false) => "ReplicationPad1DBackward0",
            (Mode::Replicate, 4, false) => "ReplicationPad2DBackward0",
            (Mode::Replicate, _, false) => "ReplicationPad3DBackward0",
            (Mode::Replicate, 2, true) => "ReplicationPad1DBackwardBackward0",
            (Mode::Replicate, 4, true) => "ReplicationPad2DBackwardBackward0",
            (Mode::Replicate, _, true) => "ReplicationPad3DBackwardBackward0",
            (Mode::Circular, _, false) => "PadCircularBackward0",
            (Mode::Circular, _, true) => "PadCircularBackwardBackward0",
        }
    }

    fn backward(&self, _: &Cx, grads: Grads) -> Result<Grads> {
        let Some(g) = &grads[0] else { return Ok(smallvec![None]) };
        let (pads, mode) = (&self.edges.pads, self.edges.mode.name());
        Ok(smallvec![Some(if self.back {
            pad_edges(g, pads, mode)?
        } else {
            pad_edges_backward(g, pads, mode, self.channels_last)?
        })])
    }

    fn attributes(&self, visit: &mut Visit<'_>) {
        visit("padding", Attribute::Ints(&self.edges.pads));
    }
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Reflect => "reflect",
            Mode::Replicate => "replicate",
            Mode::Circular => "circular",
        }
    }
}

fn padded(t: &Tensor, pads: &[i64], mode: &str) -> Result<Tensor> {
    Edges::new(pads, mode)?.pad(t)
}

fn padded_back(g: &Tensor, pads: &[i64], mode: &str, channels_last: bool) -> Result<Tensor> {
    Edges::new(pads, mode)?.pad_back(g, channels_last)
}

ops! {
    /// Adds elements of `input` around it, the last dimension first: mirrored, repeated, or from the other side.
    "pad_edges" NN | NATIVE, batch LEADING, samples ["data(3, 4), (1, 2), 'reflect'", "data(3, 4), (2, 1, 0, 2), 'replicate'"] {
        pub fn pad_edges(input: Tensor, pad: size, mode: str) -> Tensor = padded;
    }
    /// The gradient of `pad_edges`; `channels_last` says how its input lay.
    "pad_edges_backward" NN | NATIVE, batch LEADING, samples ["data(3, 7), (1, 2), 'circular'"] {
        pub fn pad_edges_backward(grad: Tensor, pad: size, mode: str, channels_last: bool = False) -> Tensor = padded_back;
    }
}
