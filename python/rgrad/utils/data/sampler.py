"""Samplers: the order in which a loader requests samples."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import rgrad
from rgrad import Generator

T = TypeVar("T")

# PyTorch's, so that the same seed gives the same indices in both forms.
_BLOCK = 32


def random_seed(generator: Generator | None = None) -> int:
    """A random seed drawn from the generator, or from the default one if it is None."""
    return int(rgrad.randint(0, 2**63 - 1, (1,), dtype=rgrad.int64, generator=generator).item())


def _check_num_samples(num_samples: object) -> None:
    if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
        raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")


class Sampler(Generic[T]):
    """Base class of the samplers: subclasses define `__iter__`, and usually `__len__`."""

    def __init__(self, data_source: Sized | None = None) -> None:
        del data_source  # part of PyTorch's signature, unused

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """All indices in order."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices in random order.

    Args:
        data_source: a dataset with a length.
        replacement: whether indices may repeat.
        num_samples: number of indices to draw; the length by default.
        generator: the random generator.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        _check_num_samples(self.num_samples)

    @property
    def num_samples(self) -> int:
        """Number of indices per pass; that of the data source unless it was set."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        length = len(self.data_source)
        generator = self.generator
        if generator is None:
            # A separate generator, so that each pass draws once from the default one, whatever the number of samples.
            generator = rgrad.Generator()
            generator.manual_seed(random_seed())
        if self.replacement:
            # In blocks, as the number of samples may be larger than memory.
            for first in range(0, self.num_samples, _BLOCK):
                count = min(_BLOCK, self.num_samples - first)
                yield from rgrad.randint(0, length, (count,), generator=generator).tolist()
            return
        passes, rest = divmod(self.num_samples, length)
        for _ in range(passes):
            yield from rgrad.randperm(length, generator=generator).tolist()
        if rest:
            yield from rgrad.randperm(length, generator=generator).tolist()[:rest]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Given indices in random order."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for place in rgrad.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[place]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with given weights.

    Args:
        weights: the weight of each index; their sum need not be 1.
        num_samples: number of indices to draw.
        replacement: whether indices may repeat.
        generator: the random generator.
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        _check_num_samples(num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        tensor = rgrad.as_tensor(weights, dtype=rgrad.float64)
        if tensor.dim() != 1:
            raise ValueError(f"weights should be a 1d sequence but given weights have shape {tuple(tensor.shape)}")
        self.weights = tensor
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        weights = self.weights.tolist()
        if not all(0.0 <= weight < float("inf") for weight in weights):
            raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
        if not any(weights):
            raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
        if self.replacement:
            bounds = list(itertools.accumulate(weights))
            # The last index with a positive weight: rounding must not select an index beyond it.
            last = max(index for index, weight in enumerate(weights) if weight > 0)
            draws = rgrad.rand(self.num_samples, dtype=rgrad.float64, generator=self.generator).tolist()
            yield from (min(bisect_right(bounds, draw * bounds[-1]), last) for draw in draws)
            return
        possible = [index for index, weight in enumerate(weights) if weight > 0]
        if self.num_samples > len(weights):
            raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
        if self.num_samples > len(possible):
            raise RuntimeError(
                "invalid multinomial distribution (with replacement=False, not enough non-negative category to sample)"
            )
        # Exponential waiting times with rates `weights`: the indices with the shortest are a sample without
        # replacement.
        waits = (-(1 - rgrad.rand(len(weights), dtype=rgrad.float64, generator=self.generator)).log()).tolist()
        yield from sorted(possible, key=lambda index: waits[index] / weights[index])[: self.num_samples]

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """The indices of another sampler in batches.

    Example:
        >>> from rgrad.utils.data import BatchSampler, SequentialSampler
        >>> list(BatchSampler(SequentialSampler(range(5)), batch_size=2, drop_last=False))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        full, rest = divmod(len(self.sampler), self.batch_size)  # type: ignore[arg-type]
        return full + (1 if rest and not self.drop_last else 0)
