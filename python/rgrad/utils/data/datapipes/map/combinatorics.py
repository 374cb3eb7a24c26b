"""Pipes of samples in another order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rgrad.utils.data.datapipes._shuffling import Shuffling
from rgrad.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe


class ShufflerIterDataPipe(Shuffling, IterDataPipe[Any]):
    """The samples of a map in random order, as a stream; the method `shuffle` of maps.

    Args:
        datapipe: the source.
        indices: the indices or keys of its samples; those from 0 on by default.

    Example:
        >>> from rgrad.utils.data.datapipes.map import SequenceWrapper
        >>> sorted(SequenceWrapper("abc").shuffle())
        ['a', 'b', 'c']
    """

    def __init__(self, datapipe: MapDataPipe[Any], *, indices: list[Any] | None = None) -> None:
        self.datapipe: Any = datapipe
        self.indices = list(range(len(self.datapipe))) if indices is None else indices
        self._start_shuffling()

    def __iter__(self) -> Iterator[Any]:
        order = self._random.sample(self.indices, len(self.indices))[::-1] if self._enabled else self.indices
        for index in order:
            yield self.datapipe[index]

    def __len__(self) -> int:
        return len(self.datapipe)


MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)
