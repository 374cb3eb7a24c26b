"""Distributions over categories: indices, one-hot vectors and counts of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor

from . import constraints
from ._parameters import Odds
from .bernoulli import _counts_up_to

__all__ = ["Categorical"]


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
