"""Checks of conditions that programs make of their own arguments, each with the error of its kind."""

from __future__ import annotations

from rgrad import _C

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Message = str | Callable[[], Any] | None


def _raise(error_type: type[Exception], message: Message) -> None:
    said = message() if callable(message) else message
    raise error_type("Expected cond to be True, but got False." if said is None else str(said))


def _check_with(error_type: type[Exception], cond: Any, message: Message) -> None:
    """Raises an error of the given type unless a bool is true.

    Args:
        error_type: the class of the error.
        cond: the bool.
        message: the error's message, or a function that makes it, which is called on failure only.

    Raises:
        TypeError: the condition is no bool.
    """
    if isinstance(cond, _C.Tensor):
        raise TypeError("cond must be a bool, but got a Tensor; _check_tensor_all checks every element of one")
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if not cond:
        _raise(error_type, message)


def _check(cond: Any, message: Message = None) -> None:
    """Raises RuntimeError unless a bool is true; see `_check_with`."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond: Any, message: Message = None) -> None:
    """Raises IndexError unless a bool is true; see `_check_with`."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Message = None) -> None:
    """Raises ValueError unless a bool is true; see `_check_with`."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Message = None) -> None:
    """Raises TypeError unless a bool is true; see `_check_with`."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Message = None) -> None:
    """Raises NotImplementedError unless a bool is true; see `_check_with`."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: Any, message: Message = None, *, max: int | None = None) -> None:  # noqa: A002 - PyTorch's name
    """Raises RuntimeError unless a number can be a size: not negative, and not above `max`."""
    _check_with(RuntimeError, bool(i >= 0), message)
    if max is not None:
        _check_with(RuntimeError, bool(i <= max), message)


def _check_tensor_all_with(error_type: type[Exception], cond: Any, message: Message = None) -> None:
    """Raises an error of the given type unless all elements of a bool tensor are true; see `_check_with`."""
    if not isinstance(cond, _C.Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype != _C.bool:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    if not bool(cond.all()):
        _raise(error_type, message)


def _check_tensor_all(cond: Any, message: Message = None) -> None:
    """Raises RuntimeError unless all elements of a bool tensor are true; see `_check_with`."""
    _check_tensor_all_with(RuntimeError, cond, message)
