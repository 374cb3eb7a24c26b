"""Pipes of samples in another order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rgrad.utils.data.datapipes._decorator import functional_datapipe
from rgrad.utils.data.datapipes._shuffling import Shuffling
from rgrad.utils.data.datapipes.datapipe import IterDataPipe, length_of
from rgrad.utils.data.sampler import Sampler, SequentialSampler


class SamplerIterDataPipe(IterDataPipe[Any]):
    """What a sampler yields; `Sampler` in `torch.utils.data.datapipes.iter`.

    Args:
        datapipe: the data source of the sampler.
        sampler: the class of the sampler.
        sampler_args: its further arguments.
        sampler_kwargs: its further keyword arguments.

    Example:
        >>> from rgrad.utils.data.datapipes.iter import IterableWrapper, Sampler
        >>> list(Sampler(IterableWrapper("abc")))
        [0, 1, 2]
    """

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        sampler: type[Sampler[Any]] = SequentialSampler,
        sampler_args: tuple[Any, ...] | None = None,
        sampler_kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.datapipe = datapipe
        self.sampler_args = sampler_args or ()
        self.sampler_kwargs = {**(sampler_kwargs or {}), "data_source": datapipe}
        self.sampler: Any = sampler(*self.sampler_args, **self.sampler_kwargs)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.sampler)

    def __len__(self) -> int:
        return len(self.sampler)


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(Shuffling, IterDataPipe[Any]):
    """Samples in random order: each is drawn from a buffer, which is filled from the source; the method `shuffle`.

    Args:
        datapipe: the source.
        buffer_size: the number of samples in the buffer.
        unbatch_level: how many levels of batches are taken apart before; see `unbatch`.

    Example:
        >>> from rgrad.utils.data.datapipes.iter import IterableWrapper
        >>> sorted(IterableWrapper(range(4)).shuffle())
        [0, 1, 2, 3]
    """

    def __init__(self, datapipe: IterDataPipe[Any], *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        if buffer_size <= 0:
            raise AssertionError("buffer_size should be larger than 0")
        self.datapipe = datapipe if unbatch_level == 0 else datapipe.unbatch(unbatch_level=unbatch_level)
        self.buffer_size = buffer_size
        self._start_shuffling()

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            yield from self.datapipe
            return
        buffer: list[Any] = []
        draw = self._random.randint
        for sample in self.datapipe:
            if len(buffer) < self.buffer_size:
                buffer.append(sample)
                continue
            place = draw(0, len(buffer) - 1)
            drawn, buffer[place] = buffer[place], sample
            yield drawn
        while buffer:
            yield buffer.pop(draw(0, len(buffer) - 1))

    def __len__(self) -> int:
        return length_of(self.datapipe, self)
