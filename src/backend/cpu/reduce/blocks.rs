//! Reductions of blocks that others computed: see Note [Groups].

use std::marker::PhantomData as P;

use super::extremum::Greatest;
use super::moments::{ExpSum, ExpSums};
use super::{
    FEW_ROWS, Kernel, Monoid, NARROW, Ordered, Product, ReduceOp as Each, Sum, fold_more, merge_in_pairs,
    rows_of,
};
use crate::backend::cpu::math::ExpNonpositive;
use crate::backend::cpu::parallel::for_chunks_mut2;
use crate::backend::cpu::simd::{Isa, IsaDispatch};
use crate::backend::group::rows_of_block;
use crate::backend::reduce::{ReduceDims, ReduceOp};
use crate::dtype::Real;
use crate::multiversion;

/// A reduction of the rows of a block, or of the runs of a long row, with the bits of the reduction of a tensor.
pub(in crate::backend::cpu) struct BlockReduction<T> {
    kernel: Box<dyn Kernel<T, T>>,
    /// Converts the reduced value to the result.
    finish: Option<fn(T) -> T>,
    is_sum: bool,
}

/// The reduction of an operation, if there is one.
pub(in crate::backend::cpu) fn block_reduction<T: Real + Ordered>(op: ReduceOp) -> Option<BlockReduction<T>> {
    let plain = |kernel, is_sum| Some(BlockReduction { kernel, finish: None, is_sum });
    match op {
        ReduceOp::Sum => plain(Box::new(Each(Sum(P))), true),
        ReduceOp::Product => plain(Box::new(Each(Product(P))), false),
        ReduceOp::Max => {
            let kernel = Box::new(Each(Greatest(P, T::turn(false))));
            Some(BlockReduction { kernel, finish: Some(|v| v.turned(T::turn(false))), is_sum: false })
        }
        ReduceOp::Min => {
            let kernel = Box::new(Each(Greatest(P, T::turn(true))));
            Some(BlockReduction { kernel, finish: Some(|v| v.turned(T::turn(true))), is_sum: false })
        }
        _ => None,
    }
}

/// As [`BlockReduction`], the logarithms of sums of exponentials.
pub(in crate::backend::cpu) struct BlockLogSumExp<T>(P<fn(T)>);

impl<T: ExpNonpositive> BlockLogSumExp<T> {
    pub fn new() -> Self {
        BlockLogSumExp(P)
    }

    /// Those of each row of `n` elements, at most a run.
    pub fn rows(&self, x: &[T], n: usize, out: &mut [T]) {
        const TOGETHER: usize = 32;
        let mut sums = [ExpSum { max: T::ZERO, scaled: T::ZERO }; TOGETHER];
        for (x, out) in x.chunks(TOGETHER * n).zip(out.chunks_mut(TOGETHER)) {
            let sums = &mut sums[..out.len()];
            Kernel::runs(&ExpSums::new(), x, n, 0, sums);
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out = sum.log());
        }
    }
}

impl<T> BlockReduction<T> {
    /// Whether it adds.
    pub fn is_sum(&self) -> bool {
        self.is_sum
    }
}

impl<T: Real + Ordered> BlockReduction<T> {
    /// Reduces each row of `n` elements, at most a run.
    pub fn rows(&self, x: &[T], n: usize, out: &mut [T]) {
        self.kernel.runs(x, n, 0, out);
        if let Some(finish) = self.finish {
            out.iter_mut().for_each(|v| *v = finish(*v));
        }
    }

    /// Reduces one run of at most [`super::RUN`] elements, without the end of the reduction.
    pub fn run(&self, x: &[T]) -> T {
        let mut out = [self.kernel.identity()];
        self.kernel.runs(x, x.len(), 0, &mut out);
        out[0]
    }

    /// The result of all runs, from those of each in order.
    pub fn total(&self, runs: &mut [T]) -> T {
        merge_in_pairs(&*self.kernel, runs, 1);
        let total = runs.first().copied().unwrap_or_else(|| self.kernel.identity());
        self.finish.map_or(total, |finish| finish(total))
    }
}

/// How the rows of reductions of columns are divided into blocks, which are computed a few rows at a time with the bits of the reduction of a tensor.
#[derive(Clone, Copy)]
pub(in crate::backend::cpu) struct ColumnBlocks {
    /// As of the reduction: results of columns, of which each has `n` elements.
    dims: ReduceDims,
    /// The most rows of a block.
    most: usize,
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    fn fold_rows[M: Monoid](m: M, x: &[M::In], width: usize, pairwise: bool, acc: &mut [M::Acc]) {
        fold_more(m, x, x.len() / width, width, pairwise, acc);
    }
}

impl ColumnBlocks {
    /// None for narrow rows, whose reduction has another order.
    pub fn of(dims: ReduceDims) -> Option<ColumnBlocks> {
        (dims.inner >= NARROW).then_some(ColumnBlocks { dims, most: rows_of_block(dims.inner) })
    }

    /// Those of tiles of so many columns, each as a matrix of its own.
    pub fn of_tiles(dims: ReduceDims, tile: usize) -> Option<ColumnBlocks> {
        let of = ColumnBlocks::of(dims)?;
        let dims = ReduceDims { outer: dims.outer * (dims.inner / tile), inner: tile, ..dims };
        Some(ColumnBlocks { dims, ..of })
    }

    /// The rows of each result.
    pub fn height(&self) -> usize {
        self.dims.n
    }

    /// The blocks into which the rows of each result are divided.
    pub fn cuts(&self) -> usize {
        self.dims.n.div_ceil(self.most).max(1)
    }

    pub fn blocks(&self) -> usize {
        self.dims.outer * self.cuts()
    }

    /// The rows of a block.
    pub fn rows(&self, block: usize) -> std::ops::Range<usize> {
        let (result, cut) = (block / self.cuts(), block % self.cuts());
        let [first, end] =
            [cut * self.most, (cut + 1) * self.most].map(|row| result * self.dims.n + row.min(self.dims.n));
        first..end
    }

    /// Whether the rows of each block are whole eights that are added in pairs.
    pub fn has_whole_eights(&self) -> bool {
        let rows = |block| self.rows(block).len();
        let is_whole = |block: usize| rows(block).is_multiple_of(8) && rows(block) > FEW_ROWS;
        self.blocks() > 0 && is_whole(0) && is_whole(self.cuts() - 1)
    }
}

/// A reduction of columns: the results of rows are combined with what those before them gave, and those of all blocks merged at the end.
#[derive(Clone, Copy)]
pub(in crate::backend::cpu) struct ColumnReduction<T> {
    pub is_sum: bool,
    /// What results are before the first row.
    pub identity: T,
    add: fn(ColumnBlocks, &[T], usize, &mut [T]),
    fold: fn(ColumnBlocks, &mut [T]),
}

/// That of an operation, if there is one.
pub(in crate::backend::cpu) fn column_reduction<T: Real + Ordered>(
    op: ReduceOp,
) -> Option<ColumnReduction<T>> {
    fn add<M: Monoid>(m: M, of: ColumnBlocks, x: &[M::In], rows: usize, acc: &mut [M::Acc]) {
        fold_rows(m, x, of.dims.inner, rows > FEW_ROWS, acc);
    }
    fn fold<T: Ordered>(reverses: bool, of: ColumnBlocks, blocks: &mut [T]) {
        let turn = T::turn(reverses);
        merge_in_pairs(&Each(Greatest(P, turn)), blocks, of.dims.inner);
        blocks[..of.dims.inner].iter_mut().for_each(|v| *v = v.turned(turn));
    }
    Some(match op {
        ReduceOp::Sum => ColumnReduction {
            is_sum: true,
            identity: T::ZERO,
            add: |of, x, rows, acc| add(Sum(P), of, x, rows, acc),
            fold: |of, blocks| merge_in_pairs(&Each(Sum(P::<fn(T)>)), blocks, of.dims.inner),
        },
        ReduceOp::Max => ColumnReduction {
            is_sum: false,
            identity: T::LEAST,
            add: |of, x, rows, acc| add(Greatest(P, T::turn(false)), of, x, rows, acc),
            fold: |of, blocks| fold(false, of, blocks),
        },
        ReduceOp::Min => ColumnReduction {
            is_sum: false,
            identity: T::LEAST,
            add: |of, x, rows, acc| add(Greatest(P, T::turn(true)), of, x, rows, acc),
            fold: |of, blocks| fold(true, of, blocks),
        },
        _ => return None,
    })
}

impl<T: Copy + Send + Sync> ColumnReduction<T> {
    /// Combines rows of a block of `rows` with its results. All but the last must be whole eights.
    pub fn add(&self, of: ColumnBlocks, x: &[T], rows: usize, acc: &mut [T]) {
        (self.add)(of, x, rows, acc);
    }

    /// Makes the first block of one result the result.
    pub fn fold(&self, of: ColumnBlocks, blocks: &mut [T]) {
        (self.fold)(of, blocks);
    }

    /// The results, from those of all blocks.
    pub fn merge(&self, of: ColumnBlocks, blocks: &mut [T], out: &mut [T]) {
        let (inner, each) = (of.dims.inner, of.cuts() * of.dims.inner);
        let results = rows_of(blocks.len(), each);
        for_chunks_mut2(blocks, results * each, out, results * inner, |_, blocks, out| {
            for (blocks, out) in blocks.chunks_mut(each).zip(out.chunks_mut(inner)) {
                self.fold(of, blocks);
                out.copy_from_slice(&blocks[..inner]);
            }
        });
    }
}
