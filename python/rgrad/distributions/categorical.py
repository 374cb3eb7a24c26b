"""Distributions over categories: indices, one-hot vectors and counts of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor
from rgrad.nn.functional import one_hot

from . import constraints
from ._parameters import Composite, Odds
from .bernoulli import _counts_up_to
from .binomial import Binomial

__all__ = ["Categorical", "Multinomial", "OneHotCategorical", "OneHotCategoricalStraightThrough"]


class Categorical(Odds):
    """The distribution of an index below K: ``P(k) = probs[k]``.

    Args:
        probs: probabilities, ``(..., K)``, not negative; they are divided by their sum.
        logits: logarithms of them up to a constant, instead.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> d = torch.distributions.Categorical(torch.tensor([1.0, 3.0]))
    >>> d.probs, d.log_prob(torch.tensor(1)).exp()
    (tensor([0.2500, 0.7500]), tensor(0.7500))
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _parameters = ("probs", "logits")
    _is_binary = False

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._expect_one(probs, logits)
        if logits is None:
            if probs.dim() < 1:
                raise ValueError("`probs` parameter must be at least one-dimensional.")
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            if logits.dim() < 1:
                raise ValueError("`logits` parameter must be at least one-dimensional.")
            self.logits = logits - logits.logsumexp(-1, keepdim=True)
        super().__init__(self._param.shape[:-1], validate_args=validate_args)

    @property
    def _num_events(self) -> int:
        return self._param.shape[-1]

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The integers below K."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        """NaN: categories have no mean."""
        return self._undefined()

    @property
    def mode(self) -> Tensor:
        """The most likely category."""
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        """NaN: categories have no variance."""
        return self._undefined()

    def _undefined(self) -> Tensor:
        like = self.probs
        return rgrad.full(self._batch_shape, rgrad.nan, dtype=like.dtype, device=like.device)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draws samples: see `Distribution.sample`."""
        count = rgrad.Size(sample_shape).numel()
        rows = self.probs.detach().reshape(-1, self._num_events)
        drawn = rgrad.multinomial(rows, count, True) if count else rows.new_zeros((len(rows), 0), dtype=rgrad.int64)
        return drawn.T.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-probability: see `Distribution.log_prob`."""
        index = self._checked(value).long().unsqueeze(-1)
        shape = rgrad.broadcast_shapes(index.shape[:-1], self._batch_shape)
        logits = self.logits.expand((*shape, self._num_events))
        return logits.gather(-1, index.expand((*shape, 1))).squeeze(-1)

    def entropy(self) -> Tensor:
        """``-sum(p log p)``; a category that is impossible adds nothing."""
        logits = self.logits.clamp(min=rgrad.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All indices: see `Distribution.enumerate_support`."""
        return _counts_up_to(self._num_events - 1, self._param, self._batch_shape, expand, rgrad.int64)


class OneHotCategorical(Composite):
    """The distribution of one-hot vectors of K categories.

    Args:
        probs: probabilities, ``(..., K)``, not negative; they are divided by their sum.
        logits: logarithms of them up to a constant, instead.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.OneHotCategorical(torch.ones(2)).enumerate_support()
    tensor([[1., 0.],
            [0., 1.]])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True
    _parameters = ("probs", "logits")

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def _given_odds(self) -> str:
        return self._categorical._given_odds

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def probs(self) -> Tensor:
        """Probabilities, of the sum 1."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Log-probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> rgrad.Size:
        """The shape of `probs` and `logits`."""
        return self._categorical.param_shape

    @property
    def mean(self) -> Tensor:
        """``probs``."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The one-hot vector of the most likely category."""
        return self._vectors(self._categorical.mode)

    @property
    def variance(self) -> Tensor:
        """``probs (1 - probs)``."""
        return self.probs * (1 - self.probs)

    def _vectors(self, index: Tensor) -> Tensor:
        return one_hot(index, self._event_shape[0]).to(self._param)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draws samples: see `Distribution.sample`."""
        return self._vectors(self._categorical.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-probability: see `Distribution.log_prob`."""
        return self._categorical.log_prob(self._checked(value).argmax(-1))

    def entropy(self) -> Tensor:
        """That of the index."""
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All one-hot vectors: see `Distribution.enumerate_support`."""
        return self._vectors(self._categorical.enumerate_support(expand))


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot samples through which the gradient passes to the probabilities as if they were these.

    (Bengio, Léonard, Courville: Estimating or propagating gradients through stochastic neurons, 2013.)

    >>> import rgrad as torch
    >>> p = torch.tensor([0.3, 0.7], requires_grad=True)
    >>> d = torch.distributions.OneHotCategoricalStraightThrough(p)
    >>> (d.rsample() * torch.tensor([1.0, 0.0])).sum().backward()
    >>> p.grad
    tensor([ 0.7000, -0.3000])
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """One-hot samples with the gradient of the probabilities."""
        probs = self.probs
        return self.sample(sample_shape) + (probs - probs.detach())


class Multinomial(Composite):
    """The distribution of how often each of K categories comes in a number of draws.

    Args:
        total_count: number of draws, one for the whole batch.
        probs: probabilities, ``(..., K)``, not negative; they are divided by their sum.
        logits: logarithms of them up to a constant, instead.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> torch.distributions.Multinomial(10, torch.tensor([1.0, 4.0])).mean
    tensor([2., 8.])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _parameters = ("probs", "logits")
    _kept = ("total_count",)

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def _given_odds(self) -> str:
        return self._categorical._given_odds

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """Counts whose sum is at most the number of draws."""
        return constraints.multinomial(self.total_count)

    @property
    def probs(self) -> Tensor:
        """Probabilities, of the sum 1."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Log-probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> rgrad.Size:
        """The shape of `probs` and `logits`."""
        return self._categorical.param_shape

    @property
    def mean(self) -> Tensor:
        """``n p``."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        """``n p (1 - p)``."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """The counts of draws of categories."""
        drawn = self._categorical.sample((self.total_count, *sample_shape))
        shape = self._extended_shape(sample_shape)
        counts = rgrad.zeros(shape, dtype=self.probs.dtype, device=self.probs.device)
        index = drawn.movedim(0, -1)
        return counts.scatter_add(-1, index, rgrad.ones_like(index, dtype=counts.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-probability: see `Distribution.log_prob`."""
        value = self._checked(value)
        logits = self.logits.expand(rgrad.broadcast_shapes(self.logits.shape, value.shape))
        # A category that is impossible and didn't come adds nothing.
        terms = (value * logits).masked_fill((value == 0) & (logits == -rgrad.inf), 0.0)
        return (value.sum(-1) + 1).lgamma() + (terms - (value + 1).lgamma()).sum(-1)

    def entropy(self) -> Tensor:
        """``n H - log n! + sum E[log k!]`` of the entropy H of one draw; the counts k are binomial."""
        n = self.total_count
        each = Binomial(n, self.probs)
        counts = each.enumerate_support(expand=False)[1:]
        weighted = each.log_prob(counts).exp() * (counts + 1).lgamma()
        return n * self._categorical.entropy() - math.lgamma(n + 1) + weighted.sum((0, -1))
