//! The inner loops of the matrix product, per instruction set, behind a safe interface.
//!
//! A tile kernel keeps up to `mr` x `nr` elements of C in registers over the whole depth: for each `p` it loads a row
//! of B, and for each row of the tile it broadcasts one element of A and multiplies. A kernel is compiled for every
//! tile height; narrower tiles mask their last vector. A dot kernel multiplies rows by rows, for products with so few
//! rows that packing would cost more than the product. [`super::matmul`] does the blocking.
//!
//! The kernels are generic over a [`Vector`]. The functions at the end instantiate them with their instruction set,
//! and everything else is inlined into those.
#![allow(unsafe_code)]
// Iterators over vectors prevent LLVM from inlining the kernels into functions with the vectors' instruction set.
#![allow(clippy::needless_range_loop)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
use std::marker::PhantomData;

use crate::backend::cpu::simd::{Isa, best_isa};
use crate::dtype::Real;

mod vector;

#[cfg(target_arch = "x86_64")]
use vector::{F32x8, F32x16, F64x4, F64x8};
use vector::{Plain, Vector};

/// An element type with kernels.
pub trait GemmElem: Real {
    /// The kernels for `isa`, or for the best instruction set of this machine if that is lower.
    fn kernels(isa: Isa) -> &'static Kernels<Self>;
}

/// The kernels for one element type and instruction set.
pub struct Kernels<T: 'static> {
    /// The largest tile: rows and columns.
    pub mr: usize,
    pub nr: usize,
    /// Rows of the right operand per call of a dot kernel. The left operand has at most [`DOT_ROWS`].
    pub dot_cols: usize,
    lanes: usize,
    /// `tiles[rows - 1][vectors - 1]`, for any left operand and for one that is packed in panels of this height.
    tiles: &'static [[[Tile<T>; 2]; 2]],
    /// `dots[rows - 1]`, for one column and for `dot_cols`.
    dots: [[Dot<T>; 2]; DOT_ROWS],
    pack_lanes: PackLanes<T>,
    pack_depth: Pack<T>,
}

pub const DOT_ROWS: usize = 4;

type Tile<T> =
    unsafe fn(usize, *const T, usize, usize, *const T, usize, bool, *mut T, usize, usize, &Store<'_, T>);
type Dot<T> = unsafe fn(usize, *const T, usize, *const T, usize, &mut [T]);
type Pack<T> = unsafe fn(usize, usize, *const T, usize, *mut T, usize);
type PackLanes<T> = unsafe fn(usize, usize, *const T, usize, usize, *mut T, usize, usize);

/// The epilogue of a tile: `c = act(alpha * product + beta * c + row + column)`. With zero `beta`, C is not read.
#[derive(Clone, Copy)]
pub struct Store<'a, T> {
    pub alpha: T,
    pub beta: T,
    /// One value per column of the tile.
    pub row: Option<&'a [T]>,
    /// One value per row of the tile.
    pub col: Option<&'a [T]>,
    pub relu: bool,
}

impl<'a, T: Real> Store<'a, T> {
    /// The epilogue for the part of C that starts at row `i` and column `j`.
    #[inline]
    pub fn at(&self, i: usize, j: usize) -> Self {
        Store { row: self.row.map(|r| &r[j..]), col: self.col.map(|c| &c[i..]), ..*self }
    }

    /// The epilogue for the first, the last or another step of a sum over the depth.
    #[inline]
    pub fn step(&self, first: bool, last: bool) -> Self {
        Store {
            alpha: self.alpha,
            beta: if first { self.beta } else { T::ONE },
            row: self.row.filter(|_| last),
            col: self.col.filter(|_| last),
            relu: self.relu && last,
        }
    }

    /// Whether the product is only stored or added.
    #[inline]
    fn is_plain(&self) -> bool {
        let added = self.beta == T::ZERO || self.beta == T::ONE;
        added && self.alpha == T::ONE && self.row.is_none() && self.col.is_none() && !self.relu
    }

    pub fn transposed(&self) -> Self {
        Store { row: self.col, col: self.row, ..*self }
    }

    /// Applies the epilogue to one element and writes it to `c`.
    #[inline]
    pub fn put(&self, c: &mut ViewMut<T>, i: usize, j: usize, product: T) {
        c.update(i, j, |old| {
            let mut v = self.alpha * product;
            if self.beta != T::ZERO {
                v += self.beta * old;
            }
            if let Some(row) = self.row {
                v += row[j];
            }
            if let Some(col) = self.col {
                v += col[i];
            }
            if self.relu && v < T::ZERO { T::ZERO } else { v }
        });
    }
}

/// A read-only matrix: element (i, j) is `data[i * rs + j * cs]`.
#[derive(Clone, Copy)]
pub struct View<'a, T> {
    pub data: &'a [T],
    pub rs: usize,
    pub cs: usize,
}

impl<'a, T> View<'a, T> {
    /// The part that starts at row `i` and column `j`.
    pub fn from(self, i: usize, j: usize) -> Self {
        View { data: &self.data[i * self.rs + j * self.cs..], ..self }
    }

    pub fn transposed(self) -> Self {
        View { data: self.data, rs: self.cs, cs: self.rs }
    }

    /// Whether `data` holds `rows` x `cols` elements, neither of which is 0.
    fn covers(&self, rows: usize, cols: usize) -> bool {
        let last = (rows - 1).saturating_mul(self.rs).saturating_add((cols - 1).saturating_mul(self.cs));
        last < self.data.len()
    }
}

/// A writable matrix, exclusively borrowed: element (i, j) is at `data + i * rs + j * cs`.
pub struct ViewMut<'a, T> {
    data: *mut T,
    rows: usize,
    cols: usize,
    rs: usize,
    cs: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: it exclusively borrows its elements, like a `&mut [T]`.
unsafe impl<T: Send> Send for ViewMut<'_, T> {}

impl<'a, T: Copy> ViewMut<'a, T> {
    pub fn new(data: &'a mut [T], rows: usize, cols: usize) -> Self {
        assert_eq!(data.len(), rows * cols);
        ViewMut { data: data.as_mut_ptr(), rows, cols, rs: cols, cs: 1, borrow: PhantomData }
    }

    #[inline]
    pub fn rows(&self) -> usize {
        self.rows
    }

    #[inline]
    pub fn cols(&self) -> usize {
        self.cols
    }

    pub fn transposed(self) -> Self {
        ViewMut { rows: self.cols, cols: self.rows, rs: self.cs, cs: self.rs, ..self }
    }

    /// A single contiguous column, viewed as a row.
    pub fn column_as_row(self) -> Self {
        assert!(self.cols == 1 && self.rs == 1);
        ViewMut { rows: 1, cols: self.rows, rs: self.rows, cs: 1, ..self }
    }

    /// Splits into the first `at` rows and the rest.
    pub fn split_rows(self, at: usize) -> (Self, Self) {
        assert!(at <= self.rows);
        let rest = self.data.wrapping_add(at * self.rs);
        (ViewMut { rows: at, ..self }, ViewMut { data: rest, rows: self.rows - at, ..self })
    }

    /// Splits into parts of `width` columns.
    pub fn columns(self, width: usize) -> Vec<Self> {
        let part = |j| {
            let data = self.data.wrapping_add(j * self.cs);
            ViewMut { data, cols: width.min(self.cols - j), ..self }
        };
        (0..self.cols).step_by(width).map(part).collect()
    }

    /// The submatrix of `rows` x `cols` elements at (i, j).
    #[inline]
    pub fn part(&mut self, i: usize, j: usize, rows: usize, cols: usize) -> ViewMut<'_, T> {
        assert!(i + rows <= self.rows && j + cols <= self.cols);
        let data = self.data.wrapping_add(i * self.rs + j * self.cs);
        ViewMut { data, rows, cols, ..*self }
    }

    /// Replaces element (i, j) by `f` of it.
    #[inline]
    fn update(&mut self, i: usize, j: usize, f: impl FnOnce(T) -> T) {
        assert!(i < self.rows && j < self.cols);
        // SAFETY: the element is within the borrowed matrix.
        unsafe {
            let c = self.data.add(i * self.rs + j * self.cs);
            *c = f(*c);
        }
    }
}

impl<T: Real> Kernels<T> {
    /// Columns of the right operand in a vector.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// Computes a tile: the product of `a` (rows of `c` x k) and `b` (k x columns of `c`), with the epilogue `store`.
    /// The rows of `b` are contiguous.
    #[inline]
    pub fn tile(&self, k: usize, a: View<T>, b: View<T>, c: &mut ViewMut<T>, store: &Store<T>) {
        let (rows, cols) = (c.rows, c.cols);
        assert!(rows <= self.mr && cols <= self.nr && b.cs == 1 && c.cs == 1);
        assert!(a.covers(rows, k) && b.covers(k, cols));
        assert!(store.row.is_none_or(|r| r.len() >= cols) && store.col.is_none_or(|c| c.len() >= rows));
        let packed = a.rs == 1 && a.cs == rows;
        let vectors = cols.div_ceil(self.lanes);
        let whole = b.covers(k, vectors * self.lanes);
        let kernel = self.tiles[rows - 1][vectors - 1][packed as usize];
        // SAFETY: the machine supports the instruction set (`kernels` checks), and all elements that the kernel
        // accesses are within the operands, as asserted above.
        unsafe {
            kernel(k, a.data.as_ptr(), a.rs, a.cs, b.data.as_ptr(), b.rs, whole, c.data, c.rs, cols, store);
        }
    }

    /// Sets `out[i * cols + j]` to the dot product of row `i` of `a` and row `j` of `b`, both of `k` contiguous
    /// elements. `cols` is 1 or `dot_cols`, `rows` at most `DOT_ROWS`.
    #[inline]
    pub fn dot(&self, k: usize, a: View<T>, rows: usize, b: View<T>, cols: usize, out: &mut [T]) {
        assert!(cols == 1 || cols == self.dot_cols);
        assert!(a.cs == 1 && b.cs == 1 && a.covers(rows, k) && b.covers(cols, k) && out.len() >= rows * cols);
        let kernel = self.dots[rows - 1][(cols > 1) as usize];
        // SAFETY: as in `tile`.
        unsafe { kernel(k, a.data.as_ptr(), a.rs, b.data.as_ptr(), b.rs, out) }
    }

    /// Packs the `width` x `k` elements of `src` by depth: `dst[p * stride + i]` becomes element (i, p).
    pub fn pack(&self, width: usize, k: usize, src: View<T>, dst: &mut [T], stride: usize) {
        assert!(src.covers(width, k) && width <= stride && (k - 1) * stride + width <= dst.len());
        let (from, to) = (src.data.as_ptr(), dst.as_mut_ptr());
        if src.rs == 1 {
            // SAFETY: as in `tile`.
            unsafe { (self.pack_lanes)(width, k, from, src.cs, src.data.len(), to, stride, dst.len()) }
        } else if src.cs == 1 {
            // SAFETY: as in `tile`.
            unsafe { (self.pack_depth)(width, k, from, src.rs, to, stride) }
        } else {
            for (p, dst) in dst.chunks_mut(stride).take(k).enumerate() {
                for (i, d) in dst[..width].iter_mut().enumerate() {
                    *d = src.data[i * src.rs + p * src.cs];
                }
            }
        }
    }
}

// Note [Loads without masks] Some AMD processors execute masked loads slowly (docs/design/0006-kernels.md). So a kernel loads
// the last vector of a row of B without a mask if the slice of B does not end within it. Its lanes beyond the last column then
// hold elements of the next row, or padding of the panel; their sums are computed, but not stored.

/// With strides that are known, the addresses of the elements of A are offsets from one pointer. Otherwise each is computed
/// from that before, and where a tile has few vectors that takes as long as the products.
///
/// # Safety
/// As [`Kernels::tile`] asserts: rows M, columns from `LANES * (NV - 1) + 1` to `LANES * NV`; strides 1 and M if PACKED.
/// If `whole`, B has `LANES * NV` columns.
#[inline(always)]
unsafe fn tile<V: Vector, const M: usize, const NV: usize, const PACKED: bool>(
    k: usize,
    a: *const V::Elem,
    rs: usize,
    cs: usize,
    b: *const V::Elem,
    bs: usize,
    whole: bool,
    c: *mut V::Elem,
    ldc: usize,
    cols: usize,
    s: &Store<'_, V::Elem>,
    finish: Finish<V, V::Elem>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let (rs, cs) = if PACKED { (1, M) } else { (rs, cs) };
        let mask = V::mask(cols - (NV - 1) * V::LANES);
        let load = |p: *const V::Elem, j: usize| {
            let p = p.add(j * V::LANES);
            if j + 1 == NV { V::load_part(p, mask) } else { V::load(p) }
        };
        for i in 0..M {
            prefetch(c.add(i * ldc));
            prefetch(c.add(i * ldc + cols - 1));
        }
        let acc = if whole && V::MASKS_COST {
            accumulate::<V, M, NV>(k, a, rs, cs, b, bs, |p| V::load(p))
        } else {
            accumulate::<V, M, NV>(k, a, rs, cs, b, bs, |p| V::load_part(p, mask))
        };
        let put = |i: usize, j: usize, v: V| {
            let p = c.add(i * ldc + j * V::LANES);
            if j + 1 == NV { v.store_part(p, mask) } else { v.store(p) }
        };
        // After unrolling, the common cases index `acc` by constants only, which keeps it in registers.
        if s.is_plain() {
            let add = s.beta != V::Elem::ZERO;
            for i in 0..M {
                for j in 0..NV {
                    let v = acc[i][j];
                    put(i, j, if add { v.add(load(c.add(i * ldc), j)) } else { v });
                }
            }
            return;
        }
        let sums = acc;
        finish(sums.as_flattened(), NV, c, ldc, cols, s);
    }
}

/// The sums of a tile; `last` loads the last vector of a row of B.
///
/// # Safety
/// As for [`tile`].
#[inline(always)]
unsafe fn accumulate<V: Vector, const M: usize, const NV: usize>(
    k: usize,
    mut a: *const V::Elem,
    rs: usize,
    cs: usize,
    mut b: *const V::Elem,
    bs: usize,
    last: impl Fn(*const V::Elem) -> V,
) -> [[V; NV]; M] {
    // SAFETY: the caller's promise. Pointers are moved past the end only by wrapping arithmetic.
    unsafe {
        let mut acc = [[V::splat(V::Elem::ZERO); NV]; M];
        for _ in 0..k {
            let mut row = [V::splat(V::Elem::ZERO); NV];
            for j in 0..NV {
                let p = b.add(j * V::LANES);
                row[j] = if j + 1 == NV { last(p) } else { V::load(p) };
                if (j * V::LANES * size_of::<V::Elem>()).is_multiple_of(CACHE_LINE) {
                    let ahead = if M <= LOW { PREFETCH_COLS } else { PREFETCH_DEPTH * bs };
                    prefetch(b.wrapping_add(ahead + j * V::LANES));
                }
            }
            for i in 0..M {
                let x = V::splat(*a.add(i * rs));
                for j in 0..NV {
                    acc[i][j] = x.mul_add(row[j], acc[i][j]);
                }
            }
            a = a.wrapping_add(cs);
            b = b.wrapping_add(bs);
        }
        acc
    }
}

/// [`finish`], compiled with the instruction set of a tile.
type Finish<V, T> = unsafe fn(&[V], usize, *mut T, usize, usize, &Store<'_, T>);

/// The general epilogue of [`tile`]; not generic over the tile size, to save code. Row `i` of the sums is at `i * nv`.
///
/// # Safety
/// As for [`tile`] of `sums.len() / nv` rows.
#[inline(always)]
unsafe fn finish<V: Vector>(
    sums: &[V],
    nv: usize,
    c: *mut V::Elem,
    ldc: usize,
    cols: usize,
    s: &Store<'_, V::Elem>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mask = V::mask(cols - (nv - 1) * V::LANES);
        let load = |p: *const V::Elem, j: usize| {
            let p = p.add(j * V::LANES);
            if j + 1 == nv { V::load_part(p, mask) } else { V::load(p) }
        };
        for (i, sums) in sums.chunks_exact(nv).enumerate() {
            for (j, sum) in sums.iter().enumerate() {
                let mut v = sum.mul(V::splat(s.alpha));
                if s.beta != V::Elem::ZERO {
                    v = load(c.add(i * ldc), j).mul_add(V::splat(s.beta), v);
                }
                if let Some(bias) = s.row {
                    v = v.add(load(bias.as_ptr(), j));
                }
                if let Some(bias) = s.col {
                    v = v.add(V::splat(*bias.get_unchecked(i)));
                }
                let v = if s.relu { v.relu() } else { v };
                let p = c.add(i * ldc + j * V::LANES);
                if j + 1 == nv { v.store_part(p, mask) } else { v.store(p) }
            }
        }
    }
}

/// Prefetch distance for B: in rows ahead; or, for tiles of at most `LOW` rows, which are memory-bound and get a few
/// rows of B at a time, in columns ahead in the same row.
const PREFETCH_DEPTH: usize = 16;
const PREFETCH_COLS: usize = 256;
pub const LOW: usize = 2;
pub const CACHE_LINE: usize = 64;

/// Prefetches a cache line; `p` need not be a valid address.
#[inline(always)]
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
pub fn prefetch<T>(p: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of the architecture, and a prefetch does not fault.
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(p.cast());
    }
}

/// As `prefetch`, into the second-level cache.
#[inline(always)]
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
pub fn prefetch_outer(address: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as `prefetch`.
    unsafe {
        _mm_prefetch::<_MM_HINT_T1>(address as *const i8);
    }
}

/// # Safety As [`Kernels::dot`] asserts, for M rows and N columns.
#[inline(always)]
unsafe fn dot<V: Vector, const M: usize, const N: usize>(
    k: usize,
    a: *const V::Elem,
    ra: usize,
    b: *const V::Elem,
    rb: usize,
    out: &mut [V::Elem],
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut acc = [[V::splat(V::Elem::ZERO); N]; M];
        // See Note [Loads without masks].
        let whole = k - k % V::LANES;
        for p in (0..whole).step_by(V::LANES) {
            dot_step(a.add(p), ra, b.add(p), rb, &mut acc, |p| V::load(p));
        }
        if whole < k {
            let mask = V::mask(k - whole);
            dot_step(a.add(whole), ra, b.add(whole), rb, &mut acc, |p| V::load_part(p, mask));
        }
        for i in 0..M {
            for j in 0..N {
                *out.get_unchecked_mut(i * N + j) = acc[i][j].sum();
            }
        }
    }
}

/// Adds the products of one vector of each row.
///
/// # Safety
/// As for [`dot`].
#[inline(always)]
unsafe fn dot_step<V: Vector, const M: usize, const N: usize>(
    a: *const V::Elem,
    ra: usize,
    b: *const V::Elem,
    rb: usize,
    acc: &mut [[V; N]; M],
    load: impl Fn(*const V::Elem) -> V,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut row = [V::splat(V::Elem::ZERO); N];
        for j in 0..N {
            row[j] = load(b.add(j * rb));
            if M == 1 {
                // A single row is memory-bound: prefetch the next rows of `b`.
                prefetch(b.wrapping_add((j + N) * rb));
            }
        }
        for i in 0..M {
            let x = load(a.add(i * ra));
            for j in 0..N {
                acc[i][j] = x.mul_add(row[j], acc[i][j]);
            }
        }
    }
}

/// Packs an operand that is contiguous across the depth, by copying short rows. If `ds == width`, the last vector of a row is
/// stored without a mask, and its lanes beyond `width` are overwritten by the next row. `from_len` and `len` are the lengths of `src` and `dst`.
///
/// # Safety
/// As [`Kernels::pack`] asserts.
#[inline(always)]
unsafe fn pack_lanes<V: Vector>(
    width: usize,
    k: usize,
    src: *const V::Elem,
    ss: usize,
    from_len: usize,
    dst: *mut V::Elem,
    ds: usize,
    len: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let whole = width - width % V::LANES;
        let mask = V::mask(width - whole);
        for p in 0..k {
            let (from, row) = (src.add(p * ss), p * ds);
            let mut i = 0;
            while i < whole {
                V::load(from.add(i)).store(dst.add(row + i));
                i += V::LANES;
            }
            if whole == width {
                continue;
            }
            // See Note [Loads without masks].
            let inside = V::MASKS_COST && p * ss + i + V::LANES <= from_len;
            let last = if inside { V::load(from.add(i)) } else { V::load_part(from.add(i), mask) };
            if ds == width && row + i + V::LANES <= len {
                last.store(dst.add(row + i));
            } else {
                last.store_part(dst.add(row + i), mask);
            }
        }
    }
}

/// Packs an operand whose rows are contiguous along the depth, by transposing square blocks. The last blocks of either
/// direction overlap the previous ones.
///
/// # Safety
/// As [`Kernels::pack`] asserts.
#[inline(always)]
unsafe fn pack_depth<V: Vector>(
    width: usize,
    k: usize,
    src: *const V::Elem,
    ss: usize,
    dst: *mut V::Elem,
    ds: usize,
) {
    let block = V::BLOCK;
    // SAFETY: the caller's promise.
    unsafe {
        if width < block || k < block {
            for p in 0..k {
                for i in 0..width {
                    *dst.add(p * ds + i) = *src.add(i * ss + p);
                }
            }
            return;
        }
        for i in (0..width).step_by(block).map(|i| i.min(width - block)) {
            for p in (0..k).step_by(block).map(|p| p.min(k - block)) {
                V::transpose(src.add(i * ss + p), ss, dst.add(p * ds + i), ds);
            }
        }
    }
}

/// Instantiates the kernels for an instruction set, as functions of a module.
macro_rules! instantiate {
    ($module:ident $(, $feature:literal)?) => {
        // SAFETY of the blocks in here: each function has the contract of the one it wraps.
        #[allow(clippy::undocumented_unsafe_blocks)]
        mod $module {
            use super::{Store, Vector};

            $(#[target_feature(enable = $feature)])?
            pub unsafe fn tile<V: Vector, const M: usize, const NV: usize, const PACKED: bool>(
                k: usize, a: *const V::Elem, rs: usize, cs: usize, b: *const V::Elem, bs: usize, whole: bool,
                c: *mut V::Elem, ldc: usize, cols: usize, s: &Store<'_, V::Elem>,
            ) {
                unsafe { super::tile::<V, M, NV, PACKED>(k, a, rs, cs, b, bs, whole, c, ldc, cols, s, finish::<V>) }
            }
            $(#[target_feature(enable = $feature)])?
            #[inline(never)]
            unsafe fn finish<V: Vector>(
                sums: &[V], nv: usize, c: *mut V::Elem, ldc: usize, cols: usize, s: &Store<'_, V::Elem>,
            ) {
                unsafe { super::finish::<V>(sums, nv, c, ldc, cols, s) }
            }
            $(#[target_feature(enable = $feature)])?
            pub unsafe fn dot<V: Vector, const M: usize, const N: usize>(
                k: usize, a: *const V::Elem, ra: usize, b: *const V::Elem, rb: usize, out: &mut [V::Elem],
            ) {
                unsafe { super::dot::<V, M, N>(k, a, ra, b, rb, out) }
            }
            $(#[target_feature(enable = $feature)])?
            pub unsafe fn pack_lanes<V: Vector>(
                width: usize, k: usize, src: *const V::Elem, ss: usize, from_len: usize,
                dst: *mut V::Elem, ds: usize, len: usize,
            ) {
                unsafe { super::pack_lanes::<V>(width, k, src, ss, from_len, dst, ds, len) }
            }
            $(#[target_feature(enable = $feature)])?
            pub unsafe fn pack_depth<V: Vector>(
                width: usize, k: usize, src: *const V::Elem, ss: usize, dst: *mut V::Elem, ds: usize,
            ) {
                unsafe { super::pack_depth::<V>(width, k, src, ss, dst, ds) }
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
instantiate!(avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma");
#[cfg(target_arch = "x86_64")]
instantiate!(avx512_bf16, "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma");
#[cfg(target_arch = "x86_64")]
instantiate!(avx2, "avx2,fma,f16c");
instantiate!(baseline);

macro_rules! kernels {
    ($module:ident, $vector:ty, dot_cols $n:literal, rows $($m:literal)*) => {
        Kernels {
            mr: <[usize]>::len(&[$($m),*]),
            nr: 2 * <$vector as Vector>::LANES,
            dot_cols: $n,
            lanes: <$vector as Vector>::LANES,
            tiles: &[$([
                [$module::tile::<$vector, $m, 1, false>, $module::tile::<$vector, $m, 1, true>],
                [$module::tile::<$vector, $m, 2, false>, $module::tile::<$vector, $m, 2, true>],
            ]),*],
            dots: [
                [$module::dot::<$vector, 1, 1>, $module::dot::<$vector, 1, $n>],
                [$module::dot::<$vector, 2, 1>, $module::dot::<$vector, 2, $n>],
                [$module::dot::<$vector, 3, 1>, $module::dot::<$vector, 3, $n>],
                [$module::dot::<$vector, 4, 1>, $module::dot::<$vector, 4, $n>],
            ],
            pack_lanes: $module::pack_lanes::<$vector>,
            pack_depth: $module::pack_depth::<$vector>,
        }
    };
}

macro_rules! gemm_elem {
    ($elem:ident, $avx512:ty [$($rows:literal)*], $avx2:ty, $plain:ty) => {
        impl GemmElem for $elem {
            #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
            fn kernels(isa: Isa) -> &'static Kernels<$elem> {
                static BASELINE: Kernels<$elem> = kernels!(baseline, $plain, dot_cols 2, rows 1 2 3 4);
                #[cfg(target_arch = "x86_64")]
                {
                    static AVX512: Kernels<$elem> =
                        kernels!(avx512, $avx512, dot_cols 4, rows $($rows)*);
                    static AVX2: Kernels<$elem> = kernels!(avx2, $avx2, dot_cols 2, rows 1 2 3 4 5 6);
                    match isa.min(best_isa()) {
                        Isa::Avx512 => return &AVX512,
                        Isa::Avx2 => return &AVX2,
                        Isa::Baseline => {}
                    }
                }
                &BASELINE
            }
        }
    };
}
gemm_elem!(f32, F32x16 [1 2 3 4 5 6 7 8 9 10 11 12 13 14], F32x8, Plain<f32, 4>);
// Sixteen accumulators keep the units busy; larger tiles would only save loads.
gemm_elem!(f64, F64x8 [1 2 3 4 5 6 7 8], F64x4, Plain<f64, 2>);

mod halves;
pub use halves::Half;
