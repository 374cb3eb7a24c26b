"""Modes of `__torch_dispatch__`, which see every operation below autograd, those of backward included."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

from rgrad import _C
from rgrad.utils._mode_utils import no_dispatch

__all__ = [
    "BaseTorchDispatchMode",
    "TorchDispatchMode",
    "is_in_torch_dispatch_mode",
    "is_traceable_wrapper_subclass",
    "is_traceable_wrapper_subclass_type",
    "return_and_correct_aliasing",
    "transform_subclass",
]


class TorchDispatchMode:
    """Within its block, every operation on tensors is handed to its `__torch_dispatch__`.

    A subclass overrides `__torch_dispatch__(self, func, types, args=(), kwargs=None)`: `func` is the operation, such as
    `torch.ops.aten.add.Tensor`, and what the method returns is the result. The mode is off while its method runs, so
    that the method can call `func`. Functions that are made of others, such as `linear`, are seen by their parts.

    Example:
        >>> import rgrad as torch
        >>> class Names(torch.utils._python_dispatch.TorchDispatchMode):
        ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        ...         print(func)
        ...         return func(*args, **(kwargs or {}))
        >>> with Names():
        ...     y = torch.ones(2) + 1
        aten.ones.default
        aten.add.Tensor
    """

    def __init__(self, _dispatch_key: Any = None) -> None:
        if _dispatch_key is not None:
            raise NotImplementedError("modes for a dispatch key are not in rgrad: there is one dispatcher")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The result of an operation; a subclass must override it."""
        raise NotImplementedError

    def __enter__(self) -> Any:
        if inspect.ismethod(type(self).__torch_dispatch__):
            name = type(self).__name__
            raise RuntimeError(
                f"__torch_dispatch__ of {name}: classmethod is not supported, please make it a plain method"
            )
        _C._push_on_torch_dispatch_stack(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _C._pop_torch_dispatch_stack()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """An object of the class, which becomes a mode by `with`; the constructor does the same."""
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Whether the mode belongs to a compiler."""
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that calls each operation as it is."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The result of an operation."""
        return func(*args, **(kwargs or {}))


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """What a `__torch_dispatch__` returns for an operation, so that results share memory with arguments as usual.

    Where `func` writes a tensor, that is the result. Where it makes a view, `out` gets the storage of the tensor that
    it is a view of: a wrapper has no memory, but programs compare storages to see what is a view of what.

    Args:
        func: the operation.
        args: its arguments by position, as the handler got them.
        kwargs: its arguments by name.
        out: what the handler computed.
    """
    name = func.overloadpacket.__name__
    if kwargs and "out" in kwargs:
        return kwargs["out"]
    if name.endswith("_") and not name.endswith("__"):
        return args[0]
    if name in _VIEWS:
        with no_dispatch():
            for view in out if isinstance(out, (list, tuple)) else (out,):
                if type(view) is type(args[0]):
                    view.set_(args[0].untyped_storage(), view.storage_offset(), view.shape, view.stride())
    return out


# Operations whose result is a view of their first argument.
_VIEWS = frozenset(
    [
        *("alias", "as_strided", "detach", "diagonal", "expand", "lift_fresh", "movedim", "narrow", "permute"),
        *("select", "slice", "split", "split_with_sizes", "squeeze", "swapaxes", "swapdims", "t", "transpose"),
        *("unbind", "unfold", "unsqueeze", "unsafe_chunk", "view"),
    ]
)


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Whether a tensor class defines the tensors that it wraps, by `__tensor_flatten__` and
    `__tensor_unflatten__`.
    """
    from rgrad import Tensor

    parts = hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")
    return issubclass(t, Tensor) and t is not Tensor and parts


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Like `is_traceable_wrapper_subclass_type`, for the class of an object."""
    return is_traceable_wrapper_subclass_type(type(t))


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether a mode is active on this thread.

    Args:
        include_infra_modes: whether modes that belong to a compiler count, as `is_infra_mode` tells.
    """
    return any(include_infra_modes or not mode.is_infra_mode() for mode in _C._torch_dispatch_stack())


def _get_current_dispatch_mode() -> Any:
    """The innermost mode of this thread; None without one."""
    stack = _C._torch_dispatch_stack()
    return stack[-1] if stack else None


def _get_current_dispatch_mode_stack() -> list[Any]:
    """The modes of this thread, the outermost first."""
    return _C._torch_dispatch_stack()


@contextlib.contextmanager
def _pop_mode_temporarily(k: Any = None) -> Iterator[Any]:
    """Takes the innermost mode off the stack within a block, and gives it to the block."""
    mode = _C._pop_torch_dispatch_stack()
    try:
        yield mode
    finally:
        _C._push_on_torch_dispatch_stack(mode)


@contextlib.contextmanager
def _disable_current_modes() -> Iterator[list[Any]]:
    """Takes all modes off the stack within a block, and gives them to the block."""
    modes = [_C._pop_torch_dispatch_stack() for _ in _C._torch_dispatch_stack()][::-1]
    try:
        yield modes
    finally:
        for mode in modes:
            _C._push_on_torch_dispatch_stack(mode)


def _push_mode(mode: TorchDispatchMode) -> None:
    """Makes a mode the innermost one of this thread, until `_pop_mode` ends it."""
    _C._push_on_torch_dispatch_stack(mode)


def _pop_mode(k: Any = None) -> Any:
    """Ends the innermost mode, and returns it."""
    return _C._pop_torch_dispatch_stack()


def transform_subclass(t: Any, callback: Any, outer_size: Any = None, outer_stride: Any = None) -> Any:
    """A tensor of a class that wraps others, with something else in place of each of these.

    Args:
        t: a tensor of a class that has `__tensor_flatten__` and `__tensor_unflatten__`.
        callback: called with the name of each wrapped tensor and the tensor; returns what takes its place.
        outer_size: the size of the result; that of `t` by default.
        outer_stride: its strides; those of `t` by default.
    """
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    found = type(t).__tensor_unflatten__(inner, context, size, stride)
    if found.shape != size or found.stride() != tuple(stride):
        raise AssertionError(
            f"{type(t).__name__}.__tensor_unflatten__ has made a tensor of shape {tuple(found.shape)} and strides "
            f"{found.stride()}, where {tuple(size)} and {tuple(stride)} were asked for"
        )
    return found
