"""Reductions of consecutive parts of a dimension."""

from __future__ import annotations

import math
from typing import Any

import rgrad
from rgrad import _C

Tensor = _C.Tensor

# The name that `scatter_reduce` has for each reduction, and the result of an empty segment.
_KINDS = {
    "sum": ("sum", 0.0),
    "mean": ("sum", math.nan),
    "prod": ("prod", 1.0),
    "max": ("amax", -math.inf),
    "min": ("amin", math.inf),
}
_KINDS |= {"amax": _KINDS["max"], "amin": _KINDS["min"]}


def _lengths(data: Tensor, lengths: Any, offsets: Any, axis: int, unsafe: bool) -> Tensor:
    if lengths is None:
        if offsets is None:
            raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
        lengths = offsets.diff(dim=-1)
    if lengths.dtype not in (rgrad.int32, rgrad.int64):
        kind = lengths.type().rpartition(".")[2].removesuffix("Tensor")
        raise NotImplementedError(f"\"_segment_reduce_lengths_cpu_kernel1\" not implemented for '{kind}'")
    if axis != lengths.dim() - 1:
        raise RuntimeError(f"segment_reduce(): Expected axis to be the last dimension of lengths but got {axis}.")
    if lengths.shape[:-1] != data.shape[:axis]:
        raise RuntimeError(
            f"segment_reduce(): expected lengths of shape {[*data.shape[:axis], -1]}, but got {list(lengths.shape)}"
        )
    if bool((lengths < 0).any()):
        raise RuntimeError("lengths contains negative value!")
    total = lengths.sum(-1)
    if bool((total > data.size(axis)).any()) or not (unsafe or bool((total == data.size(axis)).all())):
        raise RuntimeError(
            "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when "
            "!unsafe."
        )
    return lengths


def _nan_sums(like: Tensor, number: Tensor, data: Tensor, absent: Tensor) -> Tensor:
    """The mean of the NaN elements of each segment: NaN, with a gradient for each of them; 0 for a segment without."""
    zeros = like.detach().new_zeros(like.shape)
    count = zeros.scatter_add(1, number, absent.to(zeros.dtype)).clamp(min=1)
    return zeros.scatter_add(1, number, data.masked_fill(~absent, 0)) / count


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """Reduces consecutive segments of a dimension, each to one element.

    Args:
        data: of a floating-point dtype.
        reduce: "sum", "mean", "prod", "max" or "min".
        lengths: how many elements each segment has, int32 or int64; of the shape of `data` up to `axis`, and in the
            last dimension one per segment.
        indices: not taken.
        offsets: instead of `lengths`, where each segment begins, and the end of the last.
        axis: the dimension, the last one of `lengths`.
        unsafe: whether elements behind the last segment are left out, instead of an error.
        initial: what every segment begins with; also the result of an empty one.

    Returns:
        `data`, with segments in place of elements. An empty segment has the sum 0, the product 1, the mean NaN, and
        infinite extremes.

    >>> import rgrad
    >>> rgrad.segment_reduce(rgrad.tensor([1.0, 2.0, 3.0]), "sum", lengths=rgrad.tensor([1, 2]))
    tensor([1., 5.])
    """
    if reduce not in _KINDS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if not data.dtype.is_floating_point:
        kind = data.type().rpartition(".")[2].removesuffix("Tensor")
        raise NotImplementedError(f"\"_segment_reduce_cpu\" not implemented for '{kind}'")
    axis = axis % data.dim() if data.dim() else axis
    counts = _lengths(data, lengths, offsets, axis, unsafe)
    segments = counts.size(-1)
    rows = counts.reshape(math.prod(counts.shape[:-1]), segments)
    ends = rows.cumsum(-1)
    places = rgrad.arange(data.size(axis), device=data.device).expand(len(rows), -1).contiguous()
    # Elements behind the last segment have one of their own, which is cut off.
    number = rgrad.searchsorted(ends, places, right=True) if segments else rgrad.zeros_like(places)
    # Sizes are given, as -1 would be ambiguous for an empty tensor.
    flat = data.reshape(len(rows), data.size(axis), math.prod(data.shape[axis + 1 :]))
    number = number.unsqueeze(-1).expand(flat.shape)
    kind, empty = _KINDS[reduce]
    extreme = kind in ("amax", "amin")
    start = 0.0 if reduce == "mean" else empty
    if initial is not None and not extreme:
        start = initial
    made = flat.new_full((len(rows), segments + 1, flat.size(-1)), start)
    absent = flat.isnan() if kind != "sum" else None
    given = flat if absent is None else flat.masked_fill(absent, empty)
    made = made.scatter_reduce(1, number, given, kind)
    nan = None if absent is None or not bool(absent.any()) else _nan_sums(made, number, flat, absent)
    if nan is not None and not extreme:
        made = rgrad.where(nan == 0, made, made * nan)
    made = made[:, :segments]
    if initial is not None and extreme:
        # Afterwards, as an element that is equal to it has the whole gradient.
        made = made.masked_fill(made < initial if kind == "amax" else made > initial, initial)
    if nan is not None and extreme:
        # The extreme of a segment with NaN is NaN, and its gradient goes there.
        nan = nan[:, :segments]
        made = rgrad.where(nan == 0, made, nan)
    if reduce == "mean":
        share = made / rows.unsqueeze(-1)
        blank = empty if initial is None else float(initial)
        made = rgrad.where(rows.unsqueeze(-1) > 0, share, blank)
    return made.reshape(*data.shape[:axis], segments, *data.shape[axis + 1 :]).to(data.dtype)


_segment_reduce = segment_reduce
