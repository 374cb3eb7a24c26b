"""Sums, means and maxima over bags of vectors from a table; one-hot vectors."""

from __future__ import annotations

import rgrad
from rgrad import _C
from rgrad._vmap import by_slices

Tensor = _C.Tensor


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
    """Reduces bags of vectors of a table to one vector each.

    Args:
        input: int64 indices; a matrix contains one bag per row, a vector contains bags one after the other.
        weight: the table, ``(number, features)``, of a floating point dtype.
        offsets: for a vector, the start of each bag, ``(bags,)``, or ``(bags + 1,)`` with `include_last_offset`.
        max_norm: vectors with a larger norm are scaled down to it.
        norm_type: degree of that norm.
        scale_grad_by_freq: whether gradients are divided by how often an index occurs.
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        sparse: accepted; the gradient is dense.
        per_sample_weights: a factor for each vector, for sums.
        include_last_offset: whether the last offset is the end of the last bag.
        padding_idx: index of a vector that is ignored.

    Returns:
        A tensor ``(bags, features)`` of the table's dtype; an empty bag gives zeros.

    Raises:
        ValueError: a shape does not match, or two options exclude each other.
        RuntimeError: an index or an offset is out of range.

    Example:
        >>> table = rgrad.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        >>> bags = rgrad.tensor([0, 2, 1]), rgrad.tensor([0, 2])
        >>> rgrad.nn.functional.embedding_bag(bags[0], table, bags[1], mode="sum")
        tensor([[6., 8.],
                [3., 4.]])
    """
    # PyTorch formerly took the table first.
    if weight.dtype == rgrad.int64 and input.is_floating_point():
        input, weight = weight, input
    if _C._is_batched(input) or (offsets is not None and _C._is_batched(offsets)):
        # Which rows are in which bag differs between the slices.
        def of_slice(input: Tensor, weight: Tensor, offsets: Tensor | None, factors: Tensor | None) -> Tensor:
            return embedding_bag(
                input, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, sparse, factors,
                include_last_offset, padding_idx,
            )  # fmt: skip

        return by_slices("_embedding_bag", of_slice, input, weight, offsets, per_sample_weights)
    _check_operands(input, weight, mode, per_sample_weights)
    starts = _bag_bounds(input, offsets, include_last_offset)
    _check_options(mode, scale_grad_by_freq, sparse, per_sample_weights is not None)
    count = weight.size(0)
    if padding_idx is not None and not -count <= padding_idx < count:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, {-count} through {count - 1}, but got {padding_idx}"
        )
    indices = input.reshape(-1)
    _expect_indices(indices, count, plain=padding_idx is None and mode != "max")
    factors = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    plain = padding_idx is None and max_norm is None and not scale_grad_by_freq
    if plain and mode != "max" and input.dim() == 2 and weight.dtype in (rgrad.float32, rgrad.float64):
        total = _C._nn.bag_sums(weight, input.to(rgrad.int64), per_sample_weights)
        return total / max(input.size(1), 1) if mode == "mean" else total
    rows = _C._nn.embedding(indices, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq)
    bags = starts.numel() - 1
    # Half types are too inaccurate for sums.
    widen = rows.dtype in (rgrad.float16, rgrad.bfloat16)
    if input.dim() == 2 and mode != "max" and padding_idx is None:
        # Bags of one length are rows of a tensor.
        wide = rows.float() if widen else rows
        wide = wide if factors is None else wide * factors.unsqueeze(-1)
        total = wide.unflatten(0, input.shape).sum(1)
        return (total / max(input.size(1), 1) if mode == "mean" else total).to(rows.dtype)
    if include_last_offset and bags > 0 and (mode == "max" or padding_idx is not None):
        # As in PyTorch, which reads the last offset only for plain sums and means.
        starts = rgrad.cat([starts[:-1], starts.new_full((1,), indices.numel())])
    bag = rgrad.searchsorted(starts[1:].contiguous(), rgrad.arange(indices.numel(), device=input.device), right=True)
    counting = bag < bags
    if padding_idx is not None:
        counting = counting & (indices != padding_idx % count)
    rows, bag = rows[counting], bag[counting]
    counts = _counts(bag, bags)
    if mode == "max":
        return _largest(rows, bag, counts)
    wide = rows.float() if widen else rows
    if factors is not None:
        wide = wide * factors[counting].unsqueeze(-1)
    total = wide.new_zeros((bags, weight.size(1))).index_add(0, bag, wide)
    if mode == "mean":
        total = total / counts.clamp(min=1).unsqueeze(-1).to(total.dtype)
    return total.to(rows.dtype)


def _check_operands(input: Tensor, weight: Tensor, mode: str, factors: Tensor | None) -> None:
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if factors is not None and factors.shape != input.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({factors.shape}) is not None, "
            f"then it must have the same shape as the input ({input.shape})"
        )
    if factors is not None and factors.dtype != weight.dtype:
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
            f"'per_sample_weights'; but type {weight.type()} does not equal {factors.type()} (while checking arguments "
            "for embedding_bag)"
        )
    if weight.dim() != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")


def _check_options(mode: str, by_frequency: bool, sparse: bool, weighted: bool) -> None:
    """Rejects invalid combinations: a maximum has one source per feature, and only sums support factors."""
    excluded = {"scaling the gradient by the frequency": by_frequency, "sparse weights": sparse}
    for what, asked in excluded.items():
        if asked and mode == "max":
            raise ValueError(f"max mode does not support {what}")
    if weighted and mode != "sum":
        raise NotImplementedError(
            f"embedding_bag: per_sample_weights is only supported for mode='sum' (got mode='{mode}')"
        )


def _bag_bounds(input: Tensor, offsets: Tensor | None, include_last_offset: bool) -> Tensor:
    """The start of each bag in the flattened input, and the end of the last one."""
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                f"if input is 2D, then offsets has to be None: a row is a bag. Found offsets of type {type(offsets)}"
            )
        rows, length = input.shape
        return rgrad.arange(rows + 1, device=input.device) * length
    if input.dim() != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if offsets is None or offsets.dim() != 1:
        raise ValueError("offsets has to be a 1D Tensor" + (" but got None" if offsets is None else ""))
    length = input.size(0)
    starts = offsets if include_last_offset else rgrad.cat([offsets, offsets.new_full((1,), length)])
    if starts.numel() > 1 and int(starts[0]) != 0:
        raise RuntimeError(f"offsets[0] has to be 0, where the first bag begins. However, got {int(starts[0])}")
    if offsets.numel() and int(offsets[-1]) > length:
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length {length} but got offsets[-1] of {int(offsets[-1])}"
        )
    return starts


def _expect_indices(indices: Tensor, count: int, plain: bool) -> None:
    """Rejects indices outside the table, in one of two wordings. Does not synchronize with a GPU."""
    if indices.device.type != "cpu":
        return
    wrong = ((indices < 0) | (indices >= count)).nonzero()
    if wrong.numel():
        place = int(wrong[0, 0])
        if not plain:
            raise RuntimeError(
                f"embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {int(indices[place])}"
            )
        raise RuntimeError(
            f"Index {place} of input takes value {int(indices[place])} which is not in the valid range [0, {count})"
        )


def _counts(bag: Tensor, bags: int) -> Tensor:
    return rgrad.zeros(bags, dtype=rgrad.int64, device=bag.device).index_add(0, bag, rgrad.ones_like(bag))


def _largest(rows: Tensor, bag: Tensor, counts: Tensor) -> Tensor:
    """The maxima of each bag, from a table padded to the longest bag; zero for an empty bag."""
    longest = max(int(counts.max()), 1) if counts.numel() else 1
    before = counts.cumsum(0) - counts
    place = rgrad.arange(bag.numel(), device=bag.device) - before[bag]
    table = rows.new_full((counts.numel(), longest, rows.size(1)), -rgrad.inf)
    largest = table.index_put((bag, place), rows).max(1).values
    return largest.masked_fill((counts == 0).unsqueeze(-1), 0)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Returns a tensor with one more dimension that is 1 at the index and 0 elsewhere.

    Args:
        tensor: int64 class indices.
        num_classes: size of the new dimension; -1 means one more than the largest index.
    """
    if tensor.dtype != rgrad.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if tensor.numel() == 0:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return rgrad.zeros((*tensor.shape, num_classes), dtype=rgrad.int64, device=tensor.device)
    if _C._vmap_levels() and _C._is_batched(tensor):
        if num_classes <= 0:
            raise RuntimeError("one_hot inside vmap: please provide an explicit positive num_classes argument")
        # Their values differ between the slices, so that they are not looked at.
        return (tensor.unsqueeze(-1) == rgrad.arange(num_classes, device=tensor.device)).to(rgrad.int64)
    if tensor.min().item() < 0:
        raise RuntimeError("Class values must be non-negative.")
    largest = tensor.max().item()
    if num_classes == -1:
        num_classes = largest + 1
    elif largest >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    result = rgrad.zeros((*tensor.shape, num_classes), dtype=rgrad.int64, device=tensor.device)
    return result.scatter_(-1, tensor.unsqueeze(-1), 1)
