"""Distributions of waiting times and of extremes, made of the exponential one, and those with power-law tails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor

from . import constraints
from ._parameters import Parametric
from .exp_family import ExponentialFamily

__all__ = ["Exponential"]


def _draw(self: Any, sample_shape: Sequence[int], like: Tensor) -> Tensor:
    """Standard exponential noise for samples."""
    return rgrad.empty(self._extended_shape(sample_shape), dtype=like.dtype, device=like.device).exponential_()


class Exponential(Parametric, ExponentialFamily):
    """The exponential distribution, of density ``rate exp(-rate x)`` for ``x >= 0``.

    Args:
        rate: inverse of the mean, of any shape.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.Exponential(2.0).mean
    tensor(0.5000)
    """

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = ("rate",)
    rate: Tensor

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, rate=rate)

    @property
    def mean(self) -> Tensor:
        """``1 / rate``."""
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        """0."""
        return rgrad.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        """``1 / rate``."""
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        """``1 / rate²``."""
        return self.rate**-2

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Standard exponential noise over the rate."""
        return _draw(self, sample_shape, self.rate) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density: see `Distribution.log_prob`."""
        return self.rate.log() - self.rate * self._checked(value)

    def cdf(self, value: Tensor) -> Tensor:
        """``1 - exp(-rate x)``."""
        return -(-self.rate * self._checked(value)).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """``-log(1 - p) / rate``."""
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        """``1 - log rate``."""
        return 1.0 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (-self.rate,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return -(-natural_params[0]).log()
