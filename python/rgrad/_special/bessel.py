"""Modified Bessel functions of the first kind, of orders 0 and 1."""

from __future__ import annotations

from typing import Any

import rgrad
from rgrad import _C
from rgrad.autograd._rules import Elementwise

from .common import elementwise, in_place
from .integrals import bessel_ie

Tensor = _C.Tensor


class _I0e(Elementwise):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return bessel_ie(0, x.abs())

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return g * (_I1e.apply(x) - x.sign() * _I0e.apply(x))


class _I1e(Elementwise):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sign() * bessel_ie(1, x.abs())

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        # I₁(x) / x is 1/2 at 0.
        y = _I1e.apply(x)
        share = (y / x.masked_fill(x == 0, 1)).masked_fill(x == 0, 0.5)
        return g * (_I0e.apply(x) - x.sign() * y - share)


class _I0(Elementwise):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        size = x.abs()
        return size.exp() * bessel_ie(0, size)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return g * _I1.apply(x)


class _I1(Elementwise):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        size = x.abs()
        return x.sign() * size.exp() * bessel_ie(1, size)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        share = (_I1.apply(x) / x.masked_fill(x == 0, 1)).masked_fill(x == 0, 0.5)
        return g * (_I0.apply(x) - share)


@elementwise
def i0(input: Tensor) -> Tensor:
    """The modified Bessel function of order 0, ``Σ (x²/4)^k / k!²``.

    Args:
        input: numbers of any shape.
        out: receives the result.
    """
    return _I0.apply(input)


@elementwise
def i0e(input: Tensor) -> Tensor:
    """``exp(-|x|) i0(x)``, which does not overflow.

    Args:
        input: numbers of any shape.
        out: receives the result.
    """
    return _I0e.apply(input)


@elementwise
def i1(input: Tensor) -> Tensor:
    """The modified Bessel function of order 1, the derivative of `i0`.

    Args:
        input: numbers of any shape.
        out: receives the result.
    """
    return _I1.apply(input)


@elementwise
def i1e(input: Tensor) -> Tensor:
    """``exp(-|x|) i1(x)``, which does not overflow.

    Args:
        input: numbers of any shape.
        out: receives the result.
    """
    return _I1e.apply(input)


i0_ = in_place(i0)
modified_bessel_i0, modified_bessel_i1 = i0, i1


@elementwise
def spherical_bessel_j0(input: Tensor) -> Tensor:
    """The spherical Bessel function of order 0, ``sin(x) / x``.

    Args:
        input: numbers of any shape.
        out: receives the result.
    """
    plain = (input != 0) & input.isfinite()
    safe = input.masked_fill(~plain, 1)
    ends = rgrad.where(input == 0, 1.0, rgrad.where(input.isnan(), input, 0.0))
    return rgrad.where(plain, safe.sin() / safe, ends)
