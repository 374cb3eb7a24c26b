"""Fractional max pooling: windows at pseudo-random distances (Graham, "Fractional Max-Pooling", 2014).

For n windows of size k over a dimension of size s and a sample u of U(0, 1), let a = (s - k) / (n - 1). Window i begins
at ``floor((i + u) * a) - floor(u * a)``, and the last one ends with the dimension.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec

import rgrad
from rgrad import _C

from ._ntuple import _pair, _triple
from ._pooling import named_after

Tensor = _C.Tensor
_P = ParamSpec("_P")

_NAMES = {
    2: ("fractional_max_pool2d()", ("height", "width")),
    3: ("fractional_max_pool3d_out()", ("time", "height", "width")),
}


def _starts(samples: Tensor, size: int, kernel: int, count: int) -> Tensor:
    """Where the windows of a dimension begin.

    Args:
        samples: one number of [0, 1) per plane, of any shape.
        size: the dimension's.
        kernel: size of a window.
        count: number of windows.

    Returns:
        int64 positions of shape ``(*samples.shape, count)``.
    """
    last = samples.new_full((*samples.shape, 1), size - kernel).long()
    if count <= 1:
        return last[..., :count]
    alpha = samples.new_full((), size - kernel) / (count - 1)
    u = samples.unsqueeze(-1)
    steps = rgrad.arange(count - 1, device=samples.device).to(samples.dtype)
    # Conversion to integers truncates, which is floor here, as nothing is negative.
    inner = ((u + steps) * alpha).long() - (u * alpha).long()
    return rgrad.cat((inner, last), -1)


def _check_samples(samples: Tensor, input: Tensor, spatial: int) -> None:
    if samples.dtype != input.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    if samples.dim() != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions, got {samples.dim()}")
    batch, channels, numbers = samples.shape
    if batch < input.size(0):
        raise RuntimeError("Expect _random_samples.size(0) no less then input batch size.")
    if channels != input.size(1):
        raise RuntimeError("Expect _random_samples.size(1) equals to input channel size.")
    if numbers != spatial:
        raise RuntimeError(f"Expect _random_samples.size(2) equals to {spatial}; got {numbers}.")


def _check_sizes(input: Tensor, kernel: tuple[int, ...], output: tuple[int, ...]) -> None:
    spatial = len(kernel)
    who, names = _NAMES[spatial]
    for dim in range(1, input.dim()):
        if input.size(dim) == 0:
            raise RuntimeError(
                f"{who}: Expected input to have non-zero size for non-batch dimensions, but got{list(input.shape)} "
                f"with dimension {dim} being empty."
            )
    for name, size, k, n in zip(names, input.shape[-spatial:], kernel, output, strict=True):
        if k < 1 or n < 0:
            raise RuntimeError(f"{who}: window sizes must be positive, and none negative, but got {k} and {n}")
        if n + k - 1 > size:
            raise RuntimeError(f"{who}: pool {name} {k} too large relative to input {name} {size}")


def _pooled(
    spatial: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Tensor | None
) -> tuple[Tensor, Tensor]:
    expand = (_pair, _triple)[spatial - 2]
    if output_size is None and output_ratio is None:
        raise ValueError(f"fractional_max_pool{spatial}d requires specifying either an output_size or an output_ratio")
    if output_size is None:
        sizes = (input.size(dim) for dim in range(-spatial, 0))
        ratios = expand(output_ratio)
        if len(ratios) != spatial:
            raise ValueError(
                f"fractional_max_pool{spatial}d requires output_ratio to either be a single Int or tuple of Ints."
            )
        output_size = tuple(int(n * ratio) for n, ratio in zip(sizes, ratios, strict=True))
    kernel, output = expand(kernel_size), expand(output_size)
    for name, sizes in (("kernel_size", kernel), ("output_size", output)):
        if len(sizes) != spatial:
            raise RuntimeError(
                f"fractional_max_pool{spatial}d: {name} must either be a single int or a tuple of {spatial} ints, but "
                f"got {sizes}"
            )
    batched = input.dim() != spatial + 1
    if samples is None:
        planes = (input.size(0) if batched else 1, input.size(-spatial - 1))
        samples = rgrad.rand((*planes, spatial), dtype=input.dtype, device=input.device)
    if input.dim() not in (spatial + 1, spatial + 2):
        raise RuntimeError(
            f"{_NAMES[spatial][0]}: Expected {spatial + 1}D or {spatial + 2}D tensor, but got: {list(input.shape)}"
        )
    x = input if batched else input.unsqueeze(0)
    _check_sizes(x, kernel, output)
    _check_samples(samples, x, spatial)
    samples = samples[: x.size(0)]
    size = x.shape[2:]
    # In two dimensions the first sample is the width's; in three they are in the order of the dimensions.
    order = (1, 0) if spatial == 2 else (0, 1, 2)
    places = samples.new_zeros((*samples.shape[:2], *[1] * (2 * spatial))).long()
    for dim, (n, k, count) in enumerate(zip(size, kernel, output, strict=True)):
        along = _starts(samples[..., order[dim]], n, k, count).unsqueeze(-1) + rgrad.arange(k, device=x.device)
        shape = [1] * (2 * spatial)
        shape[dim], shape[spatial + dim] = count, k
        places = places * n + along.view(*along.shape[:2], *shape)
    places = places.flatten(-spatial)
    flat = x.flatten(2)
    with rgrad.no_grad():
        windows = flat.gather(2, places.flatten(2)).view(places.shape)
        indices = places.gather(-1, windows.argmax(-1, keepdim=True)).squeeze(-1)
    values = flat.gather(2, indices.flatten(2)).view(indices.shape)
    return (values, indices) if batched else (values.squeeze(0), indices.squeeze(0))


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Takes the largest value of windows that begin at pseudo-random places.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``, of a floating point dtype.
        kernel_size: size of the windows, one number or a pair.
        output_size: number of windows, one number or a pair; or
        output_ratio: that number divided by the input's size.
        return_indices: whether to also return the positions of the maxima in the flattened plane, int64.
        _random_samples: ``(N, C, 2)`` numbers of [0, 1), instead of drawn ones.

    Raises:
        ValueError: neither a size nor a ratio is given.
        RuntimeError: the windows do not fit into the input.

    >>> rgrad.nn.functional.fractional_max_pool2d(rgrad.ones(1, 1, 9, 9), 2, output_ratio=0.5).shape
    torch.Size([1, 1, 4, 4])
    """
    values, indices = _pooled(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return (values, indices) if return_indices else values


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Takes the largest value of windows of a volume that begin at pseudo-random places.

    Args:
        input: ``(N, C, D, H, W)`` or ``(C, D, H, W)``, of a floating point dtype.
        kernel_size: size of the windows, one number or three.
        output_size: number of windows, one number or three; or
        output_ratio: that number divided by the input's size.
        return_indices: whether to also return the positions of the maxima in the flattened volume, int64.
        _random_samples: ``(N, C, 3)`` numbers of [0, 1), instead of drawn ones.

    Raises:
        ValueError: neither a size nor a ratio is given.
        RuntimeError: the windows do not fit into the input.
    """
    values, indices = _pooled(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return (values, indices) if return_indices else values


def _with_indices(pool: Callable[_P, Any], spatial: int) -> Callable[_P, tuple[Tensor, Tensor]]:
    def function(
        input: Tensor,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        return _pooled(spatial, input, kernel_size, output_size, output_ratio, _random_samples)

    return named_after(pool, function)


fractional_max_pool2d_with_indices = _with_indices(fractional_max_pool2d, 2)
fractional_max_pool3d_with_indices = _with_indices(fractional_max_pool3d, 3)
