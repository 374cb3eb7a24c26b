//! Groups of deferred operations that are computed together, block by block: the form between `defer` and a backend.
//!
//! Note [Groups] The elements of a group are viewed as rows of `n`. A call computes one value per element, per row
//! ([`Level::Rows`]), or one for the group or for each of several rows of many runs ([`Level::Total`]), from operands in memory and from results of earlier calls,
//! element by element: a result in a group is used at the position where it was computed, and a result per row by all
//! elements of the row. A call may go over a part of each row alone ([`Level::Parts`]), as what follows `chunk` does: it takes
//! that part of a result of whole rows. A reduction of columns ([`Level::Columns`], as of `x.sum(0)`, or of `x.sum(1)` for several matrices) has one value
//! per column of each matrix of rows, which no other call of the group reads, but for groups in tiles (Note [Tiles of columns]). Results that nobody needs outside of the group are never stored. Every call is the loop of the
//! operation on a block, so the bits are those of the operations one after the other; a reduction keeps its runs.
//!
//! Note [Tiles of columns] `x - x.mean(1)` of images needs the sum of all channels of a pixel before the first difference, and the channels are
//! far from each other. A group that reads columns that it reduces is computed in tiles: all rows of some columns, few enough that they stay in the
//! cache. The elements are then walked tile by tile, as rows of the tile's width, each of which is a part of a row. A call per column
//! ([`Level::Tile`]) has one value for each column of a tile, which elements read in each row. Rows are combined in the order of the eager
//! kernel. Kernels make sums, and read elements where they lie; extrema are taken by the kernel of the reduction, of elements that the
//! group computes or reads again.
//!
//! Note [Epilogues] A matrix product or a convolution stores its results, and what follows, such as an activation, reads them again. As the
//! producer of a group it gives them to the group piece by piece instead: a thread computes some rows of the product, or planes of the
//! convolution, in a buffer that stays in its cache, and then the calls for these elements. Results that nobody needs outside of the group
//! have no memory. Not all products are computed so: Winograd's algorithm may have to start again, and products of few rows are divided by
//! columns.

use smallvec::SmallVec;

use super::View;
use super::conv::{ConvShape, Product};
use super::pointwise::Kernel;
use super::reduce::{ReduceDims, ReduceOp};
use super::softmax::Kind;
use crate::dtype::{DType, Scalar};
use crate::formula::Formula;

/// The longest rows that calls per row may have: one run of a reduction.
pub const LONGEST_ROW: usize = 1 << 13;
/// The least elements of a part of a row. Shorter ones are copied row by row, which takes longer than a group saves.
pub const SHORTEST_PART: usize = 16;
/// The shortest and the longest rows of which a group has column sums: shorter ones are summed in another order, and a block has at
/// least eight.
pub const SUMMED_ROWS: std::ops::RangeInclusive<usize> = 32..=1 << 12;

/// The rows whose columns are summed by one thread, of `inner` elements each. They are added in an order of their own.
pub const fn rows_of_block(inner: usize) -> usize {
    const ROWS: usize = 128;
    if LONGEST_ROW / inner > ROWS { LONGEST_ROW / inner } else { ROWS }
}

/// The elements of a tile, or of a tile and its buffers. Measured: half as many take up to half as long again, and twice as many no less.
pub const TILE: usize = 1 << 18;

/// The columns of a tile of column sums, such that each of so many threads has two; None if there is no such number.
pub fn tile_of(d: ReduceDims, threads: usize) -> Option<usize> {
    tile_within(d, TILE.min(d.len() / (2 * threads).max(1)))
}

/// As many columns as divide all of them evenly and have at most so many elements; None if there is no such number.
pub fn tile_within(d: ReduceDims, elements: usize) -> Option<usize> {
    // Measured: parts of 64 to 170 columns take up to 1.8 times as long as several groups.
    const LEAST: usize = 256;
    // Rows of some pages are long enough, and tiles of a few of them stay in the first cache.
    const LONGEST: usize = 1 << 12;
    const VECTORS: usize = 16;
    let most = LONGEST.min(elements / d.n.max(1));
    let parts = || (LEAST..=most.min(d.inner)).rev().filter(|width| d.inner.is_multiple_of(*width));
    let whole = Some(d.inner).filter(|n| SUMMED_ROWS.contains(n) && *n <= most);
    whole.or_else(|| parts().find(|width| width.is_multiple_of(VECTORS))).or_else(|| parts().next())
}

/// The shortest runs that are rows of a group because an operand has one value for each run, such as a statistic of channels.
pub const SHORTEST_RUN: usize = 64;

/// Which calls a backend computes in groups, beside pointwise operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fusion {
    /// Sums and the like, of rows and of all elements.
    pub reductions: bool,
    pub softmax: bool,
    /// Those of parts of rows.
    pub parts: bool,
    /// How many threads a group with column sums should keep busy; 0 if groups have none.
    pub columns: usize,
    /// Pointwise operations on the result of a reduction of all elements.
    pub totals: bool,
    /// Pointwise operations that compute in int32 or int64.
    pub integers: bool,
    /// Sums and the like of each of several rows of whole runs of [`LONGEST_ROW`] elements, as those of all elements.
    pub long_rows: bool,
    /// Normalization is computed as its steps, that of rows if they have a multiple of so many elements; 0 if it is not.
    pub norms: usize,
    /// Whether large calls that have no value in common are better computed apart: see Note [Plans].
    pub apart: bool,
    /// Groups that read columns that they reduce: Note [Tiles of columns].
    pub tiles: bool,
}

/// How many results a call has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    Elements,
    /// One per element of a part of each row.
    Parts,
    Rows,
    /// One per column of each of several matrices of rows.
    Columns,
    /// The same, in a group in tiles.
    Tile,
    Total,
}

impl Level {
    /// Whether results are made of all blocks of a group, rather than block by block.
    pub fn is_of_group(self) -> bool {
        matches!(self, Level::Columns | Level::Total)
    }
}

/// An argument of a call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// In memory, by its position in [`Group::operands`].
    Operand(usize),
    /// The result of an earlier call.
    Call(usize),
    /// Of each row of the result of an earlier call, the elements of a part from the given one on.
    Part(usize, usize),
    Number(Scalar),
    /// The elements of [`Group::producer`].
    Produced,
}

/// What makes elements of a group that are not in memory: Note [Epilogues].
#[derive(Clone, Copy)]
pub enum Producer<'a> {
    /// `a @ b + bias` of two matrices or of two batches of them, with one bias per column.
    Matmul { a: View<'a>, b: View<'a>, bias: Option<View<'a>> },
    /// One of the products of [`super::conv::product`].
    Convolution { which: Product, shape: &'a ConvShape, a: View<'a>, b: View<'a>, bias: Option<View<'a>> },
}

impl<'a> Producer<'a> {
    pub fn operands(&self) -> impl Iterator<Item = View<'a>> + Clone {
        let (Producer::Matmul { a, b, bias } | Producer::Convolution { a, b, bias, .. }) = *self;
        [a, b].into_iter().chain(bias)
    }

    /// The elements of a row or plane, of which pieces are whole multiples.
    pub fn unit(&self) -> usize {
        match self {
            Producer::Matmul { b, .. } => b.layout.shape.last().copied().unwrap_or(1),
            Producer::Convolution { which, shape, .. } => shape.plane_of(*which),
        }
    }
}

/// What a call computes.
#[derive(Clone, Copy)]
pub enum Work<'a> {
    /// A pointwise operation with a compiled loop.
    Map {
        kernel: Kernel,
        formula: &'a Formula,
        params: &'a [Scalar],
    },
    /// Its argument.
    Pass,
    /// A reduction of rows, or of all elements.
    Reduce(ReduceOp),
    Softmax(Kind),
    /// From the gradient and the result.
    SoftmaxBackward(Kind),
}

#[derive(Clone)]
pub struct Call<'a> {
    /// The operation's name, for messages and profiles.
    pub name: &'static str,
    pub work: Work<'a>,
    pub level: Level,
    /// The half type that results are rounded to, although they are kept in the group's dtype.
    pub rounded: Option<DType>,
    pub args: SmallVec<[Value; 4]>,
}

/// An operand in memory: of the shape of the elements or of the parts of rows, or one element per row.
#[derive(Clone, Copy)]
pub struct GroupOperand<'a> {
    pub view: View<'a>,
    pub level: Level,
}

/// Calls in order; see Note [Groups].
pub struct Group<'a> {
    /// The dtype that all calls compute in.
    pub compute: DType,
    pub numel: usize,
    /// Elements per row, which divide `numel`; 0 if there are no calls per row.
    pub n: usize,
    /// Elements of a part of a row; 0 if no call goes over parts.
    pub part: usize,
    /// The dimensions of all column sums; a row has `inner` elements.
    pub columns: Option<ReduceDims>,
    /// The columns of a tile; 0 if the group is not computed in tiles.
    pub tile: usize,
    /// What makes the elements of [`Value::Produced`]. Such a group has no call of all blocks.
    pub producer: Option<Producer<'a>>,
    pub calls: &'a [Call<'a>],
    pub operands: &'a [GroupOperand<'a>],
    /// The calls whose results are stored, and where.
    pub results: &'a [(usize, View<'a>)],
}
