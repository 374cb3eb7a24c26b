use super::*;
use crate::dtype::{Bool8, Scalar};
use crate::graph::{Cx, Grads};
use smallvec::smallvec;

fn range(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    Tensor::from_slice(&(0..n).map(|i| i as f32).collect::<Vec<_>>(), shape).unwrap()
}

fn ints(v: &[i64]) -> Index {
    Index::Tensor(Tensor::from_slice(v, [v.len()]).unwrap())
}

const ALL: Index = Index::Slice(None, None, None);

/// The gradient of the only input of the node of `y`, for a gradient of ones.
fn backward(y: &Tensor) -> Tensor {
    let node = y.grad_fn().unwrap();
    let ones = Tensor::ones(y.shape().clone(), y.dtype()).unwrap();
    let grads: Grads = node.function().backward(&Cx::new(&node, u64::MAX), smallvec![Some(ones)]).unwrap();
    grads[0].clone().unwrap()
}

fn leaf(t: Tensor) -> Tensor {
    t.set_requires_grad(true).unwrap();
    t
}

#[test]
fn an_integer_drops_a_dimension_and_a_slice_keeps_it() {
    let x = range(&[3, 4]);
    let row = getitem(&x, &[Index::Int(-1)]).unwrap();
    assert_eq!((row.shape()[..].to_vec(), row.to_vec::<f32>()), (vec![4], vec![8.0, 9.0, 10.0, 11.0]));
    let odd = getitem(&x, &[ALL, Index::Slice(Some(1), None, Some(2))]).unwrap();
    assert_eq!(
        (odd.shape()[..].to_vec(), odd.to_vec::<f32>()),
        (vec![3, 2], vec![1.0, 3.0, 5.0, 7.0, 9.0, 11.0])
    );
    assert!(odd.storage().same(x.storage()));
}

#[test]
fn an_index_outside_names_itself_the_dimension_and_the_size() {
    let x = range(&[3, 4]);
    let message = |index: &[Index]| getitem(&x, index).unwrap_err().to_string();
    assert_eq!(message(&[Index::Int(5)]), "index 5 is out of bounds for dimension 0 with size 3");
    assert_eq!(
        message(&[Index::Int(0), Index::Int(4)]),
        "index 4 is out of bounds for dimension 1 with size 4"
    );
    assert_eq!(message(&[ints(&[7])]), "index 7 is out of bounds for dimension 0 with size 3");
    assert_eq!(message(&[ALL, ALL, ALL]), "too many indices for tensor of dimension 2");
    assert_eq!(message(&[Index::Slice(None, None, Some(0))]), "step must be greater than zero");
}

#[test]
fn indices_of_neighbouring_dimensions_stay_in_place_and_others_move_to_the_front() {
    let x = range(&[2, 3, 4, 5]);
    let (a, b) = (ints(&[0, 1, 1]), ints(&[2, 0, 3]));
    let inside = getitem(&x, &[ALL, a.clone(), b.clone(), ALL]).unwrap();
    assert_eq!(inside.shape()[..], [2, 3, 5]);
    let outside = getitem(&x, &[a, ALL, b, ALL]).unwrap();
    assert_eq!(outside.shape()[..], [3, 3, 5]);
    assert_eq!(outside.to_vec::<f32>()[0], 2.0 * 5.0);
}

#[test]
fn a_mask_picks_rows_or_elements_and_refuses_another_shape() {
    let x = range(&[2, 3]);
    let mask = Tensor::from_slice(&[Bool8(0), Bool8(1)], [2usize]).unwrap();
    assert_eq!(getitem(&x, &[Index::Tensor(mask.clone())]).unwrap().to_vec::<f32>(), [3.0, 4.0, 5.0]);
    let error = getitem(&x, &[ALL, Index::Tensor(mask)]).unwrap_err().to_string();
    assert!(error.starts_with("The shape of the mask [2] at index 0 does not match"), "{error}");
    let big = crate::ops::rows::gt.call(&[Arg::T(&x), Arg::S(Scalar::Int(3))], &[]).unwrap();
    assert_eq!(getitem(&x, &[Index::Tensor(big)]).unwrap().to_vec::<f32>(), [4.0, 5.0]);
}

#[test]
fn a_number_is_written_through_views_indices_and_masks() {
    let x = range(&[2, 3]);
    setitem(&x, &[Index::Int(0), Index::Slice(Some(1), None, None)], Arg::S(Scalar::Int(-1))).unwrap();
    setitem(&x, &[ints(&[1]), ints(&[0])], Arg::S(Scalar::Int(-2))).unwrap();
    assert_eq!(x.to_vec::<f32>(), [0.0, -1.0, -1.0, -2.0, 4.0, 5.0]);
    let negative = crate::ops::rows::lt.call(&[Arg::T(&x), Arg::S(Scalar::Int(0))], &[]).unwrap();
    setitem(&x, &[Index::Tensor(negative)], Arg::S(Scalar::Int(9))).unwrap();
    assert_eq!(x.to_vec::<f32>(), [0.0, 9.0, 9.0, 9.0, 4.0, 5.0]);
}

#[test]
fn a_slice_assigned_from_an_overlapping_slice_takes_the_old_values() {
    let x = range(&[5]);
    let tail = getitem(&x, &[Index::Slice(Some(1), None, None)]).unwrap();
    setitem(&x, &[Index::Slice(None, Some(-1), None)], Arg::T(&tail)).unwrap();
    assert_eq!(x.to_vec::<f32>(), [1.0, 2.0, 3.0, 4.0, 4.0]);
}

#[test]
fn a_leaf_that_requires_grad_refuses_to_be_assigned_to() {
    let x = leaf(range(&[3]));
    let error = setitem(&x, &[Index::Int(0)], Arg::S(Scalar::Int(1))).unwrap_err().to_string();
    assert_eq!(error, "a view of a leaf Variable that requires grad is being used in an in-place operation.");
}

#[test]
fn the_gradient_counts_an_element_as_often_as_it_was_picked() {
    let x = leaf(range(&[4, 2]));
    let y = getitem(&x, &[ints(&[2, 0, 2, -2])]).unwrap();
    assert_eq!(y.grad_fn().unwrap().name(), "IndexBackward0");
    assert_eq!(backward(&y).to_vec::<f32>(), [1.0, 1.0, 0.0, 0.0, 3.0, 3.0, 0.0, 0.0]);
    let rows = Tensor::from_slice(&[3i64, 3], [2usize]).unwrap();
    let y = index_select(&x, 0, &rows).unwrap();
    assert_eq!(backward(&y).to_vec::<f32>(), [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 2.0]);
}

#[test]
fn scatter_add_undoes_gather_up_to_repetition() {
    let x = range(&[3, 2]);
    let index = Tensor::from_slice(&[0i64, 2, 1, 2], [2usize, 2]).unwrap();
    let y = gather(&x, 0, &index).unwrap();
    assert_eq!(y.to_vec::<f32>(), [0.0, 5.0, 2.0, 5.0]);
    let zeros = Tensor::zeros([3usize, 2], DType::F32).unwrap();
    assert_eq!(scatter_add(&zeros, 0, &index, &y).unwrap().to_vec::<f32>(), [0.0, 0.0, 2.0, 0.0, 0.0, 10.0]);
}

#[test]
fn nonzero_counts_nan_and_gives_an_empty_row_for_a_true_number() {
    let x = Tensor::from_slice(&[f32::NAN, 0.0, -0.0, 2.0], [2usize, 2]).unwrap();
    assert_eq!(nonzero(&x).unwrap().to_vec::<i64>(), [0, 0, 1, 1]);
    assert_eq!(nonzero(&Tensor::scalar(1i64, DType::I64).unwrap()).unwrap().shape()[..], [1, 0]);
}
