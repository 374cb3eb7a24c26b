"""Call stacks as `torch._C._profiler` gathers them, which loggers of operations record."""

from __future__ import annotations

import sys
import traceback
from typing import Any

__all__ = ["gather_traceback", "symbolize_tracebacks"]


def gather_traceback(python: bool, script: bool, cpp: bool) -> Any:
    """The stack of the caller, to be read by `symbolize_tracebacks`.

    Args:
        python: whether to gather frames of Python.
        script: without effect: there are no scripts, as `torch.jit.script` returns what it is given.
        cpp: without effect: frames of the core are not gathered.
    """
    frame = sys._getframe(1)
    return traceback.StackSummary.extract(traceback.walk_stack(frame), lookup_lines=False) if python else []


def symbolize_tracebacks(to_symbolize: list[Any]) -> list[list[dict[str, Any]]]:
    """The frames of stacks, the innermost first.

    Args:
        to_symbolize: what `gather_traceback` returned.

    Returns:
        For each stack a list of dictionaries with "name", "filename" and "line".
    """
    return [[{"name": f.name, "filename": f.filename, "line": f.lineno} for f in stack] for stack in to_symbolize]
