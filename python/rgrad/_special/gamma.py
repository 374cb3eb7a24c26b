"""Entropies, and functions about the gamma function."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

import rgrad
from rgrad import _C
from rgrad._linalg.common import no_derivative
from rgrad._out import refuse_partial_overlap, write_out
from rgrad.autograd._rules import Elementwise

from . import integrals
from .common import elementwise, in_place

Tensor = _C.Tensor


class _Entropy(Elementwise):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return (-x * x.log()).masked_fill(x == 0, 0).masked_fill(x < 0, -math.inf)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return g * (-1 - x.log())


@elementwise
def entr(input: Tensor) -> Tensor:
    """The term of an entropy: ``-x log x``, 0 at 0 and -∞ below.

    Args:
        input: numbers of any shape.
        out: receives the result.
    """
    return _Entropy.apply(input)


def multigammaln(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension p, without its constant ``C``.

    ``log Γ_p(a) = p (p - 1) / 4 log π + Σ log Γ(a - i / 2)`` over i from 0 to p - 1.

    Args:
        input: a, of any shape.
        p: the dimension, at least 1.
        out: receives the result.
    """
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    return _multigammaln(input, p=p, out=out)


@elementwise
def _multigammaln(input: Tensor, p: int) -> Tensor:
    return integrals.mvlgamma(input, p)


mvlgamma = multigammaln


# The Hurwitz zeta function.


@functools.cache
def _euler_maclaurin(count: int) -> list[float]:
    """``B₂ⱼ / (2j)!``, with the Bernoulli numbers B."""
    numbers = [Fraction(1)]
    for m in range(1, 2 * count + 1):
        numbers.append(-sum((math.comb(m + 1, k) * numbers[k] for k in range(m)), Fraction(0)) / (m + 1))
    return [float(numbers[2 * j] / math.factorial(2 * j)) for j in range(1, count + 1)]


def _hurwitz(s: Tensor, q: Tensor) -> Tensor:
    """``Σ (q + k)^-s`` for q > 0 and s > 1: twelve terms, and the rest by Euler and Maclaurin (A&S 23.1.30)."""
    terms = 12
    end = q + terms
    power = end**-s
    total = rgrad.zeros_like(power)
    factor, square = s / end, end * end
    parts = [power * end / (s - 1), power / 2]
    for j, coefficient in enumerate(_euler_maclaurin(12), 1):
        parts.append((coefficient * factor * power).masked_fill(power == 0, 0))
        factor = factor * (s + 2 * j - 1) * (s + 2 * j) / square
    parts[:0] = [(q + k) ** -s for k in range(terms)]
    for part in reversed(parts):
        total = total + part
    return total


class _Zeta(Elementwise):
    """For q < 0 and whole s the terms on either side of 0 are two sums of their own."""

    @staticmethod
    def forward(ctx: Any, s: Tensor, q: Tensor) -> Tensor:
        ctx.save_for_backward(s, q)
        order = s.masked_fill(~(s > 1), 2)
        made = _hurwitz(order, q.clamp(min=0).masked_fill(q <= 0, 1))
        if bool((q < 0).any()):
            whole = (-q).clamp(min=0).floor()
            beside = (-q - whole).masked_fill(q >= 0, 0.5)
            odd = (order / 2).floor() * 2 != order
            below = _hurwitz(order, beside) - _hurwitz(order, beside + whole + 1)
            left = rgrad.where(odd, -below, below) + _hurwitz(order, 1 - beside)
            made = rgrad.where(q < 0, left, made)
        made = made.masked_fill((q < 0) & (order.floor() != order), math.nan)
        made = made.masked_fill((q <= 0) & (q.floor() == q), math.inf)
        made = made.masked_fill(s == 1, math.inf).masked_fill((s < 1) | s.isnan() | q.isnan(), math.nan)
        return made

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        s, q = ctx.saved_tensors
        if ctx.needs_input_grad[0]:
            no_derivative("zeta")
        return None, -g * s * _Zeta.apply(s + 1, q)


@elementwise
def zeta(input: Tensor, other: Tensor) -> Tensor:
    """The Hurwitz zeta function ``Σ (q + k)^-x`` over k from 0 on. Its derivative is that by q.

    Args:
        input: x, a tensor or a number; infinite at 1 and NaN below.
        other: q, of a shape to which that of x broadcasts.
        out: receives the result.
    """
    return _Zeta.apply(*rgrad.broadcast_tensors(input, other))


class _Trigamma(Elementwise):
    """``ζ(2, x)`` as PyTorch computes it, with 0 at infinity and finite values at the poles below 0."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dtype: Any) -> Tensor:
        ctx.save_for_backward(x)
        made = _Zeta.apply(rgrad.full_like(x, 2), x).masked_fill(x == math.inf, 0)
        # There the reflection formula (A&S 6.4.7) gives what the sine of a rounded multiple of π leaves.
        poles = (x < 0) & (x.floor() == x)
        return rgrad.where(poles, (math.pi / (math.pi * x.to(dtype)).sin()).square().to(x.dtype), made)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return -2 * g * _Zeta.apply(rgrad.full_like(x, 3), x), None


def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of `digamma`: ``(-1)^(n + 1) n! ζ(n + 1, x)``.

    Args:
        n: the order, not negative.
        input: x, of any shape.
        out: receives the result.
    """
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    if out is not None:
        refuse_partial_overlap(out, input)
    made = _polygamma(input, n=n, dtype=input.dtype if input.is_floating_point() else rgrad.get_default_dtype())
    return made if out is None else write_out("polygamma", made, out)


@elementwise
def _polygamma(input: Tensor, n: int, dtype: Any) -> Tensor:
    if n == 0:
        return input.digamma()
    if n == 1:
        return _Trigamma.apply(input, dtype)
    # Beyond, the factorial is no float64, and neither is the result but for large numbers.
    size = math.factorial(n) if n < 171 else math.inf
    return (size if n % 2 else -size) * _Zeta.apply(rgrad.full_like(input, n + 1), input)


# The incomplete gamma functions.


def _incomplete(function: Any, name: str, input: Tensor, other: Tensor, out: Tensor | None) -> Tensor:
    for place, (argument, value) in enumerate((("input", input), ("other", other)), 1):
        if not isinstance(value, Tensor):
            found = type(value).__name__
            raise TypeError(f"{name}(): argument '{argument}' (position {place}) must be Tensor, not {found}")
    dtype = rgrad.result_type(input, other)
    if not dtype.is_floating_point:
        raise NotImplementedError(f"\"{name}\" not implemented for '{str(dtype).removeprefix('torch.')}'")
    if out is not None:
        refuse_partial_overlap(out, input, other)
    made = function(input.to(dtype), other.to(dtype))
    return made if out is None else write_out(name, made, out)


def gammainc(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The regularized lower incomplete gamma function: the share of ``∫ t^(a-1) exp(-t) dt`` up to x.

    Args:
        input: a, of a floating-point dtype, not negative.
        other: x, not negative; the shapes broadcast.
        out: receives the result.
    """
    return _incomplete(integrals.gammainc, "igamma", input, other, out)


def gammaincc(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The regularized upper incomplete gamma function, ``1 - gammainc(a, x)``.

    Args:
        input: a, of a floating-point dtype, not negative.
        other: x, not negative; the shapes broadcast.
        out: receives the result.
    """
    return _incomplete(integrals.gammaincc, "igammac", input, other, out)


igamma, igammac = gammainc, gammaincc

igamma_, igammac_, mvlgamma_ = in_place(gammainc), in_place(gammaincc), in_place(multigammaln)
