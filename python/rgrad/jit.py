"""`torch.jit`: decorators return functions unchanged, since rgrad runs Python. Script files are rejected."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Dict, Final, List, Optional, Tuple  # noqa: F401, UP035 - `jit.annotations` has them

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
    """Returns the function or module unchanged, to run as Python.

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
    """Returns the function or module unchanged, after calling it once with the example inputs as tracing would."""
    if example_inputs is not None:
        func(*example_inputs) if isinstance(example_inputs, (tuple, list)) else func(example_inputs)
    return func


def trace_module(mod: Any, inputs: dict[str, Any], *args: Any, **options: Any) -> Any:
    """Returns the module unchanged."""
    return mod


def _identity(function: Any) -> Any:
    """Returns the function unchanged."""
    return function


export = script_method = interface = script_if_tracing = _script_if_tracing = _identity


def unused(fn: Any) -> Any:
    """Returns the function unchanged."""
    return fn


def ignore(drop: Any = False, **options: Any) -> Any:
    """Returns the function unchanged; also usable as a decorator with arguments."""
    return drop if callable(drop) else _identity


_overload = _overload_method = _identity


def annotate(the_type: Any, the_value: Any) -> Any:
    """Returns the value."""
    return the_value


def is_scripting() -> bool:
    """False: code runs as Python."""
    return False


def is_tracing() -> bool:
    """False: code runs as Python."""
    return False


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[[], Any]:
    """Calls a function immediately; `wait` returns its result."""
    return functools.partial(_identity, func(*args, **kwargs))


def wait(future: Callable[[], Any]) -> Any:
    """The result of a function that was passed to `fork`."""
    return future()
