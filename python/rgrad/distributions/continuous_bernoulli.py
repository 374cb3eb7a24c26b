"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor

from . import constraints
from ._parameters import Odds
from .exp_family import ExponentialFamily
from .utils import clamp_probs

__all__ = ["ContinuousBernoulli"]

# Of log(sinh(η/2) / (η/2)) as a series in η²: B_{2k} / (2k (2k)!) of the Bernoulli numbers.
_SERIES = (1 / 24, -1 / 2880, 1 / 181440, -1 / 9676800, 1 / 479001600, -691 / 15692092416000)
# Up to here the series is precise; beyond, the closed forms don't cancel much.
_NEAR = 0.5


class ContinuousBernoulli(Odds, ExponentialFamily):
    """The distribution on [0, 1] of density ``∝ p^x (1 - p)^(1 - x)``, for pixels that are no bits.

    (Loaiza-Ganem and Cunningham: The continuous Bernoulli: fixing a pervasive error in variational autoencoders, 2019.)
    With the log-odds η the density is ``exp(η x - A(η))`` where ``A(η) = log((exp(η) - 1) / η)``.

    Args:
        probs: parameters p, of any shape.
        logits: log-odds η, instead of them.
        lims: kept for compatibility. Around 1/2, where closed forms cancel, series are used in any case.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.ContinuousBernoulli(torch.tensor([0.5, 0.9])).mean
    tensor([0.5000, 0.6699])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = ("probs", "logits")

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._lims = lims
        self._set_odds(probs, logits, validate_args)
        if logits is None:
            self.probs = clamp_probs(self.probs)

    def _expand_rest(self, new: Any, shape: rgrad.Size) -> None:
        super()._expand_rest(new, shape)
        new._lims = self._lims

    def _split(self) -> tuple[Tensor, Tensor, Tensor]:
        """Where η is near 0; η there, and 0 elsewhere; η elsewhere, and 1 there."""
        eta = self.logits
        near = eta.abs() < _NEAR
        return near, eta.masked_fill(~near, 0.0), eta.masked_fill(near, 1.0)

    @staticmethod
    def _polynomial(square: Tensor, coefficients: Sequence[float]) -> Tensor:
        total = rgrad.zeros_like(square)
        for c in reversed(coefficients):
            total = total * square + c
        return total

    @property
    def mean(self) -> Tensor:
        """``1 / (1 - exp(-η)) - 1 / η``."""
        near, inner, outer = self._split()
        series = 0.5 + inner * self._polynomial(inner**2, [2 * (k + 1) * c for k, c in enumerate(_SERIES)])
        return rgrad.where(near, series, -(-outer).expm1().reciprocal() - outer.reciprocal())

    @property
    def variance(self) -> Tensor:
        """``1 / η² - 1 / (2 sinh(η/2))²``."""
        near, inner, outer = self._split()
        weights = [2 * (k + 1) * (2 * k + 1) * c for k, c in enumerate(_SERIES)]
        closed = outer**-2 - (2 * (outer / 2).sinh()) ** -2
        return rgrad.where(near, self._polynomial(inner**2, weights), closed)

    @property
    def stddev(self) -> Tensor:
        """The root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draws samples: see `Distribution.sample`."""
        with rgrad.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Quantiles of uniform variables."""
        like = self._param
        return self.icdf(rgrad.rand(self._extended_shape(sample_shape), dtype=like.dtype, device=like.device))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density: see `Distribution.log_prob`."""
        value = self._checked(value)
        logits, value = rgrad.broadcast_tensors(self.logits, value)
        entropy = rgrad.nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none")
        # As in PyTorch, the factor beside the Bernoulli density grows only as far as probabilities that are no 0 or 1.
        farthest = -math.log(rgrad.finfo(logits.dtype).eps)
        near = self.logits.clamp(-farthest, farthest)
        return rgrad.nn.functional.softplus(near) - self._log_normalizer(near) - entropy

    def cdf(self, value: Tensor) -> Tensor:
        """``(exp(η x) - 1) / (exp(η) - 1)``, 0 below and 1 above."""
        value = self._checked(value)
        near, inner, outer = self._split()
        # From the end that the density falls away from, so that nothing overflows.
        falling = -outer.abs()
        share = rgrad.where(outer > 0, 1 - value, value)
        part = (falling * share).expm1() / falling.expm1()
        closed = rgrad.where(outer > 0, 1 - part, part)
        # Near 0: x + η x (x - 1) / 2 + …, as the ratio of (exp(y) - 1) / y at η x and at η.
        series = value * _exprel(inner * value) / _exprel(inner)
        found = rgrad.where(near, series, closed)
        return found.masked_fill(value <= 0, 0.0).masked_fill(value >= 1, 1.0)

    def icdf(self, value: Tensor) -> Tensor:
        """``log(1 + u (exp(η) - 1)) / η``."""
        near, inner, outer = self._split()
        falling = -outer.abs()
        share, rest = rgrad.where(outer > 0, 1 - value, value), rgrad.where(outer > 0, value, 1 - value)
        # log(1 + share (exp(η) - 1)) in the form that keeps the smaller of share and rest.
        inside = (share * falling.expm1()).log1p().where(share < 0.5, (rest + share * falling.exp()).log())
        part = (inside / falling).masked_fill(rest == 0, 1.0)
        closed = rgrad.where(outer > 0, 1 - part, part)
        lifted = value * inner * _exprel(inner)
        series = value * _exprel(inner) * _log1prel(lifted)
        return rgrad.where(near, series, closed)

    def entropy(self) -> Tensor:
        """``A(η) - η E[x]``."""
        return self._log_normalizer(self.logits) - self.logits * self.mean

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (eta,) = natural_params
        near = eta.abs() < _NEAR
        inner, outer = eta.masked_fill(~near, 0.0), eta.masked_fill(near, 1.0)
        square = inner**2
        series = inner / 2 + square * self._polynomial(square, _SERIES)
        size = outer.abs()
        return rgrad.where(near, series, outer.clamp(min=0) + (-(-size).expm1() / size).log())


def _exprel(y: Tensor) -> Tensor:
    """``(exp(y) - 1) / y``, 1 at 0."""
    small = y.abs() < 1e-4
    safe = y.masked_fill(small, 1.0)
    return rgrad.where(small, 1 + y / 2 + y * y / 6, safe.expm1() / safe)


def _log1prel(y: Tensor) -> Tensor:
    """``log(1 + y) / y``, 1 at 0."""
    small = y.abs() < 1e-4
    safe = y.masked_fill(small, 1.0)
    return rgrad.where(small, 1 - y / 2 + y * y / 3, safe.log1p() / safe)
