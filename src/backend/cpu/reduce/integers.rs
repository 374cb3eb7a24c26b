//! Sums and extrema of integers and bools.
//!
//! They are the same in any order, so that narrow types are added in int64, or compared in int32, as they are read.

use std::marker::PhantomData as P;

use super::computed::{Elements, Widened};
use super::extremum::greatest;
use super::{Monoid, ReduceOp, SumInt, reduce};
use crate::backend::cpu::copy::View;
use crate::backend::cpu::output::Output;
use crate::backend::elements;
use crate::backend::reduce::ReduceDims;
use crate::dtype::{Bool8, DType, Element};
use crate::error::Result;

/// The sum in wrapping int64, as PyTorch computes it.
///
/// # Errors
/// If the output cannot be claimed, as for [`extremum`].
pub fn sum(x: View, d: ReduceDims, out: View) -> Result<()> {
    fn each<T: Element>(x: View, d: ReduceDims, out: &mut [i64])
    where
        SumInt<T>: Monoid<In = T, Acc = i64>,
    {
        reduce(&ReduceOp(SumInt::<T>(P)), Elements::Slice(elements(x)), d, None, out)
    }
    let out = &mut *Output::<i64>::of(out)?;
    match x.dtype {
        DType::Bool => each::<Bool8>(x, d, out),
        DType::U8 => each::<u8>(x, d, out),
        DType::I32 => each::<i32>(x, d, out),
        DType::I8 => widened::<i8>(x, d, out),
        DType::I16 => widened::<i16>(x, d, out),
        _ => each::<i64>(x, d, out),
    }
    return Ok(());

    fn widened<T: Element>(x: View, d: ReduceDims, out: &mut [i64]) {
        let x = Widened(elements::<T>(x));
        reduce(&ReduceOp(SumInt::<i64>(P)), Elements::Computed(&x), d, None, out)
    }
}

/// The largest or smallest elements, which `d` has.
///
/// # Errors
/// If the output cannot be claimed.
pub fn extremum(x: View, d: ReduceDims, largest: bool, out: View) -> Result<()> {
    if d.n == 0 {
        return Ok(());
    }
    if x.dtype == DType::I64 {
        greatest::<i64>(Elements::Slice(elements(x)), d, largest, None, &mut Output::of(out)?);
        return Ok(());
    }
    let out = &mut *Output::<i32>::of(out)?;
    let mut each = |x| greatest(x, d, largest, None, out);
    match x.dtype {
        DType::Bool => each(Elements::Computed(&Widened(elements::<Bool8>(x)))),
        DType::U8 => each(Elements::Computed(&Widened(elements::<u8>(x)))),
        DType::I8 => each(Elements::Computed(&Widened(elements::<i8>(x)))),
        DType::I16 => each(Elements::Computed(&Widened(elements::<i16>(x)))),
        _ => each(Elements::Slice(elements(x))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytemuck::cast_slice;

    use super::super::tests::on_each_isa;
    use super::*;
    use crate::layout::Layout;
    use crate::storage::Storage;

    /// The sums, maxima and minima of dense elements.
    fn reduced(storage: &Storage, dtype: DType, d: ReduceDims) -> [Vec<i64>; 3] {
        let (dense, lanes) = (Layout::contiguous([d.len()].into()), Layout::contiguous([d.lanes()].into()));
        let x = View { storage, layout: &dense, dtype };
        let run = |dtype: DType, kernel: &dyn Fn(View)| {
            let out = Storage::zeroed(d.lanes() * dtype.size()).unwrap();
            kernel(View { storage: &out, layout: &lanes, dtype });
            match dtype {
                DType::I32 => out.slice::<i32>().iter().map(|v| *v as i64).collect(),
                _ => out.slice::<i64>().to_vec(),
            }
        };
        let of_extrema = if dtype == DType::I64 { DType::I64 } else { DType::I32 };
        [
            run(DType::I64, &|out| sum(x, d, out).unwrap()),
            run(of_extrema, &|out| extremum(x, d, true, out).unwrap()),
            run(of_extrema, &|out| extremum(x, d, false, out).unwrap()),
        ]
    }

    fn check<T: Element>(of: impl Fn(usize) -> T) {
        for (outer, n, inner) in [(3, 5, 1), (1, 20_000, 1), (2, 300, 7), (1, 40, 600), (4, 1, 3)] {
            let d = ReduceDims::new(outer, n, inner);
            let x: Vec<T> = (0..d.len()).map(&of).collect();
            let storage = Storage::from_slice::<u8>(cast_slice(&x)).unwrap();
            let lane = |l: usize| (0..n).map(move |i| (l / inner * n + i) * inner + l % inner);
            let of_lanes = |f: &dyn Fn(&mut dyn Iterator<Item = i64>) -> i64| -> Vec<i64> {
                (0..d.lanes()).map(|l| f(&mut lane(l).map(|i| x[i].to_i64()))).collect()
            };
            let expected = [
                of_lanes(&|x| x.fold(0, |a, v| a.wrapping_add(v))),
                of_lanes(&|x| x.fold(i64::MIN, i64::max)),
                of_lanes(&|x| x.fold(i64::MAX, i64::min)),
            ];
            on_each_isa(|| assert_eq!(reduced(&storage, T::DTYPE, d), expected, "{:?} {d:?}", T::DTYPE));
        }
    }

    #[test]
    fn integers_of_all_widths_are_added_and_compared_as_int64() {
        check(|i| Bool8((i % 3 == 1) as u8));
        check(|i| (i * 37 % 256) as u8);
        check(|i| (i * 37 % 256) as u8 as i8);
        check(|i| (i * 7919 % 65536) as u16 as i16);
        check(|i| (i as i32).wrapping_mul(97_531_357));
        // The sums wrap.
        check(|i| (i as i64).wrapping_mul(0x0123_4567_89ab_cdef));
    }
}
