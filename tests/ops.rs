//! Every pointwise operation of the table: first and second derivatives, layouts, dtypes, instruction sets.

use rgrad::backend::simd::{Isa, best_isa, force_isa};
use rgrad::dtype::{DType, Scalar};
use rgrad::engine::gradcheck::{gradcheck, gradgradcheck};
use rgrad::layout::Layout;
use rgrad::ops::pointwise::{Arg, Class, PointwiseOp};
use rgrad::ops::rows::ROWS;
use rgrad::{Result, Tensor};

/// Values of input `k` within the operation's sampling range, away from kinks of the formula.
fn sample(row: &PointwiseOp, k: usize, n: usize) -> Tensor {
    let (lo, hi) = row.meta.on;
    let at = |i: usize| {
        lo + (hi - lo) * ((i * (2 * k + 3) + 5 * k) as f64 * 0.618_034 + 0.137 * (k + 1) as f64).fract()
    };
    let v: Vec<f64> = (0..n).map(at).collect();
    if row.meta.conditional && k == 0 {
        let bits: Vec<f64> = (0..n).map(|i| (i % 3 == 0) as u8 as f64).collect();
        return Tensor::from_slice(&bits, [n]).unwrap().copied(DType::Bool).unwrap();
    }
    Tensor::from_slice(&v, [n]).unwrap()
}

fn params(row: &PointwiseOp) -> Vec<Scalar> {
    row.params
        .iter()
        .enumerate()
        .map(|(i, (_, d))| Scalar::Float(d.parse().unwrap_or(0.3 + i as f64 * 0.4)))
        .collect()
}

fn call(row: &'static PointwiseOp, x: &[Tensor]) -> Result<Tensor> {
    let args: Vec<Arg> = x.iter().map(Arg::from).collect();
    row.call(&args, &params(row))
}

fn inputs(row: &PointwiseOp, n: usize) -> Vec<Tensor> {
    (0..row.inputs.len()).map(|k| sample(row, k, n)).collect()
}

fn differentiable() -> impl Iterator<Item = &'static PointwiseOp> {
    ROWS.iter().copied().filter(|r| r.is_differentiable())
}

#[test]
fn every_derivative_agrees_with_finite_differences() {
    for row in differentiable() {
        if let Err(e) = gradcheck(&|x| call(row, x), &inputs(row, 7)) {
            panic!("{}: {e}", row.name);
        }
    }
}

#[test]
fn every_second_derivative_agrees_with_finite_differences() {
    for row in differentiable() {
        if let Err(e) = gradgradcheck(&|x| call(row, x), &inputs(row, 5)) {
            panic!("{}: {e}", row.name);
        }
    }
}

#[test]
fn a_derivative_that_is_wrong_by_a_thousandth_is_caught() {
    let x = Tensor::from_slice(&[0.4, 1.3, -0.7], [3]).unwrap();
    let off = |x: &[Tensor]| -> Result<Tensor> {
        // sin with the gradient of 1.001 sin: the difference is added without history.
        let y = call(&rgrad::ops::rows::sin, x)?;
        let excess = rgrad::ops::arith::mul(&y.detach(), 0.001)?;
        rgrad::ops::arith::add(&y, &excess)
    };
    assert!(gradcheck(&off, &[x]).is_err());
}

#[test]
fn the_result_does_not_depend_on_how_operands_lie_in_memory() {
    for row in ROWS.iter().copied().filter(|r| r.class != Class::Bits) {
        let dense = inputs(row, 12);
        let want = call(row, &dense).unwrap().to_vec::<f64>();
        let matrix = |t: &Tensor| t.with_layout(t.layout().reshape(&[3, 4].into()).unwrap());
        let transposed: Vec<Tensor> = dense
            .iter()
            .map(|t| {
                let m = matrix(t);
                let moved = m.with_layout(m.layout().transpose(0, 1)).copied(t.dtype()).unwrap();
                moved.with_layout(moved.layout().transpose(0, 1))
            })
            .collect();
        let got = call(row, &transposed).unwrap();
        assert_eq!(got.shape()[..], [3, 4], "{}", row.name);
        assert!(same(&got.to_vec::<f64>(), &want), "{} of transposed operands", row.name);
    }
}

/// Equal, treating NaN as equal.
fn same(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x == y || (x.is_nan() && y.is_nan()))
}

#[test]
fn half_types_are_computed_in_float32_and_rounded_once() {
    for row in ROWS.iter().copied().filter(|r| r.class == Class::Float) {
        for half in [DType::F16, DType::BF16] {
            let x: Vec<Tensor> = inputs(row, 33).iter().map(|t| t.copied(half).unwrap()).collect();
            let wide: Vec<Tensor> = x.iter().map(|t| t.copied(DType::F32).unwrap()).collect();
            let want = call(row, &wide).unwrap().copied(half).unwrap();
            let got = call(row, &x).unwrap();
            assert_eq!(got.dtype(), half);
            assert!(same(&got.to_vec::<f64>(), &want.to_vec::<f64>()), "{} in {half}", row.name);
        }
    }
}

#[test]
fn every_instruction_set_gives_the_same_numbers() {
    let chosen = best_isa();
    for row in ROWS.iter().copied().filter(|r| r.class != Class::Bits) {
        let x: Vec<Tensor> = inputs(row, 101)
            .iter()
            .map(|t| if t.dtype() == DType::F64 { t.copied(DType::F32).unwrap() } else { t.clone() })
            .collect();
        force_isa(Isa::Baseline);
        let want = call(row, &x).unwrap().to_vec::<f64>();
        for isa in [Isa::Avx2, Isa::Avx512] {
            if force_isa(isa) == isa {
                assert!(same(&call(row, &x).unwrap().to_vec::<f64>(), &want), "{} on {isa:?}", row.name);
            }
        }
        force_isa(chosen);
    }
}

#[test]
fn every_row_has_a_sentence_of_documentation() {
    for row in ROWS.iter() {
        assert!(row.doc.trim().ends_with('.'), "{}: {:?}", row.name, row.doc);
    }
}

#[test]
fn a_name_means_one_operation_in_each_place() {
    use rgrad::ops::schema::Exposure;
    let places = [
        Exposure::METHOD,
        Exposure::FUNCTION,
        Exposure::NN,
        Exposure::SPECIAL,
        Exposure::LINALG,
        Exposure::ATTRIBUTE,
    ];
    for place in places {
        let ops = rgrad::ops::all().iter().filter(|o| o.exposure.has(place));
        let mut names: Vec<&str> =
            ops.flat_map(|o| std::iter::once(o.name).chain(o.aliases.iter().copied())).collect();
        names.sort_unstable();
        let twice: Vec<_> = names.windows(2).filter(|w| w[0] == w[1]).map(|w| w[0]).collect();
        assert!(twice.is_empty(), "declared twice in {place:?}: {twice:?}");
    }
}

/// A view with generated numbers, and these numbers in row-major order.
fn view(dtype: DType, shape: [usize; 3], strides: [isize; 3], offset: usize) -> (Tensor, Vec<f64>) {
    let layout = Layout { shape: shape.into(), strides: strides.into(), offset };
    let n = layout.extent().unwrap().1 as usize + 1;
    let numbers: Vec<f64> = (0..n).map(|i| (i * 7 % 101) as f64).collect();
    let at = |i: usize| {
        let index = [i / (shape[1] * shape[2]), i / shape[2] % shape[1], i % shape[2]];
        offset as isize + index.iter().zip(strides).map(|(&i, s)| i as isize * s).sum::<isize>()
    };
    let shown = (0..layout.numel()).map(|i| numbers[at(i) as usize]).collect();
    (Tensor::from_slice(&numbers, [n]).unwrap().copied(dtype).unwrap().with_layout(layout), shown)
}

#[test]
fn large_operands_of_every_layout_are_read_where_they_say() {
    let maximum = ROWS.iter().find(|r| r.name == "maximum").unwrap();
    let shape = [2, 37, 300];
    let layouts: [([isize; 3], usize); 9] = [
        ([11100, 300, 1], 0),
        ([11100, 1, 37], 5),  // transposed
        ([0, 1, 40], 1),      // transposed, with a row stride, broadcast
        ([0, 0, 1], 0),       // a row
        ([0, 0, 3], 2),       // a row of every third element
        ([0, 0, 0], 1),       // a number
        ([37, 1, 0], 0),      // a column
        ([13000, 340, 1], 7), // a slice of columns
        ([11100, 300, -1], 299),
    ];
    for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512] {
        force_isa(isa);
        for dtype in [DType::F32, DType::F64, DType::I64, DType::U8, DType::F16] {
            for (a, at_a) in layouts {
                let (x, shown) = view(dtype, shape, a, at_a);
                assert_eq!(x.copied(DType::F64).unwrap().to_vec::<f64>(), shown, "{dtype:?} {a:?}");
                let copy = x.copied(dtype).unwrap().copied(DType::F64).unwrap();
                assert_eq!(copy.to_vec::<f64>(), shown, "copy of {dtype:?} {a:?}");
                let (y, other) = view(dtype, shape, layouts[1].0, layouts[1].1);
                let got = maximum.call(&[(&x).into(), (&y).into()], &[]).unwrap();
                let want: Vec<f64> = shown.iter().zip(&other).map(|(a, b)| a.max(*b)).collect();
                assert_eq!(got.copied(DType::F64).unwrap().to_vec::<f64>(), want, "{dtype:?} {a:?}");
            }
        }
    }
    force_isa(best_isa());
}
