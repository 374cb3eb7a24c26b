"""Operations over lists of tensors: each does to every tensor what the operation of its name does to one."""

from __future__ import annotations

import pytest

import rgrad as torch
from rgrad import _foreach

ALL = sorted(name for name in vars(_foreach) if name.startswith("_foreach_"))


def _lists(requires_grad=False):
    a = [torch.tensor([0.5, 0.25]), torch.tensor([[0.75]])]
    b = [torch.tensor([2.0, 3.0]), torch.tensor([[0.5]])]
    return [[t.requires_grad_(requires_grad) for t in ts] for ts in (a, b)]


def _same(got, want):
    assert len(got) == len(want)
    for x, y in zip(got, want, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=0, equal_nan=True)


def test_they_are_all_there_under_torch():
    assert len(ALL) == 91
    for name in ALL:
        assert getattr(torch, name) is getattr(_foreach, name) and getattr(torch, name).__doc__
    assert not hasattr(torch, "_foreach_nothing")


@pytest.mark.parametrize("name", _foreach._UNARY)
def test_of_one_list(name):
    a, _ = _lists()
    want = [getattr(t, name)() for t in a]
    made = getattr(torch, f"_foreach_{name}")(a)
    assert type(made) is tuple
    _same(made, want)
    _same(getattr(torch, f"_foreach_{name}_")(a), want)
    _same(a, want)


_OPERANDS = {
    "number": 2.0,
    "numbers": [2.0, 3.0],
    "tensor": torch.tensor(2.0),
    "tensors": [torch.tensor([2.0, 3.0]), torch.tensor([[0.5]])],
}


@pytest.mark.parametrize("kind", _OPERANDS)
@pytest.mark.parametrize("name", _foreach._BINARY)
def test_of_a_list_and_an_operand(name, kind):
    a, _ = _lists()
    other = _OPERANDS[kind]
    each = other if isinstance(other, list) else [other] * 2
    of_one = {"maximum": lambda t, x: torch.maximum(t, torch.as_tensor(x))}
    of_one["minimum"] = lambda t, x: torch.minimum(t, torch.as_tensor(x))
    call = of_one.get(name, getattr(torch.Tensor, name))
    want = [call(t, x) for t, x in zip(a, each, strict=True)]
    _same(getattr(torch, f"_foreach_{name}")(a, other), want)
    addresses = [t.data_ptr() for t in a]
    _same(getattr(torch, f"_foreach_{name}_")(a, other), want)
    assert [t.data_ptr() for t in a] == addresses
    _same(a, want)


@pytest.mark.parametrize("values", [{}, {"value": 3.0}, {"scalars": [2.0, 3.0]}, {"scalars": torch.tensor([2.0, 3.0])}])
@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_of_three_lists(name, values):
    a, b = _lists()
    given = values.get("scalars", [values.get("value", 1.0)] * 2)
    want = [getattr(t, name)(x, x, value=float(v)) for t, x, v in zip(a, b, given, strict=True)]
    _same(getattr(torch, f"_foreach_{name}")(a, b, b, **values), want)
    _same(getattr(torch, f"_foreach_{name}_")(a, b, b, **values), want)
    _same(a, want)


def test_of_weights_norms_copies_and_products():
    a, b = _lists()
    _same(torch._foreach_lerp(a, b, 0.25), [x.lerp(y, 0.25) for x, y in zip(a, b, strict=True)])
    _same(torch._foreach_lerp(a, b, [0.25, 1.0]), [a[0].lerp(b[0], 0.25), a[1].lerp(b[1], 1.0)])
    _same(torch._foreach_lerp(a, b, b), [x.lerp(y, y) for x, y in zip(a, b, strict=True)])
    _same(torch._foreach_norm(b), [t.norm() for t in b])
    _same(torch._foreach_norm(b, float("inf"), torch.float64), [torch.tensor(3.0).double(), torch.tensor(0.5).double()])
    _same(torch._foreach_powsum(b, 2), [torch.tensor(13.0), torch.tensor(0.25)])
    _same(torch._foreach_max(b), [t.max() for t in b])
    _same(torch._foreach_add(a, b, alpha=2), [x + 2 * y for x, y in zip(a, b, strict=True)])
    _same(torch._foreach_pow(2.0, a), [2.0**t for t in a])
    _same(torch._foreach_mm([b[0][None]], [a[0][:, None]]), [b[0][None] @ a[0][:, None]])
    copies = torch._foreach_clone(a)
    assert copies[0].data_ptr() != a[0].data_ptr()
    _same(torch._foreach_copy_(a, b), b)
    _same(torch._foreach_zero_(a), [t * 0 for t in b])
    _same(copies, _lists()[0])


def test_gradients_go_through():
    a, b = _lists(requires_grad=True)
    total = sum(t.sum() for t in torch._foreach_mul(torch._foreach_exp(a), b))
    total.backward()
    _same([t.grad for t in b], [t.exp().detach() for t in a])


def test_dtypes_are_promoted_and_kept_in_place():
    whole = [torch.tensor([3])]
    assert torch._foreach_div(whole, 2)[0].item() == 1.5 and torch._foreach_add(whole, 1.5)[0].item() == 4.5
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
        torch._foreach_div_(whole, 2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda a, b: torch._foreach_abs([]), RuntimeError, "Tensor list must have at least one tensor."),
        (lambda a, b: torch._foreach_abs([1]), TypeError, "expected Tensor as element 0 in argument 0, but got int"),
        (lambda a, b: torch._foreach_add(a, b[:1]), RuntimeError, "same number of tensors, got 2 and 1"),
        (lambda a, b: torch._foreach_add(a, [1]), RuntimeError, "same number of elements as scalar list"),
        (lambda a, b: torch._foreach_add(a, torch.ones(2)), RuntimeError, "expected to be 0 dim but it has 1"),
        (lambda a, b: torch._foreach_add(a, 1, alpha=2), TypeError, "alpha"),
        (lambda a, b: torch._foreach_mul(a, b, alpha=2), TypeError, "alpha"),
        (lambda a, b: torch._foreach_lerp(a, b[:1], 0.5), RuntimeError, "same number of tensors"),
        (lambda a, b: torch._foreach_addcmul(a, b, b, torch.tensor(2.0)), RuntimeError, "of dimension 1. Got 0"),
    ],
)
def test_lists_that_do_not_fit_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(*_lists())


def test_rows_of_a_tensor_are_no_list_of_tensors():
    with pytest.raises(TypeError, match="must be tuple of Tensors, not Tensor"):
        torch._foreach_abs(torch.ones(2, 2))


def test_what_changes_a_list_returns_that_list():
    for made in (list, tuple):
        tensors = made(_lists()[0])
        assert torch._foreach_add_(tensors, 1) is tensors and torch._foreach_zero_(tensors) is tensors
        assert torch._foreach_copy_(tensors, _lists()[1]) is tensors and torch.foreach.mul_(tensors, 2) is tensors


def test_the_public_operations_on_lists_do_what_those_of_single_tensors_do():
    a, b = _lists()
    _same(torch.foreach.sqrt(b), [t.sqrt() for t in b])
    _same(torch.foreach.add(a, b, alpha=2), [s + 2 * t for s, t in zip(a, b, strict=True)])
    _same(torch.foreach.add(a, 1), [t + 1 for t in a])
    _same(torch.foreach.addcmul(a, b, b, value=[2, 3]), [a[0] + 2 * b[0] * b[0], a[1] + 3 * b[1] * b[1]])
    _same(torch.foreach.pow(2, a), [2**t for t in a])
    _same(torch.foreach.clamp_max(a, 0.5), [t.clamp(max=0.5) for t in a])
    _same(torch.foreach.lerp(a, b, 0.25), [s.lerp(t, 0.25) for s, t in zip(a, b, strict=True)])
    _same(torch.foreach.norm(a, ord=1), [t.abs().sum() for t in a])
    _same(torch.foreach.max(a), [t.max() for t in a])
    with pytest.raises(TypeError):
        torch.foreach.add(a, 2, alpha=1)
