"""What programs import from inside functorch: its functions, by the modules that define them there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rgrad import func
from rgrad._jacobians import _slice_argnums
from rgrad._vmap import chunk_vmap
from rgrad.func import *  # noqa: F403

__all__ = [
    *func.__all__,
    "_slice_argnums",
    "argnums_t",
    "chunk_vmap",
    "enable_single_level_autograd_function",
    "exposed_in",
]

argnums_t = int | tuple[int, ...]  # noqa: N816 - the name that annotations of programs have


def exposed_in(module: str) -> Callable[[Any], Any]:
    """A decorator that names another module as that of a function or a class.

    Args:
        module: its full name.
    """

    def named(function: Any) -> Any:
        function.__module__ = module
        return function

    return named


@contextmanager
def enable_single_level_autograd_function() -> Iterator[None]:
    """A block in which a custom function may be called below the transforms: here it may be everywhere."""
    yield
