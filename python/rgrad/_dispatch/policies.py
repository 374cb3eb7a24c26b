"""Classes that are asked for sizes, strides, the device and the layout of their tensors too.

`_make_wrapper_subclass` and `_make_subclass` take which of these a class answers for. The first such object of a class
gives it getters that ask `__torch_dispatch__`, and use what the object was made with if the answer is None.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad import _C
from rgrad._C import Tensor
from rgrad._dispatch.operations import overload
from rgrad._library.aten import property_packet

__all__ = ["ask_for", "asked"]

# By policy, what is asked of the class; the later ones ask for what the earlier ones do.
_STRIDES = ("stride", "is_contiguous")
_SIZES = (*_STRIDES, "size", "shape", "dim", "ndim", "ndimension", "numel", "nelement", "data_ptr")
_POLICIES = {None: (), "strides": _STRIDES, "sizes": _SIZES}


def _asked(t: Tensor, name: str, *args: Any) -> Any:
    """What the class of a tensor answers for an operation; None if it has no other answer than the default."""
    of_property = property_packet(name)
    func = overload(name) if of_property is None else of_property.default
    before = _C._set_torch_dispatch_disabled(False)
    try:
        answer = type(t).__torch_dispatch__(func, (type(t),), (t, *args), {})  # type: ignore[attr-defined]
    finally:
        _C._set_torch_dispatch_disabled(before)
    if answer is NotImplemented:
        raise TypeError(
            f"Multiple dispatch failed for 'torch.ops.{str(func).removesuffix('.default')}'; all __torch_dispatch__ "
            f"handlers returned NotImplemented:\n\n  - tensor subclass {type(t)!r}"
        )
    return answer


def asked(t: Tensor, what: str, name: str, *args: Any) -> Any:
    """What the class of a tensor answers for an operation, if it answers for `what`; else None."""
    if what not in getattr(t, "_answered_by_class", ()) or _C._torch_dispatch_disabled():
        return None
    return _asked(t, name, *args)


def _dim(t: Tensor) -> int:
    answer = _asked(t, "dim.default")
    return Tensor.dim(t) if answer is None else answer


def _sizes(t: Tensor) -> Any:
    answer = _asked(t, "sym_size.default")
    return Tensor.size(t) if answer is None else rgrad.Size(answer)


def _numel(t: Tensor) -> int:
    answer = _asked(t, "numel.default")
    return Tensor.numel(t) if answer is None else answer


def _strides(t: Tensor) -> Any:
    answer = _asked(t, "sym_stride.default")
    return Tensor.stride(t) if answer is None else tuple(answer)


def _one_of(values: Any, dim: Any) -> Any:
    return values if dim is None else values[dim]


def _is_contiguous(t: Tensor, memory_format: Any = _C.contiguous_format) -> bool:
    if memory_format == _C.contiguous_format:
        answer = _asked(t, "is_contiguous.default")
    else:
        answer = _asked(t, "is_contiguous.memory_format", memory_format)
    return Tensor.is_contiguous(t, memory_format=memory_format) if answer is None else answer


def _data_ptr(t: Tensor) -> int:
    _numel(t)
    return Tensor.data_ptr(t)


def _device(t: Tensor) -> Any:
    answer = _asked(t, "device")
    return _plain(Tensor, "device", t) if answer is None else answer


def _layout(t: Tensor) -> Any:
    answer = _asked(t, "layout")
    return _plain(Tensor, "layout", t) if answer is None else answer


def _plain(owner: Any, name: str, t: Tensor) -> Any:
    return getattr(owner, name).__get__(t)


_ANSWERS: dict[str, Callable[..., Any]] = {
    "stride": lambda t, dim=None: _one_of(_strides(t), dim),
    "is_contiguous": _is_contiguous,
    "size": lambda t, dim=None: _one_of(_sizes(t), dim),
    "shape": _sizes,
    "dim": _dim,
    "ndim": _dim,
    "ndimension": _dim,
    "numel": _numel,
    "nelement": _numel,
    "data_ptr": _data_ptr,
    "device": _device,
    "layout": _layout,
}
_PROPERTIES = frozenset(["shape", "ndim", "device", "layout"])


def ask_for(t: Tensor, sizes_strides: str | None, device: bool, layout: bool) -> None:
    """Has the class of a tensor answer for it.

    Args:
        t: an object of a class with a `__torch_dispatch__`.
        sizes_strides: "sizes" for sizes and strides, "strides" for these only, None for neither.
        device: whether it answers for the device.
        layout: whether it answers for the layout.

    Raises:
        ValueError: if there is no such policy.
    """
    if sizes_strides not in _POLICIES:
        raise ValueError(f"Unknown sizes_strides_policy: {sizes_strides}; expected 'strides' or 'sizes'")
    names = {*_POLICIES[sizes_strides], *(["device"] if device else []), *(["layout"] if layout else [])}
    if not names:
        return
    cls: Any = type(t)
    t._answered_by_class = names  # type: ignore[attr-defined]
    for name in names:
        held = next(vars(base)[name] for base in cls.__mro__ if name in vars(base))
        if not isinstance(held, _Getter):
            kind = _PropertyGetter if name in _PROPERTIES else _Getter
            setattr(cls, name, kind(name, getattr(cls, name)))


class _Getter:
    """A method that asks the class of a tensor made with such a policy; of the class it is what Tensor has."""

    def __init__(self, name: str, inherited: Any) -> None:
        self._name = name
        self._inherited = inherited

    def __get__(self, t: Tensor | None, owner: Any = None) -> Any:
        if t is None:
            return self._inherited
        if self._asks(t):
            return functools.partial(_ANSWERS[self._name], t)
        return self._inherited.__get__(t)

    def _asks(self, t: Tensor) -> bool:
        return self._name in vars(t).get("_answered_by_class", ()) and not _C._torch_dispatch_disabled()


class _PropertyGetter(_Getter):
    """The same for a property."""

    def __get__(self, t: Tensor | None, owner: Any = None) -> Any:
        if t is None:
            return self._inherited
        return _ANSWERS[self._name](t) if self._asks(t) else self._inherited.__get__(t)

    def __set__(self, t: Tensor, value: Any) -> None:
        self._inherited.__set__(t, value)
