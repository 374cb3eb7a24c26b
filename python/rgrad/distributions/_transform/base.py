"""The class of transforms, and those that make one transform of others."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor

from .. import constraints
from ..utils import _sum_rightmost, lazy_property


class Transform:
    """A differentiable map whose inverse and log-determinant are known.

    Subclasses define `domain`, `codomain`, `_call`, and where they can `_inverse` and `log_abs_det_jacobian`.

    Args:
        cache_size: with 1, the last argument and result are kept, so that the inverse of a result is the very
            argument, without rounding; with 0, none are.

    Attributes:
        bijective: whether ``t.inv(t(x)) == x`` and ``t(t.inv(y)) == y``; else only ``t(t.inv(t(x))) == t(x)`` holds.
        sign: of an invertible map of one variable, 1 or -1: whether it increases or decreases.

    >>> import rgrad as torch
    >>> t = torch.distributions.ExpTransform()
    >>> y = t(torch.tensor([0.0, 1.0]))
    >>> t.inv(y), t.log_abs_det_jacobian(t.inv(y), y)
    (tensor([0., 1.]), tensor([0., 1.]))
    """

    bijective: Any = False
    domain: Any
    codomain: Any
    # Names of the constructor's arguments other than `cache_size`: what a copy is made with and what equality compares.
    # None for subclasses that define neither, as those of users.
    _arguments: tuple[str, ...] | None = None

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inv: Any = None
        self._cached_x_y: tuple[Any, Any] = (None, None)
        super().__init__()

    def __getstate__(self) -> dict[str, Any]:
        # The inverse is kept by a weak reference, which can't be copied; the cache is of no use to a copy.
        return {**vars(self), "_inv": None, "_cached_x_y": (None, None)}

    @property
    def event_dim(self) -> int:
        """The number of dimensions of one value, where arguments and results have the same."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        return self.domain.event_dim

    @property
    def inv(self) -> Transform:
        """The inverse; that of the inverse is this transform itself."""
        found = None if self._inv is None else self._inv()
        if found is None:
            found = _InverseTransform(self)
            self._inv = weakref.ref(found)
        return found

    @property
    def sign(self) -> Any:
        """Whether the map increases (1) or decreases (-1)."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Transform:
        """This transform with another size of cache."""
        if cache_size == self._cache_size:
            return self
        if self._arguments is None and type(self).__init__ is not Transform.__init__:
            raise NotImplementedError(f"{type(self)}.with_cache is not implemented")
        return type(self)(**{name: getattr(self, name) for name in self._arguments or ()}, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        if self is other or self._arguments is None:
            return self is other
        return type(self) is type(other) and all(_same(getattr(self, n), getattr(other, n)) for n in self._arguments)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__: Any = None

    def __call__(self, x: Tensor) -> Tensor:
        """Applies the transform."""
        if not self._cache_size:
            return self._call(x)
        if x is not self._cached_x_y[0]:
            self._cached_x_y = (x, self._call(x))
        return self._cached_x_y[1]

    def _inv_call(self, y: Tensor) -> Tensor:
        if not self._cache_size:
            return self._inverse(y)
        if y is not self._cached_x_y[1]:
            self._cached_x_y = (self._inverse(y), y)
        return self._cached_x_y[0]

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Logarithm of the absolute determinant of dy/dx, one number for each value.

        Args:
            x: arguments of the transform.
            y: its results for them.
        """
        raise NotImplementedError

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape of the result for an argument of a shape."""
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape of the argument for a result of a shape."""
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _same(a: Any, b: Any) -> bool:
    """Equality of two arguments of transforms: tensors and numbers by their values."""
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        equal = a == b
        return bool(equal.all()) if isinstance(equal, Tensor) else bool(equal)
    return bool(a == b)


def _lifted(constraint: Any, event_dim: int) -> Any:
    """A constraint of values that have at least so many dimensions."""
    missing = event_dim - constraint.event_dim
    return constraints.independent(constraint, missing) if missing > 0 else constraint


def _expect_dims(shape: Sequence[int], least: int) -> None:
    if len(shape) < least:
        raise ValueError("Too few dimensions on input")


class _InverseTransform(Transform):
    """The inverse of a transform, which it calls the other way round."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv: Any = transform

    def __getstate__(self) -> dict[str, Any]:
        return vars(self)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        """The codomain of the other."""
        return self._inv.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        """The domain of the other."""
        return self._inv.domain

    @property
    def bijective(self) -> bool:
        """As the other."""
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        """As the other."""
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        """The transform that this is the inverse of."""
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The inverse of the other with a cache."""
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__: Any = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The negative of the other's."""
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape of arguments of the other."""
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape of results of the other."""
        return self._inv.forward_shape(shape)


class ComposeTransform(Transform):
    """Transforms that are applied one after the other.

    Args:
        parts: the transforms; the first is applied first.
        cache_size: of each part.

    >>> import rgrad as torch
    >>> from rgrad.distributions import AffineTransform, ComposeTransform, ExpTransform
    >>> ComposeTransform([AffineTransform(1.0, 2.0), ExpTransform()])(torch.tensor([-0.5]))
    tensor([1.])
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)
        super().__init__(cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__: Any = None

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        """What the first part takes, with as many dimensions as the later parts need."""
        if not self.parts:
            return constraints.real
        needed = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            taken, given = part.domain.event_dim, part.codomain.event_dim
            needed = max(taken, needed + taken - given)
        return _lifted(self.parts[0].domain, needed)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        """What the last part gives, with as many dimensions as the earlier parts make one value."""
        if not self.parts:
            return constraints.real
        kept = self.parts[0].domain.event_dim
        for part in self.parts:
            taken, given = part.domain.event_dim, part.codomain.event_dim
            kept = max(given, kept + given - taken)
        return _lifted(self.parts[-1].codomain, kept)

    @lazy_property
    def bijective(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether all parts are."""
        return all(part.bijective for part in self.parts)

    @lazy_property
    def sign(self) -> Any:
        """The product of the parts' signs."""
        return math.prod((part.sign for part in self.parts), start=1)

    @property
    def inv(self) -> Transform:
        """The inverses of the parts, the last one's first."""
        found = None if self._inv is None else self._inv()
        if found is None:
            found = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv = weakref.ref(found)
            found._inv = weakref.ref(self)
        return found

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The composition of the parts with caches."""
        return self if cache_size == self._cache_size else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum of the parts', each over the dimensions that it counts as a batch and the whole as a value."""
        if not self.parts:
            return rgrad.zeros_like(x)
        dims = self.domain.event_dim
        total: Any = 0
        for i, part in enumerate(self.parts):
            after = y if i == len(self.parts) - 1 else part(x)
            total = total + _sum_rightmost(part.log_abs_det_jacobian(x, after), dims - part.domain.event_dim)
            dims += part.codomain.event_dim - part.domain.event_dim
            x = after
        return total

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape after all parts."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape before all parts."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        lines = ",\n    ".join(map(repr, self.parts))
        return f"{type(self).__name__}(\n    {lines}\n)"


class IndependentTransform(Transform):
    """A transform that counts some dimensions of its batch as part of one value.

    The values are the same; log-determinants are summed over these dimensions.

    Args:
        base_transform: the transform.
        reinterpreted_batch_ndims: how many dimensions in front of its event dimensions become part of the event.
        cache_size: of the base.

    >>> import rgrad as torch
    >>> t = torch.distributions.IndependentTransform(torch.distributions.ExpTransform(), 1)
    >>> x = torch.tensor([1.0, 2.0])
    >>> t.log_abs_det_jacobian(x, t(x))
    tensor(3.)
    """

    _arguments = ("base_transform", "reinterpreted_batch_ndims")

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        """The base's, for all elements of the event."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        """The base's, for all elements of the event."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:
        """As the base."""
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        """As the base."""
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        _expect_dims(x.shape, self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        _expect_dims(y.shape, self.codomain.event_dim)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The base's, summed over the dimensions taken over."""
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """As the base."""
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """As the base."""
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """Gives the last dimensions another shape; its determinant is 1.

    Args:
        in_shape: the event shape of arguments.
        out_shape: that of results, of as many elements.
        cache_size: 0 or 1.

    >>> import rgrad as torch
    >>> torch.distributions.ReshapeTransform((2, 3), (6,))(torch.zeros(5, 2, 3)).shape
    torch.Size([5, 6])
    """

    bijective = True
    _arguments = ("in_shape", "out_shape")

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = rgrad.Size(in_shape), rgrad.Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        """All numbers."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:
        """All numbers."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def _batch(self, x: Tensor) -> Sequence[int]:
        return x.shape[: x.dim() - len(self.in_shape)]

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape((*self._batch(x), *self.out_shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape((*y.shape[: y.dim() - len(self.out_shape)], *self.in_shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """0 for every value."""
        return x.new_zeros(self._batch(x))

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape with the event's end exchanged."""
        return self._exchange(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape with the event's end exchanged back."""
        return self._exchange(shape, self.out_shape, self.in_shape)

    @staticmethod
    def _exchange(shape: Sequence[int], old: Sequence[int], new: Sequence[int]) -> Sequence[int]:
        _expect_dims(shape, len(old))
        cut = len(shape) - len(old)
        if tuple(shape[cut:]) != tuple(old):
            raise ValueError(f"Shape mismatch: expected {tuple(shape[cut:])} but got {old}")
        return rgrad.Size((*shape[:cut], *new))


identity_transform = ComposeTransform([])
