"""How one batch is fetched, in the loader's own process and in workers alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rgrad.utils.data._collate import default_collate


class MapFetcher:
    """Fetches batches from a dataset with indices.

    Args:
        dataset: has `__getitem__`, perhaps `__getitems__`.
        batched: whether an index is a list of indices.
        collate: turns a list of samples, or the single one if not `batched`, into what the loader yields.
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
    """Fetches batches from an iterable dataset; of an index only its length counts.

    Args:
        dataset: has `__iter__`.
        batched: whether an index is a list of indices.
        collate: as of `MapFetcher`.
        drop_last: whether to leave out the last batch if it is short.
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
