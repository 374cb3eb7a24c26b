"""Distributions of counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor
from rgrad.nn.functional import binary_cross_entropy_with_logits, logsigmoid, softplus

from . import _sampling, constraints
from ._parameters import Odds, Parametric
from .bernoulli import _counts_up_to
from .exp_family import ExponentialFamily
from .utils import broadcast_all

__all__ = ["Binomial", "Geometric", "NegativeBinomial", "Poisson"]


def _log_choose(n: Tensor, k: Tensor) -> Tensor:
    return (n + 1).lgamma() - (k + 1).lgamma() - (n - k + 1).lgamma()


class Binomial(Odds):
    """The distribution of the number of successes in independent trials: ``P(k) = C(n, k) p^k (1 - p)^(n - k)``.

    Args:
        total_count: number of trials n, of any shape.
        probs: probabilities p of success, of a shape that broadcasts with it.
        logits: log-odds of success, instead of them.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.Binomial(2, torch.tensor(0.5)).log_prob(torch.tensor(1.0)).exp()
    tensor(0.5000)
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True
    _parameters = ("total_count", "probs", "logits")
    total_count: Tensor

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._expect_one(probs, logits)
        name, odds = ("probs", probs) if logits is None else ("logits", logits)
        odds, count = broadcast_all(odds, total_count)
        self._set(validate_args, **{"total_count": count.to(odds.dtype), name: odds})

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The integers up to the number of trials."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        """``n p``."""
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        """``(n + 1) p`` rounded down, at most n."""
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self) -> Tensor:
        """``n p (1 - p)``."""
        return self.mean * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draws samples: see `Distribution.sample`."""
        shape = self._extended_shape(sample_shape)
        with rgrad.no_grad():
            return _sampling.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-probability: see `Distribution.log_prob`."""
        value = self._checked(value)
        # log(p^k (1 - p)^(n - k)), where k log-odds does not exceed n log(1 + odds) much.
        n, logits = self.total_count, self.logits
        return _log_choose(n, value) + value * logits - n * softplus(logits)

    def entropy(self) -> Tensor:
        """The sum over all counts, for trials of one number."""
        log_prob = self.log_prob(self._enumerated("entropy", False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 to n, for trials of one number: see `Distribution.enumerate_support`."""
        return self._enumerated("enumerate_support", expand)

    def _enumerated(self, name: str, expand: bool) -> Tensor:
        most = int(self.total_count.max())
        if not self.total_count.min() == most:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{name}`.")
        return _counts_up_to(most, self._param, self._batch_shape, expand)


class Geometric(Odds):
    """The distribution of the number of failures before the first success: ``P(k) = (1 - p)^k p``.

    Args:
        probs: probabilities p of success, of any shape.
        logits: log-odds of success, instead of them.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.Geometric(torch.tensor(0.25)).mean
    tensor(3.)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer
    _parameters = ("probs", "logits")

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._set_odds(probs, logits, validate_args)
        if self._validate_args and probs is not None:
            given = self.probs
            if not (given > 0).all():
                raise ValueError(
                    f"Expected parameter probs ({type(given).__name__} of shape {tuple(given.shape)}) of distribution "
                    f"{self!r} to be positive but found invalid values:\n{given[~(given > 0)]}"
                )

    @property
    def mean(self) -> Tensor:
        """``1 / p - 1``."""
        return self.probs.reciprocal() - 1.0

    @property
    def mode(self) -> Tensor:
        """0."""
        return rgrad.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        """``(1 - p) / p²``."""
        return self.mean / self.probs

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draws samples by inversion."""
        with rgrad.no_grad():
            p = self.probs.expand(self._extended_shape(sample_shape))
            unit = rgrad.rand_like(p).clamp(min=rgrad.finfo(p.dtype).tiny)
            return (unit.log() / (-p).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-probability: see `Distribution.log_prob`."""
        value, p = broadcast_all(self._checked(value), self.probs)
        failures = (value * (-p).log1p()).masked_fill((p == 1) & (value == 0), 0.0)
        return failures + self.probs.log()

    def entropy(self) -> Tensor:
        """That of one trial, times the expected number of trials."""
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class NegativeBinomial(Odds):
    """The distribution of the number of successes before ``total_count`` failures.

    ``P(k) = Γ(r + k) / (k! Γ(r)) p^k (1 - p)^r``, for a number r of failures that needs not be whole.

    Args:
        total_count: r, of any shape.
        probs: probabilities p of success, of a shape that broadcasts with it.
        logits: log-odds of success, instead of them.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.NegativeBinomial(3.0, torch.tensor(0.5)).mean
    tensor(3.)
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _parameters = ("total_count", "probs", "logits")
    total_count: Tensor

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._expect_one(probs, logits)
        name, odds = ("probs", probs) if logits is None else ("logits", logits)
        odds, count = broadcast_all(odds, total_count)
        self._set(validate_args, **{"total_count": count.to(odds.dtype), name: odds})

    @property
    def mean(self) -> Tensor:
        """``r p / (1 - p)``."""
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        """``(r - 1) p / (1 - p)`` rounded down, or 0."""
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        """``r p / (1 - p)²``."""
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Poisson samples of rates that are gamma samples."""
        shape = self._extended_shape(sample_shape)
        with rgrad.no_grad():
            rate = _sampling.draw_gamma(self.total_count.expand(shape)) * self.logits.exp()
            # No failure to wait for: nothing is counted.
            return _sampling.poisson(rate.masked_fill(self.total_count == 0, 0.0))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-probability: see `Distribution.log_prob`."""
        value = self._checked(value)
        r, logits = self.total_count, self.logits
        ways = (r + value).lgamma() - (value + 1).lgamma() - r.lgamma()
        ways = ways.masked_fill(r + value == 0, 0.0)
        return r * logsigmoid(-logits) + value * logsigmoid(logits) + ways


class Poisson(Parametric, ExponentialFamily):
    """The Poisson distribution: ``P(k) = rate^k exp(-rate) / k!``.

    Args:
        rate: mean, of any shape.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.Poisson(2.0).log_prob(torch.tensor(0.0))
    tensor(-2.)
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    _parameters = ("rate",)
    rate: Tensor

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, rate=rate)

    @property
    def mean(self) -> Tensor:
        """``rate``."""
        return self.rate

    @property
    def mode(self) -> Tensor:
        """The rate rounded down."""
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        """``rate``."""
        return self.rate

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draws samples: see `Distribution.sample`."""
        with rgrad.no_grad():
            return _sampling.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-probability: see `Distribution.log_prob`."""
        rate, value = broadcast_all(self.rate, self._checked(value))
        return rgrad.xlogy(value, rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.rate.log(),)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return natural_params[0].exp()
