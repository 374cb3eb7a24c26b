"""`torch.jit`: what marks code for a compiler leaves it as it is, as rgrad runs Python. Files of it are refused."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from rgrad._absent import absent_class, absent_function

__all__ = [
    "Final",
    "ScriptFunction",
    "ScriptModule",
    "annotate",
    "export",
    "fork",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "load",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

_NO_FILES = "it keeps Python code in no file; torch.save(model.state_dict(), file) keeps its parameters"

ScriptModule = absent_class("torch.jit.ScriptModule", "modules run as Python")
ScriptFunction = absent_class("torch.jit.ScriptFunction", "functions run as Python")
RecursiveScriptModule = absent_class("torch.jit.RecursiveScriptModule", "modules run as Python")
save = absent_function("torch.jit.save", _NO_FILES)
load = absent_function("torch.jit.load", _NO_FILES)


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """The object itself: a function or module runs as Python.

    Example:
        >>> import rgrad as torch
        >>> @torch.jit.script
        ... def double(x):
        ...     return x + x
        >>> double(torch.ones(2))
        tensor([2., 2.])
    """
    return obj


def trace(func: Any, example_inputs: Any = None, *args: Any, **options: Any) -> Any:
    """The function or module itself, called once with the example inputs, as to trace it would."""
    if example_inputs is not None:
        func(*example_inputs) if isinstance(example_inputs, (tuple, list)) else func(example_inputs)
    return func


def trace_module(mod: Any, inputs: dict[str, Any], *args: Any, **options: Any) -> Any:
    """The module itself."""
    return mod


def _identity(function: Any) -> Any:
    """The function itself: marks for a compiler change nothing of what runs."""
    return function


export = script_method = interface = script_if_tracing = _script_if_tracing = _identity


def unused(fn: Any) -> Any:
    """The function itself."""
    return fn


def ignore(drop: Any = False, **options: Any) -> Any:
    """The function itself, with or without arguments for the mark."""
    return drop if callable(drop) else _identity


_overload = _overload_method = _identity


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value."""
    return the_value


def is_scripting() -> bool:
    """False: code runs as Python."""
    return False


def is_tracing() -> bool:
    """False: code runs as Python."""
    return False


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[[], Any]:
    """Calls a function at once; `wait` gives what it returned."""
    return functools.partial(_identity, func(*args, **kwargs))


def wait(future: Callable[[], Any]) -> Any:
    """What a function that was given to `fork` returned."""
    return future()
