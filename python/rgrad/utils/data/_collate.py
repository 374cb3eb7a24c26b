"""Collation of samples into batches."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import rgrad


def _numpy_kind(value: object) -> str | None:
    """ "array" or "scalar" for NumPy objects, None for others; does not import NumPy."""
    for cls in type(value).__mro__:
        if cls.__module__ == "numpy" and cls.__name__ in ("ndarray", "generic"):
            return "array" if cls.__name__ == "ndarray" else "scalar"
    return None


def _is_text(array: Any) -> bool:
    return array.dtype.kind in "SUaO"


def default_convert(data: Any) -> Any:
    """Converts the NumPy arrays in a sample to tensors; used by loaders that do not batch.

    Args:
        data: a sample of any nesting.

    Returns:
        The same nesting with tensors for arrays; everything else is unchanged.
    """
    if isinstance(data, rgrad.Tensor):
        return data
    kind = _numpy_kind(data)
    if kind is not None:
        return data if kind == "array" and _is_text(data) else rgrad.as_tensor(data)
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, tuple):
        return [default_convert(item) for item in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _like_sequence(data, [default_convert(item) for item in data])
    return data


def default_collate(batch: Sequence[Any]) -> Any:
    """Collates a list of samples into a batch.

    Tensors are stacked along a new first dimension, arrays and numbers become tensors, strings stay a list,
    and mappings, tuples and lists are collated recursively.

    Args:
        batch: samples with the same structure.

    Returns:
        That structure with batches instead of values.

    Example:
        >>> from rgrad.utils.data import default_collate
        >>> default_collate([(1, "a"), (2, "b")])
        [tensor([1, 2]), ('a', 'b')]
    """
    first = batch[0]
    if isinstance(first, rgrad.Tensor):
        return rgrad.stack(list(batch), 0)
    kind = _numpy_kind(first)
    if kind == "array":
        if _is_text(first):
            raise TypeError(_unknown(first.dtype))
        return default_collate([rgrad.as_tensor(item) for item in batch])
    # NumPy's float64 scalars are also floats, so NumPy is tested first: such a batch keeps its dtype.
    if kind == "scalar" and first.dtype.kind in "biuf":
        return default_collate([rgrad.as_tensor(item) for item in batch])
    if isinstance(first, float):
        return rgrad.tensor(batch, dtype=rgrad.float64)
    if isinstance(first, int):
        return rgrad.tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _like_mapping(
            first, {key: default_collate([sample[key] for sample in batch]) for key in first}
        )
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(column) for column in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [default_collate(column) for column in zip(*batch, strict=True)]
        return columns if isinstance(first, tuple) else _like_sequence(first, columns)
    raise TypeError(_unknown(type(first)))


def _unknown(kind: object) -> str:
    return f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {kind}"


def _like_mapping(original: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """`items` in a mapping of the original's type, or a plain dict if that cannot be constructed."""
    try:
        if isinstance(original, MutableMapping):
            clone = copy.copy(original)
            clone.update(items)
            return clone
        return type(original)(items)  # type: ignore[call-arg]
    except TypeError:
        return items


def _like_sequence(original: Sequence[Any], items: list[Any]) -> Any:
    """`items` in a sequence of the original's type, or a plain list if that cannot be constructed."""
    if type(original) is list:
        return items
    try:
        if isinstance(original, MutableSequence):
            clone = copy.copy(original)
            for index, item in enumerate(items):
                clone[index] = item
            return clone
        return type(original)(items)  # type: ignore[call-arg]
    except TypeError:
        return items
