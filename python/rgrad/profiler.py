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
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from rgrad import overrides
from rgrad._absent import absent_class
from rgrad.autograd.profiler_util import DeviceType as DeviceType
from rgrad.autograd.profiler_util import EventList, FunctionEvent

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
    """A call or a marked block: its name, start and end (nanoseconds), and the thread that made it."""

    __slots__ = ("end", "name", "shapes", "start", "thread")

    def __init__(self, name: str, shapes: Any = None) -> None:
        self.name, self.shapes, self.thread = name, shapes, threading.get_ident()
        self.start = self.end = time.perf_counter_ns()


# The names of functions in profiles, by function.
_names: dict[Any, str] = {}


def _name_of(func: Any) -> str:
    """The name in a profile: "aten::add" as in PyTorch for an operation, else the path of the function."""
    try:
        return _names[func]
    except (KeyError, TypeError):
        pass
    from rgrad import ops

    name = overrides.resolve_name(func) or getattr(func, "__name__", str(func))
    last = name.rpartition(".")[2]
    if not last.startswith("_") and hasattr(ops.aten, last):
        name = f"aten::{last}"
    with contextlib.suppress(TypeError):
        _names[func] = name
    return name


class _Recorder(overrides.TorchFunctionMode):
    """Measures the time of every call."""

    def __init__(self, shapes: bool) -> None:
        self.calls: list[_Call] = []
        self.shapes = shapes

    def begin(self, name: str, shapes: Any = None) -> _Call:
        call = _Call(name, shapes)
        self.calls.append(call)
        return call

    def finish(self, call: _Call) -> None:
        call.end = time.perf_counter_ns()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = _name_of(func)
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
        ['aten::add', 'aten::ones']
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
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def events(self) -> EventList:
        """The calls, ungrouped."""
        threads: dict[int, int] = {}
        found = EventList()
        for number, call in enumerate(self._recorder.calls, 1):
            thread = threads.setdefault(call.thread, len(threads) + 1)
            found.append(FunctionEvent(number, call.name, thread, call.start / 1e3, call.end / 1e3, call.shapes or []))
        found._populate_cpu_children()
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
