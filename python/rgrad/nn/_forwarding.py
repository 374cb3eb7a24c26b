"""What makes a function of Python stand for one of the core.

# Note [Functions that take attributes]
PyTorch writes some functions of `nn` in Python, and programs use what only functions of Python have: they set
attributes on them, ask `inspect` for their source, or find the instance bound to them where one is a class attribute.
A function of the core offers none of that, so each gets a function of Python before it, in `nn._operations`, which
costs a call of an empty function. It also replaces the core's function in `rgrad._C._nn`, where the core looks up what
it passes to `__torch_function__`. Modules call the core's functions, which `nn._core` keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from rgrad import _C

_F = TypeVar("_F", bound=Callable[..., Any])
FUNCTIONS: list[Callable[..., Any]] = []


def checked_by_the_core(function: _F) -> _F:
    """A function whose check for `__torch_function__` is that of the operation it calls."""
    FUNCTIONS.append(function)
    return function


def of_the_core(function: _F) -> _F:
    """Puts a function in the place of the core's."""
    setattr(_C._nn, function.__name__, function)
    return checked_by_the_core(function)
