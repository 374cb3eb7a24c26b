"""Distributions of one event that happens or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor
from rgrad.nn.functional import binary_cross_entropy_with_logits, softplus

from . import constraints
from ._parameters import Odds
from .exp_family import ExponentialFamily
from .utils import broadcast_all

__all__ = ["Bernoulli"]


class Bernoulli(Odds, ExponentialFamily):
    """The distribution of an event that happens (1) or not (0): ``P(1) = probs``.

    Args:
        probs: probabilities of 1, of any shape.
        logits: log-odds of 1, instead of them.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.Bernoulli(torch.tensor([0.25])).log_prob(torch.ones(1)).exp()
    tensor([0.2500])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0
    _parameters = ("probs", "logits")

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._set_odds(probs, logits, validate_args)

    @property
    def mean(self) -> Tensor:
        """``probs``."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The more likely value, NaN if they are equally likely."""
        return (self.probs >= 0.5).to(self.probs).masked_fill(self.probs == 0.5, rgrad.nan)

    @property
    def variance(self) -> Tensor:
        """``probs (1 - probs)``."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draws samples: see `Distribution.sample`."""
        with rgrad.no_grad():
            return rgrad.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-probability: see `Distribution.log_prob`."""
        logits, value = broadcast_all(self.logits, self._checked(value))
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        """``-p log p - (1 - p) log(1 - p)``."""
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 and 1: see `Distribution.enumerate_support`."""
        return _counts_up_to(1, self._param, self._batch_shape, expand)

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return softplus(natural_params[0])


def _counts_up_to(n: int, like: Tensor, batch_shape: Sequence[int], expand: bool, dtype: Any = None) -> Tensor:
    """0, 1, … n along a first dimension before those of a batch."""
    values = rgrad.arange(1 + n, dtype=dtype or like.dtype, device=like.device)
    values = values.reshape((-1, *[1] * len(batch_shape)))
    return values.expand((-1, *batch_shape)) if expand else values
