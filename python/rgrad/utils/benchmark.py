"""Timing statements: `Timer` measures one, `Compare` prints measurements as a table."""

from __future__ import annotations

import enum
import itertools
import math
import sys
import timeit
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import rgrad
from rgrad._absent import refuse

__all__ = [
    "Compare",
    "Language",
    "Measurement",
    "TaskSpec",
    "Timer",
    "ordered_unique",
    "select_unit",
    "set_torch_threads",
    "timer",
    "trim_sigfig",
    "unit_to_english",
]

_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_NAMES = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}

# Below this share of the median, a spread is put down to chance.
_SPREAD = 0.1


class Language(enum.Enum):
    """The language of a statement."""

    PYTHON = 0
    CPP = 1


def timer() -> float:
    """Seconds of a clock, after the work on a GPU that was used has ended."""
    gpu = sys.modules.get("rgrad.gpu")
    if gpu is not None and gpu.is_initialized():
        gpu.synchronize()
    return timeit.default_timer()


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which a time has few digits before the point, and its seconds.

    Args:
        t: seconds.

    >>> from rgrad.utils.benchmark import select_unit
    >>> select_unit(3e-5)
    ('us', 1e-06)
    """
    unit = next((unit for unit, seconds in reversed(_UNITS.items()) if t >= seconds), "ns")
    return unit, _UNITS[unit]


def unit_to_english(u: str) -> str:
    """The unit's name.

    Args:
        u: its abbreviation.
    """
    return _NAMES[u]


def trim_sigfig(x: float, n: int) -> float:
    """Rounds a number to significant figures.

    Args:
        x: the number.
        n: how many figures.

    >>> from rgrad.utils.benchmark import trim_sigfig
    >>> trim_sigfig(1234.567, 2)
    1200.0
    """
    return float(f"{x:.{n}g}")


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """The elements without repetitions, in the order in which they come first.

    Args:
        elements: which can be hashed.
    """
    return list(dict.fromkeys(elements))


class set_torch_threads:
    """A context with a number of threads for operations.

    Args:
        n: the number.
    """

    def __init__(self, n: int) -> None:
        self._n = n

    def __enter__(self) -> None:
        self._before = rgrad.get_num_threads()
        rgrad.set_num_threads(self._n)

    def __exit__(self, *exc: object) -> None:
        rgrad.set_num_threads(self._before)


@dataclass(frozen=True)
class TaskSpec:
    """What a timer measures.

    Attributes:
        stmt: the statement.
        setup: what runs before it, once.
        global_setup: only for C++.
        label: heading of the table that it belongs to.
        sub_label: its row.
        description: its column.
        env: the environment, for measurements of several.
        num_threads: threads that operations may use.
    """

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label and the row, or the statement."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        return self.stmt if "\n" not in self.stmt else f"stmt:\n{_indented(self.stmt)}"

    def setup_str(self) -> str:
        """The setup with its heading; empty if nothing is set up."""
        if self.setup == "pass" or not self.setup:
            return ""
        return f"setup:\n{_indented(self.setup)}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self) -> str:
        """Title, column and setup in lines."""
        return "\n".join(line for line in (self.title, self.description or "", self.setup_str()) if line)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.strip().splitlines())


@dataclass(repr=False)
class Measurement:
    """Times of a statement.

    Attributes:
        number_per_run: how often the statement ran in each.
        raw_times: seconds of each.
        task_spec: what was measured.
        metadata: anything of the user.
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = field(default=None)

    @property
    def times(self) -> list[float]:
        """Seconds of one run of the statement, for each time."""
        return [t / self.number_per_run for t in self.raw_times]

    def _quantile(self, q: float) -> float:
        ordered = sorted(self.times)
        if not ordered:
            raise AssertionError("there are no times")
        place = q * (len(ordered) - 1)
        low = math.floor(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (place - low)

    @property
    def median(self) -> float:
        """The median of the times."""
        return self._quantile(0.5)

    @property
    def mean(self) -> float:
        """The mean of the times."""
        return sum(self.times) / len(self.times)

    @property
    def iqr(self) -> float:
        """The distance between the first and the third quartile."""
        return self._quantile(0.75) - self._quantile(0.25)

    @property
    def significant_figures(self) -> int:
        """How many figures of the median the spread of the times leaves certain, from 1 to 6."""
        count = len(self.times)
        if count < 2 or not self.iqr:
            return 2 if count < 2 else 6
        # The standard error of a normal distribution with this quartile distance.
        error = self.iqr / 1.349 / math.sqrt(count)
        return min(6, max(1, math.floor(math.log10(self.median / error)) + 1))

    @property
    def has_warnings(self) -> bool:
        """Whether the times spread by more than a tenth of their median."""
        return not self.meets_confidence(_SPREAD)

    def meets_confidence(self, threshold: float = 0.1) -> bool:
        """Whether the quartile distance is below a share of the median.

        Args:
            threshold: the share.
        """
        return self.iqr < threshold * self.median

    @property
    def title(self) -> str:
        """That of the task."""
        return self.task_spec.title

    @property
    def env(self) -> str | None:
        """The environment of the task."""
        return self.task_spec.env

    @property
    def as_row_name(self) -> str:
        """The task's row, or its statement."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def __getattr__(self, name: str) -> Any:
        if name in TaskSpec.__dataclass_fields__:
            return getattr(self.task_spec, name)
        raise AttributeError(f"'Measurement' object has no attribute '{name}'")

    def __repr__(self) -> str:
        unit, seconds = select_unit(self.median)
        count = len(self.raw_times)
        lines = [object.__repr__(self), self.task_spec.summarize()]
        if count > 1:
            lines.append(f"  Median: {self.median / seconds:.2f} {unit}")
            if count > 3:
                ends = (self._quantile(q) / seconds for q in (0.25, 0.75))
                lines.append(f"  IQR:    {self.iqr / seconds:.2f} {unit} ({' to '.join(f'{t:.2f}' for t in ends)})")
        else:
            lines.append(f"  {self.median / seconds:.2f} {unit}")
        runs = f"{self.number_per_run} runs {'per measurement' if count > 1 else ''}"
        threads = self.task_spec.num_threads
        many = "s" if count > 1 else ""
        lines.append(f"  {count} measurement{many}, {runs}, {threads} thread{'s' if threads > 1 else ''}")
        if count > 3 and self.has_warnings:
            lines.append(f"  WARNING: the times spread by {self.iqr / self.median:.0%} of their median")
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Joins the measurements of equal tasks; their times become those of single runs.

        Args:
            measurements: of any tasks.
        """
        by_task: dict[TaskSpec, list[Measurement]] = {}
        for measurement in measurements:
            by_task.setdefault(measurement.task_spec, []).append(measurement)
        return [
            Measurement(1, list(itertools.chain.from_iterable(m.times for m in group)), task)
            for task, group in by_task.items()
        ]


class Timer:
    """Measures how long a statement takes, with a fixed number of threads.

    Args:
        stmt: the statement, Python source in which `torch` is this package.
        setup: what runs before it, once.
        global_setup: only for C++.
        timer: the clock.
        globals: names that the statement uses.
        label: heading of the table of results.
        sub_label: its row in the table.
        description: its column.
        env: the environment, for measurements of several.
        num_threads: threads that operations may use.
        language: Python.

    >>> from rgrad.utils.benchmark import Timer
    >>> Timer("x + 1", "x = torch.ones(3)").timeit(10).number_per_run
    10
    """

    _timer_cls: type[timeit.Timer] = timeit.Timer

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if language not in (Language.PYTHON, "py", "python"):
            refuse("torch.utils.benchmark.Timer(language='c++')", "statements are Python")
        if global_setup:
            raise ValueError(f"global_setup is C++ only, got `{global_setup}`")
        names = {"torch": rgrad, **(globals or {})}
        self._timer = self._timer_cls(_dedented(stmt), _dedented(setup), timer, names)
        self._task_spec = TaskSpec(
            _dedented(stmt), _dedented(setup), "", label, sub_label, description, env, num_threads
        )

    def _timeit(self, number: int) -> float:
        # A clock may return the same time twice.
        return max(self._timer.timeit(number), 1e-9)

    def timeit(self, number: int = 1000000) -> Measurement:
        """Runs the statement a number of times, after a hundredth of it for warming up.

        Args:
            number: how often.

        Returns:
            A measurement with one time.
        """
        with set_torch_threads(self._task_spec.num_threads):
            self._timeit(max(number // 100, 2))
            return Measurement(number, [self._timeit(number)], self._task_spec)

    def _block_size(self, min_run_time: float) -> int:
        """How often the statement runs between two looks at the clock: so that the looks take little time."""
        number = 1
        while True:
            elapsed = self._timeit(number)
            overhead = sorted(self._timeit(0) for _ in range(5))[2]
            if elapsed >= min_run_time / 1000 and overhead <= elapsed * 1e-4 or elapsed >= min_run_time:
                return number
            number *= 10

    def _blocks(self, number: int, min_run_time: float) -> Iterator[float]:
        total = 0.0
        while total < min_run_time:
            elapsed = self._timeit(number)
            total += elapsed
            yield elapsed

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Runs the statement in blocks, for at least some time; a block is so large that the clock costs little.

        Args:
            callback: called with the number of runs and the seconds of each block.
            min_run_time: seconds.

        Returns:
            A measurement with one time per block.
        """
        times = []
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(min_run_time)
            for elapsed in self._blocks(number, min_run_time):
                times.append(elapsed)
                if callback is not None:
                    callback(number, elapsed)
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Runs blocks until the times spread by less than a share of their median.

        Args:
            threshold: the share.
            min_run_time: seconds after which the spread is looked at.
            max_run_time: seconds after which no further block is run.
            callback: called with the number of runs and the seconds of each block.

        Returns:
            A measurement with one time per block.
        """
        made = Measurement(1, [], self._task_spec)
        with set_torch_threads(self._task_spec.num_threads):
            made.number_per_run = self._block_size(min_run_time)
            while sum(made.raw_times) < max_run_time:
                for elapsed in self._blocks(made.number_per_run, min_run_time):
                    made.raw_times.append(elapsed)
                    if callback is not None:
                        callback(made.number_per_run, elapsed)
                if len(made.raw_times) > 3 and made.meets_confidence(threshold):
                    break
        return made

    def autorange(self, callback: Callable[[int, float], Any] | None = None) -> None:
        """Refuses: `blocked_autorange` does it in one measurement."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Refuses: `blocked_autorange` repeats."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def collect_callgrind(self, number: int = 100, **options: Any) -> Any:
        """Refuses: instructions are not counted."""
        refuse("torch.utils.benchmark.Timer.collect_callgrind", "instructions are not counted")


def _dedented(source: str) -> str:
    import textwrap

    return textwrap.dedent(source).strip() or "pass"


class Compare:
    """Prints measurements as tables: one per label, with a row per sub-label and a column per description.

    Args:
        results: the measurements.
    """

    def __init__(self, results: Sequence[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trim = False
        self._rowwise: bool | None = None
        self._warnings = False

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Adds measurements.

        Args:
            results: the measurements.

        Raises:
            ValueError: one is none.
        """
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(result)} instead.")
            self._results.append(result)

    def trim_significant_figures(self) -> None:
        """Rounds times to the figures that their spread leaves certain."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colors the fastest time green and those that take twice as long red, of every column.

        Args:
            rowwise: of every row instead.
        """
        self._rowwise = rowwise

    def highlight_warnings(self) -> None:
        """Marks times that spread by more than a tenth of their median."""
        self._warnings = True

    def print(self) -> None:
        """Prints the tables."""
        print(str(self))

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        tables = [
            self._table(label, [m for m in merged if m.task_spec.label == label])
            for label in ordered_unique(m.task_spec.label for m in merged)
        ]
        return "\n\n".join(tables)

    def _table(self, label: str | None, measurements: list[Measurement]) -> str:
        unit, seconds = select_unit(min(m.median for m in measurements))
        columns = ordered_unique(m.task_spec.description for m in measurements)
        several = len({m.env for m in measurements}) > 1
        cells: dict[tuple[Any, Any], Measurement] = {}
        for m in measurements:
            name = f"{m.as_row_name} ({m.env})" if several and m.env else m.as_row_name
            cells[(m.task_spec.num_threads, name), m.task_spec.description] = m
        rows = ordered_unique(row for row, _ in cells)
        rows.sort(key=lambda row: row[0])
        texts = {place: self._text(m, seconds) for place, m in cells.items()}
        widths = [max(len(str(c or "")), *(len(texts.get((r, c), "")) for r in rows)) + 2 for c in columns]
        first = max(12, *(len(name) + 6 for _, name in rows)) - 2
        lines = []
        heading = " " * first + "".join(f"|{str(c or '').center(w)}" for c, w in zip(columns, widths, strict=True))
        lines.append("[" + f" {label or ''} ".center(len(heading) - 2, "-") + "]")
        lines.append(heading)
        threads = None
        for row in rows:
            if row[0] != threads:
                threads = row[0]
                lines.append(f"{threads} threads: ".ljust(len(heading), "-"))
            line = f"      {row[1]}".ljust(first)
            for column, width in zip(columns, widths, strict=True):
                text = texts.get((row, column), "").rjust(width - 1) + " "
                line += "|" + self._painted(text, row, column, cells)
            lines.append(line.rstrip())
        lines += ["", f"Times are in {unit_to_english(unit)}s ({unit})."]
        return "\n".join(lines) + "\n"

    def _text(self, m: Measurement, seconds: float) -> str:
        value = m.median / seconds
        if self._trim:
            value = trim_sigfig(value, m.significant_figures)
            text = f"{value:.0f}" if value >= 10 ** (m.significant_figures - 1) else f"{value:g}"
        else:
            text = f"{value:.1f}"
        return f"{text} (! {m.iqr / m.median:.0%})" if self._warnings and m.has_warnings and len(m.times) > 1 else text

    def _painted(self, text: str, row: Any, column: Any, cells: dict[tuple[Any, Any], Measurement]) -> str:
        if self._rowwise is None or (row, column) not in cells:
            return text
        rivals = [m.median for (r, c), m in cells.items() if (r == row if self._rowwise else c == column)]
        share = cells[row, column].median / min(rivals)
        color = "\033[92m" if share == 1 else "\033[91m" if share > 2 else ""
        return f"{color}{text}\033[0m" if color else text
