"""`torch._dynamo` for packages that look into it: names of `torch.compiler`, compiled modules and errors."""

from __future__ import annotations

import types

from rgrad._dynamo import eval_frame, exc
from rgrad._dynamo.eval_frame import OptimizedModule
from rgrad.compiler import allow_in_graph, assume_constant_result, disable, is_compiling, list_backends, reset

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "eval_frame",
    "exc",
    "is_compiling",
    "list_backends",
    "mark_dynamic",
    "mark_static_address",
    "reset",
]

# Set by packages before they compile.
config = types.SimpleNamespace(
    suppress_errors=False,
    cache_size_limit=8,
    recompile_limit=8,
    accumulated_recompile_limit=256,
    compiled_autograd=False,
    log_compilation_metrics=False,
)


def mark_dynamic(t: object, index: object, **bounds: object) -> None:
    """Has no effect: all shapes are dynamic."""


def mark_static_address(t: object, guard: bool = True) -> None:
    """Has no effect: nothing is captured."""
