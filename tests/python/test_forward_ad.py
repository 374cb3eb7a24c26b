"""Tangents: derivatives in a direction, computed along with values."""

from __future__ import annotations

import pytest

import rgrad as torch
import rgrad.autograd.forward_ad as fwAD


def t(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x * y.sin() + y,
        lambda x, y: (x @ y).exp(),
        lambda x, y: torch.softmax(x + 2 * y, 0).cumsum(0),
        lambda x, y: x.clone().mul_(y)[1:],
        lambda x, y: torch.stack([x, y]).max(0).values,
    ],
)
def test_a_tangent_is_the_product_of_the_jacobian_with_the_tangents_of_the_inputs(function):
    x, y, dx, dy = t(0.3, 1.2, -0.4), t(0.5, -0.7, 2.0), t(1.0, -2.0, 0.5), t(0.25, 3.0, 1.0)
    step = 1e-6
    expected = (function(x + step * dx, y + step * dy) - function(x - step * dx, y - step * dy)) / (2 * step)
    with fwAD.dual_level():
        primal, tangent = fwAD.unpack_dual(function(fwAD.make_dual(x, dx), fwAD.make_dual(y, dy)))
    assert torch.allclose(primal, function(x, y)) and torch.allclose(tangent, expected, rtol=1e-7, atol=1e-8)
    assert not primal.requires_grad and not tangent.requires_grad


def test_other_inputs_may_require_gradients():
    w = t(2.0, 3.0).requires_grad_()
    with fwAD.dual_level():
        dual = fwAD.make_dual(t(1.0, 1.0), t(1.0, 0.5))
        assert fwAD.unpack_dual(dual * w * w).tangent.tolist() == [4.0, 4.5]
        assert fwAD.unpack_dual(w * w).tangent is None
        # A value that requires a gradient itself.
        assert fwAD.unpack_dual(fwAD.make_dual(w, t(1.0, 1.0)) ** 2).tangent.tolist() == [4.0, 6.0]


@pytest.mark.parametrize("draw", ["bernoulli_", "cauchy_", "exponential_", "log_normal_", "normal_", "uniform_"])
def test_numbers_that_are_drawn_do_not_change_with_what_they_replace(draw):
    with fwAD.dual_level():
        dual = fwAD.make_dual(t(0.5, 0.5), t(1.0, 1.0))
        assert fwAD.unpack_dual(getattr(dual, draw)()).tangent.tolist() == [0.0, 0.0]


def test_tangents_end_with_their_level():
    with pytest.raises(RuntimeError, match="no level exists"):
        fwAD.make_dual(t(1.0), t(1.0))
    with fwAD.dual_level():
        dual = fwAD.make_dual(t(1.0), t(1.0))
        with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
            fwAD.enter_dual_level()
    assert fwAD.unpack_dual(dual).tangent is None
    with fwAD.dual_level():
        assert fwAD.unpack_dual(dual).tangent is None
    with pytest.raises(RuntimeError, match="not the last one"):
        fwAD.exit_dual_level()


def test_values_and_tangents_must_fit():
    with fwAD.dual_level():
        with pytest.raises(RuntimeError, match="tangent of the shape and dtype"):
            fwAD.make_dual(t(1.0), t(1.0, 2.0))
        with pytest.raises(RuntimeError, match="tangent of the shape and dtype"):
            fwAD.make_dual(t(1.0), t(1.0).float())
        with pytest.raises(ValueError, match="Expected primal to be floating point"):
            fwAD.make_dual(torch.tensor([1]), torch.tensor([1]))
