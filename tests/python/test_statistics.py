"""Histograms, covariances and combinations."""

from __future__ import annotations

import pytest

import rgrad as torch

T = torch.tensor


def test_the_highest_bound_of_a_histogram_belongs_to_its_last_interval():
    assert torch.histc(T([0.0, 1.0, 2.0, 3.0, 4.0]), bins=3, min=0, max=3).tolist() == [1, 1, 2]


def test_a_histogram_of_equal_bounds_takes_the_extrema():
    assert T([1.0, 2.0, 1.0, 5.0, 7.0]).histc(5).tolist() == [3, 0, 0, 1, 1]
    assert T([1.0, 1.0]).histc(4).tolist() == [0, 0, 2, 0]


def test_a_histogram_leaves_out_nans_but_not_without_bounds():
    x = T([1.0, float("nan"), 1.0])
    assert torch.histc(x, bins=4, min=0, max=2).tolist() == [0, 0, 2, 0]
    with pytest.raises(RuntimeError, match="is not finite"):
        torch.histc(x, bins=4)


def test_points_without_coordinates_lie_in_no_box():
    hist, edges = torch.histogramdd(torch.ones(3, 0), [])
    assert hist.shape == () and hist.item() == 0 and edges == ()
    assert torch.histogramdd(torch.ones(3, 0), [], density=True).hist.isnan()
    with pytest.raises(RuntimeError, match="should have the same shape"):
        torch.histogramdd(torch.ones(2, 3, 0), [], weight=torch.ones(3))


def test_covariances_count_observations_by_weights():
    x = T([[1.0, 2.0, 4.0], [3.0, 1.0, 0.0]])
    repeated = x.repeat_interleave(T([1, 2, 3]), dim=1)
    torch.testing.assert_close(torch.cov(x, fweights=T([1, 2, 3])), torch.cov(repeated))
    with pytest.raises(RuntimeError, match="fweights cannot be negative"):
        torch.cov(x, fweights=T([1, -2, 3]))


def test_a_covariance_without_freedom_warns():
    with pytest.warns(UserWarning, match=r"cov\(\): degrees of freedom is <= 0"):
        assert torch.cov(T(1.0)).isnan()


def test_a_variable_correlates_fully_with_itself_and_its_opposite():
    c = torch.corrcoef(T([[0.0, 2.0, 5.0], [0.0, -2.0, -5.0]]))
    torch.testing.assert_close(c, T([[1.0, -1.0], [-1.0, 1.0]]))


def test_powers_descend_unless_they_increase():
    assert torch.vander(T([2, 3])).tolist() == [[2, 1], [3, 1]]
    assert torch.vander(T([2, 3]), 3, increasing=True).tolist() == [[1, 2, 4], [1, 3, 9]]
    assert torch.linalg.vander(T([[2, 3]]), N=2).tolist() == [[[1, 2], [1, 3]]]


def test_combinations_are_in_the_order_of_the_elements():
    x = T([1, 2, 3])
    assert torch.combinations(x).tolist() == [[1, 2], [1, 3], [2, 3]]
    assert torch.combinations(x, 2, True).tolist() == [[1, 1], [1, 2], [1, 3], [2, 2], [2, 3], [3, 3]]
    assert torch.combinations(x, 4).shape == (0, 4)


def test_the_diagonal_of_a_tall_matrix_may_wrap():
    x = torch.zeros(7, 2).fill_diagonal_(1, wrap=True)
    assert x.nonzero().tolist() == [[0, 0], [1, 1], [3, 0], [4, 1], [6, 0]]
    assert torch.zeros(3, 3, 3).fill_diagonal_(1).sum() == 3


def test_what_is_sorted_along_an_inner_dimension_has_the_strides_of_a_new_tensor():
    assert torch.zeros(1, 3).sort(-2).values.stride() == (3, 1)
    assert torch.zeros(4, 1, 3).argsort(-2).stride() == (3, 3, 1)


def test_the_one_element_of_a_number_is_among_its_greatest_whatever_their_count():
    values, indices = torch.tensor(5.0).topk(0)
    assert (values.item(), indices.item()) == (5.0, 0)
