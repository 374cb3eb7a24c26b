"""Tensors that a module owns: ``Parameter`` (learned) and ``Buffer`` (state that is not learned)."""

from __future__ import annotations

import functools
from collections import OrderedDict
from typing import Any, cast

import rgrad
from rgrad import _C

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]


class _ParameterMeta(type(_C.Tensor)):
    """Lets ``isinstance(x, Parameter)`` recognize tensors of other classes that ``Parameter(...)`` marked."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        return cls is Parameter and isinstance(instance, _C.Tensor) and getattr(instance, "_is_param", False)


class Parameter(_C.Tensor, metaclass=_ParameterMeta):
    """A tensor that registers itself with the module it is assigned to.

    Of a tensor of a class of its own the parameter is of that class too, marked as a parameter.

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
        if data is None:
            data = rgrad.empty(0)
        kind = type(data)
        if kind is _C.Tensor or issubclass(kind, Parameter):
            return _C._make_subclass(cls, data, requires_grad)
        made = cast(Any, _C._require_grad(data.detach(), requires_grad))
        found = type(made)
        if found is not kind:
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {kind.__name__} requires that detach() returns an "
                f"instance of the same type, but return type {found.__name__} was found instead."
            )
        made._is_param = True
        return made

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
        parts = (self.data, self.requires_grad, OrderedDict())
        return (_rebuild_parameter, parts, dict(vars(self))) if vars(self) else (_rebuild_parameter, parts)


def _rebuild_parameter(data: _C.Tensor, requires_grad: bool, backward_hooks: Any) -> Parameter:
    """Builds a parameter from its pickled parts (the third is part of the format but always empty)."""
    return Parameter(data, requires_grad)


class _BufferMeta(type(_C.Tensor)):
    """Lets ``isinstance(x, Buffer)`` recognize plain tensors that ``Buffer(...)`` marked."""

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
        buffer = cast(Any, _C._require_grad(data.detach(), data.requires_grad))
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer


# What placeholders can be asked and converted to. All other operations need a shape.
_WITHOUT_SHAPE = frozenset(
    ("bfloat16", "char", "cpu", "cuda", "double", "float", "half", "int", "long", "short", "to", "copy_", "size")
    + ("get_device", "is_complex", "is_floating_point")
)


def _refused(cls: Any, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
    """The `__torch_function__` of placeholders."""
    # Methods of slots are lookups of attributes such as `device`.
    if type(func).__name__ != "method-wrapper" and getattr(func, "__name__", "") not in _WITHOUT_SHAPE:
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {func}: it has no shape before the first `forward` of "
            "its lazy module, or before `materialize`."
        )
    return _C._disabled_torch_function_impl(func, types, args, kwargs or {})


@functools.cache
def _refuse_operations() -> None:
    """Lets placeholders refuse operations; called with the first, for it makes all operations look for overrides."""
    from rgrad._subclass import take_part

    _Uninitialized.__torch_function__ = classmethod(_refused)  # type: ignore[assignment]
    classes: list[Any] = [_Uninitialized]
    for cls in classes:
        take_part(cls)
        classes.extend(cls.__subclasses__())


class _Uninitialized(_C.Tensor):
    """Base class of tensors whose shape is not known before a module's first input."""

    __torch_function__ = _C._disabled_torch_function_impl
    _becomes: type

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer: the first `forward` gives it one. It "
            "is asked for, too, in `load_state_dict` when trying to load an uninitialized parameter into a module that "
            "has seen an input."
        )

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Becomes a tensor of the given shape with undefined values.

        Args:
            shape: the shape.
            device: the device; that of the placeholder by default.
            dtype: the dtype; that of the placeholder by default.
        """
        self.data = rgrad.empty(shape, device=device or self.device, dtype=dtype or self.dtype)
        self.__class__ = self._becomes

    def share_memory_(self) -> Any:
        """Raises: there are no values to be shared."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer: the first `forward` gives it values, and "
            "comes before `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return memo.setdefault(id(self), type(self)(self.requires_grad, self.device, self.dtype))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return type(self), (self.requires_grad, self.device, self.dtype)


class UninitializedParameter(_Uninitialized, Parameter):
    """A parameter whose shape follows from a lazy module's first input.

    Args:
        requires_grad: whether the parameter will collect a gradient.
        device: its device.
        dtype: its dtype.
    """

    _becomes = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        _refuse_operations()
        return _C._make_subclass(cls, rgrad.empty(0, device=device, dtype=dtype), requires_grad)


class UninitializedBuffer(_Uninitialized):
    """A buffer whose shape follows from a lazy module's first input.

    Args:
        requires_grad: whether the buffer will require gradients.
        device: its device.
        dtype: its dtype.
        persistent: whether the buffer is part of the module's ``state_dict``.
    """

    _becomes = _C.Tensor

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> UninitializedBuffer:
        _refuse_operations()
        made: Any = _C._make_subclass(cls, rgrad.empty(0, device=device, dtype=dtype), requires_grad)
        made.persistent = persistent
        made._is_buffer = True
        return made


def is_lazy(param: Any) -> bool:
    """Whether a tensor's shape is not known yet."""
    return isinstance(param, _Uninitialized)
