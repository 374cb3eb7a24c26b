"""Relaxations of discrete distributions, whose samples have gradients.

(Maddison, Mnih, Teh: The concrete distribution, 2017; Jang, Gu, Poole: Categorical reparameterization with
Gumbel-softmax, 2017.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor
from rgrad.nn.functional import softplus

from . import constraints
from ._parameters import Composite, Odds
from .categorical import Categorical
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform, SigmoidTransform
from .utils import clamp_probs

__all__ = ["ExpRelaxedCategorical", "LogitRelaxedBernoulli", "RelaxedBernoulli", "RelaxedOneHotCategorical"]


def _inner_uniform(self: Any, sample_shape: Sequence[int]) -> Tensor:
    """Uniform numbers of the shape of samples, neither 0 nor 1."""
    like = self._param
    return clamp_probs(rgrad.rand(self._extended_shape(sample_shape), dtype=like.dtype, device=like.device))


class LogitRelaxedBernoulli(Odds):
    """The distribution of the logit of a relaxed Bernoulli variable.

    Args:
        temperature: how far it is relaxed, positive.
        probs: probabilities of 1, of any shape.
        logits: log-odds of 1, instead of them.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> from rgrad.distributions.relaxed_categorical import LogitRelaxedBernoulli
    >>> LogitRelaxedBernoulli(torch.tensor(1.0), probs=torch.tensor(0.5)).log_prob(torch.tensor(0.0)).exp()
    tensor(0.2500)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    _parameters = ("probs", "logits")

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        self._set_odds(probs, logits, validate_args)

    def _expand_rest(self, new: Any, shape: rgrad.Size) -> None:
        super()._expand_rest(new, shape)
        new.temperature = self.temperature

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Logistic noise on the log-odds, over the temperature."""
        u = _inner_uniform(self, sample_shape)
        odds = self.logits if self._given_odds == "logits" else clamp_probs(self.probs).logit()
        return (odds + u.logit()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density: see `Distribution.log_prob`."""
        away = self.logits - self._checked(value) * self.temperature
        return rgrad.as_tensor(self.temperature).log() + away - 2 * softplus(away)


class RelaxedBernoulli(Composite, TransformedDistribution):
    """The distribution on (0, 1) that tends to a Bernoulli distribution as the temperature tends to 0.

    Args:
        temperature: how far it is relaxed, positive.
        probs: probabilities of 1, of any shape.
        logits: log-odds of 1, instead of them.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> d = torch.distributions.RelaxedBernoulli(torch.tensor(2.2), torch.tensor([0.1, 0.8]))
    >>> d.rsample((5,)).shape
    torch.Size([5, 2])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _parameters = ("probs", "logits")
    _kept = ("temperature",)
    base_dist: LogitRelaxedBernoulli

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    @property
    def _given_odds(self) -> str:
        return self.base_dist._given_odds

    @property
    def temperature(self) -> Any:
        """How far it is relaxed."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Log-odds of 1."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities of 1."""
        return self.base_dist.probs


class ExpRelaxedCategorical(Composite):
    """The distribution of the logarithm of a relaxed one-hot variable.

    Args:
        temperature: how far it is relaxed, positive.
        probs: probabilities, ``(..., K)``, not negative; they are divided by their sum.
        logits: logarithms of them up to a constant, instead.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> from rgrad.distributions.relaxed_categorical import ExpRelaxedCategorical
    >>> ExpRelaxedCategorical(torch.tensor(1.0), torch.ones(3)).rsample().logsumexp(-1).abs() < 1e-5
    tensor(True)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    # A vector of logarithms whose exponentials have the sum 1; only that they are numbers is checked.
    support = constraints.real_vector
    has_rsample = True
    _parameters = ("probs", "logits")
    _kept = ("temperature",)

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def _given_odds(self) -> str:
        return self._categorical._given_odds

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def logits(self) -> Tensor:
        """Log-probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities, of the sum 1."""
        return self._categorical.probs

    @property
    def param_shape(self) -> rgrad.Size:
        """The shape of `probs` and `logits`."""
        return self._categorical.param_shape

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Gumbel noise on the logits, over the temperature, normalised."""
        noise = -(-_inner_uniform(self, sample_shape).log()).log()
        return ((self.logits + noise) / self.temperature).log_softmax(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density with respect to K - 1 of the K entries."""
        k = self._event_shape[0]
        away = (self.logits - self._checked(value) * self.temperature).log_softmax(-1)
        return away.sum(-1) + (k - 1) * rgrad.as_tensor(self.temperature).log() + math.lgamma(k)


class RelaxedOneHotCategorical(Composite, TransformedDistribution):
    """The distribution of probabilities that tends to one-hot vectors as the temperature tends to 0.

    Args:
        temperature: how far it is relaxed, positive.
        probs: probabilities, ``(..., K)``, not negative; they are divided by their sum.
        logits: logarithms of them up to a constant, instead.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> d = torch.distributions.RelaxedOneHotCategorical(torch.tensor(2.2), torch.tensor([0.1, 0.2, 0.7]))
    >>> d.rsample((5,)).shape
    torch.Size([5, 3])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True
    _parameters = ("probs", "logits")
    _kept = ("temperature",)
    base_dist: ExpRelaxedCategorical

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def _given_odds(self) -> str:
        return self.base_dist._given_odds

    @property
    def temperature(self) -> Any:
        """How far it is relaxed."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Log-probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities, of the sum 1."""
        return self.base_dist.probs
