"""Numbers among integers: PyTorch converts an operand to the common dtype before it computes."""

import numpy as np
import pytest

import rgrad as torch

BYTES = torch.tensor([1, 2, 255], dtype=torch.uint8)


def test_a_number_beyond_bytes_wraps_before_it_is_compared():
    assert (BYTES == -1).tolist() == [False, False, True]
    assert (BYTES > -1).tolist() == [False, False, False]
    assert (BYTES < 256).tolist() == [False, False, False]
    assert (torch.ones(2, dtype=torch.int8) == 257).all()


def test_a_number_beyond_bytes_wraps_before_it_divides():
    assert (BYTES // -1).tolist() == [0, 0, 1]
    assert (BYTES % -3).tolist() == [1, 2, 2]
    assert (-1 // BYTES).tolist() == [255, 127, 1]
    assert torch.fmod(BYTES, -3).tolist() == [1, 2, 2]
    assert torch.div(BYTES, -2, rounding_mode="floor").tolist() == [0, 0, 1]
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        BYTES // 256


def test_a_tensor_without_dimensions_wraps_as_a_number_does():
    assert torch.maximum(BYTES, torch.tensor(-1)).tolist() == [255, 255, 255]
    assert (torch.tensor(-1) == BYTES).tolist() == [False, False, True]


def test_bounds_of_a_clamp_do_not_wrap():
    assert torch.clamp(BYTES, -5, 300).tolist() == [1, 2, 255]
    assert BYTES.clone().clamp_(-1, 3).tolist() == [1, 2, 3]
    with pytest.raises(RuntimeError, match="Clamp max value -1 is outside the representable range of Byte"):
        torch.clamp(BYTES, max=-1)
    with pytest.raises(RuntimeError, match="Clamp min value 300 is outside the representable range of Byte"):
        torch.clamp(BYTES, min=300)


def test_numpys_bool_is_a_float_among_operands_and_a_bool_as_an_element_or_a_flag():
    i = torch.arange(3)
    assert (i + np.bool_(True)).dtype == torch.float32
    assert torch.tensor([np.bool_(True)]).dtype == torch.bool
    assert torch.ones(2, 3).sum(1, keepdim=np.bool_(True)).shape == (2, 1)


@pytest.mark.parametrize(
    ("value", "dtype", "name"),
    [
        (300, torch.uint8, "uint8"),
        ([200], torch.int8, "int8"),
        (2**31, torch.int32, "int32"),
        (1e10, torch.int32, "int32"),
    ],
)
def test_an_element_that_the_dtype_cannot_hold_is_refused(value, dtype, name):
    with pytest.raises(RuntimeError, match=f"^value cannot be converted to type {name} without overflow$"):
        torch.tensor(value, dtype=dtype)


def test_an_integer_beyond_64_bits_is_an_element_of_floats_alone():
    assert torch.tensor(2**63, dtype=torch.float32).item() == 2.0**63
    assert torch.tensor([2**64], dtype=torch.float64).tolist() == [2.0**64]
    for value in (2**63, [1, 2**63], -(2**63) - 1):
        with pytest.raises(ValueError, match="Overflow when unpacking long long"):
            torch.tensor(value)


@pytest.mark.parametrize("operator", ["+=", "-=", "*=", "/=", "//=", "%=", "&=", "<<=", "**="])
def test_an_operator_in_place_names_itself_and_what_it_does_not_take(operator):
    with pytest.raises(TypeError) as error:
        exec(f"x {operator} 'a'", {"x": torch.ones(2)})
    assert f"for {operator}: 'Tensor' and 'str'" in str(error.value)


def test_an_array_on_the_right_of_an_operator_in_place_makes_a_new_tensor():
    x = before = torch.ones(2)
    x += np.ones(2)
    assert x.dtype == torch.float64 and x is not before and before.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (lambda x: torch.mm(x, x, out=x.double()), "Expected out tensor to have dtype float, but got double"),
        (lambda x: torch.max(x, 0, out=(x[0].int(), x[0].long())), "to have dtype float, but got int instead"),
        (lambda x: torch.argmax(x, 0, out=x[0].int()), "to have dtype long int, but got int instead"),
        (lambda x: torch.where(x > 0, x, x, out=x.double()), "Expected out type to be Float but got Double"),
        (lambda x: torch.clamp(x, 0, 1, out=x.double()), "Found dtype Double but expected Float"),
        (lambda x: torch.amax(x, 0, out=x[0].double()), "Expected the dtype for input and out to match"),
        (lambda x: torch.all(x, 0, out=x[0].double()), "all only supports bool tensor for result, got: Double"),
        (lambda x: torch.addmm(x, x, x.double()), "self and mat2 must have the same dtype, but got Float and Double"),
    ],
)
def test_what_is_written_without_a_cast_needs_its_own_dtype(run, words):
    with pytest.raises(RuntimeError, match=words):
        run(torch.ones(2, 2))


def test_sums_are_stored_in_the_dtype_of_the_output():
    x = torch.ones(2, 3)
    assert torch.sum(x, 0, out=torch.empty(3, dtype=torch.int32)).tolist() == [2, 2, 2]
    assert torch.add(x, x, out=x.double()).dtype == torch.float64


def test_a_number_is_copied_and_a_0d_tensor_of_another_dtype_fills():
    x = torch.zeros(2, dtype=torch.int8)
    assert x.copy_(3).tolist() == [3, 3]
    assert x.masked_fill_(torch.tensor([True, False]), torch.tensor(1.5)).tolist() == [1, 3]


@pytest.mark.parametrize("value", [2**63, 2**64 - 1])
def test_integers_of_64_bits_without_a_sign_are_themselves_among_floats(value):
    x = torch.tensor([1.5], dtype=torch.float64)
    for result in (x + value, torch.add(x, value), torch.full_like(x, value), x.clone().fill_(value)):
        assert result.dtype == torch.float64 and result.item() == float(value)
    assert (x < value).item() and (x.clamp(max=value) == x).item()
    assert (torch.tensor([1]) / value).item() > 0
    assert torch.scalar_tensor(value).item() == float(value)


@pytest.mark.parametrize("value", [2**63, 2**64 - 1])
def test_integers_of_64_bits_without_a_sign_are_stored_in_no_integer(value):
    x = torch.tensor([1])
    for store in (
        lambda: x.clone().fill_(value),
        lambda: torch.full((1,), value),
        lambda: torch.where(x > 0, value, x),
        lambda: x.masked_fill(x > 0, value),
        lambda: x**value,
    ):
        with pytest.raises(RuntimeError, match="value cannot be converted to type int64_t without overflow"):
            store()


def test_longer_integers_are_refused():
    x = torch.tensor([1.5])
    for operate in (lambda: x + 2**64, lambda: x**2**64, lambda: torch.add(x, 2**64)):
        with pytest.raises(OverflowError, match="int too big to convert"):
            operate()
    with pytest.raises(TypeError, match="failed to unpack the object at pos 2 with error .Overflow when unpacking"):
        torch.zeros(2, 2**63)
    assert torch.nn.functional.layer_norm(x, (1,), eps=2**64).item() == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", [float, torch.tensor])
def test_numbers_are_rounded_to_a_half_type_before_they_are_compared_or_added(dtype, kind):
    x, number = torch.tensor([0.1, 0.3, 0.7]).to(dtype), kind(0.3)
    assert (x == number).tolist() == [False, True, False] and (number != x).tolist() == [True, False, True]
    assert (x >= number).tolist() == [False, True, True] and (x > number).tolist() == [False, False, True]
    assert (x - number)[1] == 0 and (number - x)[1] == 0 and torch.fmod(x, number)[1] == 0
    assert torch.lt(x.clone(), number).tolist() == [True, False, False] == x.clone().lt_(number).bool().tolist()
    # PyTorch multiplies and divides by the number itself.
    exact = torch.tensor(0.3, dtype=torch.float64)
    assert torch.equal(x * number, (x.double() * exact).to(dtype))
    assert torch.equal(x / number, (x.double() / exact).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_thresholds_of_shrinking_are_rounded_to_a_half_type(dtype):
    x = torch.tensor([0.3, 0.5]).to(dtype)
    assert torch.nn.functional.hardshrink(x, 0.3)[0] == 0 and torch.nn.functional.softshrink(x, 0.3)[0] == 0


@pytest.mark.parametrize(("dtype", "low", "high"), [(torch.uint8, -2, 300), (torch.int8, -200, 300)])
def test_a_limit_outside_of_an_integer_dtype_limits_nothing_or_is_refused(dtype, low, high):
    x = torch.tensor([0, 1, 100], dtype=dtype)
    for limited in (x.clamp_min(low), x.clamp_max(high), x.clone().clamp_min_(low), x.clamp(low, high)):
        assert limited.dtype == dtype and torch.equal(limited, x)
    for refused in (lambda: x.clamp_min(high), lambda: x.clamp_max(low), lambda: x.clone().clamp_max_(low)):
        with pytest.raises(RuntimeError, match="outside the representable range"):
            refused()


def test_limits_and_larger_elements_are_written_to_any_dtype_to_which_they_can_be_cast():
    x, y = torch.tensor([1.0, 5.0]), torch.tensor([3.0, 2.0])
    for result in (torch.max, torch.clamp_min, torch.clamp):
        assert result(x, y, out=torch.empty(0, dtype=torch.float64)).tolist() == [3, 5]
        with pytest.raises(RuntimeError, match="can't be cast"):
            result(x, y, out=torch.empty(0, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="Found dtype Double but expected Float"):
        torch.clamp(x, 2, out=torch.empty(0, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="isposinf does not support non-boolean outputs"):
        torch.isposinf(x, out=torch.empty(0))
    assert torch.max(x, y, out=x) is x and x.tolist() == [3, 5]


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.bool])
def test_what_einsum_sums_in_one_operand_alone_is_int64_and_products_keep_the_dtype(dtype):
    a = torch.full((3, 4), 100).to(dtype)
    n = int(a[0, 0])
    for equation, operands, total in (
        ("ij,k->i", (a, a[0]), 16 * n * n),
        ("ij,ik->", (a, a), 48 * n * n),
        ("ij->i", (a,), 4 * n),
        ("i,->", (a[0], a[0, 0]), 4 * n * n),
    ):
        found = torch.einsum(equation, *operands)
        assert found.dtype == torch.int64 and (found == total).all()
    assert torch.einsum("ij,ij->ij", a, a).dtype == dtype
    if dtype != torch.bool:
        assert torch.einsum("ij,kj->ik", a, a).dtype == dtype
