"""Operands and sums whose elements are repeated in memory, and reversed ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rgrad as torch

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.int64, torch.uint8]


def numbers(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Integers that each dtype has, and whose products it has too."""
    return (torch.arange(math.prod(shape)) % 13).reshape(shape).to(dtype)


def dense(x: torch.Tensor, shape: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(x.double().numpy(), shape)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [(7, 5, 37), (3, 60, 64), (2, 3, 41, 130), (5, 4, 1500), (40, 3, 7)])
def test_rows_and_columns_of_a_batch_are_broadcast(rows: tuple[int, ...], dtype: torch.dtype):
    full = numbers(rows, dtype)
    row = numbers((*rows[:-2], 1, rows[-1]), dtype)
    column = numbers((*rows[:-1], 1), dtype)
    one = numbers((*rows[:-2], 1, 1), dtype)
    for a, b in [(full, row), (row, full), (full, column), (column, full), (row, column), (column, row), (one, full)]:
        wide = dense(a, rows), dense(b, rows)
        assert np.array_equal((a * b).double().numpy(), wide[0] * wide[1])
        assert np.array_equal(torch.maximum(a, b).double().numpy(), np.maximum(*wide))
        assert np.array_equal((a < b).numpy(), wide[0] < wide[1])
    written = torch.zeros(*rows[:-1], rows[-1] + 3, dtype=dtype)[..., 1:-2]
    written.copy_(full)
    written += row
    assert np.array_equal(written.double().numpy(), dense(full, rows) + dense(row, rows))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.uint8, torch.bool])
def test_the_sum_of_an_expanded_tensor_is_that_of_its_copy(dtype: torch.dtype):
    x = numbers((4, 1, 6, 1), dtype)
    wide = x.expand(3, 4, 5, 6, 7)
    for dim in (None, 0, 1, 2, (0, 2), (0, 1, 4), (2, 4), (3, 4)):
        found, wanted = (t.sum(dim=dim, keepdim=True) for t in (wide, wide.contiguous()))
        assert found.dtype == wanted.dtype and torch.equal(found, wanted)
        assert torch.equal(wide.sum(dim=dim, dtype=torch.bool), wide.contiguous().sum(dim=dim, dtype=torch.bool))
        if dtype.is_floating_point:
            assert torch.allclose(wide.mean(dim=dim), wide.contiguous().mean(dim=dim))


@pytest.mark.parametrize("result", [torch.bool, torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16])
def test_the_elements_of_an_expanded_tensor_are_cast_before_they_are_added(result: torch.dtype):
    halves = torch.tensor([[0.5, -0.5], [100.5, 27.0], [0.0, 0.0]])
    for x in (halves, torch.tensor([[1, -1], [100, 27], [0, 0]])):
        wide = x[:, None].expand(3, 5, 2)
        for dim in (1, (1, 2), (0, 1, 2)):
            found, wanted = (t.sum(dim=dim, dtype=result) for t in (wide, wide.contiguous()))
            assert found.dtype == result and torch.equal(found, wanted)


def test_the_sum_of_an_expanded_tensor_keeps_what_is_no_number_and_wraps_around():
    x = torch.tensor([[math.inf], [math.nan], [-math.inf], [0.0]]).expand(4, 9)
    assert str(x.sum(1)) == str(x.contiguous().sum(1))
    most = torch.tensor([2**62 + 3]).expand(7)
    assert most.sum().item() == most.contiguous().sum().item()
    assert torch.ones(1).expand(0).sum().item() == 0.0


def test_the_gradient_of_an_expanded_sum_has_the_shape_of_its_operand():
    x = torch.arange(6.0).reshape(2, 1, 3).requires_grad_()
    (x.expand(2, 4, 3).sum((0, 1)) * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [[[4.0, 8.0, 12.0]]] * 2


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 17, 33, 70, 300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.int64, torch.bfloat16])
def test_rows_are_reversed(size: int, dtype: torch.dtype):
    x = numbers((11, 5, size), dtype)
    for dims in ((2,), (0, 2), (1, 2), (0, 1, 2)):
        assert np.array_equal(x.flip(dims).double().numpy(), np.flip(x.double().numpy(), dims))


def test_a_diagonal_in_einsum_is_not_touched_by_what_is_beside_it():
    x = torch.full((2, 3, 3), math.nan)
    x.diagonal(dim1=1, dim2=2).copy_(torch.arange(6.0).reshape(2, 3))
    assert torch.einsum("bii->bi", x).tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert torch.einsum("bii", x).tolist() == [3.0, 12.0]
    y = torch.ones(2, 2, 2, requires_grad=True)
    torch.einsum("iii->i", y).sum().backward()
    assert y.grad.sum() == 2 and y.grad[0, 0, 0] == 1 and y.grad[1, 1, 1] == 1
