//! Shapes and strides: the geometry of a view, without data. Strides count elements and may be negative or zero.

mod order;

use std::fmt;
use std::ops::{Deref, DerefMut, Index, IndexMut};
use std::slice::SliceIndex;

use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::{bail, ensure};

pub use order::{MemoryFormat, result_layout};

/// Dimensions are stored inline up to this rank.
const INLINE: usize = 6;

/// Sizes of the dimensions, without a heap allocation up to rank 6.
#[derive(Eq, Default)]
pub struct Dims(SmallVec<[usize; INLINE]>);

/// Strides in elements.
#[derive(Eq, Default)]
pub struct Strides(SmallVec<[isize; INLINE]>);

macro_rules! dims_like {
    ($name:ident $t:ty) => {
        impl Clone for $name {
            // SmallVec's own `clone` copies element by element, and a copy of variable length is a call to memcpy.
            #[inline]
            fn clone(&self) -> Self {
                let few = match *self.0.as_slice() {
                    [] => [0; INLINE],
                    [a] => [a, 0, 0, 0, 0, 0],
                    [a, b] => [a, b, 0, 0, 0, 0],
                    [a, b, c] => [a, b, c, 0, 0, 0],
                    [a, b, c, d] => [a, b, c, d, 0, 0],
                    [a, b, c, d, e] => [a, b, c, d, e, 0],
                    [a, b, c, d, e, f] => [a, b, c, d, e, f],
                    _ => return $name(SmallVec::from_slice(&self.0)),
                };
                $name(SmallVec::from_buf_and_len(few, self.len()))
            }
        }
        impl PartialEq for $name {
            // Comparing slices is a call to memcmp.
            #[inline]
            fn eq(&self, other: &Self) -> bool {
                self.len() == other.len() && self.iter().zip(other.iter()).all(|(a, b)| a == b)
            }
        }
        impl Deref for $name {
            type Target = SmallVec<[$t; INLINE]>;
            #[inline]
            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }
        impl DerefMut for $name {
            #[inline]
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.0
            }
        }
        // SmallVec's own indexing is not inlined.
        impl<I: SliceIndex<[$t]>> Index<I> for $name {
            type Output = I::Output;
            #[inline]
            fn index(&self, at: I) -> &I::Output {
                &self.0.as_slice()[at]
            }
        }
        impl<I: SliceIndex<[$t]>> IndexMut<I> for $name {
            #[inline]
            fn index_mut(&mut self, at: I) -> &mut I::Output {
                &mut self.0.as_mut_slice()[at]
            }
        }
        impl From<&[$t]> for $name {
            #[inline]
            fn from(v: &[$t]) -> Self {
                $name(SmallVec::from_slice(v))
            }
        }
        impl<const N: usize> From<[$t; N]> for $name {
            fn from(v: [$t; N]) -> Self {
                $name(SmallVec::from_slice(&v))
            }
        }
        impl FromIterator<$t> for $name {
            // As in `clone`: up to rank 6 the inline array is filled directly.
            #[inline]
            fn from_iter<I: IntoIterator<Item = $t>>(it: I) -> Self {
                let mut it = it.into_iter();
                let mut few = [0; INLINE];
                for n in 0..INLINE {
                    match it.next() {
                        Some(v) => few[n] = v,
                        None => return $name(SmallVec::from_buf_and_len(few, n)),
                    }
                }
                let mut many = SmallVec::from_buf(few);
                // `extend` would inline its three loops into about a hundred callers.
                it.for_each(|v| many.push(v));
                $name(many)
            }
        }
        /// Printed like a Python list: `[2, 3]`.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &self.0[..])
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &self.0[..])
            }
        }
    };
}
dims_like!(Dims usize);
dims_like!(Strides isize);

impl Strides {
    #[inline]
    fn zeros(rank: usize) -> Strides {
        if rank <= INLINE {
            Strides(SmallVec::from_buf_and_len([0; INLINE], rank))
        } else {
            Strides(SmallVec::from_elem(0, rank))
        }
    }
}

impl Dims {
    #[inline]
    pub fn numel(&self) -> usize {
        self.iter().product()
    }

    /// The strides of a dense row-major tensor of this shape.
    #[inline]
    pub fn contiguous_strides(&self) -> Strides {
        // The common ranks are computed without a loop.
        match self[..] {
            [_] => return Strides(SmallVec::from_buf_and_len([1, 0, 0, 0, 0, 0], 1)),
            [_, n] => return Strides(SmallVec::from_buf_and_len([n.max(1) as isize, 1, 0, 0, 0, 0], 2)),
            _ => {}
        }
        let mut strides = Strides::zeros(self.len());
        let mut step = 1;
        for d in (0..self.len()).rev() {
            strides[d] = step;
            step *= self[d].max(1) as isize;
        }
        strides
    }
}

/// The number of elements of a shape.
///
/// // Note [Sizes that fit] The product of the non-zero sizes of every layout fits in an `isize`. Code that makes a
/// shape from numbers of the user calls this function (or [`dense_numel`] when memory will be allocated), so that
/// later code may compute the number of elements, the strides of a dense tensor and any product of some of the sizes
/// without overflow checks. Strides are not bounded where they are never stepped along, which is in dimensions of size
/// 1 and in empty tensors; products with such strides wrap.
///
/// # Errors
/// `RuntimeError` when the product overflows.
#[inline]
pub fn checked_numel(shape: &[usize]) -> Result<usize> {
    let mut empty = false;
    let product = shape.iter().try_fold(1usize, |n, &d| {
        empty |= d == 0;
        n.checked_mul(d.max(1))
    });
    match product {
        Some(n) if n <= isize::MAX as usize => Ok(if empty { 0 } else { n }),
        _ => Err(Error::Runtime("numel: integer multiplication overflow".into())),
    }
}

/// The number of elements of a new dense tensor, whose size in bytes must fit in an `isize`.
///
/// # Errors
/// `RuntimeError` when it does not fit.
#[inline(always)]
pub fn dense_numel(shape: &[usize]) -> Result<usize> {
    let (n, bits) = shape.iter().fold((1usize, 0), |(n, bits), &d| (n.wrapping_mul(d), bits | d));
    // The product of sizes below 2^b each is below 2^(b * rank).
    let fits = (usize::BITS - bits.leading_zeros()) as usize * shape.len() < 59;
    if fits { Ok(n) } else { large_numel(shape) }
}

#[cold]
fn large_numel(shape: &[usize]) -> Result<usize> {
    match checked_numel(shape) {
        Ok(n) if n <= isize::MAX as usize / 16 => Ok(n),
        _ if shape.contains(&0) => Err(Error::Runtime("Stride calculation overflowed".into())),
        _ => Err(Error::Runtime(format!(
            "Storage size calculation overflowed with sizes={}",
            Dims::from(shape)
        ))),
    }
}

/// Maps indices of a tensor to positions in its storage.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Layout {
    pub shape: Dims,
    pub strides: Strides,
    pub offset: usize,
}

/// Wraps a negative dimension as PyTorch does; a 0-d tensor accepts the dimensions 0 and -1.
#[inline]
pub fn wrap_dim(dim: i64, rank: usize) -> Result<usize> {
    let n = rank.max(1) as i64;
    if dim < -n || dim >= n {
        bail!(Error::DimRange { dim, rank: rank as i64 });
    }
    Ok(if dim < 0 { dim + n } else { dim } as usize)
}

impl Layout {
    #[inline]
    pub fn contiguous(shape: Dims) -> Layout {
        Layout::row_major(shape)
    }

    /// [`Layout::contiguous`], inlined also where LLVM would call it: for the function that makes every result.
    #[inline(always)]
    pub(crate) fn row_major(shape: Dims) -> Layout {
        let strides = shape.contiguous_strides();
        Layout { shape, strides, offset: 0 }
    }

    #[inline]
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    #[inline]
    pub fn numel(&self) -> usize {
        self.shape.numel()
    }

    /// The layout in which expanded dimensions have size 1, so that it has each of their elements once; None if there
    /// are no such dimensions.
    pub fn without_repetition(&self) -> Option<Layout> {
        let repeats = |(&n, &stride): (&usize, &isize)| stride == 0 && n > 1;
        if !self.shape.iter().zip(self.strides.iter()).any(repeats) {
            return None;
        }
        let mut once = self.clone();
        for (n, &stride) in once.shape.iter_mut().zip(self.strides.iter()) {
            if stride == 0 {
                *n = (*n).min(1);
            }
        }
        Some(once)
    }

    /// Whether the elements are dense in row-major order. The strides of dimensions of size 1 are ignored.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1;
        for (&n, &s) in self.shape.iter().zip(self.strides.iter()).rev() {
            if n != 1 {
                if s != step {
                    // An empty tensor is contiguous in every memory format.
                    return self.shape.contains(&0);
                }
                step *= n as isize;
            }
        }
        true
    }

    /// Whether the strides equal those of a new contiguous tensor, also in dimensions of size 1.
    #[inline]
    pub fn has_plain_strides(&self) -> bool {
        let mut step = 1;
        self.shape.iter().zip(self.strides.iter()).rev().all(|(&n, &s)| {
            let plain = s == step;
            step *= n.max(1) as isize;
            plain
        })
    }

    /// Whether every index refers to the same element, as in a broadcast scalar.
    #[inline]
    pub fn is_one_element(&self) -> bool {
        self.strides.iter().all(|&s| s == 0)
    }

    /// Whether the elements are distinct and fill a contiguous range: dense in some order of the dimensions.
    pub fn is_non_overlapping_and_dense(&self) -> bool {
        if self.is_contiguous() {
            return true;
        }
        let mut dims: SmallVec<[(isize, usize); 6]> =
            self.strides.iter().copied().zip(self.shape.iter().copied()).filter(|&(_, n)| n != 1).collect();
        dims.sort_by_key(|&(s, _)| s);
        let mut step = 1;
        for (s, n) in dims {
            if s != step {
                return false;
            }
            step *= n as isize;
        }
        true
    }

    /// Whether two different indices may refer to the same element, as in an expanded dimension.
    pub fn may_overlap_itself(&self) -> bool {
        if self.numel() == 0 || self.is_contiguous() {
            return false;
        }
        if let ([n], [s]) = (&self.shape[..], &self.strides[..]) {
            return *n > 1 && *s == 0;
        }
        let mut dims: SmallVec<[(usize, usize); 6]> = self
            .strides
            .iter()
            .zip(self.shape.iter())
            .filter(|&(_, &n)| n != 1)
            .map(|(&s, &n)| (s.unsigned_abs(), n))
            .collect();
        dims.sort_unstable();
        let mut reach = 0;
        for (s, n) in dims {
            if s <= reach {
                return true;
            }
            reach += s * (n - 1);
        }
        false
    }

    /// The lowest and the highest element index that this layout touches; None when it is empty.
    pub fn extent(&self) -> Option<(isize, isize)> {
        let (mut lo, mut hi) = (self.offset as isize, self.offset as isize);
        for (&n, &s) in self.shape.iter().zip(self.strides.iter()) {
            if n == 0 {
                return None;
            }
            let reach = (n as isize - 1).checked_mul(s)?;
            if reach < 0 {
                lo = lo.checked_add(reach)?;
            } else {
                hi = hi.checked_add(reach)?;
            }
        }
        Some((lo, hi))
    }

    /// Expands to `shape`: dimensions of size 1 and missing leading dimensions get stride 0.
    pub fn expand(&self, shape: &[usize]) -> Option<Layout> {
        let lead = shape.len().checked_sub(self.rank())?;
        let mut strides = Strides::zeros(shape.len());
        for d in 0..self.rank() {
            if self.shape[d] == shape[lead + d] {
                strides[lead + d] = self.strides[d];
            } else if self.shape[d] != 1 {
                return None;
            }
        }
        // A new leading dimension of size 1 is given the stride of a dense outer dimension instead.
        for d in (0..lead).rev().filter(|&d| shape[d] == 1) {
            strides[d] =
                if d + 1 < shape.len() { strides[d + 1].wrapping_mul(shape[d + 1] as isize) } else { 1 };
        }
        Some(Layout { shape: shape.into(), strides, offset: self.offset })
    }

    pub fn permute(&self, order: &[usize]) -> Layout {
        Layout {
            shape: order.iter().map(|&d| self.shape[d]).collect(),
            strides: order.iter().map(|&d| self.strides[d]).collect(),
            offset: self.offset,
        }
    }

    pub fn transpose(&self, a: usize, b: usize) -> Layout {
        let mut out = self.clone();
        if a != b {
            out.shape.swap(a, b);
            out.strides.swap(a, b);
        }
        out
    }

    /// The storage offset of index `index` of dimension `dim`. In an empty tensor this may lie outside any memory; it
    /// then saturates.
    #[inline]
    fn offset_of(&self, dim: usize, index: usize) -> usize {
        let step = (index as isize).saturating_mul(self.strides[dim]);
        (self.offset as isize).saturating_add(step).max(0) as usize
    }

    /// `length` elements of dimension `dim` from `start`, `step` apart.
    pub fn slice(&self, dim: usize, start: usize, length: usize, step: usize) -> Layout {
        let mut out = self.clone();
        out.offset = self.offset_of(dim, start);
        out.shape[dim] = length;
        out.strides[dim] = self.strides[dim].saturating_mul(step as isize);
        out
    }

    /// Selects index `index` of dimension `dim` and removes that dimension.
    pub fn select(&self, dim: usize, index: usize) -> Layout {
        let mut out = Layout::default();
        for d in (0..self.rank()).filter(|&d| d != dim) {
            out.shape.push(self.shape[d]);
            out.strides.push(self.strides[d]);
        }
        out.offset = self.offset_of(dim, index);
        out
    }

    pub fn unsqueeze(&self, dim: usize) -> Layout {
        let mut out = self.clone();
        let stride =
            if dim < self.rank() { self.strides[dim].wrapping_mul(self.shape[dim] as isize) } else { 1 };
        out.shape.insert(dim, 1);
        out.strides.insert(dim, stride);
        out
    }

    /// Views the elements in another shape of the same size; None when only a copy can have that shape.
    pub fn reshape(&self, shape: &Dims) -> Option<Layout> {
        if self.is_contiguous() {
            return Some(Layout { offset: self.offset, ..Layout::contiguous(shape.clone()) });
        }
        // Walk both shapes from the last dimension. A run of old dimensions that is dense in itself may be split in
        // any way, but a new dimension must not straddle two runs.
        let mut strides = Strides::zeros(shape.len());
        let mut new = shape.len();
        let mut old = self.rank();
        while old > 0 {
            let step = self.strides[old - 1];
            let mut run = self.shape[old - 1];
            old -= 1;
            while old > 0
                && (self.shape[old - 1] == 1 || self.strides[old - 1] == step.wrapping_mul(run as isize))
            {
                run *= self.shape[old - 1];
                old -= 1;
            }
            let mut filled = 1;
            while new > 0 && (filled < run || shape[new - 1] == 1) {
                strides[new - 1] = step.wrapping_mul(filled as isize);
                filled *= shape[new - 1];
                new -= 1;
            }
            if filled != run {
                return None;
            }
        }
        Some(Layout { shape: shape.clone(), strides, offset: self.offset })
    }
}

/// The shape that operands of the given shapes broadcast to.
#[inline]
pub fn broadcast(op: &'static str, a: &Dims, b: &Dims) -> Result<Dims> {
    if a == b {
        return Ok(a.clone());
    }
    let rank = a.len().max(b.len());
    let mut out = Dims(SmallVec::from_elem(1, rank));
    for i in 1..=rank {
        let x = if i <= a.len() { a[a.len() - i] } else { 1 };
        let y = if i <= b.len() { b[b.len() - i] } else { 1 };
        out[rank - i] = match (x, y) {
            (x, y) if x == y => x,
            (1, y) => y,
            (x, 1) => x,
            _ => {
                bail!(Error::Broadcast {
                    op,
                    a: x,
                    b: y,
                    dim: rank - i,
                    shapes: Box::new((a.clone(), b.clone()))
                })
            }
        };
    }
    checked_numel(&out)?;
    Ok(out)
}

/// Resolves a single -1 of a requested shape, as `view` and `reshape` do.
pub fn infer_shape(wanted: &[i64], numel: usize) -> Result<Dims> {
    let invalid = || Error::InvalidShape { wanted: format!("{wanted:?}"), numel };
    let mut unknown = None;
    let mut known = 1usize;
    for (d, &n) in wanted.iter().enumerate() {
        if n == -1 {
            ensure!(unknown.is_none(), Runtime, "only one dimension can be inferred");
            unknown = Some(d);
        } else {
            ensure!(n >= 0, Runtime, "invalid shape dimension {n} at index {d} of shape {wanted:?}");
            known = known.checked_mul(n as usize).ok_or_else(invalid)?;
        }
    }
    let mut shape: Dims = wanted.iter().map(|&n| n.max(0) as usize).collect();
    if known == 0 {
        checked_numel(&shape)?;
    }
    if let Some(d) = unknown {
        if known == 0 {
            ensure!(
                numel != 0,
                Runtime,
                "cannot reshape tensor of 0 elements into shape {wanted:?} because the unspecified dimension size \
                 -1 can be any value and is ambiguous"
            );
            bail!(invalid());
        }
        ensure!(numel.is_multiple_of(known), invalid());
        shape[d] = numel / known;
    } else {
        ensure!(known == numel, invalid());
    }
    Ok(shape)
}

/// Iterates over several operands at once, in row-major order.
///
/// All layouts have the shape `shape`; `strides[k]` are operand k's. Calls `f` with the offsets of the operands.
pub struct Odometer<const K: usize> {
    shape: SmallVec<[usize; 6]>,
    strides: [SmallVec<[isize; 6]>; K],
    index: SmallVec<[usize; 6]>,
    pub offsets: [isize; K],
}

impl<const K: usize> Odometer<K> {
    /// Starts at linear position `at` of `shape`.
    pub fn new(shape: &[usize], strides: [&[isize]; K], base: [isize; K], at: usize) -> Self {
        let rank = shape.len();
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, rank);
        let mut rest = at;
        let mut offsets = base;
        for d in (0..rank).rev() {
            index[d] = rest % shape[d].max(1);
            rest /= shape[d].max(1);
            for k in 0..K {
                offsets[k] += index[d] as isize * strides[k][d];
            }
        }
        Odometer {
            shape: SmallVec::from_slice(shape),
            strides: strides.map(SmallVec::from_slice),
            index,
            offsets,
        }
    }

    /// Sets the position to linear position `at`.
    pub fn seek(&mut self, at: usize) {
        let (shape, index) = (&*self.shape, &mut *self.index);
        let mut rest = at;
        for d in (0..shape.len()).rev() {
            let to = rest % shape[d].max(1);
            rest /= shape[d].max(1);
            for (offset, strides) in self.offsets.iter_mut().zip(&self.strides) {
                *offset += (**strides)[d] * (to as isize - index[d] as isize);
            }
            index[d] = to;
        }
    }

    /// Steps to the next position in row-major order; wraps at the end.
    #[inline]
    pub fn step(&mut self) {
        self.step_in(self.shape.len());
    }

    /// As `step`, in the first `rank` dimensions.
    #[inline]
    fn step_in(&mut self, rank: usize) {
        let (shape, index) = (&*self.shape, &mut *self.index);
        for d in (0..rank).rev() {
            index[d] += 1;
            for (offset, strides) in self.offsets.iter_mut().zip(&self.strides) {
                *offset += (**strides)[d];
            }
            if index[d] < shape[d] {
                return;
            }
            for (offset, strides) in self.offsets.iter_mut().zip(&self.strides) {
                *offset -= (**strides)[d] * shape[d] as isize;
            }
            index[d] = 0;
        }
    }

    /// Position within the last dimension.
    #[inline]
    pub fn last(&self) -> usize {
        *self.index.last().unwrap_or(&0)
    }

    /// Advances `n` positions along the last dimension, at most to its end.
    #[inline]
    pub fn advance(&mut self, n: usize) {
        let Some(d) = self.shape.len().checked_sub(1) else { return };
        if n == 0 {
            return;
        }
        self.index.as_mut_slice()[d] += n - 1;
        for (offset, strides) in self.offsets.iter_mut().zip(&self.strides) {
            *offset += (**strides)[d] * (n as isize - 1);
        }
        self.step();
    }

    /// The whole positions of the dimension `back` before the last from this one on to its end; none within one.
    #[inline]
    pub fn whole_left(&self, back: usize) -> usize {
        let Some(d) = self.shape.len().checked_sub(back + 1) else { return 0 };
        let is_first = self.index[d + 1..].iter().all(|&i| i == 0);
        if is_first { self.shape[d] - self.index[d] } else { 0 }
    }

    /// The size of the dimension `back` before the last; 1 without one.
    #[inline]
    pub fn size(&self, back: usize) -> usize {
        self.shape.len().checked_sub(back + 1).map_or(1, |d| self.shape[d])
    }

    /// The stride of operand `k` in the dimension `back` before the last; 0 without one.
    #[inline]
    pub fn stride(&self, back: usize, k: usize) -> isize {
        self.shape.len().checked_sub(back + 1).map_or(0, |d| self.strides[k][d])
    }

    /// Advances `n` whole positions of the dimension `back` before the last, at most to its end.
    #[inline]
    pub fn advance_whole(&mut self, back: usize, n: usize) {
        let Some(d) = self.shape.len().checked_sub(back + 1).filter(|_| n > 0) else { return };
        self.index[d] += n - 1;
        for (offset, strides) in self.offsets.iter_mut().zip(&self.strides) {
            *offset += strides[d] * (n as isize - 1);
        }
        self.step_in(d + 1);
    }
}

/// A shape, and for each operand its strides.
pub type Walked = (SmallVec<[usize; 6]>, SmallVec<[SmallVec<[isize; 6]>; 8]>);

/// As [`collapse`], for any number of operands.
pub fn collapse_all(shape: &[usize], strides: &[&[isize]]) -> Walked {
    let mut out_shape: SmallVec<[usize; 6]> = SmallVec::new();
    let mut out: SmallVec<[SmallVec<[isize; 6]>; 8]> = strides.iter().map(|_| SmallVec::new()).collect();
    for d in (0..shape.len()).filter(|&d| shape[d] != 1) {
        let walks_on = |(out, s): (&SmallVec<[isize; 6]>, &&[isize])| {
            out.last().is_some_and(|last| *last == s[d] * shape[d] as isize)
        };
        match out_shape.last_mut() {
            Some(last) if out.iter().zip(strides).all(walks_on) => {
                *last *= shape[d];
                for (out, s) in out.iter_mut().zip(strides) {
                    out.pop();
                    out.push(s[d]);
                }
            }
            _ => {
                out_shape.push(shape[d]);
                out.iter_mut().zip(strides).for_each(|(out, s)| out.push(s[d]));
            }
        }
    }
    (out_shape, out)
}

/// Merges adjacent dimensions that are contiguous in every operand, and drops dimensions of size 1.
pub fn collapse<const K: usize>(
    shape: &[usize],
    strides: [&[isize]; K],
) -> (SmallVec<[usize; 6]>, [SmallVec<[isize; 6]>; K]) {
    let mut out_shape: SmallVec<[usize; 6]> = SmallVec::new();
    let mut out: [SmallVec<[isize; 6]>; K] = std::array::from_fn(|_| SmallVec::new());
    for d in 0..shape.len() {
        if shape[d] == 1 {
            continue;
        }
        let mergeable = !out_shape.is_empty()
            && (0..K).all(|k| out[k][out_shape.len() - 1] == strides[k][d].wrapping_mul(shape[d] as isize));
        if mergeable {
            let last = out_shape.len() - 1;
            out_shape[last] *= shape[d];
            for k in 0..K {
                out[k][last] = strides[k][d];
            }
        } else {
            out_shape.push(shape[d]);
            for k in 0..K {
                out[k].push(strides[k][d]);
            }
        }
    }
    (out_shape, out)
}
