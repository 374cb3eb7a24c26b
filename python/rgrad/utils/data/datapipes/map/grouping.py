"""Pipes of batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rgrad.utils.data.datapipes._decorator import functional_datapipe
from rgrad.utils.data.datapipes.datapipe import DataChunk, MapDataPipe


@functional_datapipe("batch")
class BatcherMapDataPipe(MapDataPipe[DataChunk]):
    """Batches of consecutive samples; the method `batch`.

    Args:
        datapipe: a pipe of samples with indices from 0 on.
        batch_size: samples in a batch.
        drop_last: leave out the last batch if it is incomplete.
        wrapper_class: makes a batch of a list.

    Example:
        >>> from rgrad.utils.data.datapipes.map import SequenceWrapper
        >>> list(SequenceWrapper(range(5)).batch(2))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        datapipe: MapDataPipe[Any],
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: Callable[[list[Any]], Any] = DataChunk,
    ) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe: Any = datapipe
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.wrapper_class = wrapper_class

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(f"Index {index} is out of bound.")
        begin = index * self.batch_size
        end = min(begin + self.batch_size, len(self.datapipe))
        return self.wrapper_class([self.datapipe[i] for i in range(begin, end)])

    def __len__(self) -> int:
        whole, rest = divmod(len(self.datapipe), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)
