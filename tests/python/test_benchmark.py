"""Timers, their measurements, and tables of them."""

from __future__ import annotations

import pickle

import pytest

import rgrad as torch
from rgrad.utils.benchmark import Compare, Measurement, TaskSpec, Timer, select_unit, trim_sigfig, unit_to_english


class Clock:
    """A clock that advances by `tick` seconds with every run of a statement that calls `work`."""

    def __init__(self, tick):
        self.now, self.tick, self.runs = 0.0, tick, 0

    def __call__(self):
        return self.now

    def work(self):
        self.now += self.tick
        self.runs += 1


def timer_of(tick: float, **settings) -> tuple[Timer, Clock]:
    clock = Clock(tick)
    return Timer("work()", timer=clock, globals={"work": clock.work}, **settings), clock


def test_a_number_of_runs_is_timed_after_a_warm_up():
    timer, clock = timer_of(1e-3)
    made = timer.timeit(500)
    assert clock.runs == 505 and made.number_per_run == 500 and made.raw_times == pytest.approx([0.5])
    assert made.median == made.mean == pytest.approx(1e-3) and made.iqr == 0


def test_blocks_are_run_until_the_time_is_reached():
    # Powers of 2, so that sums of times are exact.
    timer, clock = timer_of(2.0**-16)
    seen = []
    made = timer.blocked_autorange(lambda number, seconds: seen.append(number), min_run_time=2000 * 2.0**-16)
    assert made.number_per_run == 10 and sum(made.raw_times) == 2000 * 2.0**-16
    assert len(made.times) == 200 and seen == [10] * 200 and made.median == 2.0**-16
    assert clock.runs == 1 + 10 + 2000


def test_blocks_are_run_until_they_agree():
    timer, _ = timer_of(1e-3)
    assert len(timer.adaptive_autorange(min_run_time=0.002).times) >= 4
    uneven, clock = timer_of(1e-3)
    clock.work = None
    ticks = iter(range(1, 10**6))

    def work():
        clock.now += 1e-3 * (next(ticks) % 7 + 1)

    uneven = Timer("work()", timer=clock, globals={"work": work})
    made = uneven.adaptive_autorange(threshold=1e-6, min_run_time=0.01, max_run_time=0.2)
    assert sum(made.raw_times) >= 0.2 and made.has_warnings


def test_threads_are_set_while_the_statement_runs_and_torch_is_known():
    before = torch.get_num_threads()
    seen = []
    Timer("seen.append(torch.get_num_threads())", globals={"seen": seen}, num_threads=1).timeit(2)
    assert set(seen) == {1} and torch.get_num_threads() == before


def test_a_measurement_says_what_and_how_long():
    task = TaskSpec("f(x)", "x = 1", label="sums", sub_label="small", description="new", num_threads=2)
    one = Measurement(10, [2e-4], task)
    assert repr(one).splitlines()[1:] == [
        "sums: small",
        "new",
        "setup: x = 1",
        "  20.00 us",
        "  1 measurement, 10 runs , 2 threads",
    ]
    several = Measurement(1, [1e-3, 2e-3, 3e-3, 4e-3, 5e-3], task)
    assert several.median == 3e-3 and several.iqr == pytest.approx(2e-3) and several.has_warnings
    assert several.significant_figures == 1 and not several.meets_confidence()
    assert "  IQR:    2.00 ms (2.00 to 4.00)" in repr(several) and "WARNING" in repr(several)
    assert several.num_threads == 2 and several.as_row_name == "small" and several.title == "sums: small"
    (merged,) = Measurement.merge([one, several])
    assert len(merged.times) == 6 and pickle.loads(pickle.dumps(one)).times == one.times


def _measured(row: str, column: str, seconds: float, threads: int = 1) -> Measurement:
    task = TaskSpec("f(x)", "pass", label="L", sub_label=row, description=column, num_threads=threads)
    return Measurement(1, [seconds], task)


def test_measurements_are_compared_in_a_table():
    table = Compare([_measured("s", "d", 7.12e-6), _measured("s2", "d", 12.1e-6), _measured("s2", "e", 4.8e-6, 2)])
    lines = str(table).splitlines()
    assert lines[0].startswith("[-") and " L " in lines[0]
    assert [cell.strip() for cell in lines[1].split("|")] == ["", "d", "e"]
    assert lines[2].startswith("1 threads: ---")
    assert [cell.strip() for cell in lines[3].split("|")] == ["s", "7.1", ""]
    assert [cell.strip() for cell in lines[4].split("|")] == ["s2", "12.1", ""]
    assert lines[5].startswith("2 threads: ") and [cell.strip() for cell in lines[6].split("|")] == ["s2", "", "4.8"]
    assert lines[-1] == "Times are in microseconds (us)."
    table.trim_significant_figures()
    assert [cell.strip() for cell in str(table).splitlines()[4].split("|")] == ["s2", "12", ""]
    table.colorize()
    assert "\033[92m" in str(table)
    with pytest.raises(ValueError, match="Expected an instance of `Measurement`"):
        table.extend_results([3])


def test_units_and_figures():
    assert [select_unit(t)[0] for t in (1e-10, 1e-9, 2e-6, 3e-3, 5.0)] == ["ns", "ns", "us", "ms", "s"]
    assert unit_to_english("ms") == "millisecond" and trim_sigfig(1234.567, 2) == 1200.0


def test_what_a_timer_cannot_do_it_says():
    with pytest.raises(ValueError, match="`str` stmt"):
        Timer(len)
    with pytest.raises(NotImplementedError, match="statements are Python"):
        Timer("x", language="c++")
    with pytest.raises(NotImplementedError, match="instructions are not counted"):
        Timer("1").collect_callgrind()
    with pytest.raises(NotImplementedError, match="blocked_autorange"):
        Timer("1").repeat()
