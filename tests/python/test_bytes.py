"""Bools and integers of 8 bits, which have loops of their own: as the same numbers in int32."""

import operator

import pytest

import rgrad as torch

OPERATIONS = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "and": operator.and_, "or": operator.or_,
    "xor": operator.xor, "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge, "maximum": torch.maximum, "minimum": torch.minimum,
    "logical_and": torch.logical_and, "logical_or": torch.logical_or, "logical_xor": torch.logical_xor,
}  # fmt: skip
NUMBERLESS = ("maximum", "minimum", "logical_and", "logical_or", "logical_xor")


def bytes_of(dtype, seed):
    """All bytes and more, in another order for each seed."""
    values = (torch.arange(1003) * (2 * seed + 3) + seed) % 256
    return values % 2 == 0 if dtype == torch.bool else values.to(dtype)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8])
@pytest.mark.parametrize("other", [torch.bool, torch.uint8, torch.int8])
def test_operations_of_bytes_give_what_those_of_int32_give(name, dtype, other):
    f, a, b = OPERATIONS[name], bytes_of(dtype, 1), bytes_of(other, 2)
    if torch.bool in (dtype, other) and name == "sub":
        with pytest.raises(RuntimeError, match="bool tensor"):
            f(a, b)
        return
    # With strides, and broadcast too.
    for x, y in [(a, b), (a[::2], b[:502]), (a[1:], b[:-1].flip(0)), (a[:1000].view(10, 100), b[:100])]:
        found = f(x, y)
        wide = f(x.int(), y.int())
        assert found.dtype == (torch.promote_types(dtype, other) if wide.dtype == torch.int32 else torch.bool)
        assert torch.equal(found, wide.to(found.dtype))


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in NUMBERLESS])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8])
@pytest.mark.parametrize("number", [0, 1, 7, 127])
def test_numbers_are_operands_of_bytes(name, dtype, number):
    f, a = OPERATIONS[name], bytes_of(dtype, 1)
    for found, wide in [(f(a, number), f(a.int(), number)), (f(number, a), f(number, a.int()))]:
        assert torch.equal(found, wide.to(found.dtype))


def test_numbers_that_no_byte_holds_wrap():
    a = torch.tensor([44, 200], dtype=torch.uint8)
    assert (a == 300).tolist() == [True, False] and (a & 300).tolist() == [44, 8] and (a + 300).tolist() == [88, 244]
    assert (torch.tensor([-1, 57], dtype=torch.int8) > -200).tolist() == [False, True]


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8])
def test_bytes_are_chosen_by_a_mask(dtype):
    mask, a, b = bytes_of(torch.bool, 5), bytes_of(dtype, 1), bytes_of(dtype, 2)
    assert torch.equal(torch.where(mask, a, b), torch.where(mask, a.int(), b.int()).to(dtype))


@pytest.mark.parametrize("name", ["mul", "and", "or", "xor", "eq", "ne", "lt", "ge", "maximum", "logical_xor"])
def test_any_byte_but_zero_is_true_to_operations_of_bools(name):
    odd = (torch.arange(1003) % 5).to(torch.uint8)
    f, other = OPERATIONS[name], bytes_of(torch.bool, 2)
    assert torch.equal(f(odd.view(torch.bool), other).view(torch.uint8), f(odd != 0, other).view(torch.uint8))


def test_results_in_place_and_given_ones_are_those_of_new_memory():
    a, b = bytes_of(torch.uint8, 1), bytes_of(torch.uint8, 2)
    changed, out = a.clone(), torch.empty(1003)
    changed += b
    changed[1:] *= changed[:-1].clone()
    expected = (a.int() + b.int()).to(torch.uint8)
    expected[1:] = (expected[1:].int() * expected[:-1].int()).to(torch.uint8)
    assert torch.equal(changed, expected)
    assert torch.equal(torch.add(a, b, out=out), (a + b).float())
