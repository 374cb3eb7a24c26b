//! Convolutions with 3×3 kernels of stride 1 by Winograd's algorithm.
//!
//! // Note [Winograd's convolution] F(4×4, 3×3) computes tiles of 4×4 results from 6×6 source elements and needs 36
//! multiplications per pair of channels where the definition needs 144: `Y = Aᵀ (Σ (G w Gᵀ) ⊙ (Bᵀ x B)) A`, the sum over
//! source channels. So for each of 36 points there is a matrix product, of the transformed tiles with the transformed
//! filters. Polynomials are evaluated at 0, ±3/4, ±3/2 and infinity, where the usual 0, ±1, ±2 and infinity more than
//! double the rounding error.
//!
//! Lanes of the transforms are channels, so that sources and results are turned in blocks, and nothing is wasted on small
//! images. Where there are many tiles, filters are transformed first, and a task takes a range of tiles through all
//! steps. Where there are few, the transformed filters would be larger than all else, so a task transforms those
//! of some destination channels just before it uses them. The ranges follow from the shape alone.

mod picture;
#[cfg(test)]
mod tests;
mod transforms;
mod weight;

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::backend::conv::{ConvShape, Product};
use crate::backend::cpu::lines::Line;
use crate::backend::cpu::matmul::{product_of_tiles, with_scratch};
use crate::backend::cpu::microkernel::{GemmElem, Kernels, View, ViewMut};
use crate::backend::cpu::output::Cells;
use crate::backend::cpu::parallel::{for_chunks_mut, parallel_for};
use crate::backend::cpu::simd::isa;
use crate::backend::cpu::transpose::transpose;
use crate::backend::{View as Tensor, elements, results};
use crate::dtype::DType;
use crate::error::Result;
use picture::{Picture, Run, TURNED};
use transforms::{GROUP, OUT, POINTS, SIDE, Transforms, transforms};

thread_local! {
    /// Transformed filters or sources, on the thread that calls a convolution.
    static SHARED: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
    /// The operands and products of a task.
    static TASK: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Taps of a filter.
const TAPS: usize = 9;
/// Destination channels of a panel.
const PANEL: usize = 32;
/// Source channels whose filters are turned at a time.
const TURN: usize = 8;

/// Computes a product where this is faster than its definition; else false. The operands are those of
/// [`crate::backend::conv::product`].
pub fn product(
    which: Product,
    s: &ConvShape,
    a: Tensor,
    w: Tensor,
    bias: Option<Tensor>,
    out: Tensor,
) -> Result<bool> {
    if out.dtype != DType::F32 || !s.winograd {
        return Ok(false);
    }
    let winograd = match which {
        Product::Output => Winograd::forward(s),
        Product::Input => Winograd::backward_input(s),
        Product::Weight => {
            let Some(winograd) = Winograd::forward(s).filter(weight::pays) else { return Ok(false) };
            return Ok(weight::run(&winograd, elements(a), elements(w), &mut results(out)?));
        }
    };
    let Some(winograd) = winograd.filter(Winograd::pays) else { return Ok(false) };
    let (cells, first) = (Cells::of(out)?, out.layout.offset);
    let put = |at: usize, values: &[f32]| cells.write(first + at, values);
    Ok(winograd.run(elements(a), elements(w), bias.map(elements), &put))
}

/// Whether a gradient of the input or an output of float32 is computed so.
pub fn pays(which: Product, s: &ConvShape) -> bool {
    let winograd = match which {
        Product::Output => Winograd::forward(s),
        Product::Input => Winograd::backward_input(s),
        Product::Weight => None,
    };
    s.winograd && winograd.as_ref().is_some_and(Winograd::pays)
}

/// A correlation of `from` source channels with 3×3 filters to `to` destination channels.
pub struct Winograd {
    images: usize,
    from: usize,
    to: usize,
    source: [usize; 2],
    target: [usize; 2],
    padding: [usize; 2],
    /// Elements between the filters of neighbouring destination and source channels.
    strides: [usize; 2],
    /// Whether the filters are reversed along both axes.
    flipped: bool,
}

/// Writes contiguous elements of the result from an index on.
pub type Put<'a> = &'a (dyn Fn(usize, &[f32]) + Sync);

impl Winograd {
    /// The convolution itself; None if it is not one of these.
    pub fn forward(s: &ConvShape) -> Option<Winograd> {
        fits(s).then(|| Winograd {
            images: s.n,
            from: s.c_in,
            to: s.c_out,
            source: [s.input[1], s.input[2]],
            target: [s.output[1], s.output[2]],
            padding: [s.padding[1], s.padding[2]],
            strides: [s.c_in * TAPS, TAPS],
            flipped: false,
        })
    }

    /// The gradient of its input.
    pub fn backward_input(s: &ConvShape) -> Option<Winograd> {
        fits(s).then(|| Winograd {
            images: s.n,
            from: s.c_out,
            to: s.c_in,
            source: [s.output[1], s.output[2]],
            target: [s.input[1], s.input[2]],
            padding: [2 - s.padding[1], 2 - s.padding[2]],
            strides: [TAPS, s.c_in * TAPS],
            flipped: true,
        })
    }

    /// Tiles of an image along both axes.
    fn tiles(&self) -> [usize; 2] {
        self.target.map(|t| t.div_ceil(OUT))
    }

    /// Whether it is faster than the definition, by what was measured: a filter is transformed in the time of 160
    /// multiplications, and tiles in that of 900 for each channel. With fewer than 16 source channels the sums of the
    /// definition are so short that its errors may be less than a quarter.
    fn pays(&self) -> bool {
        let [rows, columns] = self.tiles();
        let (tiles, channels) = (self.images * rows * columns, self.from * self.to);
        let direct = channels * TAPS * self.images * self.target[0] * self.target[1];
        self.from >= 16 && channels * (POINTS * tiles + 160) + 900 * tiles * (self.from + self.to) < direct
    }

    /// The source in tiles.
    fn picture<'x>(&self, x: &'x [f32]) -> Picture<'x> {
        Picture {
            data: x,
            channels: self.from,
            size: self.source,
            padding: self.padding,
            grid: self.tiles(),
            side: SIDE,
            transform: transforms().source,
        }
    }

    /// Writes all results; false if any is not finite. An infinity makes all results of its tiles NaN, which is to be
    /// replaced by what the definition gives.
    pub fn run(&self, x: &[f32], w: &[f32], bias: Option<&[f32]>, put: Put) -> bool {
        let [rows, columns] = self.tiles();
        let tiles = self.images * rows * columns;
        if tiles == 0 || self.from == 0 || self.to == 0 {
            return false;
        }
        let call = Call {
            s: self,
            kernels: f32::kernels(isa()),
            transforms: transforms(),
            picture: self.picture(x),
            w,
            bias,
            put,
            finite: AtomicBool::new(true),
            plan: Plan::new(self, tiles),
        };
        if call.plan.filters_first {
            call.by_tiles(tiles)
        } else {
            call.by_channels(tiles)
        }
        call.finite.into_inner()
    }
}

fn fits(s: &ConvShape) -> bool {
    let plain = s.stride == [1; 3] && s.dilation == [1; 3] && s.kernel == [1, 3, 3];
    plain && s.groups == 1 && s.input[0] == 1 && s.padding[0] == 0 && s.padding[1].max(s.padding[2]) <= 2
}

crate::multiversion! {
    fn all_finite(values: &[f32]) -> bool {
        let largest = |most: u32, v: &f32| most.max(v.to_bits() & 0x7fff_ffff);
        values.iter().fold(0, largest) < f32::INFINITY.to_bits()
    }
}

/// How the work is divided.
struct Plan {
    /// Whether all filters are transformed first, or else by each task.
    filters_first: bool,
    /// The most tiles that are transformed together.
    tiles: usize,
    /// Source channels of a block; sums over blocks are added.
    block: usize,
    /// Panels of destination channels whose products are kept at a time.
    panels: usize,
}

/// Elements of all transformed filters, at most, or of all transformed sources of a task.
const MOST: usize = 4 << 20;
/// With more tiles than this, filters are transformed first.
const MANY: usize = 128;

impl Plan {
    fn new(s: &Winograd, tiles: usize) -> Plan {
        let even = |size: usize, most: usize| size.div_ceil(size.div_ceil(most));
        let fitting = (MOST / (POINTS * s.from)).max(8);
        let filters_first = tiles > MANY && POINTS * s.from * s.to <= MOST;
        let (most, block, panels) = if filters_first {
            // Several tiles for each row of a product, and ranges for eight threads.
            (56.min(tiles.div_ceil(8).max(14)), 256, 1)
        } else {
            (MANY, 128, if s.to >= 8 * PANEL { 2 } else { 1 })
        };
        let block = even(s.from, block).next_multiple_of(GROUP);
        Plan { filters_first, tiles: even(tiles, most.min(fitting)), block, panels }
    }
}

/// One call: the operands and how they are divided.
struct Call<'a> {
    s: &'a Winograd,
    kernels: &'static Kernels<f32>,
    transforms: &'static Transforms,
    picture: Picture<'a>,
    w: &'a [f32],
    bias: Option<&'a [f32]>,
    put: Put<'a>,
    /// Whether all results so far are.
    finite: AtomicBool,
    plan: Plan,
}

impl Call<'_> {
    /// Blocks of source channels.
    fn blocks(&self) -> usize {
        self.s.from.div_ceil(self.plan.block)
    }

    fn block(&self, b: usize) -> Range<usize> {
        b * self.plan.block..self.s.from.min((b + 1) * self.plan.block)
    }

    /// Panels of destination channels.
    fn panels(&self) -> usize {
        self.s.to.div_ceil(PANEL)
    }

    /// Elements between the transformed tiles of a point. Rows at a stride that divides the page size would evict each
    /// other from the L1 cache.
    fn pitch(&self) -> usize {
        if self.plan.block.is_multiple_of(256) { self.plan.block + GROUP } else { self.plan.block }
    }

    /// Elements of a point of `n` transformed tiles, of their products with a panel, and of the filters of a block and a
    /// panel. Points at a stride that is a power of two would evict each other from the L1 cache.
    fn source_plane(&self, n: usize) -> usize {
        n * self.pitch() + GROUP
    }

    fn product_plane(&self, n: usize) -> usize {
        n * PANEL + GROUP
    }

    fn filter_plane(&self) -> usize {
        self.plan.block * PANEL + GROUP
    }

    fn filter_len(&self) -> usize {
        POINTS * self.filter_plane()
    }

    /// Transforms all filters, then takes ranges of tiles through all steps.
    fn by_tiles(&self, tiles: usize) {
        let (blocks, panels) = (self.blocks(), self.panels());
        let filter_len = self.filter_len();
        with_scratch(&SHARED, panels * blocks * filter_len, |filters: &mut [f32]| {
            for_chunks_mut(filters, filter_len, |i, out| self.filters(i / blocks, i % blocks, out));
            let ranges = tiles.div_ceil(self.plan.tiles);
            parallel_for(ranges, 1, |some| {
                for i in some {
                    let range = i * tiles / ranges..(i + 1) * tiles / ranges;
                    let (n, runs) = (range.len(), self.picture.runs(range));
                    let source_len = POINTS * self.source_plane(n);
                    let product_len = POINTS * self.product_plane(n);
                    let len = blocks * source_len + self.plan.panels * product_len;
                    with_scratch(&TASK, len, |work: &mut [f32]| {
                        let (sources, products) = work.split_at_mut(blocks * source_len);
                        for (b, out) in sources.chunks_exact_mut(source_len).enumerate() {
                            self.sources(&runs, n, b, out);
                        }
                        for first in (0..panels).step_by(self.plan.panels) {
                            let some = first..panels.min(first + self.plan.panels);
                            for (b, sources) in sources.chunks_exact(source_len).enumerate() {
                                let filters = |panel: usize| {
                                    &filters[(panel * blocks + b) * filter_len..][..filter_len]
                                };
                                self.products(n, b, some.clone(), sources, filters, products);
                            }
                            self.targets(&runs, n, some, products);
                        }
                    });
                }
            });
        });
    }

    /// Transforms sources, then takes the filters of some destination channels at a time through all steps.
    fn by_channels(&self, tiles: usize) {
        let (blocks, panels) = (self.blocks(), self.panels());
        let ranges = tiles.div_ceil(self.plan.tiles);
        for i in 0..ranges {
            let range = i * tiles / ranges..(i + 1) * tiles / ranges;
            let (n, runs) = (range.len(), self.picture.runs(range));
            let source_len = POINTS * self.source_plane(n);
            let product_len = POINTS * self.product_plane(n);
            with_scratch(&SHARED, blocks * source_len, |sources: &mut [f32]| {
                for_chunks_mut(sources, source_len, |b, out| self.sources(&runs, n, b, out));
                parallel_for(panels, self.plan.panels, |some| {
                    let len = some.len() * (self.filter_len() + product_len);
                    with_scratch(&TASK, len, |work: &mut [f32]| {
                        let (filters, products) = work.split_at_mut(some.len() * self.filter_len());
                        for (b, sources) in sources.chunks_exact(source_len).enumerate() {
                            for (panel, out) in some.clone().zip(filters.chunks_exact_mut(self.filter_len()))
                            {
                                self.filters(panel, b, out);
                            }
                            let filters = |panel: usize| {
                                &filters[(panel - some.start) * self.filter_len()..][..self.filter_len()]
                            };
                            self.products(n, b, some.clone(), sources, filters, products);
                        }
                        self.targets(&runs, n, some.clone(), products);
                    });
                });
            });
        }
    }

    /// Transforms the sources of tiles, for a block of channels.
    fn sources(&self, runs: &[Run], n: usize, block: usize, out: &mut [f32]) {
        self.picture.transform(runs, self.block(block), out, self.source_plane(n), self.pitch());
    }

    /// Transforms the filters of a panel of destination channels and a block of source channels.
    fn filters(&self, panel: usize, block: usize, out: &mut [f32]) {
        let channels = self.block(block);
        let first = panel * PANEL;
        let lanes = PANEL.min(self.s.to - first);
        let [to, from] = self.s.strides;
        // Filters of neighbouring source channels are turned together where they are contiguous.
        let step = if from == TAPS { TURN } else { 1 };
        let mut turned = [0.0; PANEL * TAPS * TURN];
        for c in channels.clone().step_by(step) {
            let many = step.min(channels.end - c);
            let turned = &mut turned[..many * TAPS * PANEL];
            transpose(&self.w[first * to + c * from..], to, many * TAPS, lanes, turned, PANEL);
            let out = &mut out[(c - channels.start) * PANEL..];
            (self.transforms.filter)(turned, PANEL, self.s.flipped, out, self.filter_plane());
        }
    }

    /// Multiplies the transformed tiles of a block of source channels with the filters of some panels.
    fn products<'f>(
        &self,
        n: usize,
        block: usize,
        panels: Range<usize>,
        sources: &[f32],
        filters: impl Fn(usize) -> &'f [f32],
        products: &mut [f32],
    ) {
        let depth = self.block(block).len();
        for p in 0..POINTS {
            let a = View { data: &sources[p * self.source_plane(n)..], rs: self.pitch(), cs: 1 };
            for (i, panel) in panels.clone().enumerate() {
                let b = View { data: &filters(panel)[p * self.filter_plane()..], rs: PANEL, cs: 1 };
                let mut c = ViewMut::new(
                    &mut products[(i * POINTS + p) * self.product_plane(n)..][..n * PANEL],
                    n,
                    PANEL,
                );
                let columns = PANEL.min(self.s.to - panel * PANEL);
                product_of_tiles(self.kernels, depth, a, b, &mut c.part(0, 0, n, columns), block > 0);
            }
        }
    }

    /// Transforms the products of tiles and some panels back, and writes the results.
    fn targets(&self, runs: &[Run], n: usize, panels: Range<usize>, products: &[f32]) {
        let [height, width] = self.s.target;
        let [rows, columns] = self.s.tiles();
        let first = runs.first().map_or(0, |run| run.tiles.start);
        let len = OUT * OUT * columns.min(n) * GROUP;
        with_scratch(&TURNED, 2 * len, |turned: &mut [f32]| {
            let (results, planes) = turned.split_at_mut(len);
            for (i, panel) in panels.enumerate() {
                for run in runs {
                    let mut tile = run.tiles.start;
                    while tile < run.tiles.end {
                        let end = run.tiles.end.min((tile / columns + 1) * columns);
                        let (y, x) = (tile / columns % rows * OUT, tile % columns * OUT);
                        let (h, w) = (OUT.min(height - y), ((end - tile) * OUT).min(width - x));
                        for part in (0..PANEL.min(self.s.to - panel * PANEL)).step_by(GROUP) {
                            let channel = panel * PANEL + part;
                            let lanes = GROUP.min(self.s.to - channel);
                            let mut bias = [0.0; GROUP];
                            if let Some(all) = self.bias {
                                bias[..lanes].copy_from_slice(&all[channel..channel + lanes]);
                            }
                            let m = &products
                                [i * POINTS * self.product_plane(n) + (tile - first) * PANEL + part..];
                            (self.transforms.target)(
                                m,
                                [self.product_plane(n), PANEL],
                                &bias,
                                results,
                                [h, w],
                            );
                            let planes = &mut planes[..lanes * h * w];
                            transpose(results, GROUP, lanes, h * w, planes, h * w);
                            if !all_finite(planes) {
                                self.finite.store(false, Ordering::Relaxed);
                            }
                            for (c, plane) in planes.chunks(h * w).enumerate() {
                                let at = ((run.image * self.s.to + channel + c) * height + y) * width + x;
                                if w == width {
                                    (self.put)(at, plane);
                                } else {
                                    for (r, row) in plane.chunks(w).enumerate() {
                                        (self.put)(at + r * width, row);
                                    }
                                }
                            }
                        }
                        tile = end;
                    }
                }
            }
        });
    }
}
