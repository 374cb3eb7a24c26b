//! Reductions, scans, sorting and matrix operations: first and second derivatives, at ordinary points and at kinks,
//! and PyTorch's results in special cases.

use rgrad::dtype::DType;
use rgrad::engine::gradcheck::{gradcheck, gradgradcheck};
use rgrad::ops::schema::{Args, Call, Out, Value};
use rgrad::ops::{self, arith, linalg, reduce, scan, sort};
use rgrad::{Result, Scalar, Tensor};

fn tensor(values: &[f64], shape: &[usize]) -> Tensor {
    Tensor::from_slice(values, shape).unwrap()
}

/// Distinct values, some negative.
fn plain() -> Tensor {
    tensor(&[0.3, -1.2, 0.9, 2.1, -0.4, 1.7], &[2, 3])
}

/// Calls an operation of the table by its first overload.
fn call(name: &str, values: &[Value]) -> Result<Vec<Tensor>> {
    let op = ops::all().iter().find(|o| o.name == name).unwrap();
    let Call::Fn(f) = op.overloads[0].call else { panic!("{name} is a row") };
    Ok(match f(&Args { name: op.name, values })? {
        Out::Tensor(t) => vec![t],
        Out::Tuple(v) | Out::Named(_, _, v) | Out::List(v) => v,
        other => panic!("{name} gave {other:?}"),
    })
}

fn check_both(what: &str, f: &dyn Fn(&[Tensor]) -> Result<Tensor>, at: &Tensor) {
    let inputs = [at.clone()];
    if let Err(e) = gradcheck(f, &inputs).and_then(|()| gradgradcheck(f, &inputs)) {
        panic!("{what}: {e}");
    }
}

#[test]
fn reductions_have_right_derivatives_of_both_orders() {
    type F = fn(&Tensor) -> Result<Tensor>;
    let all: &[(&str, F)] = &[
        ("sum", |t| reduce::sum_mask(t, 0b10, false, None)),
        ("mean", |t| reduce::mean_mask(t, 0b01, true, None)),
        ("prod", |t| reduce::prod(t, 1, false, None)),
        ("amax", |t| reduce::amax(t, Some(&[0]), false)),
        ("max", |t| Ok(reduce::extremum_along(t, 1, false, true)?.swap_remove(0))),
        ("var", |t| reduce::var_mask(t, 0b10, false, 1.0)),
        ("std", |t| reduce::std_mask(t, 0b11, false, 0.0)),
        ("logsumexp", |t| reduce::logsumexp(t, &[1], false)),
        ("norm 1", |t| reduce::vector_norm(t, 1.0, None, false, None)),
        ("norm 2", |t| reduce::vector_norm(t, 2.0, Some(&[1]), false, None)),
        ("norm 3", |t| reduce::vector_norm(t, 3.0, Some(&[0]), true, None)),
        ("norm 1.5", |t| reduce::vector_norm(t, 1.5, None, false, None)),
        ("norm inf", |t| reduce::vector_norm(t, f64::INFINITY, Some(&[1]), false, None)),
        ("cumsum", |t| scan::cumsum(t, 1, None)),
        ("cumprod", |t| scan::cumprod(t, 1, None)),
        ("logcumsumexp", |t| scan::logcumsumexp(t, 1)),
        ("sort", |t| Ok(sort::sort(t, 1, true, "SortBackward0")?.swap_remove(0))),
        ("tril", |t| linalg::triangle(t, 0, true)),
        ("einsum", |t| linalg::einsum("ij,kj->ik", &[t.clone(), t.clone()])),
        ("tensordot", |t| linalg::tensordot(t, t, &[1], &[1])),
        ("cube", |t| arith::pow(t, 3i64)),
    ];
    for (name, f) in all {
        check_both(name, &|x| f(&x[0]), &plain());
    }
}

#[test]
fn a_product_of_zeros_has_right_derivatives_of_both_orders() {
    for values in [[0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]] {
        let at = tensor(&values, &[3]);
        check_both("prod", &|x| reduce::prod(&x[0], 0, false, None), &at);
        check_both("prod of all", &|x| reduce::prod_all(&x[0], None), &at);
    }
}

#[test]
fn a_running_product_through_zeros_has_the_right_derivative() {
    for values in [[2.0, 0.0, 3.0, 4.0], [0.0, 2.0, 0.0, 3.0]] {
        gradcheck(&|x| scan::cumprod(&x[0], 0, None), &[tensor(&values, &[4])]).unwrap();
    }
}

#[test]
fn sums_of_integers_and_bools_are_64_bit_integers() {
    for dtype in [DType::Bool, DType::U8, DType::I32] {
        let sum = reduce::sum_mask(&Tensor::ones([300], dtype).unwrap(), 1, false, None).unwrap();
        assert_eq!((sum.dtype(), sum.item().unwrap()), (DType::I64, Scalar::Int(300)));
    }
}

#[test]
fn equal_largest_elements_share_the_gradient() {
    let x = tensor(&[1.0, 3.0, 3.0], &[3]);
    x.set_requires_grad(true).unwrap();
    let y = reduce::amax(&x, None, false).unwrap();
    let g = rgrad::engine::grad(&[y.into()], &[x.into()], &[None], Default::default()).unwrap();
    assert_eq!(g[0].as_ref().unwrap().to_vec::<f64>(), [0.0, 0.5, 0.5]);
}

#[test]
fn nan_is_the_largest_and_the_median_of_a_row_that_has_one() {
    let x = tensor(&[1.0, f64::NAN, 0.5], &[3]);
    let found = reduce::extremum_along(&x, 0, false, true).unwrap();
    assert!(found[0].to_vec::<f64>()[0].is_nan());
    assert_eq!(found[1].item().unwrap(), Scalar::Int(1));
    assert!(call("median", &[Value::Tensor(x)]).unwrap()[0].to_vec::<f64>()[0].is_nan());
}

#[test]
fn the_median_of_an_even_row_is_the_lower_of_the_two_in_the_middle() {
    let x = tensor(&[4.0, 1.0, 3.0, 2.0], &[4]);
    assert_eq!(call("median", &[Value::Tensor(x)]).unwrap()[0].item().unwrap(), Scalar::Float(2.0));
}

#[test]
fn an_extremum_of_nothing_is_an_error() {
    let empty = Tensor::zeros([0, 3], DType::F32).unwrap();
    let error = reduce::amax(&empty, Some(&[0]), false).unwrap_err().to_string();
    assert_eq!(error, "amax(): Expected reduction dim 0 to have non-zero size.");
    assert_eq!(reduce::amax(&empty, Some(&[1]), false).unwrap().numel(), 0);
}

#[test]
fn integers_have_no_negative_powers() {
    let two = Tensor::full([2], 2i64, DType::I64).unwrap();
    let error = arith::pow(&two, -1i64).unwrap_err().to_string();
    assert_eq!(error, "Integers to negative integer powers are not allowed.");
    assert_eq!(arith::pow(&two, 10i64).unwrap().to_vec::<i64>(), [1024, 1024]);
}

#[test]
fn a_repeated_index_of_einsum_is_the_diagonal() {
    let x = tensor(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
    assert_eq!(linalg::einsum("ii->i", &[x.clone()]).unwrap().to_vec::<f64>(), [1.0, 4.0]);
    assert_eq!(linalg::einsum("ii", &[x]).unwrap().item().unwrap(), Scalar::Float(5.0));
}
