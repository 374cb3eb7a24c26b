"""Pipes of groups of samples, and of their members."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from rgrad.utils.data.datapipes._decorator import functional_datapipe
from rgrad.utils.data.datapipes._functions import check_function
from rgrad.utils.data.datapipes.datapipe import DataChunk, IterDataPipe, length_of


@functional_datapipe("batch")
class BatcherIterDataPipe(IterDataPipe[DataChunk]):
    """Batches of consecutive samples; the method `batch`.

    Args:
        datapipe: the source.
        batch_size: samples in a batch.
        drop_last: leave out the last batch if it is incomplete.
        wrapper_class: makes a batch of a list.

    Example:
        >>> from rgrad.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(5)).batch(2))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: Callable[[list[Any]], Any] = DataChunk,
    ) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe = datapipe
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.wrapper_class = wrapper_class

    def __iter__(self) -> Iterator[Any]:
        batch: list[Any] = []
        for sample in self.datapipe:
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        whole, rest = divmod(length_of(self.datapipe, self), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe[Any]):
    """The members of batches; the method `unbatch`.

    Args:
        datapipe: a pipe of lists.
        unbatch_level: how many levels of lists are taken apart; all of them if -1.

    Raises:
        IndexError: there are fewer levels.

    Example:
        >>> from rgrad.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([[[1], [2]], [[3]]]).unbatch(2))
        [1, 2, 3]
    """

    def __init__(self, datapipe: IterDataPipe[Any], unbatch_level: int = 1) -> None:
        self.datapipe = datapipe
        self.unbatch_level = unbatch_level

    def __iter__(self) -> Iterator[Any]:
        if self.unbatch_level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        for sample in self.datapipe:
            yield from self._members(sample, self.unbatch_level)

    def _members(self, sample: Any, levels: int) -> Iterator[Any]:
        if levels == 0 or (levels < 0 and not isinstance(sample, list)):
            yield sample
        elif isinstance(sample, list):
            for member in sample:
                yield from self._members(member, max(levels - 1, -1))
        else:
            raise IndexError(f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe")


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe[Any]):
    """Groups of samples with the same key; the method `groupby`.

    Samples wait in a buffer until their group is full. When the buffer is full, its largest group is yielded.

    Args:
        datapipe: the source.
        group_key_fn: returns the key of a sample.
        keep_key: whether to yield pairs of the key and the group.
        buffer_size: the number of samples in the buffer.
        group_size: the number of samples in a full group; groups are never full if None.
        guaranteed_group_size: the least number of samples in a group that makes room in the buffer.
        drop_remaining: whether groups that make room and are smaller are left out; otherwise they are an error.

    Raises:
        RuntimeError: the buffer is full of groups that are too small.

    Example:
        >>> from rgrad.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(["a1", "b1", "a2"]).groupby(lambda name: name[0]))
        [['a1', 'a2'], ['b1']]
    """

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        group_key_fn: Callable[[Any], Any],
        *,
        keep_key: bool = False,
        buffer_size: int = 10000,
        group_size: int | None = None,
        guaranteed_group_size: int | None = None,
        drop_remaining: bool = False,
    ) -> None:
        check_function(group_key_fn, None)
        if group_size is not None and not 0 < group_size <= buffer_size:
            raise AssertionError("group_size must be > 0 and <= buffer_size")
        if guaranteed_group_size is not None and not (group_size and 0 < guaranteed_group_size <= group_size):
            raise AssertionError("guaranteed_group_size must be > 0 and <= group_size and group_size must be set")
        self.datapipe = datapipe
        self.group_key_fn = group_key_fn
        self.keep_key = keep_key
        self.max_buffer_size = buffer_size
        self.group_size = group_size
        self.guaranteed_group_size = group_size if guaranteed_group_size is None else guaranteed_group_size
        self.drop_remaining = drop_remaining

    def _group(self, key: Any, samples: list[Any]) -> Any:
        chunk = DataChunk(samples)
        return (key, chunk) if self.keep_key else chunk

    def __iter__(self) -> Iterator[Any]:
        buffer: dict[Any, list[Any]] = defaultdict(list)
        count = 0
        for sample in self.datapipe:
            key = self.group_key_fn(sample)
            buffer[key].append(sample)
            count += 1
            if len(buffer[key]) == self.group_size:
                count -= len(buffer[key])
                yield self._group(key, buffer.pop(key))
            if count == self.max_buffer_size:
                key = max(buffer, key=lambda name: len(buffer[name]))
                samples = buffer.pop(key)
                count -= len(samples)
                large = self.guaranteed_group_size is None or len(samples) >= self.guaranteed_group_size
                if not large and not self.drop_remaining:
                    raise RuntimeError(f"Failed to group items: the buffer is full, and its largest group is {samples}")
                if large:
                    yield self._group(key, samples)
        for key in list(buffer):
            yield self._group(key, buffer.pop(key))
