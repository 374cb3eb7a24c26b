"""`profiler`: which calls a program made, how often and how long, and which steps are looked at."""

from __future__ import annotations

import gzip
import json
import time

import pytest

import rgrad as torch
from rgrad import profiler
from rgrad.profiler import ProfilerAction, record_function, schedule


def test_calls_and_blocks_are_counted_and_timed():
    with profiler.profile(record_shapes=True) as prof:
        with record_function("block"):
            time.sleep(0.002)
            y = torch.ones(2, 3).relu()
        torch.nn.functional.linear(y, y)
        for _ in range(3):
            y = y + 1
    torch.zeros(1)
    events = {event.key: event for event in prof.key_averages()}
    assert events["block"].count == 1 and events["aten::add"].count == 3 and "aten::zeros" not in events
    assert events["block"].cpu_time_total >= 2000 and events["aten::relu"].cpu_time_total < 2000
    block = events["block"]
    inside = events["aten::ones"].cpu_time_total + events["aten::relu"].cpu_time_total
    assert block.self_cpu_time_total == pytest.approx(block.cpu_time_total - inside)
    shaped = {(e.key, str(e.input_shapes)) for e in prof.key_averages(group_by_input_shape=True)}
    assert ("aten::relu", "[[2, 3]]") in shaped
    lines = prof.key_averages().table(sort_by="cpu_time_total", row_limit=2).splitlines()
    assert lines[1].split()[0] == "Name" and lines[3].split()[0] == "block" and len(lines) == 7


def test_a_schedule_chooses_steps():
    wanted = "NONE NONE WARMUP RECORD RECORD_AND_SAVE NONE WARMUP RECORD RECORD_AND_SAVE NONE NONE"
    steps = schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=2)
    assert [steps(i).name for i in range(11)] == wanted.split()
    assert schedule(wait=0, warmup=0, active=1)(7) is ProfilerAction.RECORD_AND_SAVE
    with pytest.raises(AssertionError, match="Invalid profiler schedule"):
        schedule(wait=0, warmup=0, active=0)


def test_recordings_are_handed_over_when_they_are_complete(tmp_path):
    ready = []

    def keep(prof):
        ready.append({event.key: event.count for event in prof.key_averages()})

    with profiler.profile(schedule=schedule(wait=1, warmup=0, active=2), on_trace_ready=keep) as prof:
        for i in range(6):
            torch.ones(1) if i % 2 else torch.zeros(1)
            prof.step()
    assert ready == [
        {"ProfilerStep#1": 1, "aten::ones": 1, "ProfilerStep#2": 1, "aten::zeros": 1},
        {"ProfilerStep#4": 1, "aten::zeros": 1, "ProfilerStep#5": 1, "aten::ones": 1},
    ]


@pytest.mark.parametrize("compressed", [False, True])
def test_a_trace_is_a_file_of_events(tmp_path, compressed):
    with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path), "w", compressed)):
        torch.ones(2)
    (path,) = tmp_path.iterdir()
    with gzip.open(path, "rt") if compressed else open(path) as file:
        (event,) = json.load(file)["traceEvents"]
    assert event["name"] == "aten::ones" and event["dur"] > 0


def test_marked_blocks_cost_nothing_where_nobody_looks():
    @record_function("named")
    def double(x):
        return x * 2

    assert double(torch.ones(1)).item() == 2 and profiler._active == []
    with profiler.profile() as prof:
        double(torch.ones(1))
    assert {"named"} < {event.key for event in prof.events()} and profiler._active == []


def test_events_know_what_caused_them_and_what_they_took_without_it():
    from rgrad.autograd.profiler_util import EventList, FunctionEvent

    spans = ("a", 0, 10, 1), ("b", 1, 4, 1), ("c", 2, 3, 1), ("b", 5, 9, 1), ("a", 10, 12, 1), ("d", 6, 7, 2)
    events = EventList(FunctionEvent(i, name, thread, start, end) for i, (name, start, end, thread) in enumerate(spans))
    events._populate_cpu_children()
    assert [[child.id for child in e.cpu_children] for e in events] == [[1, 3], [2], [], [], [], []]
    assert [e.cpu_parent and e.cpu_parent.id for e in events] == [None, 0, 1, 0, None, None]
    assert [e.self_cpu_time_total for e in events] == [3, 2, 1, 4, 2, 1]
    sums = {e.key: (e.count, e.cpu_time_total, e.self_cpu_time_total, e.cpu_time) for e in events.key_averages()}
    assert sums == {"a": (2, 12, 5, 6), "b": (2, 7, 6, 3.5), "c": (1, 1, 1, 1), "d": (1, 1, 1, 1)}
    assert events.self_cpu_time_total == events.total_average().self_cpu_time_total == 13
    lines = events.table(sort_by="cpu_time_total", top_level_events_only=True, header="HEAD").splitlines()
    assert lines[1] == "HEAD" and [line.split()[0] for line in lines[5:8]] == ["a", "a", "d"]
    # An event that only begins inside another is not its child; the later of two that overlap has the children.
    overlapping = EventList(FunctionEvent(i, "", 0, *span) for i, span in enumerate([(0, 2), (1, 2), (1, 3)]))
    overlapping._populate_cpu_children()
    assert [[child.id for child in e.cpu_children] for e in overlapping] == [[], [], [1]]


def test_sums_of_events_are_added_and_take_the_name_of_the_first():
    from rgrad.autograd.profiler_util import FunctionEvent, FunctionEventAvg, _format_time

    total = FunctionEventAvg()
    total.add(FunctionEvent(id=0, name="foo", thread=0, start_us=10, end_us=15))
    total += FunctionEvent(id=1, name="foo", thread=0, start_us=20, end_us=30)
    total.add(total)
    assert (total.key, total.count, total.cpu_time_total, total.cpu_time) == ("foo", 4, 30, 7.5)
    assert total.cuda_time_total == total.device_time_total == 0 and "foo" in repr(total)
    with pytest.raises(AssertionError, match="cannot add an event of bar"):
        total.add(FunctionEvent(id=2, name="bar", thread=0, start_us=0, end_us=1))
    assert [_format_time(t) for t in (3.2, 3200, 3.2e6)] == ["3.200us", "3.200ms", "3.200s"]


def test_the_older_profile_shows_its_events_by_the_names_of_operations():
    from rgrad.autograd.profiler import profile

    layer, x = torch.nn.Linear(3, 2), torch.ones(4, 3)
    assert not torch.autograd._profiler_enabled() and str(profile()) == ""
    with profile(record_shapes=True, use_kineto=False) as prof:
        assert torch.autograd._profiler_enabled()
        with record_function("outer"):
            layer(x * 2)
    assert not torch.autograd._profiler_enabled()
    names = [event.name for event in prof.function_events]
    assert names[:2] == ["outer", "aten::mul"] and "aten::linear" in names
    linear = prof.function_events[names.index("aten::linear")]
    assert linear.input_shapes == [[4, 3], [2, 3], [2]] and linear.cpu_parent.name == "outer"
    assert prof.table() == str(prof) and "aten::linear" in str(prof)
    assert prof.self_cpu_time_total == pytest.approx(prof.total_average().self_cpu_time_total)
    assert "<FunctionEvent id=1 name=outer" in repr(prof)


def test_a_block_has_a_name_by_the_operations_of_the_profiler():
    operations = torch.ops.profiler
    for enter in (operations._record_function_enter, operations._record_function_enter_new):
        with torch.profiler.profile() as prof:
            record = enter("named block")
            torch.ones(2) + 1
            operations._record_function_exit(record)
            torch.ones(2) * 2
        events = {event.key: event.count for event in prof.key_averages()}
        assert events["named block"] == 1 and events["aten::mul"] == 1
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        _ = operations.other
