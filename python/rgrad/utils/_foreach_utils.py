"""How optimizers of programs sort tensors for operations on lists of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rgrad import Tensor

_Group = tuple[list[list[Any]], list[int]]


def _get_foreach_kernels_supported_devices() -> list[str]:
    """The types of device for which an operation on a list is faster than one on each of its tensors."""
    return ["cuda"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """The types of device on which an optimizer's step is one pass over memory."""
    return ["cpu", "cuda", "mps"]


def _device_has_foreach_support(device: Any) -> bool:
    """Whether operations take lists of tensors on a device: on all of those that compute."""
    return device.type != "meta"


def _has_foreach_support(tensors: Sequence[Any], device: Any) -> bool:
    """Whether operations take a list of these, tensors or None."""
    return _device_has_foreach_support(device) and all(t is None or isinstance(t, Tensor) for t in tensors)


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Any]], with_indices: bool = False
) -> dict[tuple[Any, Any], _Group]:
    """Sorts several lists alike, by the device and the dtype of the tensors in the first.

    Args:
        tensorlistlist: lists of one length, or of none; entries of other lists than the first may be None.
        with_indices: whether the places in the given lists are returned.

    Returns:
        For each device and dtype the parts of the lists, and their entries' places.

    Raises:
        RuntimeError: the lists are of several lengths, or the first has an entry that is no tensor.

    >>> import rgrad
    >>> from rgrad.utils._foreach_utils import _group_tensors_by_device_and_dtype
    >>> params, states = [rgrad.ones(1), rgrad.ones(2).half(), rgrad.ones(3)], ["a", "b", "c"]
    >>> groups = _group_tensors_by_device_and_dtype([params, states], with_indices=True)
    >>> groups[rgrad.device("cpu"), rgrad.float32][0][1], groups[rgrad.device("cpu"), rgrad.float32][1]
    (['a', 'c'], [0, 2])
    """
    if not tensorlistlist:
        raise RuntimeError("there has to be a list of tensors")
    leading = list(tensorlistlist[0])
    if any(len(entries) not in (0, len(leading)) for entries in tensorlistlist):
        raise RuntimeError(f"lists of tensors have the lengths {[len(entries) for entries in tensorlistlist]}")
    groups: dict[tuple[Any, Any], _Group] = {}
    for place, t in enumerate(leading):
        if not isinstance(t, Tensor):
            raise RuntimeError(f"the entry {place} of the first list is no tensor, but a {type(t).__name__}")
        parts, places = groups.setdefault((t.device, t.dtype), ([[] for _ in tensorlistlist], []))
        for part, entries in zip(parts, tensorlistlist, strict=True):
            if entries:
                part.append(entries[place])
        if with_indices:
            places.append(place)
    return groups
