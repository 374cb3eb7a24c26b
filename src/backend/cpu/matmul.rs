//! Matrix products: `c = act(alpha * a @ b + beta * c + bias)` of operands with any strides, alone or in batches.
//!
//! Every element of C is summed in the same order whatever the number of threads, and whatever the tile it falls in.
//!
//! // Note [Blocking]
//! A large product goes block by block: at most `N_BLOCK` columns, `K_BLOCK` of the depth, `M_BLOCK` rows. In each,
//! one parallel loop packs A into panels of the height of a tile and B into panels of its width, both laid out in the
//! order in which the kernel reads them. A second computes C in tasks of one group of row panels, which stay in the
//! second-level cache, by a few column panels; each goes `K_STEP` deep at a time, so that a panel of B stays in the
//! first-level cache while the row panels pass.
//!
//! Packing costs time in proportion to the operands, which shows when C is low or narrow. So: B is packed by the
//! task that uses it, just before it does, if there is only one group of rows; and an operand that is read once or
//! twice is not packed at all if the kernel can read it in place. Products with at most `THIN` rows or columns read
//! the large operand once, as it lies.

use std::cell::Cell;
use std::ops::Range;
use std::thread::LocalKey;

use bytemuck::{Pod, Zeroable};

use crate::backend::cpu::microkernel::{DOT_ROWS, Kernels, LOW, Store, View, ViewMut};
use crate::backend::cpu::parallel::{for_chunks_mut, num_threads};
use crate::backend::cpu::simd;
use crate::dtype::{Element, Real};

pub use crate::backend::cpu::microkernel::GemmElem;

/// A matrix operand: element (i, j) is `data[i * rs + j * cs]`. The strides are not negative.
#[derive(Clone, Copy, Debug)]
pub struct MatRef<'a, T> {
    pub data: &'a [T],
    pub rs: isize,
    pub cs: isize,
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
        debug_assert!(self.rs >= 0 && self.cs >= 0, "strides of a matrix product are not negative");
        View { data: self.data, rs: self.rs as usize, cs: self.cs as usize }
    }
}

/// What is added to the product.
#[derive(Clone, Copy, Debug)]
pub enum Bias<'a, T> {
    None,
    /// One value for each column, added to every row.
    Row(&'a [T]),
    /// One value for each row, added to every column.
    Col(&'a [T]),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activation {
    None,
    Relu,
}

/// What becomes of the product: `c = act(alpha * product + beta * c + bias)`. With `beta` zero the old `c` is not
/// read, so that it may hold anything, NaN included.
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

/// Note [Blocking].
const K_BLOCK: usize = 1024;
const M_BLOCK: usize = 2048;
const N_BLOCK: usize = 2048;
/// The depth that a product of at most [`LOW`] rows goes at a time.
const K_STEP_LOW: usize = 16;
/// The height of a group of row panels.
const GROUP_ROWS: usize = 128;
/// Column panels of a task, if that leaves many tasks: they share the row panels in the second-level cache.
const TASK_PANELS: usize = 8;
const MANY_TASKS: usize = 16;
/// Multiplications that make a parallel task worth its start.
const TASK: usize = 1 << 19;
/// Elements that make a parallel packing task worth its start.
const PACK_TASK: usize = 1 << 14;
const PACK_PANELS: usize = 4;
const PACK_STEP: usize = 16;
/// Multiplications up to which one thread is fastest.
const SERIAL: usize = 1 << 19;
/// Operands with no more rows (or columns) are handled by dot products, if those are long enough.
const THIN: usize = 8;
const THIN_DEPTH: usize = 64;

/// Computes `c = act(alpha * a @ b + beta * c + bias)` for `a` of m x k, `b` of k x n and `c`, row-major, of m x n.
///
/// # Panics
/// If `c` or a bias does not have the length that `m` and `n` ask for, or an operand ends too early.
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

/// Computes `batch` products, of which the operands lie `a_batch_stride` and `b_batch_stride` apart (0 shares one
/// operand) and the results one after the other. The epilogue is that of each product.
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
    // Matrices stacked on a shared right operand are one tall matrix.
    if b_batch_stride == 0 && (batch == 1 || a_batch_stride == m * a.rs) && !matches!(ep.bias, Bias::Col(_)) {
        return product(kernels, batch * m, n, k, a, b, c, ep.store());
    }
    let one = |i: usize, c: &mut [T]| {
        // Without depth there may be no data to point to.
        let offset = |stride| if k == 0 { 0 } else { i * stride };
        let a = View { data: &a.data[offset(a_batch_stride)..], ..a };
        let b = View { data: &b.data[offset(b_batch_stride)..], ..b };
        product(kernels, m, n, k, a, b, c, ep.store());
    };
    let work = m * n * k.max(1);
    if work >= 16 * TASK && batch < 4 * num_threads() {
        // Few large products: each uses all threads.
        c.chunks_mut(m * n).enumerate().for_each(|(i, c)| one(i, c));
    } else {
        let group = TASK.div_ceil(work).min(batch);
        for_chunks_mut(c, m * n * group, |g, c| {
            c.chunks_mut(m * n).enumerate().for_each(|(i, c)| one(g * group + i, c));
        });
    }
}

/// Computes `c = a @ b` of integers, summed in 64 bits and wrapped to the type at the end, as overflow does.
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
                let row = b.data[p * b.rs..].iter().step_by(b.cs.max(1));
                if b.cs == 0 {
                    let y = x.wrapping_mul(b.data[p * b.rs].to_i64());
                    sums.iter_mut().for_each(|s| *s = s.wrapping_add(y));
                } else {
                    sums.iter_mut()
                        .zip(row)
                        .for_each(|(s, y)| *s = s.wrapping_add(x.wrapping_mul(y.to_i64())));
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

/// [`gemm`] with the kernels of a given instruction set.
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
    if m <= THIN && b.rs == 1 && k >= THIN_DEPTH {
        thin(kernels, k, a, b.transposed(), c, &store);
    } else if n <= THIN && a.cs == 1 && k >= THIN_DEPTH {
        thin(kernels, k, b.transposed(), a, c.transposed(), &store.transposed());
    } else if n == 1 && a.rs == 1 {
        // A single column is best computed as a single row.
        blocked(kernels, k, b.transposed(), a.transposed(), c.column_as_row(), &store.transposed());
    } else {
        blocked(kernels, k, a, b, c, &store);
    }
}

/// The product of no factors at all is zero.
fn without_depth<T: GemmElem>(mut c: ViewMut<T>, store: &Store<T>) {
    for i in 0..c.rows() {
        for j in 0..c.cols() {
            store.put(&mut c, i, j, T::ZERO);
        }
    }
}

/// The product of the few rows of `x` with the many rows of `w`, which are contiguous.
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

/// The general product. See Note [Blocking].
fn blocked<T: GemmElem>(
    kernels: &Kernels<T>,
    k: usize,
    a: View<T>,
    b: View<T>,
    mut c: ViewMut<T>,
    store: &Store<T>,
) {
    let (m, n) = (c.rows(), c.cols());
    for j in (0..n).step_by(N_BLOCK) {
        for p in (0..k).step_by(K_BLOCK) {
            let depth = K_BLOCK.min(k - p);
            for i in (0..m).step_by(M_BLOCK) {
                let c = c.part(i, j, M_BLOCK.min(m - i), N_BLOCK.min(n - j));
                let store = store.at(i, j).step(p == 0, p + depth == k);
                Block::new(kernels, depth, a.from(i, p), b.from(p, j), &c, store).compute(c);
            }
        }
    }
}

/// How the kernel gets at an operand.
#[derive(Clone, Copy, PartialEq)]
enum Operand {
    /// It reads the operand in place.
    InPlace,
    /// All is packed before.
    Packed,
    /// Each task packs what it needs.
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

/// A task: the part of C in some row panels, from a column panel on.
struct Task<'a, T> {
    c: ViewMut<'a, T>,
    row_panels: Range<usize>,
    col_panel: usize,
}

impl<'a, T: GemmElem> Block<'a, T> {
    fn new(
        kernels: &'a Kernels<T>,
        k: usize,
        a: View<'a, T>,
        b: View<'a, T>,
        c: &ViewMut<T>,
        store: Store<'a, T>,
    ) -> Self {
        let (rows, cols) = (c.rows(), c.cols());
        let (row_panels, col_panels) = (rows.div_ceil(kernels.mr), cols.div_ceil(kernels.nr));
        // Rows that are a multiple of the page size apart evict each other from the first-level cache.
        let scattered = a.cs != 1 || a.rs * size_of::<T>() % 4096 == 0;
        let how_a =
            if col_panels <= if scattered { 4 } else { 32 } { Operand::InPlace } else { Operand::Packed };
        let how_b = if b.cs == 1 && row_panels <= if k > 256 { 5 } else { 10 } {
            Operand::InPlace
        } else if rows <= GROUP_ROWS {
            Operand::PackedByTask
        } else {
            Operand::Packed
        };
        Block { kernels, k, a, b, store, rows, cols, row_panels, col_panels, how_a, how_b }
    }

    /// The first row of a row panel. Panels differ by a row at most: a last panel of few rows would be slow.
    fn row(&self, panel: usize) -> usize {
        panel * self.rows / self.row_panels
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

    /// Packs both operands, as far as they are to be.
    fn pack(&self, a: &mut [T], b: &mut [T]) {
        let Block { kernels, k, .. } = *self;
        if a.is_empty() && b.is_empty() {
            return;
        }
        let a_panels = a.chunks_mut(kernels.mr * k).enumerate().map(|(r, dst)| {
            let row = self.row(r);
            (self.row(r + 1) - row, self.a.from(row, 0), dst, kernels.mr)
        });
        let b_panels = b.chunks_mut(kernels.nr * k).enumerate().map(|(q, dst)| {
            let col = q * kernels.nr;
            (kernels.nr.min(self.cols - col), self.b.from(0, col).transposed(), dst, kernels.nr)
        });
        let mut panels: Vec<_> = a_panels.chain(b_panels).collect();
        let group = (PACK_TASK / (kernels.nr * k)).max(PACK_PANELS);
        for_chunks_mut(&mut panels, group, |_, panels| {
            // Where rows of the operand run across the panels, a few are read whole before going deeper.
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
        // A low C costs less to visit often than rows of B do to be read in many pieces.
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
                    let a = match self.how_a {
                        Operand::InPlace => self.a.from(row, p),
                        _ => View { data: &packed_a[(r * self.k + p) * mr..], rs: 1, cs: mr },
                    };
                    let mut c = task.c.part(row - first_row, j, self.row(r + 1) - row, cols);
                    self.kernels.tile(depth, a, b, &mut c, &store.at(row, col));
                }
            }
        }
    }
}

/// A cache line of scratch memory.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

type Scratch = LocalKey<Cell<Vec<Line>>>;

thread_local! {
    /// Packed operands, on the thread that asks for a product.
    static OPERANDS: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
    /// A panel of B, on the thread that runs a task.
    static PANEL: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Lends `len` elements, of any value, from a buffer that stays with the thread.
fn with_scratch<T: GemmElem, R>(scratch: &'static Scratch, len: usize, f: impl FnOnce(&mut [T]) -> R) -> R {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::parallel::with_threads;
    use crate::backend::cpu::simd::{Isa, best_isa};

    const ISAS: [Isa; 3] = [Isa::Baseline, Isa::Avx2, Isa::Avx512];

    /// Numbers between -1 and 1, the same in each run.
    fn random<T: Real>(len: usize, seed: u64) -> Vec<T> {
        let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            T::of((x >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
        };
        (0..len).map(|_| next()).collect()
    }

    /// A matrix of rows x cols with strides of one of the kinds that tensors have.
    #[derive(Clone, Copy, Debug)]
    enum Strides {
        Rows,
        Columns,
        PaddedRows,
        PaddedColumns,
        Neither,
        SameRow,
        SameColumn,
    }

    use Strides::*;
    const STRIDES: [Strides; 7] = [Rows, Columns, PaddedRows, PaddedColumns, Neither, SameRow, SameColumn];

    struct Matrix<T> {
        data: Vec<T>,
        rs: usize,
        cs: usize,
    }

    impl<T: Real> Matrix<T> {
        fn new(rows: usize, cols: usize, strides: Strides, seed: u64) -> Self {
            let (rs, cs) = match strides {
                Rows => (cols, 1),
                Columns => (1, rows),
                PaddedRows => (cols + 5, 1),
                PaddedColumns => (1, rows + 3),
                Neither => (2 * cols + 1, 2),
                SameRow => (0, 1),
                SameColumn => (1, 0),
            };
            // Exactly as long as it must be, so that reading on would be noticed.
            let len = if rows * cols == 0 { 0 } else { (rows - 1) * rs + (cols - 1) * cs + 1 };
            Matrix { data: random(len, seed), rs, cs }
        }

        fn view(&self) -> MatRef<'_, T> {
            MatRef { data: &self.data, rs: self.rs as isize, cs: self.cs as isize }
        }

        fn get(&self, i: usize, j: usize) -> f64 {
            self.data[i * self.rs + j * self.cs].to_f64()
        }
    }

    fn naive<T: Real>(
        (m, n, k): (usize, usize, usize),
        a: &Matrix<T>,
        b: &Matrix<T>,
        c: &[T],
        ep: &Epilogue<T>,
    ) -> Vec<f64> {
        let mut out = Vec::with_capacity(m * n);
        for i in 0..m {
            for j in 0..n {
                let product: f64 = (0..k).map(|p| a.get(i, p) * b.get(p, j)).sum();
                let mut v = ep.alpha.to_f64() * product;
                if ep.beta != T::ZERO {
                    v += ep.beta.to_f64() * c[i * n + j].to_f64();
                }
                v += match ep.bias {
                    Bias::None => 0.0,
                    Bias::Row(b) => b[j].to_f64(),
                    Bias::Col(b) => b[i].to_f64(),
                };
                out.push(if ep.act == Activation::Relu && v < 0.0 { 0.0 } else { v });
            }
        }
        out
    }

    #[track_caller]
    fn assert_close<T: Real>(actual: &[T], expected: &[f64], k: usize, what: impl Fn() -> String) {
        let eps = if size_of::<T>() == 4 { f32::EPSILON as f64 } else { f64::EPSILON };
        for (at, (x, y)) in actual.iter().zip(expected).enumerate() {
            let tolerance = eps * (8.0 + k as f64) * y.abs().max(1.0);
            assert!((x.to_f64() - y).abs() <= tolerance, "{} at {at}: {x:?}, not {y}", what());
        }
    }

    /// Compares one product with the naive one, for each instruction set.
    fn check<T: GemmElem>(
        dims: (usize, usize, usize),
        sa: Strides,
        sb: Strides,
        ep: impl for<'a> Fn(&'a [T], &'a [T]) -> Epilogue<'a, T>,
    ) {
        let (m, n, k) = dims;
        let (a, b) = (Matrix::<T>::new(m, k, sa, 1), Matrix::new(k, n, sb, 2));
        let (c, row, col) = (random::<T>(m * n, 3), random::<T>(n, 4), random::<T>(m, 5));
        let ep = ep(&row, &col);
        let expected = naive(dims, &a, &b, &c, &ep);
        for isa in ISAS {
            let mut out = c.clone();
            product(T::kernels(isa), m, n, k, a.view().view(), b.view().view(), &mut out, ep.store());
            assert_close(&out, &expected, k, || format!("{isa:?} {dims:?} {sa:?} {sb:?} {ep:?}"));
        }
    }

    fn plain<'a, T: Real>(_: &'a [T], _: &'a [T]) -> Epilogue<'a, T> {
        Epilogue::default()
    }

    #[test]
    fn products_of_every_tile_shape_agree_with_the_naive_product() {
        for m in 1..=17 {
            for n in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40] {
                for k in [1, 2, 9] {
                    check::<f32>((m, n, k), Rows, Rows, plain);
                    check::<f64>((m, n, k), Rows, Columns, plain);
                }
            }
        }
    }

    #[test]
    fn operands_may_have_any_strides() {
        for sa in STRIDES {
            for sb in STRIDES {
                for dims in
                    [(3, 5, 70), (70, 6, 64), (9, 65, 33), (40, 150, 20), (300, 100, 10), (90, 1, 100)]
                {
                    check::<f32>(dims, sa, sb, plain);
                    check::<f64>(dims, sa, sb, plain);
                }
            }
        }
    }

    #[test]
    fn epilogues_scale_add_and_clamp_in_every_path() {
        // Thin either way, a column, a single tile, several depths, several blocks of the depth.
        let shapes = [(5, 37, 90), (37, 5, 90), (90, 1, 65), (10, 20, 30), (150, 140, 300), (20, 40, 1500)];
        for dims in shapes {
            for (sa, sb) in [(Rows, Rows), (Rows, Columns), (Columns, Rows)] {
                for (alpha, beta) in [(1.0, 0.0), (1.0, 1.0), (-0.5, 0.0), (2.0, 0.25), (0.0, -1.0)] {
                    for relu in [Activation::None, Activation::Relu] {
                        let (alpha, beta, act) = (alpha as f32, beta as f32, relu);
                        check(dims, sa, sb, |_, _| Epilogue { alpha, beta, bias: Bias::None, act });
                        check(dims, sa, sb, |row, _| Epilogue { alpha, beta, bias: Bias::Row(row), act });
                        check(dims, sa, sb, |_, col| Epilogue { alpha, beta, bias: Bias::Col(col), act });
                    }
                }
            }
        }
    }

    #[test]
    fn large_products_agree_with_the_gemm_crate() {
        for (m, n, k) in [(300, 2100, 40), (2100, 70, 60), (129, 257, 1100), (64, 512, 784), (512, 784, 64)] {
            for (sa, sb) in [(Rows, Rows), (Rows, Columns), (Columns, Rows), (PaddedColumns, PaddedRows)] {
                let (a, b) = (Matrix::<f32>::new(m, k, sa, 6), Matrix::<f32>::new(k, n, sb, 7));
                let expected = with_gemm_crate((m, n, k), &a, &b);
                for isa in ISAS {
                    let mut out = vec![f32::NAN; m * n];
                    let ep = Epilogue::default().store();
                    product(f32::kernels(isa), m, n, k, a.view().view(), b.view().view(), &mut out, ep);
                    assert_close(&out, &expected, k, || format!("{isa:?} {m}x{n}x{k} {sa:?} {sb:?}"));
                }
            }
        }
    }

    #[allow(unsafe_code)]
    fn with_gemm_crate((m, n, k): (usize, usize, usize), a: &Matrix<f32>, b: &Matrix<f32>) -> Vec<f64> {
        let mut out = vec![0f32; m * n];
        // SAFETY: the operands have the elements that their strides say, and `out` is m x n.
        unsafe {
            gemm::gemm(
                m,
                n,
                k,
                out.as_mut_ptr(),
                1,
                n as isize,
                false,
                a.data.as_ptr(),
                a.cs as isize,
                a.rs as isize,
                b.data.as_ptr(),
                b.cs as isize,
                b.rs as isize,
                0.0,
                1.0,
                false,
                false,
                false,
                gemm::Parallelism::None,
            );
        }
        out.into_iter().map(f64::from).collect()
    }

    #[test]
    fn results_do_not_depend_on_the_number_of_threads() {
        for (m, n, k) in [(300, 200, 300), (64, 512, 784), (7, 3000, 300), (3000, 2, 300), (40, 2100, 1100)] {
            for (sa, sb) in [(Rows, Rows), (Rows, Columns), (Columns, Rows)] {
                let (a, b) = (Matrix::<f32>::new(m, k, sa, 8), Matrix::<f32>::new(k, n, sb, 9));
                let run = |threads| {
                    with_threads(threads, || {
                        let mut out = vec![0f32; m * n];
                        let ep = Epilogue::default().store();
                        let kernels = f32::kernels(best_isa());
                        product(kernels, m, n, k, a.view().view(), b.view().view(), &mut out, ep);
                        out
                    })
                };
                assert!(run(1) == run(3), "{m}x{n}x{k} {sa:?} {sb:?}");
            }
        }
    }

    #[test]
    fn the_old_result_is_not_read_without_beta() {
        for dims @ (m, n, k) in [(5, 6, 7), (100, 100, 100), (4, 100, 100), (5, 6, 0)] {
            let (a, b) = (Matrix::<f32>::new(m, k, Rows, 1), Matrix::<f32>::new(k, n, Columns, 2));
            let mut c = vec![f32::NAN; m * n];
            let ep = Epilogue { alpha: 2.0, ..Epilogue::default() };
            gemm(m, n, k, a.view(), b.view(), &mut c, ep);
            assert_close(&c, &naive(dims, &a, &b, &c, &ep), k, || format!("{dims:?}"));
        }
    }

    #[test]
    fn a_product_without_depth_leaves_the_epilogue() {
        let (mut c, row) = (vec![1.0, -2.0, 3.0, -4.0], [0.5, 0.25]);
        let ep = Epilogue { alpha: 1.0, beta: 2.0, bias: Bias::Row(&row), act: Activation::Relu };
        let empty = MatRef { data: &[], rs: 1, cs: 1 };
        gemm(2, 2, 0, empty, empty, &mut c, ep);
        assert_eq!(c, [2.5, 0.0, 6.5, 0.0]);
        batched_gemm(2, 1, 2, 0, empty, 0, empty, 5, &mut c, Epilogue::default());
        assert_eq!(c, [0.0; 4]);
    }

    #[test]
    fn empty_results_are_fine() {
        let (a, b) = (MatRef::row_major(&[1.0f32; 6], 2), MatRef { data: &[][..], rs: 0, cs: 1 });
        gemm(3, 0, 2, a, b, &mut [], Epilogue::default());
        gemm(0, 3, 2, b, a, &mut [], Epilogue::default());
        batched_gemm(0, 3, 3, 2, a, 6, a, 6, &mut [], Epilogue::default());
        gemm_int::<i64>(0, 3, 2, MatRef::row_major(&[], 2), MatRef::row_major(&[0; 6], 3), &mut []);
    }

    #[test]
    fn nan_and_infinity_spread_as_in_the_naive_product() {
        for (m, n, k) in [(6, 40, 80), (40, 6, 80), (50, 50, 50), (200, 200, 300)] {
            for (sa, sb) in [(Rows, Rows), (Rows, Columns)] {
                let (mut a, mut b) = (Matrix::<f32>::new(m, k, sa, 1), Matrix::<f32>::new(k, n, sb, 2));
                let last = k - 1;
                a.data[2 * a.rs] = f32::NAN;
                a.data[3 * a.rs + last * a.cs] = f32::INFINITY;
                b.data[last * b.rs + 4 * b.cs] = 0.0;
                let ep = Epilogue { act: Activation::Relu, ..Epilogue::default() };
                for isa in ISAS {
                    let mut c = vec![0f32; m * n];
                    let (a, b) = (a.view().view(), b.view().view());
                    product(f32::kernels(isa), m, n, k, a, b, &mut c, ep.store());
                    for (at, &v) in c.iter().enumerate() {
                        let last_b = b.data[last * b.rs + at % n * b.cs];
                        let expected = match at / n {
                            2 => v.is_nan(),
                            3 if last_b == 0.0 => v.is_nan(),
                            3 => v == if last_b > 0.0 { f32::INFINITY } else { 0.0 },
                            _ => v.is_finite() && v >= 0.0,
                        };
                        assert!(expected, "{isa:?} {m}x{n}x{k}: {v} at {at}");
                    }
                }
            }
        }
    }

    #[test]
    fn batches_agree_with_single_products() {
        let (m, n, k) = (20, 30, 25);
        for batch in [1, 2, 7, 50] {
            for (a_shared, b_shared) in [(false, false), (true, false), (false, true), (true, true)] {
                let count = |shared| if shared { 1 } else { batch };
                let a: Vec<f32> = random(count(a_shared) * m * k, 1);
                let b: Vec<f32> = random(count(b_shared) * k * n, 2);
                let (row, col) = (random(n, 3), random(m, 4));
                let stride = |shared, len| if shared { 0 } else { len };
                let (sa, sb) = (stride(a_shared, m * k), stride(b_shared, k * n));
                for bias in [Bias::Row(&row), Bias::Col(&col)] {
                    let ep = Epilogue { beta: 0.5, bias, ..Epilogue::default() };
                    let mut c: Vec<f32> = random(batch * m * n, 5);
                    let mut expected = c.clone();
                    for (i, c) in expected.chunks_mut(m * n).enumerate() {
                        let b = MatRef { data: &b[i * sb..], rs: 1, cs: k as isize };
                        gemm(m, n, k, MatRef::row_major(&a[i * sa..], k), b, c, ep);
                    }
                    let b = MatRef { data: &b[..], rs: 1, cs: k as isize };
                    batched_gemm(batch, m, n, k, MatRef::row_major(&a, k), sa, b, sb, &mut c, ep);
                    let expected: Vec<_> = expected.into_iter().map(f64::from).collect();
                    assert_close(&c, &expected, k, || format!("{batch} {a_shared} {b_shared} {bias:?}"));
                }
            }
        }
    }

    #[test]
    fn few_large_products_of_a_batch_agree_with_the_naive_product() {
        let (m, n, k) = (128, 260, 300);
        let (a, b) = (random::<f64>(3 * m * k, 1), random::<f64>(3 * k * n, 2));
        let mut c = vec![0.0; 3 * m * n];
        let (lhs, rhs) = (MatRef::row_major(&a, k), MatRef::row_major(&b, n));
        batched_gemm(3, m, n, k, lhs, m * k, rhs, k * n, &mut c, Epilogue::default());
        for (i, c) in c.chunks(m * n).enumerate() {
            let a = Matrix { data: a[i * m * k..].to_vec(), rs: k, cs: 1 };
            let b = Matrix { data: b[i * k * n..].to_vec(), rs: n, cs: 1 };
            assert_close(c, &naive((m, n, k), &a, &b, c, &Epilogue::default()), k, || format!("product {i}"));
        }
    }

    #[test]
    fn integer_products_wrap() {
        let (a, b) = ([100i8, 100, -128, 3], [100i8, 1, 1, 2]);
        let mut c = [0; 4];
        gemm_int(2, 2, 2, MatRef::row_major(&a, 2), MatRef::row_major(&b, 2), &mut c);
        assert_eq!(c, [10100i32 as i8, 300i32 as i8, -12797i32 as i8, -122]);
        let big = [i64::MAX, 2];
        let mut c = [0];
        gemm_int(1, 1, 2, MatRef::row_major(&big, 2), MatRef { data: &big, rs: 0, cs: 1 }, &mut c);
        assert_eq!(c, [i64::MAX.wrapping_mul(i64::MAX).wrapping_add(2i64.wrapping_mul(i64::MAX))]);
    }

    #[test]
    fn integer_products_take_any_strides() {
        for sa in STRIDES {
            for sb in STRIDES {
                let (m, n, k) = (40, 50, 60);
                let ints = |m: Matrix<f64>| {
                    (m.data.iter().map(|v| (v * 9.0) as i32).collect::<Vec<_>>(), m.rs, m.cs)
                };
                let (a, ra, ca) = ints(Matrix::new(m, k, sa, 1));
                let (b, rb, cb) = ints(Matrix::new(k, n, sb, 2));
                let mut c = vec![-1; m * n];
                let lhs = MatRef { data: &a[..], rs: ra as isize, cs: ca as isize };
                let rhs = MatRef { data: &b[..], rs: rb as isize, cs: cb as isize };
                gemm_int(m, n, k, lhs, rhs, &mut c);
                for (at, &v) in c.iter().enumerate() {
                    let (i, j) = (at / n, at % n);
                    let sum: i32 = (0..k).map(|p| a[i * ra + p * ca] * b[p * rb + j * cb]).sum();
                    assert_eq!(v, sum, "{sa:?} {sb:?} at {i}, {j}");
                }
            }
        }
    }
}
