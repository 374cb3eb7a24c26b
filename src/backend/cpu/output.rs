//! Memory that a kernel writes.
//!
//! Note [Outputs] The memory that a kernel writes may be shared with other tensors, so it must not be a `&mut [T]` of
//! a whole storage. A kernel claims only the elements of one view, which are checked at that moment: on the host, of
//! this dtype, within the storage, not read-only. There are two kinds of claims:
//! - [`Output`]: a dense view. It is accessed as one `&mut [T]`, which [`super::parallel`] splits by position among workers.
//!   No element in this range belongs to another tensor.
//! - [`Cells`]: any view. Elements are written one by one or in runs through a pointer, without ever creating a reference
//!   to them, because elements of other tensors may be in between, which other threads may write at the same time. It is
//!   shared by the workers of one kernel, each of which writes the elements at its own positions.
//!
//! While a claim is alive, its thread cannot claim any of these elements again: a second attempt is an error. So safe
//! code on one thread cannot obtain two references to one element. Drivers must read inputs that overlap an output
//! through blocks. Two threads that write one tensor at the same time race: see Note [Tensor data and aliasing].
#![allow(unsafe_code)]

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;

use bytemuck::Pod;

use crate::backend::View;
use crate::dtype::{DType, Element};
use crate::ensure;
use crate::error::{Error, Result};
use crate::storage::Storage;

/// Maximum number of simultaneous claims; no group of operations has that many outputs.
const CLAIMS: usize = 64;

/// Maximum number of views of [`with_parts`].
const PARTS: usize = 12;

/// The address ranges claimed by this thread: the first `count` entries.
struct Claims {
    count: Cell<usize>,
    taken: [Cell<(usize, usize)>; CLAIMS],
}

thread_local! {
    static TAKEN: Claims = const { Claims { count: Cell::new(0), taken: [const { Cell::new((0, 0)) }; CLAIMS] } };
}

/// The claims of this thread, found once. The pointer is not Send.
#[derive(Clone, Copy)]
struct OfThread(NonNull<Claims>);

impl OfThread {
    #[inline(always)]
    fn find() -> OfThread {
        OfThread(TAKEN.with(|claims| NonNull::from(claims)))
    }
}

impl Deref for OfThread {
    type Target = Claims;

    #[inline(always)]
    fn deref(&self) -> &Claims {
        // SAFETY: a thread-local variable without a destructor lives as long as its thread, which this value does not
        // leave.
        unsafe { self.0.as_ref() }
    }
}

/// A claim of an address range, released on drop, on the thread that made it.
struct Claim {
    start: usize,
    claims: OfThread,
}

impl Claims {
    /// Whether none of these bytes is claimed.
    #[inline]
    fn are_free(&self, bytes: &Range<usize>) -> bool {
        let meets = |c: &Cell<(usize, usize)>| c.get().0 < bytes.end && bytes.start < c.get().1;
        !self.taken[..self.count.get()].iter().any(meets)
    }

    /// Claims an address range. An empty range overlaps nothing, but gets an entry for [`Claims::release`] to remove.
    #[inline]
    fn take(&self, bytes: Range<usize>) -> Result<()> {
        let n = self.count.get();
        if n == CLAIMS || !self.are_free(&bytes) {
            return Err(taken_twice());
        }
        self.taken[n].set((bytes.start, bytes.end));
        self.count.set(n + 1);
        Ok(())
    }

    /// Releases the claim that begins at `start`.
    #[inline]
    fn release(&self, start: usize) {
        let last = self.count.get().saturating_sub(1);
        // Claims mostly end in reverse order.
        if self.taken[last].get().0 != start {
            let Some(i) = self.taken[..last].iter().rposition(|c| c.get().0 == start) else { return };
            self.taken[i].set(self.taken[last].get());
        }
        self.count.set(last);
    }
}

impl Claim {
    #[inline]
    fn new(bytes: Range<usize>) -> Result<Claim> {
        let (start, claims) = (bytes.start, OfThread::find());
        claims.take(bytes)?;
        Ok(Claim { start, claims })
    }
}

impl Drop for Claim {
    #[inline(never)]
    fn drop(&mut self) {
        self.claims.release(self.start);
    }
}

#[cold]
fn taken_twice() -> Error {
    Error::Runtime(
        "unsupported operation: several outputs of one operation refer to the same memory location. Please clone() the \
         tensors before performing the operation."
            .into(),
    )
}

/// The checks common to all outputs. For device memory the bounds check fails later, since the host cannot address any
/// of it.
#[inline]
fn check(v: &View, dtype: DType) -> Result<()> {
    if v.dtype.size() != dtype.size() || v.storage.is_readonly() {
        return Err(refused(v, dtype));
    }
    Ok(())
}

#[cold]
fn read_only() -> Error {
    Error::Runtime("the memory of this tensor is read-only and cannot be written in place".into())
}

#[cold]
fn refused(v: &View, dtype: DType) -> Error {
    if v.storage.is_readonly() {
        return read_only();
    }
    let (expected, found) = (dtype.scalar_name(), v.dtype.scalar_name());
    Error::Runtime(format!("expected scalar type {expected} but found {found}"))
}

#[cold]
fn misaligned() -> Error {
    Error::Runtime(
        "the memory of this tensor is not aligned to the size of its elements. Please clone() the tensor before \
         performing the operation."
            .into(),
    )
}

#[cold]
fn beyond_storage(v: &View) -> Error {
    let beyond = || Error::Runtime("a tensor has elements beyond the end of its storage".into());
    v.on_host().and_then(|_| v.storage.expect_memory()).err().unwrap_or_else(beyond)
}

/// The writable elements of a dense view. See Note [Outputs].
pub struct Output<'a, T> {
    first: *mut T,
    len: usize,
    _claim: Claim,
    memory: PhantomData<&'a Storage>,
}

impl<'a, T: Element> Output<'a, T> {
    /// All elements of a dense view, as its dtype or another type of the same size. The offset of an empty view may be
    /// beyond the end of its memory.
    ///
    /// # Errors
    /// `RuntimeError` if the memory is read-only, misaligned, too short, or already claimed.
    #[inline]
    pub fn of(v: View<'a>) -> Result<Self> {
        debug_assert!(v.layout.is_contiguous());
        Output::part(v, 0..v.layout.numel())
    }

    /// The elements at a range of positions of a dense view: the part of one worker.
    ///
    /// # Errors
    /// As for [`Output::of`].
    #[inline]
    pub fn part(v: View<'a>, range: Range<usize>) -> Result<Self> {
        let len = range.len();
        let (first, claim) = claim_dense(&v, range, T::DTYPE)?;
        Ok(Output { first: first.cast(), len, _claim: claim, memory: PhantomData })
    }
}

/// [`Output::part`] without the element type, so that there is one copy for all kernels.
#[inline(never)]
fn claim_dense(v: &View, range: Range<usize>, dtype: DType) -> Result<(*mut u8, Claim)> {
    let len = range.len() * dtype.size();
    let first = first_of(v, range, dtype)?;
    Ok((first, Claim::new(bytes_of(first, len))?))
}

/// A pointer to the first element of a range of positions of a dense view, which is checked to be writable and aligned.
#[inline]
fn first_of(v: &View, range: Range<usize>, dtype: DType) -> Result<*mut u8> {
    check(v, dtype)?;
    if range.is_empty() {
        return Ok(std::ptr::without_provenance_mut(dtype.size()));
    }
    ensure!(v.storage.is_aligned(dtype.size()), misaligned());
    let (start, end) = (v.layout.offset.wrapping_add(range.start), v.layout.offset.checked_add(range.end));
    ensure!(end.is_some_and(|end| end <= v.storage.host_len() / dtype.size()), beyond_storage(v));
    Ok(v.storage.data_ptr().wrapping_add(start * dtype.size()))
}

/// The address range of `len` bytes.
#[inline]
fn bytes_of(first: *mut u8, len: usize) -> Range<usize> {
    first as usize..first as usize + len
}

/// Calls `f` with the elements at a range of positions of each of several dense views: one worker's part of the
/// tensors of a parameter. Claiming an [`Output`] for each separately would cost small tensors more than their
/// arithmetic.
///
/// # Errors
/// As for [`Output::of`].
pub fn with_parts<T: Element>(
    views: &[View],
    range: &Range<usize>,
    f: impl FnOnce(&mut [&mut [T]]),
) -> Result<()> {
    /// Releases the claims on the parts, even if `f` panics.
    struct Taken<'a>(&'a Claims, [usize; PARTS], usize);
    impl Drop for Taken<'_> {
        fn drop(&mut self) {
            self.1[..self.2].iter().rev().for_each(|start| self.0.release(*start));
        }
    }
    ensure!(views.len() <= PARTS, taken_twice());
    TAKEN.with(|claims| {
        let mut taken = Taken(claims, [0; PARTS], 0);
        let mut parts: [&mut [T]; PARTS] = Default::default();
        for (k, v) in views.iter().enumerate() {
            let first = first_of(v, range.clone(), T::DTYPE)?;
            claims.take(bytes_of(first, size_of::<T>() * range.len()))?;
            (taken.1[k], taken.2) = (first as usize, k + 1);
            // SAFETY: `first_of` has checked that these elements are within the borrowed storage and aligned; every
            // bit pattern is a T. While they are claimed, no other part and nothing else on this thread has them, and
            // the slices end with the call of `f`, before the claims.
            parts[k] = unsafe { std::slice::from_raw_parts_mut(first.cast(), range.len()) };
        }
        f(&mut parts[..views.len()]);
        Ok(())
    })
}

/// Writes the element of a single-element view, which may be misaligned.
///
/// # Errors
/// `RuntimeError` if the memory is read-only, too short, or already claimed.
#[inline]
pub fn write_one<T: Element>(v: View, value: T) -> Result<()> {
    check(&v, T::DTYPE)?;
    let at = v.layout.offset;
    ensure!(at < v.storage.host_len() / size_of::<T>(), beyond_storage(&v));
    let element = v.storage.data_ptr().cast::<T>().wrapping_add(at);
    ensure!(TAKEN.with(|claims| claims.are_free(&bytes_of(element.cast(), size_of::<T>()))), taken_twice());
    // SAFETY: the element is within the borrowed storage, and nothing on this thread has a reference to it.
    unsafe { element.write_unaligned(value) };
    Ok(())
}

impl<T: Element> Deref for Output<'_, T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: as below.
        unsafe { std::slice::from_raw_parts(self.first, self.len) }
    }
}

impl<T: Element> DerefMut for Output<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: `part` has checked that these elements are within the borrowed storage and aligned; every bit
        // pattern is a T. While the claim is alive, nothing else on this thread claims them, and `self` is borrowed
        // exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.first, self.len) }
    }
}

/// The elements of any view, for writing one by one or in runs. See Note [Outputs].
///
/// Elements are identified by their position in the storage, as in [`crate::layout::Odometer`]. They may be
/// misaligned.
pub struct Cells<'a> {
    data: *mut u8,
    /// The range from the lowest to the highest element of the view.
    lo: usize,
    len: usize,
    size: usize,
    _claim: Claim,
    memory: PhantomData<&'a Storage>,
}

// SAFETY: shared by the workers of a kernel, each of which writes different elements, and no references to them are
// created. The claim is released only on drop, on the thread that made it, since this type is not Send.
unsafe impl Sync for Cells<'_> {}

impl<'a> Cells<'a> {
    /// # Errors
    /// `RuntimeError` if the memory is read-only, too short, or already claimed.
    pub fn of(v: View<'a>) -> Result<Self> {
        Cells::between(v, v.layout.extent())
    }

    /// The elements from a lowest to a highest one.
    fn between(v: View<'a>, extent: Option<(isize, isize)>) -> Result<Self> {
        let size = v.dtype.size();
        ensure!(!v.storage.is_readonly(), read_only());
        let data = v.storage.data_ptr();
        let Some((lo, hi)) = extent else {
            return Ok(Cells { data, lo: 0, len: 0, size, _claim: Claim::new(0..0)?, memory: PhantomData });
        };
        let inside = lo >= 0 && (hi as usize) < v.storage.host_len() / size;
        ensure!(inside, beyond_storage(&v));
        let (lo, len) = (lo as usize, (hi - lo) as usize + 1);
        let start = data as usize + lo * size;
        let claim = Claim::new(start..start + len * size)?;
        Ok(Cells { data, lo, len, size, _claim: claim, memory: PhantomData })
    }

    /// All elements of the storage of a view, as the type of its elements.
    ///
    /// # Errors
    /// As for [`Cells::of`].
    pub fn whole(v: View<'a>) -> Result<Self> {
        let count = (v.storage.host_len() / v.dtype.size()) as isize;
        Cells::between(v, (count > 0).then_some((0, count - 1)))
    }

    /// A pointer to `n` elements from `at` on.
    ///
    /// # Panics
    /// If they are not within the view, or their size differs from `T`.
    #[inline(always)]
    fn place<T: Element>(&self, at: usize, n: usize) -> *mut T {
        let from = at.wrapping_sub(self.lo);
        assert!(from <= self.len && n <= self.len - from && size_of::<T>() == self.size, "not an element");
        // In bounds by the assertion.
        self.data.wrapping_add(at * size_of::<T>()).cast()
    }

    /// `rows` runs of `n` elements, the first at `at` and each `stride` elements after the one before; None if some are not
    /// within the view, misaligned or of another size, or if runs overlap.
    pub fn rows<T: Pod>(&self, at: usize, stride: usize, rows: usize, n: usize) -> Option<Rows<'_, T>> {
        let len = stride.checked_mul(rows.checked_sub(1)?)?.checked_add(n)?;
        let from = at.checked_sub(self.lo)?;
        let fits = from.checked_add(len)? <= self.len && size_of::<T>() == self.size && stride >= n;
        let first = self.data.wrapping_add(at * self.size).cast::<T>();
        (fits && first.is_aligned()).then_some(Rows { first, stride, rows, n, cells: PhantomData })
    }

    #[inline(always)]
    pub fn set<T: Element>(&self, at: usize, value: T) {
        // SAFETY: `place` has checked that the element is within the borrowed storage.
        unsafe { self.place::<T>(at, 1).write_unaligned(value) }
    }

    /// Replaces an element by `f` of it.
    #[inline(always)]
    pub fn update<T: Element>(&self, at: usize, f: impl FnOnce(T) -> T) {
        let p = self.place::<T>(at, 1);
        // SAFETY: as for `set`; every bit pattern is a T.
        unsafe { p.write_unaligned(f(p.read_unaligned())) }
    }

    /// Replaces contiguous elements by `f` of each element and a value.
    #[inline(always)]
    pub fn update_run<T: Element>(&self, at: usize, values: &[T], f: impl Fn(T, T) -> T) {
        let p = self.place::<T>(at, values.len());
        for (i, &v) in values.iter().enumerate() {
            // SAFETY: as for `set`; every bit pattern is a T.
            unsafe { p.add(i).write_unaligned(f(p.add(i).read_unaligned(), v)) }
        }
    }

    /// Writes contiguous elements.
    #[inline(always)]
    pub fn write<T: Element>(&self, at: usize, values: &[T]) {
        let to = self.place::<T>(at, values.len()).cast::<u8>();
        // SAFETY: `place` has checked that the elements are within the borrowed storage. If `values` overlapped them,
        // which the drivers exclude, `copy` would still move them correctly.
        unsafe { std::ptr::copy(values.as_ptr().cast::<u8>(), to, size_of_val(values)) }
    }

    /// Writes elements that are `stride` elements after each other; the first is at `at`.
    #[inline]
    pub fn write_strided<T: Element>(&self, at: isize, stride: isize, values: &[T]) {
        if stride == 1 {
            return self.write(at as usize, values);
        }
        let Some(last) = values.len().checked_sub(1) else { return };
        let end = at + stride * last as isize;
        let low = self.place::<T>(at.min(end) as usize, at.abs_diff(end) + 1);
        let mut p = low.wrapping_offset(at - at.min(end));
        for v in values {
            // SAFETY: `place` has checked that all elements from the lowest to the highest are within the borrowed storage.
            unsafe { p.write_unaligned(*v) };
            p = p.wrapping_offset(stride);
        }
    }

    /// Fills `n` contiguous elements.
    #[inline(always)]
    pub fn fill<T: Element>(&self, at: usize, n: usize, value: T) {
        let p = self.place::<T>(at, n);
        for i in 0..n {
            // SAFETY: as for `set`.
            unsafe { p.add(i).write_unaligned(value) }
        }
    }
}

/// Runs of elements that are apart, for machine code to write. The pointer is valid for all of them while [`Cells`] are.
pub struct Rows<'a, T> {
    first: *mut T,
    stride: usize,
    rows: usize,
    n: usize,
    cells: PhantomData<&'a Cells<'a>>,
}

impl<T> Rows<'_, T> {
    /// The first element, and the elements from one run to the next, if there are so many runs of so many elements.
    pub fn pointer(&self, rows: usize, n: usize) -> Option<(*mut T, usize)> {
        (self.rows >= rows && self.n >= n).then_some((self.first, self.stride))
    }
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

    use super::*;
    use crate::layout::Layout;

    fn view<'a>(storage: &'a Storage, layout: &'a Layout) -> View<'a> {
        View { storage, layout, dtype: DType::F32 }
    }

    #[test]
    fn no_element_is_taken_twice_at_a_time() {
        let s = Storage::zeroed(64).unwrap();
        let whole = Layout::contiguous([16].into());
        let (first, last) = (whole.slice(0, 0, 8, 1), whole.slice(0, 8, 8, 1));
        let mut a = Output::<f32>::of(view(&s, &first)).unwrap();
        let mut b = Output::<f32>::of(view(&s, &last)).unwrap();
        a[7] = 1.0;
        b[0] = 2.0;
        assert!(Output::<f32>::of(view(&s, &whole)).is_err() && Cells::of(view(&s, &last)).is_err());
        drop(a);
        assert!(Output::<f32>::of(view(&s, &whole)).is_err());
        let cells = Cells::of(view(&s, &first)).unwrap();
        cells.set(0, 3.0f32);
        assert!(Output::<f32>::of(view(&s, &first)).is_err());
        drop((b, cells));
        let all = Output::<f32>::of(view(&s, &whole)).unwrap();
        assert_eq!((all[0], all[7], all[8]), (3.0, 1.0, 2.0));
    }

    #[test]
    fn a_claim_ends_with_its_output_whatever_the_order() {
        let s = Storage::zeroed(64).unwrap();
        let whole = Layout::contiguous([16].into());
        for _ in 0..2 * CLAIMS {
            let parts = (0..8).map(|i| Output::<f32>::part(view(&s, &whole), 2 * i..2 * i + 2).unwrap());
            let mut parts: Vec<_> = parts.collect();
            let empty = Output::<f32>::part(view(&s, &whole), 3..3).unwrap();
            drop(parts.remove(0));
            drop(parts.swap_remove(3));
            drop(empty);
            drop(parts);
            drop(Output::<f32>::of(view(&s, &whole)).unwrap());
        }
    }

    #[test]
    fn parts_of_several_tensors_are_taken_together_and_released_together() {
        let s = Storage::zeroed(64).unwrap();
        let whole = Layout::contiguous([16].into());
        let (first, last) = (whole.slice(0, 0, 8, 1), whole.slice(0, 8, 8, 1));
        let both = [view(&s, &first), view(&s, &last)];
        with_parts::<f32>(&both, &(2..4), |parts| {
            parts[0][0] = 1.0;
            parts[1][1] = 2.0;
            let [own, other] = [11, 12].map(|offset| Layout { offset, ..Layout::default() });
            assert!(
                Output::<f32>::part(both[0], 3..5).is_err() && Output::<f32>::part(both[0], 4..5).is_ok()
            );
            assert!(write_one(view(&s, &own), 3f32).is_err() && write_one(view(&s, &other), 3f32).is_ok());
        })
        .unwrap();
        let overlapping = [both[0], view(&s, &whole)];
        assert!(with_parts::<f32>(&overlapping, &(2..4), |_| panic!("both have the element")).is_err());
        let panicked = std::panic::catch_unwind(AssertUnwindSafe(|| {
            with_parts::<f32>(&both, &(0..8), |_| panic!("in a kernel"))
        }));
        assert!(panicked.is_err());
        let all = Output::<f32>::of(view(&s, &whole)).unwrap();
        assert_eq!((all[2], all[11], all[12]), (1.0, 2.0, 3.0));
    }

    #[test]
    fn memory_that_cannot_be_written_is_refused() {
        let owner = [0u64; 4];
        let start = owner.as_ptr() as *mut u8;
        let flat = Layout::contiguous([4].into());
        // SAFETY: the vector outlives the storage, and nothing is written.
        let readonly = unsafe { Storage::borrowed(start, 32, true, Box::new(())) }.unwrap();
        assert!(
            Output::<f32>::of(view(&readonly, &flat)).is_err() && Cells::of(view(&readonly, &flat)).is_err()
        );
        let s = Storage::zeroed(15).unwrap();
        assert!(Output::<f32>::of(view(&s, &flat)).is_err() && Cells::of(view(&s, &flat)).is_err());
        let s = Storage::zeroed(16).unwrap();
        assert!(Output::<f32>::of(view(&s, &flat)).is_ok() && Output::<f64>::of(view(&s, &flat)).is_err());
        let beyond = Layout { offset: usize::MAX, ..flat.clone() };
        assert!(Output::<f32>::of(view(&s, &beyond)).is_err() && Cells::of(view(&s, &beyond)).is_err());
        let device = Storage::on_device(crate::Device::Gpu(0), 16, Box::new(())).unwrap();
        assert!(Output::<f32>::of(view(&device, &flat)).is_err() && Cells::of(view(&device, &flat)).is_err());
    }

    #[test]
    fn misaligned_memory_is_written_by_bytes_and_never_lent() {
        let mut owner = vec![0u64; 4];
        let start = owner.as_mut_ptr().cast::<u8>();
        let flat = Layout::contiguous([4].into());
        // SAFETY: 17 of the 32 bytes of the vector, which outlives the storage and is not accessed meanwhile.
        let s = unsafe { Storage::borrowed(start.wrapping_add(1), 17, false, Box::new(())) }.unwrap();
        assert!(Output::<f32>::of(view(&s, &flat)).is_err() && s.slice::<f32>().is_empty());
        let cells = Cells::of(view(&s, &flat)).unwrap();
        cells.write(0, &[1f32, 2.0, 3.0]);
        cells.update(1, |v: f32| v + 0.5);
        cells.fill(3, 1, 4f32);
        drop(cells);
        let values: Vec<f32> =
            s.slice::<u8>()[..16].chunks(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap())).collect();
        assert_eq!(values, [1.0, 2.5, 3.0, 4.0]);
    }

    #[test]
    #[should_panic(expected = "not an element")]
    fn cells_beyond_the_view_are_not_written() {
        let s = Storage::zeroed(64).unwrap();
        let part = Layout::contiguous([16].into()).slice(0, 4, 4, 1);
        Cells::of(view(&s, &part)).unwrap().set(8, 1f32);
    }
}
