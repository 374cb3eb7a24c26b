//! Matrix products `c = act(alpha * a @ b + beta * c + bias)` of strided operands, single or batched.
//!
//! Each element of C is summed in the same order whatever the number of threads and whatever tile it is in.
//!
//! // Note [Blocking] A large product is computed in blocks of at most `N_BLOCK` columns, `K_BLOCK` of the depth and
//! `M_BLOCK` rows. For each block, one parallel loop packs A into panels of tile height and B into panels of tile
//! width, both in the order in which the kernel reads them. A second loop computes C; each task takes one group of row
//! panels and a few column panels. The group stays in the L2 cache, and each panel of B streams past all of its row
//! panels. A tile covers the whole depth of the block at once, since revisiting C costs more than panels that exceed
//! the L1 cache.
//!
//! Packing takes time proportional to the operands, which matters when C has few rows or columns. So an operand that
//! is read only a few times is not packed if the kernel can read it in place; and with a single group of rows each
//! task packs its part of B just before using it. Products with at most `THIN` rows or columns are computed as dot
//! products if the large operand is contiguous along the depth.

use std::cell::Cell;
use std::ops::Range;
use std::thread::LocalKey;

use bytemuck::Zeroable;

use crate::backend::View as Tensor;
use crate::backend::cpu::lines::Line;
use crate::backend::cpu::microkernel::{DOT_ROWS, Kernels, LOW, Store, View, ViewMut};
use crate::backend::cpu::parallel::{for_chunks_mut, num_threads};
use crate::backend::cpu::simd;
use crate::dtype::{Element, Real};

pub use crate::backend::cpu::microkernel::GemmElem;
pub(super) use panels::{pack_panels, product_of_panels, product_of_tiles};
pub(super) use row::product as product_of_row;
pub(super) use rows::{Batch, ProductsByRows};

pub mod pairs;
mod panels;
mod row;
mod rows;
pub mod shared;
#[cfg(test)]
mod tests;

/// A matrix operand: element (i, j) is `data[i * rs + j * cs]`. Strides are not negative.
#[derive(Clone, Copy, Debug)]
pub struct MatRef<'a, T> {
    pub data: &'a [T],
    pub rs: isize,
    pub cs: isize,
}

impl<'a, T: Element> MatRef<'a, T> {
    /// The matrix in the last two dimensions of the first batch entry.
    #[inline]
    pub fn of(v: &Tensor<'a>) -> Self {
        let (data, strides) = (v.storage.slice::<T>(), &v.layout.strides[..]);
        let r = strides.len();
        MatRef { data: &data[v.layout.offset.min(data.len())..], rs: strides[r - 2], cs: strides[r - 1] }
    }
}

impl<'a, T> MatRef<'a, T> {
    /// A contiguous row-major matrix with `cols` columns.
    pub fn row_major(data: &'a [T], cols: usize) -> Self {
        MatRef { data, rs: cols as isize, cs: 1 }
    }

    pub fn transposed(self) -> Self {
        MatRef { data: self.data, rs: self.cs, cs: self.rs }
    }

    fn view(self) -> View<'a, T> {
        assert!(self.rs >= 0 && self.cs >= 0, "the strides of a matrix product are not negative");
        View { data: self.data, rs: self.rs as usize, cs: self.cs as usize }
    }
}

/// The bias added to the product.
#[derive(Clone, Copy, Debug)]
pub enum Bias<'a, T> {
    None,
    /// One value per column, added to every row.
    Row(&'a [T]),
    /// One value per row, added to every column.
    Col(&'a [T]),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activation {
    None,
    Relu,
}

/// The epilogue `c = act(alpha * product + beta * c + bias)`. With zero `beta` the old `c` is not read, so that it may
/// be uninitialized or NaN.
#[derive(Clone, Copy, Debug)]
pub struct Epilogue<'a, T> {
    pub alpha: T,
    pub beta: T,
    pub bias: Bias<'a, T>,
    pub act: Activation,
}

impl<T: Real> Default for Epilogue<'_, T> {
    /// `c = product`.
    fn default() -> Self {
        Epilogue { alpha: T::ONE, beta: T::ZERO, bias: Bias::None, act: Activation::None }
    }
}

impl<'a, T: Real> Epilogue<'a, T> {
    fn store(&self) -> Store<'a, T> {
        Store {
            alpha: self.alpha,
            beta: self.beta,
            row: if let Bias::Row(b) = self.bias { Some(b) } else { None },
            col: if let Bias::Col(b) = self.bias { Some(b) } else { None },
            relu: self.act == Activation::Relu,
        }
    }
}

/// Block sizes; see Note [Blocking].
const K_BLOCK: usize = 1024;
const M_BLOCK: usize = 2048;
const N_BLOCK: usize = 2048;
/// A is read in place if it is used by at most this many column panels; fewer (`BAD`) if its rows conflict in the
/// cache or its depth is not contiguous.
const IN_PLACE_A: usize = 32;
const IN_PLACE_BAD_A: usize = 4;
const IN_PLACE_TURNED_A: usize = 1;
/// The same for B; fewer (`DEEP`) if it is deep.
const IN_PLACE_B: usize = 10;
const IN_PLACE_DEEP_B: usize = 5;
const DEEP: usize = 256;
/// Depth per step in a product of at most [`LOW`] rows.
const K_STEP_LOW: usize = 16;
/// Maximum number of rows of a product that skips blocking.
const SMALL_ROWS: usize = 64;
/// Rows per group of row panels.
const GROUP_ROWS: usize = 128;
/// Column panels per task, if that leaves many tasks: they share the row panels in the L2 cache.
const TASK_PANELS: usize = 8;
const MANY_TASKS: usize = 16;
/// Minimum number of multiplications per parallel task.
const TASK: usize = 1 << 19;
/// Minimum number of elements per parallel packing task.
const PACK_TASK: usize = 1 << 14;
/// The fewest panels packed together, and the depth per step when rows of the operand run across panels.
const PACK_PANELS: usize = 4;
const PACK_STEP: usize = 16;
/// Products with at most this many multiplications run on one thread.
const SERIAL: usize = 1 << 19;
/// Products with at most this many rows (or columns) are dot products, if the depth suffices.
const THIN: usize = 8;
const THIN_DEPTH: usize = 64;

/// Computes `c = act(alpha * a @ b + beta * c + bias)` for `a` of m x k, `b` of k x n and row-major `c` of m x n.
///
/// If the length of `c` or of a bias does not match, an operand is too short, or a stride is negative.
pub fn gemm<T: GemmElem>(
    m: usize,
    n: usize,
    k: usize,
    a: MatRef<T>,
    b: MatRef<T>,
    c: &mut [T],
    ep: Epilogue<T>,
) {
    check_bias(m, n, &ep);
    product(T::kernels(simd::isa()), m, n, k, a.view(), b.view(), c, ep.store());
}

/// Computes `batch` products. The operands of consecutive products are `a_batch_stride` and `b_batch_stride` apart (0
/// shares one operand); the results are contiguous. The epilogue applies to each product.
///
/// # Panics
/// As [`gemm`].
pub fn batched_gemm<T: GemmElem>(
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
    a: MatRef<T>,
    a_batch_stride: usize,
    b: MatRef<T>,
    b_batch_stride: usize,
    c: &mut [T],
    ep: Epilogue<T>,
) {
    check_bias(m, n, &ep);
    assert_eq!(c.len(), batch * m * n);
    if c.is_empty() {
        return;
    }
    let (kernels, a, b) = (T::kernels(simd::isa()), a.view(), b.view());
    // Matrices stacked along the rows, with a shared right operand, form one tall matrix.
    if b_batch_stride == 0 && (batch == 1 || a_batch_stride == m * a.rs) && !matches!(ep.bias, Bias::Col(_)) {
        return product(kernels, batch * m, n, k, a, b, c, ep.store());
    }
    let one = |i: usize, c: &mut [T]| {
        // With zero depth the data may be empty.
        let offset = |stride| if k == 0 { 0 } else { i * stride };
        let a = View { data: &a.data[offset(a_batch_stride)..], ..a };
        let b = View { data: &b.data[offset(b_batch_stride)..], ..b };
        product(kernels, m, n, k, a, b, c, ep.store());
    };
    let work = m * n * k.max(1);
    if work >= 16 * TASK && batch < 4 * num_threads() {
        // Few large products: each is parallelized.
        c.chunks_mut(m * n).enumerate().for_each(|(i, c)| one(i, c));
    } else {
        let group = TASK.div_ceil(work).min(batch);
        for_chunks_mut(c, m * n * group, |g, c| {
            c.chunks_mut(m * n).enumerate().for_each(|(i, c)| one(g * group + i, c));
        });
    }
}

/// Computes `c = a @ b` for integers, summed in 64 bits and wrapped to the type at the end.
pub fn gemm_int<T: Element>(m: usize, n: usize, k: usize, a: MatRef<T>, b: MatRef<T>, c: &mut [T]) {
    assert_eq!(c.len(), m * n);
    if c.is_empty() {
        return;
    }
    let (a, b) = (a.view(), b.view());
    let rows = (TASK / 8).div_ceil(n * k.max(1));
    for_chunks_mut(c, rows * n, |g, c| {
        let mut sums = vec![0i64; n];
        for (i, c) in c.chunks_mut(n).enumerate() {
            sums.fill(0);
            for p in 0..k {
                let x = a.data[(g * rows + i) * a.rs + p * a.cs].to_i64();
                for (j, sum) in sums.iter_mut().enumerate() {
                    *sum = sum.wrapping_add(x.wrapping_mul(b.data[p * b.rs + j * b.cs].to_i64()));
                }
            }
            c.iter_mut().zip(&sums).for_each(|(c, &s)| *c = T::from_i64(s));
        }
    });
}

fn check_bias<T>(m: usize, n: usize, ep: &Epilogue<T>) {
    match ep.bias {
        Bias::None => {}
        Bias::Row(b) => assert_eq!(b.len(), n),
        Bias::Col(b) => assert_eq!(b.len(), m),
    }
}

/// [`gemm`] with the kernels of one instruction set.
fn product<T: GemmElem>(
    kernels: &'static Kernels<T>,
    m: usize,
    n: usize,
    k: usize,
    a: View<T>,
    b: View<T>,
    c: &mut [T],
    store: Store<T>,
) {
    let c = ViewMut::new(c, m, n);
    if m == 0 || n == 0 {
        return;
    }
    if k == 0 {
        return without_depth(c, &store);
    }
    product_into(kernels, k, a, b, c, store);
}

/// [`product`] of operands that have elements.
fn product_into<T: GemmElem>(
    kernels: &'static Kernels<T>,
    k: usize,
    a: View<T>,
    b: View<T>,
    mut c: ViewMut<T>,
    store: Store<T>,
) {
    let (m, n) = (c.rows(), c.cols());
    if (m, n) == (1, 1) && k >= row::LONG && a.cs == 1 && b.rs == 1 {
        return store.put(&mut c, 0, 0, row::dot(&a.data[..k], &b.data[..k]));
    }
    if has_long_rows(m, k, b.rs) || has_long_rows(n, k, a.cs) {
        dots(kernels, k, a, b, c, &store);
    } else if m == 1 && b.cs == 1 {
        row::product(k, a, b, c, &store);
    } else if n == 1 && a.rs == 1 {
        // A single column is computed faster as a single row.
        row::product(k, b.transposed(), a.transposed(), c.column_as_row(), &store.transposed());
    } else if n <= kernels.nr && k <= K_STEP_LOW && m <= SMALL_ROWS {
        small(kernels, k, a, b, c, &store);
    } else {
        blocked(kernels, k, a, b, c, &store);
    }
}

/// Whether a product with an operand of so few rows is one of dot products: the other operand has the stride `along` along the depth.
#[inline]
fn has_long_rows(rows: usize, depth: usize, along: usize) -> bool {
    rows <= THIN && along == 1 && depth >= THIN_DEPTH
}

/// A product that [`has_long_rows`] of either operand.
fn dots<T: GemmElem>(
    kernels: &Kernels<T>,
    k: usize,
    a: View<T>,
    b: View<T>,
    c: ViewMut<T>,
    store: &Store<T>,
) {
    if has_long_rows(c.rows(), k, b.rs) {
        thin(kernels, k, a, b.transposed(), c, store);
    } else {
        thin(kernels, k, b.transposed(), a, c.transposed(), &store.transposed());
    }
}

/// A product of one column panel with few rows and little depth, which is computed faster than planned.
fn small<T: GemmElem>(
    kernels: &Kernels<T>,
    k: usize,
    a: View<T>,
    b: View<T>,
    mut c: ViewMut<T>,
    store: &Store<T>,
) {
    let (m, n) = (c.rows(), c.cols());
    let mut tiles = |b: View<T>| {
        let panels = m.div_ceil(kernels.mr);
        let mut row = 0;
        for r in 1..=panels {
            let next = r * m / panels;
            kernels.tile(k, a.from(row, 0), b, &mut c.part(row, 0, next - row, n), &store.at(row, 0));
            row = next;
        }
    };
    if b.cs == 1 {
        return tiles(b);
    }
    with_scratch(&PANEL, k * kernels.nr, |panel: &mut [T]| {
        kernels.pack(n, k, b.transposed(), panel, kernels.nr);
        tiles(View { data: panel, rs: kernels.nr, cs: 1 });
    });
}

/// A product of zero depth is zero.
fn without_depth<T: GemmElem>(mut c: ViewMut<T>, store: &Store<T>) {
    for i in 0..c.rows() {
        for j in 0..c.cols() {
            store.put(&mut c, i, j, T::ZERO);
        }
    }
}

/// The product of the few rows of `x` with the many rows of `w`, both contiguous along the depth.
fn thin<T: GemmElem>(
    kernels: &Kernels<T>,
    k: usize,
    x: View<T>,
    w: View<T>,
    c: ViewMut<T>,
    store: &Store<T>,
) {
    let m = c.rows();
    let with_rows = |x: View<T>| {
        let group = TASK.div_ceil(m * k).next_multiple_of(kernels.dot_cols);
        let mut tasks = c.columns(group);
        for_chunks_mut(&mut tasks, 1, |t, tasks| {
            let c = &mut tasks[0];
            let (w, store) = (w.from(t * group, 0), store.at(0, t * group));
            let mut sums = [T::ZERO; DOT_ROWS * DOT_ROWS];
            let mut j = 0;
            while j < c.cols() {
                let cols = if c.cols() - j < kernels.dot_cols { 1 } else { kernels.dot_cols };
                for i in (0..m).step_by(DOT_ROWS) {
                    let rows = DOT_ROWS.min(m - i);
                    kernels.dot(k, x.from(i, 0), rows, w.from(j, 0), cols, &mut sums);
                    for (i, sums) in (i..i + rows).zip(sums.chunks_exact(cols)) {
                        for (j, &sum) in (j..).zip(sums) {
                            store.put(c, i, j, sum);
                        }
                    }
                }
                j += cols;
            }
        });
    };
    if x.cs == 1 {
        with_rows(x);
    } else {
        with_scratch(&OPERANDS, m * k, |rows: &mut [T]| {
            kernels.pack(k, m, x.transposed(), rows, k);
            with_rows(View { data: rows, rs: k, cs: 1 });
        });
    }
}

/// The general case. See Note [Blocking].
fn blocked<T: GemmElem>(
    kernels: &Kernels<T>,
    k: usize,
    a: View<T>,
    b: View<T>,
    mut c: ViewMut<T>,
    store: &Store<T>,
) {
    let (m, n) = (c.rows(), c.cols());
    // Equally high: a last block of a few rows would be one of low products, slower and with other bits than its neighbours.
    let height = m.div_ceil(m.div_ceil(M_BLOCK));
    for j in (0..n).step_by(N_BLOCK) {
        for p in (0..k).step_by(K_BLOCK) {
            let depth = K_BLOCK.min(k - p);
            for i in (0..m).step_by(height) {
                let c = c.part(i, j, height.min(m - i), N_BLOCK.min(n - j));
                let store = store.at(i, j).step(p == 0, p + depth == k);
                let size = [c.rows(), c.cols()];
                Block::new(kernels, depth, a.from(i, p), b.from(p, j), size, store).compute(c);
            }
        }
    }
}

/// How the kernel accesses an operand.
#[derive(Clone, Copy, PartialEq)]
enum Operand {
    /// The kernel reads it in place.
    InPlace,
    /// It is packed completely beforehand.
    Packed,
    /// Each task packs its part.
    PackedByTask,
}

/// One block of Note [Blocking].
struct Block<'a, T: 'static> {
    kernels: &'a Kernels<T>,
    k: usize,
    a: View<'a, T>,
    b: View<'a, T>,
    store: Store<'a, T>,
    rows: usize,
    cols: usize,
    row_panels: usize,
    col_panels: usize,
    how_a: Operand,
    how_b: Operand,
}

/// A task: the part of C in some row panels, starting at a column panel.
struct Task<'a, T> {
    c: ViewMut<'a, T>,
    row_panels: Range<usize>,
    col_panel: usize,
}

/// Whether a left operand that so many column panels use is read in place.
fn is_read_in_place<T>(a: View<T>, col_panels: usize) -> bool {
    // Rows at a stride that is a multiple of the page size evict each other from the L1 cache.
    let bad = (a.rs * size_of::<T>()).is_multiple_of(4096);
    let most = match a.cs {
        1 if bad => IN_PLACE_BAD_A,
        1 => IN_PLACE_A,
        _ => IN_PLACE_TURNED_A,
    };
    col_panels <= most
}

impl<'a, T: GemmElem> Block<'a, T> {
    fn new(
        kernels: &'a Kernels<T>,
        k: usize,
        a: View<'a, T>,
        b: View<'a, T>,
        [rows, cols]: [usize; 2],
        store: Store<'a, T>,
    ) -> Self {
        let (row_panels, col_panels) = (rows.div_ceil(kernels.mr), cols.div_ceil(kernels.nr));
        let how_a = if is_read_in_place(a, col_panels) { Operand::InPlace } else { Operand::Packed };
        let in_place_b = if k > DEEP { IN_PLACE_DEEP_B } else { IN_PLACE_B };
        let how_b = if b.cs == 1 && row_panels <= in_place_b {
            Operand::InPlace
        } else if rows <= GROUP_ROWS {
            Operand::PackedByTask
        } else {
            Operand::Packed
        };
        Block { kernels, k, a, b, store, rows, cols, row_panels, col_panels, how_a, how_b }
    }

    /// The first row of a row panel. Panel heights differ by at most one row, since a last panel of few rows would be
    /// slow.
    fn row(&self, panel: usize) -> usize {
        panels::first_row(self.rows, self.row_panels, panel)
    }

    fn compute(&self, c: ViewMut<T>) {
        let Block { kernels, k, .. } = *self;
        let a_len = if self.how_a == Operand::Packed { self.row_panels * kernels.mr * k } else { 0 };
        let b_len = if self.how_b == Operand::Packed { self.col_panels * kernels.nr * k } else { 0 };
        with_scratch(&OPERANDS, a_len + b_len, |packed: &mut [T]| {
            let (packed_a, packed_b) = packed.split_at_mut(a_len);
            self.pack(packed_a, packed_b);
            let (packed_a, packed_b) = (&*packed_a, &*packed_b);
            if self.rows * self.cols * k <= SERIAL {
                let mut task = Task { c, row_panels: 0..self.row_panels, col_panel: 0 };
                return self.run(&mut task, packed_a, packed_b);
            }
            for_chunks_mut(&mut self.tasks(c), 1, |_, task| self.run(&mut task[0], packed_a, packed_b));
        });
    }

    /// Computes C on this thread, with the columns that were packed.
    fn compute_alone(&self, c: ViewMut<T>, packed_b: &[T]) {
        let a_len =
            if self.how_a == Operand::Packed { self.row_panels * self.kernels.mr * self.k } else { 0 };
        with_scratch(&PANEL, a_len, |packed_a: &mut [T]| {
            self.pack(packed_a, &mut []);
            let mut task = Task { c, row_panels: 0..self.row_panels, col_panel: 0 };
            self.run_with(&mut task, packed_a, packed_b, &mut []);
        });
    }

    /// Packs the operands that need it.
    fn pack(&self, a: &mut [T], b: &mut [T]) {
        let Block { kernels, k, .. } = *self;
        if a.is_empty() && b.is_empty() {
            return;
        }
        let a_panels = a.chunks_mut(kernels.mr * k).enumerate().map(|(r, dst)| {
            let row = self.row(r);
            let height = self.row(r + 1) - row;
            (height, self.a.from(row, 0), dst, height)
        });
        let b_panels = b.chunks_mut(kernels.nr * k).enumerate().map(|(q, dst)| {
            let col = q * kernels.nr;
            (kernels.nr.min(self.cols - col), self.b.from(0, col).transposed(), dst, kernels.nr)
        });
        let mut panels: Vec<_> = a_panels.chain(b_panels).collect();
        let group = (PACK_TASK / (kernels.nr * k)).max(PACK_PANELS);
        for_chunks_mut(&mut panels, group, |_, panels| {
            // When rows of the operand run across the panels, a few rows are read completely before going deeper.
            let step = if panels[0].1.rs == 1 { PACK_STEP } else { k };
            for p in (0..k).step_by(step) {
                for (width, src, dst, stride) in panels.iter_mut() {
                    kernels.pack(*width, step.min(k - p), src.from(0, p), &mut dst[p * *stride..], *stride);
                }
            }
        });
    }

    fn tasks<'c>(&self, mut c: ViewMut<'c, T>) -> Vec<Task<'c, T>> {
        let groups = self.rows.div_ceil(GROUP_ROWS);
        let mut tasks = Vec::new();
        for g in 0..groups {
            let row_panels = g * self.row_panels / groups..(g + 1) * self.row_panels / groups;
            let rows = self.row(row_panels.end) - self.row(row_panels.start);
            let wide = (groups * self.col_panels / MANY_TASKS).min(TASK_PANELS);
            let panels = (TASK / (rows * self.kernels.nr * self.k)).max(wide).max(1);
            let (group, rest) = c.split_rows(rows);
            c = rest;
            tasks.extend(
                group.columns(panels * self.kernels.nr).into_iter().enumerate().map(|(i, c)| Task {
                    c,
                    row_panels: row_panels.clone(),
                    col_panel: i * panels,
                }),
            );
        }
        tasks
    }

    fn run(&self, task: &mut Task<T>, packed_a: &[T], packed_b: &[T]) {
        if self.how_b == Operand::PackedByTask {
            let len = self.k * self.kernels.nr;
            with_scratch(&PANEL, len, |panel| self.run_with(task, packed_a, packed_b, panel));
        } else {
            self.run_with(task, packed_a, packed_b, &mut []);
        }
    }

    fn run_with(&self, task: &mut Task<T>, packed_a: &[T], packed_b: &[T], panel: &mut [T]) {
        let Kernels { mr, nr, .. } = *self.kernels;
        let first_row = self.row(task.row_panels.start);
        // With few rows it is cheaper to revisit C than to read rows of B in many pieces.
        let k_step = if self.how_b == Operand::InPlace && self.rows <= LOW { K_STEP_LOW } else { self.k };
        for p in (0..self.k).step_by(k_step) {
            let depth = k_step.min(self.k - p);
            let store = self.store.step(p == 0, p + depth == self.k);
            for j in (0..task.c.cols()).step_by(nr) {
                let col = task.col_panel * nr + j;
                let cols = nr.min(task.c.cols() - j);
                let b = match self.how_b {
                    Operand::InPlace => self.b.from(p, col),
                    Operand::Packed => View { data: &packed_b[col * self.k + p * nr..], rs: nr, cs: 1 },
                    Operand::PackedByTask => {
                        self.kernels.pack(cols, depth, self.b.from(p, col).transposed(), panel, nr);
                        View { data: &*panel, rs: nr, cs: 1 }
                    }
                };
                for r in task.row_panels.clone() {
                    let row = self.row(r);
                    let height = self.row(r + 1) - row;
                    let a = match self.how_a {
                        Operand::InPlace => self.a.from(row, p),
                        _ => View { data: &packed_a[r * self.k * mr + p * height..], rs: 1, cs: height },
                    };
                    let mut c = task.c.part(row - first_row, j, height, cols);
                    self.kernels.tile(depth, a, b, &mut c, &store.at(row, col));
                }
            }
        }
    }
}

type Scratch = LocalKey<Cell<Vec<Line>>>;

thread_local! {
    /// Packed operands, on the thread that calls a product.
    static OPERANDS: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
    /// A panel of B, on the thread that runs a task.
    static PANEL: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Calls `f` with a thread-local scratch buffer of `len` elements with unspecified values.
pub(super) fn with_scratch<T: GemmElem, R>(
    scratch: &'static Scratch,
    len: usize,
    f: impl FnOnce(&mut [T]) -> R,
) -> R {
    if len == 0 {
        return f(&mut []);
    }
    let mut lines = scratch.take();
    let needed = (len * size_of::<T>()).div_ceil(size_of::<Line>());
    if lines.len() < needed {
        lines.resize(needed, Line::zeroed());
    }
    let result = f(&mut bytemuck::cast_slice_mut(&mut lines)[..len]);
    scratch.set(lines);
    result
}
