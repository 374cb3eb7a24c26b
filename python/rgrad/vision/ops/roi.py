"""Regions of images at one size."""

from __future__ import annotations

import math
from typing import Any

import rgrad
from rgrad import Tensor, nn

__all__ = ["RoIAlign", "RoIPool", "roi_align", "roi_pool"]

_CHUNK = 64  # regions at a time, so that what lies between needs little memory


def _pair(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[-1])


def _regions(boxes: Any) -> Tensor:
    """Rows (image, x1, y1, x2, y2)."""
    if isinstance(boxes, (list, tuple)):
        if any(part.dim() != 2 or part.shape[1] != 4 for part in boxes):
            raise AssertionError("The shape of the tensor in the boxes list is not correct as List[Tensor[L, 4]]")
        rows = [nn.functional.pad(part, (1, 0), value=float(image)) for image, part in enumerate(boxes)]
        return rgrad.cat(rows).detach()
    if boxes.dim() != 2 or boxes.shape[1] != 5:
        raise AssertionError("The boxes tensor shape is not correct as Tensor[K, 5]")
    return boxes.detach()


# Note [Regions as matrix products]
# An output of `roi_align` is a mean of values interpolated at a grid of points. The weight of a pixel at a point is the
# product of one for its row i, max(0, 1 - |y - i|), and one for its column. So the means over the points of an output
# are such products too, and the outputs of a region are the product of three matrices: weights of rows, the image, and
# weights of columns. Its derivative is the gradient.


def _hats(low: Tensor, size: Tensor, bins: int, ratio: int, pixels: int) -> Tensor:
    """The weight of each pixel row (or column) in each bin; see Note [Regions as matrix products].

    Args:
        low: where each region begins, (K,).
        size: how long it is, (K,).
        bins: number of bins.
        ratio: points in each bin; not positive for as many as it has pixels, rounded up.
        pixels: number of rows.

    Returns:
        A tensor of shape (K, bins, pixels).
    """
    step = (size / bins).view(-1, 1, 1)
    points = rgrad.full_like(step, ratio) if ratio > 0 else step.ceil().clamp(min=1)
    most = int(points.max())
    place = rgrad.arange(most, device=low.device, dtype=low.dtype)
    start = low.view(-1, 1, 1) + step * rgrad.arange(bins, device=low.device, dtype=low.dtype).view(1, -1, 1)
    at = start + (place + 0.5) * step / points
    counts = (place < points) & (at >= -1) & (at <= pixels)
    near = at.clamp(0, pixels - 1).unsqueeze(-1) - rgrad.arange(pixels, device=low.device, dtype=low.dtype)
    weight = (1 - near.abs()).clamp(min=0) * counts.unsqueeze(-1).to(low.dtype)
    return weight.sum(-2) / points


def roi_align(
    input: Any,
    boxes: Tensor | list[Tensor],
    output_size: Any,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:
    """Means of values interpolated within regions (He et al., 2017).

    Args:
        input: images, of shape (N, C, H, W).
        boxes: rows (number of the image, x1, y1, x2, y2), of shape (K, 5), or for each image its corners, (L, 4).
        output_size: height and width of the result, or both in one number.
        spatial_scale: what the corners are multiplied by.
        sampling_ratio: in each direction the points of which an output is the mean; by default as many as it has
            pixels, rounded up.
        aligned: whether pixels have their centers at halves, which is more exact.

    Returns:
        A tensor of shape (K, C, height, width). The gradient is that of the images only.
    """
    rows = _regions(boxes)
    height, width = _pair(output_size)
    if len(rows) == 0:
        return input.new_zeros((0, input.shape[1], height, width)) + 0 * input.sum()
    half = 0.5 if aligned else 0.0
    corners = rows[:, 1:].to(rgrad.promote_types(input.dtype, rgrad.float32)) * spatial_scale - half
    low, size = corners[:, :2], corners[:, 2:] - corners[:, :2]
    if not aligned:
        size = size.clamp(min=1.0)
    results: list[Tensor] = []
    images = rows[:, 0].to(rgrad.int64)
    places: list[Tensor] = []
    for image in images.unique().tolist():
        for part in (images == image).nonzero().squeeze(1).split(_CHUNK):
            down = _hats(low[part, 1], size[part, 1], height, sampling_ratio, input.shape[2])
            across = _hats(low[part, 0], size[part, 0], width, sampling_ratio, input.shape[3])
            picture = input[image].to(down.dtype)
            results.append(down.unsqueeze(1) @ (picture.unsqueeze(0) @ across.unsqueeze(1).transpose(-1, -2)))
            places.append(part)
    order = rgrad.cat(places).argsort()
    return rgrad.cat(results)[order].to(input.dtype)


def roi_pool(input: Any, boxes: Tensor | list[Tensor], output_size: Any, spatial_scale: float = 1.0) -> Tensor:
    """Maxima of the pixels within the bins of regions (Girshick, 2015).

    Args:
        input: images, of shape (N, C, H, W).
        boxes: as for `roi_align`.
        output_size: height and width of the result, or both in one number.
        spatial_scale: what the corners are multiplied by, before they are rounded.

    Returns:
        A tensor of shape (K, C, height, width); zero where a bin has no pixels.
    """
    rows = _regions(boxes)
    sizes = _pair(output_size)
    results: list[Tensor] = []
    for image, *corners in rows.tolist():
        left, top, right, bottom = (math.floor(abs(c) * spatial_scale + 0.5) * (1 if c >= 0 else -1) for c in corners)
        picture = input[int(image)]
        down = _bins(top, bottom, sizes[0], picture.shape[1])
        across = _bins(left, right, sizes[1], picture.shape[2])
        lines = [_greatest(picture[:, begin:end], 1) for begin, end in down]
        cells = [_greatest(line[:, begin:end], 1) for line in lines for begin, end in across]
        results.append(rgrad.stack(cells, -1).view(picture.shape[0], *sizes))
    return rgrad.stack(results) if results else input.new_zeros((0, input.shape[1], *sizes))


def _bins(first: int, last: int, count: int, pixels: int) -> list[tuple[int, int]]:
    step = max(last - first + 1, 1) / count
    edges = [(math.floor(place * step) + first, math.ceil((place + 1) * step) + first) for place in range(count)]
    return [(min(max(begin, 0), pixels), min(max(end, 0), pixels)) for begin, end in edges]


def _greatest(values: Tensor, dim: int) -> Tensor:
    """The maximum along a dimension, or zero if it is empty."""
    return values.max(dim).values if values.shape[dim] else values.sum(dim)


class RoIAlign(nn.Module):
    """`roi_align` as a module; the arguments are its."""

    def __init__(self, output_size: Any, spatial_scale: float, sampling_ratio: int, aligned: bool = False) -> None:
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale
        self.sampling_ratio, self.aligned = sampling_ratio, aligned

    def forward(self, input: Tensor, rois: Any) -> Tensor:
        """Maps (N, C, H, W) to (K, C, height, width)."""
        return roi_align(input, rois, self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(output_size={self.output_size}, spatial_scale={self.spatial_scale}, "
            f"sampling_ratio={self.sampling_ratio}, aligned={self.aligned})"
        )


class RoIPool(nn.Module):
    """`roi_pool` as a module; the arguments are its."""

    def __init__(self, output_size: Any, spatial_scale: float) -> None:
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale

    def forward(self, input: Tensor, rois: Any) -> Tensor:
        """Maps (N, C, H, W) to (K, C, height, width)."""
        return roi_pool(input, rois, self.output_size, self.spatial_scale)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(output_size={self.output_size}, spatial_scale={self.spatial_scale})"
