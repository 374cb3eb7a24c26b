"""`rgrad.gpu.profile`: time per kernel, from timestamps that the GPU writes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rgrad import _C
from rgrad.gpu._devices import index_of


@dataclass(frozen=True)
class Event:
    """One launch; times in microseconds since profiling began."""

    op: str
    kernel: str
    groups: int
    recorded: float
    begin: float
    end: float

    @property
    def duration(self) -> float:
        """Microseconds on the device."""
        return self.end - self.begin


@dataclass(frozen=True)
class KernelTimes:
    """All launches of a kernel for an operation; times in microseconds."""

    op: str
    kernel: str
    count: int
    total: float
    longest: float

    @property
    def mean(self) -> float:
        """Microseconds per launch."""
        return self.total / self.count


class profile:  # noqa: N801 - a context, named as PyTorch's profiler is
    """Times every kernel launched on a GPU within a `with` block.

    Each launch gets its own compute pass, which increases the overhead between kernels.

    Args:
        device: the GPU, by default the current one.

    Example:
        >>> import rgrad as torch
        >>> if torch.gpu.is_available():
        ...     x = torch.ones(512, 512, device="gpu")
        ...     with torch.gpu.profile() as profile:
        ...         y = (x @ x).relu()
        ...     table, kernels = profile.table(), {event.op for event in profile.events}
    """

    def __init__(self, device: Any = None) -> None:
        self._index = index_of(device)
        self.events: list[Event] = []

    def __enter__(self) -> profile:
        _C._gpu_start_profile(self._index)
        return self

    def __exit__(self, *exc: object) -> None:
        self.events = [Event(*event) for event in _C._gpu_stop_profile(self._index)]

    @property
    def total(self) -> float:
        """Microseconds spent in kernels."""
        return sum(e.duration for e in self.events)

    def kernels(self) -> list[KernelTimes]:
        """Times by operation and kernel, the largest first."""
        durations: dict[tuple[str, str], list[float]] = {}
        for e in self.events:
            durations.setdefault((e.op, e.kernel), []).append(e.duration)
        rows = [KernelTimes(*key, len(times), sum(times), max(times)) for key, times in durations.items()]
        return sorted(rows, key=lambda row: -row.total)

    def table(self, row_limit: int = 20) -> str:
        """The times as a text table.

        Args:
            row_limit: the maximum number of rows.
        """
        total = self.total or 1.0
        lines = [f"{'operation':<28}{'kernel':<22}{'launches':>9}{'total µs':>12}{'mean µs':>11}{'share':>8}"]
        for r in self.kernels()[:row_limit]:
            share = f"{r.total / total:.1%}"
            lines.append(f"{r.op:<28}{r.kernel:<22}{r.count:>9}{r.total:>12.1f}{r.mean:>11.2f}{share:>8}")
        lines.append(f"{len(self.events)} launches, {self.total / 1e3:.3f} ms in kernels")
        return "\n".join(lines)

    def export_chrome_trace(self, path: str | Path) -> None:
        """Writes a trace for chrome://tracing and Perfetto: when launches were recorded, and when they ran.

        Args:
            path: the path of the file.
        """
        host, device = 1, 2
        names = {host: "host: recording", device: f"gpu:{self._index}"}
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": tid, "args": {"name": name}}
            for tid, name in names.items()
        ]
        for e in self.events:
            args = {"kernel": e.kernel, "workgroups": e.groups}
            row = {"ph": "X", "name": e.op, "pid": 1, "args": args}
            events.append({**row, "cat": "host", "tid": host, "ts": e.recorded, "dur": 1.0})
            events.append({**row, "cat": "kernel", "tid": device, "ts": e.begin, "dur": e.duration})
        Path(path).write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}))
