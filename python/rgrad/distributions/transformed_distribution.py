"""Distributions of what transforms make of samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor

from . import constraints
from .distribution import Distribution
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import _sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of ``y = f(x)``: ``log p(y) = log p(x) - log |det dy/dx|``.

    Args:
        base_distribution: that of x. Where the transforms take more dimensions than one of its samples has, its last
            batch dimensions become part of the event.
        transforms: the transform f, or a list of such, of which the first is applied first.
        validate_args: see `Distribution`.

    >>> import rgrad as torch
    >>> from rgrad.distributions import ExpTransform, Normal, TransformedDistribution
    >>> d = TransformedDistribution(Normal(0.0, 1.0), [ExpTransform()])
    >>> d.cdf(torch.tensor(1.0))
    tensor(0.5000)
    """

    arg_constraints: dict[str, Any] = {}
    base_dist: Any
    transforms: list[Transform]

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif not isinstance(transforms, list):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        elif not all(isinstance(t, Transform) for t in transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        else:
            self.transforms = transforms
        whole = ComposeTransform(self.transforms)
        taken, given = whole.domain.event_dim, whole.codomain.event_dim
        base, shape = base_distribution, base_distribution.batch_shape + base_distribution.event_shape
        if len(shape) < taken:
            raise ValueError(f"base_distribution needs to have shape with size at least {taken}, but got {shape}.")
        out = rgrad.Size(whole.forward_shape(shape))
        # Parameters of the transforms may broadcast the batch.
        wider = rgrad.Size(whole.inverse_shape(out))
        if wider != shape:
            base = base.expand(wider[: len(wider) - len(base.event_shape)])
        events = len(base.event_shape)
        self.base_dist = Independent(base, taken - events) if taken > events else base
        cut = len(out) - max(given, max(events, taken) + given - taken)
        super().__init__(out[:cut], out[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """The same distribution over a larger batch: see `Distribution.expand`."""
        new = self._get_checked_instance(TransformedDistribution, _instance)
        shape = ComposeTransform(self.transforms).inverse_shape((*batch_shape, *self._event_shape))
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _support(self) -> Any:
        """What the last transform gives."""
        if not self.transforms:
            return self.base_dist.support
        last = self.transforms[-1].codomain
        missing = len(self._event_shape) - last.event_dim
        return constraints.independent(last, missing) if missing > 0 else last

    # Subclasses may say these outright.
    support: Any = constraints.dependent_property(_support, is_discrete=False)
    has_rsample: Any = property(lambda self: self.base_dist.has_rsample, doc="As the base.")

    def _transform(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Transformed samples of the base."""
        with rgrad.no_grad():
            return self._transform(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Transformed samples of the base, with gradients."""
        return self._transform(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density: that of the base where the value comes from, less the log-determinants."""
        y = self._checked(value)
        dims = len(self._event_shape)
        lost: Any = 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            dims += transform.domain.event_dim - transform.codomain.event_dim
            lost = lost + _sum_rightmost(transform.log_abs_det_jacobian(x, y), dims - transform.domain.event_dim)
            y = x
        return _sum_rightmost(self.base_dist.log_prob(y), dims - len(self.base_dist.event_shape)) - lost

    def _oriented(self, probability: Tensor) -> Tensor:
        """A probability of the base as one of the result: of the other side where the transforms decrease."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return probability if isinstance(sign, int) and sign == 1 else sign * (probability - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        """The base's where the value comes from; the transforms must be monotone."""
        value = self._checked(value)
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._oriented(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        """The transformed quantile of the base; the transforms must be monotone."""
        return self._transform(self.base_dist.icdf(self._oriented(value)))
