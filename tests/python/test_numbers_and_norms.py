"""`nextafter`, `frexp`, `renorm`, `sum_to_size`, `pinverse`."""

from __future__ import annotations

import math

import pytest

import rgrad as torch

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
VALUES = [0.0, -0.0, 1.0, -1.0, 2.0, -3.5, 1e-45, -1e-45, 1e-40, 5e-324, 3e38, math.inf, -math.inf, math.nan]


def same(a: float, b: float) -> bool:
    return a == b and math.copysign(1, a) == math.copysign(1, b) or (math.isnan(a) and math.isnan(b))


def bits(t: torch.Tensor) -> list[int]:
    return t.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[t.element_size()]).tolist()


def test_nextafter_is_that_of_the_c_library_in_double_precision():
    pairs = [(a, b) for a in VALUES for b in VALUES]
    a, b = (torch.tensor(x, dtype=torch.float64) for x in zip(*pairs, strict=True))
    found = torch.nextafter(a, b).tolist()
    assert all(same(f, math.nextafter(*p)) for f, p in zip(found, pairs, strict=True))


@pytest.mark.parametrize("dtype", FLOATS)
def test_nextafter_moves_the_bits_by_one(dtype: torch.dtype):
    one, up = torch.ones(1, dtype=dtype), torch.full((1,), math.inf, dtype=dtype)
    assert bits(torch.nextafter(one, up)) == [bits(one)[0] + 1]
    assert bits(torch.nextafter(one, -up)) == [bits(one)[0] - 1]
    assert bits(torch.nextafter(one * 0, up)) == [1]
    largest = torch.finfo(dtype).max
    assert torch.nextafter(up, one).item() == largest
    assert torch.nextafter(torch.full((1,), largest, dtype=dtype), up).item() == math.inf


def test_nextafter_promotes_and_broadcasts_and_takes_no_integers():
    assert torch.nextafter(torch.ones(2, 1), torch.ones(3, dtype=torch.float64)).dtype == torch.float64
    assert torch.nextafter(torch.ones(2, 1), torch.ones(3)).shape == (2, 3)
    assert torch.tensor([1.0]).nextafter_(torch.tensor([2.0])).item() == 1 + 2**-23
    with pytest.raises(NotImplementedError, match="\"nextafter_cpu\" not implemented for 'Long'"):
        torch.nextafter(torch.tensor([1]), torch.tensor([2]))


def test_the_gradient_of_nextafter_goes_to_the_number_that_moves():
    x, y = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([2.0, 2.0], requires_grad=True)
    out = torch.nextafter(x, y)
    assert out.grad_fn.name() == "NextafterBackward0"
    out.backward(torch.tensor([3.0, 3.0]))
    assert (x.grad.tolist(), y.grad.tolist()) == ([3, 0], [0, 0])


def test_frexp_is_that_of_the_c_library():
    mantissa, exponent = torch.frexp(torch.tensor(VALUES, dtype=torch.float64))
    for v, m, e in zip(VALUES, mantissa.tolist(), exponent.tolist(), strict=True):
        expected = math.frexp(v)
        assert same(m, expected[0]) and e == expected[1], v


@pytest.mark.parametrize("dtype", FLOATS)
def test_frexp_takes_numbers_apart_that_ldexp_puts_together(dtype: torch.dtype):
    x = torch.tensor([0.0, 1.0, -3.5, 0.5, 100.0, torch.finfo(dtype).tiny, torch.finfo(dtype).max], dtype=dtype)
    parts = x.frexp()
    assert (parts.mantissa.dtype, parts.exponent.dtype) == (dtype, torch.int32)
    whole = [math.ldexp(m, e) for m, e in zip(parts.mantissa.tolist(), parts.exponent.tolist(), strict=True)]
    assert whole == x.tolist()


def test_frexp_has_a_gradient_by_its_mantissa_and_takes_no_integers():
    x = torch.tensor([3.0, 0.0], requires_grad=True)
    mantissa, exponent = torch.frexp(x)
    assert (mantissa.grad_fn.name(), exponent.requires_grad) == ("FrexpBackward0", False)
    mantissa.sum().backward()
    assert x.grad.tolist() == [0.25, 1]
    with pytest.raises(RuntimeError, match=r"torch.frexp\(\) only supports floating-point dtypes"):
        torch.frexp(torch.tensor([1]))


def test_renorm_scales_down_what_is_too_large_and_nothing_else():
    x = torch.arange(12.0).reshape(3, 4)
    out = torch.renorm(x, 2, 0, 5.0)
    assert torch.equal(out[0], x[0])
    torch.testing.assert_close(torch.linalg.vector_norm(out[1:], dim=1), torch.full((2,), 5.0))
    torch.testing.assert_close(x.renorm(1, -1, 5).sum(0), torch.tensor([5.0, 5, 5, 5]))
    torch.testing.assert_close(x.clone().renorm_(math.inf, 0, 3).amax(1), torch.tensor([3.0, 3, 3]))
    half = x.half().renorm(2, 0, 3)
    assert half[1].tolist() == [1.0693359375, 1.3369140625, 1.603515625, 1.87109375]


@pytest.mark.parametrize("p", [1, 2, 3, 1.5])
def test_renorm_has_first_and_second_derivatives(p: float):
    x = torch.tensor([[0.3, -1.2, 0.8], [2.0, 0.1, -0.7], [0.1, 0.2, -0.1]], dtype=torch.float64, requires_grad=True)
    for dim in (0, 1):
        assert torch.autograd.gradcheck(lambda x, dim=dim: torch.renorm(x, p, dim, 1.0), x, atol=1e-4)
        assert torch.autograd.gradgradcheck(lambda x, dim=dim: torch.renorm(x, p, dim, 1.0), x, atol=1e-4)
    node = torch.renorm(x, p, -1, 1).grad_fn
    assert node.name() == "RenormBackward0"
    assert (node._saved_p, node._saved_dim, node._saved_maxnorm) == (p, 2**64 - 1, 1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0, 3), "renorm: non-positive-norm not supported"),
        ((2, 0, -3), "renorm: expected maxnorm to be >= 0 but got -3"),
    ],
)
def test_renorm_refuses_what_is_no_norm(arguments: tuple, message: str):
    with pytest.raises(RuntimeError, match=message):
        torch.ones(2, 3).renorm(*arguments)
    with pytest.raises(RuntimeError, match="renorm: input needs at least 2 dimensions, got 1 dimensions"):
        torch.ones(2).renorm(2, 0, 3)


def test_sum_to_size_sums_what_broadcasting_would_repeat():
    x = torch.arange(12.0).reshape(3, 4)
    assert x.sum_to_size(1, 4).tolist() == [[12, 15, 18, 21]]
    assert x.sum_to_size((3, 1)).tolist() == [[6], [22], [38]]
    assert x.sum_to_size(4).shape == (4,) and x.sum_to_size(()).item() == 66
    assert x.sum_to_size(3, 4) is x
    assert torch.tensor(1, dtype=torch.int32).sum_to_size(()).dtype == torch.int64
    assert x.bool().sum_to_size(1, 4).dtype == torch.int64
    for size in ((2, 4), (1, 3, 4), (-1, 4)):
        with pytest.raises(RuntimeError) as error:
            x.sum_to_size(size)
        assert str(error.value) == f"size {{{list(size)}}} is not expandable to size {{[3, 4]}}."


def test_sum_to_size_has_the_nodes_of_a_sum():
    x = torch.ones(3, 4, requires_grad=True)
    assert x.sum_to_size(1, 4).grad_fn.name() == "SumBackward1"
    out = x.sum_to_size(4)
    assert out.grad_fn.name() == "ViewBackward0"
    out.backward(torch.tensor([1.0, 2, 3, 4]))
    assert x.grad.tolist() == [[1, 2, 3, 4]] * 3


def test_pinverse_is_pinv_under_its_older_name():
    x = torch.tensor([[1.0, 2], [3, 5], [0, 1]], dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(torch.pinverse(x), torch.linalg.pinv(x))
    torch.testing.assert_close(x.pinverse(1e-3) @ x, torch.eye(2, dtype=torch.float64))
    assert torch.autograd.gradcheck(torch.pinverse, x)
    with pytest.raises(RuntimeError) as error:
        torch.pinverse(torch.tensor([[1]]))
    assert str(error.value).startswith(
        "linalg.pinv(Long{[1, 1]}): expected a tensor with 2 or more dimensions of float"
    )


def test_a_gpu_takes_numbers_apart_as_the_cpu_does():
    if not torch.gpu.is_available():
        pytest.skip("needs a GPU")
    a = torch.tensor([0.0, -0.0, 1.0, -3.5, math.inf, math.nan, 1e-45, 1e38, 1e-40])
    b = torch.tensor([1.0, -1.0, math.inf, 0.0, 1.0, 1.0, 0.0, -1.0, 1.0])
    for x, y in ((a, b), (a.half(), b.half()), (a.bfloat16(), b.bfloat16())):
        assert bits(torch.nextafter(x.to("gpu"), y.to("gpu")).cpu()) == bits(torch.nextafter(x, y))
        there, here = torch.frexp(x.to("gpu")), torch.frexp(x)
        assert bits(there.mantissa.cpu()) == bits(here.mantissa)
        assert there.exponent.cpu().tolist() == here.exponent.tolist()
    m = torch.arange(12.0).reshape(3, 4)
    torch.testing.assert_close(m.to("gpu").renorm(2, 0, 5).cpu(), m.renorm(2, 0, 5))
    assert m.to("gpu").sum_to_size(1, 4).cpu().tolist() == m.sum_to_size(1, 4).tolist()


def test_a_node_shows_its_integers_without_a_sign():
    x = torch.ones(3, 3, requires_grad=True)
    assert x.tril(-1).grad_fn._saved_diagonal == 2**64 - 1
    assert x.roll((1, -1), (0, -1)).grad_fn._saved_dims == (0, 2**64 - 1)
    assert (x**-1).grad_fn._saved_exponent == -1


@pytest.mark.parametrize("exponent", [4, -2, -0.5, 0.5, 3, -1, 2])
def test_common_powers_and_their_derivatives_are_those_of_the_general_power(exponent):
    x = torch.tensor([0.0, 0.25, 1.5, 30.0, math.inf], dtype=torch.float64, requires_grad=True)
    # As the exponents are a tensor, this is the general power.
    general = x ** torch.full_like(x, exponent)
    common = x**exponent
    assert common.grad_fn._saved_exponent == exponent
    torch.testing.assert_close(common, general, rtol=1e-15, atol=0)
    (slope,) = torch.autograd.grad(common.sum(), x, create_graph=True)
    (wanted,) = torch.autograd.grad(general.sum(), x, create_graph=True)
    torch.testing.assert_close(slope, wanted, rtol=1e-15, atol=0)
    inner = slice(1, 4)  # derivatives of the second order are products of 0 and infinity at the ends
    found = [torch.autograd.grad(s.sum(), x, retain_graph=True)[0][inner] for s in (slope, wanted)]
    torch.testing.assert_close(*found, rtol=1e-14, atol=0)


@pytest.mark.parametrize("dim", [0, 1, -2])
def test_a_norm_over_all_dimensions_but_one_keeps_that_one(dim):
    v = torch.arange(24.0, dtype=torch.float64).reshape(2, 3, 4) - 10
    rest = tuple(d for d in range(3) if d != dim % 3)
    for order in (2, 3):
        expected = torch.linalg.vector_norm(v, order, rest, keepdim=True)
        assert torch.equal(torch.norm_except_dim(v, order, dim), expected)
    x = v.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda t: torch.norm_except_dim(t, 2, dim), (x,))


def test_a_norm_but_one_of_vectors_and_of_everything():
    v = torch.tensor([3.0, -4.0])
    assert torch.norm_except_dim(v).tolist() == [3.0, 4.0] and torch.norm_except_dim(v, 2, -1).item() == 5.0
    with pytest.raises(IndexError, match="Dimension specified as 0 but tensor has no dimensions"):
        torch.norm_except_dim(torch.tensor(1.0))
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.norm_except_dim(v, 2, 5)
