"""Symmetric distributions with heavier tails than the normal one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor

from . import constraints
from ._parameters import Composite, Parametric
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform

__all__ = ["Cauchy", "HalfCauchy", "Laplace"]


class Laplace(Parametric):
    """The Laplace distribution, of density ``exp(-|x - loc| / scale) / (2 scale)``.

    Args:
        loc: mean, of any shape.
        scale: mean distance from it, of a shape that broadcasts with it.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.Laplace(0.0, 1.0).variance
    tensor(2.)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _parameters = ("loc", "scale")
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, loc=loc, scale=scale)

    @property
    def mean(self) -> Tensor:
        """``loc``."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """``loc``."""
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """``√2 scale``."""
        return math.sqrt(2) * self.scale

    @property
    def variance(self) -> Tensor:
        """``2 scale²``."""
        return 2 * self.scale**2

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Quantiles of uniform variables."""
        shape = self._extended_shape(sample_shape)
        centered = rgrad.empty(shape, dtype=self.loc.dtype, device=self.loc.device).uniform_(-0.5, 0.5)
        # At -1/2 itself the quantile is infinite.
        centered.clamp_(min=rgrad.finfo(centered.dtype).eps / 2 - 0.5)
        return self._quantile(centered)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density: see `Distribution.log_prob`."""
        distance = (self._checked(value) - self.loc).abs()
        return -(2 * self.scale).log() - distance / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        """Half the exponential of minus the distance below ``loc``, and 1 less that above."""
        away = self._checked(value) - self.loc
        return 0.5 - 0.5 * away.sign() * (-away.abs() / self.scale).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles: see `Distribution.icdf`."""
        return self._quantile(value - 0.5)

    def _quantile(self, centered: Tensor) -> Tensor:
        """That of a probability less 1/2."""
        return self.loc - self.scale * centered.sign() * (-2 * centered.abs()).log1p()

    def entropy(self) -> Tensor:
        """``1 + log(2 scale)``."""
        return 1 + (2 * self.scale).log()


class Cauchy(Parametric):
    """The Cauchy distribution, of density ``1 / (π scale (1 + z²))`` with ``z = (x - loc) / scale``. It has no mean.

    Args:
        loc: median, of any shape.
        scale: half the distance of the quartiles, of a shape that broadcasts with it.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.Cauchy(0.0, 1.0).cdf(torch.tensor(1.0))
    tensor(0.7500)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _parameters = ("loc", "scale")
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, loc=loc, scale=scale)

    @property
    def mean(self) -> Tensor:
        """NaN."""
        return rgrad.full_like(self.loc, rgrad.nan)

    @property
    def mode(self) -> Tensor:
        """``loc``."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Infinite."""
        return rgrad.full_like(self.loc, rgrad.inf)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """``loc + scale · z`` of a standard Cauchy z."""
        shape = self._extended_shape(sample_shape)
        return self.loc + self.scale * rgrad.empty(shape, dtype=self.loc.dtype, device=self.loc.device).cauchy_()

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density: see `Distribution.log_prob`."""
        z = (self._checked(value) - self.loc) / self.scale
        return -(math.log(math.pi) + self.scale.log() + (z * z).log1p())

    def cdf(self, value: Tensor) -> Tensor:
        """``1/2 + atan(z) / π``."""
        return rgrad.atan((self._checked(value) - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles: see `Distribution.icdf`."""
        return self.loc + self.scale * rgrad.tan(math.pi * (value - 0.5))

    def entropy(self) -> Tensor:
        """``log(4π scale)``."""
        return math.log(4 * math.pi) + self.scale.log()


class HalfCauchy(Composite, TransformedDistribution):
    """The distribution of ``|x|`` of a Cauchy variable x around 0.

    Args:
        scale: median, of any shape.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.HalfCauchy(1.0).cdf(torch.tensor(1.0))
    tensor(0.5000)
    """

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _parameters = ("scale",)
    base_dist: Cauchy

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Cauchy(0.0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        """The median."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        """Infinite."""
        return rgrad.full_like(self.scale, rgrad.inf)

    @property
    def mode(self) -> Tensor:
        """0."""
        return rgrad.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        """Infinite."""
        return self.base_dist.variance

    def log_prob(self, value: Tensor) -> Tensor:
        """Twice the Cauchy density, minus infinity below 0."""
        value = rgrad.as_tensor(self._checked(value), dtype=self.scale.dtype, device=self.scale.device)
        return (self.base_dist.log_prob(value) + math.log(2)).where(value >= 0, -rgrad.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """``2 atan(x / scale) / π``."""
        return rgrad.atan(self._checked(value) / self.scale) * (2 / math.pi)

    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles of the upper half."""
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        """That of the Cauchy distribution, less ``log 2``."""
        return self.base_dist.entropy() - math.log(2)
