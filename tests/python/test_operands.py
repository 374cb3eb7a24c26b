"""Operands of pointwise operations that are read in their own ways, as dense operands with the same elements."""

import pytest

import rgrad as torch

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def numbers(dtype, *shape):
    return (torch.arange(float(torch.Size(shape).numel())) % 37 - 11).view(shape).to(dtype)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.int64])
@pytest.mark.parametrize("other", [torch.float32, torch.float16, torch.int64])
@pytest.mark.parametrize(
    ("shape", "column"),
    [
        ((5, 300), (5, 1)),
        ((3, 7, 257), (3, 7, 1)),
        ((4, 3, 20, 30), (4, 1, 1, 1)),
        # The same column for each picture, and rows longer than a block.
        ((4, 3, 20, 30), (1, 3, 1, 1)),
        ((3, 9000), (3, 1)),
        ((1, 70_000), (1, 1)),
    ],
)
def test_a_column_along_long_rows_gives_what_its_copies_give(dtype, other, shape, column):
    a, c = numbers(dtype, *shape), numbers(other, *column)
    copies = c.expand(shape).contiguous()
    for f in (torch.sub, torch.lt, lambda x, y: torch.where(x > y, x, y), lambda x, y: y * x + y):
        assert torch.equal(f(a, c), f(a, copies))
    # Two columns, one of them reversed.
    assert torch.equal(a * c - c.flip(0).expand(column), a * copies - c.flip(0).expand(shape).contiguous())


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_column_with_gaps_is_read_where_it_lies(dtype):
    a, wide = numbers(dtype, 40, 300), numbers(dtype, 40, 6)
    for c in (wide[:, 2:3], wide.flip(0)[:, 5:], wide.t()[:1, :].t()):
        assert torch.equal(a - c, a - c.expand(40, 300).contiguous())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("n", [1, 65, 1000, 3001, 100_001])
def test_dense_results_of_half_types_are_rounded_in_place(dtype, n):
    a, b = numbers(dtype, n) / 7, numbers(dtype, n + 1)[1:] / 3
    expected = (a.float() * b.float()).to(dtype)
    assert torch.equal(a * b, expected)
    # Into memory that exists, with gaps, and over an operand.
    out = torch.zeros(n, dtype=dtype)
    spread = torch.zeros(2 * n, dtype=dtype)
    torch.mul(a, b, out=out)
    torch.mul(a, b, out=spread[::2])
    assert torch.equal(out, expected) and torch.equal(spread[::2], expected) and not spread[1::2].any()
    assert torch.equal(a.clone().mul_(b), expected)
    square = a.clone()
    square.mul_(square)
    assert torch.equal(square, (a.float() * a.float()).to(dtype))
    # From operands of other types.
    assert torch.equal(torch.add(a, 3), (a.float() + 3).to(dtype))
