//! Column sums: Note [Column sums of a kernel].

use super::*;
use crate::backend::cpu::machine::Columns;
use crate::backend::cpu::reduce::{ColumnBlocks, column_reduction};
use crate::backend::reduce::{ReduceDims, ReduceOp};

/// The column sums of `x * w + r` and of `x * x` for rows of `n` elements, `w` a row for all or rows that are apart, `r` a value per row,
/// with `more` arguments that nothing reads and as many prefetches.
fn check<T: Tested + Real + Ordered>(rows: usize, n: usize, stride: usize, more: usize) {
    let formulas = [
        "%0 = x0\n%1 = x1\n%2 = x2\n%3 = mul %0 %1\n%4 = add %3 %2\nreturn %4",
        "%0 = x0\n%1 = mul %0 %0\nreturn %1",
    ]
    .map(|text| Formula::parse(text).unwrap());
    let recipe = Recipe {
        results: SmallVec::new(),
        strided: 0b10,
        columns: Columns { steps: [0, 1][..].into(), n, strides: [(1, stride)][..].into() },
        prefetches: more,
        ..recipe(&formulas, 3 + more, 0b100)
    };
    let Some(kernel) = made::<T>(&recipe) else { return };
    assert!(
        T::make(&Recipe { results: [0][..].into(), ..recipe.clone() }).is_none(),
        "elements are not stored too"
    );
    let (x, w, r) = (numbers(rows * n, 1), numbers(stride * (rows - 1) + n, 2), numbers::<T>(rows, 3));
    let read = [In::Elements(&x), In::Strided(&w, stride), In::PerRow(&r)];
    let ins: Vec<In<T>> = read.into_iter().chain((0..more).map(|_| In::Elements(&x))).collect();
    let mut sums = [numbers(n, 4), numbers(n, 5)];
    let elements: Vec<T> = (0..rows * n).map(|i| x[i] * w[i / n * stride + i % n] + r[i / n]).collect();
    let squares: Vec<T> = x.iter().map(|v| *v * *v).collect();
    let mut wanted = sums.clone();
    let of = ColumnBlocks::of(ReduceDims { outer: 1, n: rows, inner: n }).unwrap();
    let sum = column_reduction::<T>(ReduceOp::Sum).unwrap();
    for (sums, elements) in wanted.iter_mut().zip([&elements, &squares]) {
        sum.add(of, elements, 128, sums);
    }
    let pool = kernel.pool::<T>(&[]).unwrap();
    let prefetched = vec![0; more];
    let mut run = |ins: &[In<T>], rows, n| {
        let [first, second] = &mut sums;
        kernel.run(ins, &mut [Out::Columns(first), Out::Columns(second)], &prefetched, &pool, rows, n)
    };
    assert!(!run(&ins, rows - 1, n), "rows are taken in eights");
    assert!(!run(&ins, rows, n - 16), "the length of a row is that of the recipe");
    let mut other = ins.clone();
    other[1] = In::Strided(&w, stride + 1);
    assert!(!run(&other, rows, n), "and so is a stride");
    assert!(run(&ins, rows, n));
    let same = |a: &[T], b: &[T]| a.iter().zip(b).all(|(a, b)| a.bits() == b.bits());
    assert!(sums.iter().zip(&wanted).all(|(a, b)| same(a, b)), "{rows} rows of {n}, {stride} apart");
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
        // Some pointers are not in registers, those of columns among them.
        check::<f32>(16, 64, 64, 3);
        check::<f64>(16, 64, 0, 5);
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
