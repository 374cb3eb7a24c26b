"""Profiles under the name that they had first; see `rgrad.profiler`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from rgrad import profiler as _profiler
from rgrad.profiler import EventList, record_function
from rgrad.profiler import FunctionEventAvg as FunctionEvent

__all__ = ["EventList", "FunctionEvent", "emit_nvtx", "profile", "record_function"]


class profile(_profiler.profile):
    """Takes the times of a block.

    Args:
        enabled: whether it does.
        use_cuda: accepted, without effect.
        record_shapes: whether shapes of arguments are kept.
        options: accepted, without effect.
    """

    def __init__(
        self, enabled: bool = True, use_cuda: bool = False, record_shapes: bool = False, **options: Any
    ) -> None:
        super().__init__(record_shapes=record_shapes)
        self.enabled = enabled

    def __enter__(self) -> profile:
        if self.enabled:
            self.start()
        return self

    def table(self, *args: Any, **kwargs: Any) -> str:
        """A text with a line for each call."""
        return self.events().table(*args, **kwargs)

    @property
    def function_events(self) -> EventList:
        """The calls."""
        return self.events()


@contextlib.contextmanager
def emit_nvtx(enabled: bool = True, record_shapes: bool = False) -> Iterator[None]:
    """A block, whose calls no tool of NVIDIA is told of: refused unless it is not enabled."""
    if enabled:
        from rgrad._absent import refuse

        refuse("torch.autograd.profiler.emit_nvtx", "rgrad tells NVIDIA's tools of nothing")
    yield
