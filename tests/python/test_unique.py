"""Distinct elements and slices."""

from __future__ import annotations

import pytest

import rgrad as torch

MATRIX = torch.tensor([[1, 2], [1, 2], [0, 5], [1, 2], [0, 4]])


def test_distinct_elements_ascend_and_tell_where_they_stood_and_how_often():
    values, inverse, counts = torch.tensor([[3, 1], [2, 3]]).unique(return_inverse=True, return_counts=True)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == ([1, 2, 3], [[2, 0], [1, 2]], [1, 1, 2])


def test_each_nan_is_distinct_and_comes_last():
    values, counts = torch.unique(torch.tensor([float("nan"), 1.0, float("nan"), 1.0]), return_counts=True)
    assert values[0] == 1 and values[1:].isnan().all() and counts.tolist() == [2, 1, 1]


def test_distinct_rows_ascend_from_the_first_column_on():
    values, inverse, counts = torch.unique(MATRIX, dim=0, return_inverse=True, return_counts=True)
    assert values.tolist() == [[0, 4], [0, 5], [1, 2]]
    assert (inverse.tolist(), counts.tolist()) == ([2, 2, 1, 2, 0], [1, 1, 3])
    assert torch.equal(values[inverse], MATRIX)


def test_distinct_columns_lie_in_memory_as_they_were_found():
    assert torch.unique(MATRIX, dim=1).stride() == (1, 5)


def test_runs_keep_their_order():
    x = torch.tensor([1, 1, 2, 2, 3, 1, 1, 2])
    values, inverse, counts = torch.unique_consecutive(x, return_inverse=True, return_counts=True)
    assert values.tolist() == [1, 2, 3, 1, 2]
    assert (inverse.tolist(), counts.tolist()) == ([0, 0, 1, 1, 2, 3, 3, 4], [2, 2, 1, 2, 1])
    assert torch.unique_consecutive(MATRIX, dim=0).tolist() == [[1, 2], [0, 5], [1, 2], [0, 4]]


def test_of_nothing_nothing_is_distinct():
    assert [t.shape for t in torch.unique(torch.tensor([]), return_inverse=True, return_counts=True)] == [(0,)] * 3
    with pytest.raises(RuntimeError, match="There are 0 sized dimensions"):
        torch.unique(torch.empty(3, 0), dim=0)


def test_distinct_elements_have_no_derivative():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    assert x.unique().grad_fn.name() == "Unique2Backward0"
    with pytest.raises(NotImplementedError, match="the derivative for '_unique2' is not implemented."):
        x.unique().sum().backward()
