"""Normal distributions of one variable, and what is made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor

from . import constraints
from ._parameters import Parametric
from .exp_family import ExponentialFamily
from .utils import _standard_normal

__all__ = ["Normal"]

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
