"""Mixtures of distributions of one class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor

from . import constraints
from .categorical import Categorical
from .distribution import Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A mixture ``p(x) = sum_k w_k p_k(x)`` of distributions of one class.

    Args:
        mixture_distribution: the weights; their batch broadcasts with that of the components.
        component_distribution: the components, counted by the last dimension of its batch.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> from rgrad.distributions import Categorical, MixtureSameFamily, Normal
    >>> mixture = MixtureSameFamily(Categorical(torch.ones(2)), Normal(torch.tensor([-1.0, 1.0]), 1.0))
    >>> mixture.mean, mixture.variance
    (tensor(0.), tensor(2.))
    """

    arg_constraints: dict[str, Any] = {}
    has_rsample = False

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an  instance of torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution needs to be an instance of torch.distributions.Distribution")
        weights, shape = mixture_distribution.batch_shape, component_distribution.batch_shape
        if any(a not in (1, b) and b != 1 for a, b in zip(reversed(weights), reversed(shape[:-1]), strict=False)):
            raise ValueError(
                f"`mixture_distribution.batch_shape` ({weights}) is not compatible with "
                f"`component_distribution.batch_shape`({shape[:-1]})"
            )
        count = mixture_distribution.logits.shape[-1]
        if count != shape[-1]:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({shape[-1]})"
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        self._num_component = count
        super().__init__(shape[:-1], component_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """The same distribution over a larger batch: see `Distribution.expand`."""
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        new._component_distribution = self._component_distribution.expand((*batch_shape, self._num_component))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component = self._num_component
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property
    def support(self) -> Any:
        """That of all components."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The weights."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        return self._component_distribution

    def _weighted(self, values: Tensor) -> Tensor:
        """The mean over the components of a tensor of the shape of their batch and event."""
        weights = self._mixture_distribution.probs
        for _ in self._event_shape:
            weights = weights.unsqueeze(-1)
        return (weights * values).sum(-1 - len(self._event_shape))

    @property
    def mean(self) -> Tensor:
        """The mean of the components' means."""
        return self._weighted(self._component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        """The mean of the variances, and the variance of the means."""
        means = self._component_distribution.mean
        apart = means - self.mean.unsqueeze(-1 - len(self._event_shape))
        return self._weighted(self._component_distribution.variance + apart * apart)

    def _each(self, value: Tensor) -> Tensor:
        """A value with a dimension for the components."""
        return value.unsqueeze(-1 - len(self._event_shape))

    def cdf(self, value: Tensor) -> Tensor:
        """The mean of the components' distribution functions."""
        return (self._component_distribution.cdf(self._each(value)) * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Logarithm of the mean of the densities, by a log-sum-exp."""
        inside = self._component_distribution.log_prob(self._each(self._checked(value)))
        return (inside + self._mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draws from all components, and picks one of each draw."""
        with rgrad.no_grad():
            drawn = self._component_distribution.sample(sample_shape)
            events = len(self._event_shape)
            picked = self._mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            index = picked.reshape((*picked.shape, *[1] * (events + 1)))
            shape = (*picked.shape, 1, *self._event_shape)
            return drawn.gather(-1 - events, index.expand(shape)).squeeze(-1 - events)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
