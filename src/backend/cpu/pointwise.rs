//! The driver of all pointwise kernels.
//!
//! A kernel is compiled only for contiguous slices of four types. All other operands go through blocks that fit in the
//! L1 cache: strided operands are gathered, half types and small integers widened, mixed dtypes cast, numbers and
//! broadcast rows repeated; a result of another dtype or layout is scattered from a block. Operands with long
//! contiguous runs are used in place run by run; transposed operands are transposed band by band.

mod bytewise;
mod operand;

use std::ops::Range;

use bytemuck::Zeroable;
use bytewise::Bytewise;
use half::{bf16, f16};
pub(super) use operand::{OperandAccess, OperandCursor};
use operand::{beside_one, dense, stand_ins};

use super::copy::{BLOCK, GRAIN, View, Writer, cast_run};
use super::output::{Cells, Output};
use super::parallel::{for_ranges_mut, parallel_for};
use crate::backend::checked;
use crate::backend::pointwise::{Byte, GROUP, Kernel, Loop, Operand, Whole};
use crate::dtype::{Bool8, DType, Element, Scalar};
use crate::error::Result;
use crate::formula::{ARGS, Int, PARAMS};
use crate::storage::Storage;

impl<T: Copy, O: Copy + Zeroable> Loop<T, O> {
    /// Evaluates all of `out`; the inputs have the same length.
    #[inline]
    pub(super) fn run(self, ins: &[&[T]], params: &[T], out: &mut [O]) {
        let whole = out.len() - out.len() % GROUP;
        if whole > 0 {
            (self.whole)(ins, params, out);
        }
        if whole < out.len() {
            self.run_rest(ins, params, &mut out[whole..], whole);
        }
    }

    /// Evaluates the last elements as a full group, padded with the first of them, on which the formula is defined.
    #[inline(never)]
    fn run_rest(self, ins: &[&[T]], params: &[T], out: &mut [O], start: usize) {
        let mut groups = [[ins[0][start]; GROUP]; ARGS];
        for (group, x) in groups.iter_mut().zip(ins) {
            let rest = &x[start..start + out.len()];
            group[rest.len()..].fill(rest[0]);
            group.iter_mut().zip(rest).for_each(|(g, &v)| *g = v);
        }
        let views = groups.each_ref().map(|g| &g[..]);
        let mut result = [O::zeroed(); GROUP];
        (self.whole)(&views[..ins.len()], params, &mut result);
        out.copy_from_slice(&result[..out.len()]);
    }

    /// As [`Loop::run`], with the first operand in `out`; the last ones may be single elements.
    #[inline]
    fn run_in_place(self, in_place: Whole<T, O>, ins: &[&[T]], params: &[T], out: &mut [O])
    where
        T: bytemuck::Pod,
        O: bytemuck::Pod,
    {
        let whole = out.len() - out.len() % GROUP;
        if whole > 0 {
            in_place(ins, params, out);
        }
        if whole < out.len() {
            let rest = &mut out[whole..];
            let mut first = [T::zeroed(); GROUP];
            first[..rest.len()].copy_from_slice(bytemuck::cast_slice(rest));
            let mut views: [&[T]; ARGS] = [&[]; ARGS];
            views[0] = &first[..rest.len()];
            let mut repeated = [[T::zeroed(); GROUP]; ARGS];
            for ((view, group), x) in views.iter_mut().zip(&mut repeated).zip(ins).skip(1) {
                *view = match x {
                    [number] => {
                        group.fill(*number);
                        &group[..rest.len()]
                    }
                    _ => &x[whole..][..rest.len()],
                };
            }
            self.run_rest(&views[..ins.len()], params, rest, 0);
        }
    }

    /// As [`Loop::run`], with operands of single elements.
    #[inline]
    fn run_beside_one(self, column: Whole<T, O>, ins: &[&[T]], params: &[T], out: &mut [O]) {
        let whole = out.len() - out.len() % GROUP;
        if whole > 0 {
            column(ins, params, out);
        }
        if whole < out.len() {
            let rest = out.len() - whole;
            let mut groups = [[ins[0][0]; GROUP]; ARGS];
            for (group, x) in groups.iter_mut().zip(ins) {
                match x {
                    [number] => group.fill(*number),
                    _ => {
                        group.fill(x[whole]);
                        group[..rest].copy_from_slice(&x[whole..][..rest]);
                    }
                }
            }
            let views = groups.each_ref().map(|g| &g[..rest]);
            self.run_rest(&views[..ins.len()], params, &mut out[whole..], 0);
        }
    }
}

/// A type that kernels are compiled for, and its element type in memory.
pub trait Lane: bytemuck::Pod + Send + Sync {
    type Stored: Element;
    fn number(s: Scalar) -> Self;
}

macro_rules! lane {
    ($($t:ty, $s:ty, $wrap:expr;)*) => { $(impl Lane for $t {
        type Stored = $s;
        #[inline(always)]
        fn number(s: Scalar) -> Self { $wrap(<$s>::from_scalar(s)) }
    })* };
}
lane! { f32, f32, |v| v; f64, f64, |v| v; Int<u8>, u8, Int; Int<i32>, i32, Int; Int<i64>, i64, Int; }

/// Runs a kernel that computes in `compute`; returns false if it was not compiled for that type.
///
/// # Errors
/// `RuntimeError` when the output is read-only.
pub fn run(
    kernel: Kernel,
    compute: DType,
    operands: &[Operand],
    params: &[Scalar],
    out: View,
) -> Result<bool> {
    macro_rules! go {
        ($l:expr, $t:ty, $o:ty) => {
            match $l {
                Some(l) => drive::<$t, $o>(l, operands, params, out).map(|()| true),
                None => Ok(false),
            }
        };
    }
    match (kernel, compute) {
        (Kernel::Same { f32: l, .. }, DType::F32) => go!(l, f32, f32),
        (Kernel::Same { f64: l, .. }, DType::F64) => go!(l, f64, f64),
        (Kernel::Same { bytes: Some(bytes), .. }, DType::I32)
            if let Some(bytewise) = Bytewise::of(bytes.on, operands)
                && out.dtype == bytewise.dtype =>
        {
            let out = View { dtype: DType::U8, ..out };
            drive::<Byte, u8>(bytes.run, &bytewise.operands[..operands.len()], &bytewise.limits, out)
                .map(|()| true)
        }
        (Kernel::Truth { bytes: Some(bytes), .. }, DType::I32)
            if let Some(bytewise) = Bytewise::of(bytes.on, operands) =>
        {
            drive::<Byte, Bool8>(bytes.run, &bytewise.operands[..operands.len()], &bytewise.limits, out)
                .map(|()| true)
        }
        (Kernel::Same { i32: l, .. }, DType::I32) => go!(l, Int<i32>, i32),
        (Kernel::Same { i64: l, .. }, DType::I64) => go!(l, Int<i64>, i64),
        (Kernel::Truth { f32: l, .. }, DType::F32) => go!(l, f32, Bool8),
        (Kernel::Truth { f64: l, .. }, DType::F64) => go!(l, f64, Bool8),
        (Kernel::Truth { i32: l, .. }, DType::I32) => go!(l, Int<i32>, Bool8),
        (Kernel::Truth { i64: l, .. }, DType::I64) => go!(l, Int<i64>, Bool8),
        _ => Ok(false),
    }
}

/// The output type of a kernel, with the element type it is stored as.
trait Written<E: Element>: bytemuck::Pod {}
impl Written<f32> for f32 {}
impl Written<f64> for f64 {}
impl Written<u8> for Int<u8> {}
impl Written<i32> for Int<i32> {}
impl Written<i64> for Int<i64> {}
impl Written<Bool8> for Bool8 {}

fn drive<T: Lane, E: Element>(
    l: Loop<T, impl Written<E>>,
    operands: &[Operand],
    params: &[Scalar],
    out: View,
) -> Result<()> {
    let n = out.layout.numel();
    if n == 0 {
        return Ok(());
    }
    let params = numbers::<T>(params);
    let params = &params.0[..params.1];
    let direct_out = out.dtype == E::DTYPE && out.layout.is_contiguous() && out.is_aligned();
    if n <= SMALL_NUMEL && direct_out && drive_small(l, operands, params, out, n)? {
        return Ok(());
    }
    let mut sources: [OperandAccess; ARGS] =
        std::array::from_fn(|k| OperandAccess::of::<T>(operands.get(k), out).repeated(out));
    let count = operands.len();
    let in_place = l.lean.in_place.filter(|_| direct_out && is_first_written(operands, out));
    if in_place.is_some() {
        // The loop reads it in the result.
        sources[0] = OperandAccess::Unread;
    }
    if direct_out && sources.iter().all(|s| matches!(s, OperandAccess::Direct(_) | OperandAccess::Unread)) {
        let shown = stand_ins(&sources, count);
        for_ranges_mut(&mut Output::<E>::of(out)?, GRAIN, |range, dst| {
            let ins: [&[T]; ARGS] = std::array::from_fn(|k| match &sources[shown[k]] {
                OperandAccess::Direct(v) => dense::<T>(v, range.start, range.len()),
                _ => &[],
            });
            let dst = bytemuck::cast_slice_mut(dst);
            match in_place {
                Some(in_place) => l.run_in_place(in_place, &ins[..count], params, dst),
                None => l.run(&ins[..count], params, dst),
            }
        });
        return Ok(());
    }
    let grain = OperandAccess::grain(&sources, GRAIN);
    let sources = OperandAccesses { of: &sources, count, first_written: in_place.is_some() };
    let block_of = |range: &Range<usize>| vec![E::from_i64(0); range.len().min(BLOCK)];
    macro_rules! rounded {
        ($half:ty, $kind:ident) => {
            for_ranges_mut(&mut Output::<$half>::of(out)?, grain, |range, dst| {
                let sink = Sink::Rounded(Halves::$kind(dst), block_of(&range));
                drive_blocks::<T, E>(l, sources, params, range, sink);
            })
        };
    }
    let dense_out = E::DTYPE == DType::F32 && out.layout.is_contiguous() && out.is_aligned();
    if direct_out {
        for_ranges_mut(&mut Output::<E>::of(out)?, grain, |range, dst| {
            drive_blocks::<T, E>(l, sources, params, range, Sink::Direct(dst));
        });
    } else if dense_out && out.dtype == DType::F16 {
        rounded!(f16, F16);
    } else if dense_out && out.dtype == DType::BF16 {
        rounded!(bf16, Bf16);
    } else {
        let cells = Cells::of(out)?;
        parallel_for(n, grain, |range| {
            let (writer, block) = (Writer::new(&cells, out, range.start), block_of(&range));
            drive_blocks::<T, E>(l, sources, params, range, Sink::Blocks(writer, block));
        });
    }
    Ok(())
}

/// An operand of a small operation, as a kernel can read it.
#[derive(Clone, Copy)]
pub enum SmallOperand<'a> {
    /// Dense, with the number of elements of the result.
    Dense(View<'a>),
    /// As `Dense`, in the memory that is written: copied first.
    Written(View<'a>),
    /// A single element, broadcast.
    One(View<'a>),
    Number(Scalar),
    /// Not read by the formula.
    Unread,
}

/// The result of a kernel on at most `SMALL_NUMEL` elements, in new memory; None for more. The operands have the
/// floating point dtype to compute in.
#[inline]
pub fn run_few(
    kernel: &Kernel,
    dtype: DType,
    n: usize,
    operands: &[SmallOperand],
    params: &[Scalar],
) -> Option<Storage> {
    // An empty slice of device memory would look like a valid operand, hence no empty tensors here.
    if n.wrapping_sub(1) >= checked::few() {
        return None;
    }
    match (kernel, dtype) {
        (Kernel::Same { f32: Some(l), .. }, DType::F32) => few(*l, n, operands, params),
        (Kernel::Same { f64: Some(l), .. }, DType::F64) => few(*l, n, operands, params),
        _ => None,
    }
}

/// As [`run_few`], for the most frequent case: two dense operands of the same dtype and shape.
#[inline]
pub fn run_pair(kernel: Kernel, n: usize, a: View, b: View) -> Option<Storage> {
    // An empty slice of device memory would look like a valid operand, hence no empty tensors here.
    if n.wrapping_sub(1) >= checked::few() {
        return None;
    }
    match (kernel, a.dtype) {
        (Kernel::Same { f32: Some(l), .. }, DType::F32) => pair(l, n, a, b),
        (Kernel::Same { f64: Some(l), .. }, DType::F64) => pair(l, n, a, b),
        _ => None,
    }
}

#[inline(always)]
fn pair<T: Element>(l: Loop<T, T>, n: usize, a: View, b: View) -> Option<Storage> {
    // The slice is empty for device memory and for storages with deferred writes, so `get` fails.
    let (x, y) = (a.storage.slice_now::<T>(), b.storage.slice_now::<T>());
    let (x, y) = (x.get(a.layout.offset..a.layout.offset + n)?, y.get(b.layout.offset..b.layout.offset + n)?);
    let mut out = Storage::new(n * size_of::<T>()).ok()?;
    l.run(&[x, y], &[], out.slice_mut::<T>()?);
    Some(out)
}

#[inline(always)]
fn few<T: Lane + Element>(
    l: Loop<T, T>,
    n: usize,
    operands: &[SmallOperand],
    params: &[Scalar],
) -> Option<Storage> {
    let params = numbers(params);
    let params = &params.0[..params.1];
    let out = |ins: &[&[T]]| {
        let mut out = Storage::new(n * size_of::<T>()).ok()?;
        l.run(ins, params, out.slice_mut::<T>()?);
        Some(out)
    };
    with_few::<T, _, 1>(operands, n, out).or_else(|| with_few::<T, _, 2>(operands, n, out))
}

/// Calls `run` with the inputs of a kernel, of which up to `BLOCKS` are repeated numbers or copies; None if another
/// input cannot be used in place.
#[inline(always)]
fn with_few<T: Lane, R, const BLOCKS: usize>(
    operands: &[SmallOperand],
    n: usize,
    run: impl FnOnce(&[&[T]]) -> Option<R>,
) -> Option<R> {
    let mut found = [T::zeroed(); BLOCKS];
    let mut count = 0;
    for o in operands {
        let number = match o {
            SmallOperand::Number(s) => T::number(*s),
            SmallOperand::One(v) | SmallOperand::Written(v) => *few_elements::<T>(v, 1)?.first()?,
            SmallOperand::Dense(_) | SmallOperand::Unread => continue,
        };
        *found.get_mut(count)? = number;
        count += 1;
    }
    let mut blocks = found.map(|number| [number; SMALL_NUMEL]);
    let mut copies = blocks.iter_mut();
    for o in operands {
        match o {
            SmallOperand::Written(v) => copies.next()?[..n].copy_from_slice(few_elements::<T>(v, n)?),
            SmallOperand::One(_) | SmallOperand::Number(_) => drop(copies.next()),
            SmallOperand::Dense(_) | SmallOperand::Unread => {}
        }
    }
    let mut copies = blocks.iter();
    // An operand that is not read must have the length of the others too.
    let mut ins = [&blocks[0][..n]; ARGS];
    for (slot, o) in ins.iter_mut().zip(operands) {
        match o {
            SmallOperand::Dense(v) => *slot = few_elements::<T>(v, n)?,
            SmallOperand::One(_) | SmallOperand::Number(_) | SmallOperand::Written(_) => {
                *slot = &copies.next()?[..n]
            }
            SmallOperand::Unread => {}
        }
    }
    run(&ins[..operands.len()])
}

/// The first `n` elements of a dense operand, if it has the compute type and is on the host.
#[inline(always)]
fn few_elements<'a, T: Lane>(v: &View<'a>, n: usize) -> Option<&'a [T]> {
    if v.dtype != T::Stored::DTYPE {
        return None;
    }
    // The slice is empty for device memory and for storages with deferred writes, so `get` fails.
    let elements = v.storage.slice_now::<T::Stored>().get(v.layout.offset..)?.get(..n)?;
    Some(bytemuck::cast_slice(elements))
}

/// The parameters of a kernel, and their number.
#[inline(always)]
fn numbers<T: Lane>(params: &[Scalar]) -> ([T; PARAMS], usize) {
    let mut numbers = [T::zeroed(); PARAMS];
    for (p, s) in numbers.iter_mut().zip(params) {
        *p = T::number(*s);
    }
    (numbers, params.len())
}

/// Up to this size an operation costs more in overhead than in arithmetic.
pub const SMALL_NUMEL: usize = 64;

/// The common case of few elements that are written in place: no allocation, splitting or staging.
#[inline]
fn drive_small<T: Lane, E: Element>(
    l: Loop<T, impl Written<E>>,
    operands: &[Operand],
    params: &[T],
    out: View,
    n: usize,
) -> Result<bool> {
    let mut few = [SmallOperand::Unread; ARGS];
    for (few, o) in few.iter_mut().zip(operands) {
        *few = match o {
            Operand::Unread => SmallOperand::Unread,
            Operand::Number(s) => SmallOperand::Number(*s),
            Operand::View(v) if v.layout.is_contiguous() => match v.storage.overlaps(out.storage) {
                true => SmallOperand::Written(*v),
                false => SmallOperand::Dense(*v),
            },
            Operand::View(v) if v.layout.is_one_element() => SmallOperand::One(*v),
            Operand::View(_) => return Ok(false),
        };
    }
    let run = |ins: &[&[T]]| {
        Some(Output::<E>::of(out).map(|mut dst| l.run(ins, params, bytemuck::cast_slice_mut(&mut dst))))
    };
    with_few::<T, _, 2>(&few[..operands.len()], n, run).map_or(Ok(false), |done| done.map(|()| true))
}

/// The operands of a formula and their number.
#[derive(Clone, Copy)]
struct OperandAccesses<'s, 'a> {
    of: &'s [OperandAccess<'a>; ARGS],
    count: usize,
    /// The first operand is read in the memory of the result.
    first_written: bool,
}

/// Whether the first operand, and no other, is the view that is written.
fn is_first_written(operands: &[Operand], out: View) -> bool {
    let mut views = operands.iter().map(|o| if let Operand::View(v) = o { Some(v) } else { None });
    let Some(Some(first)) = views.next() else { return false };
    first.dtype == out.dtype
        && first.storage.same(out.storage)
        && first.layout == out.layout
        && !views.flatten().any(|v| v.overlaps(&out))
}

/// Where the driver stores the results for a range of positions.
enum Sink<'a, E> {
    /// In place.
    Direct(&'a mut [E]),
    /// To a block that is then rounded in place.
    Rounded(Halves<'a>, Vec<E>),
    /// To a block that is then scattered.
    Blocks(Writer<'a>, Vec<E>),
}

/// Dense results of a half type.
enum Halves<'a> {
    F16(&'a mut [f16]),
    Bf16(&'a mut [bf16]),
}

impl Halves<'_> {
    /// Writes the next results at a position.
    fn write<E: Element>(&mut self, at: usize, values: &[E]) {
        match self {
            Halves::F16(to) => cast_run(values, &mut to[at..][..values.len()]),
            Halves::Bf16(to) => cast_run(values, &mut to[at..][..values.len()]),
        }
    }
}

fn drive_blocks<T: Lane, E: Element>(
    l: Loop<T, impl Written<E>>,
    sources: OperandAccesses,
    params: &[T],
    range: Range<usize>,
    mut sink: Sink<E>,
) {
    let OperandAccesses { of: sources, count, first_written } = sources;
    let mut feeds: [OperandCursor<T>; ARGS] =
        std::array::from_fn(|k| OperandCursor::new(&sources[k], &range));
    let feeds = &mut feeds[..count];
    let shown = stand_ins(sources, count);
    let in_place = l.lean.in_place.filter(|_| first_written);
    let has_one = (in_place.is_some() || l.lean.column.is_some()) && beside_one(feeds);
    let column = l.lean.column.filter(|_| has_one);
    let compute = |ins: &[&[T]], out: &mut [E]| {
        let out = bytemuck::cast_slice_mut(out);
        match (in_place, column) {
            (Some(in_place), _) => l.run_in_place(in_place, ins, params, out),
            (None, Some(column)) => l.run_beside_one(column, ins, params, out),
            (None, None) => l.run(ins, params, out),
        }
    };
    let mut at = range.start;
    while at < range.end {
        let room = match &sink {
            Sink::Direct(_) => usize::MAX,
            Sink::Rounded(_, block) | Sink::Blocks(_, block) => block.len(),
        };
        let n = feeds.iter().map(|f| f.left(at)).fold(room.min(range.end - at), usize::min);
        feeds.iter_mut().for_each(|f| f.reach(at, n));
        let mut ins: [&[T]; ARGS] = [&[]; ARGS];
        for (slot, &k) in ins[..count].iter_mut().zip(&shown) {
            *slot = feeds[k].get(at, n);
        }
        match &mut sink {
            Sink::Direct(dst) => {
                compute(&ins[..count], &mut dst[at - range.start..][..n]);
            }
            Sink::Rounded(halves, block) => {
                compute(&ins[..count], &mut block[..n]);
                halves.write(at - range.start, &block[..n]);
            }
            Sink::Blocks(writer, block) => {
                compute(&ins[..count], &mut block[..n]);
                writer.write(&block[..n]);
            }
        }
        feeds.iter_mut().for_each(|f| f.pass(n));
        at += n;
    }
}

/// Powers by repeated squaring; for negative exponents only the powers of 1 and -1 are non-zero.
pub fn integer_power(base: &[i64], exponent: &[i64], out: &mut [i64]) {
    for ((o, &b), &e) in out.iter_mut().zip(base).zip(exponent) {
        *o = match (b, e) {
            (_, 0..) => power_of(b, e as u64),
            (1, _) => 1,
            (-1, _) => 1 - 2 * (e & 1),
            _ => 0,
        };
    }
}

fn power_of(mut base: i64, mut exponent: u64) -> i64 {
    let mut power = 1i64;
    while exponent > 0 {
        if exponent & 1 == 1 {
            power = power.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent >>= 1;
    }
    power
}
