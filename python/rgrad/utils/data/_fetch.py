"""Fetching of one batch, in the loader's own process and in workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rgrad.utils.data._collate import default_collate


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
