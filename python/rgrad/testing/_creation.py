"""Creation of tensors for tests."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor

__all__ = ["make_tensor"]


def _bounds(dtype: Any, low: float | None, high: float | None) -> tuple[float, float]:
    """The range of values, restricted to that of the dtype."""
    if dtype.is_complex:
        raise TypeError(f"make_tensor(): argument 'dtype' must not be {dtype}, of which rgrad has no tensors")
    floating = dtype.is_floating_point
    if dtype is rgrad.bool:
        default, lowest, highest = (0, 2), 0, 2
    elif floating:
        info = rgrad.finfo(dtype)
        default, lowest, highest = (-9, 9), info.min, info.max
    else:
        info = rgrad.iinfo(dtype)
        # The upper bound is exclusive, but has to be an int64 itself.
        highest = info.max + (dtype is not rgrad.int64)
        default, lowest = (0 if dtype is rgrad.uint8 else -9, 10), info.min
    given = (default[0] if low is None else low, default[1] if high is None else high)
    if any(bound != bound for bound in given):
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={low!r} and high={high!r}")
    if floating and given[0] == given[1]:
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating types is deprecated: `torch.full` is the "
            "function that fills with one value.",
            FutureWarning,
            stacklevel=3,
        )
    elif given[0] >= given[1]:
        raise ValueError(f"`low` must be less than `high`, but got {given[0]} >= {given[1]}")
    if given[0] != given[1] and (given[1] <= lowest or given[0] >= highest):
        raise ValueError(f"no value of {dtype} is in the range from {given[0]} to {given[1]}")
    bounds = max(given[0], lowest), min(given[1], highest)
    return bounds if floating else (math.ceil(bounds[0]), math.ceil(bounds[1]))


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any = None,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of random values in [low, high), by default -9 to 9, restricted to the range of the dtype.

    Args:
        shape: shape of the tensor, as one sequence or as several numbers.
        dtype: dtype of the tensor.
        device: device of the tensor; the default device if None.
        low: the lowest value.
        high: the upper bound (exclusive).
        requires_grad: whether gradients are recorded for it.
        noncontiguous: whether the elements are not contiguous in memory; no effect with fewer than two elements.
        exclude_zero: whether zeros are replaced by the smallest positive value.
        memory_format: the order of the dimensions in memory.

    >>> import rgrad
    >>> rgrad.testing.make_tensor((2, 3), dtype=rgrad.float32, device="cpu").shape
    torch.Size([2, 3])
    """
    if not isinstance(dtype, rgrad.dtype):
        raise TypeError(f"The requested dtype '{dtype}' is not supported by rgrad.testing.make_tensor().")
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive: each decides the strides. Got "
            f"noncontiguous={noncontiguous!r} and memory_format={memory_format!r}"
        )
    if requires_grad and not dtype.is_floating_point:
        raise ValueError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, but got dtype={dtype!r}"
        )
    if device is None:
        device = rgrad.get_default_device()
    size = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    lowest, bound = _bounds(dtype, low, high)
    numel = math.prod(size)
    apart = 2 if noncontiguous and numel > 1 else 1
    whole = (*size[:-1], apart * size[-1]) if size else size
    if dtype.is_floating_point:
        # Interpolated, because the difference of the bounds may overflow.
        x = rgrad.rand(whole, dtype=rgrad.float64, device="cpu")
        result = (x * bound + (1 - x) * lowest).to(dtype)
        if lowest < bound and dtype.itemsize > 1:
            # Rounding may have reached the bound, which is exclusive.
            ends = result.new_tensor([bound, lowest])
            below = rgrad.nextafter(ends[0], ends[1])
            result = rgrad.where(result >= bound, below, result)
    else:
        result = rgrad.randint(int(lowest), int(bound), whole, device="cpu").to(dtype)
    result = result[..., ::apart].to(device) if apart > 1 else result.to(device)
    if memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        smallest = rgrad.finfo(dtype).tiny if dtype.is_floating_point else 1
        result[result == 0] = smallest
    return result.requires_grad_(requires_grad) if requires_grad else result
