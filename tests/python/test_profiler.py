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
    assert events["block"].count == 1 and events["torch.Tensor.add"].count == 3 and "torch.zeros" not in events
    assert events["block"].cpu_time_total >= 2000 and events["torch.Tensor.relu"].cpu_time_total < 2000
    block = events["block"]
    inside = events["torch.ones"].cpu_time_total + events["torch.Tensor.relu"].cpu_time_total
    assert block.self_cpu_time_total == pytest.approx(block.cpu_time_total - inside)
    shaped = {(e.key, str(e.input_shapes)) for e in prof.key_averages(group_by_input_shape=True)}
    assert ("torch.Tensor.relu", "[[2, 3]]") in shaped
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
        {"ProfilerStep#1": 1, "torch.ones": 1, "ProfilerStep#2": 1, "torch.zeros": 1},
        {"ProfilerStep#4": 1, "torch.zeros": 1, "ProfilerStep#5": 1, "torch.ones": 1},
    ]


@pytest.mark.parametrize("compressed", [False, True])
def test_a_trace_is_a_file_of_events(tmp_path, compressed):
    with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path), "w", compressed)):
        torch.ones(2)
    (path,) = tmp_path.iterdir()
    with gzip.open(path, "rt") if compressed else open(path) as file:
        (event,) = json.load(file)["traceEvents"]
    assert event["name"] == "torch.ones" and event["dur"] > 0


def test_marked_blocks_cost_nothing_where_nobody_looks():
    @record_function("named")
    def double(x):
        return x * 2

    assert double(torch.ones(1)).item() == 2 and profiler._active == []
    with profiler.profile() as prof:
        double(torch.ones(1))
    assert {"named"} < {event.key for event in prof.events()} and profiler._active == []
