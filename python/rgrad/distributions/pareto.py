"""Distributions with tails that fall as a power."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor

from . import constraints
from ._parameters import Composite, Parametric
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .utils import broadcast_all

__all__ = ["GeneralizedPareto", "Pareto"]


class Pareto(Composite, TransformedDistribution):
    """The Pareto distribution, of density ``alpha scale^alpha / x^(alpha + 1)`` for ``x >= scale``.

    Args:
        scale: least value, of any shape.
        alpha: shape parameter, of a shape that broadcasts with it.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.Pareto(1.0, 3.0).mean
    tensor(1.5000)
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    _parameters = ("scale", "alpha")

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(loc=0, scale=self.scale)], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """``alpha scale / (alpha - 1)``, infinite up to 1."""
        a = self.alpha
        return (a * self.scale / (a - 1)).where(a > 1, rgrad.inf)

    @property
    def mode(self) -> Tensor:
        """``scale``."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """``scale² alpha / ((alpha - 1)² (alpha - 2))``, infinite up to 2."""
        a = self.alpha
        return (self.scale**2 * a / ((a - 1) ** 2 * (a - 2))).where(a > 2, rgrad.inf)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """The numbers from the scale on."""
        return constraints.greater_than_eq(self.scale)

    def entropy(self) -> Tensor:
        """``log(scale / alpha) + 1 + 1 / alpha``."""
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class GeneralizedPareto(Parametric):
    """The generalized Pareto distribution of what exceeds a threshold.

    With ``z = (x - loc) / scale`` and a concentration ξ, the probability of more than x is ``(1 + ξ z)^(-1/ξ)``, or
    ``exp(-z)`` where ξ is 0. For negative ξ, values end at ``loc - scale / ξ``.

    Args:
        loc: threshold, of any shape.
        scale: scale, of a shape that broadcasts with it.
        concentration: ξ, likewise.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.GeneralizedPareto(0.0, 1.0, 0.5).mean
    tensor(2.)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True
    _parameters = ("loc", "scale", "concentration")
    loc: Tensor
    scale: Tensor
    concentration: Tensor

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, loc=loc, scale=scale, concentration=concentration)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """The numbers from the threshold to the end, if there is one."""
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, end.where(self.concentration < 0, rgrad.inf))

    def _standardized(self, value: Tensor) -> Tensor:
        return (value - self.loc) / self.scale

    def _by_shape(self, function: Any, limit: Any) -> Tensor:
        """A function of ξ that divides by it, and its limit where ξ is 0."""
        flat = self.concentration.isclose(rgrad.zeros_like(self.concentration))
        safe = self.concentration.masked_fill(flat, 1.0)
        return rgrad.where(flat, limit, function(safe))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Quantiles of uniform variables."""
        shape = self._extended_shape(sample_shape)
        return self.icdf(rgrad.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density: see `Distribution.log_prob`."""
        z = self._standardized(self._checked(value))
        return self._by_shape(lambda c: -(1 + 1 / c) * (c * z).log1p(), -z) - self.scale.log()

    def log_survival_function(self, value: Tensor) -> Tensor:
        """Logarithm of the probability of more than a value."""
        z = self._standardized(self._checked(value))
        return self._by_shape(lambda c: -(c * z).log1p() / c, -z)

    def log_cdf(self, value: Tensor) -> Tensor:
        """Logarithm of the distribution function."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        """Distribution function: see `Distribution.cdf`."""
        return -self.log_survival_function(value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles: see `Distribution.icdf`."""
        log_above = (-value).log1p()
        return self.loc + self.scale * self._by_shape(lambda c: (-c * log_above).expm1() / c, -log_above)

    @property
    def mean(self) -> Tensor:
        """``loc + scale / (1 - ξ)``, infinite from 1 on."""
        c = self.concentration
        return (self.loc + self.scale / (1 - c)).where(c < 1, rgrad.inf)

    @property
    def variance(self) -> Tensor:
        """``scale² / ((1 - ξ)² (1 - 2ξ))``, infinite from 1/2 on."""
        c = self.concentration
        return (self.scale**2 / ((1 - c) ** 2 * (1 - 2 * c))).where(c < 0.5, rgrad.inf)

    def entropy(self) -> Tensor:
        """``log scale + ξ + 1``."""
        return self.scale.log() + self.concentration + 1

    @property
    def mode(self) -> Tensor:
        """``loc``."""
        return self.loc
