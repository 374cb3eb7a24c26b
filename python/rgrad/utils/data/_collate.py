"""Collation of samples into batches."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import rgrad

_Functions = dict[Any, Callable[..., Any]]


def _numpy_kind(value: object) -> str | None:
    """ "array" or "scalar" for NumPy objects, None for others; does not import NumPy."""
    for cls in type(value).__mro__:
        if cls.__module__ == "numpy" and cls.__name__ in ("ndarray", "generic"):
            return "array" if cls.__name__ == "ndarray" else "scalar"
    return None


def _is_text(array: Any) -> bool:
    return np_str_obj_array_pattern.search(array.dtype.str) is not None


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
    and mappings, tuples and lists are collated recursively. `default_collate_fn_map` may be given functions for
    further types.

    Args:
        batch: samples with the same structure.

    Returns:
        That structure with batches instead of values.

    Example:
        >>> from rgrad.utils.data import default_collate
        >>> default_collate([(1, "a"), (2, "b")])
        [tensor([1, 2]), ('a', 'b')]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Any, *, collate_fn_map: _Functions | None = None) -> Any:
    """Collates a list of samples, whose values a function for their type collates.

    Args:
        batch: samples with the same structure.
        collate_fn_map: for each type, or tuple of types, a function of a list of values, which gets this argument
            too. The first that fits is called, the very type before its bases. None is for containers only.

    Returns:
        That structure with batches instead of values.

    Raises:
        TypeError: a value is no container, and no function is for its type.

    Example:
        >>> from rgrad.utils.data._collate import collate
        >>> collate([(1, 2), (3, 4)], collate_fn_map={int: lambda values, collate_fn_map: sum(values)})
        [4, 6]
    """
    first = batch[0]
    if collate_fn_map is not None:
        function = collate_fn_map.get(type(first)) or _function_for(first, collate_fn_map)
        if function is not None:
            return function(batch, collate_fn_map=collate_fn_map)

    def collated(values: Any) -> Any:
        return collate(values, collate_fn_map=collate_fn_map)

    if isinstance(first, Mapping):
        return _like_mapping(first, {key: collated([sample[key] for sample in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(collated(column) for column in zip(*batch, strict=True)))
    if isinstance(first, Sequence) and not isinstance(first, (str, bytes)):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [collated(column) for column in zip(*batch, strict=True)]
        return columns if isinstance(first, tuple) else _like_sequence(first, columns)
    raise TypeError(_unknown(type(first)))


def collate_tensor_fn(batch: Any, *, collate_fn_map: _Functions | None = None) -> Any:
    """Tensors, stacked along a new first dimension."""
    return rgrad.stack(list(batch), 0)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: _Functions | None = None) -> Any:
    """Arrays as tensors, which are collated as such; those of texts and objects are refused."""
    if _is_text(batch[0]):
        raise TypeError(_unknown(batch[0].dtype))
    return collate([rgrad.as_tensor(item) for item in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: _Functions | None = None) -> Any:
    """Scalars of NumPy, of which a batch keeps the dtype."""
    return rgrad.stack([rgrad.as_tensor(item) for item in batch], 0)


def collate_float_fn(batch: Any, *, collate_fn_map: _Functions | None = None) -> Any:
    """Floats as a tensor of float64."""
    return rgrad.tensor(batch, dtype=rgrad.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: _Functions | None = None) -> Any:
    """Ints or bools as a tensor."""
    return rgrad.tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: _Functions | None = None) -> Any:
    """Texts as they are."""
    return batch


# What `default_collate` does with values of each type. It finds the functions for arrays and scalars of NumPy without
# an entry, which would have to import NumPy; an entry for their types goes first.
default_collate_fn_map: _Functions = {
    rgrad.Tensor: collate_tensor_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}
# The kinds of elements for which an array becomes no tensor, in the letters of NumPy's `dtype.str`.
np_str_obj_array_pattern = re.compile(r"[SaUO]")


def _function_for(value: Any, functions: _Functions) -> Callable[..., Any] | None:
    """The function for a value whose very type has none.

    NumPy's float64 scalars are also floats, so NumPy is tested first: such a batch keeps its dtype.
    """
    # A table that was made from the default one handles NumPy as that does.
    kind = _numpy_kind(value) if functions.get(rgrad.Tensor) is collate_tensor_fn else None
    of_numpy = any(getattr(t, "__module__", "") == "numpy" for key in functions for t in _types(key)) if kind else False
    if kind == "array" and not of_numpy:
        return collate_numpy_array_fn
    if kind == "scalar" and not of_numpy and value.dtype.kind in "biuf":
        return collate_numpy_scalar_fn
    return next((function for key, function in functions.items() if isinstance(value, key)), None)


def _types(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


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
