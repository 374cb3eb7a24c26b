"""Fetching of one batch, in the loader's own process and in workers."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from typing import Any

import rgrad
from rgrad.utils.data._collate import default_collate
from rgrad.utils.data._workers import get_worker_info


class MapFetcher:
    """Fetches batches from a map-style dataset.

    Args:
        dataset: has `__getitem__`, optionally `__getitems__`.
        batched: whether an index is a list of indices.
        collate: converts a list of samples, or the single one if not `batched`, to the value that the loader yields.
    """

    def __init__(self, dataset: Any, batched: bool, collate: Callable[[Any], Any]) -> None:
        self.dataset = dataset
        self.batched = batched
        self.collate = collate
        self.collated = (
            getattr(dataset, "_collated", None) if batched and collate is default_collate else None
        )

    def __call__(self, index: Any) -> Any:
        """The batch at `index`."""
        if not self.batched:
            return self.collate(self.dataset[index])
        if self.collated is not None:
            batch = self.collated(index)
            if batch is not None:
                return batch
        get_many = getattr(self.dataset, "__getitems__", None)
        samples = get_many(index) if get_many else [self.dataset[each] for each in index]
        return self.collate(samples)


class StreamFetcher:
    """Fetches batches from an iterable dataset; only the length of an index is used.

    Args:
        dataset: has `__iter__`.
        batched: whether an index is a list of indices.
        collate: as for `MapFetcher`.
        drop_last: whether to drop the last batch if it is incomplete.
    """

    def __init__(self, dataset: Any, batched: bool, collate: Callable[[Any], Any], drop_last: bool) -> None:
        self.samples: Iterator[Any] = iter(dataset)
        self.batched = batched
        self.collate = collate
        self.drop_last = drop_last
        self.ended = False

    def __call__(self, index: Any) -> Any:
        """The next batch; raises StopIteration after the last."""
        if self.ended:
            raise StopIteration
        if not self.batched:
            return self.collate(next(self.samples))
        samples = []
        for _ in index:
            try:
                samples.append(next(self.samples))
            except StopIteration:
                self.ended = True
                break
        if not samples or (self.drop_last and len(samples) < len(index)):
            raise StopIteration
        return self.collate(samples)


_local = threading.local()


class PipeFetcher(StreamFetcher):
    """Fetches batches from a pipe: in a worker its part of the samples, in an order that all workers share.

    Args:
        dataset: an `IterDataPipe`.
        generator: of the seeds, in a loader without workers; the default one if None.
        options: those of `StreamFetcher`.
    """

    def __init__(self, dataset: Any, generator: Any = None, **options: Any) -> None:
        from rgrad.utils.data.graph_settings import apply_random_seed, apply_sharding

        info = get_worker_info()
        if info is not None:
            if info.worker_method == "thread":
                dataset = copy.deepcopy(dataset)
            apply_sharding(dataset, info.num_workers, info.id)
            # The seed of the first worker, changed in each pass of the same workers.
            passes = _local.passes = getattr(_local, "passes", -1) + 1
            generator = rgrad.Generator()
            generator.manual_seed((info.seed - info.id + passes) % 2**63)
        if generator is not None:
            apply_random_seed(dataset, generator)
        super().__init__(dataset, **options)
