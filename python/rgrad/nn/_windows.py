"""Functions of sliding windows: `unfold` and `fold`, pooling by a norm, and max unpooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad import _C
from rgrad._determinism import alert_not_deterministic

from ._distance import scalar_type
from ._ntuple import _pair, _single, _triple

Tensor = _C.Tensor
_nn = _C._nn


def _has_channels_last(x: Any, dims: Sequence[int]) -> bool:
    """Whether the strides grow along ``dims``, channels first: also of a part of a larger tensor.

    A batch of one or an image of one row fits both orders; then the stride of the batch decides.
    """
    shape, strides = x.shape, x.stride()
    least = 0
    for d in dims:
        if shape[d] == 0 or strides[d] < least or (d == 0 and least == strides[1]):
            return False
        least = strides[d] * shape[d]
    return strides[1] != 0


def is_channels_last(input: Tensor) -> bool:
    """Whether a tensor, which need not be dense, is laid out in channels-last order and no other."""
    dims = {4: (1, 3, 2, 0), 5: (1, 4, 3, 2, 0)}.get(input.dim())
    return dims is not None and not input.is_contiguous() and _has_channels_last(input, dims)


def laid_like(result: Tensor, input: Tensor) -> Tensor:
    """Converts a result to channels-last if ``input`` is laid out so. Slices in `vmap` have no layout of their own."""
    if is_channels_last(input) and not _C._is_batched(result):
        order = rgrad.channels_last if input.dim() == 4 else rgrad.channels_last_3d
        return result.contiguous(memory_format=order)
    return result


def _window_counts(
    size: Sequence[int], kernel: Sequence[int], dilation: Sequence[int], stride: Sequence[int]
) -> list[int]:
    """The number of windows per dimension; below 1 where the image is smaller than one."""
    return [(n - d * (k - 1) - 1) // s + 1 for n, k, d, s in zip(size, kernel, dilation, stride, strict=True)]


def _window_places(
    size: Sequence[int], kernel: Sequence[int], dilation: Sequence[int], stride: Sequence[int]
) -> tuple[Tensor, list[int]]:
    """The positions of the elements of every window in a flattened plane of ``size``.

    Returns:
        Positions of shape ``(kernel elements, windows)``, and the number of windows per dimension.
    """
    counts = _window_counts(size, kernel, dilation, stride)
    if min(counts) < 1:
        return rgrad.empty((0, 0), dtype=rgrad.int64), counts
    rows, columns = (
        rgrad.arange(k).unsqueeze(1) * d + rgrad.arange(c) * s
        for k, d, c, s in zip(kernel, dilation, counts, stride, strict=True)
    )
    places = rows[:, None, :, None] * size[1] + columns[None, :, None, :]
    return places.reshape(kernel[0] * kernel[1], -1), counts


def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The windows of an image, as columns.

    Shape:
        Input: ``(N, C, H, W)`` or without N. Output: ``(N, C * kernel elements, windows)``.

    Example:
        >>> rgrad.nn.functional.unfold(rgrad.zeros(1, 3, 10, 12), (4, 5)).shape
        torch.Size([1, 60, 56])
    """
    kernel, dilation, padding, stride = (_pair(v) for v in (kernel_size, dilation, padding, stride))
    if input.dim() not in (3, 4) or 0 in input.shape[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
            f"input, but got: {list(input.shape)}"
        )
    batched = input.dim() == 4
    x = input if batched else input.unsqueeze(0)
    if any(padding):
        x = _nn.pad(x, (padding[1], padding[1], padding[0], padding[0]))
    counts = _window_counts(x.shape[2:], kernel, dilation, stride)
    if min(counts) < 1:
        raise RuntimeError(
            f"Given input with spatial size ({', '.join(map(str, input.shape[-2:]))}), "
            f"kernel_size=({', '.join(map(str, kernel))}), dilation=({', '.join(map(str, dilation))}), "
            f"padding=({', '.join(map(str, padding))}), calculated shape of the "
            f"array of sliding blocks as ({', '.join(map(str, counts))}), but its components must be at least one."
        )
    if not (x.requires_grad and rgrad.is_grad_enabled()):
        # The windows are a view, whose derivative would add element by element.
        windows = x
        for dim in (0, 1):
            reach = dilation[dim] * (kernel[dim] - 1) + 1
            windows = windows.unfold(2 + dim, reach, stride[dim])[..., :: dilation[dim]]
        columns = windows.permute(0, 1, 4, 5, 2, 3).reshape(x.size(0), x.size(1) * math.prod(kernel), math.prod(counts))
        return columns if batched else columns.squeeze(0)
    places = _window_places(x.shape[2:], kernel, dilation, stride)[0].to(input.device)
    columns = x.flatten(2).index_select(2, places.flatten())
    columns = columns.view(x.size(0), x.size(1) * places.size(0), places.size(1))
    return columns if batched else columns.squeeze(0)


def fold(
    input: Tensor,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Tensor:
    """Sums windows back into an image: the transpose of :func:`unfold`.

    Shape:
        Input: ``(N, C * kernel elements, windows)`` or without N. Output: ``(N, C, *output_size)``.
    """
    size, kernel, dilation, padding, stride = (_pair(v) for v in (output_size, kernel_size, dilation, padding, stride))
    if input.dim() not in (2, 3) or 0 in input.shape[-2:]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for "
            f"input, but got: {list(input.shape)}"
        )
    batched = input.dim() == 3
    x = input if batched else input.unsqueeze(0)
    elements = kernel[0] * kernel[1]
    if x.size(1) % elements:
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={x.size(1)} and kernel_size=({kernel[0]}, {kernel[1]})."
        )
    padded = [n + 2 * p for n, p in zip(size, padding, strict=True)]
    places, counts = _window_places(padded, kernel, dilation, stride)
    if x.size(2) != counts[0] * counts[1]:
        raise RuntimeError(
            f"Given output_size=({size[0]}, {size[1]}), kernel_size=({kernel[0]}, {kernel[1]}), "
            f"dilation=({dilation[0]}, {dilation[1]}), padding=({padding[0]}, {padding[1]}), "
            f"stride=({stride[0]}, {stride[1]}), expected size of input's dimension 2 to match the calculated number "
            f"of sliding blocks {counts[0]} * {counts[1]} = {counts[0] * counts[1]}, but got "
            f"input.size(2)={x.size(2)}."
        )
    if min(counts) < 1:
        raise RuntimeError(
            f"Given output_size=({size[0]}, {size[1]}), kernel_size=({kernel[0]}, {kernel[1]}), "
            f"dilation=({dilation[0]}, {dilation[1]}), padding=({padding[0]}, {padding[1]}), "
            f"stride=({stride[0]}, {stride[1]}), calculated shape of the array of sliding blocks as "
            f"({counts[0]}, {counts[1]}), which is too small (non-positive)"
        )
    channels = x.size(1) // elements
    plane = x.new_zeros((x.size(0), channels, padded[0] * padded[1]))
    columns = x.reshape(x.size(0), channels, elements * x.size(2))
    image = plane.index_add(2, places.flatten().to(x.device), columns).view(x.size(0), channels, *padded)
    image = image[:, :, padding[0] : padding[0] + size[0], padding[1] : padding[1] + size[1]]
    return image if batched else image.squeeze(0)


def _lp_pool(spatial: int, input: Tensor, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool) -> Tensor:
    expand, average, largest = {
        1: (_single, _nn.avg_pool1d, _nn.max_pool1d),
        2: (_pair, _nn.avg_pool2d, _nn.max_pool2d),
        3: (_triple, _nn.avg_pool3d, _nn.max_pool3d),
    }[spatial]
    kernel = expand(kernel_size)
    step = kernel if stride is None else expand(stride)
    if norm_type == 0:
        raise ValueError(f"norm_type must be a non-zero value, but got {norm_type}")
    if abs(norm_type) == math.inf:
        sign = math.copysign(1, norm_type)
        return sign * largest(sign * input.abs(), kernel, step, 0, 1, ceil_mode)
    mean = average(input.pow(norm_type), kernel, step, 0, ceil_mode)
    return (mean.sign() * mean.abs().relu() * math.prod(kernel)).pow(1.0 / norm_type)


def lp_pool1d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The p-norm of each window of the last dimension."""
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The p-norm of each window of the last two dimensions."""
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The p-norm of each window of the last three dimensions."""
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


def _unpooled_size(
    input: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    output_size: Sequence[int] | None,
) -> list[int]:
    spatial = len(kernel)
    for name, given in (("kernel_size", kernel), ("stride", stride), ("padding", padding)):
        if len(given) != spatial:
            raise RuntimeError(
                f"There should be exactly {spatial} elements, one for each dimension, in {name}, but got: "
                f"{len(given)} elements."
            )
    usual = [
        (n - 1) * s + k - 2 * p for n, k, s, p in zip(input.shape[-spatial:], kernel, stride, padding, strict=True)
    ]
    if output_size is None:
        return usual
    wanted = list(output_size)[2:] if len(output_size) == spatial + 2 else list(output_size)
    if len(wanted) != spatial:
        raise ValueError(
            f"output_size should be a sequence containing {spatial} or {spatial + 2} elements, but it has a length "
            f"of '{len(wanted)}'"
        )
    for d, (n, s) in enumerate(zip(usual, stride, strict=True)):
        if not n - s < wanted[d] < n + s:
            raise ValueError(f'invalid output_size "{wanted}" (dim {d} must be between {n - s} and {n + s})')
    return wanted


def _max_unpool(
    spatial: int, input: Tensor, indices: Tensor, kernel_size: Any, stride: Any, padding: Any, output_size: Any
) -> Tensor:
    expand = (_single, _pair, _triple)[spatial - 1]
    kernel, padding = expand(kernel_size), expand(padding)
    step = kernel if stride is None else expand(stride)
    # PyTorch unpools one dimension as two, and the messages are those of two.
    seen, ranks = (3, (4, 5)) if spatial == 3 else (2, (3, 4))
    alert_not_deterministic(f"max_unpooling{seen}d_forward_out")
    if input.dim() - spatial + seen not in ranks:
        raise RuntimeError(
            f"Input to max_unpooling{seen}d should be a {ranks[0]}d or {ranks[1]}d Tensor, but got a tensor with "
            f"{input.dim() - spatial + seen} dimensions."
        )
    if spatial == 3 and min(step) <= 0:
        raise RuntimeError(f"strides should be greater than zero, but got stride: {list(step)}")
    size = _unpooled_size(input, kernel, step, padding, output_size)
    if input.shape != indices.shape:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(input.shape)}) but got indices "
            f"tensor with shape: {list(indices.shape)}"
        )
    if indices.dtype != rgrad.int64:
        raise RuntimeError(f"elements in indices should be type int64 but got: {scalar_type(indices)}")
    leading = input.shape[:-spatial]
    plane = input.new_zeros((*leading, math.prod(size)))
    try:
        plane = plane.scatter(-1, indices.flatten(-spatial), input.flatten(-spatial))
    except RuntimeError:
        wrong = indices[(indices < 0) | (indices >= plane.shape[-1])]
        if wrong.numel() == 0:
            raise
        volume = "x".join(map(str, [*size, 1] if spatial == 1 else size))
        raise RuntimeError(
            f"Found an invalid max index: {wrong[0].item()} (output volumes are of size {volume})"
        ) from None
    return laid_like(plane.view(*leading, *size), input)


def max_unpool1d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Places maxima at the positions where :func:`max_pool1d` found them, and zeros elsewhere."""
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Places maxima at the positions where :func:`max_pool2d` found them, and zeros elsewhere."""
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Places maxima at the positions where :func:`max_pool3d` found them, and zeros elsewhere."""
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)
