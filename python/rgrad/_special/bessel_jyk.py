"""Bessel functions of integer order, those that decay, and Airy's function.

Note [Bessel functions]
~~~~~~~~~~~~~~~~~~~~~~~
Formulas are those of Abramowitz and Stegun, Handbook of Mathematical Functions (A&S). J and Y are computed up to 1 by
their power series (9.1.10, 9.1.11), above 25 by Hankel's expansions (9.2.5 to 9.2.10), whose terms fall to exp(-50)
there, and between by Miller's algorithm: the recurrence of J_k (9.1.27), run down from an order where it is nothing,
gives all orders, their sum (9.1.46) the scale, and sums of them (9.1.88) Y. K is the integral of exp(-x cosh t)
cosh(k t) (9.6.24) by the trapezoidal rule, whose error falls exponentially for such integrands (Trefethen and
Weideman: The Exponentially Convergent Trapezoidal Rule, 2014), and below 1 its power series (9.6.11). All need
float64: the recurrence leaves the range of float32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import rgrad
from rgrad import _C
from rgrad._absent import refuse
from rgrad._linalg.common import no_derivative
from rgrad.autograd._rules import Elementwise

from .common import elementwise

Tensor = _C.Tensor

_EULER = 0.5772156649015328606
_FIRST, _LAST = 1.0, 25.0


def _expect_double(name: str, x: Tensor) -> None:
    if x.dtype != rgrad.float64:
        refuse(f"torch.special.{name}", f"{x.device} has no float64, which it is computed in")


@functools.cache
def _hankel(order: int) -> list[float]:
    """``a_k = (4 n² - 1) (4 n² - 9) … / (k! 8^k)``, the coefficients of Hankel's expansions."""
    made = [Fraction(1)]
    for k in range(1, 26):
        made.append(made[-1] * (4 * order * order - (2 * k - 1) ** 2) / (8 * k))
    return [float(a) for a in made]


def _far(order: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """J and Y of an order for large x."""
    a, square = _hankel(order), -1 / (x * x)
    p, q = rgrad.full_like(x, a[24]), rgrad.full_like(x, a[25])
    for k in range(22, -1, -2):
        p, q = a[k] + p * square, a[k + 1] + q * square
    q = q / x
    # The phase is x - π (n / 2 + 1 / 4): of sums of sine and cosine no digits are lost.
    sine, cosine = x.sin(), x.cos()
    sine, cosine = (sine - cosine, sine + cosine) if order == 0 else (-sine - cosine, sine - cosine)
    scale = 1 / (math.pi * x).sqrt()
    return scale * (p * cosine - q * sine), scale * (p * sine + q * cosine)


def _middle(order: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """J and Y of an order for x from 1 to 25: by Miller's algorithm."""
    above, value = rgrad.zeros_like(x), rgrad.full_like(x, 1e-250)
    total = found = rgrad.zeros_like(x)
    sums = rgrad.zeros_like(x)
    lowest = value
    for k in range(80, -1, -1):
        # `value` is J_k but for the scale.
        if k % 2 == 0:
            total = total + value * (1 if k == 0 else 2)
        if k == order:
            found = value
        if k > order and (k - order) % 2 == 0:
            j = (k - order) // 2
            weight = Fraction(k, j * (j + order)) * (-1) ** j
            sums = sums + value * float(weight)
        lowest = value
        if k:
            above, value = value, value * (2 * k) / x - above
    log = (x / 2).log() + _EULER - order
    bessel_y = 2 / math.pi * (log * found - sums)
    if order == 1:
        bessel_y = bessel_y - 2 / math.pi * lowest / x
    return found / total, bessel_y / total


def _near(order: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """J and Y of an order for x up to 1."""
    square = -(x * x) / 4
    j, y = rgrad.zeros_like(x), rgrad.zeros_like(x)
    for k in range(12, -1, -1):
        term = 1 / (math.factorial(k) * math.factorial(k + order))
        j, y = j * square + term, y * square + term * (_harmonic(k) + _harmonic(k + order))
    scale = (x / 2) ** order
    j = j * scale
    y = (2 * ((x / 2).log() + _EULER) * j - scale * y) / math.pi
    return j, y - 2 / (math.pi * x) if order else y


def _harmonic(n: int) -> float:
    return math.fsum(1 / k for k in range(1, n + 1))


def _bessel(order: int, x: Tensor, second: bool) -> Tensor:
    """J, or Y, of an order for x >= 0: Note [Bessel functions]."""
    size = x.abs()
    parts = (
        _near(order, size.clamp(max=_FIRST))[second],
        _middle(order, size.clamp(_FIRST, _LAST))[second],
        _far(order, size.clamp(min=_LAST))[second],
    )
    made = rgrad.where(size <= _FIRST, parts[0], rgrad.where(size <= _LAST, parts[1], parts[2]))
    return made.masked_fill(size == math.inf, 0)


class _BesselJ(Elementwise):
    @staticmethod
    def forward(ctx: Any, x: Tensor, order: int) -> Tensor:
        ctx.save_for_backward(x)
        ctx.order = order
        made = _bessel(order, x, second=False)
        return made * x.sign() if order else made

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        if ctx.order == 0:
            return -g * _BesselJ.apply(x, 1), None
        share = (_BesselJ.apply(x, 1) / x.masked_fill(x == 0, 1)).masked_fill(x == 0, 0.5)
        return g * (_BesselJ.apply(x, 0) - share), None


class _BesselY(Elementwise):
    @staticmethod
    def forward(ctx: Any, x: Tensor, order: int) -> Tensor:
        ctx.save_for_backward(x)
        ctx.order = order
        made = _bessel(order, x, second=True)
        return made.masked_fill(x == 0, -math.inf).masked_fill(x < 0, math.nan)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        if ctx.order == 0:
            return -g * _BesselY.apply(x, 1), None
        return g * (_BesselY.apply(x, 0) - _BesselY.apply(x, 1) / x), None


def _scaled_k(order: int, x: Tensor) -> Tensor:
    """``exp(x) K(x)`` of an order for x > 0."""
    low, high = x.clamp(max=1.0), x.clamp(min=1.0)
    square = low * low / 4
    i, rest = rgrad.zeros_like(low), rgrad.zeros_like(low)
    for k in range(14, -1, -1):
        term = 1 / (math.factorial(k) * math.factorial(k + order))
        i, rest = i * square + term, rest * square + term * (_harmonic(k) + _harmonic(k + order)) / 2
    scale = (low / 2) ** order
    near = scale * (rest - ((low / 2).log() + _EULER) * i)
    near = (1 / low - near if order else near) * low.exp()
    # Up to where the integrand has fallen below the last bit.
    step = ((1 + 40 / high) + ((1 + 40 / high).square() - 1).sqrt()).log() / 40
    far = step / 2
    for n in range(1, 41):
        t = n * step
        half = (t / 2).sinh()
        weight = (-2 * high * half * half).exp() * step
        far = far + (weight * t.cosh() if order else weight)
    return rgrad.where(x < 1, near, far)


class _ScaledK(Elementwise):
    @staticmethod
    def forward(ctx: Any, x: Tensor, order: int) -> Tensor:
        ctx.save_for_backward(x)
        ctx.order = order
        made = _scaled_k(order, x.abs().clamp(max=1e300))
        return made.masked_fill(x == 0, math.inf).masked_fill(x == math.inf, 0).masked_fill(x < 0, math.nan)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        zero, one = _ScaledK.apply(x, 0), _ScaledK.apply(x, 1)
        return g * (zero - one if ctx.order == 0 else one - zero - one / x), None


class _Airy(Elementwise):
    """The integral of ``exp(i (t³ / 3 + x t))``, with t shifted to imaginary c: along it the integrand falls as
    ``exp(-c t²)``, and through the saddle at c² = x it does not oscillate. By the trapezoidal rule: Note [Bessel
    functions]. Far below 0 the asymptotic series (A&S 10.4.60).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        start = -11.5
        y = x.clamp(min=start, max=1e4)
        c = rgrad.where(y >= 1, y.clamp(min=1).sqrt(), (-y).clamp(min=1).rsqrt())
        step = (40 / c).sqrt() / 256
        total = rgrad.full_like(y, 0.5)
        for n in range(1, 257):
            t = n * step
            total = total + (-c * t * t).exp() * (t * (t * t / 3 + y - c * c)).cos()
        near = total * step / math.pi * (c * (c * c / 3 - y)).exp()
        z = (-x).clamp(min=-start)
        xi = 2 / 3 * z * z.sqrt()
        even, odd, coefficient = rgrad.zeros_like(z), rgrad.zeros_like(z), 1.0
        coefficients = list[float]()
        for k in range(20):
            coefficients.append(coefficient)
            coefficient *= (6 * k + 5) * (6 * k + 3) * (6 * k + 1) / (216 * (k + 1) * (2 * k + 1))
        for k in range(18, -1, -2):
            even, odd = coefficients[k] - even / (xi * xi), coefficients[k + 1] - odd / (xi * xi)
        phase = xi + math.pi / 4
        far = (phase.sin() * even - phase.cos() * odd / xi) / (math.pi * z.sqrt()).sqrt()
        made = rgrad.where(x < start, far, near)
        return made.masked_fill(x.abs() == math.inf, 0)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        no_derivative("special_airy_ai")


def _made(name: str, text: str, compute: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """A public function of x."""

    def function(input: Tensor) -> Tensor:
        _expect_double(name, input)
        return compute(input)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{text}

    Args:
        input: numbers of any shape.
        out: receives the result.
    """
    return elementwise(function)


bessel_j0 = _made("bessel_j0", "The Bessel function J of order 0.", lambda x: _BesselJ.apply(x, 0))
bessel_j1 = _made("bessel_j1", "The Bessel function J of order 1.", lambda x: _BesselJ.apply(x, 1))
bessel_y0 = _made("bessel_y0", "The Bessel function Y of order 0; NaN below 0.", lambda x: _BesselY.apply(x, 0))
bessel_y1 = _made("bessel_y1", "The Bessel function Y of order 1; NaN below 0.", lambda x: _BesselY.apply(x, 1))
modified_bessel_k0 = _made(
    "modified_bessel_k0",
    "The modified Bessel function K of order 0; NaN below 0.",
    lambda x: _ScaledK.apply(x, 0) * (-x).exp(),
)
modified_bessel_k1 = _made(
    "modified_bessel_k1",
    "The modified Bessel function K of order 1; NaN below 0.",
    lambda x: _ScaledK.apply(x, 1) * (-x).exp(),
)
scaled_modified_bessel_k0 = _made(
    "scaled_modified_bessel_k0", "``exp(x)`` times the Bessel function K of order 0.", lambda x: _ScaledK.apply(x, 0)
)
scaled_modified_bessel_k1 = _made(
    "scaled_modified_bessel_k1", "``exp(x)`` times the Bessel function K of order 1.", lambda x: _ScaledK.apply(x, 1)
)
airy_ai = _made("airy_ai", "Airy's function Ai. It has no derivative here.", lambda x: _Airy.apply(x))
