"""The events of a profile, their sums by name, and the table of both."""

from __future__ import annotations

import enum
from collections import namedtuple
from collections.abc import Iterable
from typing import Any

__all__ = ["DeviceType", "EventList", "FunctionEvent", "FunctionEventAvg", "Interval"]


class DeviceType(enum.Enum):
    """The device of an event."""

    CPU = 0
    CUDA = 1


class Interval(namedtuple("Interval", ("start", "end"))):
    """A span of time, from its start to its end in microseconds."""

    __slots__ = ()
    start: float
    end: float

    def elapsed_us(self) -> float:
        """Its length."""
        return self.end - self.start


def _format_time(time_us: float) -> str:
    """A time as text, in the unit in which it has the fewest digits before the point, but at least one."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if time_us >= size:
            return f"{time_us / size:.3f}{unit}"
    return f"{time_us:.3f}us"


def _format_time_share(time_us: float, total_time_us: float) -> str:
    """A time as a part of another, in percent."""
    return f"{100 * time_us / total_time_us:.2f}%" if total_time_us else "NaN"


class _Times:
    """What an event and a sum of events both tell of their times; no times of devices are measured."""

    count: int
    cpu_time_total: float
    self_cpu_time_total: float
    device_time_total = cuda_time_total = self_device_time_total = self_cuda_time_total = 0
    device_type = DeviceType.CPU

    @property
    def cpu_time(self) -> float:
        """Mean time of a call in microseconds."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def cpu_time_str(self) -> str:
        """`cpu_time` as text."""
        return _format_time(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        """`cpu_time_total` as text."""
        return _format_time(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        """`self_cpu_time_total` as text."""
        return _format_time(self.self_cpu_time_total)


class FunctionEvent(_Times):
    """A call, or a block with a name.

    Args:
        id: its number in the profile.
        name: of the operation, such as "aten::add", of the function, or of the block.
        thread: the number of the thread that made the call.
        start_us: when it began, in microseconds.
        end_us: when it ended.
        input_shapes: a list of the shape of each argument, if shapes were recorded.
        options: further facts, which become attributes.

    Attributes:
        cpu_children: the calls that it made itself, once `EventList` has found them.
        cpu_parent: the call that made it, or None.
    """

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        input_shapes: Any = None,
        **options: Any,
    ) -> None:
        self.id, self.name, self.thread, self.input_shapes = id, name, thread, input_shapes
        self.key = self.trace_name = name
        self.node_id, self.sequence_nr, self.is_async = -1, -1, False
        self.__dict__.update(options)
        self.time_range = Interval(start_us, end_us)
        self.count = 1
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Makes an event one that this one has caused."""
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Makes an event the one that has caused this one."""
        self.cpu_parent = parent

    @property
    def cpu_time_total(self) -> float:
        """Its time in microseconds."""
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:
        """Its time without that of the calls it made."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time_str} thread={self.thread} "
            f"start_us={self.time_range.start} end_us={self.time_range.end} input_shapes={self.input_shapes} "
            f"cpu_children={[child.id for child in self.cpu_children]}>"
        )


class FunctionEventAvg(_Times):
    """The sum of events of one name: their number and their times in microseconds, with and without nested calls."""

    def __init__(self) -> None:
        self.key: str | None = None
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.input_shapes: Any = None
        self.cpu_children = self.cpu_parent = None

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Adds an event, or a sum of others; the first gives the name."""
        if self.key is None:
            self.key, self.input_shapes = other.key, other.input_shapes
        if other.key != self.key:
            raise AssertionError(f"cannot add an event of {other.key} to a sum of those of {self.key}")
        self.count += other.count
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} calls={self.count} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str} input_shapes={self.input_shapes}>"
        )


class EventList(list[Any]):
    """A list of events, or of their sums.

    >>> from rgrad.autograd.profiler_util import EventList, FunctionEvent
    >>> events = EventList([FunctionEvent(0, "outer", 0, 1.0, 5.0), FunctionEvent(1, "inner", 0, 2.0, 4.0)])
    >>> events._populate_cpu_children()
    >>> events[0].self_cpu_time_total
    2.0
    """

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events, none counted twice."""
        return sum(event.self_cpu_time_total for event in self)

    def _populate_cpu_children(self) -> None:
        """Finds which events were caused by which: the innermost one of the thread that goes on for as long."""
        inside: dict[int, list[FunctionEvent]] = {}
        for event in sorted(self, key=lambda e: (e.time_range.start, -e.time_range.end)):
            around = inside.setdefault(event.thread, [])
            while around and not (event.time_range.start < around[-1].time_range.end >= event.time_range.end):
                around.pop()
            if around:
                around[-1].append_cpu_child(event)
                event.set_cpu_parent(around[-1])
            around.append(event)

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """The sums of events of the same name.

        Args:
            group_by_input_shape: whether calls with different shapes are told apart, if shapes were recorded.
            group_by_stack_n: ignored, because stacks are not recorded.
        """
        found: dict[Any, FunctionEventAvg] = {}
        for event in self:
            key = (event.key, repr(event.input_shapes)) if group_by_input_shape else event.key
            found.setdefault(key, FunctionEventAvg()).add(event)
        if not group_by_input_shape:
            for total in found.values():
                total.input_shapes = []
        return EventList(found.values())

    def total_average(self) -> FunctionEventAvg:
        """The sum over all events; the time with nested calls is that of the events without any around them."""
        total = FunctionEventAvg()
        total.key = "Total"
        for event in self:
            total.count += event.count
            total.cpu_time_total += event.self_cpu_time_total
            total.self_cpu_time_total += event.self_cpu_time_total
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """Formats a table with a line for each event.

        Args:
            sort_by: an attribute such as "cpu_time_total" or "self_cpu_time_total"; the largest value comes first.
            row_limit: largest number of lines; no limit if negative.
            max_src_column_width: accepted; there is no such column.
            max_name_column_width: to how many characters names are cut.
            max_shapes_column_width: accepted; there is no such column.
            header: a line above the table.
            top_level_events_only: leave out events that others have caused.
            time_unit: accepted; each time has the unit that suits it.
        """
        events: Iterable[Any] = self
        if top_level_events_only:
            events = [event for event in events if event.cpu_parent is None]
        if sort_by is not None:
            events = sorted(events, key=lambda event: getattr(event, sort_by, 0.0), reverse=True)
        whole = self.self_cpu_time_total
        heads = ("Name", "Self CPU %", "Self CPU", "CPU total", "CPU time avg", "# of Calls")
        rows = []
        for event in list(events)[: None if row_limit < 0 else row_limit]:
            name = event.key
            if len(name) > max_name_column_width > 3:
                name = name[: max_name_column_width - 3] + "..."
            share = _format_time_share(event.self_cpu_time_total, whole)
            times = (event.self_cpu_time_total_str, event.cpu_time_total_str, event.cpu_time_str)
            rows.append((name, share, *times, str(event.count)))
        widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]
        rule = "  ".join("-" * width for width in widths)
        padded = [[cell.rjust(width) for cell, width in zip(row, widths, strict=True)] for row in (heads, *rows)]
        lines = ["  ".join(row) for row in padded]
        above = [] if header is None else [rule, header]
        total = f"Self CPU time total: {_format_time(whole)}"
        return "\n".join([*above, rule, lines[0], rule, *lines[1:], rule, total, ""])
