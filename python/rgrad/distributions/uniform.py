"""Uniform distributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor

from . import constraints
from ._parameters import Parametric

__all__ = ["Uniform"]


class Uniform(Parametric):
    """The uniform distribution on ``[low, high)``.

    Args:
        low: lower end, of any shape.
        high: upper end, of a shape that broadcasts with it.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.Uniform(0.0, 4.0).cdf(torch.tensor([1.0, 3.0]))
    tensor([0.2500, 0.7500])
    """

    has_rsample = True
    _parameters = ("low", "high")
    low: Tensor
    high: Tensor

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, low=low, high=high)

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """Each end limits the other."""
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """The interval, of which samples don't reach the upper end."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        """The middle."""
        return (self.low + self.high) / 2

    @property
    def mode(self) -> Tensor:
        """NaN: all values are alike."""
        return self.high * rgrad.nan

    @property
    def stddev(self) -> Tensor:
        """``(high - low) / √12``."""
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Tensor:
        """``(high - low)² / 12``."""
        return (self.high - self.low) ** 2 / 12

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """``low + (high - low) · u`` of u uniform on [0, 1)."""
        shape = self._extended_shape(sample_shape)
        unit = rgrad.rand(shape, dtype=self.low.dtype, device=self.low.device)
        return self.low + (self.high - self.low) * unit

    def log_prob(self, value: Tensor) -> Tensor:
        """``-log(high - low)`` inside, minus infinity outside."""
        value = self._checked(value)
        inside = (value >= self.low) & (value < self.high)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        """Distribution function: see `Distribution.cdf`."""
        return ((self._checked(value) - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles: see `Distribution.icdf`."""
        return self.low + value * (self.high - self.low)

    def entropy(self) -> Tensor:
        """``log(high - low)``."""
        return (self.high - self.low).log()
