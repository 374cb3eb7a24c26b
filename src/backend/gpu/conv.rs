//! The three products of a convolution on a GPU, computed without rearranging the operands.
//!
//! Note [Kernels of a convolution] On a GPU a convolution with many channels is computed as a matrix product through
//! workgroup memory (`tiled`): Note [Matrices of a convolution]. On software adapters, and for groups of few channels,
//! each invocation computes a tile directly from the operands: Note [Tiles of a convolution]. For large convolutions
//! the tuner measures the candidates once per adapter and class of shapes; the others are selected by size.
//!
//! Note [Tiles of a convolution] For an output, or the gradient of an input, a tile is some channels by some
//! positions: the position of a tap is computed once for all channels of the sum, and each loaded element is used for
//! the whole tile. For the gradient of a weight, a tile is some output channels by some input channels at one tap; the
//! rows of all outputs are divided among invocations, whose partial sums are added at the end. Tiles shrink until
//! there are enough of them to occupy the device, so that a depthwise convolution uses tiles of a single channel.

mod render;
mod tiled;

use smallvec::{SmallVec, smallvec};

use super::device::{Gpu, of};
use super::params::Params;
use super::pipeline::{LOOPS, Launch, expect_loops};
use super::pointwise::add_to;
use super::reduce;
use super::tune;
use super::window::{BufferWindow, by_rows, fits};
use super::workspace::Workspace;
use crate::backend::View;
use crate::backend::conv::{ConvShape, Product};
use crate::backend::copy::fill;
use crate::backend::reduce::{ReduceDims, ReduceOp};
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::layout::Layout;

/// Invocations per workgroup.
const GROUP: usize = 32;
/// The number of invocations that occupies a GPU, and a software adapter.
const BUSY: usize = 1 << 14;
const BUSY_CPU: usize = 1 << 8;
/// The minimum depth of a partial sum of a weight gradient.
const SEGMENT: usize = 256;
/// The maximum number of elements of an output row that are summed at a time.
const PIECE: usize = 1 << 12;
/// Minimum number of multiplications for tuning.
const WORTH_TUNING: usize = 1 << 26;
/// Minimum number of rows, columns and depth for matrix tiles; below, partial tiles waste too much.
const WORTH_TILES: usize = 32;

/// A kernel of a convolution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kernel {
    /// One tile per invocation, of a size that occupies the device.
    Direct,
    /// Matrix tiles of 64 or 128 rows and columns per workgroup.
    Tiled(u8),
}

/// The tile of an invocation: channels by quads of positions (for a weight gradient: of input channels).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tile {
    rows: usize,
    fours: usize,
}

/// From the fewest loads to the most invocations.
const TILES: [Tile; 6] = [
    Tile { rows: 8, fours: 2 },
    Tile { rows: 8, fours: 1 },
    Tile { rows: 4, fours: 2 },
    Tile { rows: 4, fours: 1 },
    Tile { rows: 2, fours: 1 },
    Tile { rows: 1, fours: 1 },
];

/// The product of `a` and `b`, with a bias for an output; see `backend::conv`.
pub fn product(which: Product, s: &ConvShape, a: View, b: View, bias: Option<View>, out: View) -> Result<()> {
    if out.layout.numel() == 0 {
        return Ok(());
    }
    if a.layout.numel() == 0 || b.layout.numel() == 0 {
        // An empty sum. (An output with an empty sum would have its bias, but callers never request one.)
        return fill(out, Scalar::Int(0));
    }
    let gpu = of(out)?;
    let views: SmallVec<[View; 4]> = [out, a, b].into_iter().chain(bias).collect();
    if fits(gpu, &views) {
        whole(which, s, a, b, bias, out)
    } else {
        in_parts(gpu, which, s, a, b, bias, out)
    }
}

/// Splits a convolution that exceeds the binding size into parts of several images.
fn in_parts(
    gpu: &'static Gpu,
    which: Product,
    s: &ConvShape,
    a: View,
    b: View,
    bias: Option<View>,
    out: View,
) -> Result<()> {
    let some = |n| ConvShape { n, ..*s };
    if which != Product::Weight {
        let weight = BufferWindow::new(gpu, &b)?;
        return by_rows(gpu, "convolution", s.n, &[a, out], &mut |n, v| {
            whole(which, &some(n), v[0], weight.view(), bias, v[1])
        });
    }
    let sum = BufferWindow::new(gpu, &out)?;
    let mut is_first = true;
    by_rows(gpu, "convolution", s.n, &[a, b], &mut |n, v| {
        if std::mem::take(&mut is_first) {
            return whole(which, &some(n), v[0], v[1], None, sum.view());
        }
        let held = Workspace::new(gpu, out.layout.numel(), out.dtype)?;
        let layout = Layout::contiguous(out.layout.shape.clone());
        let held = View { layout: &layout, ..held.view() };
        whole(which, &some(n), v[0], v[1], None, held)?;
        add_to(out, held)
    })
}

/// A convolution whose tensors fit in bindings, by the fastest kernel.
fn whole(which: Product, s: &ConvShape, a: View, b: View, bias: Option<View>, out: View) -> Result<()> {
    let kernel = choose(of(out)?, which, s, out.dtype, |kernel| run(kernel, which, s, a, b, bias, out))?;
    run(kernel, which, s, a, b, bias, out)
}

/// A non-empty convolution by a given kernel; `Tiled` supports float32 only.
pub fn run(
    kernel: Kernel,
    which: Product,
    s: &ConvShape,
    a: View,
    b: View,
    bias: Option<View>,
    out: View,
) -> Result<()> {
    match kernel {
        Kernel::Direct => direct(which, s, a, b, bias, out),
        Kernel::Tiled(side) => tiled::run(which, s, side.into(), a, b, bias, out),
    }
}

fn choose(
    gpu: &'static Gpu,
    which: Product,
    s: &ConvShape,
    dtype: DType,
    run: impl Fn(Kernel) -> Result<()>,
) -> Result<Kernel> {
    let sizes = tiled::Sizes::of(which, s);
    // Tiles of 8-byte elements exceed the workgroup memory guaranteed on all adapters.
    if gpu.caps.is_cpu || dtype != DType::F32 || sizes.m.min(sizes.n).min(sizes.k) < WORTH_TILES {
        return Ok(Kernel::Direct);
    }
    if s.groups * sizes.m * sizes.n * sizes.k < WORTH_TUNING {
        return Ok(Kernel::Tiled(64));
    }
    let kernels: SmallVec<[Kernel; 3]> = smallvec![Kernel::Tiled(64), Kernel::Tiled(128), Kernel::Direct];
    // Sizes within a class differ by less than a factor of two; stride and dilation affect the access pattern.
    let [groups, m, n, k] = [s.groups, sizes.m, sizes.n, sizes.k].map(usize::ilog2);
    let key = format!("conv {which:?} {groups} {m} {n} {k} {:?} {:?} {:?}", s.kernel, s.stride, s.dilation);
    let names: SmallVec<[String; 3]> = kernels.iter().map(|k| format!("{k:?}")).collect();
    Ok(kernels[tune::fastest(gpu, &key, &names, |i| run(kernels[i]))?])
}

fn direct(which: Product, s: &ConvShape, a: View, b: View, bias: Option<View>, out: View) -> Result<()> {
    let gpu = of(out)?;
    let volume = |sizes: [usize; 3]| sizes.iter().product::<usize>();
    let (rows, depth) = match which {
        Product::Output | Product::Weight => (s.c_out / s.groups, s.c_in / s.groups),
        Product::Input => (s.c_in / s.groups, s.c_out / s.groups),
    };
    let busy = if gpu.caps.is_cpu { BUSY_CPU } else { BUSY };
    let tiles = |t: Tile| {
        let rows = s.groups * rows.div_ceil(t.rows);
        match which {
            Product::Output => s.n * rows * volume(s.output).div_ceil(4 * t.fours),
            Product::Input => s.n * rows * volume(s.input).div_ceil(4 * t.fours),
            Product::Weight => rows * depth.div_ceil(4 * t.fours) * volume(s.kernel),
        }
    };
    if which != Product::Weight {
        expect_loops(gpu, "convolution", volume(s.kernel) * (depth + 1))?;
    }
    // A sum over the rows of all outputs (long rows in pieces) can be split, which compensates for a small number of
    // tiles.
    let piece = PIECE.min(s.output[2]);
    let lines = s.n * s.output[0] * s.output[1] * s.output[2].div_ceil(piece);
    let splits = if which == Product::Weight { lines.div_ceil(4) } else { 1 };
    let fits = |t: &Tile| t.rows < 2 * rows && tiles(*t) * splits >= busy;
    let tile = TILES.into_iter().find(|t| fits(t)).unwrap_or(TILES[if rows > 1 { 4 } else { 5 }]);
    let call = Call { which, s, rows, depth, tile, piece };
    let share = match which {
        // See Note [Long loops].
        Product::Weight => lines.div_ceil((busy / tiles(tile)).clamp(1, splits)).min(LOOPS / piece),
        _ => lines,
    };
    let segments = if which == Product::Weight { lines.div_ceil(share) } else { 1 };
    let count = tiles(tile) * segments;
    if segments == 1 {
        return call.run(gpu, count, segments, share, a, b, bias, out);
    }
    let elements = out.layout.numel();
    let partial = Workspace::new(gpu, elements * segments, out.dtype)?;
    call.run(gpu, count, segments, share, a, b, None, partial.view())?;
    reduce::fold(ReduceOp::Sum, partial.view(), ReduceDims { outer: 1, n: segments, inner: elements }, out)
}

struct Call<'a> {
    which: Product,
    s: &'a ConvShape,
    /// Number of channels of a group in the result, and in the sum.
    rows: usize,
    depth: usize,
    tile: Tile,
    /// Maximum number of elements of a row in a partial sum of a weight gradient.
    piece: usize,
}

impl Call<'_> {
    fn run(
        &self,
        gpu: &Gpu,
        count: usize,
        segments: usize,
        share: usize,
        a: View,
        b: View,
        bias: Option<View>,
        out: View,
    ) -> Result<()> {
        gpu.expect("convolution", out.dtype)?;
        let s = self.s;
        let taps = s.kernel.iter().product::<usize>();
        let (w_row, w_depth) = match self.which {
            Product::Input => (taps, self.rows * taps),
            _ => (self.depth * taps, taps),
        };
        let mut params = Params::new(count as u32);
        for v in [s.n, s.groups, self.rows, self.depth, w_row, w_depth, segments, share, self.piece] {
            params.u32(v as u32);
        }
        for v in [Some(a), Some(b), bias, Some(out)] {
            params.u32(v.map_or(0, |v| v.layout.offset) as u32);
        }
        for sizes in [s.input, s.kernel, s.output, s.stride, s.padding, s.dilation] {
            params.sizes(sizes);
        }
        let read = [a, b, bias.unwrap_or(b)];
        let Tile { rows, fours } = self.tile;
        gpu.launch(Launch {
            op: "convolution",
            kernel: "conv",
            variant: &[self.which as u8, out.dtype as u8, bias.is_some() as u8, rows as u8, fours as u8],
            source: &|| render::source(self.which, out.dtype, bias.is_some(), rows, fours),
            written: &[out],
            read: &read[..2 + bias.is_some() as usize],
            params: &params,
            groups: count.div_ceil(GROUP),
        })
    }
}
