"""`torch.compiler`: rgrad does not compile Python, so decorators return functions unchanged."""

from __future__ import annotations

import warnings
from typing import Any

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "reset",
    "set_stance",
]

_told = False


def compile(model: Any = None, **options: Any) -> Any:
    """Returns the function or module unchanged, to run eagerly; warns about this once.

    Args:
        model: a function or a module; without one, a decorator is returned.
        options: accepted, but ignored, since nothing is compiled.

    Example:
        >>> import warnings
        >>> import rgrad as torch
        >>> with warnings.catch_warnings(action="ignore"):
        ...     double = torch.compile(lambda x: x + x)
        >>> double(torch.ones(2))
        tensor([2., 2.])
    """
    global _told
    if not _told:
        _told = True
        warnings.warn("torch.compile: rgrad compiles no Python, functions and modules run eagerly", stacklevel=2)
    return _identity if model is None else model


def _identity(function: Any) -> Any:
    """The function itself."""
    return function


allow_in_graph = assume_constant_result = _identity


def disable(fn: Any = None, recursive: bool = True, **options: Any) -> Any:
    """Returns the function unchanged, or a decorator that does so."""
    return _identity if fn is None else fn


def is_compiling() -> bool:
    """False."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """An empty list."""
    return []


def reset() -> None:
    """Has no effect: nothing was compiled."""


def cudagraph_mark_step_begin() -> None:
    """Has no effect: nothing is captured."""


def set_stance(stance: str = "default", **options: Any) -> None:
    """Has no effect: every stance runs eagerly."""
