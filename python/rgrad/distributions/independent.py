"""Batches of independent variables as one variable of more dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from rgrad._C import Tensor

from . import constraints
from .distribution import Distribution
from .utils import _sum_rightmost

__all__ = ["Independent"]

D = TypeVar("D", bound=Distribution)


class Independent(Distribution, Generic[D]):
    """A distribution that counts the last dimensions of its base's batch as part of the event.

    Args:
        base_distribution: the distribution.
        reinterpreted_batch_ndims: how many dimensions of its batch become part of the event.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> from rgrad.distributions import Independent, Normal
    >>> d = Independent(Normal(torch.zeros(4, 3), 1.0), 1)
    >>> d.batch_shape, d.event_shape
    (torch.Size([4]), torch.Size([3]))
    """

    arg_constraints: dict[str, Any] = {}
    base_dist: D

    def __init__(
        self, base_distribution: D, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        count = len(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > count:
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {count}"
            )
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        shape, cut = base_distribution.batch_shape, count - reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:] + base_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """The same distribution over a larger batch: see `Distribution.expand`."""
        new = self._get_checked_instance(Independent, _instance)
        taken = self._event_shape[: self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand((*batch_shape, *taken))
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def has_rsample(self) -> bool:
        """As the base."""
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:
        """As the base, unless the values of several variables would have to be combined."""
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        """The base's, for all elements of the event."""
        inner, taken = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(inner, taken) if taken else inner

    @property
    def mean(self) -> Tensor:
        """As the base."""
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        """As the base."""
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        """As the base."""
        return self.base_dist.variance

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """As the base."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """As the base."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """The base's, summed over the dimensions taken over."""
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        """The base's, summed over the dimensions taken over."""
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """As the base, unless the values of several variables would have to be combined."""
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
