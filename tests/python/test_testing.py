"""`testing.assert_close` and `testing.make_tensor`."""

from __future__ import annotations

import numpy as np
import pytest

import rgrad as torch
from rgrad.testing import assert_close, make_tensor

T = torch.tensor


def _message(*args, **kwargs):
    with pytest.raises(AssertionError) as e:
        assert_close(*args, **kwargs)
    return str(e.value)


def test_the_error_tells_the_greatest_differences_and_where_they_are():
    assert _message(T([1.0, 2.0]), T([1.0, 3.0])) == (
        "Tensor-likes are not close!\n\nMismatched elements: 1 / 2 (50.0%)\n"
        "Greatest absolute difference: 1.0 at index (1,) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 0.3333333432674408 at index (1,) (up to 1.3e-06 allowed)"
    )
    assert _message(T([1, 2]), T([1, 3])).startswith("Tensor-likes are not equal!")


def test_numbers_are_named_scalars():
    assert _message(1, 2) == (
        "Scalars are not equal!\n\nExpected 2 but got 1.\nAbsolute difference: 1\nRelative difference: 0.5"
    )


def test_the_error_names_the_item_of_nested_containers():
    found = _message({"a": [1, T([1.0])]}, {"a": [1, T([2.0])]})
    assert found.endswith("\n\nThe failure occurred for item ['a'][1]")


@pytest.mark.parametrize(
    ("actual", "expected", "words"),
    [
        (T([1.0]), T([[1.0]]), "The values for attribute 'shape' do not match: torch.Size([1]) != torch.Size([1, 1])."),
        (T([1.0]), T([1]), "The values for attribute 'dtype' do not match: torch.float32 != torch.int64."),
        ([1, 2], [1], "The length of the sequences mismatch: 2 != 1"),
        (None, 1, "None mismatch: None is not 1"),
        (True, False, "Booleans mismatch: True is not False"),
        (1, 1.0, "The (d)types do not match: <class 'int'> != <class 'float'>."),
    ],
)
def test_what_is_compared_must_be_of_one_kind(actual, expected, words):
    assert _message(actual, expected) == words


def test_a_message_replaces_the_text_or_is_made_of_it():
    assert _message(1, 2, msg="mine") == "mine"
    assert _message(1, 2, msg=lambda text: "before " + text).startswith("before Scalars")


def test_nans_and_infinities_are_close_to_themselves_on_demand():
    nan = float("nan")
    assert_close(T([float("inf"), nan]), T([float("inf"), nan]), equal_nan=True)
    assert "nan at index (0,)" in _message(T([nan]), T([nan]))


def test_one_tolerance_needs_the_other():
    with pytest.raises(ValueError, match="Both 'rtol' and 'atol' must be either specified or omitted"):
        assert_close(1, 1, rtol=0.1)


def test_a_made_tensor_is_as_it_was_asked_for():
    x = make_tensor((4, 4), dtype=torch.float32, device="cpu", noncontiguous=True, requires_grad=True)
    assert x.stride() == (8, 2) and x.is_leaf and x.requires_grad and x.abs().max() <= 9
    assert make_tensor(100, dtype=torch.int64, device="cpu", low=0, high=1).eq(0).all()
    assert make_tensor(100, dtype=torch.int8, device="cpu", low=0, high=2, exclude_zero=True).eq(1).all()
    with pytest.raises(ValueError, match="`low` must be less than `high`, but got 3 >= 2"):
        make_tensor(1, dtype=torch.float32, device="cpu", low=3, high=2)


def test_files_of_the_package_have_the_paths_of_pytorch():
    from rgrad.testing import _comparison, _creation

    assert _comparison.assert_close is assert_close and _creation.make_tensor is make_tensor
    assert assert_close.__module__.endswith("testing._comparison")
    assert make_tensor.__module__.endswith("testing._creation")


def test_tolerances_are_the_widest_of_the_dtypes():
    from rgrad.testing._comparison import default_tolerances, get_tolerances

    assert default_tolerances(torch.float32) == (1.3e-6, 1e-5) and default_tolerances(torch.int64) == (0, 0)
    assert default_tolerances(torch.ones(2), torch.float64, torch.float16) == (1e-3, 1e-5)
    assert default_tolerances(torch.float64, torch.int8, dtype_precisions={torch.int8: (2.0, 3.0)}) == (2, 3)
    with pytest.raises(TypeError, match="Expected a torch.Tensor or a torch.dtype"):
        default_tolerances(1.0)
    assert get_tolerances(torch.float16, rtol=None, atol=None) == (1e-3, 1e-5)
    assert get_tolerances(torch.float16, rtol=1, atol=0) == (1, 0)
    with pytest.raises(ValueError, match=r"got no atol for item \[0\]\['a'\]"):
        get_tolerances(torch.float16, rtol=1, atol=None, id=(0, "a"))


def test_random_numbers_of_a_test_leave_others_as_they_were():
    from rgrad.testing._utils import freeze_rng_state, wrapper_set_seed

    torch.manual_seed(3)
    before = torch.get_rng_state()
    first = wrapper_set_seed(torch.rand, 4)
    with freeze_rng_state():
        torch.rand(5)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, wrapper_set_seed(lambda n: torch.rand(n), n=4))
    torch.manual_seed(42)
    assert torch.equal(first, torch.rand(4))


def test_suites_compare_by_classes_of_pairs_of_their_own():
    from rgrad.testing import _comparison as pairs

    class Text(pairs.Pair):
        def __init__(self, actual, expected, **options):
            self._check_inputs_isinstance(actual, expected, cls=str)
            super().__init__(actual, expected, **options)

        def compare(self):
            if self.actual.lower() != self.expected.lower():
                self._fail(AssertionError, f"{self.actual} is not {self.expected}")

    class Loose(pairs.NumberPair):
        def __init__(self, actual, expected, *, atol_override=0.0, **options):
            super().__init__(actual, expected, **options)
            self.atol = max(self.atol, atol_override)

    kinds = (pairs.NonePair, pairs.BooleanPair, Loose, pairs.TensorLikePair, Text, pairs.ObjectPair)

    def compare(actual, expected, **options):
        return pairs.not_close_error_metas(actual, expected, pair_types=kinds, **options)

    assert not compare(["A", 1.0, None, True, torch.ones(2), {1}], ["a", 1.0, None, True, torch.ones(2), {1}])
    assert not compare(1.0, 1.5, atol_override=1)
    assert not compare([np.float64(1), np.int64(2)], [1.0, 2])
    metas = compare({"x": ("A", 3)}, {"x": ("b", 4)})
    assert [(meta.type, meta.id) for meta in metas] == [(AssertionError, ("x", 0)), (AssertionError, ("x", 1))]
    assert str(metas[0].to_error()) == "A is not b\n\nThe failure occurred for item ['x'][0]"
    assert str(metas[0].to_error("mine")) == "mine"
    assert str(metas[1].to_error(lambda text: text.partition("!")[0])) == "Scalars are not equal"
    pair = pairs.NumberPair(1, 2)
    assert "atol=0" in repr(pair) and "expected=2" in repr(pair)
    with pytest.raises(pairs.UnsupportedInputs):
        pairs.BooleanPair(1, 2, id=())
    with pytest.raises(TypeError, match="No comparison pair was able to handle inputs of type"):
        pairs.not_close_error_metas("a", "b", pair_types=(pairs.NumberPair,))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int64])
def test_made_tensors_stay_below_their_bound_and_within_their_dtype(dtype):
    made = torch.testing.make_tensor(5000, dtype=dtype, device="cpu", low=0, high=2)
    assert ((made >= 0) & (made < 2)).all()
    info = (torch.finfo if dtype.is_floating_point else torch.iinfo)(dtype)
    for low, high in ((2 * int(info.max), 4 * int(info.max)), (-4 * int(info.max), -2 * int(info.max))):
        with pytest.raises(ValueError, match="no value of"):
            torch.testing.make_tensor(dtype=dtype, device="cpu", low=low, high=high)
    if not dtype.is_floating_point and dtype != torch.int64:
        made = torch.testing.make_tensor(9, dtype=dtype, device="cpu", low=info.max, high=info.max + 1)
        assert (made == info.max).all()


def test_the_state_of_random_numbers_is_on_the_cpu_whatever_the_default_device_is():
    with torch.device("meta"):
        state = torch.get_rng_state()
        assert state.device.type == torch.Generator().get_state().device.type == "cpu"
        with torch.random.fork_rng():
            torch.manual_seed(1)
        assert make_tensor(3, dtype=torch.float32, device="cpu", low=0, high=1).device.type == "cpu"
        assert torch.randn(2).device.type == "meta"
    torch.set_rng_state(state)


def test_meta_tensors_are_compared_without_elements():
    assert_close(torch.empty(2, device="meta"), torch.empty(2, device="meta"))
    with pytest.raises(AssertionError, match="shape"):
        assert_close(torch.empty(2, device="meta"), torch.empty(3, device="meta"))


def test_a_made_tensor_is_on_the_default_device_if_no_other_is_given():
    with torch.device("meta"):
        assert make_tensor(2, dtype=torch.float32, device=None).is_meta
    assert make_tensor(2, dtype=torch.float32).device.type == "cpu"
    with pytest.raises(TypeError, match="complex64, of which rgrad has no tensors"):
        make_tensor(2, dtype=torch.complex64)


def test_integers_of_dtypes_that_are_not_promoted_are_compared():
    close, wide = torch.testing.assert_close, (torch.uint16, torch.uint32, torch.uint64)
    for dtype in wide:
        for other in (torch.int64, torch.uint8, *wide):
            close(torch.tensor([3, 4], dtype=other), torch.tensor([3, 4]).to(dtype), check_dtype=False)
            with pytest.raises(AssertionError, match="not equal"):
                close(torch.tensor([3, 5], dtype=other), torch.tensor([3, 4]).to(dtype), check_dtype=False)
    largest = torch.tensor([-1]).view(torch.uint64)
    with pytest.raises(AssertionError, match="not equal"):
        close(largest, torch.tensor([-1]), check_dtype=False)


def test_tensors_of_one_storage_are_aliases():
    t = torch.ones(2, 3)
    assert torch._C._is_alias_of(t, t[1]) and torch._C._is_alias_of(t.t(), t.detach())
    assert not torch._C._is_alias_of(t, t.clone())
