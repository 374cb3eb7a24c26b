"""`torch.compiler`: functions whose operations are deferred and computed together.

Nothing is traced and no Python is compiled: a compiled function runs on every call, as always. Inside it,
operations on large tensors wait in a queue and are computed in groups, block by block, at the end of the function or
when a value is read. So nothing is ever stale, and there are no graph breaks.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from rgrad import _C

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "defer",
    "disable",
    "explain",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "reset",
    "set_stance",
]

# Backends of PyTorch and whether they defer. The others run eagerly, as their names say or as they need a compiler.
_BACKENDS = {"inductor": True, "cudagraphs": True, "eager": False, "aot_eager": False}
_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
_STANCES = (
    "default",
    "force_eager",
    "eager_on_recompile",
    "fail_on_recompile",
    "eager_then_compile",
    "aot_eager_then_compile",
)

_stance = "default"


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    dynamic_shapes: Any = None,
) -> Any:
    """Returns a function (or module) that computes the same with operations fused.

    Args:
        model: a function or a module; without one, a decorator is returned.
        fullgraph: raise where a value is read before the end of the function, as what is computed together then ends.
        dynamic: accepted; every shape is dynamic.
        backend: ``"inductor"`` (the default) or ``"cudagraphs"`` defer; ``"eager"`` and ``"aot_eager"`` do not.
        mode: accepted: there is one way to run, without a capture to replay and without tuning.
        options: accepted, as options of PyTorch's code generator have no meaning here.
        name: accepted.
        disable: return the function as it is.
        recompile_limit: accepted: nothing is compiled anew.
        isolate_recompiles: accepted.
        dynamic_shapes: accepted.

    Returns:
        For a function, one with its name and signature; for a module, an ``OptimizedModule`` around it.

    Raises:
        InvalidBackend: if there is no backend of that name.
        RuntimeError: for an unknown mode, or a mode with options.

    Example:
        >>> import rgrad as torch
        >>> double = torch.compile(lambda x: x + x)
        >>> double(torch.ones(2))
        tensor([2., 2.])
    """
    if mode is not None and options:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    defers = _defers(backend)
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, backend=backend, mode=mode, disable=disable)
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    if disable:
        return model
    from rgrad.nn.modules.module import Module

    if isinstance(model, Module):
        from rgrad._dynamo.eval_frame import OptimizedModule

        return OptimizedModule(model, {"fullgraph": fullgraph, "defers": defers})

    @functools.wraps(model)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        if not defers or _stance == "force_eager":
            return model(*args, **kwargs)
        return _C._call_in_region(model, args, kwargs, fullgraph)

    compiled._torchdynamo_orig_callable = model  # type: ignore[attr-defined]
    return compiled


def _defers(backend: Any) -> bool:
    if backend is None:
        return True
    if isinstance(backend, str):
        if backend not in _BACKENDS:
            from rgrad._dynamo.exc import InvalidBackend

            raise InvalidBackend(backend)
        return _BACKENDS[backend]
    raise NotImplementedError(
        "torch.compile: a function as backend is not in rgrad: no graph is captured that it could be given"
    )


def run(function: Callable[..., Any], args: tuple, kwargs: dict[str, Any], settings: dict[str, Any]) -> Any:
    """Calls a function in a region of deferred operations."""
    if not settings["defers"] or _stance == "force_eager":
        return function(*args, **kwargs)
    return _C._call_in_region(function, args, kwargs, settings["fullgraph"])


class defer(_C._Region):
    """Defers the operations of a block, such as a whole training step, and computes them together.

    The queue is run at the end of the block, and whenever a value is read. It is a decorator too.

    Example:
        >>> import rgrad as torch
        >>> x = torch.ones(3, requires_grad=True)
        >>> with torch.defer():
        ...     (x * 2 + 1).sum().backward()
        >>> x.grad
        tensor([2., 2., 2.])
    """

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function with its operations deferred."""

        @functools.wraps(function)
        def deferred(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return deferred


def explain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that runs compiled and prints what was computed together, what alone, and what got no memory.

    Args:
        function: a function or a module.

    Returns:
        A function with the arguments and the result of ``function``.

    Example:
        >>> import rgrad as torch
        >>> x = torch.ones(200, 200)
        >>> y = torch.explain(lambda x: (x * 2 + 1).tanh())(x)
        3 operations, run by the end of the region:
          fused: mul → add → tanh | 40000 float32 elements, 1 of 3 results stored, 320000 bytes without memory
    """

    @functools.wraps(function)
    def explained(*args: Any, **kwargs: Any) -> Any:
        if _C._is_deferring():
            raise RuntimeError("explain: the operations of a region around this call are computed with its own")
        _C._enter_region(True)
        try:
            result = function(*args, **kwargs)
        finally:
            lines = _C._exit_region()
        print("\n".join(lines) if lines else "nothing was deferred: tensors are small, or operations cannot wait")
        return result

    return explained


def _identity(function: Any) -> Any:
    """The function itself."""
    return function


allow_in_graph = assume_constant_result = _identity


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Returns a function that runs eagerly also inside of a compiled one; without a function, a decorator.

    Args:
        fn: a function or a module, which stays the same module and gets a compiled call that is eager.
        recursive: whether what it calls runs eagerly too; if not, the function is returned as it is.
        reason: accepted.

    Example:
        >>> import rgrad as torch
        >>> @torch.compiler.disable
        ... def seen(x):
        ...     return x.sum().item()
        >>> torch.compile(lambda x: x * seen(x))(torch.ones(2))
        tensor([2., 2.])
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if not recursive:
        return fn
    from rgrad.nn.modules.module import Module

    if isinstance(fn, Module):
        fn.forward = disable(fn.forward)  # type: ignore[method-assign]
        return fn

    @functools.wraps(fn)
    def eager(*args: Any, **kwargs: Any) -> Any:
        if not _C._is_deferring():
            return fn(*args, **kwargs)
        before = _C._pause_region(True)
        try:
            return fn(*args, **kwargs)
        finally:
            _C._pause_region(before)

    return eager


def _disable_dynamo(fn: Any = None, recursive: bool = True) -> Any:
    """`torch._disable_dynamo`: see `disable`."""
    return disable(fn, recursive)


def is_compiling() -> bool:
    """Whether a compiled function is running on this thread."""
    return _C._is_compiling()


is_dynamo_compiling = is_compiling


def is_exporting() -> bool:
    """False: nothing is exported."""
    return False


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names of backends; the eager ones only if tags are not excluded."""
    return sorted(name for name, defers in _BACKENDS.items() if defers or not exclude_tags)


def reset() -> None:
    """Has no effect on results: nothing that was compiled can be stale."""


def cudagraph_mark_step_begin() -> None:
    """Has no effect: nothing is captured."""


class set_stance:
    """Sets how compiled functions run: ``"force_eager"`` turns deferring off; the other stances change nothing.

    Args:
        stance: one of PyTorch's stances.
        skip_guard_eval_unsafe: accepted: there are no guards.
        force_backend: accepted as a name of a backend.

    Raises:
        RuntimeError: for an unknown stance.

    Example:
        >>> import rgrad as torch
        >>> with torch.compiler.set_stance("force_eager"):
        ...     torch.compile(torch.neg)(torch.ones(1))
        tensor([-1.])
    """

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
    ) -> None:
        global _stance
        if stance not in _STANCES:
            raise RuntimeError(f"invalid torch.compile stance '{stance}'")
        if force_backend is not None and not _defers(force_backend):
            stance = "force_eager"
        self.before, _stance = _stance, stance

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        global _stance
        _stance = self.before

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function with the stance while it runs; outside of it, the stance is what it was."""
        global _stance
        stance, _stance = _stance, self.before

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with set_stance(stance):
                return function(*args, **kwargs)

        return inside


def _where() -> str:
    """The line of the program that runs now: the innermost one outside of this package."""
    frame = sys._getframe()
    package = __name__.partition(".")[0]
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame = frame.f_back  # type: ignore[assignment]
    return f'File "{frame.f_code.co_filename}", line {frame.f_lineno}' if frame is not None else "an unknown line"
