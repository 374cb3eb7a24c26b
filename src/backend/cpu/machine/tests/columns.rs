//! Column sums: Note [Column sums of a kernel].

use super::*;
use crate::backend::cpu::machine::Columns;
use crate::backend::cpu::reduce::ColumnSums;
use crate::backend::reduce::ReduceDims;

/// `x * w + r` for rows of `n` elements, `w` a row for all or rows that are apart, `r` a value per row: stored, and the columns of it and of
/// `x * x` summed.
fn check<T: Tested + Real + Ordered>(rows: usize, n: usize, stride: usize, prefetches: usize) {
    let formulas = [
        "%0 = x0\n%1 = x1\n%2 = x2\n%3 = mul %0 %1\n%4 = add %3 %2\nreturn %4",
        "%0 = x0\n%1 = mul %0 %0\nreturn %1",
    ]
    .map(|text| Formula::parse(text).unwrap());
    let recipe = Recipe {
        results: [0][..].into(),
        strided: 0b10,
        columns: Columns { steps: [0, 1][..].into(), n, strides: [(1, stride)][..].into() },
        prefetches,
        ..recipe(&formulas, 3, 0b100)
    };
    let Some(kernel) = made::<T>(&recipe) else { return };
    let (x, w, r) = (numbers(rows * n, 1), numbers(stride * (rows - 1) + n, 2), numbers::<T>(rows, 3));
    let ins = [In::Elements(&x), In::Strided(&w, stride), In::PerRow(&r)];
    let mut out = vec![T::lit(0.0); rows * n];
    let mut sums = [numbers(n, 4), numbers(n, 5)];
    let wanted: Vec<T> = (0..rows * n).map(|i| x[i] * w[i / n * stride + i % n] + r[i / n]).collect();
    let squares: Vec<T> = x.iter().map(|v| *v * *v).collect();
    let mut wanted_sums = sums.clone();
    let of = ColumnSums::of(ReduceDims { outer: 1, n: rows, inner: n }).unwrap();
    for (sums, elements) in wanted_sums.iter_mut().zip([&wanted, &squares]) {
        of.add(elements, 128, sums);
    }
    let pool = kernel.pool::<T>(&[]).unwrap();
    let prefetched = vec![0; prefetches];
    let mut run = |ins: &[In<T>], rows, n| {
        let [first, second] = &mut sums;
        let mut outs = [Out::Elements(&mut out), Out::Columns(first), Out::Columns(second)];
        kernel.run(ins, &mut outs, &prefetched, &pool, rows, n)
    };
    assert!(!run(&ins, rows - 1, n), "rows are taken in eights");
    assert!(!run(&ins, rows, n - 16), "the length of a row is that of the recipe");
    assert!(!run(&[ins[0], In::Strided(&w, stride + 1), ins[2]], rows, n), "and so is a stride");
    assert!(run(&ins, rows, n));
    let same = |a: &[T], b: &[T]| a.iter().zip(b).all(|(a, b)| a.bits() == b.bits());
    assert!(same(&out, &wanted));
    assert!(sums.iter().zip(&wanted_sums).all(|(a, b)| same(a, b)), "{rows} rows of {n}, {stride} apart");
}

#[test]
fn sums_of_columns_have_the_bits_of_the_reduction() {
    with_each_isa(|| {
        for (rows, n) in [(8, 32), (24, 48), (16, 1024)] {
            for stride in [0, n, n + 3] {
                check::<f32>(rows, n, stride, 0);
                check::<f64>(rows, n, stride, 0);
            }
        }
        // Some pointers are not in registers.
        check::<f32>(16, 64, 64, 3);
    });
}

#[test]
fn code_of_eight_rows_that_would_be_too_long_is_not_made() {
    let text =
        (1..100).fold("%0 = x0\n".to_string(), |text, k| text + &format!("%{k} = mul %{} %0\n", k - 1));
    let formula = Formula::parse(&(text + "return %99")).unwrap();
    let formulas = [formula];
    let plain = recipe(&formulas, 1, 0);
    let columns = Columns { steps: [0][..].into(), n: 64, strides: SmallVec::new() };
    with_each_isa(|| {
        assert!(
            f32::make(&Recipe { results: SmallVec::new(), columns: columns.clone(), ..plain.clone() })
                .is_none()
        );
        let _ = made::<f32>(&plain);
    });
}
