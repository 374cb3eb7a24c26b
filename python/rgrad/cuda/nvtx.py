"""`torch.cuda.nvtx`: names of ranges. They are recorded by `rgrad.profiler`, as those of `record_function` are."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from rgrad.profiler import record_function

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


class _Open(threading.local):
    """The ranges that a thread has begun and not ended."""

    def __init__(self) -> None:
        self.stack: list[Any] = []


_open = _Open()
_started: dict[int, Any] = {}


def range_push(msg: str) -> int:
    """Begins a range within those that are open in this thread, and returns how many these are."""
    entered = record_function(msg)
    entered.__enter__()
    _open.stack.append(entered)
    return len(_open.stack) - 1


def range_pop() -> int:
    """Ends the innermost range, and returns how many remain; an error if none is open."""
    if not _open.stack:
        raise RuntimeError("nvtx.range_pop: no range is open in this thread")
    _open.stack.pop().__exit__(None, None, None)
    return len(_open.stack)


def range_start(msg: str) -> int:
    """Begins a range that may end out of order, and returns its number."""
    entered = record_function(msg)
    entered.__enter__()
    _started[id(entered)] = entered
    return id(entered)


def range_end(range_id: int) -> None:
    """Ends the range of a number that `range_start` returned."""
    entered = _started.pop(range_id, None)
    if entered is None:
        raise RuntimeError(f"nvtx.range_end: no range {range_id} has begun")
    entered.__exit__(None, None, None)


def mark(msg: str) -> None:
    """Records an instant."""
    with record_function(msg):
        pass


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A range for a block, or of a decorated function; further arguments are formatted into the name."""
    with record_function(msg.format(*args, **kwargs)):
        yield
