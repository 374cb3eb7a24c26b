"""Transforms of the parts of a tensor, and those by a distribution function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor

from .. import constraints
from ..utils import _sum_rightmost, lazy_property
from .base import Transform


class _Parts(Transform):
    """What transforms of parts of a tensor share: the parts along a dimension and their answers put together."""

    transforms: list[Transform]
    dim: int

    def _split(self, x: Tensor) -> Sequence[Tensor]:
        raise NotImplementedError

    def _join(self, parts: list[Tensor]) -> Tensor:
        raise NotImplementedError

    def _expect(self, x: Tensor) -> None:
        if not -x.dim() <= self.dim < x.dim():
            raise ValueError(f"dimension {self.dim} is none of a tensor of {x.dim()} dimensions")

    @property
    def bijective(self) -> bool:
        """Whether all parts are."""
        return all(t.bijective for t in self.transforms)

    def _call(self, x: Tensor) -> Tensor:
        return self._join([t(part) for t, part in zip(self.transforms, self._split(x), strict=True)])

    def _inverse(self, y: Tensor) -> Tensor:
        return self._join([t.inv(part) for t, part in zip(self.transforms, self._split(y), strict=True)])


class CatTransform(_Parts):
    """Transforms of parts that follow each other along a dimension.

    Args:
        tseq: the transforms.
        dim: the dimension.
        lengths: sizes of the parts along it, by default 1 each.
        cache_size: of each transform.

    >>> import rgrad as torch
    >>> from rgrad.distributions import CatTransform, ExpTransform, identity_transform
    >>> CatTransform([ExpTransform(), identity_transform], lengths=[1, 2])(torch.zeros(3))
    tensor([1., 0., 0.])
    """

    _arguments = ("transforms", "dim", "lengths")

    def __init__(
        self,
        tseq: Sequence[Transform] = (),
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
        *,
        transforms: Sequence[Transform] | None = None,
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.transforms = _cached_parts(tseq if transforms is None else transforms, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        self.dim = dim
        if len(self.lengths) != len(self.transforms):
            raise ValueError(f"expected a length for each of {len(self.transforms)} transforms")

    @lazy_property
    def event_dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The most of any part."""
        return max(t.event_dim for t in self.transforms)

    @lazy_property
    def length(self) -> int:
        """The size along the dimension."""
        return sum(self.lengths)

    @constraints.dependent_property
    def domain(self) -> Any:
        """Those of the parts, one after the other."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """Those of the parts, one after the other."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)

    def _split(self, x: Tensor) -> Sequence[Tensor]:
        self._expect(x)
        return x.split(self.lengths, self.dim)

    def _join(self, parts: list[Tensor]) -> Tensor:
        return rgrad.cat(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Those of the parts: one after the other, or their sum if the dimension is part of a value."""
        dims = self.event_dim
        each = [
            _sum_rightmost(t.log_abs_det_jacobian(a, b), dims - t.event_dim)
            for t, a, b in zip(self.transforms, self._split(x), self._split(y), strict=True)
        ]
        along = self.dim - (x.dim() if self.dim >= 0 else 0) + dims
        return rgrad.cat(each, along) if along < 0 else rgrad.stack(each).sum(0)


class StackTransform(_Parts):
    """Transforms of the slices along a dimension.

    Args:
        tseq: the transforms, as many as there are slices.
        dim: the dimension.
        cache_size: of each transform.

    >>> import rgrad as torch
    >>> from rgrad.distributions import ExpTransform, StackTransform, identity_transform
    >>> StackTransform([identity_transform, ExpTransform()], dim=1)(torch.zeros(2, 2))
    tensor([[0., 1.],
            [0., 1.]])
    """

    _arguments = ("transforms", "dim")

    def __init__(
        self,
        tseq: Sequence[Transform] = (),
        dim: int = 0,
        cache_size: int = 0,
        *,
        transforms: Sequence[Transform] | None = None,
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.transforms = _cached_parts(tseq if transforms is None else transforms, cache_size)
        self.dim = dim

    @constraints.dependent_property
    def domain(self) -> Any:
        """Those of the slices."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """Those of the slices."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)

    def _split(self, x: Tensor) -> Sequence[Tensor]:
        self._expect(x)
        if x.size(self.dim) != len(self.transforms):
            raise ValueError(f"{len(self.transforms)} transforms for {x.size(self.dim)} slices")
        return x.unbind(self.dim)

    def _join(self, parts: list[Tensor]) -> Tensor:
        return rgrad.stack(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Those of the slices, stacked."""
        slices = zip(self.transforms, self._split(x), self._split(y), strict=True)
        return self._join([t.log_abs_det_jacobian(a, b) for t, a, b in slices])


def _cached_parts(parts: Sequence[Transform], cache_size: int) -> list[Transform]:
    if not all(isinstance(t, Transform) for t in parts):
        raise TypeError("expected a sequence of Transforms")
    return [t.with_cache(cache_size) for t in parts] if cache_size else list(parts)


class CumulativeDistributionTransform(Transform):
    """The distribution function of a distribution of one variable: it makes its samples uniform.

    Args:
        distribution: one that has `cdf`, `icdf` and `log_prob`.
        cache_size: 0 or 1.

    >>> import rgrad as torch
    >>> from rgrad.distributions import CumulativeDistributionTransform, Normal
    >>> CumulativeDistributionTransform(Normal(0.0, 1.0))(torch.zeros(1))
    tensor([0.5000])
    """

    bijective = True
    codomain = constraints.unit_interval
    _arguments = ("distribution",)

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def sign(self) -> int:
        """1: a distribution function increases."""
        return 1

    @property
    def domain(self) -> Any:
        """The support of the distribution."""
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The log-density."""
        return self.distribution.log_prob(x)
