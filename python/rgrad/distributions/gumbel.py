"""Distributions of extremes and of others that have quantiles in closed form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor
from rgrad._special.integrals import log_beta

from . import constraints
from ._parameters import Composite
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform, PowerTransform
from .uniform import Uniform
from .utils import broadcast_all, clamp_probs, euler_constant

__all__ = ["Gumbel", "Kumaraswamy", "Weibull"]


def _unit_interval(like: Tensor) -> Uniform:
    """Uniform variables that are neither 0 nor 1."""
    limits = rgrad.finfo(like.dtype)
    low, high = rgrad.full_like(like, limits.tiny), rgrad.full_like(like, 1 - limits.eps)
    return Uniform(low, high, validate_args=False)


class Gumbel(Composite, TransformedDistribution):
    """The Gumbel distribution, of distribution function ``exp(-exp(-(x - loc) / scale))``.

    Args:
        loc: mode, of any shape.
        scale: scale, of a shape that broadcasts with it.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.Gumbel(0.0, 1.0).mean
    tensor(0.5772)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    _parameters = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        steps = [
            ExpTransform().inv,
            AffineTransform(loc=0, scale=-rgrad.ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(loc=loc, scale=-self.scale),
        ]
        super().__init__(_unit_interval(self.loc), steps, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density: see `Distribution.log_prob`."""
        z = (self.loc - self._checked(value)) / self.scale
        return z - z.exp() - self.scale.log()

    @property
    def mean(self) -> Tensor:
        """``loc + γ scale`` of Euler's constant γ."""
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        """``loc``."""
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """``π scale / √6``."""
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        """``(π scale)² / 6``."""
        return self.stddev**2

    def entropy(self) -> Tensor:
        """``log scale + 1 + γ``."""
        return self.scale.log() + (1 + euler_constant)


class Weibull(Composite, TransformedDistribution):
    """The Weibull distribution, of distribution function ``1 - exp(-(x / scale)^k)`` for a concentration k.

    Args:
        scale: scale, of any shape.
        concentration: shape parameter, of a shape that broadcasts with it.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.Weibull(2.0, 1.0).mean
    tensor(2.)
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    _parameters = ("scale", "concentration")

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(rgrad.ones_like(self.scale), validate_args=validate_args)
        steps = [PowerTransform(self.concentration_reciprocal), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, steps, validate_args=validate_args)

    def _moment(self, n: int) -> Tensor:
        """``Γ(1 + n/k)``: a moment for the scale 1."""
        return (1 + n * self.concentration_reciprocal).lgamma().exp()

    @property
    def mean(self) -> Tensor:
        """``scale Γ(1 + 1/k)``."""
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Tensor:
        """``scale ((k - 1) / k)^(1/k)``."""
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self) -> Tensor:
        """``scale² (Γ(1 + 2/k) - Γ(1 + 1/k)²)``."""
        return self.scale**2 * (self._moment(2) - self._moment(1) ** 2)

    def entropy(self) -> Tensor:
        """``γ (1 - 1/k) + log(scale / k) + 1``."""
        inverse = self.concentration_reciprocal
        return euler_constant * (1 - inverse) + (self.scale * inverse).log() + 1


class Kumaraswamy(Composite, TransformedDistribution):
    """The Kumaraswamy distribution, of distribution function ``1 - (1 - x^a)^b``.

    Args:
        concentration1: a, of any shape.
        concentration0: b, of a shape that broadcasts with it.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.Kumaraswamy(1.0, 3.0).mean
    tensor(0.2500)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _parameters = ("concentration1", "concentration0")

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        steps = [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]
        zero = rgrad.zeros_like(self.concentration1)
        super().__init__(Uniform(zero, zero + 1, validate_args=False), steps, validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Transformed uniform samples; these are not 0, where the powers have no derivative."""
        like = self.concentration1
        unit = rgrad.rand(self._extended_shape(sample_shape), dtype=like.dtype, device=like.device)
        return self._transform(clamp_probs(unit))

    def _moment(self, n: int) -> Tensor:
        """``b B(1 + n/a, b)``."""
        a, b = self.concentration1, self.concentration0
        return b * log_beta(1 + n / a, b).exp()

    @property
    def mean(self) -> Tensor:
        """``b B(1 + 1/a, b)``."""
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """``((a - 1) / (a b - 1))^(1/a)``, NaN if a or b is below 1."""
        a, b = self.concentration1, self.concentration0
        found = ((a - 1) / (a * b - 1)) ** a.reciprocal()
        return found.masked_fill((a < 1) | (b < 1), rgrad.nan)

    @property
    def variance(self) -> Tensor:
        """The second moment less the squared mean."""
        return self._moment(2) - self._moment(1) ** 2

    def entropy(self) -> Tensor:
        """``1 - 1/b + (1 - 1/a) H_b - log(a b)`` of the harmonic number ``H_b = ψ(b + 1) + γ``."""
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return 1 - b.reciprocal() + (1 - a.reciprocal()) * harmonic - a.log() - b.log()
