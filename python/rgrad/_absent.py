"""Names that packages import and that rgrad has nothing behind: they are there, and say so when they are used."""

from __future__ import annotations

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


def refuse(name: str, why: str) -> NoReturn:
    """Raises the error of a name that can't do its work.

    Args:
        name: in full, as programs write it.
        why: what rgrad lacks, or what serves instead.
    """
    raise NotImplementedError(f"{name} is not in rgrad: {why}")


def absent_function(name: str, why: str) -> Callable[..., Any]:
    """A function that refuses every call."""

    def function(*args: Any, **kwargs: Any) -> NoReturn:
        refuse(name, why)

    function.__module__, _, function.__name__ = name.rpartition(".")
    function.__qualname__ = function.__name__
    function.__doc__ = f"Refuses: {why}."
    return function


class _Absent(type):
    """The type of classes that nothing is an instance of; to make one is refused."""

    _why: str

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        refuse(f"{cls.__module__}.{cls.__qualname__}", cls._why)


def absent_class(name: str, why: str, *bases: type) -> type:
    """A class for `isinstance` and for annotations. Subclasses may be defined, but not be made instances of.

    Args:
        name: in full, as programs write it.
        why: what rgrad lacks, or what serves instead.
        bases: what it derives from; none of them may have a metaclass.
    """
    module, _, short = name.rpartition(".")
    return _Absent(short, bases, {"__module__": module, "__doc__": f"Refuses: {why}.", "_why": why})
