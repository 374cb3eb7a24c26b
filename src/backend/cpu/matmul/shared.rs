//! Products of one left operand with several right ones, such as those of a convolution's weight with images.
//!
//! Note [Shared left operands] The left operand is packed once for all products, or read in place where few columns use it. A task
//! packs a few column panels of one right operand, which stay in its L2 cache, and multiplies them with one row panel after the
//! other, each of which stays in L1 meanwhile. Where several tasks would need the same columns, these are packed before. Who calls says how columns are packed, so that a right operand need not be a matrix in memory. Few columns leave
//! a part of their last panel empty, which small images have most of: the columns of all right operands are then computed as
//! those of one, and the results copied to where they belong.

use std::cell::Cell;
use std::ops::Range;

use super::panels::{first_row, panels};
use super::{
    Bias, Epilogue, GemmElem, K_BLOCK, MANY_TASKS, MatRef, N_BLOCK, OPERANDS, PACK_TASK, PANEL,
    is_read_in_place, with_scratch,
};
use crate::backend::cpu::lines::Line;
use crate::backend::cpu::microkernel::{Kernels, Store, View, ViewMut};
use crate::backend::cpu::parallel::{for_chunks_mut, parallel_for};
use crate::backend::cpu::pieces::{Take, give, largest};
use crate::backend::cpu::simd;

/// Bytes of the packed columns of a task.
const COLUMNS: usize = 1 << 18;
/// Column panels of a task at most.
const PANELS: usize = 8;
/// Fewer columns than these are computed together with those of the other products.
const FEW: usize = 64;
/// Row panels of a task at least.
const ROW_PANELS: usize = 8;
/// The products of which each is a task that packs its columns, if they are used by rows, and the rows of pieces of fewer.
const WHOLE_PRODUCTS: usize = MANY_TASKS / 2;
const SHARED_ROWS: usize = 64;

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
    let (a, count, col_panels) = (a.view(), c.len() / (m * n), n.div_ceil(kernels.nr));
    let in_place = is_read_in_place(a, count * col_panels);
    for start in (0..k).step_by(K_BLOCK) {
        let depth = start..k.min(start + K_BLOCK);
        let store = ep.store().step(start == 0, depth.end == k);
        let division = Division::new(kernels, m, n, depth.len(), count);
        // Both begin with a cache line.
        let left_len = if in_place { 0 } else { (m * depth.len()).next_multiple_of(kernels.nr) };
        let right_len = if division.down > 1 { count * col_panels * kernels.nr * depth.len() } else { 0 };
        with_scratch(&OPERANDS, left_len + right_len, |packed: &mut [T]| {
            let (left, right) = packed.split_at_mut(left_len);
            if !in_place {
                pack_rows(kernels, m, depth.len(), a.from(0, start), &mut left[..m * depth.len()]);
            }
            for_chunks_mut(right, kernels.nr * depth.len(), |panel, to| {
                let first = panel % col_panels * kernels.nr;
                let columns = first..n.min(first + kernels.nr);
                pack(Part { product: panel / col_panels, depth: depth.clone(), columns }, to, kernels.nr);
            });
            let left = if in_place { Left::InPlace(a.from(0, start)) } else { Left::Packed(left) };
            let call = Call { kernels, m, n, depth: depth.clone(), left, right, pack, store: &store };
            let mut tasks = tasks(kernels, m, n, division, c);
            for_chunks_mut(&mut tasks, 1, |_, task| task[0].run(&call));
        });
    }
}

/// The row panels of a piece of [`products_by_rows`]; None where products are not computed so: the columns of a right operand have to stay
/// in the cache, since each piece reads them all. Where threads share the columns of few products, that takes longer for pieces of few
/// rows than the epilogue saves.
pub fn panels_of_piece<T: GemmElem>(count: usize, [m, n, k]: [usize; 3]) -> Option<usize> {
    let kernels = T::kernels(simd::isa());
    let fitting = largest::<T>() / (n * kernels.mr).max(1);
    let usual = n >= FEW || n > 0 && n.is_multiple_of(kernels.nr);
    let columns = n.div_ceil(kernels.nr) * kernels.nr * k;
    let least = if count < WHOLE_PRODUCTS { SHARED_ROWS.min(m) } else { 1 };
    let fits = (1..=K_BLOCK).contains(&k) && usual && columns <= 2 * largest::<T>();
    (fits && fitting * kernels.mr >= least).then_some(fitting)
}

/// As [`products`] of `count` right operands, but passes the rows of each to `take`, so many row panels at a time: Note [Epilogues].
pub fn products_by_rows<T: GemmElem>(
    count: usize,
    [m, n, k]: [usize; 3],
    a: MatRef<T>,
    pack: Pack<T>,
    ep: Epilogue<T>,
    panels: usize,
    take: Take<T>,
) {
    super::check_bias(m, n, &ep);
    let kernels = T::kernels(simd::isa());
    let (col_panels, row_panels) = (n.div_ceil(kernels.nr), m.div_ceil(kernels.mr));
    let columns_len = col_panels * kernels.nr * k;
    let width = Division::new(kernels, m, n, k, count).width;
    let down = WHOLE_PRODUCTS.div_ceil(count).clamp(1, row_panels.div_ceil(ROW_PANELS));
    let (a, in_place) = (a.view(), is_read_in_place(a.view(), count * col_panels));
    let left_len = if in_place { 0 } else { (m * k).next_multiple_of(kernels.nr) };
    let right_len = if down > 1 { count * columns_len } else { 0 };
    let pack_panel = |product: usize, j: usize, panel: &mut [T]| {
        let columns = j * kernels.nr..n.min((j + 1) * kernels.nr);
        pack(Part { product, depth: 0..k, columns }, panel, kernels.nr);
    };
    with_scratch(&OPERANDS, left_len + right_len, |packed: &mut [T]| {
        let (left, right) = packed.split_at_mut(left_len);
        if !in_place {
            pack_rows(kernels, m, k, a, &mut left[..m * k]);
        }
        for_chunks_mut(right, kernels.nr * k, |i, panel| pack_panel(i / col_panels, i % col_panels, panel));
        let (left, right) = (if in_place { Left::InPlace(a) } else { Left::Packed(left) }, &*right);
        let store = &ep.store();
        let call = Call { kernels, m, n, depth: 0..k, left, right, pack, store };
        let run = |product: usize, part: usize, columns: &[T]| {
            let end = (part + 1) * row_panels / down;
            for top in (part * row_panels / down..end).step_by(panels) {
                let piece = top..end.min(top + panels);
                let [first, last] = [piece.start, piece.end].map(|panel| first_row(m, row_panels, panel));
                let range = (product * m + first) * n..(product * m + last) * n;
                give(range, take, |c| {
                    // A strip of columns at a time, for the reason of Note [Shared left operands].
                    for (j, c) in ViewMut::new(c, last - first, n).columns(width).into_iter().enumerate() {
                        let (row_panels, column) = (piece.clone(), j * width);
                        let strip = &columns[column * k..][..c.cols().next_multiple_of(kernels.nr) * k];
                        Task { product, row_panels, column, c }.multiply(&call, strip);
                    }
                });
            }
        };
        parallel_for(count * down, 1, |tasks| {
            for task in tasks {
                let (product, part) = (task / down, task % down);
                if down > 1 {
                    run(product, part, &right[product * columns_len..][..columns_len]);
                    continue;
                }
                with_scratch(&PANEL, columns_len, |columns: &mut [T]| {
                    let panels = columns.chunks_exact_mut(kernels.nr * k).enumerate();
                    panels.for_each(|(j, panel)| pack_panel(product, j, panel));
                    run(product, part, columns);
                });
            }
        });
    });
}

/// The left operand, packed or not.
enum Left<'a, T> {
    Packed(&'a [T]),
    InPlace(View<'a, T>),
}

impl<'a, T: GemmElem> Left<'a, T> {
    /// A panel of rows over a depth of `k`.
    fn rows(&self, rows: &Range<usize>, k: usize) -> View<'a, T> {
        match self {
            Left::Packed(all) => View { data: &all[rows.start * k..], rs: 1, cs: rows.len() },
            Left::InPlace(a) => a.from(rows.start, 0),
        }
    }
}

/// What all tasks of a part of the depth have in common.
struct Call<'a, T: GemmElem> {
    kernels: &'a Kernels<T>,
    m: usize,
    n: usize,
    depth: Range<usize>,
    left: Left<'a, T>,
    /// All columns, if they are packed already.
    right: &'a [T],
    pack: Pack<'a, T>,
    store: &'a Store<'a, T>,
}

/// How the results of a product are divided: by columns, and by rows where that makes too few tasks.
#[derive(Clone, Copy)]
struct Division {
    /// Columns of a task.
    width: usize,
    /// Parts of the rows.
    down: usize,
}

impl Division {
    fn new<T: GemmElem>(kernels: &Kernels<T>, m: usize, n: usize, depth: usize, products: usize) -> Division {
        let width = (COLUMNS / (depth * kernels.nr * size_of::<T>())).clamp(1, PANELS) * kernels.nr;
        let across = n.div_ceil(width);
        let most = m.div_ceil(kernels.mr).div_ceil(ROW_PANELS);
        Division {
            width: n.div_ceil(across).next_multiple_of(kernels.nr),
            down: MANY_TASKS.div_ceil(products * across).clamp(1, most),
        }
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

/// The parts of the results.
fn tasks<'c, T: GemmElem>(
    kernels: &Kernels<T>,
    m: usize,
    n: usize,
    Division { width, down }: Division,
    c: &'c mut [T],
) -> Vec<Task<'c, T>> {
    let row_panels = m.div_ceil(kernels.mr);
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
    fn run(&mut self, call: &Call<T>) {
        let (nr, k, cols) = (call.kernels.nr, call.depth.len(), self.c.cols());
        if !call.right.is_empty() {
            let first = self.product * call.n.div_ceil(nr) + self.column / nr;
            return self.multiply(call, &call.right[first * nr * k..][..cols.div_ceil(nr) * nr * k]);
        }
        with_scratch(&PANEL, cols.div_ceil(nr) * nr * k, |columns: &mut [T]| {
            for (j, panel) in columns.chunks_exact_mut(nr * k).enumerate() {
                let first = self.column + j * nr;
                let columns = first..(self.column + cols).min(first + nr);
                (call.pack)(Part { product: self.product, depth: call.depth.clone(), columns }, panel, nr);
            }
            self.multiply(call, columns);
        });
    }

    /// All products with the panels of `columns`.
    fn multiply(&mut self, call: &Call<T>, columns: &[T]) {
        let (kernels, m) = (call.kernels, call.m);
        let (nr, k, cols) = (kernels.nr, call.depth.len(), self.c.cols());
        let top = self.row_panels.start;
        let (skipped, count) = (first_row(m, m.div_ceil(kernels.mr), top), self.row_panels.len());
        for rows in panels(kernels, m).skip(top).take(count) {
            let a = call.left.rows(&rows, k);
            for (j, panel) in columns.chunks_exact(nr * k).enumerate() {
                let b = View { data: panel, rs: nr, cs: 1 };
                let mut c = self.c.part(rows.start - skipped, j * nr, rows.len(), nr.min(cols - j * nr));
                kernels.tile(k, a, b, &mut c, &call.store.at(rows.start, self.column + j * nr));
            }
        }
    }
}
