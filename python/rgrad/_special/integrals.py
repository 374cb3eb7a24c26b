"""Functions that are computed as integrals and series, and derivatives of samples with respect to parameters.

Note [Tail integrals]
~~~~~~~~~~~~~~~~~~~~~
A sample x of a distribution function F(x; a) moves with its parameter by ``dx/da = -(∂F/∂a) / p(x)`` (implicit
reparameterization: Figurnov, Mohamed, Mnih: Implicit Reparameterization Gradients, 2018). ``∂F/∂a`` is the integral of
``p ∂log p/∂a`` up to x, or its negative from x on, as the integral over everything is 0. The gamma and the beta
distribution have log-concave densities in the coordinates ``v = log x`` and ``v = logit x``. Seen from x, away from
the mode, the density falls as ``exp(φ(w))`` over a distance w, where φ is concave with ``φ(0) = 0``, and

    dv/da = ∫_0^∞ s(w) exp(φ(w)) dw,

where s is the derivative of the log-density, with its sign on the lower side. No special function of two arguments is
needed. A bound W with ``φ(W) < -L`` is known in closed form, and Gauss-Legendre nodes on [0, W] give the integral to
about the precision of the dtype. With ``s = 1`` it gives the distribution function itself.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad._C import Tensor
from rgrad.autograd.function import once_differentiable

# So many values at a time: with the nodes, a block stays in the cache.
_BLOCK = 1 << 13


class _Rule:
    """A quadrature: up to where the density has fallen by ``exp(-depth)``, with so many nodes."""

    def __init__(self, depth: float, count: int) -> None:
        self.depth = depth
        import numpy as np

        nodes, weights = np.polynomial.legendre.leggauss(count)
        u = (nodes + 1) / 2
        # Squares of nodes: of two scales of a density that falls slowly, the shorter one is next to 0.
        self.nodes, self.weights = u * u, u * weights

    def fall(self, slope: Tensor, curvature: Tensor) -> Tensor:
        """Where ``slope w + curvature w² / 2`` reaches the depth."""
        return 2 * self.depth / (slope + (slope * slope + 2 * self.depth * curvature).sqrt())

    def integrate(self, integrand: Callable[[Tensor], Tensor], end: Tensor) -> Tensor:
        """The integral from 0 to `end` of a function of a column of distances, for each of the ends."""
        like: Any = {"dtype": end.dtype, "device": end.device}
        nodes, weights = (rgrad.tensor(n, **like).unsqueeze(-1) for n in (self.nodes, self.weights))
        return (integrand(nodes * end) * weights).sum(0) * end


@functools.cache
def _rule(is_double: bool) -> _Rule:
    return _Rule(37.0, 48) if is_double else _Rule(20.0, 24)


def working_dtype(like: Tensor) -> Any:
    """What to compute in: double precision where the device has it."""
    return rgrad.float64 if like.device.type == "cpu" or like.dtype == rgrad.float64 else rgrad.float32


def _blockwise(function: Callable[..., Tensor], *arguments: Tensor) -> Tensor:
    """Applies a function of a rule and of columns to tensors of one shape, of any size, in double precision."""
    # The first one tells the precision that is asked for.
    shape, dtype = arguments[0].shape, arguments[0].dtype
    rule, wide = _rule(dtype == rgrad.float64), working_dtype(arguments[0])
    flat = [a.detach().to(wide).reshape(-1) for a in arguments]
    blocks = [function(rule, *(f[start : start + _BLOCK] for f in flat)) for start in range(0, len(flat[0]), _BLOCK)]
    return (rgrad.cat(blocks) if blocks else flat[0]).reshape(shape).to(dtype)


def _gamma_tail(rule: _Rule, a: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]:
    """The side (1 above the mode, -1 below), the bound, and φ of a gamma distribution seen from ``log x``."""
    side = rgrad.where(x > a, 1.0, -1.0).to(x.dtype)
    # Above, φ(w) = a w - x (e^w - 1) is below -(x - a) w - x w²/2 and below -x (e^w - 1 - w). Below the mode,
    # φ(w) = -a w + x (1 - e^-w) is below -(a - x) w - x w²/3 while w < 1, and below -a w + x.
    above = rgrad.minimum(rule.fall((x - a).abs(), x), 1 + (2 + 2 * rule.depth / x).log())
    near = rule.fall((a - x).abs(), x * (2 / 3))
    below = rgrad.where(near <= 1, near, (rule.depth + x) / a)

    def phi(w: Tensor) -> Tensor:
        return side * a * w - x * (side * w).expm1()

    return side, rgrad.where(side > 0, above, below), phi


def standard_gamma_grad(concentration: Tensor, sample: Tensor) -> Tensor:
    """Derivative of samples of a standard gamma distribution: see Note [Tail integrals]."""

    def block(rule: _Rule, a: Tensor, x: Tensor) -> Tensor:
        side, end, phi = _gamma_tail(rule, a, x)
        offset = side * (x.log() - a.digamma())
        return x * rule.integrate(lambda w: (w + offset) * phi(w).exp(), end)

    return _blockwise(block, concentration, sample)


def _log_gamma_density(a: Tensor, x: Tensor) -> Tensor:
    """``a log x - x - log Γ(a)``, for large a by Stirling's series, whose terms don't cancel."""
    plain = a * x.log() - x - a.lgamma()
    large = a.clamp(min=50.0)
    apart = (x - large) / large
    square = large * large
    series = (1 / 12 - (1 / 360 - 1 / (1260 * square)) / square) / large
    stirling = large * (apart.log1p() - apart) + 0.5 * (large / (2 * math.pi)).log() - series
    return rgrad.where(a > 50.0, stirling, plain)


def _incomplete_gamma(rule: _Rule, a: Tensor, x: Tensor, upper: bool) -> Tensor:
    """A regularized incomplete gamma function; NaN where it is not defined."""
    inside = (a > 0) & (x > 0) & (a < rgrad.inf) & (x < rgrad.inf)
    b, y = a.masked_fill(~inside, 1.0), x.masked_fill(~inside, 1.0)
    side, end, phi = _gamma_tail(rule, b, y)
    tail = _log_gamma_density(b, y).exp() * rule.integrate(lambda w: phi(w).exp(), end)
    found = rgrad.where((side > 0) == upper, tail, 1 - tail)
    # Up to 1 the power series (A&S 6.5.29), as the integral is inexact where a is small: its scales are far apart.
    near = y.clamp(max=1.0)
    series = rgrad.ones_like(near)
    for k in range(20, 0, -1):
        series = 1 + near / (b + k) * series
    series = (b * near.log() - near - (b + 1).lgamma()).exp() * series
    found = rgrad.where(y <= 1, 1 - series if upper else series, found)
    # At the ends of the range everything is on one side.
    none, all_ = (1.0, 0.0) if upper else (0.0, 1.0)
    found = found.masked_fill((x == 0) | (a == rgrad.inf), none).masked_fill((a == 0) | (x == rgrad.inf), all_)
    # Where one argument decides, the other may be NaN.
    unknown = (a.isnan() & (x != 0) & (x != rgrad.inf)) | (x.isnan() & (a != rgrad.inf))
    undefined = (a < 0) | (x < 0) | unknown | ((a == 0) & (x == 0)) | ((a == x) & (a == rgrad.inf))
    return found.masked_fill(undefined, rgrad.nan)


class _GammaInc(rgrad.autograd.Function):
    """P(a, x) or Q(a, x), with its derivatives with respect to both."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, x: Tensor, upper: bool) -> Tensor:
        ctx.save_for_backward(a, x)
        ctx.sign = -1 if upper else 1
        return _blockwise(functools.partial(_incomplete_gamma, upper=upper), a, x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        a, x = ctx.saved_tensors
        density = ctx.sign * (rgrad.xlogy(a - 1, x) - x - a.lgamma()).exp()
        by_a = -grad * density * standard_gamma_grad(a, x) if ctx.needs_input_grad[0] else None
        return by_a, grad * density, None


def gammainc(a: Tensor, x: Tensor) -> Tensor:
    """The regularized lower incomplete gamma function P(a, x), element by element."""
    return _GammaInc.apply(*rgrad.broadcast_tensors(a, x), False)


def gammaincc(a: Tensor, x: Tensor) -> Tensor:
    """The regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x), element by element."""
    return _GammaInc.apply(*rgrad.broadcast_tensors(a, x), True)


def logit_beta_grad(sample: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """Derivative of ``logit x`` of samples x of a beta distribution with respect to alpha: Note [Tail integrals]."""

    def block(rule: _Rule, x: Tensor, a: Tensor, b: Tensor) -> Tensor:
        total = a + b
        flip = x * total > a
        # The other side of the mode is this one of the mirrored distribution.
        p, t = rgrad.where(flip, b, a), rgrad.where(flip, 1 - x, x)
        # φ(w) = -p w - n log(1 - t (1 - e^-w)) is below -(p - n t) w - n t (1 - t) w² / 2e while w < 1.
        near = rule.fall((p - total * t).clamp(min=0), total * t * (1 - t) / math.e)
        end = rgrad.where(near <= 1, near, (rule.depth - total * (-t).log1p()) / p)
        center = a.digamma() - total.digamma()

        def integrand(w: Tensor) -> Tensor:
            shrink = (t * (-w).expm1()).log1p()
            log_value = rgrad.where(flip, (-t).log1p(), t.log() - w) - shrink
            return (center - log_value) * (-p * w - total * shrink).exp()

        found = rule.integrate(integrand, end)
        return rgrad.where(flip, -found, found)

    return _blockwise(block, sample, alpha, beta)


def mvlgamma(a: Tensor, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension p."""
    return _steps(a, p).lgamma().sum(-1) + p * (p - 1) / 4 * math.log(math.pi)


def mvdigamma(a: Tensor, p: int) -> Tensor:
    """The derivative of `mvlgamma`."""
    return _steps(a, p).digamma().sum(-1)


def _steps(a: Tensor, p: int) -> Tensor:
    return a.unsqueeze(-1) - rgrad.arange(p, dtype=a.dtype, device=a.device) / 2


def log_beta(a: Tensor, b: Tensor) -> Tensor:
    """The logarithm of the beta function."""
    return a.lgamma() + b.lgamma() - (a + b).lgamma()


def bessel_ie(order: int, x: Tensor) -> Tensor:
    """``exp(-x) I_order(x)`` of orders 0 and 1 for ``x >= 0``.

    Up to 20 by the power series, whose terms are all positive; above by the asymptotic one (Abramowitz and Stegun,
    Handbook of Mathematical Functions, 9.6.10 and 9.7.1).
    """
    wide = x.to(working_dtype(x))
    small = wide.clamp(max=20.0)
    quarter = small * small / 4
    series = rgrad.ones_like(quarter)
    for k in range(50, 0, -1):
        series = 1 + series * quarter * (1 / (k * (k + order)))
    series = series * (-small).exp() * (small / 2) ** order
    large = wide.clamp(min=20.0)
    tail, inverse = rgrad.ones_like(large), 0.125 / large
    for k in range(24, 0, -1):
        tail = 1 - tail * inverse * ((4 * order * order - (2 * k - 1) ** 2) / k)
    tail = tail * (2 * math.pi * large).rsqrt()
    return rgrad.where(wide <= 20.0, series, tail).to(x.dtype)
