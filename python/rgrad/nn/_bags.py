"""Sums, means and maxima over bags of vectors from a table."""

from __future__ import annotations

import rgrad
from rgrad import _C

Tensor = _C.Tensor


def _bag_starts(offsets: Tensor, count: int, include_last_offset: bool) -> Tensor:
    """Where the bags begin, and at the end where the last one stops."""
    if include_last_offset:
        return offsets
    return rgrad.cat([offsets, offsets.new_full((1,), count)])


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Reduces bags of vectors of a table, each to one vector.

    Args:
        input: indices; a matrix holds a bag per row, a vector holds bags one after the other.
        weight: the table, ``(number, features)``.
        offsets: for a vector, where the bags begin.
        max_norm: vectors with a larger norm are scaled down to it.
        norm_type: degree of that norm.
        scale_grad_by_freq: whether gradients are divided by how often an index occurs.
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        sparse: accepted; the gradient is dense.
        per_sample_weights: a factor for each vector, for sums.
        include_last_offset: whether the last offset is the end of the last bag.
        padding_idx: index that counts for nothing.

    Shape:
        Output: ``(bags, features)``.
    """
    # PyTorch once took the table first.
    if weight.dtype == rgrad.int64 and input.is_floating_point():
        input, weight = weight, input
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if per_sample_weights is not None and input.shape != per_sample_weights.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, "
            f"then it must have the same shape as the input ({input.shape})"
        )
    if weight.dim() != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                f"sequences. However, found offsets of type {type(offsets)}"
            )
        starts = rgrad.arange(input.size(0) + 1, device=input.device) * input.size(1)
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
        starts = _bag_starts(offsets, input.size(0), include_last_offset)
        if starts.numel() > 1 and int(starts[0]) != 0:
            raise RuntimeError(
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "
                f"However, got {int(starts[0])}"
            )
        if offsets.numel() and int(offsets[-1]) > input.size(0):
            raise RuntimeError(
                f"offsets[-1] can not be greater than input's length {input.size(0)} but got offsets[-1] of "
                f"{int(offsets[-1])}"
            )
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
            f"(got mode='{mode}'). Please open a feature request on GitHub."
        )
    count = weight.size(0)
    if padding_idx is not None and not -count <= padding_idx < count:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, {-count} through {count - 1}, but got {padding_idx}"
        )
    indices = input.reshape(-1)
    _expect_indices(indices, count)
    factors = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    rows = _C._nn.embedding(indices, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq)
    bags = starts.numel() - 1
    bag = rgrad.searchsorted(starts[1:].contiguous(), rgrad.arange(indices.numel(), device=input.device), right=True)
    counting = bag < bags
    if padding_idx is not None:
        counting = counting & (indices != padding_idx % count)
    rows, bag = rows[counting], bag[counting]
    counts = _counts(bag, bags)
    if mode == "max":
        return _largest(rows, bag, counts)
    # Half types keep too few digits to sum in.
    wide = rows.float() if rows.dtype in (rgrad.float16, rgrad.bfloat16) else rows
    if factors is not None:
        wide = wide * factors[counting].unsqueeze(-1)
    total = wide.new_zeros((bags, weight.size(1))).index_add(0, bag, wide)
    if mode == "mean":
        total = total / counts.clamp(min=1).unsqueeze(-1).to(total.dtype)
    return total.to(rows.dtype)


def _expect_indices(indices: Tensor, count: int) -> None:
    """Refuses indices that the table lacks. A device is not waited for."""
    if indices.device.type != "cpu":
        return
    wrong = ((indices < 0) | (indices >= count)).nonzero()
    if wrong.numel():
        place = int(wrong[0, 0])
        raise RuntimeError(
            f"Index {place} of input takes value {int(indices[place])} which is not in the valid range [0, {count})"
        )


def _counts(bag: Tensor, bags: int) -> Tensor:
    return rgrad.zeros(bags, dtype=rgrad.int64, device=bag.device).index_add(0, bag, rgrad.ones_like(bag))


def _largest(rows: Tensor, bag: Tensor, counts: Tensor) -> Tensor:
    """The maxima of each bag, from a table padded to the longest; those of an empty bag are zero."""
    longest = max(int(counts.max()), 1) if counts.numel() else 1
    before = counts.cumsum(0) - counts
    place = rgrad.arange(bag.numel(), device=bag.device) - before[bag]
    table = rows.new_full((counts.numel(), longest, rows.size(1)), -rgrad.inf)
    largest = table.index_put((bag, place), rows).max(1).values
    return largest.masked_fill((counts == 0).unsqueeze(-1), 0)
