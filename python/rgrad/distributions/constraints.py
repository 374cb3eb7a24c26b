"""Where parameters and values may lie: `check` tells it of every one of a batch.

>>> import rgrad as torch
>>> from rgrad.distributions import constraints
>>> constraints.unit_interval.check(torch.tensor([0.5, 2.0]))
tensor([ True, False])
>>> constraints.simplex.check(torch.tensor([[0.5, 0.5], [0.5, 0.6]]))
tensor([ True, False])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor

__all__ = [
    "Constraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "independent",
    "integer_interval",
    "interval",
    "half_open_interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "MixtureSameFamilyConstraint",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_semidefinite",
    "positive_definite",
    "positive_integer",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A region that a variable lies in.

    Attributes:
        is_discrete: whether the region consists of single points.
        event_dim: how many of the last dimensions are one value, which is inside or outside as a whole.
    """

    is_discrete: Any = False
    event_dim: Any = 0
    # What the repr shows.
    _shown: tuple[str, ...] = ()

    def check(self, value: Tensor) -> Tensor:
        """Whether values are inside: a bool tensor of the shape of ``value`` without its event dimensions."""
        raise NotImplementedError

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)
        return f"{type(self).__name__.removeprefix('_')}({inside})"


class _Dependent(Constraint):
    """A region that depends on other variables, so that nothing can be checked without them."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete = is_discrete
        self._event_dim = event_dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        """Whether the region consists of single points, where that is known."""
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self) -> int:
        """The number of dimensions of a value, where that is known."""
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        """This constraint with more known of it."""
        discrete = self._is_discrete if is_discrete is NotImplemented else is_discrete
        dim = self._event_dim if event_dim is NotImplemented else event_dim
        return _Dependent(is_discrete=discrete, event_dim=dim)

    def check(self, value: Tensor) -> Tensor:
        """Raises: the region isn't known."""
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint depends on other variables."""
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property that gives a constraint of the instance; of the class it is a dependent constraint itself.

    >>> import rgrad as torch
    >>> type(torch.distributions.Uniform.support).__name__, torch.distributions.Uniform(0.0, 2.0).support
    ('_DependentProperty', Interval(lower_bound=0.0, upper_bound=2.0))
    """

    def __init__(
        self,
        fn: Callable[[Any], Any] | None = None,
        *,
        is_discrete: bool | None = NotImplemented,
        event_dim: int | None = NotImplemented,
    ) -> None:
        property.__init__(self, fn)
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    def __call__(self, fn: Callable[[Any], Any]) -> _DependentProperty:  # type: ignore[override]
        """As a decorator with arguments."""
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _IndependentConstraint(Constraint):
    """Values of which the last dimensions are in the region only if all their elements are.

    Args:
        base_constraint: the region of the elements.
        reinterpreted_batch_ndims: how many dimensions in front of the base's event dimensions become one event.
    """

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        if not isinstance(base_constraint, Constraint) or not isinstance(reinterpreted_batch_ndims, int):
            raise TypeError("expected a Constraint and the number of dimensions")
        if reinterpreted_batch_ndims < 0:
            raise ValueError("the number of dimensions must not be negative")
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:
        """As of the base."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:
        """The base's dimensions and those taken over."""
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        """Whether all elements of each event are inside."""
        if value.dim() < self.event_dim:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        inside = self.base_constraint.check(value)
        n = self.reinterpreted_batch_ndims
        return inside.flatten(-n).all(-1) if n else inside

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:]}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """Values that every component of a mixture allows.

    Args:
        base_constraint: the support of the components, whose last batch dimension counts them.
    """

    def __init__(self, base_constraint: Constraint) -> None:
        if not isinstance(base_constraint, Constraint):
            raise TypeError("expected a Constraint")
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:
        """As of the components."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:
        """As of the components."""
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        """Whether each value is inside for all components."""
        n = self.event_dim
        inside = self.base_constraint.check(value.unsqueeze(-1 - n))
        if inside.dim() < value.dim():
            inside = inside.unsqueeze(-1)
        kept = value.dim() - n
        return inside.flatten(kept).all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Real(Constraint):
    """All numbers; NaN is none."""

    def check(self, value: Tensor) -> Tensor:
        """False for NaN."""
        return ~value.isnan()


class _Boolean(Constraint):
    """0 and 1."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        """Whether values are 0 or 1."""
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    """Vectors of zeros and a single one."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        """Whether each vector has one 1 and else zeros."""
        return boolean.check(value).all(-1) & value.sum(-1).eq(1)


def _is_whole(value: Tensor) -> Tensor:
    return value % 1 == 0


class _IntegerInterval(Constraint):
    """Integers from a bound to another, both included."""

    is_discrete = True
    _shown = ("lower_bound", "upper_bound")

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        """Whether values are such integers."""
        return _is_whole(value) & (value >= self.lower_bound) & (value <= self.upper_bound)


class _IntegerLessThan(Constraint):
    """Integers up to a bound, which is included."""

    is_discrete = True
    _shown = ("upper_bound",)

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        """Whether values are such integers."""
        return _is_whole(value) & (value <= self.upper_bound)


class _IntegerGreaterThan(Constraint):
    """Integers from a bound on, which is included."""

    is_discrete = True
    _shown = ("lower_bound",)

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        """Whether values are such integers."""
        return _is_whole(value) & (value >= self.lower_bound)


class _GreaterThan(Constraint):
    """Numbers above a bound."""

    _shown = ("lower_bound",)

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        """Whether values are above the bound."""
        return value > self.lower_bound


class _GreaterThanEq(Constraint):
    """Numbers from a bound on."""

    _shown = ("lower_bound",)

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        """Whether values are at or above the bound."""
        return value >= self.lower_bound


class _LessThan(Constraint):
    """Numbers below a bound."""

    _shown = ("upper_bound",)

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        """Whether values are below the bound."""
        return value < self.upper_bound


class _Interval(Constraint):
    """Numbers from a bound to another, both included."""

    _shown = ("lower_bound", "upper_bound")

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        """Whether values are in the closed interval."""
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class _HalfOpenInterval(Constraint):
    """Numbers from a bound, which is included, to another, which is not."""

    _shown = ("lower_bound", "upper_bound")

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        """Whether values are in the half-open interval."""
        return (value >= self.lower_bound) & (value < self.upper_bound)


class _Simplex(Constraint):
    """Vectors of numbers that are not negative and have the sum 1, up to 1e-6."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        """Whether vectors are probabilities."""
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Vectors of counts whose sum is at most a bound."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        """Whether vectors are not negative and within the bound."""
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


def _all_entries(condition: Tensor) -> Tensor:
    return condition.flatten(-2).all(-1)


class _LowerTriangular(Constraint):
    """Square matrices with zeros above the diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        """Whether matrices are lower triangular."""
        return _all_entries(value == value.tril())


class _LowerCholesky(Constraint):
    """Lower triangular matrices whose diagonal is positive."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        """Whether matrices are Cholesky factors."""
        return lower_triangular.check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(Constraint):
    """Cholesky factors of correlation matrices: their rows have length 1."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        """Whether matrices are such factors, up to ten rounding errors per entry of a row."""
        allowed = 10 * value.size(-1) * rgrad.finfo(value.dtype).eps
        lengths = (value * value).sum(-1).sqrt()
        return lower_cholesky.check(value) & ((lengths - 1).abs() <= allowed).all(-1)


class _Square(Constraint):
    """Matrices with as many rows as columns."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        """The same for all of a batch, by its shape."""
        is_square = value.shape[-1] == value.shape[-2]
        return rgrad.full(value.shape[:-2], is_square, dtype=rgrad.bool, device=value.device)


class _Symmetric(_Square):
    """Matrices that equal their transpose up to 1e-6."""

    def check(self, value: Tensor) -> Tensor:
        """Whether matrices are symmetric."""
        inside = super().check(value)
        if value.shape[-1] != value.shape[-2]:
            return inside
        return inside & _all_entries(value.isclose(value.mT, atol=1e-6))


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value: Tensor) -> Tensor:
        """Whether matrices have no negative eigenvalue."""
        inside = super().check(value)
        if value.shape[-1] != value.shape[-2]:
            return inside
        return inside & (rgrad.linalg.eigvalsh(value) >= 0).all(-1)


def _factorizes(matrix: Tensor) -> bool:
    try:
        rgrad.linalg.cholesky(matrix)
    except rgrad.linalg.LinAlgError:
        return False
    return True


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices that have a Cholesky factor."""

    def check(self, value: Tensor) -> Tensor:
        """Whether matrices are positive definite."""
        inside = super().check(value)
        plain = value.detach()
        if value.shape[-1] != value.shape[-2] or _factorizes(plain):
            return inside
        # One of the batch has none; each alone tells which.
        each = [_factorizes(matrix) for matrix in plain.reshape(-1, *plain.shape[-2:])]
        return inside & rgrad.tensor(each, device=plain.device).reshape(plain.shape[:-2])


class _Cat(Constraint):
    """Constraints of parts that follow each other along a dimension.

    Args:
        cseq: the constraints of the parts.
        dim: the dimension.
        lengths: sizes of the parts along it, by default 1 each.
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        self.cseq = list(cseq)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        self.dim = dim
        _expect_constraints(self.cseq)
        if len(self.lengths) != len(self.cseq):
            raise ValueError(f"expected a length for each of {len(self.cseq)} constraints, got {len(self.lengths)}")

    @property
    def is_discrete(self) -> bool:
        """Whether any part is."""
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:
        """The most of any part."""
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        """The answers of all parts, one after the other."""
        parts = value.split(self.lengths, self.dim)
        return rgrad.cat([c.check(part) for c, part in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(Constraint):
    """Constraints of the slices along a dimension.

    Args:
        cseq: the constraints of the slices.
        dim: the dimension.
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq = list(cseq)
        self.dim = dim
        _expect_constraints(self.cseq)

    @property
    def is_discrete(self) -> bool:
        """Whether any slice is."""
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:
        """The most of any slice, and the dimension itself if it is part of the event."""
        most = max(c.event_dim for c in self.cseq)
        return most + 1 if self.dim + most < 0 else most

    def check(self, value: Tensor) -> Tensor:
        """The answers of all slices."""
        slices = value.unbind(self.dim)
        return rgrad.stack([c.check(part) for c, part in zip(self.cseq, slices, strict=True)], self.dim)


def _expect_constraints(values: Sequence[Any]) -> None:
    if not all(isinstance(value, Constraint) for value in values):
        raise TypeError("expected a sequence of Constraints")


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
integer_interval = _IntegerInterval
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
interval = _Interval
half_open_interval = _HalfOpenInterval
unit_interval = _Interval(0.0, 1.0)
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
