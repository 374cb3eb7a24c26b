"""Subclasses of Tensor: the default `__torch_function__`, and operators that ask for it."""

from __future__ import annotations

from collections.abc import Callable

from rgrad import _C
from rgrad._C import Tensor

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any

_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift", "matmul")
# What operations on tensors are that are not in the operation table.
_OPERATORS = [
    *(f"__{form}{name}__" for name in _BINARY for form in ("", "r", "i") if form + name != "imatmul"),
    *(f"__{name}__" for name in ("eq", "ne", "lt", "le", "gt", "ge")),
]
_METHODS = [
    *(f"__{name}__" for name in ("neg", "abs", "invert", "getitem", "setitem", "reversed")),
    "detach",
    "new",
    "new_tensor",
]


def _wrapped(name: str) -> Callable[..., Any]:
    function = getattr(Tensor, name)
    is_operator = name in _OPERATORS

    def operator(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        try:
            return _C._call_torch_function(function, (self, *args), kwargs)
        except TypeError:
            if is_operator:
                # The other operand may know better.
                return NotImplemented
            raise

    operator.__name__ = name
    operator.__doc__ = function.__doc__
    return operator


def _converted(result: Any, cls: type) -> Any:
    """A result with tensors of class `cls` in place of plain ones."""
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else result.as_subclass(cls)
    if isinstance(result, tuple | list):
        return type(result)(_converted(r, cls) for r in result)
    return result


def _torch_function(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Calls `func` and returns what it does as tensors of this class.

    Args:
        func: the function or method of `Tensor` that was called.
        types: the classes of tensors among the arguments that have a `__torch_function__`.
        args: its arguments.
        kwargs: its keyword arguments.

    Returns:
        The result; NotImplemented where one of the types is not above this class.
    """
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    return _converted(_C._disabled_torch_function_impl(func, types, args, kwargs or {}), cls)


def _init_subclass(cls: Any, **kwargs: Any) -> None:
    """Has a new subclass take part, unless it opts out by `__torch_function__ = _disabled_torch_function_impl`."""
    super(Tensor, cls).__init_subclass__(**kwargs)
    cls._takes_part = cls.__torch_function__ is not _C._disabled_torch_function_impl
    if not cls._takes_part:
        return
    _C._meet_subclass()
    plain = [base for base in cls.__mro__ if not issubclass(base, Tensor) or base is Tensor]
    own = [base for base in cls.__mro__ if base not in plain]
    for name in (*_OPERATORS, *_METHODS):
        if not any(name in vars(base) for base in own):
            setattr(cls, name, _wrapped(name))
    if "__hash__" not in vars(cls):
        cls.__hash__ = Tensor.__hash__


class DisableTorchFunctionSubclass:
    """Operations in the block pass over `__torch_function__`."""

    def __enter__(self) -> None:
        self.before = _C._set_torch_function_disabled(True)

    def __exit__(self, *exc: object) -> None:
        _C._set_torch_function_disabled(self.before)


def install() -> None:
    """Gives Tensor what its subclasses inherit."""
    _C.DisableTorchFunctionSubclass = DisableTorchFunctionSubclass  # type: ignore[attr-defined]
    Tensor._takes_part = False  # type: ignore[attr-defined]
    Tensor.__torch_function__ = classmethod(_torch_function)  # type: ignore[attr-defined]
    Tensor.__init_subclass__ = classmethod(_init_subclass)  # type: ignore[assignment]
