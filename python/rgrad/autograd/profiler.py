"""Profiles under the name that they had first; see `rgrad.profiler`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from rgrad import profiler as _profiler
from rgrad.profiler import kineto_available, record_function

from .profiler_util import EventList, FunctionEvent, FunctionEventAvg, Interval

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "emit_nvtx",
    "kineto_available",
    "profile",
    "record_function",
]


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
        """A text with a line for each call; the arguments are those of `EventList.table`."""
        return self.events().table(*args, **kwargs)

    def __str__(self) -> str:
        return self.table() if self._recorder.calls else ""

    def __repr__(self) -> str:
        return repr(self.events())

    def total_average(self) -> FunctionEventAvg:
        """The sum over all calls."""
        return self.events().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all calls in microseconds, none counted twice."""
        return self.events().self_cpu_time_total

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
