"""Transforms from all numbers to a constraint's region: by these, what an optimiser changes freely stays inside.

>>> import rgrad as torch
>>> from rgrad.distributions import biject_to, constraints
>>> free = torch.tensor([-100.0, 0.0], requires_grad=True)
>>> biject_to(constraints.positive)(free)
tensor([3.7835e-44, 1.0000e+00], grad_fn=<AddBackward0>)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rgrad._C import Tensor

from . import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Which transform leads to which constraint, by the constraint's class.

    >>> from rgrad.distributions import constraints, transforms
    >>> from rgrad.distributions.constraint_registry import ConstraintRegistry
    >>> registry = ConstraintRegistry()
    >>> @registry.register(constraints.positive)
    ... def to_positive(constraint):
    ...     return transforms.SoftplusTransform()
    >>> registry(constraints.positive)
    SoftplusTransform()
    """

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Any]] = {}
        super().__init__()

    def register(self, constraint: Any, factory: Callable[[Any], Any] | None = None) -> Any:
        """Enters a factory; without one, it is a decorator.

        Args:
            constraint: a subclass of `Constraint`, or an instance, which stands for its class.
            factory: makes a `Transform` of a constraint of that class.
        """
        if factory is None:
            return lambda function: self.register(constraint, function)
        kind = constraint if isinstance(constraint, type) else type(constraint)
        if not issubclass(kind, constraints.Constraint):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """The transform for a constraint."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _to_interval(constraint: Any) -> Any:
    """The sigmoid, stretched to the interval."""
    low, high = constraint.lower_bound, constraint.upper_bound
    if not isinstance(low, Tensor) and not isinstance(high, Tensor) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform(
        [transforms.SigmoidTransform(), transforms.AffineTransform(loc=low, scale=high - low)]
    )


def _beyond(bound: str, scale: int) -> Callable[[Any], Any]:
    """A factory for regions on one side of a bound."""

    def factory(constraint: Any) -> Any:
        shift = transforms.AffineTransform(getattr(constraint, bound), scale)
        return transforms.ComposeTransform([transforms.ExpTransform(), shift])

    return factory


def _enter(constraint: Any, *registries: ConstraintRegistry) -> Callable[[Any], Any]:
    def decorator(factory: Callable[[Any], Any]) -> Any:
        for registry in registries:
            registry.register(constraint, factory)
        return factory

    return decorator


_BOTH = (biject_to, transform_to)
_enter(constraints.real, *_BOTH)(lambda _: transforms.identity_transform)
_enter(constraints.greater_than, *_BOTH)(_beyond("lower_bound", 1))
_enter(constraints.greater_than_eq, *_BOTH)(_beyond("lower_bound", 1))
_enter(constraints.less_than, *_BOTH)(_beyond("upper_bound", -1))
_enter(constraints.interval, *_BOTH)(_to_interval)
_enter(constraints.half_open_interval, *_BOTH)(_to_interval)
_enter(constraints.simplex, biject_to)(lambda _: transforms.StickBreakingTransform())
_enter(constraints.simplex, transform_to)(lambda _: transforms.SoftmaxTransform())
_enter(constraints.corr_cholesky, *_BOTH)(lambda _: transforms.CorrCholeskyTransform())
_enter(constraints.lower_cholesky, transform_to)(lambda _: transforms.LowerCholeskyTransform())
_enter(constraints.positive_definite, transform_to)(lambda _: transforms.PositiveDefiniteTransform())
_enter(constraints.positive_semidefinite, transform_to)(lambda _: transforms.PositiveDefiniteTransform())


def _enter_composites(registry: ConstraintRegistry) -> None:
    """Constraints of parts: the transforms of the parts, put together likewise."""

    @registry.register(constraints.independent)
    def _(constraint: Any) -> Any:
        return transforms.IndependentTransform(
            registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims
        )

    @registry.register(constraints.cat)
    def _(constraint: Any) -> Any:
        parts = [registry(c) for c in constraint.cseq]
        return transforms.CatTransform(parts, constraint.dim, constraint.lengths)

    @registry.register(constraints.stack)
    def _(constraint: Any) -> Any:
        return transforms.StackTransform([registry(c) for c in constraint.cseq], constraint.dim)


for _registry in _BOTH:
    _enter_composites(_registry)
