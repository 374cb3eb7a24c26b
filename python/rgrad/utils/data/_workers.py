"""The workers of a loader: processes or threads that fetch batches ahead of time.

Note [Workers]
~~~~~~~~~~~~~~
Every worker has its own pipe (or pair of queues) and answers its tasks in order, so the loader knows which worker has
the next batch and waits only for that one, or for any of them if `in_order` is False. Answers need not be reordered,
and there is no shared lock that a dying worker could keep locked.

* Inside a worker process, one thread only reads tasks. The loader can therefore always send without blocking: it
  never waits for a worker that itself waits for the loader to receive a large batch.
* Closing the loader's end of the pipe ends a worker: the reading thread sees the end of the file. The same
  happens when the loader's process dies. If another process still holds that end, the reading thread detects
  within seconds that its parent has gone, and terminates the worker process.
* A worker that is busy (for example a dataset that sleeps) gets one second to end, and then a signal.
* The tasks of an epoch carry its number. Answers to tasks of an abandoned epoch are dropped.
"""

from __future__ import annotations

import contextlib
import multiprocessing.connection
import os
import pickle
import queue
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any

import rgrad
from rgrad._shared import copies

_GRACE = 1.0
_ORPHAN_CHECK = MP_STATUS_CHECK_INTERVAL = 5.0

_local = threading.local()


@dataclass
class WorkerInfo:
    """Describes a worker. Its attributes can't be set.

    Attributes:
        id: its number, from 0.
        num_workers: the number of workers.
        seed: its random seed.
        dataset: its dataset; in a process, its own copy.
        rng: None: a worker draws from the default generators of its process; in one of its own, `seed` has seeded them.
        worker_method: "multiprocessing" for a process, "thread" for a thread.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: None = None
    worker_method: str = "multiprocessing"

    def __post_init__(self) -> None:
        self.__dict__["_complete"] = True

    def __setattr__(self, name: str, value: Any) -> None:
        if "_complete" in self.__dict__:
            raise RuntimeError("Cannot assign attributes to WorkerInfo objects")
        super().__setattr__(name, value)


def get_worker_info() -> WorkerInfo | None:
    """The `WorkerInfo` of the current worker, None outside of workers."""
    return getattr(_local, "info", None)


@dataclass
class Job:
    """Everything a worker needs; sent to it once.

    Attributes:
        info: the worker's description.
        make_fetcher: returns the fetcher of an epoch for the dataset.
        init: the user's `worker_init_fn`.
    """

    info: WorkerInfo
    make_fetcher: Callable[[Any], Callable[[Any], Any]]
    init: Callable[[int], Any] | None


class Exhausted:
    """The answer of a worker whose iterable dataset has ended."""


class Restart:
    """The task that starts a new epoch; the only one without an answer."""


class _KeyErrorMessage(str):
    """The message of a KeyError: its `repr` is the text itself, as KeyError shows the `repr` of its message."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class WorkerError:
    """An exception passed from a worker to the loader, with the worker's traceback as text."""

    def __init__(self, error: BaseException, where: str) -> None:
        self.kind = type(error)
        self.where = where
        self.text = "".join(traceback.format_exception(error))

    def reraise(self) -> None:
        """Raises an exception of the original type, with the worker's traceback in the message."""
        message: str = f"Caught {self.kind.__name__} {self.where}.\nOriginal {self.text}"
        if issubclass(self.kind, KeyError):
            message = _KeyErrorMessage(message)
        try:
            error = self.kind(message)
        except Exception:  # the constructor takes other arguments
            raise RuntimeError(message) from None
        raise error

    def portable(self) -> WorkerError:
        """The object itself, with RuntimeError instead of an exception type that cannot be pickled."""
        try:
            pickle.loads(pickle.dumps(self.kind))
        except Exception:
            self.text = f"{self.kind.__name__}: {self.text}"
            self.kind = RuntimeError
        return self


def _serve(job: Job, receive: Callable[[], Any], reply: Callable[[int, Any], None]) -> None:
    """The main loop of a worker: one answer to every task until `receive` returns None."""
    _local.info = job.info
    failure: WorkerError | None = None
    fetch: Callable[[Any], Any] | None = None
    where = f"in DataLoader worker {_kind(job)} {job.info.id}"

    def start() -> None:
        nonlocal fetch, failure
        try:
            fetch = job.make_fetcher(job.info.dataset)
        except Exception as error:
            failure = WorkerError(error, where)

    try:
        if job.init is not None:
            job.init(job.info.id)
    except Exception as error:
        failure = WorkerError(error, where)
    else:
        start()
    while (task := receive()) is not None:
        epoch, index = task
        if isinstance(index, Restart):
            start()
            continue
        answer: Any
        if failure is not None:
            answer, failure = failure, None
        elif fetch is None:
            answer = Exhausted()
        else:
            try:
                answer = fetch(index)
            except StopIteration as error:
                # For an iterable dataset, this is the end of the stream; for a map-style dataset, an ordinary error.
                ended = getattr(fetch, "ended", None) is not None
                answer = Exhausted() if ended else WorkerError(error, where)
            except Exception as error:
                answer = WorkerError(error, where)
        reply(epoch, answer)
        del answer  # frees the batch before the next one is fetched


def _kind(job: Job) -> str:
    return "thread" if isinstance(job, ThreadJob) else "process"


class ThreadJob(Job):
    """The job of a worker that is a thread."""


def _generate_state(base_seed: int, worker_id: int) -> tuple[int, ...]:
    """What NumPy's generator of a worker is seeded with: four words in which the seeds of no two workers are alike."""
    from numpy.random import SeedSequence

    entropy = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return tuple(map(int, SeedSequence(entropy).generate_state(4)))


def _process_main(
    job: Job, connection: multiprocessing.connection.Connection, parent: int, inherited: list[Any]
) -> None:
    """The main function of a worker process."""
    for other in inherited:
        other.close()
    # Ctrl-C reaches the whole process group; the loader ends its workers itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rgrad.set_num_threads(1)
    seed = job.info.seed
    random.seed(seed)
    rgrad.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(_generate_state(seed - job.info.id, job.info.id))
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    is_child = os.getppid() == parent

    def has_loader() -> bool:
        if is_child:
            return os.getppid() == parent
        # A process of the fork server is no child of the loader's.
        starter = multiprocessing.parent_process()
        return starter is not None and starter.is_alive()

    def read() -> None:
        with contextlib.suppress(EOFError, OSError):
            while has_loader():
                if connection.poll(_ORPHAN_CHECK):
                    tasks.put(connection.recv())
        tasks.put(None)
        # A live loader terminates a late worker. An orphan must terminate itself.
        while has_loader():
            time.sleep(_GRACE)
        os._exit(1)

    def reply(epoch: int, answer: Any) -> None:
        if isinstance(answer, WorkerError):
            answer = answer.portable()
        try:
            with copies():
                data = ForkingPickler.dumps((epoch, answer))
        except Exception as error:
            where = f"in DataLoader worker process {job.info.id}"
            data = ForkingPickler.dumps((epoch, WorkerError(error, where).portable()))
        connection.send_bytes(data)

    threading.Thread(target=read, daemon=True).start()
    try:
        _serve(job, tasks.get, reply)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the loader has gone
    finally:
        connection.close()


class WorkerGone(Exception):  # noqa: N818 - an event, which the loader converts to an error
    """A worker ended without being asked to.

    Args:
        name: the process id, or the name of the thread.
        signal: the number of the signal that killed the process; None if none did.
    """

    def __init__(self, name: str, signal: int | None = None) -> None:
        super().__init__(name)
        self.signal = signal


class ProcessWorker:
    """The loader's side of a worker process.

    Args:
        context: the `multiprocessing` context that starts the process.
        job: its job.
        siblings: workers started before, whose pipes a forked child has to close.
    """

    def __init__(self, context: Any, job: Job, siblings: list[ProcessWorker]) -> None:
        self.owner = os.getpid()
        self.connection, theirs = context.Pipe()
        forked = context.get_start_method() == "fork"
        inherited = [self.connection, *(worker.connection for worker in siblings)] if forked else []
        self.process = context.Process(
            target=_process_main, args=(job, theirs, self.owner, inherited), daemon=True
        )
        try:
            self.process.start()
        except BaseException:
            self.connection.close()
            raise
        finally:
            theirs.close()

    @property
    def pid(self) -> int | None:
        """The process id."""
        return self.process.pid

    @property
    def exitcode(self) -> int | None:
        """The exit status, None while it runs."""
        return self.process.exitcode

    def is_alive(self) -> bool:
        """Whether it runs."""
        return self.process.is_alive()

    def join(self, timeout: float | None = None) -> None:
        """Waits for its end, up to `timeout` seconds."""
        self.process.join(timeout)

    def terminate(self) -> None:
        """Ends it by a signal."""
        self.process.terminate()

    def put(self, task: Any) -> None:
        """Sends the worker a task. If the worker has ended, `get` reports it."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send(task)

    def get(self, timeout: float | None) -> Any:
        """Returns its next answer; raises TimeoutError, or WorkerGone if there will be none."""
        ready = multiprocessing.connection.wait([self.connection, self.process.sentinel], timeout)
        if not ready:
            raise TimeoutError
        # The pipe may still contain an answer although the worker has ended.
        if self.connection in ready or self.connection.poll(0):
            try:
                data = self.connection.recv_bytes()
            except (EOFError, ConnectionResetError):
                raise self._gone() from None
            return pickle.loads(data)
        raise self._gone()

    @staticmethod
    def ready(workers: Iterable[ProcessWorker], timeout: float | None) -> ProcessWorker:
        """Waits for the first of some workers that has answered or ended; raises TimeoutError if none does."""
        waited: dict[Any, ProcessWorker] = {}
        for worker in workers:
            waited[worker.connection] = waited[worker.process.sentinel] = worker
        for found in multiprocessing.connection.wait(list(waited), timeout):
            return waited[found]
        raise TimeoutError

    def _gone(self) -> WorkerGone:
        # The pipe is closed shortly before the process has an exit code.
        self.process.join(1)
        code = self.process.exitcode
        return WorkerGone(str(self.process.pid), -code if code is not None and code < 0 else None)

    @staticmethod
    def end(workers: list[ProcessWorker]) -> None:
        """Ends workers and waits for them. Does nothing in a forked child, because the workers belong to its
        parent.
        """
        if not workers or workers[0].owner != os.getpid():
            return
        for worker in workers:
            # Closing alone does not end a worker of which another forked process has inherited the pipe.
            worker.put(None)
            worker.connection.close()
        deadline = time.monotonic() + _GRACE
        for worker in workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
        late = [worker.process for worker in workers if worker.process.is_alive()]
        for process in late:
            process.terminate()
        for process in late:
            process.join(_GRACE)
            if process.is_alive():
                process.kill()
                process.join()


class ThreadWorker:
    """The loader's side of a worker thread, which shares the dataset and returns batches without copying.

    Args:
        job: its job.
        arrived: counts the answers of all workers of a loader, for `ready`.
    """

    def __init__(self, job: ThreadJob, arrived: threading.Semaphore) -> None:
        self.arrived = arrived
        self.tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.stopped = threading.Event()
        tasks, answers, stopped = self.tasks, self.answers, self.stopped

        def receive() -> Any:
            task = tasks.get()
            return None if stopped.is_set() else task

        def reply(epoch: int, answer: Any) -> None:
            answers.put((epoch, answer))
            arrived.release()

        def main() -> None:
            try:
                _serve(job, receive, reply)
            finally:
                answers.put(None)
                arrived.release()

        name = f"DataLoader worker {job.info.id}"
        self.thread = threading.Thread(target=main, name=name, daemon=True)
        self.thread.start()

    def put(self, task: Any) -> None:
        """Sends the worker a task."""
        self.tasks.put(task)

    def get(self, timeout: float | None) -> Any:
        """Returns its next answer; raises TimeoutError, or WorkerGone if there will be none."""
        try:
            answer = self.answers.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError from None
        if answer is None:
            raise WorkerGone(self.thread.name)
        return answer

    @staticmethod
    def ready(workers: Iterable[ThreadWorker], timeout: float | None) -> ThreadWorker:
        """Waits for the first of some workers that has answered or ended; raises TimeoutError if none does."""
        waiting = [*workers]
        while waiting[0].arrived.acquire(timeout=timeout):
            for worker in waiting:
                if not worker.answers.empty():
                    return worker
        raise TimeoutError

    @staticmethod
    def end(workers: list[ThreadWorker]) -> None:
        """Ends workers. A busy one cannot be interrupted and ends after its current batch."""
        for worker in workers:
            worker.stopped.set()
            worker.tasks.put(None)
        deadline = time.monotonic() + _GRACE
        for worker in workers:
            if worker.thread is not threading.current_thread():
                worker.thread.join(max(0.0, deadline - time.monotonic()))
