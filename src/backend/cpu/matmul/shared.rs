//! Products of one left operand with several right ones, such as those of a convolution's weight with images.
//!
//! Note [Shared left operands] The left operand is packed once for all products. A task packs a few column panels of one right
//! operand, which stay in its L2 cache, and multiplies them with one row panel after the other, each of which stays in L1
//! meanwhile. Who calls says how columns are packed, so that a right operand need not be a matrix in memory. Few columns leave
//! a part of their last panel empty, which small images have most of: the columns of all right operands are then computed as
//! those of one, and the results copied to where they belong.

use std::cell::Cell;
use std::ops::Range;

use super::panels::{first_row, panels};
use super::{
    Bias, Epilogue, GemmElem, K_BLOCK, Line, MANY_TASKS, MatRef, N_BLOCK, OPERANDS, PACK_TASK, PANEL,
    with_scratch,
};
use crate::backend::cpu::microkernel::{Kernels, Store, View, ViewMut};
use crate::backend::cpu::parallel::for_chunks_mut;
use crate::backend::cpu::simd;

/// Bytes of the packed columns of a task.
const COLUMNS: usize = 1 << 18;
/// Column panels of a task at most.
const PANELS: usize = 8;
/// Fewer columns than these are computed together with those of the other products.
const FEW: usize = 64;
/// Row panels of a task at least, so that packing columns for each of several tasks costs little.
const ROW_PANELS: usize = 8;

/// The part of a right operand that a task packs.
pub struct Part {
    /// Which right operand.
    pub product: usize,
    pub depth: Range<usize>,
    pub columns: Range<usize>,
}

/// Sets `to[p * stride + j]` to element (p, j) of the part, given part, `to` and stride.
pub type Pack<'p, T> = &'p (dyn Fn(Part, &mut [T], usize) + Sync);

/// The elements of C that a task computes.
struct Task<'c, T> {
    product: usize,
    row_panels: Range<usize>,
    column: usize,
    c: ViewMut<'c, T>,
}

/// Computes `c = act(alpha * a @ b + beta * c + bias)` for each of several `b` of k x n, whose results follow each other in `c`.
pub fn products<T: GemmElem>(
    [m, n, k]: [usize; 3],
    a: MatRef<T>,
    pack: Pack<T>,
    c: &mut [T],
    ep: Epilogue<T>,
) {
    super::check_bias(m, n, &ep);
    if c.is_empty() {
        return;
    }
    if k == 0 {
        let store = ep.store();
        return c.chunks_exact_mut(m * n).for_each(|c| super::without_depth(ViewMut::new(c, m, n), &store));
    }
    let kernels = T::kernels(simd::isa());
    let written = ep.beta == T::ZERO && !matches!(ep.bias, Bias::Row(_));
    if n < FEW && !n.is_multiple_of(kernels.nr) && c.len() > m * n && written {
        return together([m, n, k], a, pack, c, ep);
    }
    let a = a.view();
    for start in (0..k).step_by(K_BLOCK) {
        let depth = start..k.min(start + K_BLOCK);
        let store = ep.store().step(start == 0, depth.end == k);
        with_scratch(&OPERANDS, m * depth.len(), |packed: &mut [T]| {
            pack_rows(kernels, m, depth.len(), a.from(0, start), packed);
            let mut tasks = tasks(kernels, m, n, depth.len(), c);
            for_chunks_mut(&mut tasks, 1, |_, task| {
                task[0].run(kernels, m, depth.clone(), packed, pack, &store)
            });
        });
    }
}

/// The same as products with the columns of many of them.
fn together<T: GemmElem>([m, n, k]: [usize; 3], a: MatRef<T>, pack: Pack<T>, c: &mut [T], ep: Epilogue<T>) {
    // So many at a time that what a thread keeps for their results is no more than for a block of operands.
    let group = N_BLOCK / n;
    for (i, c) in c.chunks_mut(group * m * n).enumerate() {
        group_together([m, n, k], a, i * group, pack, c, ep);
    }
}

fn group_together<T: GemmElem>(
    [m, n, k]: [usize; 3],
    a: MatRef<T>,
    first_product: usize,
    pack: Pack<T>,
    c: &mut [T],
    ep: Epilogue<T>,
) {
    let all = c.len() / m;
    let pack_all = |part: Part, to: &mut [T], stride: usize| {
        let mut start = part.columns.start;
        while start < part.columns.end {
            let (product, first) = (first_product + start / n, start % n);
            let columns = first..n.min(first + part.columns.end - start);
            let (next, to) = (start + columns.len(), &mut to[start - part.columns.start..]);
            pack(Part { product, depth: part.depth.clone(), columns }, to, stride);
            start = next;
        }
    };
    with_scratch(&TOGETHER, c.len(), |results: &mut [T]| {
        products([m, all, k], a, &pack_all, results, ep);
        for_chunks_mut(c, m * n, |product, c| {
            for (row, c) in c.chunks_exact_mut(n).enumerate() {
                c.copy_from_slice(&results[row * all + product * n..][..n]);
            }
        });
    });
}

thread_local! {
    /// The results of [`group_together`].
    static TOGETHER: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Packs all rows of the left operand, panel after panel.
fn pack_rows<T: GemmElem>(kernels: &Kernels<T>, m: usize, depth: usize, a: View<T>, packed: &mut [T]) {
    let mut rest = packed;
    let mut parts: Vec<_> = panels(kernels, m)
        .map(|rows| {
            let (part, tail) = std::mem::take(&mut rest).split_at_mut(rows.len() * depth);
            rest = tail;
            (rows, part)
        })
        .collect();
    for_chunks_mut(&mut parts, PACK_TASK.div_ceil(kernels.mr * depth), |_, parts| {
        for (rows, part) in parts {
            kernels.pack(rows.len(), depth, a.from(rows.start, 0), part, rows.len());
        }
    });
}

/// Divides the results by columns, and by rows where that makes too few tasks.
fn tasks<'c, T: GemmElem>(
    kernels: &Kernels<T>,
    m: usize,
    n: usize,
    depth: usize,
    c: &'c mut [T],
) -> Vec<Task<'c, T>> {
    let width = (COLUMNS / (depth * kernels.nr * size_of::<T>())).clamp(1, PANELS) * kernels.nr;
    let across = n.div_ceil(width);
    let width = n.div_ceil(across).next_multiple_of(kernels.nr);
    let products = c.len() / (m * n);
    let row_panels = m.div_ceil(kernels.mr);
    let down = MANY_TASKS.div_ceil(products * across).clamp(1, row_panels.div_ceil(ROW_PANELS));
    let mut tasks = Vec::new();
    for (product, c) in c.chunks_exact_mut(m * n).enumerate() {
        let mut rest = ViewMut::new(c, m, n);
        for part in 0..down {
            let panels = part * row_panels / down..(part + 1) * row_panels / down;
            let rows = first_row(m, row_panels, panels.end) - first_row(m, row_panels, panels.start);
            let (own, below) = rest.split_rows(rows);
            rest = below;
            tasks.extend(own.columns(width).into_iter().enumerate().map(|(i, c)| Task {
                product,
                row_panels: panels.clone(),
                column: i * width,
                c,
            }));
        }
    }
    tasks
}

impl<T: GemmElem> Task<'_, T> {
    fn run(
        &mut self,
        kernels: &Kernels<T>,
        m: usize,
        depth: Range<usize>,
        packed: &[T],
        pack: Pack<T>,
        store: &Store<T>,
    ) {
        let (nr, k, cols) = (kernels.nr, depth.len(), self.c.cols());
        with_scratch(&PANEL, cols.div_ceil(nr) * nr * k, |columns: &mut [T]| {
            for (j, panel) in columns.chunks_exact_mut(nr * k).enumerate() {
                let first = self.column + j * nr;
                let columns = first..(self.column + cols).min(first + nr);
                pack(Part { product: self.product, depth: depth.clone(), columns }, panel, nr);
            }
            let top = self.row_panels.start;
            let (skipped, count) = (first_row(m, m.div_ceil(kernels.mr), top), self.row_panels.len());
            for rows in panels(kernels, m).skip(top).take(count) {
                let a = View { data: &packed[rows.start * k..], rs: 1, cs: rows.len() };
                for (j, panel) in columns.chunks_exact(nr * k).enumerate() {
                    let b = View { data: panel, rs: nr, cs: 1 };
                    let mut c = self.c.part(rows.start - skipped, j * nr, rows.len(), nr.min(cols - j * nr));
                    kernels.tile(k, a, b, &mut c, &store.at(rows.start, self.column + j * nr));
                }
            }
        });
    }
}
