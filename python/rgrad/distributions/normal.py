"""Normal distributions of one variable, and what is made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor

from . import constraints
from ._parameters import Composite, Parametric
from .exp_family import ExponentialFamily
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform, ExpTransform, StickBreakingTransform
from .utils import _standard_normal

__all__ = ["HalfNormal", "LogNormal", "LogisticNormal", "Normal"]

_LOG_2PI = math.log(2 * math.pi)


class Normal(Parametric, ExponentialFamily):
    """The normal distribution, of density ``exp(-((x - loc) / scale)² / 2) / (scale √(2π))``.

    Args:
        loc: mean, of any shape.
        scale: standard deviation, of a shape that broadcasts with it.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.Normal(0.0, 1.0).log_prob(torch.tensor([0.0, 1.0]))
    tensor([-0.9189, -1.4189])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _mean_carrier_measure = 0
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
        """``scale``."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """``scale²``."""
        return self.scale**2

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draws samples: see `Distribution.sample`."""
        shape = self._extended_shape(sample_shape)
        with rgrad.no_grad():
            return rgrad.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """``loc + scale · z`` of a standard normal z."""
        noise = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + self.scale * noise

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density: see `Distribution.log_prob`."""
        z = (self._checked(value) - self.loc) / self.scale
        return -0.5 * (z * z) - self.scale.log() - 0.5 * _LOG_2PI

    def cdf(self, value: Tensor) -> Tensor:
        """Distribution function: see `Distribution.cdf`."""
        z = (self._checked(value) - self.loc) / self.scale
        # erfc, not 1 + erf, which loses the lower tail.
        return 0.5 * rgrad.erfc(z * -math.sqrt(0.5))

    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles: see `Distribution.icdf`."""
        return self.loc + self.scale * (math.sqrt(2) * rgrad.erfinv(2 * value - 1))

    def entropy(self) -> Tensor:
        """``log(scale √(2πe))``."""
        return self.scale.log() + 0.5 * (1 + _LOG_2PI)

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        precision = self.scale**-2
        return self.loc * precision, -0.5 * precision

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        first, second = natural_params
        return 0.5 * (math.log(math.pi) - (-second).log()) - first * first / (4 * second)


class LogNormal(Composite, TransformedDistribution):
    """The distribution of ``exp(x)`` of a normal variable x.

    Args:
        loc: mean of x, of any shape.
        scale: standard deviation of x, of a shape that broadcasts with it.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.LogNormal(0.0, 1.0).cdf(torch.tensor(1.0))
    tensor(0.5000)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _parameters = ("loc", "scale")
    base_dist: Normal

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """Mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """Standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        """``exp(loc + scale² / 2)``."""
        return (self.loc + 0.5 * self.scale**2).exp()

    @property
    def mode(self) -> Tensor:
        """``exp(loc - scale²)``."""
        return (self.loc - self.scale**2).exp()

    @property
    def variance(self) -> Tensor:
        """``(exp(scale²) - 1) exp(2 loc + scale²)``."""
        square = self.scale**2
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        """That of the normal distribution, and ``loc``."""
        return self.base_dist.entropy() + self.loc


class HalfNormal(Composite, TransformedDistribution):
    """The distribution of ``|x|`` of a normal variable x of mean 0.

    Args:
        scale: standard deviation of x, of any shape.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.HalfNormal(1.0).mean
    tensor(0.7979)
    """

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _parameters = ("scale",)
    base_dist: Normal

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(0.0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        """Standard deviation of x."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        """``scale √(2/π)``."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Tensor:
        """0."""
        return rgrad.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        """``scale² (1 - 2/π)``."""
        return self.scale**2 * (1 - 2 / math.pi)

    def log_prob(self, value: Tensor) -> Tensor:
        """Twice the normal density, minus infinity below 0."""
        value = self._checked(value)
        return (self.base_dist.log_prob(value) + math.log(2)).where(value >= 0, -rgrad.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """``erf(x / (scale √2))``."""
        return rgrad.erf(self._checked(value) / (self.scale * math.sqrt(2)))

    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles of the upper half."""
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        """That of the normal distribution, less ``log 2``."""
        return self.base_dist.entropy() - math.log(2)


class LogisticNormal(Composite, TransformedDistribution):
    """The distribution of K + 1 probabilities that stick breaking makes of K normal variables.

    Args:
        loc: their means, ``(..., K)``.
        scale: their standard deviations, of a shape that broadcasts with it.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.LogisticNormal(torch.zeros(2), torch.ones(2)).sample((5,)).shape
    torch.Size([5, 3])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    _parameters = ("loc", "scale")
    base_dist: Any

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """The same distribution over a larger batch: see `Distribution.expand`."""
        new = self._get_checked_instance(LogisticNormal, _instance)
        return TransformedDistribution.expand(self, batch_shape, new)

    @property
    def loc(self) -> Tensor:
        """Means of the normal variables."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """Standard deviations of the normal variables."""
        return self.base_dist.base_dist.scale
