"""Datasets.

Note [Whole batches]
~~~~~~~~~~~~~~~~~~~~
The loader normally requests one sample after the other and stacks them. If all samples are stored in one tensor, a
single gather is much faster. Therefore, if a dataset has a method `_collated(indices)` and the loader uses
`default_collate`, the loader calls that method instead. It returns the same batch as collating the samples would, or
None if it cannot, in which case the loader falls back to single samples.
"""

from __future__ import annotations

import itertools
import math
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import rgrad
from rgrad import Generator, Tensor

T = TypeVar("T")


class Dataset(Generic[T]):
    """A map from indices to samples: subclasses define `__getitem__`, and usually `__len__`.

    Example:
        >>> from rgrad.utils.data import Dataset
        >>> class Squares(Dataset):
        ...     def __len__(self):
        ...         return 3
        ...     def __getitem__(self, index):
        ...         return index**2
        >>> Squares()[2]
        4
    """

    def __getitem__(self, index: Any) -> T:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[T]) -> ConcatDataset[T]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T], Iterable[T]):
    """A stream of samples: subclasses define `__iter__`. Each worker of a loader iterates its own copy."""

    def __add__(self, other: Dataset[T]) -> ChainDataset[T]:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset["tuple[Tensor, ...]"]):
    """Samples along the first dimension of tensors.

    Args:
        *tensors: tensors of the same size in their first dimension.

    Example:
        >>> import rgrad as torch
        >>> from rgrad.utils.data import TensorDataset
        >>> TensorDataset(torch.tensor([[1], [2]]), torch.tensor([0, 1]))[1]
        (tensor([2]), tensor(1))
    """

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensors[0].size(0) != tensor.size(0) for tensor in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)

    def _collated(self, indices: list[int]) -> list[Tensor] | None:
        # See Note [Whole batches]. Does not apply if a subclass overrides how a sample is made.
        if type(self).__getitem__ is not TensorDataset.__getitem__ or not within(indices, len(self)):
            return None
        rows = rgrad.tensor(indices)
        return [tensor.index_select(0, rows) for tensor in self.tensors]


def _length(dataset: Any) -> int:
    """The number of samples; untyped, because not every `Dataset` has a length."""
    return len(dataset)


class ConcatDataset(Dataset[T]):
    """Several datasets, one after the other."""

    def __init__(self, datasets: Iterable[Dataset[T]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(itertools.accumulate(map(_length, self.datasets)))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        which = bisect_right(self.cumulative_sizes, index)
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]


class StackDataset(Dataset[Any]):
    """Samples of several datasets side by side, as a tuple, or as a dict if datasets are given by keyword.

    Args:
        *args: datasets of the same length.
        **kwargs: datasets of the same length, instead of `args`.

    Example:
        >>> from rgrad.utils.data import StackDataset
        >>> StackDataset(image=["i0", "i1"], text=["t0", "t1"])[1]
        {'image': 'i1', 'text': 't1'}
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either datasets by position, for samples that are tuples, or by name, for samples that are "
                "dicts, but got both"
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets: Any = args or kwargs
        lengths = [_length(dataset) for dataset in self._parts()]
        self._length = lengths[0]
        if any(length != self._length for length in lengths):
            raise ValueError("Size mismatch between datasets")

    def _parts(self) -> list[Any]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _joined(self, parts: Iterable[Any]) -> Any:
        return dict(zip(self.datasets, parts, strict=True)) if isinstance(self.datasets, dict) else tuple(parts)

    def __getitem__(self, index: Any) -> Any:
        return self._joined(dataset[index] for dataset in self._parts())

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """Returns the samples at several indices."""
        columns = []
        for dataset in self._parts():
            get_many = getattr(dataset, "__getitems__", None)
            column = get_many(indices) if get_many else [dataset[index] for index in indices]
            if len(column) != len(indices):
                raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(column)}")
            columns.append(column)
        return [self._joined(row) for row in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length


class ChainDataset(IterableDataset[T]):
    """Several iterable datasets, one after the other."""

    def __init__(self, datasets: Iterable[Dataset[T]]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[T]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield from dataset

    def __len__(self) -> int:
        if not all(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ChainDataset only supports IterableDataset")
        return sum(len(dataset) for dataset in self.datasets)  # type: ignore[arg-type]


class Subset(Dataset[T]):
    """The samples of a dataset at given indices."""

    def __init__(self, dataset: Dataset[T], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> T:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[T]:
        """Returns the samples at several indices."""
        indices = [self.indices[index] for index in indices]
        get_many = getattr(self.dataset, "__getitems__", None)
        return get_many(indices) if get_many else [self.dataset[index] for index in indices]

    def __len__(self) -> int:
        return len(self.indices)

    def _collated(self, indices: list[int]) -> Any:
        collated = getattr(self.dataset, "_collated", None)
        own = Subset.__getitem__, Subset.__getitems__
        if collated is None or (type(self).__getitem__, type(self).__getitems__) != own:
            return None
        return collated([self.indices[index] for index in indices])


def within(indices: list[int], length: int) -> bool:
    """Whether all indices are plain integers in `[0, length)`."""
    return all(type(index) is int for index in indices) and 0 <= min(indices, default=-1) <= max(indices) < length


def random_split(
    dataset: Dataset[T], lengths: Sequence[int | float], generator: Generator | None = None
) -> list[Subset[T]]:
    """Splits a dataset into random parts.

    Args:
        dataset: a dataset with a length.
        lengths: the length of each part, or fractions with sum 1. With fractions, remaining samples are assigned to
            the parts in turn.
        generator: the random generator.

    Returns:
        A `Subset` for each length.
    """
    total = _length(dataset)
    counts: list[Any]
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        for index, fraction in enumerate(lengths):
            if fraction < 0 or fraction > 1:
                raise ValueError(f"Fraction at index {index} is not between 0 and 1")
        counts = [math.floor(total * fraction) for fraction in lengths]
        for index in range(total - sum(counts)):
            counts[index % len(counts)] += 1
        for index, count in enumerate(counts):
            if count == 0:
                warnings.warn(
                    f"Length of split at index {index} is 0. This might result in an empty dataset.",
                    stacklevel=2,
                )
    else:
        counts = list(lengths)
    if sum(counts) != total:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = iter(rgrad.randperm(total, generator=generator).tolist())
    return [Subset(dataset, list(itertools.islice(order, count))) for count in counts]
