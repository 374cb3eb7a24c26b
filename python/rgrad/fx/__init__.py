"""`torch.fx`: the names that packages import. Functions can be marked; to trace a program into a graph is refused."""

from __future__ import annotations

from typing import Any

from rgrad._absent import absent_class, absent_function

__all__ = ["Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "symbolic_trace", "wrap"]

_WHY = "programs are not traced into graphs"

Graph = absent_class("torch.fx.Graph", _WHY)
GraphModule = absent_class("torch.fx.GraphModule", _WHY)
Interpreter = absent_class("torch.fx.Interpreter", _WHY)
Node = absent_class("torch.fx.Node", _WHY)
Proxy = absent_class("torch.fx.Proxy", _WHY)
Tracer = absent_class("torch.fx.Tracer", _WHY)
Transformer = absent_class("torch.fx.Transformer", _WHY)
symbolic_trace = absent_function("torch.fx.symbolic_trace", _WHY)


def wrap(fn_or_name: Any) -> Any:
    """Marks a function as one that tracing would not look into; as nothing is traced, it stays what it is.

    Args:
        fn_or_name: a function, or the name of one at module level.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    return fn_or_name
