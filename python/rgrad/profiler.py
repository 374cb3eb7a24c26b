"""`torch.profiler`: times of function calls on tensors, and of marked blocks.

A profile records the calls that a `TorchFunctionMode` receives: the functions and methods on tensors that a program
calls. It does not record the kernels that they launch, and a backward pass is a single call. See `rgrad.gpu.profile`
for the kernels of a GPU.
"""

from __future__ import annotations

import contextlib
import enum
import json
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

from rgrad import overrides
from rgrad._absent import absent_class

__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

ExecutionTraceObserver = absent_class("torch.profiler.ExecutionTraceObserver", "no trace of operations is recorded")


class ProfilerActivity(enum.Enum):
    """The activities that a profile may record."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """The action of a profile in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class DeviceType(enum.Enum):
    """The device of an event."""

    CPU = 0
    CUDA = 1


def kineto_available() -> bool:
    """False: times are measured in Python."""
    return False


def supported_activities() -> set[ProfilerActivity]:
    """Only the CPU."""
    return {ProfilerActivity.CPU}


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """Defines which steps a profile records: after the skipped steps, cycles of waiting, warming up and recording.

    Args:
        wait: steps of a cycle that are not recorded.
        warmup: steps of a cycle that are recorded and discarded.
        active: steps of a cycle that are recorded.
        repeat: number of cycles; no limit if 0.
        skip_first: steps before the first cycle.
        skip_first_wait: if not 0, the first cycle has no waiting steps.

    >>> from rgrad.profiler import schedule
    >>> [schedule(wait=1, warmup=1, active=1)(step).name for step in range(4)]
    ['NONE', 'WARMUP', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError("Invalid profiler schedule arguments")
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        at = step - skip_first + (wait if skip_first_wait else 0)
        if step < skip_first or (repeat and at >= cycle * repeat):
            return ProfilerAction.NONE
        place = at % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == cycle - 1 else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False) -> Any:
    """Returns a function that writes the trace of a profile to a folder, for `profile(on_trace_ready=…)`."""

    def handler(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        name = worker_name or f"{os.uname().nodename if hasattr(os, 'uname') else 'host'}_{os.getpid()}"
        path = os.path.join(dir_name, f"{name}.{time.time_ns()}.pt.trace.json")
        prof.export_chrome_trace(path + ".gz" if use_gzip else path)

    return handler


class _Call:
    """A call or a marked block: its name, start and end (nanoseconds), nesting depth, and the time of nested
    calls.
    """

    __slots__ = ("children", "depth", "end", "name", "shapes", "start")

    def __init__(self, name: str, depth: int, shapes: Any = None) -> None:
        self.name, self.depth, self.shapes = name, depth, shapes
        self.start = self.end = time.perf_counter_ns()
        self.children = 0


class _Recorder(overrides.TorchFunctionMode):
    """Measures the time of every call."""

    def __init__(self, shapes: bool) -> None:
        self.calls: list[_Call] = []
        self.open: list[_Call] = []
        self.shapes = shapes

    def begin(self, name: str, shapes: Any = None) -> _Call:
        call = _Call(name, len(self.open), shapes)
        self.calls.append(call)
        self.open.append(call)
        return call

    def finish(self, call: _Call) -> None:
        call.end = time.perf_counter_ns()
        while self.open and self.open.pop() is not call:
            pass
        if self.open:
            self.open[-1].children += call.end - call.start

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = overrides.resolve_name(func) or getattr(func, "__name__", str(func))
        shapes = [list(a.shape) if hasattr(a, "shape") else [] for a in args] if self.shapes else None
        call = self.begin(name, shapes)
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.finish(call)


# Recorders of active profiles, for marked blocks.
_active: list[_Recorder] = []


class record_function(contextlib.ContextDecorator):
    """A context manager or decorator whose block is shown in profiles under a name.

    Args:
        name: the name.
        args: further information; not shown.
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._open: list[tuple[_Recorder, _Call]] = []

    def __enter__(self) -> record_function:
        self._open = [(recorder, recorder.begin(self.name)) for recorder in _active]
        return self

    def __exit__(self, *_: object) -> None:
        for recorder, call in self._open:
            recorder.finish(call)


class FunctionEventAvg:
    """The calls of one name: their number, and their times in microseconds with and without nested calls."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.input_shapes: Any = []

    @property
    def cpu_time(self) -> float:
        """Mean time of a call in microseconds."""
        return self.cpu_time_total / self.count if self.count else 0.0

    def __repr__(self) -> str:
        return f"<FunctionEventAvg key={self.key} cpu_time={self.cpu_time:.3f}us calls={self.count}>"


class EventList(list[Any]):
    """A list of events; `table` formats it."""

    def total_average(self) -> FunctionEventAvg:
        """The sum over all events."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.count += event.count
            total.cpu_time_total += event.self_cpu_time_total
            total.self_cpu_time_total += event.self_cpu_time_total
        return total

    def table(self, sort_by: str | None = None, row_limit: int = 100, **layout: Any) -> str:
        """Formats a table with one line per event.

        Args:
            sort_by: an attribute such as "cpu_time_total" or "self_cpu_time_total"; the largest value comes first.
            row_limit: largest number of lines.
            layout: column widths of PyTorch; ignored.
        """
        events: Iterable[Any] = self
        if sort_by is not None:
            events = sorted(self, key=lambda event: getattr(event, sort_by, 0.0), reverse=True)
        whole = self.total_average().self_cpu_time_total
        heads = ("Name", "Self CPU %", "Self CPU", "CPU total", "CPU time avg", "# of Calls")
        rows = []
        for event in list(events)[: None if row_limit < 0 else row_limit]:
            share = f"{100 * event.self_cpu_time_total / whole:.2f}%" if whole else "-"
            times = (event.self_cpu_time_total, event.cpu_time_total, event.cpu_time)
            rows.append((event.key, share, *map(_time, times), str(event.count)))
        widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]
        rule = "  ".join("-" * width for width in widths)
        padded = [[cell.rjust(width) for cell, width in zip(row, widths, strict=True)] for row in (heads, *rows)]
        lines = ["  ".join(row) for row in padded]
        return "\n".join([rule, lines[0], rule, *lines[1:], rule, f"Self CPU time total: {_time(whole)}", ""])


def _time(microseconds: float) -> str:
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= size:
            return f"{microseconds / size:.3f}{unit}"
    return f"{microseconds:.3f}us"


class profile:
    """Measures the calls in a block, or in the steps that a schedule selects.

    Args:
        activities: accepted; calls are recorded on any device.
        schedule: returns the action for each step; without it the whole block is recorded.
        on_trace_ready: called with the profile whenever a recording is complete.
        record_shapes: whether events have `input_shapes`.
        profile_memory: accepted, without effect, like the arguments after it.
        with_stack: see `profile_memory`.
        options: see `profile_memory`.

    Example:
        >>> import rgrad as torch
        >>> with torch.profiler.profile() as prof:
        ...     y = torch.ones(3) + 1
        >>> sorted(event.key for event in prof.key_averages())
        ['torch.Tensor.add', 'torch.ones']
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        **options: Any,
    ) -> None:
        self.activities = set(activities) if activities is not None else supported_activities()
        self.schedule, self.on_trace_ready, self.record_shapes = schedule, on_trace_ready, record_shapes
        self.step_num = 0
        self._recorder = _Recorder(record_shapes)
        self._on = False
        self._action = ProfilerAction.NONE
        self._step: Any = None

    def _decide(self) -> ProfilerAction:
        return ProfilerAction.RECORD if self.schedule is None else self.schedule(self.step_num)

    def _set(self, action: ProfilerAction) -> None:
        records = action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if records and not self._on:
            self._recorder = _Recorder(self.record_shapes)
            self._recorder.__enter__()
            _active.append(self._recorder)
        elif self._on and not records:
            _active.remove(self._recorder)
            self._recorder.__exit__()
        self._on, self._action = records, action

    def _mark(self) -> None:
        if self.schedule is not None and self._on:
            self._step = record_function(f"ProfilerStep#{self.step_num}")
            self._step.__enter__()

    def start(self) -> None:
        """Starts the profile."""
        self._set(self._decide())
        self._mark()

    def stop(self) -> None:
        """Stops the profile and completes a recording in progress."""
        was_on = self._on
        self._close_step()
        self._set(ProfilerAction.NONE)
        if was_on and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _close_step(self) -> None:
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None

    def step(self) -> None:
        """Marks the beginning of the program's next step."""
        self._close_step()
        if self._action is ProfilerAction.RECORD_AND_SAVE:
            self._set(ProfilerAction.NONE)
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        self.step_num += 1
        self._set(self._decide())
        self._mark()

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """The calls, grouped by name.

        Args:
            group_by_input_shape: whether to separate calls with different shapes; needs `record_shapes`.
            group_by_stack_n: ignored, because stacks are not recorded.
        """
        found: dict[Any, FunctionEventAvg] = {}
        for call in self._recorder.calls:
            key = (call.name, repr(call.shapes)) if group_by_input_shape else call.name
            event = found.setdefault(key, FunctionEventAvg(call.name))
            event.count += 1
            event.cpu_time_total += (call.end - call.start) / 1e3
            event.self_cpu_time_total += (call.end - call.start - call.children) / 1e3
            event.input_shapes = call.shapes if group_by_input_shape else []
        return EventList(found.values())

    def events(self) -> EventList:
        """The calls, ungrouped."""
        found = EventList()
        for call in self._recorder.calls:
            event = FunctionEventAvg(call.name)
            event.count, event.input_shapes = 1, call.shapes
            event.cpu_time_total = (call.end - call.start) / 1e3
            event.self_cpu_time_total = (call.end - call.start - call.children) / 1e3
            found.append(event)
        return found

    def export_chrome_trace(self, path: str) -> None:
        """Writes the calls to a file for chrome://tracing and Perfetto; compressed if its name ends in `.gz`."""
        import gzip

        events = [
            {"ph": "X", "cat": "cpu_op", "name": c.name, "pid": os.getpid(), "tid": 0, "ts": c.start / 1e3}
            | {"dur": (c.end - c.start) / 1e3}
            for c in self._recorder.calls
        ]
        text = json.dumps({"schemaVersion": 1, "traceEvents": events})
        if path.endswith(".gz"):
            with gzip.open(path, "wt", encoding="utf-8") as file:
                file.write(text)
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
