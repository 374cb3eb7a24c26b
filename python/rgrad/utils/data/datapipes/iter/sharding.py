"""Pipes of a part of the samples, for each of several workers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from rgrad.utils.data.datapipes._decorator import functional_datapipe
from rgrad.utils.data.datapipes.datapipe import IterDataPipe, length_of


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(IterDataPipe[Any]):
    """Every n-th sample in each of n workers of a loader, all elsewhere; the method `sharding_filter`.

    Args:
        source_datapipe: the source.

    Example:
        >>> from rgrad.utils.data.datapipes.iter import IterableWrapper
        >>> pipe = IterableWrapper(range(5)).sharding_filter()
        >>> pipe.apply_sharding(2, 1)
        >>> list(pipe)
        [1, 3]
    """

    def __init__(self, source_datapipe: IterDataPipe[Any]) -> None:
        self.source_datapipe = source_datapipe
        self.num_of_instances = 1
        self.instance_id = 0

    def apply_sharding(self, num_of_instances: int, instance_id: int) -> None:
        """Sets which part of the samples the pipe yields.

        Args:
            num_of_instances: the number of parts.
            instance_id: which of them.

        Raises:
            ValueError: there is no such part.
        """
        if instance_id >= num_of_instances:
            raise ValueError(f"instance_id({instance_id}) should be smaller than num_of_instances({num_of_instances})")
        self.num_of_instances = num_of_instances
        self.instance_id = instance_id

    def __iter__(self) -> Iterator[Any]:
        yield from itertools.islice(iter(self.source_datapipe), self.instance_id, None, self.num_of_instances)

    def __len__(self) -> int:
        whole, rest = divmod(length_of(self.source_datapipe, self), self.num_of_instances)
        return whole + (self.instance_id < rest)
