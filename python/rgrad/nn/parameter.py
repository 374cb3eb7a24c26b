"""Tensors that a module owns: ``Parameter`` (learned) and ``Buffer`` (state that is not learned)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, cast

import rgrad
from rgrad import _C

__all__ = ["Buffer", "Parameter"]


class Parameter(_C.Tensor):
    """A tensor that registers itself with the module it is assigned to.

    Args:
        data: the values; the parameter shares their storage.
        requires_grad: whether the parameter collects a gradient.

    Example:
        >>> weight = rgrad.nn.Parameter(rgrad.zeros(2, 3))
        >>> weight.requires_grad, weight.is_leaf
        (True, True)
    """

    __torch_function__ = _C._disabled_torch_function_impl  # operations on parameters give plain tensors

    def __new__(cls, data: _C.Tensor | None = None, requires_grad: bool = True) -> Parameter:
        return _C._make_subclass(cls, rgrad.empty(0) if data is None else data, requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        known = memo.get(id(self))
        if known is not None:
            return known
        result = type(self)(self.data.clone(), self.requires_grad)
        memo[id(self)] = result
        return result

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _rebuild_parameter, (self.data, self.requires_grad, OrderedDict())


def _rebuild_parameter(data: _C.Tensor, requires_grad: bool, backward_hooks: Any) -> Parameter:
    """Builds a parameter from its pickled parts (the third is part of the format and always empty)."""
    return Parameter(data, requires_grad)


class _BufferMeta(type(_C.Tensor)):
    """Lets ``isinstance(x, Buffer)`` recognise plain tensors that ``Buffer(...)`` marked."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _C.Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(_C.Tensor, metaclass=_BufferMeta):
    """A tensor that becomes a buffer when assigned to a module.

    The result is an ordinary tensor, marked so that ``Module.__setattr__`` calls ``register_buffer``.

    Args:
        data: the values; the buffer shares their storage.
        persistent: whether the buffer is part of the module's ``state_dict``.
    """

    __torch_function__ = _C._disabled_torch_function_impl  # there are no tensors of this class
    persistent: bool

    def __new__(cls, data: _C.Tensor | None = None, *, persistent: bool = True) -> _C.Tensor:
        if data is None:
            data = rgrad.empty(0)
        buffer = cast(Any, data.detach().requires_grad_(data.requires_grad))
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer
