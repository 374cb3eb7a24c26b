"""`_foreach_…`: operations on lists of tensors, which apply the operation of the same name to each tensor.

A second operand is either used for all tensors (a number, a 0-d tensor) or a list with one tensor or number for each.
"""

from __future__ import annotations

from rgrad import _C
from rgrad._C import Tensor

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Tensors = Sequence[Tensor]

_UNARY = (
    *("abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma"),
    *("log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt"),
    *("tan", "tanh", "trunc"),
)
_BINARY = ("add", "sub", "mul", "div", "pow", "clamp_min", "clamp_max", "maximum", "minimum")
# Binary operations that are computed by another one, which accepts numbers and works in place.
_DONE_BY = {"maximum": "clamp_min", "minimum": "clamp_max"}


def _expect_tensors(tensors: Any, place: int = 0) -> Sequence[Tensor]:
    # The rows of a tensor are no list of tensors.
    if not isinstance(tensors, (list, tuple)):
        of = type(tensors).__name__
        raise TypeError(f"argument 'self' (position {place + 1}) must be tuple of Tensors, not {of}")
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")
    for i, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument {place}, but got {type(t).__name__}")
    return tensors


def _for_each(self: Tensors, other: Any) -> list[Any]:
    """Returns the second operand for each tensor."""
    if isinstance(other, Tensor):
        if other.dim() != 0:
            raise RuntimeError(
                f"scalar tensor expected to be 0 dim but it has {other.dim()} dimensions and {other.numel()} elements."
            )
        return [other] * len(self)
    if not isinstance(other, (list, tuple)):
        return [other] * len(self)
    if len(other) != len(self):
        if any(isinstance(x, Tensor) for x in other):
            raise RuntimeError(f"Tensor lists must have the same number of tensors, got {len(self)} and {len(other)}")
        raise RuntimeError("Tensor list must have same number of elements as scalar list.")
    return list(other)


def _operation(name: str, in_place: bool) -> Callable[..., Any]:
    return getattr(Tensor, name + "_" * in_place)


def _unary(name: str, in_place: bool) -> Callable[..., Any]:
    operation = _operation(name, in_place)

    def function(self: Tensors) -> Any:
        return _collected(self, [operation(t) for t in _expect_tensors(self)], in_place)

    return function


def _binary(name: str, in_place: bool) -> Callable[..., Any]:
    operation = _operation(_DONE_BY.get(name, name), in_place)

    def function(self: Any, other: Any, **alpha: Any) -> Any:
        if name == "pow" and not in_place and isinstance(self, (int, float)):
            return tuple(_C.pow(self, t) for t in _expect_tensors(other, 1))
        if alpha and (name not in ("add", "sub") or isinstance(other, (int, float))):
            raise TypeError(f"_foreach_{name}{'_' * in_place}() got an unexpected keyword argument {min(alpha)!r}")
        tensors = _expect_tensors(self)
        pairs = zip(tensors, _for_each(tensors, other), strict=True)
        return _collected(self, [operation(t, x, **alpha) for t, x in pairs], in_place)

    return function


def _ternary(name: str, in_place: bool) -> Callable[..., Any]:
    operation = _operation(name, in_place)

    def function(self: Tensors, tensor1: Tensors, tensor2: Tensors, scalars: Any = None, *, value: Any = 1) -> Any:
        tensors = _expect_tensors(self)
        values = value if scalars is None else scalars
        if isinstance(values, Tensor):
            if values.dim() != 1:
                raise RuntimeError(f"Expected packed scalar Tensor to be of dimension 1. Got {values.dim()} instead.")
            values = values.tolist()
        rows = zip(
            tensors,
            _for_each(tensors, _expect_tensors(tensor1, 1)),
            _for_each(tensors, _expect_tensors(tensor2, 2)),
            _for_each(tensors, values),
            strict=True,
        )
        return _collected(self, [operation(t, a, b, value=v) for t, a, b, v in rows], in_place)

    return function


def _lerp(in_place: bool) -> Callable[..., Any]:
    operation = _operation("lerp", in_place)

    def function(self: Tensors, tensors1: Tensors, weight: Any) -> Any:
        tensors = _expect_tensors(self)
        ends = _for_each(tensors, _expect_tensors(tensors1, 1))
        rows = zip(tensors, ends, _for_each(tensors, weight), strict=True)
        return _collected(self, [operation(t, end, w) for t, end, w in rows], in_place)

    return function


def _collected(self: Tensors, made: list[Any], in_place: bool) -> Any:
    return self if in_place else tuple(made)


def _foreach_norm(self: Tensors, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """The norm of all elements of each tensor."""
    return tuple(_C._linalg.vector_norm(t, ord, dtype=dtype) for t in _expect_tensors(self))


def _foreach_powsum(self: Tensors, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """The sum of powers of the absolute values of each tensor."""
    return tuple(t.abs().pow(ord).sum(dtype=dtype) for t in _expect_tensors(self))


def _foreach_max(self: Tensors) -> tuple[Tensor, ...]:
    """The greatest element of each tensor."""
    return tuple(t.max() for t in _expect_tensors(self))


def _foreach_clone(self: Tensors, *, memory_format: Any = None) -> tuple[Tensor, ...]:
    """A copy of each tensor."""
    return tuple(t.clone(memory_format=memory_format or _C.preserve_format) for t in _expect_tensors(self))


def _foreach_mm(self: Tensors, mat2: Tensors) -> tuple[Tensor, ...]:
    """The product of each matrix with the corresponding one of another list."""
    tensors = _expect_tensors(self)
    return tuple(a.mm(b) for a, b in zip(tensors, _for_each(tensors, _expect_tensors(mat2, 1)), strict=True))


def _foreach_copy_(self: Tensors, src: Tensors, non_blocking: bool = False) -> Tensors:
    """Copies each tensor of `src` to the corresponding tensor of `self`."""
    tensors = _expect_tensors(self)
    pairs = zip(tensors, _for_each(tensors, _expect_tensors(src, 1)), strict=True)
    for t, s in pairs:
        t.copy_(s, non_blocking)
    return self


def _foreach_zero_(self: Tensors) -> Tensors:
    """Sets every element of each tensor to zero."""
    for t in _expect_tensors(self):
        t.zero_()
    return self


def _define() -> None:
    kinds = [
        *((name, _unary, "each tensor") for name in _UNARY),
        *((name, _binary, "each tensor and what is given with it") for name in _BINARY),
        *((name, _ternary, "each tensor and those of two lists") for name in ("addcmul", "addcdiv")),
    ]
    for name, make, what in kinds:
        for in_place in (False, True):
            _add(f"_foreach_{name}{'_' * in_place}", make(name, in_place), f"`{name}{'_' * in_place}` of {what}.")
    for in_place in (False, True):
        _add(f"_foreach_lerp{'_' * in_place}", _lerp(in_place), "`lerp` of each tensor to that of another list.")


def _add(name: str, function: Any, said: str) -> None:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = said
    globals()[name] = function


_define()
