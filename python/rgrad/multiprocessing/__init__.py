"""The standard library's `multiprocessing` with `spawn`, which runs a function in processes and reports their errors.

Tensors that are sent through queues and pipes, or given to processes, move to memory that the processes share; see
Note [Shared memory]. Importing the module has that effect on everything of `multiprocessing`.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from multiprocessing import *  # noqa: F403 - re-exported
from multiprocessing import reduction as reducer
from typing import Any

from rgrad import _shared
from rgrad._absent import refuse
from rgrad._shared import init_reductions

from . import reductions as reductions

__all__ = [
    *multiprocessing.__all__,  # type: ignore[attr-defined]
    "ProcessContext",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "init_reductions",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]


class ProcessException(Exception):
    """A started process failed.

    Args:
        msg: the error message.
        error_index: the index of the process.
        pid: its process id.
    """

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """The function of a process raised an exception, whose traceback is in the message."""


class ProcessExitedException(ProcessException):
    """A process exited with an error or was terminated by a signal.

    Args:
        msg: the error message.
        error_index: the index of the process.
        error_pid: its process id.
        exit_code: its exit status; negative for a signal.
        signal_name: the name of the signal.
    """

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _call(function: Callable[..., Any], index: int, args: tuple[Any, ...], report: str) -> None:
    """The main function of a started process: calls the function and writes a traceback if it raises."""
    try:
        function(index, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        with open(report, "w", encoding="utf-8") as file:
            file.write(traceback.format_exc())
        raise SystemExit(1) from None


class ProcessContext:
    """Started processes, and the files to which they write their tracebacks.

    Args:
        processes: the processes, in order.
        error_files: the path for each process.
    """

    def __init__(self, processes: list[Any], error_files: list[str]) -> None:
        self.processes, self.error_files = processes, error_files

    def pids(self) -> list[int | None]:
        """The process ids."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits for the processes. If one fails, the others are terminated.

        Args:
            timeout: seconds to wait for the next process to end; no limit if None.
            grace_period: seconds in which the others may end before they are killed.

        Returns:
            Whether all have ended.

        Raises:
            ProcessRaisedException: the function raised in a process.
            ProcessExitedException: a process ended with another non-zero status.
        """
        from multiprocessing.connection import wait

        running = {process.sentinel: i for i, process in enumerate(self.processes) if process.exitcode is None}
        if running:
            wait(list(running), timeout=timeout)
        failed = next((i for i, process in enumerate(self.processes) if process.exitcode not in (None, 0)), None)
        if failed is None:
            return all(process.exitcode == 0 for process in self.processes)
        self._end(grace_period)
        self._raise(failed)
        return True

    def _end(self, grace_period: float | None) -> None:
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        until = time.monotonic() + (30.0 if grace_period is None else grace_period)
        for process in self.processes:
            process.join(max(0.0, until - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()

    def _raise(self, index: int) -> None:
        process = self.processes[index]
        code = process.exitcode
        if os.path.getsize(self.error_files[index]):
            with open(self.error_files[index], encoding="utf-8") as file:
                said = file.read()
            text = f"\n\n-- Process {index} terminated with the following error:\n{said}"
            raise ProcessRaisedException(text, index, process.pid)
        if code < 0:
            name = signal.Signals(-code).name
            text = f"process {index} terminated with signal {name}"
            raise ProcessExitedException(text, index, process.pid, code, name)
        raise ProcessExitedException(
            f"process {index} terminated with exit code {code}", index, process.pid, code
        )

    def __del__(self) -> None:
        for path in self.error_files:
            if os.path.exists(path):
                os.unlink(path)


SpawnContext = ProcessContext


def start_processes(
    fn: Callable[..., Any],
    args: Iterable[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Calls `fn(i, *args)` in `nprocs` processes.

    Args:
        fn: a function at module level, so that it can be pickled.
        args: its arguments after the index of the process.
        nprocs: the number of processes.
        join: whether to wait for them; their errors are then raised here.
        daemon: whether they end with this process.
        start_method: "spawn", "fork" or "forkserver".

    Returns:
        The processes if `join` is False, else None.
    """
    context: Any = multiprocessing.get_context(start_method)
    processes, reports = [], []
    for i in range(nprocs):
        handle, report = tempfile.mkstemp(prefix="rgrad-process-", suffix=".txt")
        os.close(handle)
        process = context.Process(target=_call, args=(fn, i, tuple(args), report), daemon=daemon)
        process.start()
        processes.append(process)
        reports.append(report)
    started = ProcessContext(processes, reports)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: Iterable[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Like :func:`start_processes`, with new interpreters."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)


def get_all_sharing_strategies() -> set[str]:
    """The ways in which tensors are sent; see Note [Shared memory]. "copy" where systems have no descriptors."""
    return {"file_descriptor", "file_system"} if get_sharing_strategy() != "copy" else {"copy"}


def get_sharing_strategy() -> str:
    """The way in which tensors are sent that are shared from now on."""
    return _shared.strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Chooses the way in which tensors are sent.

    Args:
        new_strategy: "file_descriptor", or "file_system", for messages that are received after the sender has ended.
    """
    if new_strategy not in get_all_sharing_strategies():
        refuse(f"torch.multiprocessing.set_sharing_strategy({new_strategy!r})", "this system cannot share like that")
    _shared.strategy = new_strategy


def _set_thread_name(name: str) -> None:
    """Gives the calling thread a name that the system's tools show; nothing happens where threads have none.

    Args:
        name: of which the system keeps the first 15 bytes.
    """
    if os.path.isdir(_THREADS):
        with open(f"{_THREADS}/{threading.get_native_id()}/comm", "wb") as file:
            file.write(name.encode()[:15])


def _get_thread_name() -> str:
    """The name that the system has for the calling thread; empty where threads have none."""
    if not os.path.isdir(_THREADS):
        return ""
    with open(f"{_THREADS}/{threading.get_native_id()}/comm", "rb") as file:
        return file.read().decode(errors="replace").rstrip("\n")


# The threads of this process, on Linux.
_THREADS = "/proc/self/task"

init_reductions()

# Some programs look for it here.
_seen = reducer
