"""The loader: batches from a dataset, selected by samplers and fetched in this process or by workers."""

from __future__ import annotations

import contextlib
import functools
import itertools
import multiprocessing
import os
import signal
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.context import BaseContext
from typing import Any, Generic, Literal, TypeVar, cast

from rgrad import _C, Generator
from rgrad.utils.data._collate import default_collate, default_convert
from rgrad.utils.data._fetch import MapFetcher, PipeFetcher, StreamFetcher
from rgrad.utils.data._workers import (
    Exhausted,
    Job,
    ProcessWorker,
    Restart,
    ThreadJob,
    ThreadWorker,
    WorkerError,
    WorkerGone,
    WorkerInfo,
)
from rgrad.utils.data.datapipes.datapipe import IterDataPipe
from rgrad.utils.data.dataset import Dataset, IterableDataset
from rgrad.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, random_seed

T = TypeVar("T")
_collate_fn_t = Callable[[list[Any]], Any]  # noqa: N816 - PyTorch's name


class _DatasetKind:
    """How samples are selected: by index, or in the order in which the dataset yields them."""

    Map = 0
    Iterable = 1


def _check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool, worker_type: str
) -> None:
    """Raises for worker options that are out of range, or that are given without workers."""
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to fetch in this process.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if prefetch_factor is not None:
        if num_workers == 0:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing: without workers nothing is fetched "
                "ahead. Set num_workers > 0, or leave prefetch_factor out."
            )
        if prefetch_factor < 0:
            raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")
    if worker_type not in ("process", "thread"):
        raise ValueError(f"worker_type option should be 'process' or 'thread', but got {worker_type!r}")


def _as_context(given: Any, num_workers: int) -> Any:
    """The multiprocessing context, given by name or as an object; None leaves the choice to the platform."""
    if given is None or (num_workers and isinstance(given, BaseContext)):
        return given
    if num_workers == 0:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
            "num_workers=0"
        )
    if not isinstance(given, str):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or the name of a start method, but got "
            f"multiprocessing_context={given}"
        )
    methods = multiprocessing.get_all_start_methods()
    if given not in methods:
        raise ValueError(
            f"multiprocessing_context option should specify a valid start method in {methods!r}, but got "
            f"multiprocessing_context={given!r}"
        )
    return multiprocessing.get_context(given)


class _Endless(Sampler[None]):
    """The sampler of iterable datasets, which determine themselves when they end."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class DataLoader(Generic[T]):
    """Iterates over a dataset in batches.

    Args:
        dataset: a dataset with `__getitem__` and `__len__`, or an `IterableDataset`.
        batch_size: samples in a batch; None to yield single samples.
        shuffle: whether to use a new random order in each pass. Of a pipe, whether each `shuffle` in it is on.
        sampler: yields indices, instead of `shuffle`.
        batch_sampler: yields lists of indices, instead of `batch_size`, `shuffle`, `sampler` and `drop_last`.
        num_workers: number of workers that prefetch batches; 0 to fetch in this process.
        collate_fn: collates a list of samples into a batch.
        pin_memory: accepted for compatibility; memory needs no pinning here.
        drop_last: drop the last batch if it is incomplete.
        timeout: seconds to wait for a worker's batch; 0 for no limit.
        worker_init_fn: called first in each worker, with its number.
        multiprocessing_context: how processes start: "fork", "spawn", "forkserver" or a context.
        generator: the random generator.
        prefetch_factor: number of batches that each worker prefetches; 2 by default.
        persistent_workers: keep the workers between passes.
        pin_memory_device: accepted, like `pin_memory`.
        in_order: whether batches come in the order of the sampler; else a batch comes when its worker has it, and
            that worker gets the next one, so that a slow sample holds up no other worker.
        worker_type: "process", as in PyTorch, or "thread": no copies; best for datasets that release the GIL.

    Example:
        >>> import rgrad as torch
        >>> from rgrad.utils.data import DataLoader
        >>> for batch in DataLoader(range(5), batch_size=2):
        ...     print(batch)
        tensor([0, 1])
        tensor([2, 3])
        tensor([4])
    """

    # Attributes that workers and samplers were created from; they must not change afterwards.
    _FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers", "worker_type")

    def __init__(
        self,
        dataset: Dataset[T] | Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        worker_type: Literal["process", "thread"] = "process",
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, worker_type)
        self._dataset_kind = _DatasetKind.Iterable if isinstance(dataset, IterableDataset) else _DatasetKind.Map
        if isinstance(dataset, IterDataPipe) and shuffle is not None:
            from rgrad.utils.data.graph_settings import apply_shuffle_settings

            dataset, shuffle = apply_shuffle_settings(dataset, shuffle), None
        self._check_sampling(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset: Any = dataset
        self.generator = generator
        self.sampler = self._default_sampler(shuffle) if sampler is None else sampler
        if batch_sampler is not None:
            self.batch_size, self.drop_last, self.batch_sampler = None, False, batch_sampler
        else:
            self.batch_size, self.drop_last = batch_size, drop_last
            self.batch_sampler = None if batch_size is None else BatchSampler(self.sampler, batch_size, drop_last)
        self.collate_fn = collate_fn or (default_convert if self.batch_sampler is None else default_collate)

        self.num_workers, self.worker_type, self.worker_init_fn = num_workers, worker_type, worker_init_fn
        self.timeout, self.in_order, self.persistent_workers = timeout, in_order, persistent_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.multiprocessing_context = _as_context(multiprocessing_context, num_workers)
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device

        self._iterator: _MultiProcessingDataLoaderIter | None = None
        self._IterableDataset_len_called: int | None = None
        # From here on `__setattr__` rejects changes of these attributes.
        self._initialized = True
        if worker_type == "process":
            _warn_of_many_workers(num_workers)

    def _check_sampling(
        self, batch_size: int | None, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool
    ) -> None:
        """Raises if several options define the order of the samples or their batches."""
        orders = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
        given = {name: value for name, value in orders.items() if value is not None}
        if self._dataset_kind == _DatasetKind.Iterable and given:
            name, value = next(iter(given.items()))
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
            )
        if "shuffle" in given and "sampler" in given:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if "batch_sampler" in given and (len(given) > 1 or batch_size != 1 or drop_last):
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
            )
        if batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")

    def _default_sampler(self, shuffle: bool | None) -> Sampler[Any]:
        if self._dataset_kind == _DatasetKind.Iterable:
            return _Endless()
        return RandomSampler(self.dataset, generator=self.generator) if shuffle else SequentialSampler(self.dataset)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._FIXED and getattr(self, "_initialized", False):
            raise ValueError(f"{name} attribute should not be set after {self.__class__.__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def _auto_collation(self) -> bool:
        """Whether samples are collected into batches here."""
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Iterable[Any]:
        """The iterable of the indices of each batch."""
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __iter__(self) -> Iterator[Any]:
        if self.pin_memory and not _C._gpu_count():
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found: batches are in ordinary memory.",
                stacklevel=2,
            )
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        if not self.persistent_workers:
            return _MultiProcessingDataLoaderIter(self)
        if self._iterator is None or self._iterator.closed:
            self._iterator = _MultiProcessingDataLoaderIter(self)
        else:
            self._iterator.restart(self)
        return self._iterator

    def __len__(self) -> int:
        if self._dataset_kind != _DatasetKind.Iterable:
            return len(self._index_sampler)  # type: ignore[arg-type]
        length = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is None:
            return length
        full, rest = divmod(length, self.batch_size)
        return full + (1 if rest and not self.drop_last else 0)


def _fetcher_maker(loader: Any) -> Callable[[Any], Callable[[Any], Any]]:
    """Returns the function that makes a fetcher of a loader's dataset."""
    options: dict[str, Any] = {"batched": loader._auto_collation, "collate": loader.collate_fn}
    if isinstance(loader.dataset, IterDataPipe):
        generator = None if loader.num_workers else loader.generator
        return functools.partial(PipeFetcher, **options, drop_last=loader.drop_last, generator=generator)
    if loader._dataset_kind == _DatasetKind.Iterable:
        return functools.partial(StreamFetcher, **options, drop_last=loader.drop_last)
    return functools.partial(MapFetcher, **options)


def _warn_of_many_workers(num_workers: int) -> None:
    """Warns if there are more workers than cores that this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if cores is not None and num_workers > cores:
        warnings.warn(
            f"This DataLoader will create {num_workers} worker processes in total, and this process may use {cores} "
            "cores: excessive worker creation might get DataLoader running slow or even freeze.",
            stacklevel=3,
        )


class _BaseDataLoaderIter:
    """Base class of both iterators: the seed, and the check of the length that an iterable dataset reported.

    Args:
        loader: a `DataLoader`, or an object with its attributes, private ones included: packages iterate over loaders
            of their own this way.
    """

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._begin()

    def _begin(self) -> None:
        self._indices = iter(self._loader._index_sampler)
        # Drawn even without workers, so that subsequent random numbers do not depend on num_workers.
        self._base_seed = random_seed(self._loader.generator)
        self._yielded = 0
        # The result of `len` before this pass: `list(loader)` also calls `len`, but only as a hint.
        self._reported_length = self._loader._IterableDataset_len_called

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def _next(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        data = self._next()
        self._yielded += 1
        loader = self._loader
        iterable = loader._dataset_kind == _DatasetKind.Iterable
        if iterable and self._reported_length is not None and self._yielded > len(loader):
            message = (
                f"Length of IterableDataset {loader.dataset} was reported to be {self._reported_length}"
                f"(when accessing len(dataloader)), but {self._yielded} samples have been fetched. "
            )
            if loader.num_workers > 0:
                message += (
                    "For multiprocessing data-loading, this happens where each worker yields all of its copy of the "
                    "dataset, and not a part of its own, as `get_worker_info()` tells workers apart."
                )
            warnings.warn(message, stacklevel=2)
        return data


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Fetches in the loader's own process."""

    def __init__(self, loader: Any) -> None:
        if loader.timeout != 0:
            raise ValueError("timeout option needs num_workers > 0")
        super().__init__(loader)
        self._fetch = _fetcher_maker(loader)(loader.dataset)

    def _next(self) -> Any:
        return self._fetch(next(self._indices))


def _without_iterator(loader: Any) -> Any:
    """A copy of a loader that keeps its workers, for their iterator: the loader itself would be a reference cycle.

    So the workers end as soon as nothing refers to the loader, and not when the garbage collector runs.
    """
    twin = object.__new__(type(loader))
    twin.__dict__.update(loader.__dict__, _iterator=None)
    return twin


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Assigns batches to workers and receives them in order; see Note [Workers]."""

    def __init__(self, loader: Any) -> None:
        super().__init__(_without_iterator(loader) if loader.persistent_workers else loader)
        self._timeout = loader.timeout or None
        self._ordered = getattr(loader, "in_order", True)
        self._epoch = 0
        self._workers: list[Any] = []
        threads = getattr(loader, "worker_type", "process") == "thread"
        end = cast(Callable[[list[Any]], None], ThreadWorker.end if threads else ProcessWorker.end)
        # Ends the workers when this object is collected, or at the latest at interpreter exit.
        self._finalizer = weakref.finalize(self, end, self._workers)
        context = loader.multiprocessing_context or multiprocessing.get_context()
        make_fetcher = _fetcher_maker(loader)
        arrived = threading.Semaphore(0)
        try:
            for number in range(loader.num_workers):
                method = "thread" if threads else "multiprocessing"
                seed = self._base_seed + number
                info = WorkerInfo(number, loader.num_workers, seed, loader.dataset, worker_method=method)
                if threads:
                    self._workers.append(ThreadWorker(ThreadJob(info, make_fetcher, loader.worker_init_fn), arrived))
                else:
                    job = Job(info, make_fetcher, loader.worker_init_fn)
                    self._workers.append(ProcessWorker(context, job, self._workers))
        except BaseException:
            self._finalizer()
            raise
        self._prime()

    def _shutdown_workers(self) -> None:
        """Ends the workers; the loader's next pass starts others."""
        self._finalizer()

    def restart(self, loader: Any) -> None:
        """Starts the next pass with the same workers."""
        self._loader = _without_iterator(loader)
        self._begin()
        self._epoch += 1
        for worker in self._workers:
            worker.put((self._epoch, Restart()))
        self._prime()

    @property
    def closed(self) -> bool:
        """Whether the workers have been ended."""
        return not self._finalizer.alive

    def _prime(self) -> None:
        self._active = deque(self._workers)
        self._outstanding: deque[Any] = deque()
        for _ in range((self._loader.prefetch_factor or 1) * len(self._workers)):
            self._dispatch()

    def _dispatch(self, answered: Any = None) -> None:
        """Sends the next batch's index to the next worker in turn, or if batches come in any order to the one that has
        answered.
        """
        if not self._active:
            return
        try:
            index = next(self._indices)
        except StopIteration:
            return
        if answered in self._active and not self._ordered:
            worker = answered
        else:
            worker = self._active[0]
            self._active.rotate(-1)
        worker.put((self._epoch, index))
        self._outstanding.append(worker)

    def _next(self) -> Any:
        while True:
            if not self._outstanding:
                if not self._loader.persistent_workers:
                    self._finalizer()
                raise StopIteration
            worker = self._next_worker()
            answer = self._receive(worker)
            if isinstance(answer, Exhausted):
                if worker in self._active:
                    self._active.remove(worker)
                    self._dispatch()
                continue
            self._dispatch(worker)
            if isinstance(answer, WorkerError):
                answer.reraise()
            return answer

    def _next_worker(self) -> Any:
        """The worker with the next batch, or with any batch if their order does not matter."""
        if self._ordered:
            return self._outstanding.popleft()
        with self._ending():
            worker = type(self._outstanding[0]).ready(self._outstanding, self._timeout)
        self._outstanding.remove(worker)
        return worker

    def _receive(self, worker: Any) -> Any:
        """Returns the worker's next answer of this epoch."""
        with self._ending():
            while True:
                epoch, answer = worker.get(self._timeout)
                if epoch == self._epoch:
                    return answer

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        """Ends the workers where waiting for one fails, with the error that users see."""
        try:
            yield
        except TimeoutError:
            self._finalizer()
            raise RuntimeError(f"DataLoader timed out after {self._loader.timeout} seconds") from None
        except WorkerGone as gone:
            self._finalizer()
            cause = None
            if gone.signal is not None:
                cause = RuntimeError(
                    f"DataLoader worker (pid {gone}) is killed by signal: {signal.strsignal(gone.signal)}. "
                )
            raise RuntimeError(f"DataLoader worker (pid(s) {gone}) exited unexpectedly") from cause
        except KeyboardInterrupt:
            self._finalizer()
            raise
