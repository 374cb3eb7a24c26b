"""`multiprocessing`: functions in processes, whose errors come back."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from rgrad import multiprocessing as mp


def _write(i, folder):
    with open(os.path.join(folder, str(i)), "w") as file:
        file.write(str(os.getpid()))


def _raise(i):
    if i == 1:
        raise KeyError("from process one")


def _exit(i):
    sys.exit(3)


def _die(i):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_function_runs_in_several_processes(tmp_path):
    assert mp.start_processes(_write, (str(tmp_path),), nprocs=2, start_method="fork") is None
    pids = {int(path.read_text()) for path in tmp_path.iterdir()}
    assert len(pids) == 2 and os.getpid() not in pids


def test_spawned_processes_import_the_function(tmp_path):
    context = mp.spawn(_write, (str(tmp_path),), nprocs=1, join=False)
    assert len(context.pids()) == 1
    while not context.join():
        pass
    assert int((tmp_path / "0").read_text()) == context.pids()[0]


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (_raise, mp.ProcessRaisedException, r"(?s)Process 1 terminated with the following error.*from process one"),
        (_exit, mp.ProcessExitedException, r"process \d terminated with exit code 3"),
        (_die, mp.ProcessExitedException, r"process \d terminated with signal SIGKILL"),
    ],
)
def test_what_goes_wrong_in_a_process_is_raised(function, error, message):
    with pytest.raises(error, match=message):
        mp.start_processes(function, nprocs=2, start_method="fork")


def test_memory_is_not_shared():
    import multiprocessing

    assert mp.Queue is multiprocessing.Queue or callable(mp.Queue)
    assert mp.get_sharing_strategy() == "copy" and mp.get_all_sharing_strategies() == set()
    with pytest.raises(NotImplementedError, match="copied"):
        mp.set_sharing_strategy("file_system")
