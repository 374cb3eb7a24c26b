"""Pipes of several pipes, and several pipes of one."""

from __future__ import annotations

import copy
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from rgrad.utils.data.datapipes._decorator import functional_datapipe
from rgrad.utils.data.datapipes._functions import check_function
from rgrad.utils.data.datapipes.datapipe import IterDataPipe, describe, length_of


@functional_datapipe("concat")
class ConcaterIterDataPipe(IterDataPipe[Any]):
    """The samples of one pipe after those of another; the method `concat`.

    Args:
        datapipes: the sources.

    Example:
        >>> from rgrad.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper("ab").concat(IterableWrapper("c")))
        ['a', 'b', 'c']
    """

    def __init__(self, *datapipes: IterDataPipe[Any]) -> None:
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("Expected all inputs to be `IterDataPipe`")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self) -> int:
        return sum(length_of(pipe, self) for pipe in self.datapipes)


@functional_datapipe("zip")
class ZipperIterDataPipe(IterDataPipe[Any]):
    """Tuples of a sample of each pipe, until the first ends; the method `zip`.

    Args:
        datapipes: the sources.

    Example:
        >>> from rgrad.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper("ab").zip(IterableWrapper(range(9))))
        [('a', 0), ('b', 1)]
    """

    def __init__(self, *datapipes: IterDataPipe[Any]) -> None:
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("All inputs are required to be `IterDataPipe` for `ZipIterDataPipe`.")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        yield from zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(length_of(pipe, self) for pipe in self.datapipes)


@functional_datapipe("mux")
class MultiplexerIterDataPipe(IterDataPipe[Any]):
    """A sample of each pipe in turn, until the first ends; the method `mux`.

    Args:
        datapipes: the sources.

    Example:
        >>> from rgrad.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper("ab").mux(IterableWrapper(range(9))))
        ['a', 0, 'b', 1]
    """

    def __init__(self, *datapipes: Any) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for samples in zip(*self.datapipes, strict=False):
            yield from samples

    def __len__(self) -> int:
        return len(self.datapipes) * min(length_of(pipe, self) for pipe in self.datapipes)


class _Splitter:
    """One pass over a pipe whose samples go to several others, which may be at different places of it.

    Args:
        main_datapipe: the source.
        num_instances: the number of pipes that share it.
        buffer_size: how many samples may wait; any number if negative.
    """

    def __init__(self, main_datapipe: Any, num_instances: int, buffer_size: int) -> None:
        self.main_datapipe = main_datapipe
        self.num_instances = num_instances
        self.buffer_size = buffer_size
        if buffer_size < 0:
            warnings.warn("Unlimited buffer size is set: samples that are not taken fill the memory.", stacklevel=4)
        self.passes = 0
        self.restart()

    def restart(self) -> None:
        """Begins another pass; iterators of this one are invalid from now on."""
        self.passes += 1
        self.waiting: list[deque[Any]] = [deque() for _ in range(self.num_instances)]
        self.source: Iterator[Any] | None = None
        self.ended = False

    def __getstate__(self) -> dict[str, Any]:
        # A copy begins with a pass of its own.
        kept = {name: value for name, value in vars(self).items() if name not in ("source", "waiting", "ended")}
        return kept

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.restart()

    def take(self, which: int) -> Any:
        """The next sample of one of the pipes. Raises StopIteration at the end."""
        waiting = self.waiting[which]
        while not waiting:
            if self.ended:
                raise StopIteration
            if self.source is None:
                self.source = iter(self.main_datapipe)
            try:
                sample = next(self.source)
            except StopIteration:
                self.ended = True
                raise
            self.distribute(sample)
            excess = self.waiting_samples(which)
            if 0 <= self.buffer_size < excess:
                raise BufferError(
                    f"{self.name} buffer overflow, buffer size {self.buffer_size} is insufficient."
                )
        return waiting.popleft()

    name = ""

    def distribute(self, sample: Any) -> None:
        """Puts a sample into the queues of those whom it is for."""
        raise NotImplementedError

    def waiting_samples(self, which: int) -> int:
        """The number of samples that count against the size of the buffer, when one of the pipes wants its next."""
        raise NotImplementedError


_COPIES: dict[str | None, Callable[[Any], Any]] = {None: lambda x: x, "shallow": copy.copy, "deep": copy.deepcopy}


class _Forker(_Splitter):
    """Every sample goes to every pipe."""

    name = "ForkerIterDataPipe"
    copy: str | None = None

    def distribute(self, sample: Any) -> None:
        for queue in self.waiting:
            queue.append(_COPIES[self.copy](sample))

    def waiting_samples(self, which: int) -> int:
        return max(map(len, self.waiting))


class _Demultiplexer(_Splitter):
    """Every sample goes to the pipe that a function chooses."""

    name = "DemultiplexerIterDataPipe"
    classifier_fn: Callable[[Any], Any]
    drop_none = False

    def distribute(self, sample: Any) -> None:
        choice = self.classifier_fn(sample)
        if choice is None and self.drop_none:
            return
        if choice is None or not 0 <= choice < self.num_instances:
            raise ValueError(
                f"Output of the classification fn should be between 0 and {self.num_instances - 1}. "
                f"{choice} is returned."
            )
        self.waiting[choice].append(sample)

    def waiting_samples(self, which: int) -> int:
        return sum(len(queue) for i, queue in enumerate(self.waiting) if i != which)


class _ChildDataPipe(IterDataPipe[Any]):
    """One of the pipes that share the passes over another."""

    # The splitter decides which iterators are valid.
    _many_iterators = True

    def __init__(self, splitter: _Splitter, instance_id: int) -> None:
        self.splitter = splitter
        self.instance_id = instance_id
        self._pass = 0

    def __iter__(self) -> Iterator[Any]:
        splitter = self.splitter
        if self._pass == splitter.passes:
            if not splitter.ended or any(splitter.waiting):
                warnings.warn(
                    "Some child DataPipes are not exhausted when __iter__ is called: all of them begin again.",
                    stacklevel=2,
                )
            splitter.restart()
        self._pass = splitter.passes
        return self._samples(splitter, splitter.passes)

    def _samples(self, splitter: _Splitter, number: int) -> Iterator[Any]:
        while True:
            if splitter.passes != number:
                raise RuntimeError(
                    "This iterator has been invalidated: one of the pipes that share its source began again, by "
                    f"{describe(splitter)}."
                )
            try:
                sample = splitter.take(self.instance_id)
            except StopIteration:
                return
            yield sample

    def __len__(self) -> int:
        if isinstance(self.splitter, _Demultiplexer):
            raise TypeError(f"'{type(self).__qualname__}' object of demux() has no len()")
        return length_of(self.splitter.main_datapipe, self)


def _check_count(num_instances: int) -> None:
    if num_instances < 1:
        raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe[Any]):
    """Several pipes of the same samples; the method `fork`. A call gives the list of pipes.

    Args:
        datapipe: the source.
        num_instances: the number of pipes.
        buffer_size: by how many samples one pipe may be ahead of another; by any number if negative.
        copy: "shallow" or "deep" for samples that are copies; None for the same object in all pipes.

    Raises:
        BufferError: one pipe is too far ahead.

    Example:
        >>> from rgrad.utils.data.datapipes.iter import IterableWrapper
        >>> first, second = IterableWrapper(range(3)).fork(2)
        >>> list(first), list(second)
        ([0, 1, 2], [0, 1, 2])
    """

    def __new__(
        cls, datapipe: IterDataPipe[Any], num_instances: int, buffer_size: int = 1000, copy: str | None = None
    ) -> Any:
        _check_count(num_instances)
        if num_instances == 1:
            return datapipe
        if copy not in _COPIES:
            raise ValueError(f"Unknown copy method `{copy}` requested, choose one of None, `shallow` or `deep`.")
        splitter = _Forker(datapipe, num_instances, buffer_size)
        splitter.copy = copy
        return [_ChildDataPipe(splitter, i) for i in range(num_instances)]


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe[Any]):
    """Several pipes, to each of which some of the samples go; the method `demux`. A call gives the list of pipes.

    Args:
        datapipe: the source.
        num_instances: the number of pipes.
        classifier_fn: returns the number of the pipe that a sample goes to, or None.
        drop_none: whether samples of which it returns None are left out; otherwise they are an error.
        buffer_size: how many samples may wait for pipes to take them; any number if negative.

    Raises:
        BufferError: too many samples wait.
        ValueError: there is no pipe of that number.

    Example:
        >>> from rgrad.utils.data.datapipes.iter import IterableWrapper
        >>> even, odd = IterableWrapper(range(5)).demux(2, lambda x: x % 2)
        >>> list(even), list(odd)
        ([0, 2, 4], [1, 3])
    """

    def __new__(
        cls,
        datapipe: IterDataPipe[Any],
        num_instances: int,
        classifier_fn: Callable[[Any], Any],
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> Any:
        _check_count(num_instances)
        check_function(classifier_fn, None)
        splitter = _Demultiplexer(datapipe, num_instances, buffer_size)
        splitter.classifier_fn = classifier_fn
        splitter.drop_none = drop_none
        return [_ChildDataPipe(splitter, i) for i in range(num_instances)]
