use super::cut::{diagonal, narrow, unfold};
use super::split::{chunk, split_with_sizes, unbind};
use super::*;
use crate::ops::join::{cat, stack};

fn range(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    Tensor::from_slice(&(0..n).map(|i| i as f32).collect::<Vec<_>>(), shape).unwrap()
}

#[test]
fn reshaping_a_transposed_matrix_copies_and_viewing_it_refuses() {
    let x = t_of(&range(&[2, 3])).unwrap();
    let y = reshape_to(&x, &Dims::from([6])).unwrap();
    assert_eq!(y.to_vec::<f32>(), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    assert!(!y.storage().same(x.storage()));
    assert!(view_as(&x, &Dims::from([6])).unwrap_err().to_string().contains("Use .reshape(...) instead."));
}

#[test]
fn expanding_a_dimension_that_is_not_1_names_both_sizes() {
    let error = expand(&range(&[2]), &[3]).unwrap_err().to_string();
    assert_eq!(
        error,
        "The expanded size of the tensor (3) must match the existing size (2) at non-singleton dimension 0.  Target \
         sizes: [3].  Tensor sizes: [2]"
    );
}

#[test]
fn moving_dimensions_keeps_the_order_of_the_others() {
    let x = range(&[2, 3, 4, 5]);
    assert_eq!(movedim(&x, &[0, -1], &[-1, 1]).unwrap().shape()[..], [3, 5, 4, 2]);
    assert_eq!(permute(&x, &[3, 0, 2, 1]).unwrap().shape()[..], [5, 2, 4, 3]);
}

#[test]
fn a_diagonal_below_the_main_one_starts_further_down() {
    let x = range(&[3, 3]);
    assert_eq!(diagonal(&x, -1, 0, 1).unwrap().to_vec::<f32>(), [3.0, 7.0]);
    assert_eq!(diagonal(&x, 2, 0, 1).unwrap().to_vec::<f32>(), [2.0]);
    assert_eq!(diagonal(&x, 5, 0, 1).unwrap().shape()[..], [0]);
}

#[test]
fn the_gradient_of_overlapping_windows_adds_up() {
    let windows = unfold(&range(&[4]), 0, 2, 1).unwrap();
    assert_eq!(windows.to_vec::<f32>(), [0.0, 1.0, 1.0, 2.0, 2.0, 3.0]);
    let cut = cut::Cut::Unfold { dim: 0, size: 2, step: 1 };
    let ones = Tensor::ones([3usize, 2], crate::dtype::DType::F32).unwrap();
    let back = cut::put_back(&ones, cut, &Dims::from([4])).unwrap();
    assert_eq!(back.to_vec::<f32>(), [1.0, 2.0, 2.0, 1.0]);
}

#[test]
fn pieces_joined_again_are_the_whole() {
    let x = range(&[3, 7]);
    for parts in [chunk(&x, 3, 1).unwrap(), split_with_sizes(&x, &[2, 0, 5], -1).unwrap()] {
        assert_eq!(cat(&parts, 1).unwrap().to_vec::<f32>(), x.to_vec::<f32>());
    }
    assert_eq!(stack(&unbind(&x, 1).unwrap(), 1).unwrap().to_vec::<f32>(), x.to_vec::<f32>());
}

#[test]
fn an_empty_vector_joins_tensors_of_any_rank() {
    let out = cat(&[range(&[0]), range(&[2, 2])], 1).unwrap();
    assert_eq!(out.shape()[..], [2, 2]);
    let error = cat(&[range(&[2, 2]), range(&[1, 3])], 1).unwrap_err().to_string();
    assert!(
        error
            .starts_with("Sizes of tensors must match except in dimension 1. Expected size 2 but got size 1")
    );
}

#[test]
fn flip_reverses_and_roll_wraps_around() {
    let x = range(&[2, 3]);
    assert_eq!(copies::flip(&x, &[1]).unwrap().to_vec::<f32>(), [2.0, 1.0, 0.0, 5.0, 4.0, 3.0]);
    assert_eq!(copies::roll(&x, &[1], &[1]).unwrap().to_vec::<f32>(), [2.0, 0.0, 1.0, 5.0, 3.0, 4.0]);
    assert_eq!(copies::roll(&x, &[-1], &[]).unwrap().to_vec::<f32>(), [1.0, 2.0, 3.0, 4.0, 5.0, 0.0]);
}

#[test]
fn narrowing_past_the_end_says_by_how_much() {
    let error = narrow(&range(&[3]), 0, 2, 2).unwrap_err().to_string();
    assert_eq!(error, "start (2) + length (2) exceeds dimension size (3).");
}
