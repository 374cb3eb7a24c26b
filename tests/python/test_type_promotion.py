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
