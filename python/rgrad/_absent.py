"""Placeholders for names that packages import but rgrad does not implement; using one raises an error."""

from __future__ import annotations

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


def refuse(name: str, why: str) -> NoReturn:
    """Raises the error for the use of a placeholder.

    Args:
        name: the full name, as programs write it.
        why: what rgrad lacks, or what to use instead.
    """
    raise NotImplementedError(f"{name} is not in rgrad: {why}")


def absent_function(name: str, why: str, check: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Returns a function that raises an error when called: first those of `check`, which gets its arguments."""

    def function(*args: Any, **kwargs: Any) -> NoReturn:
        if check is not None:
            check(*args, **kwargs)
        refuse(name, why)

    function.__module__, _, function.__name__ = name.rpartition(".")
    function.__qualname__ = function.__name__
    function.__doc__ = f"Refuses: {why}."
    return function


class _Absent(type):
    """The metaclass of placeholder classes: they have no instances, and instantiation is an error."""

    _why: str

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        refuse(f"{cls.__module__}.{cls.__qualname__}", cls._why)


def absent_class(name: str, why: str, *bases: type) -> type:
    """A class for `isinstance` and for annotations. It may be subclassed, but not instantiated.

    Args:
        name: the full name, as programs write it.
        why: what rgrad lacks, or what to use instead.
        bases: the base classes, which must have no metaclass.
    """
    module, _, short = name.rpartition(".")
    return _Absent(short, bases, {"__module__": module, "__doc__": f"Refuses: {why}.", "_why": why})
