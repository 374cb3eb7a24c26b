"""`torch.jit`: decorators return functions unchanged, since rgrad runs Python. Script files are rejected."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Dict, Final, List, Optional, Tuple  # noqa: F401, UP035 - `jit.annotations` has them

from rgrad._absent import absent_class, absent_function

if TYPE_CHECKING:
    from rgrad.futures import Future

__all__ = [
    "Attribute",
    "CompilationUnit",
    "Error",
    "Final",
    "ScriptFunction",
    "ScriptModule",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

_NO_FILES = "it keeps Python code in no file; torch.save(model.state_dict(), file) keeps its parameters"

ScriptModule = absent_class("torch.jit.ScriptModule", "modules run as Python")
ScriptFunction = absent_class("torch.jit.ScriptFunction", "functions run as Python")
CompilationUnit = absent_class("torch.jit.CompilationUnit", "functions run as Python")
TracedModule = TopLevelTracedModule = absent_class("torch.jit.TracedModule", "modules run as Python")
RecursiveScriptModule = absent_class("torch.jit.RecursiveScriptModule", "modules run as Python")
save = absent_function("torch.jit.save", _NO_FILES)
load = absent_function("torch.jit.load", _NO_FILES)


class Error(RuntimeError):
    """An error in a compiled function; never raised, as functions run as Python."""


class TracerWarning(Warning):
    """A warning of tracing; never given, as functions run as Python."""


class TracingCheckError(Exception):
    """A difference between a traced function and its calls; never raised, as functions run as Python."""


class Attribute:
    """A value for a module, with its type; it is the value only.

    Args:
        value: the value.
        type: ignored.
    """

    def __new__(cls, value: Any, type: Any = None) -> Any:
        return value


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """Returns the function or module unchanged, to run as Python.

    Example:
        >>> import rgrad as torch
        >>> @torch.jit.script
        ... def double(x):
        ...     return x + x
        >>> double(torch.ones(2))
        tensor([2., 2.])

    Raises:
        RuntimeError: a lazy module has parameters or buffers without a shape, which PyTorch can't compile.
    """
    from rgrad.nn import Module
    from rgrad.nn.parameter import is_lazy

    for module in obj.modules() if builtins.isinstance(obj, Module) else ():
        lacking = [name for name, value in (module._parameters | module._buffers).items() if is_lazy(value)]
        if lacking:
            kind = f"{type(module).__module__}.{type(module).__qualname__}"
            raise RuntimeError(
                f"'{kind}' has uninitialized parameters {', '.join(lacking)}. Did you forget to run a forward pass?"
            )
    return obj


def trace(func: Any, example_inputs: Any = None, *args: Any, **options: Any) -> Any:
    """Returns the function or module unchanged, after calling it once with the example inputs as tracing would."""
    if example_inputs is not None:
        func(*example_inputs) if builtins.isinstance(example_inputs, (tuple, list)) else func(example_inputs)
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


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """Returns the module unchanged; it must be in evaluation mode."""
    if getattr(mod, "training", False):
        raise RuntimeError("Freezing is currently only implemented for modules in eval mode: call .eval() first.")
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """Returns the module unchanged."""
    return mod


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether an object is an instance of a type, as in Python."""
    return builtins.isinstance(obj, target_type)


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Has no effect, as nothing is compiled; returns the strategy so far, none."""
    return []


def enable_onednn_fusion(enabled: bool) -> None:
    """Has no effect, as nothing is compiled."""


def onednn_fusion_enabled() -> bool:
    """False: nothing is compiled."""
    return False


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


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
    """Calls a function immediately; `wait` returns its result."""
    from rgrad.futures import Future

    future: Future[Any] = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future[Any]) -> Any:
    """The result of a function that was passed to `fork`."""
    if future is None:
        raise RuntimeError("Future can't be None")
    return future.wait()


# The names that older programs use.
_fork, _wait = fork, wait
