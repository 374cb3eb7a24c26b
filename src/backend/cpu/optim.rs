//! Optimizer steps and gradient scaling for a whole model: one pass over memory, in one parallel region for all
//! tensors.
//!
//! Note [A region over many tensors]
//! A model has many small parameters, and one loop or operation per parameter would cost more in overhead than in
//! arithmetic. So the elements of all parameters are numbered consecutively, this range is split into chunks for the
//! threads, and the rule is called for each piece between chunk and tensor boundaries. Dense tensors of the compute
//! type are updated in place; other layouts and half types are read into blocks of float32 (or float64) and written
//! back.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;

use super::copy::{self, BLOCK, StridedCursor, View, Writer};
use super::output::{Cells, with_parts};
use super::parallel::{for_chunks_mut, parallel_for};
use super::simd::{Isa, IsaDispatch};
use crate::backend::optim::{Group, NUMBERS, Number, Numbers, Part, Rule, WRITTEN};
use crate::dtype::{DType, Element, Real, Scalar};
use crate::error::Result;
use crate::formula::Arith;
use crate::layout::Layout;
use crate::multiversion;
use crate::storage::Storage;

/// Elements per parallel chunk.
const GRAIN: usize = 1 << 14;

multiversion! { version = if R::WIDE { IsaDispatch::worth::<T>() } else { IsaDispatch::up_to(Isa::Avx2) };
    fn update_elements[R: Rule, T: Number](r: R, c: &[T; NUMBERS], g: &[T], written: &mut [&mut [T]]) {
        match written {
            [p] if R::WRITTEN == 1 => step_1(r, c, g, p),
            [p, a] if R::WRITTEN == 2 => step_2(r, c, g, p, a),
            [p, a, b] if R::WRITTEN == 3 => step_3(r, c, g, p, a, b),
            [p, a, b, d] if R::WRITTEN == 4 => step_4(r, c, g, p, a, b, d),
            [p, a, b, d, e] if R::WRITTEN == 5 => step_5(r, c, g, p, a, b, d, e),
            _ => {}
        }
    }
}

/// Element loops by the number of written tensors. Slices that are function arguments are `noalias`, so the loop is
/// vectorized without a run-time overlap check and without a scalar fallback.
macro_rules! step_loops {
    ($($name:ident: $($w:ident $k:literal)+;)*) => { $(
        #[inline(always)]
        fn $name<R: Rule, T: Number>(r: R, c: &[T; NUMBERS], g: &[T], $($w: &mut [T]),+) {
            let (c, n) = (*c, g.len());
            $(let $w = &mut $w[..n];)+
            for i in 0..n {
                let mut all = [<T as Arith>::zero(); WRITTEN];
                $(all[$k] = $w[i];)+
                let all = r.step(&c, g[i], all);
                $($w[i] = all[$k];)+
            }
        }
    )* };
}
step_loops! {
    step_1: p 0;
    step_2: p 0 a 1;
    step_3: p 0 a 1 b 2;
    step_4: p 0 a 1 b 2 d 3;
    step_5: p 0 a 1 b 2 d 3 e 4;
}

/// Applies a rule to corresponding elements of slices of equal length.
pub fn update<R: Rule, T: Number>(r: &R, numbers: &Numbers, g: &[T], written: &mut [&mut [T]]) {
    update_elements(*r, &numbers.map(T::of), g, written);
}

/// An update of corresponding elements of the tensors of part `i`.
trait Update: Sync {
    fn f32(&self, i: usize, g: &[f32], written: &mut [&mut [f32]]);
    fn f64(&self, i: usize, g: &[f64], written: &mut [&mut [f64]]);
}

/// The types in which elements are updated.
trait Updated: Real {
    fn update(u: &impl Update, i: usize, g: &[Self], written: &mut [&mut [Self]]);
}
impl Updated for f32 {
    fn update(u: &impl Update, i: usize, g: &[f32], written: &mut [&mut [f32]]) {
        u.f32(i, g, written);
    }
}
impl Updated for f64 {
    fn update(u: &impl Update, i: usize, g: &[f64], written: &mut [&mut [f64]]) {
        u.f64(i, g, written);
    }
}

/// Each part with its group.
struct Steps<'a, 'g, 'v>(Vec<(&'a Group<'g, 'v>, &'a Part<'v>)>);

impl Update for Steps<'_, '_, '_> {
    fn f32(&self, i: usize, g: &[f32], written: &mut [&mut [f32]]) {
        let group = self.0[i].0;
        group.rule.run_f32(&group.numbers, g, written);
    }
    fn f64(&self, i: usize, g: &[f64], written: &mut [&mut [f64]]) {
        let group = self.0[i].0;
        group.rule.run_f64(&group.numbers, g, written);
    }
}

pub fn step(groups: &[Group]) -> Result<()> {
    let steps = Steps(groups.iter().flat_map(|g| g.parts.iter().map(move |p| (g, p))).collect());
    // Gradients that overlap written memory are read from copies, stored with the number of the part in ascending
    // order.
    let mut copies: Vec<(usize, (Storage, Layout))> = Vec::new();
    for (i, (_, part)) in steps.0.iter().enumerate() {
        let gradient = part.gradient();
        if part.written().iter().any(|w| w.storage.overlaps(gradient.storage)) {
            copies.push((i, copied(gradient)?));
        }
    }
    let apart = || {
        let written = steps.0.iter().flat_map(|(_, p)| p.written().iter().copied());
        are_apart(written, steps.0.iter().map(|(_, p)| p.gradient()))
    };
    for_each_piece(steps.0.iter().map(|(_, p)| p.gradient().layout.numel()), apart, |i, range| {
        let part = steps.0[i].1;
        let mut gradient = part.gradient();
        if let Ok(at) = copies.binary_search_by_key(&i, |(part, _)| *part) {
            let (storage, layout) = &copies[at].1;
            gradient = View { storage, layout, ..gradient };
        }
        piece(&steps, i, range, Some(gradient), part.written())
    })
}

/// A copy of the elements of a view.
fn copied(v: View) -> Result<(Storage, Layout)> {
    let layout = Layout::contiguous(v.layout.shape.clone());
    let storage = Storage::new(layout.numel() * v.dtype.size())?;
    copy::copy(v, View { storage: &storage, layout: &layout, dtype: v.dtype })?;
    Ok((storage, layout))
}

/// Calls `f(i, range)` with ranges of the elements of tensor i which together cover all elements of all tensors; see
/// Note [A region over many tensors]. Tensors that are not `apart` are processed one after the other. Returns the error of
/// one of the failed calls.
fn for_each_piece(
    sizes: impl Iterator<Item = usize>,
    apart: impl FnOnce() -> bool,
    f: impl Fn(usize, Range<usize>) -> Result<()> + Sync,
) -> Result<()> {
    let (starts, failed) = (starts(sizes), OnceLock::new());
    let total = starts[starts.len() - 1];
    // One chunk is one thread's.
    let grain = if total > GRAIN && !apart() { total } else { GRAIN };
    parallel_for(total, grain, |r| {
        pieces(&starts, r, |i, range| f(i, range).unwrap_or_else(|e| drop(failed.set(e))));
    });
    failed.into_inner().map_or(Ok(()), Err)
}

/// Whether no written memory overlaps that of another view.
fn are_apart<'a>(
    written: impl IntoIterator<Item = View<'a>> + Clone,
    read: impl IntoIterator<Item = View<'a>> + Clone,
) -> bool {
    // Different storages of our own never overlap, and comparing them takes a fraction of the time.
    let views = || written.clone().into_iter().chain(read.clone());
    if !views().any(|v| v.storage.is_borrowed())
        && are_distinct(views().map(|v| v.storage.address()), views().count())
    {
        return true;
    }
    let range = |v: View, writes: bool| v.bytes().map(|b| (b.start, b.end, writes));
    let written = written.into_iter().filter_map(|v| range(v, true));
    let mut ranges: Vec<_> = written.chain(read.into_iter().filter_map(|v| range(v, false))).collect();
    ranges.sort_unstable();
    let (mut all, mut taken) = (isize::MIN, isize::MIN);
    ranges.into_iter().all(|(start, end, writes)| {
        let meets = start < if writes { all } else { taken };
        all = all.max(end);
        if writes {
            taken = taken.max(end);
        }
        !meets
    })
}

/// Whether `n` addresses, none of them 0, are distinct: a hash table with linear probing, half empty, in place of
/// sorting, which takes several times as long.
fn are_distinct(mut addresses: impl Iterator<Item = usize>, n: usize) -> bool {
    let bits = (2 * n.max(1)).next_power_of_two().trailing_zeros();
    let (mut table, mask) = (vec![0usize; 1 << bits], (1usize << bits) - 1);
    addresses.all(|address| {
        // Fibonacci hashing: the high bits of the product depend on all bits of the address.
        let hash = (address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - bits);
        let mut slot = hash as usize;
        while table[slot] != 0 && table[slot] != address {
            slot = (slot + 1) & mask;
        }
        std::mem::replace(&mut table[slot], address) == 0
    })
}

/// The number of the first element of each tensor, and the total.
fn starts(sizes: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut total = 0;
    let ends = sizes.map(|n| {
        total += n;
        total
    });
    std::iter::once(0).chain(ends).collect()
}

fn pieces(starts: &[usize], chunk: Range<usize>, mut f: impl FnMut(usize, Range<usize>)) {
    let mut i = starts.partition_point(|&s| s <= chunk.start) - 1;
    let mut at = chunk.start;
    while at < chunk.end {
        let end = starts[i + 1].min(chunk.end);
        if at < end {
            f(i, at - starts[i]..end - starts[i]);
        }
        at = end;
        i += 1;
    }
}

/// Updates the elements `range` of the tensors of part `i`, in the compute type of the first.
fn piece(
    u: &impl Update,
    i: usize,
    range: Range<usize>,
    gradient: Option<View>,
    written: &[View],
) -> Result<()> {
    match written[0].dtype {
        DType::F64 => piece_of::<f64>(u, i, range, gradient, written),
        _ => piece_of::<f32>(u, i, range, gradient, written),
    }
}

fn is_direct<T: Element>(v: &View) -> bool {
    v.layout.is_contiguous() && v.dtype == T::DTYPE && v.is_aligned()
}

fn piece_of<T: Updated>(
    u: &impl Update,
    i: usize,
    range: Range<usize>,
    gradient: Option<View>,
    written: &[View],
) -> Result<()> {
    if gradient.as_ref().is_none_or(is_direct::<T>) && written.iter().all(is_direct::<T>) {
        let at = |v: &View| v.layout.offset + range.start..v.layout.offset + range.end;
        let grad = gradient.as_ref().map_or(&[][..], |g| &g.storage.slice::<T>()[at(g)]);
        return with_parts(written, &range, |slices| T::update(u, i, grad, slices));
    }
    let cells: SmallVec<[Cells; WRITTEN]> = written.iter().map(|v| Cells::of(*v)).collect::<Result<_>>()?;
    let mut sources: SmallVec<[StridedCursor; WRITTEN]> =
        written.iter().map(|v| StridedCursor::new(*v, range.start)).collect();
    let mut targets: SmallVec<[Writer; WRITTEN]> =
        cells.iter().zip(written).map(|(c, v)| Writer::new(c, *v, range.start)).collect();
    let mut gradient = gradient.map(|g| (StridedCursor::new(g, range.start), [T::ZERO; BLOCK]));
    let mut blocks = vec![[T::ZERO; BLOCK]; written.len()];
    let mut left = range.len();
    while left > 0 {
        let n = left.min(BLOCK);
        let grad = gradient.as_mut().map_or(&[][..], |(reader, block)| {
            reader.read(&mut block[..n]);
            &block[..n]
        });
        blocks.iter_mut().zip(&mut sources).for_each(|(b, s)| s.read(&mut b[..n]));
        let mut slices: Vec<&mut [T]> = blocks.iter_mut().map(|b| &mut b[..n]).collect();
        T::update(u, i, grad, &mut slices);
        blocks.iter().zip(&mut targets).for_each(|(b, t)| t.write(&b[..n]));
        left -= n;
    }
    Ok(())
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    /// Multiplies; returns whether all elements were finite.
    fn scale_elements[T: Real](factor: T, x: &mut [T]) -> bool {
        let mut finite = true;
        for v in x {
            finite &= v.abs() < T::INFINITY;
            *v = *v * factor;
        }
        finite
    }
}

struct Scale {
    factor: f64,
    found: AtomicBool,
}

impl Scale {
    fn apply<T: Real>(&self, written: &mut [&mut [T]]) {
        for x in written {
            if !scale_elements(T::of(self.factor), x) {
                self.found.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl Update for Scale {
    fn f32(&self, _: usize, _: &[f32], written: &mut [&mut [f32]]) {
        self.apply(written);
    }
    fn f64(&self, _: usize, _: &[f64], written: &mut [&mut [f64]]) {
        self.apply(written);
    }
}

pub fn scale(tensors: &[View], factor: View, found: Option<View>) -> Result<()> {
    let mut number = [0.0f64];
    StridedCursor::new(factor, 0).read(&mut number);
    let scale = Scale { factor: number[0], found: AtomicBool::new(false) };
    let sizes = tensors.iter().map(|v| v.layout.numel());
    for_each_piece(
        sizes,
        || are_apart(tensors.iter().copied(), []),
        |i, range| piece(&scale, i, range, None, &tensors[i..=i]),
    )?;
    if let (true, Some(found)) = (scale.found.load(Ordering::Relaxed), found) {
        copy::fill(found, Scalar::Float(1.0))?;
    }
    Ok(())
}

const LANES: usize = 16;

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    fn sum_of[T: Real](order: f64, x: &[T]) -> f64 {
        let mut lanes = [0.0f64; LANES];
        let (blocks, rest) = x.as_chunks::<LANES>();
        let power = |v: T| {
            let v = v.to_f64();
            if order == 2.0 { v * v } else if order == 1.0 { v.abs() } else { v.abs().powf(order) }
        };
        for block in blocks {
            for (lane, &v) in lanes.iter_mut().zip(block) {
                *lane += power(v);
            }
        }
        for (lane, &v) in lanes.iter_mut().zip(rest) {
            *lane += power(v);
        }
        lanes.iter().sum()
    }
}

multiversion! { version = IsaDispatch::up_to(Isa::Avx2);
    /// The largest absolute value; NaN if there is one.
    fn greatest[T: Real](x: &[T]) -> f64 {
        let mut lanes = [T::ZERO; LANES];
        for block in x.chunks(LANES) {
            for (lane, &v) in lanes.iter_mut().zip(block) {
                let v = v.abs();
                *lane = if v <= *lane { *lane } else { v };
                // NaN is kept, since all comparisons with it are false.
                *lane = if v.is_nan() { v } else { *lane };
            }
        }
        lanes.iter().fold(0.0, |a, v| larger(a, v.to_f64()))
    }
}

/// The maximum, or NaN if either is NaN.
#[inline(always)]
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

fn magnitude<T: Real>(x: &[T], order: f64) -> f64 {
    if order == f64::INFINITY { greatest(x) } else { sum_of(order, x) }
}

/// The p-norm (positive p) over all elements of dense float32 or float64 tensors.
pub fn norm_of_all(order: f64, tensors: &[View]) -> f64 {
    let starts = starts(tensors.iter().map(|v| v.layout.numel()));
    let total = starts[tensors.len()];
    let combine = |a: f64, b: f64| if order == f64::INFINITY { larger(a, b) } else { a + b };
    let mut partial = vec![0.0; total.div_ceil(GRAIN)];
    for_chunks_mut(&mut partial, 1, |c, out| {
        pieces(&starts, c * GRAIN..total.min((c + 1) * GRAIN), |i, range| {
            let v = &tensors[i];
            let at = v.layout.offset + range.start..v.layout.offset + range.end;
            let of_piece = match v.dtype {
                DType::F64 => magnitude(&v.storage.slice::<f64>()[at], order),
                _ => magnitude(&v.storage.slice::<f32>()[at], order),
            };
            out[0] = combine(out[0], of_piece);
        });
    });
    let sum = partial.into_iter().fold(0.0, combine);
    match order {
        f64::INFINITY => sum,
        2.0 => sum.sqrt(),
        _ => sum.powf(1.0 / order),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::backend::cpu::parallel::set_num_threads;
    use crate::backend::optim::Step;
    use crate::formula::{Formula, record::record_all};

    /// Adds the gradient, and takes its time between reading and writing.
    struct Slow;

    impl Step for Slow {
        fn name(&self) -> &'static str {
            "slow"
        }
        fn written(&self) -> usize {
            1
        }
        fn formula(&self) -> Formula {
            record_all(1 + WRITTEN, NUMBERS, |a, _| vec![a[1] + a[0]])
        }
        fn run_f32(&self, _: &Numbers, g: &[f32], written: &mut [&mut [f32]]) {
            let read: Vec<f32> = written[0].iter().zip(g).map(|(p, g)| p + g).collect();
            std::thread::sleep(std::time::Duration::from_millis(20));
            written[0].copy_from_slice(&read);
        }
        fn run_f64(&self, _: &Numbers, _: &[f64], _: &mut [&mut [f64]]) {}
    }

    #[test]
    fn addresses_are_distinct_unless_one_is_repeated() {
        let addresses = |n: usize| (1..=n).map(|i| i * i * 64);
        for n in [0, 1, 2, 240, 1000] {
            assert!(are_distinct(addresses(n), n));
            assert!(n == 0 || !are_distinct(addresses(n).chain([64]), n + 1));
        }
    }

    #[test]
    fn what_is_listed_twice_is_updated_by_one_thread_after_the_other_update() {
        set_num_threads(2);
        let layout = Layout::contiguous([GRAIN].into());
        let (p, g) = (Storage::zeroed(4 * GRAIN).unwrap(), Storage::from_slice(&[1f32; GRAIN]).unwrap());
        let view = |storage| View { storage, layout: &layout, dtype: DType::F32 };
        let part = || Part::new(view(&g), [view(&p)].into_iter());
        let parts = [part(), part()];
        step(&[Group { rule: &Slow, numbers: [0.0; NUMBERS], parts: &parts }]).unwrap();
        assert!(p.slice::<f32>().iter().all(|&v| v == 2.0));
    }

    #[test]
    fn memory_that_is_only_read_may_be_shared() {
        let s = Storage::zeroed(64).unwrap();
        let whole = Layout::contiguous([16].into());
        let (low, high) = (whole.slice(0, 0, 8, 1), whole.slice(0, 8, 8, 1));
        let view = |layout| View { storage: &s, layout, dtype: DType::F32 };
        let (all, low, high) = (view(&whole), view(&low), view(&high));
        assert!(are_apart([low, high], []) && are_apart([low], [high, high]) && are_apart([], [all, low]));
        assert!(!are_apart([low, low], []) && !are_apart([high], [all]) && !are_apart([all], [high]));
    }

    #[test]
    fn pieces_cover_every_element_of_every_tensor_once() {
        let sizes = [0, 5, 20_000, 0, 1, 40_000, 0];
        let seen: Vec<Mutex<Vec<u8>>> = sizes.iter().map(|&n| Mutex::new(vec![0; n])).collect();
        for_each_piece(
            sizes.into_iter(),
            || true,
            |i, r| {
                seen[i].lock().unwrap()[r].iter_mut().for_each(|v| *v += 1);
                Ok(())
            },
        )
        .unwrap();
        assert!(seen.iter().all(|t| t.lock().unwrap().iter().all(|&v| v == 1)));
    }
}
