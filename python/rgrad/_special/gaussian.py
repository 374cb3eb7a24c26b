"""The distribution function of the standard normal distribution, its logarithm and its inverse."""

from __future__ import annotations

import math
from typing import Any

import rgrad
from rgrad import _C
from rgrad.autograd._rules import Elementwise

from .common import elementwise

Tensor = _C.Tensor

_ROOT_HALF = math.sqrt(0.5)
_ROOT_TWO_PI = math.sqrt(2 * math.pi)


def _tail(square: Tensor, terms: int) -> Tensor:
    """``1 - 1/t + 3/t² - 15/t³ + …``, the asymptotic series of the error function (A&S 7.1.23) with t = 2 x²."""
    total, inverse = rgrad.ones_like(square), 1 / square
    for k in range(terms, 0, -1):
        total = 1 - total * inverse * (2 * k - 1)
    return total


def _exp_square(x: Tensor) -> Tensor:
    """``exp(x²)``, where the square is exact: its rounding would be a relative error of x² units."""
    shift = 2.0**27 + 1 if x.dtype == rgrad.float64 else 2.0**12 + 1
    scaled = x * shift
    high = scaled - (scaled - x)
    low = x - high
    return (high * high).exp() * (low * (high + x)).exp()


class _Erfcx(Elementwise):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        # From here on the series is exact to the last bits.
        start, terms = (10.0, 13) if x.dtype == rgrad.float64 else (5.0, 12)
        far = x.clamp(min=start)
        series = _tail(2 * far * far, terms) / (far * math.sqrt(math.pi))
        near = x.clamp(min=-30.0, max=start)
        made = rgrad.where(x > start, series, _exp_square(near) * near.erfc())
        ctx.save_for_backward(x, made)
        return made

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        x, y = ctx.saved_tensors
        return g * (2 * x * erfcx(x) - 2 / math.sqrt(math.pi))


@elementwise
def erfcx(input: Tensor) -> Tensor:
    """The scaled complementary error function ``exp(x²) erfc(x)``.

    Args:
        input: numbers of any shape.
        out: receives the result.
    """
    return _Erfcx.apply(input)


@elementwise
def ndtr(input: Tensor) -> Tensor:
    """The probability of a standard normal number up to x: ``erfc(-x / √2) / 2``.

    Args:
        input: numbers of any shape.
        out: receives the result.
    """
    return (input * -_ROOT_HALF).erfc() / 2


class _LogNdtr(Elementwise):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        # Below, the complementary error function would underflow.
        start = -35.0 if x.dtype == rgrad.float64 else -12.0
        above = (-(x * _ROOT_HALF).erfc() / 2).log1p()
        below = ((x.clamp(min=start) * -_ROOT_HALF).erfc() / 2).log()
        far = x.clamp(max=start)
        square = far * far
        series = _tail(square, 9).log() - square / 2 - (-far * _ROOT_TWO_PI).log()
        ctx.save_for_backward(x)
        return rgrad.where(x > -1, above, rgrad.where(x < start, series, below))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        # Above, the divisor would overflow, and its derivative times zero is no number.
        end = 37.0 if x.dtype == rgrad.float64 else 12.0
        return g * math.sqrt(2 / math.pi) / erfcx(x.clamp(max=end) * -_ROOT_HALF)


@elementwise
def log_ndtr(input: Tensor) -> Tensor:
    """The logarithm of `ndtr`, which does not underflow.

    Args:
        input: numbers of any shape.
        out: receives the result.
    """
    return _LogNdtr.apply(input)


class _Ndtri(Elementwise):
    """In the tails by Newton's method for ``log_ndtr(x) = log p``, which is concave: from below, no step is too far."""

    @staticmethod
    def forward(ctx: Any, p: Tensor) -> Tensor:
        made = (2 * p - 1).erfinv() * math.sqrt(2)
        tail = ((p > 0) & (p < 0.1)) | ((p > 0.9) & (p < 1))
        if bool(tail.any()):
            far = p[tail]
            goal = rgrad.minimum(far, 1 - far).log()
            x = -(-2 * goal).sqrt()
            for _ in range(7):
                slope = math.sqrt(2 / math.pi) / _Erfcx.apply(x * -_ROOT_HALF)
                x = x - (_LogNdtr.apply(x) - goal) / slope
            made[tail] = rgrad.where(far < 0.5, x, -x)
        made = made.masked_fill(p == 0, -math.inf).masked_fill(p == 1, math.inf)
        made = made.masked_fill((p < 0) | (p > 1) | p.isnan(), math.nan)
        ctx.save_for_backward(p)
        return made

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (p,) = ctx.saved_tensors
        return g * _ROOT_TWO_PI * (ndtri(p).square() / 2).exp()


@elementwise
def ndtri(input: Tensor) -> Tensor:
    """The inverse of `ndtr`: the x up to which a standard normal number lies with probability p.

    Args:
        input: probabilities, of any shape.
        out: receives the result.
    """
    return _Ndtri.apply(input)
